"""`evaluate.py`: translate a test set, score it, and leave everything beside the run."""

import hashlib
import json
import logging
import os
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from nmt.command import defaults_of
from nmt.data.corpus import Line
from nmt.data.module import TranslationData
from nmt.data.prepared import Pairs
from nmt.errors import DataError
from nmt.evaluation.adequacy import over_and_under_translation, repetition
from nmt.evaluation.alignments import forced_scores, gold_of
from nmt.evaluation.bleu import all_scores, corpus_bleu, sentence_statistics
from nmt.evaluation.by_length import by_length, longer_than
from nmt.evaluation.given import perplexity
from nmt.evaluation.rare_words import by_frequency
from nmt.run import Run, write_json, write_text
from nmt.search.alignment import links, pharaoh
from nmt.search.translation import LONGEST, TextTranslator, Translation
from nmt.search.verb import as_plain, opened, replacing, search_of

log = logging.getLogger(__name__)


def evaluate_run(folder: Path, unknown: str) -> dict[str, Any]:
    """As `evaluate.py run=FOLDER` does, without showing sentences."""
    chosen = {"run": str(folder), "unknown": unknown, "show": 0}
    return evaluate(OmegaConf.merge(defaults_of("evaluate"), chosen), [])


def evaluate(settings: DictConfig, data_overrides: list[str]) -> dict[str, Any]:
    """The scores, as written to `<run>/<test set>/scores.json`."""
    how = search_of(settings)
    runs, translator = opened(settings)
    data = runs[0].data(data_overrides)
    name, pairs = data.test_pairs()
    lines = list(pairs)
    references = references_of(pairs, lines)
    replaced = replacing(runs, settings.unknown)
    started = time.perf_counter()
    found = list(translator.lines(((line.source, None) for line in lines), how, batch_size=settings.batch_size))
    seconds = time.perf_counter() - started
    if in_parts := sum(one.parts > 1 or one.cut for one in found):
        said = "%s: %d of %d sentences have more than %d words or pieces and were translated in parts"
        log.warning(said, name, in_parts, len(lines), LONGEST)
    if not any(one.translations for one in found):
        raise DataError(f"{name}: nothing is left of any sentence after preprocessing: there is nothing to score")
    if empty_sources := sum(not one.translations for one in found):
        said = "%s: of %d of %d sentences nothing is left after preprocessing; their translations are empty"
        log.warning(said, name, empty_sources, len(lines))
    translations = [one.translations[0] if one.translations else Translation.of_nothing() for one in found]
    unreplaced = [translation.words for translation in translations]
    translations = [replaced(translation) for translation in translations]
    folder = _folder_of(runs, settings) / name
    folder.mkdir(parents=True, exist_ok=True)
    aligned: dict[str, float] = {}
    if (gold := gold_of(pairs)) is not None:
        aligned, forced_links = forced_scores(translator, lines, gold, settings.link_threshold)
        write_text(folder / "forced_links.txt", "".join(f"{pharaoh(sorted(own))}\n" for own in forced_links))
    scores = {
        "run": str(folder.parent),
        "members": [{"run": str(run.folder), "checkpoint": run.checkpoint.name, "step": run.step} for run in runs],
        "test": name,
        "sentences": len(lines),
        "blank_pairs_dropped": pairs.blank,
        "empty_sources": empty_sources,
        "in_parts": in_parts,
        "search": asdict(how),
        "unknown": settings.unknown,
        "scores": score(translator, data, lines, references, translations, unreplaced) | aligned,
        **lengths_of(translator, data, lines, references, translations),
        "by_frequency": frequencies_of(translator, data, lines, translations) if settings.by_frequency else None,
        "sentences_per_second": round(len(lines) / seconds, 1),
    }
    write_text(folder / "hypotheses.txt", "".join(f"{translation.text}\n" for translation in translations))
    free_links = (pharaoh(links(translation.word_alignment())) for translation in translations)
    write_text(folder / "links.txt", "".join(f"{line}\n" for line in free_links))
    write_text(folder / "sentences.jsonl", "".join(map(_as_json, lines, zip(*references, strict=True), translations)))
    alignments = {str(n): translation.alignment.astype(np.float16) for n, translation in enumerate(translations)}
    _write_arrays(folder / "alignments.npz", alignments)
    write_json(folder / "scores.json", scores)  # last: where it is, the others are
    if settings.show and not settings.as_json:
        _show(folder, lines, translations, settings.show)
    return scores


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Written beside its place and moved there, as text is."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        np.savez(file, **arrays)
    draft.replace(path)


def references_of(pairs: Pairs, lines: list[Line]) -> list[list[str]]:
    """The target side, and the further translations that a test set comes with."""
    further = pairs.further_references() if hasattr(pairs, "further_references") else []
    return [[line.target for line in lines], *further]


def _as_json(line: Line, references: tuple[str, ...], translation: Translation) -> str:
    """What a comparison of systems shows of a sentence, on a line."""
    plain = as_plain(translation, alignment=False)
    kept = {name: plain[name] for name in ("source_words", "words", "word_scores")}
    further = {"further_references": references[1:]} if len(references) > 1 else {}
    sentence = {"source": line.source, "reference": line.target, "hypothesis": translation.text} | further | kept
    return json.dumps(sentence, ensure_ascii=False) + "\n"


def _folder_of(runs: list[Run], settings: DictConfig) -> Path:
    """One run's results lie in its folder, several runs' under a name made of theirs, or where `output` says."""
    if settings.output is not None:
        return Path(settings.output)
    if len(runs) == 1:
        return runs[0].folder
    mark = [*(str(run.checkpoint.absolute()) for run in runs), str(settings.weights), settings.average]
    return Path("outputs") / "ensembles" / hashlib.blake2b("\n".join(mark).encode(), digest_size=6).hexdigest()


def score(
    translator: TextTranslator,
    data: TranslationData,
    lines: list[Line],
    references: list[list[str]],
    translations: list[Translation],
    unreplaced: list[str],
) -> dict[str, Any]:
    """Of the text against untouched references; of the words the model sees BLEU (and what it was before unknown words
    were replaced); of these and the first reference over- and under-translation, repetition, perplexity."""
    preprocess, vocabulary = translator.languages.target.preprocessing, translator.languages.target.vocabulary
    texts = [translation.text for translation in translations]
    scores = all_scores(texts, references, language=preprocess.language, **data.score)
    preprocessed = [[preprocess(reference) for reference in given] for given in references]
    first = preprocessed[0]
    words = [translation.words for translation in translations]
    scores["bleu_tokenized"] = corpus_bleu(words, preprocessed)
    if words != unreplaced:
        scores["bleu_unknown_kept"] = corpus_bleu(unreplaced, preprocessed)
    counts = over_and_under_translation(
        (translation.words.split() for translation in translations),
        (vocabulary.words(row) for row in vocabulary.encode(first)),  # an unknown word is asked for as such
        (translation.alignment[:, : len(translation.word_alignment().T)] for translation in translations),
    )
    counts |= repetition([line.split() for line in words], [line.split() for line in first])
    return {name: value._asdict() for name, value in scores.items()} | counts | perplexity(translator, lines)


def lengths_of(
    translator: TextTranslator,
    data: TranslationData,
    lines: list[Line],
    references: list[list[str]],
    translations: list[Translation],
) -> dict[str, list[dict[str, Any]]]:
    """By the source's words."""
    preprocess = translator.languages.source.preprocessing
    lengths = [len(preprocess(line.source).split()) for line in lines]
    texts = [translation.text for translation in translations]
    statistics = sentence_statistics(texts, references, **data.score)[None]  # of one run
    found = {"by_length": by_length(lengths, statistics), "longer_than": longer_than(lengths, statistics)}
    return {name: [bucket._asdict() for bucket in buckets] for name, buckets in found.items()}


def frequencies_of(
    translator: TextTranslator, data: TranslationData, lines: list[Line], translations: list[Translation]
) -> list[dict[str, Any]]:
    """By how often the training text says a word."""
    counts = Counter(word for _, target in data.training_words() for word in target.split())
    preprocess = translator.languages.target.preprocessing
    said, wanted = (
        (translation.words.split() for translation in translations),
        (preprocess(one.target) for one in lines),
    )
    return [bucket._asdict() for bucket in by_frequency(list(said), [line.split() for line in wanted], counts)]


def _show(folder: Path, lines: list[Line], translations: list[Translation], count: int) -> None:
    from nmt.evaluation.heatmap import draw

    for number, (line, translation) in enumerate(zip(lines[:count], translations, strict=False)):
        picture = folder / f"alignment_{number}.png"
        linked = " ".join(
            f"{translation.target[target]}←{translation.source[source]}"
            for source, target in links(translation.word_alignment())
        )
        print(f"\nsource       {line.source}\nreference    {line.target}\ntranslation  {translation.text}")
        print(f"alignment    {linked}")
        if translation.alignment.size:
            draw(translation.source, translation.target, translation.alignment).savefig(picture, dpi=150)
            print(f"heatmap      {picture}")
    print()
