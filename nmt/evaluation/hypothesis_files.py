"""Score the translations of any system, read from files."""

from pathlib import Path

from omegaconf import DictConfig, ListConfig

from nmt.data.text_files import read_lines
from nmt.errors import ConfigurationError, DataError
from nmt.evaluation.text_scores import score_text


def score_hypotheses(settings: DictConfig) -> dict[str, dict]:
    """Carry out `hypotheses=FILE reference=FILE`: return all scores."""
    if settings.hypotheses is None or settings.reference is None:
        given, missing = ("hypotheses", "reference") if settings.reference is None else ("reference", "hypotheses")
        raise ConfigurationError(
            f"{given}={settings[given]}: needs {missing}= too. Fix: hypotheses=FILE reference=FILE, one sentence in "
            "each line"
        )
    files = settings.reference if isinstance(settings.reference, ListConfig) else [settings.reference]
    if not files:
        raise ConfigurationError("reference=[]: names no file. Fix: reference=FILE, or 'reference=[FILE,FILE]'")
    hypotheses = list(read_lines(Path(str(settings.hypotheses))))
    references = [list(read_lines(Path(str(file)))) for file in files]
    for file, lines in zip(files, references, strict=True):
        if len(lines) != len(hypotheses):
            raise DataError(
                f"hypotheses={settings.hypotheses}: has {len(hypotheses)} lines, but {file} has {len(lines)}. Fix: "
                "write one sentence in each line of both"
            )
    if not hypotheses:
        raise DataError(f"hypotheses={settings.hypotheses}: the file is empty. Fix: name a file with translations")
    counting = {"language": settings.language, "tokenize": settings.tokenize, "lowercase": settings.lowercase}
    return {name: score._asdict() for name, score in score_text(hypotheses, references, **counting).items()}
