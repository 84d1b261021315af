"""Any system's translations, in files."""

from pathlib import Path

from omegaconf import DictConfig, ListConfig

from nmt.data.text_files import read_lines
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation.text_scores import all_scores


def score_hypotheses(settings: DictConfig) -> dict[str, dict]:
    """What hypotheses= and reference= name."""
    if settings.hypotheses is None or settings.reference is None:
        raise ConfigurationError("hypotheses=FILE reference=FILE: both are needed, a line a sentence each")
    given = settings.reference if isinstance(settings.reference, ListConfig) else [settings.reference]
    references = [str(name) for name in given]
    if not references:
        raise ConfigurationError("reference=[]: at least one file is needed")
    said, *wanted = (list(read_lines(Path(str(name)))) for name in (settings.hypotheses, *references))
    for name, lines in zip(references, wanted, strict=True):
        if len(lines) != len(said):
            raise DataError(f"{settings.hypotheses} has {len(said)} lines, {name} {len(lines)}: one a sentence in each")
    if not said:
        raise DataError(f"{settings.hypotheses} is empty")
    flavour = {"language": settings.language, "tokenize": settings.tokenize, "lowercase": settings.lowercase}
    return {name: score._asdict() for name, score in all_scores(said, wanted, **flavour).items()}
