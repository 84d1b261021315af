"""What the vocabulary does not know is told, word by word, as it stands in the line."""

import numpy as np

from nmt.data.language import Language, Preprocessing
from nmt.data.prepared import Sides
from nmt.data.vocabulary import Vocabulary
from nmt.search.beam import Hypothesis
from nmt.search.translation import TextTranslator


class NoModel:
    def to(self, device):
        return self

    def eval(self):
        return self


def test_words_of_unknown_letters_stay_apart():
    vocabulary = Vocabulary.learn([["科 学 ab"]], kind="bpe", size=30, minimum_count=1)
    language = Language(
        Preprocessing(language="zh", normalize=False, tokenizer="characters", lowercase=False), vocabulary
    )
    translator = TextTranslator(NoModel(), Sides(language, language), source_end=True)
    (source,) = vocabulary.encode(["科 学 家 ab"])
    weights = np.array([[0.1, 0.2, 0.7, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]], dtype=np.float32)
    said = Hypothesis(source[:1], score=0.0, log_probability=0.0, word_scores=np.zeros(2), trace={"alignment": weights})
    spelled = translator.spell("科 学 家 ab", source, said)
    assert spelled.source == ["科", "学", "家", "ab", "</s>"]
    assert spelled.word_alignment().argmax() == 2
    np.testing.assert_allclose(spelled.alignment, weights)
