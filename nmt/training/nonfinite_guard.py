"""Steps whose loss or gradient is no number: left out, counted, and told; and gradients far longer than usual."""

import json
import logging
import math
from collections import deque
from pathlib import Path
from statistics import median
from typing import Any

from nmt.errors import ConfigurationError, UserError
from nmt.system.files import write_text

log = logging.getLogger(__name__)

USUAL = 100  # steps whose gradients say what is usual
SURE = 20  # before that nothing is
LOUD = 3  # spikes that the terminal hears of: where nearly all is learned, whatever is not is one


class Finite:
    """most_in_a_row: after so many steps left out in a row the run ends. spike: a gradient so many times as long as the
    median of those before it is reported. Each writes a line to `path`: what happened, and in which batch; the first
    spikes are told on the terminal too.
    """

    def __init__(self, *, path: str, most_in_a_row: int, spike: float):
        if most_in_a_row < 1 or spike <= 1:
            raise ConfigurationError(
                f"finite.most_in_a_row={most_in_a_row}, finite.spike={spike}: at least one step, and a factor above 1"
            )
        self.path, self.most_in_a_row, self.spike = Path(path), most_in_a_row, spike
        self.left_out = self.in_a_row = self.spikes = 0
        self.norms: deque[float] = deque(maxlen=USUAL)

    def is_unusual(self, loss: float, norm: float) -> bool:
        return not (math.isfinite(loss) and math.isfinite(norm)) or self._is_spike(norm)

    def _is_spike(self, norm: float) -> bool:
        return len(self.norms) >= SURE and norm > self.spike * median(self.norms)

    def passes(self, loss: float, norm: float, step: int, sentences: list[int], *, writes: bool) -> bool:
        """Whether the step may be taken; `sentences` are needed only where it is unusual."""
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            if self._is_spike(norm):
                self.spikes += 1
                self._tell("gradient spike", step, loss, norm, sentences, writes, aloud=self.spikes <= LOUD)
                if self.spikes == LOUD and writes:
                    log.warning("further gradient spikes are told of in %s alone", self.path)
            self.norms.append(norm)
            return True
        self.left_out += 1
        self.in_a_row += 1
        self._tell("step left out", step, loss, norm, sentences, writes)
        if self.in_a_row >= self.most_in_a_row:
            raise UserError(
                f"the loss or its gradient was no number in {self.in_a_row} steps one after another, up to step {step} "
                f"(their sentences stand in {self.path}): lower optimizer.lr or trainer.gradient_clip_val, or look at "
                "these sentences; checkpoints hold the weights from before"
            )
        return False

    def _tell(
        self, what: str, step: int, loss: float, norm: float, sentences: list[int], writes: bool, aloud: bool = True
    ) -> None:
        if not writes:
            return
        if aloud:
            usual = f", usually {median(self.norms):.3g}" if self.norms else ""
            said = f"{what} at step {step}: loss {loss:.4g}, gradient norm {norm:.4g}{usual}"
            log.warning("%s; see %s", said, self.path)
        told = {"what": what, "step": step, "loss": _told(loss), "gradient_norm": _told(norm), "sentences": sentences}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    def begin(self, step: int) -> None:
        """What was told of steps that are made again is told again."""
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            write_text(self.path, "".join(line for line in lines if _is_before(line, step)))

    def state_dict(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in ("left_out", "in_a_row", "spikes")}
        return counts | {"norms": list(self.norms)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.left_out, self.in_a_row, self.spikes = (state[name] for name in ("left_out", "in_a_row", "spikes"))
        self.norms = deque(state["norms"], maxlen=USUAL)


def _told(value: float) -> float | str:
    """JSON has no nan and inf."""
    return value if math.isfinite(value) else str(value)


def _is_before(line: str, step: int) -> bool:
    """A line that was not finished is no line."""
    return line.endswith("\n") and json.loads(line)["step"] < step
