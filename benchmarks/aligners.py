"""Two aligners beside each other: links and word tables compared with alignments made by hand, time and memory.

    NMT_DATA=FOLDER python benchmarks/aligners.py --output benchmarks/results/aligners_DATE.json

FOLDER holds `alignments` ({zhen,enfr}.src-tgt and .gold, positions from 1), `multi30k/raw`, `3am-zhen` and
`pydocs-zhen`. The aligners, `pip install eflomal==2.0.0 systran-align==3.5.0`, are optional: an absent one is named.

Each aligner learns from the gold set's sentences alone (`gold`), and from these with training text (`text`); the error
is that of the gold set's sentences. Text is made like the gold set: lowercased, tokenised by sacremoses; Chinese is cut
greedily into the longest words that the gold set knows, else characters. Each runs in a process of its own, with as
many threads as OMP_NUM_THREADS says (1 here unless given). Memory is the peak of the larger of that process, holding
the text and all links, and what it started: an upper bound for the aligner.

A table counts links. Its quality: of the sure links (s, t) by hand, the share whose t is the first, or among the first
ten, of the table's translations of s. systran-align gives links of both directions joined (grow-diag-final) only.
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

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from nmt.data.text_files import read_lines  # noqa: E402
from nmt.data.word_alignments import Links, read_gold, read_pharaoh  # noqa: E402
from nmt.evaluation.alignment_error import alignment_error_rate  # noqa: E402

DIAGONAL = {
    "favor_diagonal": True,
    "optimize_tension": True,
    "variational_bayes": True,
}  # what fast_align's -d -o -v are
MOST = 40_000  # pairs of training text: of zh-en all captions and a fifth of the manuals
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
                print(f"{aligner}: {package} is not installed, left out", flush=True)
                continue
            for (language, kind), pairs in texts.items():
                gold = data / "alignments" / f"{language}.gold"
                command = [sys.executable, __file__, "--one", aligner, str(pairs), str(gold)]
                # Twice where it is quick: is it the same again?
                runs = [json.loads(subprocess.check_output(command)) for _ in range(2 if kind == "gold" else 1)]
                same = runs[0]["digest"] == runs[1]["digest"] if len(runs) == 2 else None
                results.append({"aligner": aligner, "pair": language, "text": kind} | runs[0] | {"same_again": same})
                show(results[-1])
    if options.output:
        about = {"threads": os.environ["OMP_NUM_THREADS"], "python": sys.version.split()[0]}
        options.output.write_text(json.dumps(about | {"results": results}, indent=1) + "\n", encoding="utf-8")


def show(result: dict) -> None:
    print(
        "{aligner} {pair} {text}: {sentences} pairs, {seconds:.1f} s, {memory} MiB, again {same_again}".format(**result)
    )
    for name, figures in result["links"].items():
        print(f"    {name:16}", " ".join(f"{key} {value:.1f}" for key, value in figures.items()), flush=True)


def measure(aligner: str, pairs: Pairs, gold_file: Path) -> dict:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        found = ALIGNERS[aligner][1](pairs, Path(name))
    seconds = time.perf_counter() - began
    memory = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) // 1024
    gold = [read_gold(line) for line in read_lines(gold_file)]
    sure, possible = zip(*gold, strict=True)
    wanted = [(pairs[k][0][i], pairs[k][1][j]) for k, links in enumerate(sure) for i, j in links]
    figures = {
        name: alignment_error_rate(links[: len(gold)], sure, possible)._asdict()
        | table_quality(first_ten(pairs, links), wanted)
        for name, links in found.items()
    }
    digest = hashlib.sha256(repr([[sorted(links) for links in found[name]] for name in sorted(found)]).encode())
    return {
        "sentences": len(pairs),
        "seconds": seconds,
        "memory": memory,
        "digest": digest.hexdigest()[:16],
        "links": figures,
    }


def first_ten(pairs: Pairs, links: list[Links]) -> dict[str, list[str]]:
    """Ranked as word tables of nmt.data.lexical_table are."""
    counts: dict[str, Counter] = defaultdict(Counter)
    frequency: Counter = Counter()
    for (source, target), found in zip(pairs, links, strict=True):
        for i, j in found:
            counts[source[i]][target[j]] += 1
            frequency[target[j]] += 1
    return {
        word: sorted(found, key=lambda target: (-found[target], frequency[target], target))[:10]
        for word, found in counts.items()
    }


def table_quality(table: dict[str, list[str]], wanted: list[tuple[str, str]]) -> dict[str, float]:
    first = sum(table.get(source, [])[:1] == [target] for source, target in wanted)
    ten = sum(target in table.get(source, []) for source, target in wanted)
    return {"table_first": 100 * first / len(wanted), "table_ten": 100 * ten / len(wanted)}


def by_systran_align(pairs: Pairs, folder: Path, **settings) -> dict[str, list[Links]]:
    import systran_align

    lines = "".join(" ".join(source) + " ||| " + " ".join(target) + "\n" for source, target in pairs)
    (folder / "pairs").write_text(lines, encoding="utf-8")
    files = [str(folder / name) for name in ("pairs", "forward", "backward")]
    systran_align.generate_alignment_probabilities(*files, **settings)
    answers = systran_align.Aligner(*files[1:]).align_batch(*map(list, zip(*pairs, strict=True)))
    return {"grow_diag_final": [set(map(tuple, answer["alignments"])) for answer in answers]}


def by_systran_align_diagonal(pairs: Pairs, folder: Path) -> dict[str, list[Links]]:
    return by_systran_align(pairs, folder, **DIAGONAL)


def by_eflomal(pairs: Pairs, folder: Path) -> dict[str, list[Links]]:
    import eflomal

    sides = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    eflomal.Aligner().align(*sides, str(folder / "forward"), str(folder / "reverse"))
    forward, reverse = ([read_pharaoh(line) for line in read_lines(folder / name)] for name in ("forward", "reverse"))
    return {
        "forward": forward,
        "reverse": reverse,
        "intersection": [one & other for one, other in zip(forward, reverse, strict=True)],
        "union": [one | other for one, other in zip(forward, reverse, strict=True)],
    }


ALIGNERS: dict[str, tuple[str, Callable[[Pairs, Path], dict[str, list[Links]]]]] = {
    "systran_align": ("systran_align", by_systran_align),
    "systran_align_diagonal": ("systran_align", by_systran_align_diagonal),
    "eflomal": ("eflomal", by_eflomal),
}


def write_texts(data: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """Files of pairs by languages and kind of text; the gold set's sentences come first."""
    texts = {}
    for language, training in (("enfr", captions), ("zhen", captions_and_manuals)):
        gold = [
            tuple(" ".join(side.lower().split()) for side in line.split("|||"))
            for line in read_lines(data / "alignments" / f"{language}.src-tgt")
        ]
        for kind in ("gold", "text"):
            path = texts[language, kind] = folder / f"{language}.{kind}"
            words = {word for source, _ in gold for word in source.split()}
            more = islice(training(data, words), MOST) if kind == "text" else ()
            lines = (f"{source}\t{target}\n" for source, target in [*gold, *more] if source and target)
            path.write_text("".join(lines), encoding="utf-8")
    return texts


def captions(data: Path, _: set[str]) -> Iterator[tuple[str, str]]:
    sides = (tokenized(data / "multi30k" / "raw" / f"train.{language}.gz", language) for language in ("en", "fr"))
    yield from zip(*sides, strict=True)


def captions_and_manuals(data: Path, words: set[str]) -> Iterator[tuple[str, str]]:
    for name in ("3am-zhen", "pydocs-zhen"):
        chinese = (cut(line.lower(), words) for line in read_lines(data / name / "train.zh.gz"))
        yield from zip(chinese, tokenized(data / name / "train.en.gz", "en"), strict=True)


def tokenized(path: Path, language: str) -> Iterator[str]:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    for line in read_lines(path):
        yield " ".join(tokenizer.tokenize(normalizer.normalize(line.lower()), escape=False))


def cut(line: str, words: set[str]) -> str:
    """The longest known word each time, else a run of ASCII, else a character."""
    longest = max(map(len, words))
    found = []
    for piece in line.split():
        while piece:
            known = next((piece[:size] for size in range(longest, 1, -1) if piece[:size] in words), piece[0])
            run = re.match(r"[!-~]+", piece)
            found.append(run[0] if run else known)
            piece = piece[len(found[-1]) :]
    return " ".join(found)


def read_pairs(path: Path) -> Pairs:
    return [
        tuple(side.split() for side in line.split("\t")) for line in path.read_text(encoding="utf-8").split("\n")[:-1]
    ]


if __name__ == "__main__":
    main()
