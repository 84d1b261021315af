"""The aligner: eflomal (Östling and Tiedemann 2016), which links the words of sentence pairs.

It (package sil-thot) gets ids instead of words, because it gives some words a special meaning. It runs in a separate
process with one thread, because with more threads the order of its sums changes from run to run. Text streams through
files. The aligner holds all of it in memory, about 0.6 KB a pair of captions. It gives no links to sentences of more
than 1,024 words.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from nmt.data.word_alignments import Links, read_pharaoh
from nmt.errors import DataError, UserError, is_importable
from nmt.system.files import name_in_errors
from nmt.system.progress_bar import make_progress_bar

# benchmarks/aligners.py compares ways to link words; this one was best.
ALIGNER = "sil-thot==3.5.3"
SEED = 1351155463  # the aligner's own

# Writes a line for each pair, with tabs between the links of each direction and of both joined.
ALIGN = """
import sys
from thot import alignment

def train(source, target):
    model = alignment.EflomalAlignmentModel()
    model.num_samplers, model.seed = int(samplers), int(seed)
    model.emit_training_alignments = True
    model.read_sentence_pairs(source, target)
    model.start_training()
    for _ in range(model.scheduled_iterations):
        model.train()
        print(model.scheduled_iterations, flush=True)  # progress; fails if the process that reads it was killed
    model.end_training()
    return model

def format(matrix):
    return " ".join(f"{i}-{j}" for i, j in zip(*matrix.nonzero()))

source, target, links, samplers, seed = sys.argv[1:]
forward, backward = train(source, target), train(target, source)
both = alignment.SymmetrizedAlignmentModel(forward, backward)
both.heuristic = alignment.SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
with open(links, "w") as out:
    for number in range(both.num_sentence_pairs):
        one, other, joined = (model.get_training_alignment(number)[1].to_numpy() for model in (forward, backward, both))
        print(format(one), format(other.T), format(joined), sep="\\t", file=out)
"""


class WordLinks(NamedTuple):
    """The links of a sentence pair: those of each direction, and both joined by grow-diag-final-and."""

    forward: Links  # at most one source word for each target word
    backward: Links  # at most one target word for each source word
    joined: Links


def check_aligner() -> None:
    """Refuse to go on without the aligner."""
    if not is_importable("thot"):
        raise UserError(f"no aligner (extra: align) is installed. Fix: pip install {ALIGNER}")


def link_pairs(
    pairs: Iterable[tuple[str, str]], *, samplers: int = 1, seed: int = SEED
) -> Iterator[tuple[list[str], list[str], WordLinks]]:
    """Align sentence pairs; yield the words of each pair and its links, none if a side is empty.

    Args:
        pairs: Sentence pairs, their words separated by spaces.
        samplers: The aligner's samplers, whose probabilities are averaged: more are slower and better.
        seed: The seed of the samplers.
    """
    check_aligner()
    with tempfile.TemporaryDirectory(prefix="aligner_") as name:
        folder = Path(name)
        with name_in_errors(folder):
            words = _write_ids(pairs, folder)
        _align(folder, samplers, seed)
        with open(folder / "source") as sources, open(folder / "target") as targets, open(folder / "links") as links:
            for *sides, line in zip(sources, targets, links, strict=True):
                source, target = ([words[int(word)] for word in side.split()] for side in sides)
                yield source, target, WordLinks(*map(read_pharaoh, line.split("\t")))


def _write_ids(pairs: Iterable[tuple[str, str]], folder: Path) -> list[str]:
    """Write the aligner's input, a file for each side; return the words in the order of their ids."""
    ids: dict[str, int] = {}
    empty = True
    with open(folder / "source", "w") as sources, open(folder / "target", "w") as targets:
        for pair in pairs:
            source, target = ([ids.setdefault(word, len(ids)) for word in side.split()] for side in pair)
            empty = empty and not (source and target)
            print(*source, file=sources)
            print(*target, file=targets)
    if empty:
        raise DataError(
            "data: no pair has words on both sides, so the aligner has nothing to learn from. "
            "Fix: check data.train.source and data.train.target"
        )
    return list(ids)


def _align(folder: Path, samplers: int, seed: int) -> None:
    files = [str(folder / name) for name in ("source", "target", "links")]
    # -P, because Python would import modules of the working directory otherwise
    command = [sys.executable, "-P", "-c", ALIGN, *files, str(samplers), str(seed)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with (
        open(folder / "errors", "w+") as errors,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        make_progress_bar(" iterations of the aligner") as progress,
    ):
        try:
            for iterations in process.stdout:
                progress.total = 2 * int(iterations)  # because each direction is a model
                progress.update()
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            message = errors.read().strip().rpartition("\n")[2] or "no message; perhaps there was too little memory"
            status = f"{ALIGNER} ended with status {process.returncode}"
            raise UserError(f"the aligner {status}: {message} (it wrote to {folder.parent})")
