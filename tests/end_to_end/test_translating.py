"""Translation with trained models: files and pipes, rare words, given translations, averaged checkpoints."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import zstandard
from commands import answer, command
from stand_in_recorder import run_again

from nmt.config.schema import load_defaults
from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.toy_corpus import ToyPairs
from nmt.errors import ConfigurationError, UserError
from nmt.evaluation.forced_scoring import score_translations
from nmt.runs.checkpoint_average import average_checkpoints
from nmt.runs.trained_model import TrainedRun
from nmt.search.settings import Search
from nmt.translate.loading import build_search, make_translator
from nmt.translate.text_translator import TextTranslator
from nmt.translate.unknown_words import UnknownWords

TINY = ("size=tiny", "data.train.count=1500", "data.valid.count=40", "data.tests.test.count=30", "data.batches.size=25")
LEARNS = ("trainer.max_epochs=10", "optimizer.lr=0.005", "dropout=0.0")
LINES = [line.source for line in ToyPairs("test", 25)]

pytestmark = pytest.mark.xdist_group("translating")  # the tests share module fixtures


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    command("train", *TINY, *LEARNS, "logger=none", f"hydra.run.dir={folder}")
    return folder


@pytest.fixture(scope="module")
def translator(run) -> TextTranslator:
    return make_translator(TrainedRun(str(run)), "cpu")


def encode_lines(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def test_the_settings_files_list_every_search_setting_with_its_default():
    assert build_search(load_defaults("translate")) == build_search(load_defaults("evaluate")) == Search()


def test_plain_and_compressed_files_translate_like_pipes(run, tmp_path):
    piped = command("translate", f"run={run}", "beam=2", stdin=encode_lines(LINES)).stdout
    assert piped.count("\n") == 25
    (tmp_path / "plain").write_bytes(encode_lines(LINES))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(encode_lines(LINES)))
    (tmp_path / "packed.zst").write_bytes(zstandard.compress(encode_lines(LINES)))
    unpack = {
        "out": bytes,
        "out.gz": gzip.decompress,
        "out.zst": zstandard.ZstdDecompressor().decompressobj().decompress,
    }
    for source, target in (("plain", "out"), ("packed.gz", "out.gz"), ("packed.zst", "out.zst")):
        command("translate", f"run={run}", "beam=2", f"input={tmp_path}/{source}", f"output={tmp_path}/{target}")
        written = (tmp_path / target).read_bytes()
        assert unpack[target](written).decode() == piped
        assert list(tmp_path.glob("*.part")) == []
    (tmp_path / "cut.gz").write_bytes(gzip.compress(encode_lines(LINES))[:100])
    done = command("translate", f"run={run}", f"input={tmp_path}/cut.gz", f"output={tmp_path}/cut", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/cut.gz, after line ")
    assert not (tmp_path / "cut").exists()
    done = command("translate", f"run={run}", f"output={tmp_path}/plain/where", stdin=b"a\n", check=False)
    assert f"error: output={tmp_path}/plain/where: cannot be written" in done.stderr


def test_graphs_find_the_same_translations(run, translator):
    languages, source_end = translator.languages, translator.source_end
    graphed = TextTranslator(translator.model, languages, source_end=source_end, record=run_again)
    plain = list(translator(LINES, Search(beam=3), batch_size=4))
    for _ in range(2):
        for (one,), (other,) in zip(plain, graphed(LINES, Search(beam=3), batch_size=4), strict=True):
            assert (other.words, other.source) == (one.words, one.source)
            np.testing.assert_allclose(other.alignment, one.alignment, atol=1e-5)
    assert any(graphed.searched.graphs.values())
    with pytest.raises(ConfigurationError, match="graphs=true: needs an NVIDIA GPU"):
        make_translator(TrainedRun(str(run)), "cpu", graphs=True)


def test_json_has_one_line_per_source_with_words_scores_and_alignments(run, translator):
    text = encode_lines(["", LINES[0], "  "])
    done = command("translate", f"run={run}", "format=json", "nbest=3", "alignments=true", stdin=text)
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert first == {"line": 1, "source": "", "translations": []}
    assert third["translations"] == []
    assert second["source"] == LINES[0]
    (expected,) = translator(LINES[:1], Search(nbest=3))
    assert len(second["translations"]) == 3
    for translation, known in zip(second["translations"], expected, strict=True):
        assert len(translation["words"]) == len(translation["word_scores"]) == len(translation["alignment"])
        assert sum(translation["word_scores"]) == pytest.approx(translation["log_probability"], abs=1e-3)
        assert translation["score"] == pytest.approx(known.score, abs=1e-4)
        assert translation["source_words"] == known.source
        np.testing.assert_allclose(np.array(translation["alignment"]).sum(1), 1.0, atol=0.01)


def test_long_lines_are_translated_in_parts_without_losing_words(run, translator):
    long = " ".join(LINES[:6])  # each ends with a full stop or a question mark
    done = command(
        "translate",
        f"run={run}",
        "beam=2",
        "longest_line=25",
        "format=json",
        stdin=encode_lines([LINES[0], long, LINES[1]]),
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["line"] for answer in answers] == [1, 2, 3]
    assert "line 2: longer than 25 words or pieces (longest_line); translated in" in done.stderr
    assert "line 1:" not in done.stderr
    (joined,) = answers[1]["translations"]
    assert joined["source_words"] == long.split()
    (joined_line,) = translator.translate_lines([(long, None)], Search(beam=2), max_pieces=25)
    alone = list(translator((part for part in split_line(long, 25)), Search(beam=2)))
    assert joined_line.translations[0].words == " ".join(best.words for (best,) in alone)
    assert joined_line.translations[0].alignment.shape == (len(joined_line.translations[0].target), len(long.split()))
    offset = len(alone[0][0].word_alignment().T)
    assert (joined_line.translations[0].alignment[: len(alone[0][0].words.split()), offset:] == 0).all()


def split_line(line, longest):
    """Split a line into the longest parts that fit, after the last punctuation mark of the second half."""
    words, parts = line.split(), []
    while len(words) > longest:
        at = max(n for n in range(13, longest + 1) if words[n - 1] in ".?")
        parts.append(" ".join(words[:at]))
        words = words[at:]
    return [*parts, " ".join(words)]


def test_read_ahead_is_bounded_and_keeps_translations_and_order(translator):
    how = Search(beam=2)
    numbered = [(line, None) for line in [*LINES, "", *LINES[:3]]]
    together = [line.translations for line in translator.translate_lines(numbered, how)]
    drawn = 0

    def count_lines():
        nonlocal drawn
        for line in numbered:
            drawn += 1
            yield line

    for number, line in enumerate(translator.translate_lines(count_lines(), how, batch_size=2, read_ahead=2)):
        assert drawn <= number + 5
        assert [best.words for best in line.translations] == [best.words for best in together[number]]


def test_translations_begin_with_the_prefixes_of_a_file(run, tmp_path):
    prefix = ["vax", "zan"]  # two frequent words of the language
    (tmp_path / "prefixes").write_text(f"{' '.join(prefix)}\n\n")
    prefixes = f"prefixes={tmp_path}/prefixes"
    done = command("translate", f"run={run}", "unknown=keep", prefixes, stdin=encode_lines(LINES[:2]))
    free = command("translate", f"run={run}", "unknown=keep", stdin=encode_lines(LINES[:2]))
    assert done.stdout.splitlines()[0].split()[:2] == prefix
    assert done.stdout.splitlines()[1] == free.stdout.splitlines()[1]
    done = command("translate", f"run={run}", prefixes, stdin=encode_lines(LINES[:3]), check=False)
    assert f"{tmp_path}/prefixes has fewer lines" in done.stderr


class Table:
    """A word table of one word."""

    def best(self, word):
        return {"Gurcu": "GURCU"}.get(word)


def test_unknown_words_are_copied_or_translated_by_alignment(translator):
    (nbest,) = translator(["Gurcu pu ma"], Search(beam=1))
    language = translator.languages.target
    alignment = np.zeros((3, 4), dtype=np.float32)
    alignment[0, 3] = alignment[0, 0] = 0.4  # the end symbol is never copied
    alignment[1, 1], alignment[2, 2] = 1.0, 1.0
    translation = nbest[0]._replace(
        source=["Gurcu", "pu", "Zuzu", "</s>"], target=["<unk>", "vax", "<unk>"], words="<unk> vax <unk>"
    )
    translation = translation._replace(alignment=alignment, text="", has_end=Sides(source=True, target=False))
    assert UnknownWords(language, None)(translation).words == "Gurcu vax Zuzu"
    assert UnknownWords(language, Table())(translation).text == "GURCU vax Zuzu"
    nowhere = translation._replace(alignment=np.zeros_like(alignment))
    assert UnknownWords(language, Table())(nowhere).target == ["<unk>", "vax", "<unk>"]


def test_names_are_copied_and_scored_before_and_after_copying(run, tmp_path):
    kept, copied = (
        json.loads(command("evaluate", f"run={run}", f"unknown={how}", "beam=2", "as_json=true").stdout)
        for how in ("keep", "copy")
    )
    before = copied["scores"]["bleu_unknown_kept"]["score"]
    assert before == kept["scores"]["bleu_tokenized"]["score"]
    assert "bleu_unknown_kept" not in kept["scores"]
    assert copied["unknown"] == "copy"
    assert "⁇" not in (run / "test,beam=2,unknown=copy" / "hypotheses.txt").read_text()


def test_a_word_table_is_learned_once_and_stored_with_the_run(run):
    line = encode_lines(LINES[:3])
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


def test_given_translations_are_scored_word_by_word(run, translator, tmp_path):
    pairs = [SentencePair(line.source, line.target) for line in ToyPairs("test", 70)]
    for side in range(2):
        (tmp_path / f"side{side}").write_bytes(encode_lines([pair[side] for pair in pairs]))
    files = f"score=[{tmp_path}/side0,{tmp_path}/side1]"
    given = [json.loads(line) for line in command("evaluate", f"run={run}", files, "as_json=true").stdout.splitlines()]
    assert [len(one["word_scores"]) for one in given] == [len(pair.target.split()) + 1 for pair in pairs]
    assert [len(one["alignment"][0]) for one in given] == [len(pair.source.split()) + 1 for pair in pairs]
    plain = [line.split("\t") for line in command("evaluate", f"run={run}", files).stdout.splitlines()]
    assert [float(total) for total, _ in plain] == pytest.approx([one["log_probability"] for one in given], abs=1e-3)
    (nbest,) = translator([pairs[5].source], Search(beam=1, longest_ratio=3.0))
    (scored,) = score_translations(translator, iter([SentencePair(pairs[5].source, nbest[0].words)]))
    assert scored.log_probability == pytest.approx(nbest[0].log_probability, abs=1e-4)
    np.testing.assert_allclose(scored.alignment, nbest[0].alignment, atol=1e-5)
    (tmp_path / "side1").write_bytes(encode_lines(["one"]))
    done = command("evaluate", f"run={run}", files, check=False)
    assert f"{tmp_path}/side1 ends after line 1, {tmp_path}/side0 goes on" in done.stderr


def test_an_n_best_list_is_rescored(run, tmp_path):
    source, nbest = tmp_path / "source", tmp_path / "nbest"
    source.write_bytes(encode_lines(LINES[:3]))
    hypotheses = command("translate", f"run={run}", "nbest=4", "unknown=keep", stdin=encode_lines(LINES[:3])).stdout
    nbest.write_text("".join(" ||| ".join([*line.split(" ||| ")[:2], "-1.0\n"]) for line in hypotheses.splitlines()))
    ranked = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]", "rescore_weight=0.5").stdout
    fields = [line.split(" ||| ") for line in ranked.splitlines()]
    before = [line.split(" ||| ") for line in hypotheses.splitlines()]
    assert [field[:2] for field in fields] == [field[:2] for field in before]  # the run agrees with itself
    for (_, _, together, score, mean), known in zip(fields, before, strict=True):
        assert float(mean) == pytest.approx(float(known[2]), abs=2e-3)
        assert float(together) == pytest.approx(float(score) + 0.5 * float(mean), abs=2e-4)
    hypotheses = command("translate", f"run={run}", "nbest=2", "alignments=true", stdin=encode_lines(LINES[:1])).stdout
    nbest.write_text(hypotheses + "0 |||  ||| -3.2 ||| \n")  # an empty translation has no links
    ranked = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]").stdout
    assert len(ranked.splitlines()) == 3
    nbest.write_text("0 ||| a ||| b\n")
    done = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]", check=False)
    assert f"{nbest}, line 1: is not an n-best line. Fix: number ||| text ||| score" in done.stderr
    nbest.write_text("7 ||| a ||| 1\n")
    done = command("evaluate", f"run={run}", f"rescore=[{source},{nbest}]", check=False)
    assert f"{nbest}, line 1: has sentence number 7, but the source has 3 lines" in done.stderr


def test_an_averaged_checkpoint_has_the_mean_weights_and_translates(run, tmp_path):
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
def test_large_vocabularies_train_and_translate_with_candidate_lists(tmp_path):
    folder = tmp_path / "large"
    lists = ("data/candidates=lists", "data.candidates.most_frequent=50", "data.candidates.translations=5")
    command("train", *TINY, *lists, "optimizer=sparse_adam", *LEARNS, "logger=none", f"hydra.run.dir={folder}")
    run = TrainedRun(str(folder))
    assert (folder / "candidates.npz").is_file()
    assert run.model.output.sparse
    with_lists, full = (
        json.loads(command("evaluate", f"run={folder}", f"candidates={given}", "as_json=true").stdout)["scores"]
        for given in ("null", "false")
    )
    assert with_lists["perplexity"] == pytest.approx(full["perplexity"])
    assert with_lists["bleu"]["score"] > 0.5 * full["bleu"]["score"] > 1.0
    (folder / "candidates.npz").unlink()
    done = command("translate", f"run={folder}", stdin=b"a\n", check=False)
    assert f"{folder} has no candidates.npz, which belongs to its checkpoints" in done.stderr


def test_candidates_are_refused_for_a_run_trained_without_them(run):
    done = command("translate", f"run={run}", "candidates=true", stdin=b"a\n", check=False)
    assert f"candidates=true: {run} was trained over its whole vocabulary" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "message"),
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
def test_an_invalid_setting_ends_with_one_error_line(run, wrong, message, capfd, monkeypatch):
    status, stderr = answer("translate", f"run={run}", wrong, capture=capfd, monkeypatch=monkeypatch)
    assert status == 1
    assert message in stderr
    assert stderr.count("\n") == 1


def test_evaluation_refuses_a_batch_size_of_zero(run, capfd, monkeypatch):
    status, stderr = answer("evaluate", f"run={run}", "batch_size=0", capture=capfd, monkeypatch=monkeypatch)
    assert (status, stderr) == (1, "error: batch_size=0: must be at least 1\n")


def test_a_score_file_contains_every_metric_and_scores_gold_alignments(run, tmp_path):
    done = command("evaluate", f"run={run}", "by_frequency=true", f"output={tmp_path}/all", "as_json=true")
    stored = json.loads(done.stdout)
    assert {"bleu", "bleu_13a", "bleu_nist", "ribes", "tb", "aer", "saer", "repeated_2grams"} <= set(stored["scores"])
    forced = (tmp_path / "all/test/forced_links.txt").read_text().splitlines()
    assert len(forced) == len((tmp_path / "all/test/links.txt").read_text().splitlines()) == 30
    gold = tmp_path / "gold"
    gold.write_text("".join(" ".join(f"{s}-{t}" for s, t in one.sure) + "\n" for one in ToyPairs("test", 30).gold()))
    files = (f"links={tmp_path}/all/test/forced_links.txt", f"gold={gold}", "gold_base=0", "as_json=true")
    alone = json.loads(command("evaluate", *files).stdout)
    assert alone["aer"] == pytest.approx(stored["scores"]["aer"])
    assert sum(bucket["sentences"] for bucket in stored["by_length"]) == 30
    words = sum(len(line.target.split()) for line in ToyPairs("test", 30))
    assert sum(bucket["reference_words"] for bucket in stored["by_frequency"]) == words
    sentences = [json.loads(line) for line in (tmp_path / "all/test/sentences.jsonl").read_text().splitlines()]
    assert [one["source"] for one in sentences] == [line.source for line in ToyPairs("test", 30)]
    (tmp_path / "reference").write_bytes(encode_lines([line.target for line in ToyPairs("test", 30)]))
    files = (f"hypotheses={tmp_path}/all/test/hypotheses.txt", f"reference={tmp_path}/reference", "tokenize=none")
    scores = json.loads(command("evaluate", *files, "as_json=true").stdout)
    assert scores["bleu"] == stored["scores"]["bleu"]
    done = command("evaluate", *files[:1], check=False)
    assert "needs reference= too. Fix: hypotheses=FILE reference=FILE" in done.stderr
