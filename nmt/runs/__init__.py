"""A run on disk: its folder, its checkpoint files, its process, the code that made it, and how a command continues it."""
