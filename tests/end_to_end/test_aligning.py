"""From links of an aligner to a model that is trained on them and scored against them, as a user would."""

import json

from commands import TWO_STEPS, command

from nmt.data.toy_corpus import ToyPairs
from nmt.data.word_alignments import read_gold_file
from nmt.evaluation.alignment_error import link_scores

COUNTS = {"train": 1000, "valid": 20, "test": 40}


def test_attention_is_trained_on_links_of_the_aligner_and_scored_against_them(tmp_path):
    files = ["data=text"]
    for split, count in COUNTS.items():
        key = "tests.new" if split == "test" else split
        for side, lines in zip(("source", "target"), zip(*ToyPairs(split, count), strict=True), strict=True):
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
            files.append(f"data.{key}.{side}={tmp_path}/{split}.{side}")
    done = command("align", *files, f"output={tmp_path}/links", "samplers=1")
    assert "train.links, valid.links, tests.new.links" in done.stdout

    gold = ToyPairs("train", COUNTS["train"]).gold()
    links = list(read_gold_file(tmp_path / "links" / "train.links", 1))
    assert link_scores([one.possible for one in links], gold)["aer"] < 10
    assert link_scores([one.sure for one in links], gold)["precision"] > 95

    run = tmp_path / "run"
    guided = ["attention/penalty=guided", f"data.train.alignments={tmp_path}/links/train.links"]
    two_steps = [key for key in TWO_STEPS if "count" not in key]
    command("train", *files, *guided, *two_steps, "data.test=new", f"hydra.run.dir={run}")
    silver = [f"data.tests.new.alignments={tmp_path}/links/tests.new.links"]
    silver += ["data.tests.new.alignments_words=preprocessed"]
    scores = json.loads(command("evaluate", f"run={run}", *silver, "as_json=true", "beam=1").stdout)
    sure = sum(len(one.sure) for one in read_gold_file(tmp_path / "links" / "tests.new.links", 1))
    assert sum(float(row.split()[1]) for row in scores["alignment_counts"]) == sure
    assert 0 < scores["scores"]["aer"] < 100
