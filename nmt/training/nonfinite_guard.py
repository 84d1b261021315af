"""Skip steps with a NaN or infinite loss or gradient, and report gradients far longer than usual."""

import json
import logging
import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pytorch_lightning.utilities import rank_zero_only

from nmt.errors import ConfigurationError, UserError
from nmt.system.files import write_text

log = logging.getLogger(__name__)

WINDOW = 100  # steps whose gradient norms say what is usual
FEWEST = 20  # norms before any can be called unusual
LOGGED = 3  # spikes in the log; where nearly all is learned, any rare batch is one, so the rest go to the file alone


class NonfiniteGuard:
    """Decide for each step whether the optimizer may take it.

    Args:
        path: a JSON line is written here for each skipped step and each spike, with the sentences of its batch.
        most_in_a_row: the run ends after so many skipped steps in a row.
        spike: a gradient norm is a spike if it is so many times the median of those before it.
    """

    def __init__(self, *, path: str, most_in_a_row: int, spike: float):
        if most_in_a_row < 1 or spike <= 1:
            raise ConfigurationError(
                f"finite.most_in_a_row={most_in_a_row}, finite.spike={spike}: at least one step, and a factor above 1"
            )
        self.path, self.most_in_a_row, self.spike = Path(path), most_in_a_row, spike
        self.skipped = self.in_a_row = self.spikes = 0
        self.norms: deque[float] = deque(maxlen=WINDOW)

    def allows(
        self, loss: float, norm: float, step: int, find_sentences: Callable[[], list[int]], explain: Callable[[], str]
    ) -> bool:
        """Return whether the step may be taken, and report what is unusual.

        Loss and norm are those of all ranks, before clipping. So all ranks call `find_sentences` for the same steps.
        `explain` names a cause if too many steps in a row are skipped, and none was taken before.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            if len(self.norms) >= FEWEST and norm > self.spike * median(self.norms):
                self.spikes += 1
                self._report("gradient spike", step, loss, norm, find_sentences(), logs=self.spikes <= LOGGED)
            self.norms.append(norm)
            return True
        self.skipped += 1
        self.in_a_row += 1
        self._report("step skipped", step, loss, norm, find_sentences(), logs=True)
        if self.in_a_row < self.most_in_a_row:
            return False
        if not self.norms:
            raise UserError(
                f"the loss or its gradient was NaN or infinite in all {self.in_a_row} steps, so optimizer.lr is not "
                f"the cause. {explain()}"
            )
        raise UserError(
            f"the loss or its gradient was NaN or infinite in {self.in_a_row} steps in a row, up to step {step}. "
            f"Fix: lower optimizer.lr or trainer.gradient_clip_val, or look at the sentences in {self.path}; "
            "checkpoints hold the weights from before"
        )

    @rank_zero_only
    def drop_reports_from(self, step: int) -> None:
        """Remove the reports on steps that a resumed run repeats."""
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            write_text(self.path, "".join(line for line in lines if _is_before(line, step)))

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {"skipped": self.skipped, "in_a_row": self.in_a_row, "spikes": self.spikes, "norms": list(self.norms)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what a checkpoint stores."""
        self.skipped, self.in_a_row, self.spikes = (state[name] for name in ("skipped", "in_a_row", "spikes"))
        self.norms = deque(state["norms"], maxlen=WINDOW)

    @rank_zero_only
    def _report(self, event: str, step: int, loss: float, norm: float, sentences: list[int], *, logs: bool) -> None:
        if logs:
            usual = f", usually {median(self.norms):.3g}" if self.norms else ""
            log.warning(
                "%s at step %d: loss %.4g, gradient norm %.4g%s; see %s", event, step, loss, norm, usual, self.path
            )
            if self.spikes == LOGGED and event == "gradient spike":
                log.warning("further gradient spikes are written to %s only", self.path)
        report = {"what": event, "step": step, "loss": _as_json(loss), "gradient_norm": _as_json(norm)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(report | {"sentences": sentences}) + "\n")


def _as_json(value: float) -> float | str:
    """Return a number, or the text nan or inf, which JSON cannot write as numbers."""
    return value if math.isfinite(value) else str(value)


def _is_before(line: str, step: int) -> bool:
    is_complete = line.endswith("\n")  # a killed process may have left half a line
    try:
        return is_complete and json.loads(line)["step"] < step
    except (ValueError, LookupError, TypeError):  # damaged
        return False
