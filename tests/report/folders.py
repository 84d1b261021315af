"""Write run folders as training and evaluation do, with enough in each file for a comparison."""

import copy
import json
from pathlib import Path

import numpy as np
import yaml

from nmt.evaluation.bleu import corpus_bleu

WORDS = (
    "ma",
    "pu",
    "nibi",
    "papa",
    "neba",
    "gurcu",
    "domi",
    "pabo",
    "gumu",
    "kobu",
    "maga",
    "kanu",
    "ga",
    "kuke",
    "me",
)
CONFIG = {
    "size": {"hidden": 32},
    "data": {"dir": "somewhere", "seed": "${seed}", "test": "test"},
    "attention": {"_target_": "nmt.Attention", "coverage": None, "score": {"_target_": "nmt.Additive", "bias": False}},
    "dropout": 0.2,
    "logger": {"csv": {"save_dir": "here"}},
    "name": "nmt",
}


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return sources, and references that are their words in reverse order."""
    random = np.random.default_rng(seed)
    lines = [random.choice(WORDS, random.integers(3, 22)).tolist() for _ in range(count)]
    return [(" ".join(line), " ".join(reversed(line))) for line in lines]


def spoiled(text: str, mistakes: float, random: np.random.Generator) -> str:
    return " ".join(str(random.choice(WORDS)) if random.random() < mistakes else word for word in text.split())


def attention(rows: int, columns: int, random: np.random.Generator) -> np.ndarray:
    """Return attention near the diagonal, with noise."""
    places = np.arange(rows)[:, None] * columns / rows - np.arange(columns)[None]
    weights = np.exp(-(places**2)) + 0.02 * random.random((rows, columns))
    return (weights / weights.sum(1, keepdims=True)).astype(np.float16)


def write_run(
    folder: Path,
    *,
    seed: int = 1,
    changes: dict | None = None,
    choices: dict | None = None,
    overrides: tuple[str, ...] = (),
    mistakes: float = 0.1,
    lines: list[tuple[str, str]] | None = None,
    test: str = "test",
    summary: dict | None = None,
) -> Path:
    config = copy.deepcopy(CONFIG) | {"seed": seed}
    for key, value in (changes or {}).items():
        node = config
        *path, last = key.split(".")
        for part in path:
            node = node[part]
        node[last] = value
    _write(folder / ".hydra" / "config.yaml", yaml.safe_dump(config))
    _write(folder / ".hydra" / "overrides.yaml", yaml.safe_dump([*overrides, f"seed={seed}"]))
    chosen = {"attention": "additive", "size": "tiny"} | (choices or {})
    _write(folder / ".hydra" / "hydra.yaml", yaml.safe_dump({"hydra": {"runtime": {"choices": chosen}}}))
    content = {
        "status": "completed",
        "parameters": {"encoder": 1000, "total": 1500},
        "steps": 400,
        "wall_seconds": 60.0 + seed,
        "git_commit": "0" * 40,
    }
    _write(folder / "summary.json", json.dumps(content | (summary or {})))
    _write(folder / "metrics.csv", metrics(seed))
    evaluate(folder, test, lines or pairs(20), mistakes, np.random.default_rng(seed))
    return folder


def with_alignments(run: Path, right: int, sure: int = 2) -> None:
    """Add alignment counts: `sure` links by hand in each sentence, four links of which `right` are right.

    Half as much of the attention is right.
    """
    path = run / "test" / "scores.json"
    stored = json.loads(path.read_text())
    rows = [f"4 {sure} {right} {right} 5 {sure} {right / 2} {right / 2}"] * stored["sentences"]
    path.write_text(json.dumps(stored | {"alignment_counts": rows}))


def with_gold(run: Path) -> None:
    """Add the attention of the references, 0.75 on the diagonal, and gold links: sure 0-0, possible 1-1."""
    arrays = {}
    for number, line in enumerate((run / "test" / "sentences.jsonl").read_text(encoding="utf-8").splitlines()):
        sentence = json.loads(line)
        shape = (len(sentence["reference"].split()), len(sentence["source"].split()))
        arrays[f"weights/{number}"] = 0.75 * np.eye(*shape)
        arrays[f"gold/{number}"] = np.zeros(shape)
        arrays[f"gold/{number}"][0, 0], arrays[f"gold/{number}"][1, 1] = 1, 0.5
    np.savez(run / "test" / "forced_alignments.npz", **{name: one.astype(np.float16) for name, one in arrays.items()})


def with_traces(run: Path) -> None:
    """Add traces: coverage, a fertility that grows with the source position, a position, and weights of two cells."""
    traces = {}
    for number, weights in np.load(run / "test" / "alignments.npz").items():
        rows, columns = weights.shape
        traces[f"coverage/{number}"] = weights.astype(float).cumsum(0)
        traces[f"fertility/{number}"] = np.tile(np.arange(columns) / 4, (rows, 1))
        traces[f"position/{number}"] = np.linspace(1, columns, rows)
        traces[f"memory_weights/{number}"] = np.tile([0.25, 0.75], (rows, 1, 1))
    np.savez(run / "test" / "traces.npz", **{name: values.astype(np.float16) for name, values in traces.items()})


def metrics(seed: int) -> str:
    rows = ["epoch,step,train/loss,train/tokens_per_second,valid/bleu,valid/loss,valid/perplexity"]
    for step in range(0, 400, 50):
        loss = 4 * np.exp(-step / 150) + 0.1 * seed
        rows.append(f"0,{step},{loss},{1000 + step},,,")
        rows.append(f"0,{step},,,{100 * np.exp(-loss)},{loss + 0.1},{np.exp(loss)}")
    return "\n".join(rows) + "\n"


def evaluate(
    folder: Path, test: str, lines: list[tuple[str, str]], mistakes: float, random: np.random.Generator
) -> None:
    translations = [spoiled(reference, mistakes, random) for _, reference in lines]
    bleu = corpus_bleu(translations, [reference for _, reference in lines])
    scores = {
        "run": str(folder),
        "members": [{"run": str(folder)}],
        "test": test,
        "sentences": len(lines),
        "search": {"beam": 5},
        "unknown": "keep",
        "scores": {
            "bleu": bleu._asdict(),
            "chrf": {"score": bleu.score / 2 + 50, "signature": "chrF2", "detail": ""},
            "words_too_often": 100 * mistakes,
            "words_left_out": 90 * mistakes,
            "source_unattended": 3.0,
            "attention_entropy": 0.8,
            "length_ratio": 0.9 + mistakes,
            "aer": 20.0,
            "perplexity": 5.0,
        },
        "sentences_per_second": 100.0,
    }
    _write(folder / test / "scores.json", json.dumps(scores))
    sentences = [
        {
            "source": source,
            "reference": reference,
            "hypothesis": translation,
            "source_words": [*source.split(), "</s>"],
            "words": [*translation.split(), "</s>"],
            "word_scores": [-0.1] * (len(translation.split()) + 1),
        }
        for (source, reference), translation in zip(lines, translations, strict=True)
    ]
    _write(folder / test / "sentences.jsonl", "".join(json.dumps(one) + "\n" for one in sentences))
    _write(folder / test / "hypotheses.txt", "".join(f"{translation}\n" for translation in translations))
    matrices = {
        str(number): attention(len(one["words"]), len(one["source_words"]), random)
        for number, one in enumerate(sentences)
    }
    np.savez(folder / test / "alignments.npz", **matrices)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))
