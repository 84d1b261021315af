"""Every score of a text against its references."""

from sacrebleu.metrics import CHRF, TER

from nmt.evaluation.bleu import Score, _as_score, _checked, _scored, counter, flavoured_bleu
from nmt.evaluation.ribes import ribes

WITHOUT_SPACES = {"zh": ("zh", "char"), "ja": ("char",)}  # languages, and what their flavours are
WITH_SPACES = ("13a", "lowercase", "nist")


def all_scores(
    hypotheses: list[str],
    references: list[list[str]],
    *,
    language: str,
    tokenize: str,
    lowercase: bool,
) -> dict[str, Score]:
    """Of detokenised text in a language; `bleu` and what is made of it count as `tokenize` and `lowercase` say."""
    spaceless = language in WITHOUT_SPACES
    ter = TER(case_sensitive=not lowercase, normalized=spaceless, asian_support=spaceless)
    metric = counter(tokenize, lowercase)
    bleu = metric.corpus_score(hypotheses, _checked(hypotheses, references))
    scores = {
        "bleu": _as_score(metric, bleu),
        **{
            f"bleu_{flavour}": flavoured_bleu(flavour, hypotheses, references)
            for flavour in WITHOUT_SPACES.get(language, WITH_SPACES)
        },
        "chrf": _scored(CHRF(lowercase=lowercase), hypotheses, references),
        "ter": _scored(ter, hypotheses, references),
        "ribes": ribes(hypotheses, references, tokenize=tokenize, lowercase=lowercase),
    }
    signature, ter_signature = scores["bleu"].signature, scores["ter"].signature
    lengths = f"{bleu.sys_len} words, {bleu.ref_len} in the references"
    return scores | {
        "tb": Score((scores["ter"].score - bleu.score) / 2, f"{ter_signature} {signature}", "(TER − BLEU) / 2"),
        "brevity_penalty": Score(bleu.bp, signature, lengths),
        "length_ratio": Score(bleu.ratio, signature, lengths),
    }
