"""Write the results of an evaluation: translations, alignments and scores."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nmt.data.parallel_text import SentencePair
from nmt.evaluation.attention_alignment import AlignmentScores, mark_gold
from nmt.evaluation.comet import keep_comet
from nmt.evaluation.mechanism_page import render_mechanism
from nmt.evaluation.test_set import TestSet
from nmt.evaluation.translated_set import TranslatedSet
from nmt.runs.folder import LOCK, SCORES
from nmt.system.files import dump_json, write_json, write_text
from nmt.system.locks import lock_file
from nmt.translate.alignment import format_pharaoh, link_words
from nmt.translate.text_translator import Translation

FORCED_LINKS, FORCED_ALIGNMENTS = "forced_links.txt", "forced_alignments.npz"
TRACES, MECHANISM = "traces.npz", "mechanism.json"
OPTIONAL = (  # files that only some evaluations write, so those of an earlier one are removed
    FORCED_LINKS, FORCED_ALIGNMENTS, TRACES, MECHANISM, "mechanism.html", "alignment_*.png"
)  # fmt: skip
DRAFT = ".draft"  # the folder of files that are being written
DRAWN = 3  # translations on the page of the mechanism
LARGEST = float(np.finfo(np.float16).max)


def write_results(
    folder: Path,
    test: TestSet,
    translated: TranslatedSet,
    alignments: AlignmentScores | None,
    scores: dict[str, Any],
    figures: dict[str, Any] | None = None,
    *,
    heatmaps: int = 0,
) -> None:
    """Replace all result files of a folder, or none if writing fails. One process at a time replaces them.

    scores.json goes first and comes last: if it exists, all files are of one evaluation.

    Args:
        folder: The folder.
        test: The test set.
        translated: Its translations.
        alignments: Its forced alignments, if it has gold links.
        scores: The content of scores.json, to which COMET of the same translations is added.
        figures: The content of mechanism.json.
        heatmaps: The number of translations, from the first, whose alignments are drawn.
    """
    links = (format_pharaoh(link_words(translation.word_alignment())) for translation in translated.translations)
    references = zip(*test.references, strict=True)
    message = f"{folder}: another process writes its results there; waiting for it"
    folder.mkdir(parents=True, exist_ok=True)
    with lock_file(folder / LOCK, message=message), _make_draft(folder / DRAFT) as draft:
        _write_lines(draft / "hypotheses.txt", translated.texts)
        _write_lines(draft / "links.txt", links)
        if alignments:
            _write_lines(draft / FORCED_LINKS, (format_pharaoh(sorted(links)) for links in alignments.links))
        if alignments and test.alignments_words == "text":  # because a comparison draws them between these words
            pairs = zip(test.gold, alignments.weights, strict=True)
            forced = [{"weights": weights, "gold": mark_gold(gold, weights.shape)} for gold, weights in pairs]
            _write_named_arrays(draft / FORCED_ALIGNMENTS, forced)
        _write_lines(draft / "sentences.jsonl", map(_to_json, test.pairs, references, translated.translations))
        arrays = {str(number): one.alignment.astype(np.float16) for number, one in enumerate(translated.translations)}
        np.savez(draft / "alignments.npz", **arrays)
        _write_named_arrays(draft / TRACES, [translation.traces for translation in translated.translations])
        if figures:
            write_json(draft / MECHANISM, figures)
            title = f"{folder.parent.name}, {test.name}: what the mechanism does"
            page = render_mechanism(title, figures, translated.translations[:DRAWN])
            write_text(draft / "mechanism.html", page)
        for number, translation in enumerate(translated.translations[:heatmaps]):
            if translation.alignment.size:
                _draw_heatmap(draft / name_heatmap(number), translation)
        if comet := keep_comet(folder, test, translated.texts):
            scores["scores"] |= comet
        write_json(draft / SCORES, scores)
        for old in (folder / SCORES, *(path for name in OPTIONAL for path in folder.glob(name))):
            old.unlink(missing_ok=True)
        for path in sorted(draft.iterdir(), key=lambda path: path.name == SCORES):
            path.replace(folder / path.name)


@contextmanager
def _make_draft(draft: Path) -> Iterator[Path]:
    """Yield a new folder, and remove it at the end; a killed process may have left it."""
    if draft.is_symlink() or draft.is_file():  # a run from somebody else may have one
        draft.unlink()
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def name_heatmap(number: int) -> str:
    """Return the name of the file with the alignment of a translation."""
    return f"alignment_{number}.png"


def _draw_heatmap(path: Path, translation: Translation) -> None:
    from nmt.evaluation.heatmap import draw_heatmap  # imported here, because matplotlib is slow to import

    draw_heatmap(translation.source, translation.target, translation.alignment).savefig(path, dpi=150)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))


def _write_named_arrays(path: Path, sentences: list[dict[str, np.ndarray]]) -> None:
    """Write the arrays of each sentence under NAME/NUMBER, if there are any; float16, as alignments."""
    arrays = {
        f"{name}/{number}": values.clip(-LARGEST, LARGEST).astype(np.float16)
        for number, sentence in enumerate(sentences)
        for name, values in sentence.items()
    }
    if arrays:
        np.savez_compressed(path, **arrays)


def _to_json(pair: SentencePair, references: tuple[str, ...], translation: Translation) -> str:
    """Return the line of sentences.jsonl that the comparison of systems shows."""
    values = translation.to_dict(alignment=False)
    further = {"further_references": references[1:]} if len(references) > 1 else {}
    sentence = {"source": pair.source, "reference": pair.target, "hypothesis": translation.text} | further
    sentence |= {name: values[name] for name in ("source_words", "words", "word_scores")}
    return dump_json(sentence)
