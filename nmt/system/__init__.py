"""The operating system: locks, atomic and untrusted files, signals, hardware, memory; nothing of translation."""
