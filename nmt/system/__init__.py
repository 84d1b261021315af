"""The operating system: locks, atomic files, signals, hardware, memory. Nothing here knows of translation."""
