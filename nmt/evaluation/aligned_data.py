"""Link the words of a data set by an aligner: a file of links for each text, and how good they are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from nmt.data.aligner import ALIGNER, WordLinks, link_pairs
from nmt.data.datamodule import TranslationData
from nmt.data.parallel_text import Pairs, Sides
from nmt.data.preprocess_pool import PreprocessPool
from nmt.data.word_alignments import Gold, Links, format_gold
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation.alignment_error import link_scores
from nmt.evaluation.attention_alignment import check_positions, map_words
from nmt.system.files import atomic_write, write_json


class GoldPair(NamedTuple):
    """The gold links of a pair, and for each side the parts of its words: (model words, words of the links)."""

    gold: Gold
    parts: Sides


NO_LINKS = WordLinks(set(), set(), set())
METHODS = {
    "forward": lambda links: links.forward,
    "backward": lambda links: links.backward,
    "intersection": lambda links: links.forward & links.backward,
    "grow-diag-final-and": lambda links: links.joined,
}


def align_data(data: TranslationData, folder: Path, *, samplers: int, seed: int) -> dict[str, Any]:
    """Align all texts together; write KEY.links for each and about.json.

    The words are those that the model sees: preprocessed, before they are cut into pieces.

    Returns:
        The content of about.json: what made the links, the digests of the texts, the numbers of links, and their error
        in test sets with gold links.
    """
    figures = {}
    with data.hint_at_missing_files(), PreprocessPool(data.preprocessing) as pool:
        texts = data.texts()
        versions = {key: text.file_versions() for key, text in texts.items()}
        digests = {key: text.identity() for key, text in texts.items()}
        tests = {key: text for key, text in texts.items() if key.startswith("tests.")}
        _keep_gold(folder, tests)
        gold_pairs = {key: read_gold_words(text, data.preprocessing) for key, text in tests.items()}
        pairs = chain.from_iterable(map(pool.preprocess, texts.values()))
        aligned = (links for *_, links in link_pairs(pairs, samplers=samplers, seed=seed))
        aligned = chain([next(aligned)], aligned)  # because a text that cannot be read leaves no folder
        folder.mkdir(parents=True, exist_ok=True)
        for key, text in texts.items():
            links = _write_links(folder / f"{key}.links", text, aligned)
            if gold := gold_pairs.get(key):
                links = list(links)
                figures[key] = count_links(links) | {"scores": score_methods(links, gold)}
            else:
                figures[key] = count_links(links)
    versions_now = {key: text.file_versions() for key, text in texts.items()}
    if versions_now != versions or digests != {key: text.identity() for key, text in texts.items()}:
        for key in texts:
            (folder / f"{key}.links").unlink()
        raise DataError("data: a text changed while it was aligned, so no links are kept. Fix: give the command again")
    about = {"aligner": ALIGNER, "samplers": samplers, "seed": seed, "digests": digests, "texts": figures}
    write_json(folder / "about.json", about)
    return about


def _keep_gold(folder: Path, tests: Mapping[str, Pairs]) -> None:
    """Raise ConfigurationError if a file of links would replace gold links."""
    for key, text in tests.items():
        path = folder / f"{key}.links"
        if path.resolve() in [place.resolve() for place in text.places() if isinstance(place, Path)]:
            raise ConfigurationError(f"output={folder}: would replace {path}, which is read. Fix: another output=")


def _write_links(path: Path, text: Pairs, aligned: Iterator[WordLinks]) -> Iterator[WordLinks]:
    """Write a line for each line of a text, and yield the links of each pair: sure ones are in both directions."""
    with atomic_write(path) as draft, draft.open("w") as file:
        for is_kept in text.kept_lines():
            if is_kept:
                links = next(aligned, NO_LINKS)  # none are left where the text has grown, which is refused later
                file.write(format_gold(Gold(links.forward & links.backward, links.joined)))
                yield links
            file.write("\n")


def count_links(aligned: Iterable[WordLinks]) -> dict[str, float]:
    """Return the numbers of pairs and links, and the agreement: 2 |A ∩ B| / (|A| + |B|) of both directions, in %."""
    counts = Counter(pairs=0, sure=0, possible=0, both=0)
    for forward, backward, joined in aligned:
        sure = len(forward & backward)
        counts.update(pairs=1, sure=sure, possible=len(joined), both=len(forward) + len(backward))
    both = counts.pop("both")
    return counts | {"agreement": 200 * counts["sure"] / both if both else 0.0}


def read_gold_words(text: Pairs, preprocessing: Sides) -> list[GoldPair]:
    """Return the gold links of each pair, with the parts of its words; an empty list without gold links."""
    pairs = []
    for number, (pair, gold) in enumerate(zip(text, text.gold() or [], strict=False), start=1):
        sides = zip(pair, preprocessing, strict=True)
        parts = Sides(*(map_words(number, line, side, text.alignments_words) for line, side in sides))
        check_positions(number, gold, (parts.target.shape[1], parts.source.shape[1]))
        pairs.append(GoldPair(gold, parts))
    return pairs


def score_methods(aligned: Sequence[WordLinks], pairs: Sequence[GoldPair]) -> dict[str, dict[str, float]]:
    """Return the scores of each direction, and of each way to join both, against gold links."""
    gold, parts = zip(*pairs, strict=True)
    return {
        name: link_scores(list(map(_to_gold_words, map(method, aligned), parts)), gold)
        for name, method in METHODS.items()
    }


def _to_gold_words(links: Links, parts: Sides) -> Links:
    """Turn links of the model's words into links of the words whose parts they are."""
    sides = [[row.nonzero()[0].tolist() for row in side] for side in parts]
    return {(i, j) for source, target in links for i in sides[0][source] for j in sides[1][target]}
