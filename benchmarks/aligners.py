"""Compare aligners: links and word tables against manual alignments, time and memory.

    NMT_DATA=FOLDER python benchmarks/aligners.py --output benchmarks/results/aligners_DATE.json

FOLDER holds `alignments` ({zhen,enfr}.src-tgt and .gold, positions from 1), `multi30k/raw`, `3am-zhen` and
`pydocs-zhen`. The project uses sil-thot. The others are optional (`pip install eflomal==2.0.0
systran-align==3.5.0`). A message names an aligner that is not installed, and it is skipped.

Each aligner learns from the sentences of the gold set alone (`gold`), and from these with training text (`text`). The
error is measured on the sentences of the gold set. The training text is prepared like the gold set: lowercased, and
tokenized by sacremoses. Chinese is split greedily into the longest words of the gold set, else into characters.

Each aligner runs in a process of its own, with OMP_NUM_THREADS threads (default: 1). The process holds the text and all
links, and may start a child. The reported memory is the larger peak of the two, an upper bound for the aligner.

A word table counts links. Its quality is a share of the sure manual links (s, t): those whose t is the first, or among
the first ten, of the table's translations of s. systran-align has only links of both directions, joined by
grow-diag-final.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from nmt.data.text_files import read_lines  # noqa: E402
from nmt.data.word_alignments import Links, read_gold, read_pharaoh  # noqa: E402
from nmt.evaluation.alignment_error import link_scores  # noqa: E402

DIAGONAL = {
    "favor_diagonal": True,
    "optimize_tension": True,
    "variational_bayes": True,
}  # the options -d -o -v of fast_align
MAX_PAIRS = 40_000  # of training text; for zh-en these are all captions and a fifth of the manuals
Pairs = list[tuple[list[str], list[str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--one", nargs=3, metavar=("ALIGNER", "PAIRS", "GOLD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        aligner, pairs, gold = options.one
        print(json.dumps(measure(aligner, read_pairs(Path(pairs)), Path(gold))))
        return
    data = Path(os.environ["NMT_DATA"])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = []
    with tempfile.TemporaryDirectory() as name:
        texts = write_texts(data, Path(name))
        for aligner, (package, _) in ALIGNERS.items():
            if importlib.util.find_spec(package) is None:
                print(f"{aligner}: skipped, because {package} is not installed", flush=True)
                continue
            for (language, kind), pairs in texts.items():
                gold = data / "alignments" / f"{language}.gold"
                command = [sys.executable, __file__, "--one", aligner, str(pairs), str(gold)]
                # the quick one runs twice, to check that its links are repeatable
                runs = [json.loads(subprocess.check_output(command)) for _ in range(2 if kind == "gold" else 1)]
                same = runs[0]["digest"] == runs[1]["digest"] if len(runs) == 2 else None
                results.append({"aligner": aligner, "pair": language, "text": kind} | runs[0] | {"same_again": same})
                print_result(results[-1])
    if options.output:
        environment = {"threads": os.environ["OMP_NUM_THREADS"], "python": sys.version.split()[0]}
        options.output.write_text(json.dumps(environment | {"results": results}, indent=1) + "\n", encoding="utf-8")


def print_result(result: dict) -> None:
    """Print the figures of one aligner on one text."""
    print(
        "{aligner} {pair} {text}: {sentences} pairs, {seconds:.1f} s, {memory} MiB, same again: {same_again}".format(
            **result
        )
    )
    for name, figures in result["links"].items():
        print(f"    {name:16}", " ".join(f"{key} {value:.1f}" for key, value in figures.items()), flush=True)


def measure(aligner: str, pairs: Pairs, gold_file: Path) -> dict:
    """Align the pairs, and return time, memory, a digest of the links, and their scores."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        links_by_method = ALIGNERS[aligner][1](pairs, Path(name))
    seconds = time.perf_counter() - started
    memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) // 1024
    gold = [read_gold(line) for line in read_lines(gold_file)]
    gold_words = [(pairs[k][0][i], pairs[k][1][j]) for k, one in enumerate(gold) for i, j in one.sure]
    figures = {
        name: link_scores(links[: len(gold)], gold) | measure_table(build_table(pairs, links), gold_words)
        for name, links in links_by_method.items()
    }
    sorted_links = [[sorted(links) for links in links_by_method[name]] for name in sorted(links_by_method)]
    digest = hashlib.sha256(repr(sorted_links).encode())
    return {
        "sentences": len(pairs),
        "seconds": seconds,
        "memory": memory,
        "digest": digest.hexdigest()[:16],
        "links": figures,
    }


def build_table(pairs: Pairs, links: list[Links]) -> dict[str, list[str]]:
    """Return the first ten translations of each source word, in the order of nmt.data.lexical_table."""
    counts: dict[str, Counter] = defaultdict(Counter)
    frequency: Counter = Counter()
    for (source, target), sentence_links in zip(pairs, links, strict=True):
        for i, j in sentence_links:
            counts[source[i]][target[j]] += 1
            frequency[target[j]] += 1
    return {
        word: sorted(targets, key=lambda target: (-targets[target], frequency[target], target))[:10]
        for word, targets in counts.items()
    }


def measure_table(table: dict[str, list[str]], gold_words: list[tuple[str, str]]) -> dict[str, float]:
    """Return the share (%) of gold links whose target is the first translation, or among the first ten."""
    first = sum(table.get(source, [])[:1] == [target] for source, target in gold_words)
    ten = sum(target in table.get(source, []) for source, target in gold_words)
    return {"table_first": 100 * first / len(gold_words), "table_ten": 100 * ten / len(gold_words)}


def align_with_systran(pairs: Pairs, folder: Path, **settings) -> dict[str, list[Links]]:
    import systran_align

    lines = "".join(" ".join(source) + " ||| " + " ".join(target) + "\n" for source, target in pairs)
    (folder / "pairs").write_text(lines, encoding="utf-8")
    files = [str(folder / name) for name in ("pairs", "forward", "backward")]
    systran_align.generate_alignment_probabilities(*files, **settings)
    results = systran_align.Aligner(*files[1:]).align_batch(*map(list, zip(*pairs, strict=True)))
    return {"grow_diag_final": [set(map(tuple, result["alignments"])) for result in results]}


def align_with_systran_diagonal(pairs: Pairs, folder: Path) -> dict[str, list[Links]]:
    return align_with_systran(pairs, folder, **DIAGONAL)


def align_with_eflomal(pairs: Pairs, folder: Path) -> dict[str, list[Links]]:
    import eflomal

    sides = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    eflomal.Aligner().align(*sides, str(folder / "forward"), str(folder / "reverse"))
    forward, reverse = ([read_pharaoh(line) for line in read_lines(folder / name)] for name in ("forward", "reverse"))
    return {
        "forward": forward,
        "reverse": reverse,
        "intersection": [left & right for left, right in zip(forward, reverse, strict=True)],
        "union": [left | right for left, right in zip(forward, reverse, strict=True)],
    }


def align_with_thot(pairs: Pairs, folder: Path, samplers: int = 1) -> dict[str, list[Links]]:
    from thot import alignment

    for name, side in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (folder / name).write_text("".join(" ".join(words) + "\n" for words in side), encoding="utf-8")

    def train(source: str, target: str) -> alignment.EflomalAlignmentModel:
        model = alignment.EflomalAlignmentModel()
        model.emit_training_alignments, model.num_samplers = True, samplers
        model.read_sentence_pairs(str(folder / source), str(folder / target))
        model.start_training()
        for _ in range(model.scheduled_iterations):
            model.train()
        model.end_training()
        return model

    both = alignment.SymmetrizedAlignmentModel(train("source", "target"), train("target", "source"))
    links = {}
    for heuristic in ("INTERSECTION", "GROW_DIAG_FINAL_AND", "UNION"):
        both.heuristic = getattr(alignment.SymmetrizationHeuristic, heuristic)
        matrices = (both.get_training_alignment(number)[1].to_numpy() for number in range(len(pairs)))
        links[heuristic.lower()] = [set(map(tuple, np.argwhere(matrix).tolist())) for matrix in matrices]
    return links


def align_with_three_samplers(pairs: Pairs, folder: Path) -> dict[str, list[Links]]:
    return align_with_thot(pairs, folder, 3)


ALIGNERS: dict[str, tuple[str, Callable[[Pairs, Path], dict[str, list[Links]]]]] = {
    "systran_align": ("systran_align", align_with_systran),
    "systran_align_diagonal": ("systran_align", align_with_systran_diagonal),
    "eflomal": ("eflomal", align_with_eflomal),
    "thot": ("thot", align_with_thot),
    "thot_three_samplers": ("thot", align_with_three_samplers),
}


def write_texts(data: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """Write files of pairs, and return them by languages and kind of text; the gold set comes first in a file."""
    texts = {}
    for language, read_training in (("enfr", read_captions), ("zhen", read_captions_and_manuals)):
        gold = [
            tuple(" ".join(side.lower().split()) for side in line.split("|||"))
            for line in read_lines(data / "alignments" / f"{language}.src-tgt")
        ]
        for kind in ("gold", "text"):
            path = texts[language, kind] = folder / f"{language}.{kind}"
            words = {word for source, _ in gold for word in source.split()}
            more = islice(read_training(data, words), MAX_PAIRS) if kind == "text" else ()
            lines = (f"{source}\t{target}\n" for source, target in [*gold, *more] if source and target)
            path.write_text("".join(lines), encoding="utf-8")
    return texts


def read_captions(data: Path, _: set[str]) -> Iterator[tuple[str, str]]:
    sides = (read_tokenized(data / "multi30k" / "raw" / f"train.{language}.gz", language) for language in ("en", "fr"))
    yield from zip(*sides, strict=True)


def read_captions_and_manuals(data: Path, words: set[str]) -> Iterator[tuple[str, str]]:
    for name in ("3am-zhen", "pydocs-zhen"):
        chinese = (split_chinese(line.lower(), words) for line in read_lines(data / name / "train.zh.gz"))
        yield from zip(chinese, read_tokenized(data / name / "train.en.gz", "en"), strict=True)


def read_tokenized(path: Path, language: str) -> Iterator[str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    for line in read_lines(path):
        yield " ".join(tokenizer.tokenize(normalizer.normalize(line.lower()), escape=False))


def split_chinese(line: str, words: set[str]) -> str:
    """Split a line from left to right: a run of ASCII, else the longest known word, else a character."""
    longest = max(map(len, words))
    pieces = []
    for piece in line.split():
        while piece:
            known = next((piece[:size] for size in range(longest, 1, -1) if piece[:size] in words), piece[0])
            run = re.match(r"[!-~]+", piece)
            pieces.append(run[0] if run else known)
            piece = piece[len(pieces[-1]) :]
    return " ".join(pieces)


def read_pairs(path: Path) -> Pairs:
    return [
        tuple(side.split() for side in line.split("\t")) for line in path.read_text(encoding="utf-8").split("\n")[:-1]
    ]


if __name__ == "__main__":
    main()
