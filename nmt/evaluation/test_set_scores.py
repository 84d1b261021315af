"""Score the translations of a test set: every score of scores.json that needs no model."""

from collections import Counter
from typing import Any

from nmt.data.datamodule import TranslationData
from nmt.data.parallel_text import Sides
from nmt.data.vocabulary import Vocabulary
from nmt.evaluation.bleu import corpus_bleu, sentence_statistics
from nmt.evaluation.by_frequency import by_frequency
from nmt.evaluation.by_length import describe_buckets, select_by_length, select_longer
from nmt.evaluation.over_under_translation import attention_entropy, over_and_under_translation, unattended_words
from nmt.evaluation.test_set import TestSet
from nmt.evaluation.text_scores import score_text
from nmt.evaluation.translated_set import TranslatedSet


def score_translated_set(
    test: TestSet, translated: TranslatedSet, languages: Sides, *, tokenize: str, lowercase: bool
) -> dict[str, Any]:
    """Return the scores of text, of words and of attention.

    The text is compared with the references as they are, the model's words with preprocessed references. Repetition
    uses only the first reference.
    """
    preprocess = languages.target.preprocessing
    scores = score_text(
        translated.texts, test.references, language=preprocess.language, tokenize=tokenize, lowercase=lowercase
    )
    references = [[preprocess(line) for line in lines] for lines in test.references]
    scores["bleu_tokenized"] = corpus_bleu(translated.words, references)
    if translated.words != translated.unreplaced:
        scores["bleu_unknown_kept"] = corpus_bleu(translated.unreplaced, references)
    words = [line.split() for line in translated.words]
    rates = over_and_under_translation(words, split_references(languages.target.vocabulary, references[0], translated))
    rates |= unattended_words(one.alignment[:, : one.word_alignment().shape[1]] for one in translated.translations)
    rates |= attention_entropy(one.alignment for one in translated.translations)
    return {name: score._asdict() for name, score in scores.items()} | rates


def split_references(vocabulary: Vocabulary, references: list[str], translated: TranslatedSet) -> list[list[str]]:
    """Return the words of references; unknown words are <unk>, unless they were replaced in the translations."""
    if translated.words != translated.unreplaced:
        return [line.split() for line in references]
    return [vocabulary.mark_unknown(line.split()) for line in references]


def score_by_length(
    test: TestSet, translated: TranslatedSet, languages: Sides, *, tokenize: str, lowercase: bool
) -> dict[str, list[dict[str, Any]]]:
    """Return BLEU by the number of source words."""
    preprocess = languages.source.preprocessing
    lengths = [len(preprocess(pair.source).split()) for pair in test.pairs]
    statistics = sentence_statistics(translated.texts, test.references, tokenize=tokenize, lowercase=lowercase)
    kinds = {"by_length": select_by_length(lengths), "longer_than": select_longer(lengths)}
    return {
        kind: [bucket._asdict() for bucket in describe_buckets(buckets, statistics[None])]
        for kind, buckets in kinds.items()
    }


def count_training_words(data: TranslationData) -> Counter[str]:
    """Count the target words of the training text."""
    return Counter(word for _, target in data.training_words() for word in target.split())


def score_by_frequency(
    test: TestSet, translated: TranslatedSet, languages: Sides, frequencies: Counter[str]
) -> list[dict[str, Any]]:
    """Return precision, recall and F1 of words by their frequency in the training text."""
    preprocess = languages.target.preprocessing
    hypotheses = [line.split() for line in translated.words]
    references = [preprocess(pair.target).split() for pair in test.pairs]
    return [bucket._asdict() for bucket in by_frequency(hypotheses, references, frequencies)]
