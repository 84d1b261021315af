"""What users do with trained models: files and pipes, rare words, given translations, and models put together."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import zstandard
from commands import answer, command

from nmt.config.schema import load_defaults
from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.toy_corpus import ToyPairs
from nmt.errors import UserError
from nmt.evaluation.forced_scoring import score_translations
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import Search
from nmt.training.weight_averaging import average_checkpoints
from nmt.translate.loading import build_search, make_translator
from nmt.translate.text_translator import TextTranslator
from nmt.translate.unknown_words import UnknownWords

TINY = ("size=tiny", "data.train.count=1500", "data.valid.count=40", "data.tests.test.count=30", "data.batches.size=25")
LEARNS = ("trainer.max_epochs=10", "optimizer.lr=0.005", "dropout=0.0")
LINES = [line.source for line in ToyPairs("test", 25)]

pytestmark = pytest.mark.xdist_group("translating")  # they share what the fixtures make


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    command("train", *TINY, *LEARNS, "logger=none", f"hydra.run.dir={folder}")
    return folder


@pytest.fixture(scope="module")
def translator(run) -> TextTranslator:
    return make_translator(TrainedRun(str(run)), "cpu")


def as_text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def test_the_settings_files_name_every_setting_of_a_search_with_its_default():
    assert build_search(load_defaults("translate")) == build_search(load_defaults("evaluate")) == Search()


def test_files_plain_and_packed_give_what_pipes_give(run, tmp_path):
    piped = command("translate", f"run={run}", "beam=2", stdin=as_text(LINES)).stdout
    assert piped.count("\n") == 25
    (tmp_path / "plain").write_bytes(as_text(LINES))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(as_text(LINES)))
    (tmp_path / "packed.zst").write_bytes(zstandard.compress(as_text(LINES)))
    unpack = {
        "out": bytes,
        "out.gz": gzip.decompress,
        "out.zst": zstandard.ZstdDecompressor().decompressobj().decompress,
    }
    for source, target in (("plain", "out"), ("packed.gz", "out.gz"), ("packed.zst", "out.zst")):
        command("translate", f"run={run}", "beam=2", f"input={tmp_path}/{source}", f"output={tmp_path}/{target}")
        written = (tmp_path / target).read_bytes()
        assert unpack[target](written).decode() == piped
        assert not (tmp_path / f"{target}.part").exists()
    (tmp_path / "cut.gz").write_bytes(gzip.compress(as_text(LINES))[:100])
    done = command("translate", f"run={run}", f"input={tmp_path}/cut.gz", f"output={tmp_path}/cut", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/cut.gz, after line ")
    assert not (tmp_path / "cut").exists()
    done = command("translate", f"run={run}", f"output={tmp_path}/plain/where", stdin=b"a\n", check=False)
    assert f"error: output={tmp_path}/plain/where: cannot be written" in done.stderr


def test_json_has_a_line_for_each_line_with_words_scores_and_alignments(run, translator):
    text = as_text(["", LINES[0], "  "])
    done = command("translate", f"run={run}", "format=json", "nbest=3", "alignments=true", stdin=text)
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert first == {"line": 1, "source": "", "translations": []}
    assert third["translations"] == []
    assert second["source"] == LINES[0]
    (expected,) = translator(LINES[:1], Search(nbest=3))
    assert len(second["translations"]) == 3
    for said, known in zip(second["translations"], expected, strict=True):
        assert len(said["words"]) == len(said["word_scores"]) == len(said["alignment"])
        assert sum(said["word_scores"]) == pytest.approx(said["log_probability"], abs=1e-3)
        assert said["score"] == pytest.approx(known.score, abs=1e-4)
        assert said["source_words"] == known.source
        np.testing.assert_allclose(np.array(said["alignment"]).sum(1), 1.0, atol=0.01)


def test_long_lines_are_translated_in_parts_and_nothing_is_lost(run, translator):
    long = " ".join(LINES[:6])  # each ends with a full stop or a question mark
    done = command(
        "translate", f"run={run}", "beam=2", "longest_line=25", "format=json", stdin=as_text([LINES[0], long, LINES[1]])
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["line"] for answer in answers] == [1, 2, 3]
    assert "line 2: longer than 25 words or pieces (longest_line); translated in" in done.stderr
    assert "line 1:" not in done.stderr
    (joined,) = answers[1]["translations"]
    assert joined["source_words"] == long.split()
    (whole,) = translator.translate_lines([(long, None)], Search(beam=2), max_pieces=25)
    alone = list(translator((part for part in parts_of(long, 25)), Search(beam=2)))
    assert whole.translations[0].words == " ".join(best.words for (best,) in alone)
    assert whole.translations[0].alignment.shape == (len(whole.translations[0].target), len(long.split()))
    offset = len(alone[0][0].word_alignment().T)
    assert (whole.translations[0].alignment[: len(alone[0][0].words.split()), offset:] == 0).all()


def parts_of(line, longest):
    """As long as they fit, cut after the last mark in the second half."""
    words, parts = line.split(), []
    while len(words) > longest:
        at = max(n for n in range(13, longest + 1) if words[n - 1] in ".?")
        parts.append(" ".join(words[:at]))
        words = words[at:]
    return [*parts, " ".join(words)]


def test_memory_and_order_do_not_depend_on_how_many_lines_are_read_ahead(translator):
    how = Search(beam=2)
    numbered = [(line, None) for line in [*LINES, "", *LINES[:3]]]
    together = [line.translations for line in translator.translate_lines(numbered, how)]
    drawn = 0

    def watched():
        nonlocal drawn
        for line in numbered:
            drawn += 1
            yield line

    for number, line in enumerate(translator.translate_lines(watched(), how, batch_size=2, read_ahead=2)):
        assert drawn <= number + 5
        assert [best.words for best in line.translations] == [best.words for best in together[number]]


def test_translations_begin_with_the_words_a_file_asks_for(run, tmp_path):
    prefix = ["vax", "zan"]  # two frequent words of the language
    (tmp_path / "prefixes").write_text(f"{' '.join(prefix)}\n\n")
    prefixes = f"prefixes={tmp_path}/prefixes"
    done = command("translate", f"run={run}", "unknown=keep", prefixes, stdin=as_text(LINES[:2]))
    free = command("translate", f"run={run}", "unknown=keep", stdin=as_text(LINES[:2]))
    assert done.stdout.splitlines()[0].split()[:2] == prefix
    assert done.stdout.splitlines()[1] == free.stdout.splitlines()[1]
    done = command("translate", f"run={run}", prefixes, stdin=as_text(LINES[:3]), check=False)
    assert f"{tmp_path}/prefixes has fewer lines" in done.stderr


class Table:
    """A word table of one word."""

    def best(self, word):
        return {"Gurcu": "GURCU"}.get(word)


def test_unknown_words_are_copied_or_translated_where_the_alignment_points(translator):
    (found,) = translator(["Gurcu pu ma"], Search(beam=1))
    language = translator.languages.target
    alignment = np.zeros((3, 4), dtype=np.float32)
    alignment[0, 3] = alignment[0, 0] = 0.4  # the end symbol is no word to point at
    alignment[1, 1], alignment[2, 2] = 1.0, 1.0
    said = found[0]._replace(
        source=["Gurcu", "pu", "Zuzu", "</s>"], target=["<unk>", "vax", "<unk>"], words="<unk> vax <unk>"
    )
    said = said._replace(alignment=alignment, text="", has_end=Sides(source=True, target=False))
    assert UnknownWords(language, None)(said).words == "Gurcu vax Zuzu"
    assert UnknownWords(language, Table())(said).text == "GURCU vax Zuzu"
    nowhere = said._replace(alignment=np.zeros_like(alignment))
    assert UnknownWords(language, Table())(nowhere).target == ["<unk>", "vax", "<unk>"]


def test_names_are_copied_and_scores_tell_before_from_after(run, tmp_path):
    kept, copied = (
        json.loads(command("evaluate", f"run={run}", f"unknown={how}", "beam=2", "as_json=true").stdout)
        for how in ("keep", "copy")
    )
    before = copied["scores"]["bleu_unknown_kept"]["score"]
    assert before == kept["scores"]["bleu_tokenized"]["score"]
    assert "bleu_unknown_kept" not in kept["scores"]
    assert copied["unknown"] == "copy"
    assert "⁇" not in (run / "test" / "hypotheses.txt").read_text()


def test_a_word_table_is_learned_once_and_kept_with_the_run(run):
    line = as_text(LINES[:3])
    done = command("translate", f"run={run}", "unknown=translate", stdin=line)
    assert "learning it from the training text" in done.stderr
    table = TrainedRun(str(run)).word_table()
    names = {word for line in ToyPairs("test", 200) for word in line.source.split() if word[0].isupper()}
    known = [name for name in names if table.translations(name)]
    assert len(known) > 10
    assert all(table.best(name) == name for name in known)
    again = command("translate", f"run={run}", "unknown=translate", stdin=line)
    assert again.stdout == done.stdout
    assert "learning" not in again.stderr


def test_given_translations_are_scored_word_for_word(run, translator, tmp_path):
    pairs = [SentencePair(line.source, line.target) for line in ToyPairs("test", 70)]
    for side in range(2):
        (tmp_path / f"side{side}").write_bytes(as_text([pair[side] for pair in pairs]))
    files = f"score=[{tmp_path}/side0,{tmp_path}/side1]"
    given = [json.loads(line) for line in command("evaluate", f"run={run}", files, "as_json=true").stdout.splitlines()]
    assert [len(one["word_scores"]) for one in given] == [len(pair.target.split()) + 1 for pair in pairs]
    assert [len(one["alignment"][0]) for one in given] == [len(pair.source.split()) + 1 for pair in pairs]
    plain = [line.split("\t") for line in command("evaluate", f"run={run}", files).stdout.splitlines()]
    assert [float(total) for total, _ in plain] == pytest.approx([one["log_probability"] for one in given], abs=1e-3)
    (found,) = translator([pairs[5].source], Search(beam=1, longest_ratio=3.0))
    (own,) = score_translations(translator, iter([SentencePair(pairs[5].source, found[0].words)]))
    assert own.log_probability == pytest.approx(found[0].log_probability, abs=1e-4)
    np.testing.assert_allclose(own.alignment, found[0].alignment, atol=1e-5)
    (tmp_path / "side1").write_bytes(as_text(["one"]))
    done = command("evaluate", f"run={run}", files, check=False)
    assert f"{tmp_path}/side1 ends after line 1, {tmp_path}/side0 goes on" in done.stderr


def test_an_n_best_list_is_ranked_anew(run, tmp_path):
    source, nbest = tmp_path / "source", tmp_path / "nbest"
    source.write_bytes(as_text(LINES[:3]))
    own = command("translate", f"run={run}", "nbest=4", "unknown=keep", stdin=as_text(LINES[:3])).stdout
    nbest.write_text("".join(" ||| ".join([*line.split(" ||| ")[:2], "-1.0\n"]) for line in own.splitlines()))
    ranked = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]", "rescore_weight=0.5").stdout
    fields = [line.split(" ||| ") for line in ranked.splitlines()]
    before = [line.split(" ||| ") for line in own.splitlines()]
    assert [field[:2] for field in fields] == [field[:2] for field in before]  # the run agrees with itself
    for (_, _, together, score, mean), known in zip(fields, before, strict=True):
        assert float(mean) == pytest.approx(float(known[2]), abs=2e-3)
        assert float(together) == pytest.approx(float(score) + 0.5 * float(mean), abs=2e-4)
    own = command("translate", f"run={run}", "nbest=2", "alignments=true", stdin=as_text(LINES[:1])).stdout
    nbest.write_text(own + "0 |||  ||| -3.2 ||| \n")  # a translation of no words has no links
    ranked = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]").stdout
    assert len(ranked.splitlines()) == 3
    nbest.write_text("0 ||| a ||| b\n")
    done = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]", check=False)
    assert f"{nbest}, line 1: is not an n-best line. Fix: number ||| text ||| score" in done.stderr
    nbest.write_text("7 ||| a ||| 1\n")
    done = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]", check=False)
    assert f"{nbest}, line 1: has sentence number 7, but the source has 3 lines" in done.stderr


def test_checkpoints_are_averaged_into_one_that_translates(run, tmp_path):
    best = run / "checkpoints" / "best.ckpt"
    other = torch.load(best, weights_only=True)
    for name, value in other["state_dict"].items():
        if value.is_floating_point():
            other["state_dict"][name] = value + 1.0
    torch.save(other, tmp_path / "other.ckpt")
    average_checkpoints([tmp_path / "other.ckpt", best], tmp_path / "mean.ckpt")
    first, mean = TrainedRun(str(best)), TrainedRun(str(tmp_path / "mean.ckpt"))
    for one, two in zip(first.model.parameters(), mean.model.parameters(), strict=True):
        torch.testing.assert_close(one + 0.5, two)
    assert command("translate", f"run={tmp_path}/mean.ckpt", "beam=1", stdin=b"Gurcu\n").stdout.count("\n") == 1
    other["state_dict"].popitem()
    torch.save(other, tmp_path / "other.ckpt")
    with pytest.raises(UserError, match=r"other parameters than .* Fix: average checkpoints of one model"):
        average_checkpoints([tmp_path / "other.ckpt", best], tmp_path / "mean.ckpt")


@pytest.mark.slow
def test_large_vocabularies_train_and_translate_among_candidates(tmp_path):
    folder = tmp_path / "large"
    lists = ("data/candidates=lists", "data.candidates.most_frequent=50", "data.candidates.translations=5")
    command("train", *TINY, *lists, "optimizer=sparse_adam", *LEARNS, f"hydra.run.dir={folder}")
    run = TrainedRun(str(folder))
    assert (folder / "candidates.npz").is_file()
    assert run.model.output.sparse
    with_lists, whole = (
        json.loads(command("evaluate", f"run={folder}", f"candidates={given}", "as_json=true").stdout)["scores"]
        for given in ("null", "false")
    )
    assert with_lists["perplexity"] == pytest.approx(whole["perplexity"])
    assert with_lists["bleu"]["score"] > 0.5 * whole["bleu"]["score"] > 1.0
    (folder / "candidates.npz").unlink()
    done = command("translate", f"run={folder}", stdin=b"a\n", check=False)
    assert f"{folder} has no candidates.npz, which belongs to its checkpoints" in done.stderr


def test_candidates_are_refused_where_none_were_trained_with(run):
    done = command("translate", f"run={run}", "candidates=true", stdin=b"a\n", check=False)
    assert f"candidates=true: {run} was trained over its whole vocabulary" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("format=xml", "format=xml: no such format. Fix: format=text or format=json"),
        ("unknown=guess", "unknown=guess: no such mode. Fix: unknown=keep, unknown=copy or unknown=translate"),
        ("stop=never", "stop=never: no such choice. Fix: stop=safe or stop=first"),
        ("beam=0", "beam=0: must be at least 1"),
        ("batch_size=0", "batch_size=0: must be at least 1"),
        ("longest_line=0", "longest_line=0: must be at least 1"),
        ("device=gpu", "device=gpu: not available here. Fix: device=auto, or one of cpu"),
        ("temperatur=2", "did you mean temperature?"),
        ("input=nowhere", "nowhere: no such file"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(run, wrong, said, capfd, monkeypatch):
    status, answered = answer("translate", f"run={run}", wrong, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert said in answered
    assert answered.count("\n") == 1


def test_evaluation_refuses_batches_of_nothing(run, capfd, monkeypatch):
    status, said = answer("evaluate", f"run={run}", "batch_size=0", capture=capfd, monkeypatch=monkeypatch)
    assert (status, said) == (1, "error: batch_size=0: must be at least 1\n")


def test_a_score_file_holds_every_measure_and_alignments_are_judged_by_the_gold_ones(run, tmp_path):
    done = command("evaluate", f"run={run}", "by_frequency=true", f"output={tmp_path}/all", "as_json=true")
    stored = json.loads(done.stdout)
    assert {"bleu", "bleu_13a", "bleu_nist", "ribes", "tb", "aer", "saer", "repeated_2grams"} <= set(stored["scores"])
    forced = (tmp_path / "all/test/forced_links.txt").read_text().splitlines()
    assert len(forced) == len((tmp_path / "all/test/links.txt").read_text().splitlines()) == 30
    gold = tmp_path / "gold"
    gold.write_text("".join(" ".join(f"{s}-{t}" for s, t in pair) + "\n" for pair in ToyPairs("test", 30).links()))
    files = (f"links={tmp_path}/all/test/forced_links.txt", f"gold={gold}", "gold_base=0", "as_json=true")
    alone = json.loads(command("evaluate", *files).stdout)
    assert alone["aer"] == pytest.approx(stored["scores"]["aer"])
    assert sum(bucket["sentences"] for bucket in stored["by_length"]) == 30
    words = sum(len(line.target.split()) for line in ToyPairs("test", 30))
    assert sum(bucket["reference_words"] for bucket in stored["by_frequency"]) == words
    sentences = [json.loads(line) for line in (tmp_path / "all/test/sentences.jsonl").read_text().splitlines()]
    assert [one["source"] for one in sentences] == [line.source for line in ToyPairs("test", 30)]
    (tmp_path / "reference").write_bytes(as_text([line.target for line in ToyPairs("test", 30)]))
    files = (f"hypotheses={tmp_path}/all/test/hypotheses.txt", f"reference={tmp_path}/reference", "tokenize=none")
    scores = json.loads(command("evaluate", *files, "as_json=true").stdout)
    assert scores["bleu"] == stored["scores"]["bleu"]
    done = command("evaluate", *files[:1], check=False)
    assert "needs reference= too. Fix: hypotheses=FILE reference=FILE" in done.stderr
