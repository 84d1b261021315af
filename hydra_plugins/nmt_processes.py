"""Where Hydra looks for launchers; the launcher is in nmt/launch/process_launcher.py."""

from nmt.launch.process_launcher import ProcessLauncher as _ProcessLauncher


class ProcessLauncher(_ProcessLauncher):
    """Only classes defined here are taken for plugins."""
