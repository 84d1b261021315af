"""Make the launcher visible to Hydra, which searches hydra_plugins/; its code is in nmt/launch/process_launcher.py."""

from nmt.launch.process_launcher import ProcessLauncher as _ProcessLauncher


class ProcessLauncher(_ProcessLauncher):
    """A subclass, because Hydra registers only classes that a plugin module defines."""
