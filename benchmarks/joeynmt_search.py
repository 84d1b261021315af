"""Measure the search speed of Joey NMT 2.3.0 at the `small` comparison size.

    python benchmarks/joeynmt_search.py train --python VENV/bin/python --data FOLDER --model MODEL --updates 1440
    python benchmarks/joeynmt_search.py measure --python VENV/bin/python --data FOLDER --model MODEL --beams 1 5 12

VENV is the environment that joeynmt_peer.py creates. FOLDER holds {train,valid,test}.{en,de}, tokenized and lowercased.
`measure` prints one line of JSON. Two interpreters run this file, as they run joeynmt_peer.py. So the top of the file
imports only the standard library.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from joeynmt_peer import FILES, JOEY, joey_config, train_in_peer
from peers import choose_clock, search_figures

JOEY = replace(JOEY, script="joeynmt_search")


def comparison_config(data: Path, model: Path, updates: int) -> dict:
    """Return Joey's configuration of a comparison model that is validated once, at the end, and saved."""
    settings = joey_config(data, model.parent, updates)
    settings["model_dir"] = str(model)
    settings["data"]["test"] = str(data / "test")
    settings["training"]["validation_freq"] = updates
    settings["testing"] |= {"beam_alpha": 1.0, "n_best": 1}
    return settings


def search_in_peer(settings: Path, beams: list[int], threads: int, answers: Path) -> None:
    """Translate the test set with each beam by Joey's own prediction, after a warm-up with beam 1."""
    import torch
    from joeynmt.config import parse_global_args
    from joeynmt.prediction import predict, prepare

    torch.set_num_threads(threads)
    clock = choose_clock(threads)
    cfg = json.loads(settings.read_text())
    cfg["testing"]["load_model"] = cfg["load_model"] = str(Path(cfg["model_dir"]) / "best.ckpt")
    args = parse_global_args(cfg, rank=0, mode="test")
    model, _, _, test = prepare(args, rank=0, mode="test")

    def translate(beam: int) -> tuple[float, list]:
        test.reset_indices(random_subset=-1)
        options = args.test._replace(beam_size=beam)
        started = clock()
        _, _, hypotheses, *_ = predict(model, test, args.device, args.n_gpu, args=options, autocast=args.autocast)
        return clock() - started, hypotheses

    translate(1)
    figures = {}
    for beam in beams:
        seconds, hypotheses = translate(beam)
        figures[str(beam)] = search_figures(hypotheses, seconds)
        if not (Path(cfg["model_dir"]) / f"beam{beam}.txt").exists():
            (Path(cfg["model_dir"]) / f"beam{beam}.txt").write_text("\n".join(hypotheses) + "\n")
    answers.write_text(json.dumps(figures))


def run_in_peer(python: Path, *arguments: str, threads: int, log: Path) -> None:
    JOEY.run([str(python), __file__, *arguments], threads, log)


def measure(python: Path, model: Path, beams: list[int], threads: int) -> dict:
    answers = model.parent / "search.json"
    settings = str(model.parent / "config.json")
    beams = ",".join(map(str, beams))
    arguments = ("search-in-peer", settings, beams, str(threads), str(answers))
    run_in_peer(python, *arguments, threads=threads, log=log_path(model))
    return json.loads(answers.read_text())


def log_path(model: Path) -> Path:
    return model.parent / "log.txt"


def main() -> None:
    if sys.argv[1:2] == ["train-in-peer"]:
        train_in_peer(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
        return
    if sys.argv[1:2] == ["search-in-peer"]:
        search_in_peer(Path(sys.argv[2]), list(map(int, sys.argv[3].split(","))), int(sys.argv[4]), Path(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["train", "measure"])
    parser.add_argument("--python", type=Path, required=True, help="Python of the environment with Joey NMT")
    parser.add_argument("--data", type=Path, required=True, help="folder with {train,valid,test}.{en,de}")
    parser.add_argument(
        "--model", type=Path, required=True, help="folder of the trained model; other files go to its parent folder"
    )
    parser.add_argument("--updates", type=int, default=1440)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5, 12])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    python, model = options.python.absolute(), options.model.resolve()
    JOEY.stop_child_on_sigterm()
    JOEY.check(python, options.data, FILES)
    if options.verb == "measure":
        print(json.dumps(measure(python, model, options.beams, options.threads)))
        return
    model.parent.mkdir(parents=True, exist_ok=True)
    settings = model.parent / "config.json"
    settings.write_text(json.dumps(comparison_config(options.data.resolve(), model, options.updates)))
    clock = str(model.parent / "updates.json")
    arguments = ("train-in-peer", str(settings), str(options.threads), clock)
    run_in_peer(python, *arguments, threads=options.threads, log=log_path(model))


if __name__ == "__main__":
    main()
