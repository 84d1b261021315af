"""Read the composed settings of a run: its configuration, and what was chosen from each config group."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.report.load.run_folder import RunFolder
from nmt.report.load.safe_files import UnreadableError, read_or_note, read_text, read_yaml
from nmt.runs.folder import CHOICES, CONFIG, name_of_test


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run."""

    config: dict[str, Any]  # interpolations unresolved; empty: not known
    text: str  # of the configuration file
    choices: dict[str, str]  # by config group; empty: not known
    notes: tuple[str, ...] = ()

    @property
    def seed(self) -> int | None:
        """The seed of the weights; None if it is missing or not a number."""
        seed = self.config.get("seed")
        return seed if isinstance(seed, int) else None

    @property
    def seeds(self) -> tuple[int | None, int | None]:
        """The seeds of the weights and of the order of batches, which is the same unless it is set."""
        order = self._data.get("seed")
        return self.seed, order if isinstance(order, int) else self.seed

    @property
    def test(self) -> str | None:
        """The test set that the run is evaluated on by default; None if it is not known."""
        return name_of_test(self._data.get("test")) if isinstance(self.config.get("data"), Mapping) else None

    def has_test(self, name: str) -> bool:
        """Return True if the settings define a test set of this name."""
        tests = self._data.get("tests")
        return name == "valid" or (isinstance(tests, Mapping) and name in tests)

    @property
    def _data(self) -> Mapping[str, Any]:
        data = self.config.get("data")
        return data if isinstance(data, Mapping) else {}


def read_settings(run: RunFolder) -> RunSettings:
    """Read the settings of a run; where they are damaged, return none and a note."""
    path = run.training / CONFIG
    config, notes = read_or_note(lambda: read_yaml(path), "its settings are not known", {})
    config = config if isinstance(config, dict) else {}
    text = read_text(path, CONFIG) if config else ""
    return RunSettings(config, text, read_choices(run.training), notes if run.trained else ())


def read_choices(folder: Path) -> dict[str, str]:
    """Return the choice of each config group, as Hydra stored it; empty if it cannot be read."""
    try:
        choices = read_yaml(folder / CHOICES)["hydra"]["runtime"]["choices"]
    except (UnreadableError, LookupError, TypeError):
        return {}
    items = choices.items() if isinstance(choices, dict) else ()
    return {str(group): str(choice) for group, choice in items if choice is not None}
