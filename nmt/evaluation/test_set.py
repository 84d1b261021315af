"""`evaluate.py`: translate a test set, score it, and leave everything beside the run."""

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from omegaconf import DictConfig, ListConfig, OmegaConf

from nmt.config.diff import is_within, name_of
from nmt.config.schema import defaults_of
from nmt.data.datamodule import TranslationData
from nmt.data.parallel_text import Line
from nmt.data.vocabulary import Vocabulary
from nmt.data.word_alignments import Gold
from nmt.errors import ConfigurationError, DataError, NoFileError, closest
from nmt.evaluation.attention_alignment import Judged, forced_scores
from nmt.evaluation.bleu import corpus_bleu, counter, sentence_statistics
from nmt.evaluation.by_frequency import by_frequency
from nmt.evaluation.by_length import by_length, longer_than
from nmt.evaluation.forced_scoring import perplexity
from nmt.evaluation.over_under_translation import attention_entropy, over_and_under_translation, unattended
from nmt.evaluation.text_scores import all_scores
from nmt.runs.folder import SCORES
from nmt.runs.trained_model import Run
from nmt.search.settings import BESIDE, Search
from nmt.system.files import writable, write_json, write_text
from nmt.translate.alignment import links, pharaoh
from nmt.translate.loading import as_record, opened, replacing, search_of
from nmt.translate.text_translator import LONGEST, TextTranslator, Translation

log = logging.getLogger(__name__)

OF_FILES = "data.tests.NAME.source=FILE, data.train.source=FILE, …"
OF_DATA = ("data.test", "data.tests", "data.score", "data.dir", "data.train", "data.valid", "data.reader")


def evaluate_run(folder: Path, unknown: str, test: str | None) -> dict[str, Any]:
    """As `evaluate.py run=FOLDER data.test=…` does, without showing sentences."""
    chosen = {"run": str(folder), "unknown": unknown, "show": 0}
    of_data = [] if test is None else [f"data.test={test}"]
    found = evaluate(OmegaConf.merge(defaults_of("evaluate"), chosen), of_data)
    bleu, chrf = (found["scores"][name]["score"] for name in ("bleu", "chrf"))
    log.info("%s: bleu %.2f, chrf %.2f, in %s/%s/", found["test"], bleu, chrf, found["run"], found["test"])
    return found


class TestSet(NamedTuple):
    name: str
    lines: list[Line]
    references: list[list[str]]  # the target side, and the further translations it comes with
    gold: list[Gold] | None
    blank: int  # pairs dropped


class Said(NamedTuple):
    """What was made of a test set, a translation a line."""

    translations: list[Translation]
    unreplaced: list[str]  # their words, as they were before unknown ones were replaced
    in_parts: int
    empty: int
    seconds: float


def evaluate(settings: DictConfig, data_overrides: list[str]) -> dict[str, Any]:
    """The scores, as written to `<run>/<test set>/scores.json`."""
    _check_overrides(data_overrides)
    how = search_of(settings)
    runs, translator = opened(settings)
    data = runs[0].data(data_overrides)
    counter(**data.score)
    with _told_where_it_was_looked_for():
        test = test_set(data)
        training = _word_counts(data) if settings.by_frequency else None
        replaced = replacing(runs, settings.unknown, data_overrides)
    folder = _folder_of(runs, settings) / test.name
    writable(folder, str(folder), "; output=FOLDER lays the results elsewhere")
    forced = _forced(translator, test, settings)  # what is wrong with alignments is found before the search
    said = _translated(test, translator, how, settings.batch_size, replaced)
    scores = {
        "run": str(folder.parent),
        "members": [{"run": str(run.folder), "checkpoint": run.checkpoint.name, "step": run.step} for run in runs],
        "test": test.name,
        "sentences": len(test.lines),
        "blank_pairs_dropped": test.blank,
        "empty_sources": said.empty,
        "in_parts": said.in_parts,
        "search": asdict(how),
        **{name: _plain(settings[name]) for name in BESIDE},
        "counted": dict(data.score),
        "scores": score(translator, data, test, said)
        | perplexity(translator, test.lines, batch_size=settings.batch_size)
        | (forced.scores if forced else {}),
        **lengths_of(translator, data, test, said),
        "by_frequency": frequencies_of(translator, training, test, said) if training is not None else None,
        "sentences_per_second": round(len(test.lines) / said.seconds, 1),
        "data_overrides": data_overrides,
        "alignment_counts": _as_rows(forced.counts) if forced else None,
    }
    _write(folder, test, said, forced, scores)
    if settings.show and not settings.as_json:
        _show(folder, test.lines, said.translations, settings.show)
    return scores


def _check_overrides(data_overrides: list[str]) -> None:
    """Refuses what would change nothing: all else of the data is as it was in training."""
    for override in data_overrides:
        if not is_within(name_of(override), OF_DATA):
            known = [key.removeprefix("data.") for key in OF_DATA]
            near = closest(name_of(override).removeprefix("data."), known)
            raise ConfigurationError(
                f"{override}: has no effect on an evaluation{near}, text is prepared as in training; what has one is "
                f"{', '.join(OF_DATA)}"
            )


@contextmanager
def _told_where_it_was_looked_for() -> Iterator[None]:
    """A run's settings may name files by paths from where it was trained."""
    try:
        yield
    except NoFileError as error:
        if Path(error.path).is_absolute():
            raise
        hint = f"looked for in {Path.cwd()}: go to where the run was trained, or say where the file is: {OF_FILES}"
        raise NoFileError(error.path, "; ".join(filter(None, (error.hint, hint)))) from None


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value) if isinstance(value, ListConfig) else value


def test_set(data: TranslationData) -> TestSet:
    name, pairs = data.test_pairs()
    with data.told_where_to_get():
        lines = list(pairs)
        blank = pairs.blank
        references = [[line.target for line in lines], *pairs.further_references()]
        return TestSet(name, lines, references, pairs.gold(), blank)


def _translated(
    test: TestSet,
    translator: TextTranslator,
    how: Search,
    batch_size: int,
    replaced: Callable[[Translation], Translation],
) -> Said:
    """Lines that were not translated as others are, are logged."""
    started = time.perf_counter()
    found = list(translator.lines(((line.source, None) for line in test.lines), how, batch_size=batch_size))
    seconds = time.perf_counter() - started
    if in_parts := sum(one.parts > 1 or one.cut for one in found):
        said = "%s: %d of %d sentences have more than %d words or pieces and were translated in parts"
        log.warning(said, test.name, in_parts, len(found), LONGEST)
    empty = sum(not one.translations for one in found)
    if empty == len(found):
        raise DataError(f"{test.name}: nothing is left of any sentence after preprocessing: there is nothing to score")
    if empty:
        said = "%s: of %d of %d sentences nothing is left after preprocessing; their translations are empty"
        log.warning(said, test.name, empty, len(found))
    translations = [one.translations[0] if one.translations else Translation.of_nothing() for one in found]
    unreplaced = [translation.words for translation in translations]
    return Said([replaced(translation) for translation in translations], unreplaced, in_parts, empty, seconds)


def _forced(translator: TextTranslator, test: TestSet, settings: DictConfig) -> Judged | None:
    """Where the test set comes with alignments."""
    if test.gold is None:
        return None
    return forced_scores(translator, test.lines, test.gold, settings.link_threshold, batch_size=settings.batch_size)


def _write(folder: Path, test: TestSet, said: Said, forced: Judged | None, scores: dict[str, Any]) -> None:
    """All of it, or what was there before stays; the scores last: where they are, everything else is."""
    free_links = (pharaoh(links(translation.word_alignment())) for translation in said.translations)
    sentences = map(_as_json, test.lines, zip(*test.references, strict=True), said.translations)
    with TemporaryDirectory(dir=folder, prefix=".") as drafts:
        draft = Path(drafts)
        write_text(draft / "hypotheses.txt", _as_lines(translation.text for translation in said.translations))
        write_text(draft / "links.txt", _as_lines(free_links))
        if forced:
            write_text(draft / "forced_links.txt", _as_lines(pharaoh(sorted(own)) for own in forced.links))
        write_text(draft / "sentences.jsonl", _as_lines(sentences))
        _write_arrays(draft / "alignments.npz", [translation.alignment for translation in said.translations])
        write_json(draft / SCORES, scores)
        for earlier in (folder / SCORES, folder / "forced_links.txt", *folder.glob("alignment_*.png")):
            earlier.unlink(missing_ok=True)
        for path in sorted(draft.iterdir(), key=lambda path: path.name == SCORES):
            path.replace(folder / path.name)


def _as_rows(counts: np.ndarray) -> list[str]:
    """A sentence a line: |A|, |S|, |A ∩ S|, |A ∩ P| of the links, and of the attention as it is."""
    return [" ".join(f"{value:.6g}" for value in row) for row in counts]


def _as_lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _write_arrays(path: Path, arrays: list[np.ndarray]) -> None:
    """By their numbers."""
    with path.open("wb") as file:
        np.savez(file, **{str(number): array.astype(np.float16) for number, array in enumerate(arrays)})


def _as_json(line: Line, references: tuple[str, ...], translation: Translation) -> str:
    """What a comparison of systems shows of a sentence, on a line."""
    plain = as_record(translation, alignment=False)
    kept = {name: plain[name] for name in ("source_words", "words", "word_scores")}
    further = {"further_references": references[1:]} if len(references) > 1 else {}
    sentence = {"source": line.source, "reference": line.target, "hypothesis": translation.text} | further | kept
    return json.dumps(sentence, ensure_ascii=False)


def _folder_of(runs: list[Run], settings: DictConfig) -> Path:
    """One run's results lie in its folder, several runs' under a name made of theirs, or where `output` says."""
    if settings.output is not None:
        return Path(str(settings.output))
    if len(runs) == 1:
        return runs[0].folder
    mark = [*(str(run.checkpoint.absolute()) for run in runs), str(settings.weights), settings.average]
    return Path("outputs") / "ensembles" / hashlib.blake2b("\n".join(mark).encode(), digest_size=6).hexdigest()


def score(translator: TextTranslator, data: TranslationData, test: TestSet, said: Said) -> dict[str, Any]:
    """Of the text against untouched references; of the words the model sees BLEU (and what it was before unknown words
    were replaced); of these and the first reference over- and under-translation, and repetition; how wide attention
    is."""
    preprocess, vocabulary = translator.languages.target.preprocessing, translator.languages.target.vocabulary
    texts = [translation.text for translation in said.translations]
    scores = all_scores(texts, test.references, language=preprocess.language, **data.score)
    preprocessed = [[preprocess(reference) for reference in given] for given in test.references]
    words = [translation.words for translation in said.translations]
    scores["bleu_tokenized"] = corpus_bleu(words, preprocessed)
    if words != said.unreplaced:
        scores["bleu_unknown_kept"] = corpus_bleu(said.unreplaced, preprocessed)
    said_words, wanted = [line.split() for line in words], asked_for(vocabulary, preprocessed[0], said)
    counts = over_and_under_translation(said_words, wanted)
    counts |= unattended(one.alignment[:, : len(one.word_alignment().T)] for one in said.translations)
    counts |= attention_entropy(one.alignment for one in said.translations)
    return {name: value._asdict() for name, value in scores.items()} | counts


def asked_for(vocabulary: Vocabulary, references: list[str], said: Said) -> list[list[str]]:
    """The references' words: what is unknown is <unk>, as in translations, unless these have theirs replaced."""
    if any(own.words != before for own, before in zip(said.translations, said.unreplaced, strict=True)):
        return [line.split() for line in references]
    return [vocabulary.as_known(line.split()) for line in references]


def lengths_of(
    translator: TextTranslator, data: TranslationData, test: TestSet, said: Said
) -> dict[str, list[dict[str, Any]]]:
    """By the source's words."""
    preprocess = translator.languages.source.preprocessing
    lengths = [len(preprocess(line.source).split()) for line in test.lines]
    texts = [translation.text for translation in said.translations]
    statistics = sentence_statistics(texts, test.references, **data.score)[None]  # of one run
    found = {"by_length": by_length(lengths, statistics), "longer_than": longer_than(lengths, statistics)}
    return {name: [bucket._asdict() for bucket in buckets] for name, buckets in found.items()}


def _word_counts(data: TranslationData) -> Counter[str]:
    return Counter(word for _, target in data.training_words() for word in target.split())


def frequencies_of(
    translator: TextTranslator, training: Counter[str], test: TestSet, said: Said
) -> list[dict[str, Any]]:
    """By how often the training text says a word."""
    preprocess = translator.languages.target.preprocessing
    hypotheses = [translation.words.split() for translation in said.translations]
    wanted = [preprocess(line.target).split() for line in test.lines]
    return [bucket._asdict() for bucket in by_frequency(hypotheses, wanted, training)]


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
