"""Given links of the training text: from words to pieces, and from pairs to batches."""

import pytest
import torch
from compositions import configured
from hydra.utils import instantiate

from nmt.data.given_links import GivenLinks
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import Vocabulary
from nmt.data.word_alignments import Gold
from nmt.errors import ConfigurationError, DataError
from nmt.runs.trained_model import with_vocabulary_sizes
from nmt.training.experiment import make_module

PAIRS = [("ab c", "x y"), ("c", "y x"), ("c c", "x")]
ALIGNMENTS = [Gold({(0, 1)}, {(0, 1), (1, 0)}), Gold(set(), set()), Gold({(1, 0)}, {(1, 0)})]


def vocabularies():
    bpe = Vocabulary.learn([["a b c"]], kind="bpe", size=10, minimum_count=1)
    words = Vocabulary.learn([["x y"]], kind="words", size=10, minimum_count=1)
    return Sides(bpe, words)


def test_each_piece_of_a_source_word_is_linked_to_each_piece_of_a_target_word():
    sides = vocabularies()
    assert sides.source.map_pieces_of_words(["ab", "c"]) == [0, 0, 1]
    links = GivenLinks.from_words(ALIGNMENTS, PAIRS, sides)
    first = links.for_batch(torch.tensor([0]).numpy(), targets=3, sources=4)[:, 0]
    assert first.tolist() == [[0, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]  # the last row and column: end symbols


def test_the_links_of_a_pair_that_became_blank_are_left_out():
    sides = vocabularies()
    alignments = [ALIGNMENTS[0], Gold(set(), set()), *ALIGNMENTS[1:]]
    links = GivenLinks.from_words(alignments, [PAIRS[0], ("", "x"), *PAIRS[1:]], sides)
    expected = GivenLinks.from_words(ALIGNMENTS, PAIRS, sides)
    for part, other in zip(
        (links.source, links.target, links.offsets), (expected.source, expected.target, expected.offsets), strict=True
    ):
        assert part.tolist() == other.tolist()


def test_a_batch_holds_the_links_of_its_pairs_in_their_order():
    links = GivenLinks.from_words(ALIGNMENTS, PAIRS, vocabularies())
    batch = links.for_batch(torch.tensor([2, 1, 0]).numpy(), targets=3, sources=4)
    assert batch.shape == (3, 3, 4)
    assert batch.nonzero().tolist() == [[0, 0, 1], [0, 2, 2], [1, 2, 0], [1, 2, 1]]


def test_a_link_beyond_a_sentence_is_an_error_that_names_the_pair():
    with pytest.raises(DataError, match=r"pair 2 has the link 1-0 \(from 0\), but 1 source words"):
        GivenLinks.from_words([ALIGNMENTS[0], ALIGNMENTS[2]], PAIRS[:2], vocabularies())


def attention_on_links_after_training(weight, kind, folder):
    """Train for 40 steps on one batch; return the mean attention to the links of a target piece."""
    settings = ["data.train.count=200", "data.valid.count=20", f"data.cache={folder}", "data.batches.size=50"]
    settings += [f"data.vocabulary.kind={kind}", f"attention.penalty.weight={weight}", "dropout=0.0"]
    config = configured("attention/penalty=guided", *settings)
    data = instantiate(config.data)
    torch.manual_seed(1)
    corpus = data.prepare()
    sizes = (len(language.vocabulary) for language in corpus.languages)
    model = make_module(with_vocabulary_sizes(config, *sizes), corpus, folder).model
    assert model.needs_links
    data.read_links()
    batch = next(iter(data.train_dataloader()))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        model.loss(batch).objective.backward()
        optimizer.step()
    attention = (model.unroll(batch, trace_names=None).trace["alignment"] * batch.links).sum(2)
    return attention[batch.links.sum(2) > 0].mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_guided_attention_moves_attention_to_the_links(kind, tmp_path):
    plain, guided = (attention_on_links_after_training(weight, kind, tmp_path) for weight in (0.0, 3.0))
    assert guided > plain + 0.3


def test_guided_attention_without_links_says_what_to_give(tmp_path):
    (tmp_path / "text").write_text("a b\n")
    files = [
        f"data.{split}.{side}={tmp_path / 'text'}" for split in ("train", "valid") for side in ("source", "target")
    ]
    data = instantiate(configured("data=text", "attention/penalty=guided", *files).data)
    with pytest.raises(ConfigurationError, match=r"Fix: data\.train\.alignments=FILE"):
        data.read_links()
