"""From raw text to words and back to text."""

import pickle

import pytest

from nmt.data.language import Preprocessing
from nmt.errors import ConfigurationError


def preprocessing(**settings):
    return Preprocessing(**({"language": "en", "normalize": False, "tokenizer": "none", "lowercase": False} | settings))


def test_nothing_asked_leaves_words_as_they_are():
    assert preprocessing()("  a \t b\u00a0c ") == "a b c"


def test_multi30k_is_prepared_as_its_own_repository_does():
    german = preprocessing(language="de", normalize=True, tokenizer="moses", lowercase=True)
    assert german("Zwei Männer (18-jährig) sagen: „Geht's?“") == (
        "zwei männer ( 18-jährig ) sagen : &quot; geht &apos; s ? &quot;"
    )
    assert german.restore("zwei männer ( 18-jährig ) sagen : ja .") == "zwei männer (18-jährig) sagen: ja."


def test_characters_stand_alone_and_other_text_does_not():
    chinese = preprocessing(language="zh", tokenizer="characters")
    assert chinese("他用Python 3.14编程。") == "他 用 Python 3.14 编 程 。"
    assert chinese.restore("他 用 Python 3.14 编 程 。") == "他用Python 3.14编程。"


def test_preprocessing_can_be_sent_to_another_process():
    moses = preprocessing(tokenizer="moses")
    assert moses("a,b") == pickle.loads(pickle.dumps(moses))("a,b") == "a , b"


def test_an_unknown_tokenizer_names_the_choices():
    with pytest.raises(ConfigurationError, match="tokenizer is mose: choose none, moses, characters"):
        preprocessing(tokenizer="mose")
