"""Score the links of any aligner, read from files."""

from pathlib import Path

from omegaconf import DictConfig

from nmt.data.word_alignments import read_links_and_gold
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation.alignment_error import link_scores


def score_links(settings: DictConfig) -> dict[str, float]:
    """Carry out `links=FILE gold=FILE`: return the scores."""
    if settings.links is None or settings.gold is None:
        given, missing = ("gold", "links") if settings.links is None else ("links", "gold")
        raise ConfigurationError(
            f"{given}={settings[given]}: needs {missing}= too. Fix: links=FILE gold=FILE, one sentence in each line"
        )
    bases = {"links_base": settings.links_base, "gold_base": settings.gold_base}
    return score_link_files(Path(str(settings.links)), Path(str(settings.gold)), **bases)


def score_link_files(links_file: Path, gold_file: Path, *, links_base: int, gold_base: int) -> dict[str, float]:
    """Score a file of links `i-j` against a file of gold links, `i-j` sure and `ipj` possible."""
    pairs = list(read_links_and_gold(links_file, gold_file, links_base=links_base, gold_base=gold_base))
    if not any(gold.possible for _, gold in pairs):
        raise DataError(
            f"gold={gold_file}: has no links, so {links_file} cannot be scored. Fix: name a file with links"
        )
    return link_scores([links for links, _ in pairs], [gold for _, gold in pairs])
