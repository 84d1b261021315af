"""Contract tests: each undocumented attribute of sacremoses is there and still means the same."""

import pytest
from sacremoses import MosesTokenizer

from nmt.data.moses_internals import CJK_TABLES, drop_cjk_tables, list_moses_languages

pytestmark = pytest.mark.xdist_group("Moses")  # because its tokenizers take a second to make


@pytest.fixture(scope="module", params=["zh", "ja"])
def tokenizer(request) -> MosesTokenizer:
    return MosesTokenizer(request.param)


@pytest.mark.parametrize("name", CJK_TABLES)
def test_chinese_and_japanese_tokenizers_hide_a_table_of_the_class(tokenizer, name):
    assert name in vars(tokenizer), f"sacremoses: MosesTokenizer(language).{name} is gone; change moses_internals"
    assert name in vars(MosesTokenizer), f"sacremoses: MosesTokenizer.{name} is gone; change moses_internals"


def test_no_other_table_of_the_class_is_hidden(tokenizer):
    hidden = {name for name in vars(tokenizer) if name in vars(MosesTokenizer)}
    assert hidden == set(CJK_TABLES), "sacremoses hides other tables; change moses_internals.CJK_TABLES"


def test_the_languages_of_moses_are_listed_by_their_codes():
    languages = list_moses_languages()
    assert {"cs", "de", "en", "fr", "zh"} < languages, (
        "sacremoses lists its languages elsewhere; change moses_internals"
    )
    assert "tr" not in languages


def test_ascii_text_is_tokenized_alike_without_the_cjk_tables(tokenizer):
    line = "It's 1,000 e.g. (not)/bar-baz: a@b.c, Mr. X's no. 5 & <tag> don't ..."
    fast = MosesTokenizer(tokenizer.lang)
    drop_cjk_tables(fast)
    assert fast.tokenize(line) == tokenizer.tokenize(line)
    assert len(fast.IsAlpha) < len(tokenizer.IsAlpha), "sacremoses: the CJK tables are no longer the larger ones"
