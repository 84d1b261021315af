"""`evaluate.py`: translate a test set, score it, and leave everything beside the run."""

import hashlib
import time
from pathlib import Path
from typing import Any

import hydra.utils
import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from nmt.data.batches import collate
from nmt.data.corpus import Line
from nmt.data.module import TranslationData
from nmt.data.prepared import EncodedText, Sides
from nmt.evaluation.adequacy import over_and_under_translation
from nmt.evaluation.bleu import corpus_bleu, corpus_scores
from nmt.run import Run, trust, write_json, write_text
from nmt.search.alignment import links
from nmt.search.beam import Search
from nmt.search.translation import TextTranslator, Translation
from nmt.search.verb import opened

PERPLEXITY_BATCH = 64
SETTINGS = Path(__file__).parents[2] / "conf" / "evaluate.yaml"


def evaluate_run(folder: Path) -> dict[str, Any]:
    """As `evaluate.py run=FOLDER` does, without showing sentences."""
    return evaluate(OmegaConf.merge(OmegaConf.load(SETTINGS), {"run": str(folder), "show": 0}), [])


def evaluate(settings: DictConfig, data_overrides: list[str]) -> dict[str, Any]:
    """The scores, as written to `<run>/<test set>/scores.json`."""
    runs, translator = opened(settings)
    data = _data(runs[0], data_overrides)
    name, pairs = data.test_pairs()
    lines = list(pairs)
    how = Search(beam=settings.beam, length_penalty=settings.length_penalty)
    started = time.perf_counter()
    translations = [
        found[0] for found in translator((line.source for line in lines), how, batch_size=settings.batch_size)
    ]
    seconds = time.perf_counter() - started
    folder = _folder_of(runs, settings) / name
    folder.mkdir(parents=True, exist_ok=True)
    scores = {
        "run": str(folder.parent),
        "members": [{"run": str(run.folder), "checkpoint": run.checkpoint.name, "step": run.step} for run in runs],
        "test": name,
        "sentences": len(lines),
        "blank_pairs_dropped": pairs.blank,
        "search": {"beam": how.beam, "length_penalty": how.length_penalty},
        "scores": score(translator, data, lines, translations),
        "sentences_per_second": round(len(lines) / seconds, 1),
    }
    write_text(folder / "hypotheses.txt", "".join(f"{translation.text}\n" for translation in translations))
    write_json(folder / "scores.json", scores)
    np.savez(folder / "alignments.npz", **{str(n): t.alignment.astype(np.float16) for n, t in enumerate(translations)})
    if settings.show and not settings.as_json:
        _show(folder, lines, translations, settings.show)
    return scores


def _folder_of(runs: list[Run], settings: DictConfig) -> Path:
    """One run's results lie in its folder, several runs' under a name made of theirs, or where `output` says."""
    if settings.output is not None:
        return Path(settings.output)
    if len(runs) == 1:
        return runs[0].folder
    mark = [*(str(run.checkpoint.absolute()) for run in runs), str(settings.weights), settings.average]
    return Path("outputs") / "ensembles" / hashlib.blake2b("\n".join(mark).encode(), digest_size=6).hexdigest()


def score(
    translator: TextTranslator, data: TranslationData, lines: list[Line], translations: list[Translation]
) -> dict[str, Any]:
    """BLEU, chrF and TER of the text against untouched references; of the words the model sees BLEU, over- and
    under-translation; perplexity."""
    references = [line.target for line in lines]
    scores = corpus_scores([translation.text for translation in translations], references, **data.score)
    preprocess, vocabulary = translator.languages.target.preprocessing, translator.languages.target.vocabulary
    preprocessed = [preprocess(reference) for reference in references]
    scores["bleu_tokenized"] = corpus_bleu([translation.words for translation in translations], preprocessed)
    counts = over_and_under_translation(
        (translation.words.split() for translation in translations),
        (vocabulary.words(row) for row in vocabulary.encode(preprocessed)),  # an unknown word is asked for as such
        (translation.alignment[:, : len(translation.word_alignment().T)] for translation in translations),
    )
    return {name: value._asdict() for name, value in scores.items()} | counts | perplexity(translator, lines)


@torch.inference_mode()
def perplexity(translator: TextTranslator, lines: list[Line]) -> dict[str, float]:
    """Of the references, forced: nats per piece, and perplexity per word; end symbols count as words."""
    languages = translator.languages
    text = Sides(
        *(
            EncodedText.of_lines(language.vocabulary, [language.preprocessing(line[side]) for line in lines])
            for side, language in enumerate(languages)
        )
    )
    nats, pieces, words = 0.0, 0, 0
    order = np.argsort(text.target.lengths, kind="stable")
    for start in range(0, len(order), PERPLEXITY_BATCH):
        batch = collate(text, order[start : start + PERPLEXITY_BATCH], source_end=translator.source_end)
        nats += float(translator.model.loss(batch.to(torch.device(translator.device))).likelihood)
        pieces += len(batch.target_words)
        words += int(languages.target.vocabulary.ends_word[batch.target_words.numpy()].sum())
    return {"loss": nats / pieces, "perplexity": float(np.exp(nats / words))}


def _data(run: Run, overrides: list[str]) -> TranslationData:
    """The run's own data settings, changed by the command line."""
    OmegaConf.set_struct(run.config, True)
    OmegaConf.set_struct(run.config.data.tests, False)  # new test sets may be named
    config = OmegaConf.merge(run.config, OmegaConf.from_dotlist(overrides))
    trust(OmegaConf.to_container(config.data, resolve=True), "data")
    return hydra.utils.instantiate(config.data)


def _show(folder: Path, lines: list[Line], translations: list[Translation], count: int) -> None:
    from nmt.evaluation.heatmap import draw

    for number, (line, translation) in enumerate(zip(lines[:count], translations, strict=False)):
        picture = folder / f"alignment_{number}.png"
        draw(translation.source, translation.target, translation.alignment).savefig(picture, dpi=150)
        linked = " ".join(
            f"{translation.target[target]}←{translation.source[source]}"
            for source, target in links(translation.word_alignment())
        )
        print(f"\nsource       {line.source}\nreference    {line.target}\ntranslation  {translation.text}")
        print(f"alignment    {linked}\nheatmap      {picture}")
    print()
