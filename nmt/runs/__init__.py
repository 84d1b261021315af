"""A run on disk: its folder, checkpoint files, process, the code that made it, and how a command continues it."""
