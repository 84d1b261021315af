"""The Python interface, `from nmt import load, compare`: the same work as the commands of nmt/cli."""
