"""The operating system: locks, atomic and untrusted files, signals, hardware, memory. Nothing here knows of translation."""
