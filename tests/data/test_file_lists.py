"""Lists of text files: several files are one corpus."""

import gzip

import pytest
from compositions import configured
from hydra.utils import instantiate

from nmt.data.parallel_text import FilePairs
from nmt.errors import ConfigurationError, DataError


@pytest.fixture
def files(tmp_path):
    """Write text to files and return their paths by name."""

    def write(**texts: str) -> dict[str, str]:
        for name, text in texts.items():
            (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        return {name: str(tmp_path / name) for name in texts}

    return write


def test_several_files_are_read_in_order_as_one_corpus(files):
    at = files(
        a="a1\n\na2\n", b="b1\n", x="x1\n\nx2\n", y="y1\n", links="1-1\n\n2-2\n", more="3-3\n", other="o1\n\no2\no3\n"
    )
    pairs = FilePairs([at["a"], at["b"]], [at["x"], at["y"]])
    assert [tuple(pair) for pair in pairs] == [("a1", "x1"), ("a2", "x2"), ("b1", "y1")]
    assert pairs.blank == 1
    pairs = FilePairs(
        [at["a"], at["b"]], [at["x"], at["y"]], alignments=[at["links"], at["more"]], references=at["other"]
    )
    assert [gold.sure for gold in pairs.gold()] == [{(0, 0)}, {(1, 1)}, {(2, 2)}]
    assert pairs.further_references() == [["o1", "o2", "o3"]]


def test_count_takes_the_first_lines_of_all_files(files):
    at = files(a="a1\n\na2\n", b="b1\nb2\n", x="x1\n\nx2\n", y="y1\ny2\n", links="1-1\n\n2-2\n3-3\n4-4\n")
    pairs = FilePairs([at["a"], at["b"]], [at["x"], at["y"]], count=4, alignments=at["links"])
    assert [pair.source for pair in pairs] == ["a1", "a2", "b1"]
    assert len(pairs.gold()) == 3
    assert pairs.identity() != FilePairs([at["a"], at["b"]], [at["x"], at["y"]]).identity()
    for count in (0, -1, 2.5):
        with pytest.raises(ValueError, match=f"count={count}: must be at least 1"):
            FilePairs(at["a"], at["x"], count=count)


def test_identity_depends_on_the_order_of_the_files(files):
    at = files(a="a\n", b="b\n", x="x\n", y="y\n")
    both = FilePairs([at["a"], at["b"]], [at["x"], at["y"]]).identity()
    assert FilePairs([at["b"], at["a"]], [at["y"], at["x"]]).identity() != both
    assert FilePairs([at["a"]], [at["x"]]).identity() == FilePairs(at["a"], at["x"]).identity() != both


def test_errors_name_the_file_of_a_list(files):
    at = files(a="a\n", b="b\nb\n", x="x\n", y="y\n", z="z\n\n", none="", links="1-1\n2-2\n")
    with pytest.raises(DataError, match=r"/y ends after line 1, .*/b goes on"):
        list(FilePairs([at["a"], at["b"]], [at["x"], at["y"]]))
    with pytest.raises(DataError, match=r"/z, line 2: empty, but the other side is not"):
        list(FilePairs([at["a"], at["b"]], [at["x"], at["z"]]))
    with pytest.raises(DataError, match=r"/none and .*/none are empty"):
        list(FilePairs([at["a"], at["none"]], [at["x"], at["none"]]))
    with pytest.raises(
        DataError, match=r"/links \+ .*/links has 4 lines, .*/x \+ .*/y 2\. Fix: write one list of links"
    ):
        FilePairs([at["a"], at["a"]], [at["x"], at["y"]], alignments=[at["links"]] * 2).gold()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("[a,b]", "c", "data.train: b: has no partner among 2 source and 1 target files. Fix: name as many target"),
        ("a", "[c,d,e]", "data.train: d: has no partner among 1 source and 3 target files"),
        (
            "[]",
            "c",
            r"data.train: source=\[\]: must be a file, or a list of files. Fix: source=FILE or 'source=\[FILE,",
        ),
        ("a", "[c,null]", r"data.train: target=\['c', None\]: must be a file, or a list of files"),
        ("{a:b}", "c", r"data.train: source={'a': 'b'}: must be a file, or a list of files"),
    ],
)
def test_bad_lists_are_refused_by_key(source, target, message):
    valid = ("data.valid.source=v", "data.valid.target=v")
    config = configured("data=text", f"data.train.source={source}", f"data.train.target={target}", *valid)
    with pytest.raises(ConfigurationError, match=message):
        instantiate(config.data).prepare()


def test_a_corpus_of_several_files_is_prepared_like_one_of_their_content(files, tmp_path):
    at = files(a="a b\n", b="b c\n", x="x\n", y="y y\n", ab="a b\nb c\n", xy="x\ny y\n")

    def prepared(source: str, target: str):
        train = (f"data.train.source={source}", f"data.train.target={target}")
        valid = (f"data.valid.source={at['b']}", f"data.valid.target={at['y']}")
        data = instantiate(configured("data=text", *train, *valid, f"data.cache={tmp_path}/cache").data)
        return data, data.prepare()

    data, corpus = prepared(f"[{at['a']},{at['b']}]", f"[{at['x']},{at['y']}]")
    _, whole = prepared(at["ab"], at["xy"])
    assert corpus.folder != whole.folder
    assert corpus.split("train").target.ids.tolist() == whole.split("train").target.ids.tolist()
    assert list(data.training_words()) == [("a b", "x"), ("b c", "y y")]
    assert corpus.about["leaks"]["valid"]["pair_in_train"] == 1
