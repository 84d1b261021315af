"""Text files: errors name file and line, and no damage is read silently."""

import codecs
import gzip

import pytest
import zstandard

from nmt.data.parallel_text import FilePairs
from nmt.data.text_files import MAX_LINE_CHARACTERS, read_lines
from nmt.errors import DataError


@pytest.fixture
def pair_of_files(tmp_path):
    def write(source: bytes, target: bytes = b"x\n" * 3, **settings) -> FilePairs:
        (tmp_path / "a.src").write_bytes(source)
        (tmp_path / "a.tgt").write_bytes(target)
        return FilePairs(str(tmp_path / "a.src"), str(tmp_path / "a.tgt"), **settings)

    return write


def test_plain_gzip_and_zstd_files_are_read_under_any_name(tmp_path):
    text = "zwei Männer\n在 室内\n".encode()
    for name, packed in {"plain": text, "g": gzip.compress(text), "z": zstandard.compress(text)}.items():
        (tmp_path / name).write_bytes(packed)
        assert list(read_lines(tmp_path / name)) == ["zwei Männer", "在 室内"]


def test_only_line_feeds_end_lines(pair_of_files):
    pairs = list(pair_of_files("a\u2028b\x85c\r\nd\n\u00a0e \n".encode()))
    assert [line.source for line in pairs] == ["a\u2028b\x85c", "d", "e"]


def test_byte_order_mark_is_not_part_of_a_word(pair_of_files):
    mark = codecs.BOM_UTF8
    pairs = list(pair_of_files(mark + b"a\n" + mark + b"b\n", mark + b"x\ny\n"))
    assert [tuple(line) for line in pairs] == [("a", "x"), ("\ufeffb", "y")]


def test_blank_pairs_are_dropped_and_counted(pair_of_files):
    pairs = pair_of_files(b"a\n\nb\n", b"x\n \ny\n")
    assert [tuple(line) for line in pairs] == [("a", "x"), ("b", "y")]
    assert pairs.blank == 1


def test_one_empty_side_is_an_error_or_is_dropped_by_choice(pair_of_files):
    with pytest.raises(DataError, match=r"a\.tgt, line 2: empty, but the other .* data\.reader\.empty_side=drop"):
        list(pair_of_files(b"a\nb\nc\n", b"x\n\nz\n"))
    pairs = pair_of_files(b"a\nb\nc\n", b"x\n\nz\n", empty_side="drop")
    assert len(list(pairs)) == 2
    assert pairs.blank == 1


def test_further_references_skip_the_lines_of_blank_pairs(pair_of_files, tmp_path):
    for name, lines in (("b", "x1\n\ny1\n"), ("c", "x2\nno pair\ny2\n"), ("short", "x3\n")):
        (tmp_path / name).write_text(lines)
    pairs = pair_of_files(b"a\n\nb\n", b"x\n\ny\n", references=[str(tmp_path / "b"), str(tmp_path / "c")])
    assert len(list(pairs)) == 2
    assert pairs.further_references() == [["x1", "y1"], ["x2", "y2"]]
    with pytest.raises(DataError, match=r"short has 1 lines, .*a\.tgt 3\. Fix: write one translation for each line"):
        pair_of_files(b"a\n\nb\n", b"x\n\ny\n", references=[str(tmp_path / "short")]).further_references()
    pairs = pair_of_files(b"a\n\nb\n", b"x\n\ny\n", references=str(tmp_path / "b"))  # one file needs no brackets
    assert pairs.further_references() == [["x1", "y1"]]


def test_gold_alignments_skip_the_lines_of_blank_pairs(pair_of_files, tmp_path):
    (tmp_path / "gold").write_text("1-1\n2-2\n3-3\n")
    pairs = pair_of_files(b"a\n\nb\n", b"x\n\ny\n", alignments=str(tmp_path / "gold"))
    assert [gold.sure for gold in pairs.gold()] == [{(0, 0)}, {(2, 2)}]
    (tmp_path / "gold").write_text("1-1\n3-3\n")
    with pytest.raises(DataError, match=r"gold has 2 lines, .*a\.tgt 3\. Fix: write one list of links for each line"):
        pairs.gold()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (b"a\nb\n", b"x\n", r"a\.tgt ends after line 1, .*a\.src goes on"),
        (b"a\n", b"x\ny\n", r"a\.src ends after line 1, .*a\.tgt goes on"),
        (b"", b"", r"a\.src and .*a\.tgt are empty"),
        (b"a\n\xff\xfeb\nc\n", b"x\ny\nz\n", r"a\.src, line 2: not UTF-8"),
        (
            b"a\n" + b"b" * (MAX_LINE_CHARACTERS + 1),
            b"x\ny\n",
            rf"a\.src, line 2: {MAX_LINE_CHARACTERS + 1} characters",
        ),
    ],
)
def test_errors_name_the_file_and_the_line(pair_of_files, source, target, message):
    with pytest.raises(DataError, match=message):
        list(pair_of_files(source, target))


def test_error_names_a_damaged_archive(tmp_path):
    archive = gzip.compress(b"".join(b"%d\n" % number for number in range(5000)))
    (tmp_path / "cut.gz").write_bytes(archive[:100])
    with pytest.raises(DataError, match=r"cut\.gz, after line \d+: cannot be read"):
        list(read_lines(tmp_path / "cut.gz"))
    damaged = bytearray(archive)
    damaged[len(archive) // 2] ^= 0xFF
    (tmp_path / "damaged.gz").write_bytes(damaged)
    with pytest.raises(DataError, match=r"damaged\.gz, after line \d+: cannot be read"):
        list(read_lines(tmp_path / "damaged.gz"))


def test_error_names_a_missing_file(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.gz: no such file"):
        list(read_lines(tmp_path / "nowhere.gz"))


def test_identity_follows_the_content_and_not_the_name(pair_of_files, tmp_path):
    first = pair_of_files(b"a\nb\nc\n").identity()
    (tmp_path / "other").write_bytes(b"a\nb\nc\n")
    assert FilePairs(str(tmp_path / "other"), str(tmp_path / "a.tgt")).identity() == first
    assert pair_of_files(b"a\nb\nd\n").identity() != first
