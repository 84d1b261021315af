"""The runs that a server translates with."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from nmt.data.vocabulary import END
from nmt.errors import ConfigurationError
from nmt.report.load.run_folder import read_choices, read_overrides
from nmt.report.load.run_names import shorten_paths
from nmt.runs.trained_model import TrainedRun
from nmt.search.forced_decoding import trace_translations
from nmt.search.settings import Search
from nmt.translate.loading import list_run_paths, make_translator
from nmt.translate.unknown_words import make_replacer

PARTS = ("encoder", "decoder", "attention", "memory")
MAX_HYPOTHESES = 320  # searched at once: with a wide beam a batch has fewer lines


class ServedRun:
    """A run that is ready to translate, with its description."""

    def __init__(self, run: TrainedRun, settings: DictConfig):
        self.run, self.max_pieces, self.batch_size = run, settings.longest_line, settings.batch_size
        # count before make_translator, because int8 packs some parameters
        self.parameters = sum(parameter.numel() for parameter in run.model.parameters())
        how = {"int8": settings.int8, "graphs": settings.graphs}
        self.translator = make_translator(run, settings.device, settings.candidates, **how)
        self.replace_unknown = make_replacer(run, settings.unknown)

    def describe(self) -> dict[str, Any]:
        """Return what the page shows about the run."""
        return {
            "languages": [language.preprocessing.language for language in self.run.languages],
            "parts": describe_parts(self.run),
            "overrides": read_overrides(self.run.folder)[0],
            "parameters": self.parameters,
            "steps": self.run.step,
        }

    def count_values(self, lines: list[str], search: Search, traces: bool) -> int:
        """Return the most values that the alignments and traces of a request's translations can have."""
        language = self.run.languages.source
        encoded = language.vocabulary.encode(list(map(language.preprocessing, lines)))
        widths = self._trace_widths() if traces else []
        values = sum(
            (search.longest_ratio * size + search.longest_extra) * sum(max(size, width) for width in [1, *widths])
            for size in (len(line) + 1 for line in encoded)  # with the end symbol
        )
        return int(search.nbest * values)

    def _trace_widths(self) -> list[int]:
        """Return how many values a target word has in each trace, for a source of one word."""
        model, no_words = self.translator.model, np.zeros(0, np.int64)
        (traces,) = trace_translations(
            model, torch.full((1, 1), END, device=self.translator.device), torch.ones(1, dtype=torch.long), [no_words]
        )
        return [values.shape[-1] for values in traces.values()]

    def translate(self, lines: list[str], search: Search, traces: bool) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the n best translations of each line, as plain values."""
        batch_size = max(1, min(self.batch_size, MAX_HYPOTHESES // search.width))
        translated = self.translator.translate_lines(
            ((line, None) for line in lines),
            search,
            batch_size=batch_size,
            max_pieces=self.max_pieces,
            traces=traces,
        )
        for line in translated:
            yield (self.replace_unknown(translation).to_dict(alignment=True) for translation in line.translations)


def open_runs(settings: DictConfig) -> dict[str, ServedRun]:
    """Open each run of `run` or `runs`, by name."""
    paths = list_run_paths(settings)
    names = shorten_paths(paths)
    if len(set(names)) < len(names):
        raise ConfigurationError(f"runs=[{','.join(paths)}]: a run is named twice. Fix: name each run once")
    return {
        name: ServedRun(TrainedRun(path, settings.user_dir, trust=settings.trust), settings)
        for name, path in zip(names, paths, strict=True)
    }


def describe_parts(run: TrainedRun) -> dict[str, str]:
    """Return the chosen option of each config group of the model; for a single checkpoint file, the class names."""
    choices = read_choices(run.folder) or dict(_class_names(OmegaConf.to_container(run.config)))
    parts = {group: choice for group, choice in choices.items() if group.split("/")[0] in PARTS and choice is not None}
    return {group: parts[group] for group in sorted(parts, key=lambda group: PARTS.index(group.split("/")[0]))}


def _class_names(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the class names of the model's parts, and of the parts within them."""
    for part in PARTS:
        node = config.get(part)
        yield part, _class_name(node)
        for name, inner in node.items() if isinstance(node, Mapping) else ():
            if name not in PARTS:
                yield f"{part}/{name}", _class_name(inner)


def _class_name(node: Any) -> str | None:
    return str(node["_target_"]).rpartition(".")[2] if isinstance(node, Mapping) and "_target_" in node else None
