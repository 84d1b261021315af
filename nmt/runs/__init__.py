"""A run on disk: its folder, its checkpoint files, its process, and the code that made it."""
