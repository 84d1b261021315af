"""Where Hydra looks for launchers; the launcher itself is nmt/launch/local.py."""

from nmt.launch.local import ProcessLauncher as _ProcessLauncher


class ProcessLauncher(_ProcessLauncher):
    """Only classes defined here are taken for plugins."""
