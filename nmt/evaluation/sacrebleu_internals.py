"""Every use of a private method of sacrebleu; tests/evaluation/test_sacrebleu_internals.py checks each of them."""

import string

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.base import Signature

ASCII_LOWERCASE = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class NistBLEU(BLEU):
    """BLEU as mteval-v11b counts it.

    The shortest reference sets the brevity penalty, nothing is smoothed, and only A–Z are lowercased. The tokenizer is
    that of `13a`, because mteval-v13a has the tokenizer of v11b.
    """

    def __init__(self):
        super().__init__(tokenize="13a", smooth_method="none", force=True)

    def _preprocess_segment(self, sent: str) -> str:
        return super()._preprocess_segment(sent.translate(ASCII_LOWERCASE))

    def _get_closest_ref_len(self, hyp_len: int, ref_lens: list[int]) -> int:
        return min(ref_lens)

    def get_signature(self) -> Signature:
        """Return sacrebleu's signature, with the two differences."""
        signature = super().get_signature()
        signature.update("case", "lc-ascii")
        signature.update("bp", "shortest")
        return signature


def split_line(metric: BLEU, line: str) -> list[str]:
    """Return the words of a line as the metric compares them."""
    return metric._preprocess_segment(line).split()


def count_statistics(metric: BLEU, hypotheses: list[str], references: list[list[str | None]]) -> list[list[int]]:
    """Return for each sentence the ten counts whose sums make BLEU."""
    return metric._extract_corpus_statistics(hypotheses, references)
