"""All scores of a detokenized text against its references: BLEU, chrF, TER, RIBES, TB and lengths."""

from sacrebleu.metrics import CHRF, TER

from nmt.evaluation.bleu import bleu_metric, bleu_variant
from nmt.evaluation.corpus_score import Score, prepare_references, score_corpus, sign_score
from nmt.evaluation.ribes import ribes

VARIANTS_WITHOUT_SPACES = {"zh": ("zh", "char"), "ja": ("char",)}  # for languages that write no spaces between words
VARIANTS_WITH_SPACES = ("13a", "lowercase", "nist")


def score_text(
    hypotheses: list[str], references: list[list[str]], *, language: str, tokenize: str, lowercase: bool
) -> dict[str, Score]:
    """Return all scores of a text.

    Args:
        hypotheses: The lines of the text, detokenized.
        references: One or more lists of reference lines.
        language: Selects the variants of BLEU, and the tokenization of TER.
        tokenize: The tokenizer of `bleu`, `ribes` and lengths.
        lowercase: Compare in lowercase, in all scores but the variants of BLEU.
    """
    no_spaces = language in VARIANTS_WITHOUT_SPACES
    variants = VARIANTS_WITHOUT_SPACES.get(language, VARIANTS_WITH_SPACES)
    metric = bleu_metric(tokenize, lowercase)
    bleu = metric.corpus_score(hypotheses, prepare_references(hypotheses, references))
    ter = TER(case_sensitive=not lowercase, normalized=no_spaces, asian_support=no_spaces)
    scores = {
        "bleu": sign_score(metric, bleu),
        **{f"bleu_{variant}": bleu_variant(variant, hypotheses, references) for variant in variants},
        "chrf": score_corpus(CHRF(lowercase=lowercase), hypotheses, references),
        "ter": score_corpus(ter, hypotheses, references),
        "ribes": ribes(hypotheses, references, tokenize=tokenize, lowercase=lowercase),
    }
    signature, ter_signature = scores["bleu"].signature, scores["ter"].signature
    lengths = f"{bleu.sys_len} words, {bleu.ref_len} in the references"
    return scores | {
        "tb": Score((scores["ter"].score - bleu.score) / 2, f"{ter_signature} {signature}", "(TER − BLEU) / 2"),
        "brevity_penalty": Score(bleu.bp, signature, lengths),
        "length_ratio": Score(bleu.ratio, signature, lengths),
    }
