"""Preprocessing: raw text to words, and words back to text."""

import errno
import os
import pickle
import re
import subprocess
import sys
import time

import pytest
from commands import ROOT
from compositions import configured
from omegaconf import OmegaConf
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacremoses import MosesTokenizer

from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.preprocess_pool import PreprocessPool
from nmt.data.preprocessing import IDEOGRAPHS, Preprocessing, check_languages, languages_of_country
from nmt.errors import ConfigurationError, DataError


def preprocessing(**settings):
    return Preprocessing(**({"language": "en", "normalize": False, "tokenizer": "none", "lowercase": False} | settings))


def test_without_settings_words_stay_as_they_are():
    assert preprocessing()("  a \t b\u00a0c ") == "a b c"


@pytest.mark.parametrize(("code", "languages"), [("cz", ["cs"]), ("jp", ["ja"]), ("br", []), ("tr", []), ("quy", [])])
def test_the_code_of_a_country_leads_to_its_languages(code, languages):
    assert languages_of_country(code) == languages


def test_a_language_without_rules_of_moses_is_a_warning(caplog):
    side = {"tokenizer": "moses", "normalize": False}
    check_languages(OmegaConf.create({"source": side | {"language": "quy"}, "target": side | {"language": "de"}}))
    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("data.source.language=quy: Moses has no rules for it")
    assert warning.endswith("; the text is split as English")


def test_multi30k_is_preprocessed_as_in_its_repository():
    german = preprocessing(language="de", normalize=True, tokenizer="moses", lowercase=True)
    assert german("Zwei Männer (18-jährig) sagen: „Geht's?“") == (
        "zwei männer ( 18-jährig ) sagen : &quot; geht &apos; s ? &quot;"
    )
    assert german.restore("zwei männer ( 18-jährig ) sagen : ja .") == "zwei männer (18-jährig) sagen: ja."


def test_characters_are_words_and_other_text_is_not_split():
    chinese = preprocessing(language="zh", tokenizer="characters")
    assert chinese("他用Python 3.14编程。") == "他 用 Python 3.14 编 程 。"
    assert chinese.restore("他 用 Python 3.14 编 程 。") == "他用Python 3.14编程。"
    for line in ("夜晚的城市——第一印象。", "他走了……没有回来。"):
        assert chinese.restore(chinese(line)) == line


@pytest.mark.parametrize("settings", [{}, {"tokenizer": "moses"}, {"tokenizer": "characters", "language": "zh"}])
def test_unknown_word_is_one_word_for_sacrebleu(settings):
    text = preprocessing(**settings).restore("the <unk> ( <unk> ) , <unk> .")
    assert Tokenizer13a()(text) == "the ⁇ ( ⁇ ) , ⁇ ."


@pytest.mark.parametrize("language", ["zh", "ja"])
@pytest.mark.parametrize(
    "line",
    [
        "参见 PEP 8. 这是 :func:`open` 的``None``, e.g. 3.14，“引号”——和…",
        "它返回 1,000 个'x'. A.B. 的 don't (foo)/bar-baz 以及 a@b.c.",
        "カーの「です」 Mr. 東京 no. 5 ⺀x",
        "only ASCII, no. 5 then.",
    ],
)
def test_characters_equal_the_moses_output_of_the_complete_line(language, line):
    apart = "".join(f" {letter} " if re.match(f"[{IDEOGRAPHS}]", letter) else letter for letter in line)
    expected = MosesTokenizer(language).tokenize(apart, return_str=True, escape=True)
    assert preprocessing(language=language, tokenizer="characters")(line) == expected


def test_preprocessing_can_be_pickled():
    moses = preprocessing(tokenizer="moses")
    assert moses("a,b") == pickle.loads(pickle.dumps(moses))("a,b") == "a , b"


@pytest.mark.slow
def test_error_says_that_a_process_of_preprocessing_was_killed():
    with PreprocessPool(Sides(*[preprocessing(tokenizer="moses")] * 2)) as pool:
        list(pool.preprocess([SentencePair("a", "b")]))
        for process in pool.pool._processes.values():
            process.kill()
        with pytest.raises(DataError, match=r"a process that preprocesses text was killed, .* Fix: give the same"):
            list(pool.preprocess([SentencePair("a", "b")] * 10))
        with pytest.raises(DataError, match=r"a process that preprocesses text was killed"):  # as submitting notices
            list(pool.preprocess([SentencePair("a", "b")] * 10))


PROGRAM = """
import os
from nmt.data.parallel_text import SentencePair, Sides
from nmt.data.preprocess_pool import PreprocessPool
from nmt.data.preprocessing import Preprocessing
if __name__ == "__main__":
    side = Preprocessing(language="en", tokenizer="moses", normalize=False, lowercase=False)
    with PreprocessPool(Sides(side, side)) as pool:
        print(*pool.preprocess([SentencePair("a, b", "c.")]), "PYTHONSAFEPATH" in os.environ)
    print("PYTHONSAFEPATH" in os.environ)
"""


def test_processes_import_no_modules_of_the_working_directory(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "multiprocessing.py").write_text("raise SystemExit('a foreign module was imported')")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["PYTHONPATH"] = str(ROOT)
    command, here = [sys.executable, str(tmp_path / "program.py")], tmp_path / "here"
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "SentencePair(source='a , b', target='c .') True\nFalse\n", done.stderr


def test_one_process_preprocesses_where_dev_shm_cannot_be_used(monkeypatch, caplog):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("nmt.data.preprocess_pool.ProcessPoolExecutor", refuse)
    with PreprocessPool(Sides(*[preprocessing(tokenizer="moses")] * 2)) as pool:
        assert list(pool.preprocess([SentencePair("a,", "b.")])) == [SentencePair("a ,", "b .")]
    (message,) = caplog.messages
    assert message.startswith("one process preprocesses the text, because others cannot be used (Permission denied)")


def test_unknown_tokenizer_is_refused_with_the_choices():
    with pytest.raises(
        ConfigurationError,
        match=r"source\.tokenizer=mose or .*: unknown tokenizer\. Fix: choose none, moses, characters",
    ):
        preprocessing(tokenizer="mose")


@pytest.mark.parametrize(
    "line",
    [
        'See :c:type:`Py_Object` and ``a < b[0]``, "a" — it\'s 1,000 (*not* 10).',
        "``x``s, `so`_ and **so much**: :ref:`here <it's>`.",
        "* no emphasis *, nor `this",
    ],
)
def test_markup_of_the_python_documentation_is_restored_unchanged(line):
    target = configured("data=pydocs_zhen").data.target
    preprocess = Preprocessing(**{key: value for key, value in target.items() if key != "_target_"})
    assert preprocess.restore(preprocess(line)) == line


def test_markup_stays_one_word_on_both_sides():
    chinese = preprocessing(language="zh", tokenizer="characters", markup="rst")
    english = preprocessing(tokenizer="moses", markup="rst")
    assert chinese("参见:func:`open`、*ctx*。") == "参 见 :func:`open` 、 *ctx* 。"
    assert english("See :func:`open`, *ctx*.") == "See :func:`open` , *ctx* ."


@pytest.mark.parametrize("part", ["*a* ", "*a", ":", "`", "``a "])
def test_markup_takes_time_linear_in_the_text(part):
    """Even if there is more markup than the library can protect."""
    line = part * 10_000
    start = time.process_time()
    words = preprocessing(tokenizer="moses", markup="rst")(line)
    assert time.process_time() - start < 5
    assert words.replace(" ", "") == line.replace(" ", "")


def test_unknown_or_useless_markup_is_refused():
    with pytest.raises(ConfigurationError, match=r"target\.markup=html: unknown markup\. Fix: choose null or rst"):
        preprocessing(tokenizer="moses", markup="html")
    with pytest.raises(ConfigurationError, match="markup=rst: no effect, because tokenizer=none splits nothing"):
        preprocessing(markup="rst")
