"""Report a prepared corpus: its counts, and warnings and errors about data that is surely wrong."""

import json
import logging
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from nmt.data.parallel_text import SIDES
from nmt.data.vocabulary import SPECIAL
from nmt.errors import DataError

log = logging.getLogger(__name__)

About = Mapping[str, Any]  # the content of about.json

COPIES = 0.9  # share of training pairs with one text on both sides
MANY_UNKNOWN, NEARLY_ALL_UNKNOWN = 0.5, 0.95  # shares of the words of one side
KNOWN_PAIRS = 0.5  # share of held-out pairs that the training text contains
FEWEST_OCCURRENCES, ENOUGH_OCCURRENCES = 5, 20  # in the training text, of an entry of the vocabulary on average


@cache
def report_corpus(folder: Path) -> None:
    """Log counts and warnings of a prepared corpus, once in a process.

    Raises:
        DataError: No training on this corpus makes sense.
    """
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    message = "%s: %d pairs, unknown words %.2f %% / %.2f %%, %d blank pairs dropped"
    for split in ("train", "valid"):
        counts = about[split]
        rates = [100 * counts[f"{side}_unknown_rate"] for side in SIDES]
        log.info(message, split, counts["pairs"], *rates, counts["blank_pairs_dropped"])
    if error := next(_find_errors(about), None):
        raise DataError(error)
    for warning in chain(_find_wrong_text(about), _find_leaks(about), _find_large_vocabularies(about)):
        log.warning("%s", warning)


def _find_errors(about: About) -> Iterator[str]:
    """Yield problems with which no training makes sense."""
    languages = {side["language"] for side in about["settings"]["preprocessing"]}
    if _are_copies(about) and len(languages) > 1:
        yield f"{_describe_copies(about)}. Fix: name the file with the translations"
    if "valid" in about["swapped"]:
        yield "data.valid: source and target are swapped, compared with data.train. Fix: swap the files of one of them"
    for side in SIDES:
        if (rate := about["train"][f"{side}_unknown_rate"]) > NEARLY_ALL_UNKNOWN:
            yield f"{_describe_unknown('train', side, rate)}, so nothing can be learned. Fix: {_fix_unknown(about)}"


def _find_wrong_text(about: About) -> Iterator[str]:
    if _are_copies(about):
        yield f"{_describe_copies(about)}, so the model learns to copy"
    for name in about["swapped"]:
        yield f"data.tests.{name}: source and target are swapped, compared with data.train. Fix: swap its files"
    for side in SIDES:
        rates = {split: about[split][f"{side}_unknown_rate"] for split in ("train", "valid")}
        if rates["train"] > MANY_UNKNOWN:
            yield f"{_describe_unknown('train', side, rates['train'])}. Fix: {_fix_unknown(about)}"
        elif rates["valid"] > MANY_UNKNOWN:
            yield (
                f"{_describe_unknown('valid', side, rates['valid'])}, and of the training text "
                f"{100 * rates['train']:.0f} %. Fix: name a text in data.valid of the language of data.train"
            )


def _are_copies(about: About) -> bool:
    return about["train"]["copies"] > COPIES * about["train"]["pairs"]


def _describe_copies(about: About) -> str:
    return "data.train: {copies} of {pairs} pairs have the same text as source and target".format(**about["train"])


def _describe_unknown(split: str, side: str, rate: float) -> str:
    return f"data.{split}: {100 * rate:.0f} % of the {side} words are unknown"


def _fix_unknown(about: About) -> str:
    vocabulary = about["settings"]["vocabulary"]
    if isinstance(vocabulary, list):
        return "name a text in the languages of the run whose vocabularies are used (data.vocabulary.run)"
    return f"lower data.vocabulary.minimum_count={vocabulary['minimum_count']}, or raise data.vocabulary.size"


def _find_leaks(about: About) -> Iterator[str]:
    for name, reason in about["unread_tests"].items():
        yield f"{name}: cannot be read, so leaks into the training text were not checked: {reason}"
    for name, leak in about["leaks"].items():
        if leak["source_in_train"] or leak["target_in_train"]:
            known = leak["pair_in_train"] > KNOWN_PAIRS * leak["sentences"]
            consequence = (
                ", so its scores do not show how new text is translated. Fix: choose other text" if known else ""
            )
            yield (
                "{name}: of {sentences} sentences, the training text contains {source_in_train} sources, "
                "{target_in_train} targets and {pair_in_train} pairs{consequence}"
            ).format(name=name, consequence=consequence, **leak)


def _find_large_vocabularies(about: About) -> Iterator[str]:
    """Yield learned vocabularies whose entries occur too rarely in the training text to be learned."""
    settings = about["settings"]["vocabulary"]
    if isinstance(settings, list):  # the vocabularies of another run
        return
    counts = {side: about["train"][f"{side}_pieces"] for side in SIDES}
    if settings["joint"]:
        counts = {"joint": sum(counts.values())}
    for side, count in counts.items():
        size = about["vocabulary_sizes"]["source" if settings["joint"] else side] - len(SPECIAL)
        if count < FEWEST_OCCURRENCES * size:
            smaller = max(count // ENOUGH_OCCURRENCES, 1) + len(SPECIAL)
            # because fewer words leave more unknown ones
            kind = "data.vocabulary.kind=bpe " if settings["kind"] == "words" else ""
            yield (
                f"data.vocabulary.size={settings['size']}: the {side} vocabulary has {size} entries, which occur "
                f"{count / size:.1f} times on average in the training text, too rarely to be learned. "
                f"Fix: {kind}data.vocabulary.size={smaller}"
            )
