"""Score the links of any aligner, read from files."""

from pathlib import Path

from omegaconf import DictConfig

from nmt.data.word_alignments import read_links_and_gold
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation.alignment_error import link_scores


def score_links(settings: DictConfig) -> dict[str, float]:
    """Score a file of links `i-j` against a file of gold links, `i-j` sure and `ipj` possible."""
    if settings.links is None or settings.gold is None:
        given, missing = ("gold", "links") if settings.links is None else ("links", "gold")
        raise ConfigurationError(
            f"{given}={settings[given]}: needs {missing}= too. Fix: links=FILE gold=FILE, one sentence in each line"
        )
    bases = {"links_base": settings.links_base, "gold_base": settings.gold_base}
    pairs = list(read_links_and_gold(Path(str(settings.links)), Path(str(settings.gold)), **bases))
    if not any(gold.possible for _, gold in pairs):
        raise DataError(
            f"gold={settings.gold}: has no links, so {settings.links} cannot be scored. Fix: name a file with links"
        )
    return link_scores([links for links, _ in pairs], [gold for _, gold in pairs])
