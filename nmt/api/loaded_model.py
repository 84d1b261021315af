"""A trained model, or an ensemble, to call from Python."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from nmt.api.translations import Translation, to_translation
from nmt.config.schema import find_misfit, load_defaults
from nmt.data.parallel_text import SentencePair
from nmt.errors import ConfigurationError, DataError, UserError, did_you_mean
from nmt.evaluation.forced_scoring import ScoredTranslation, score_translations
from nmt.evaluation.text_scores import score_text
from nmt.share.export import export_model, push_model
from nmt.system.files import to_path
from nmt.translate import text_translator
from nmt.translate.loading import SEARCH_KEYS, build_search, load_translator
from nmt.translate.unknown_words import make_replacer

# keys of translate.yaml
LOADING_KEYS = ("device", "threads", "int8", "graphs", "candidates", "matmul_precision", "weights", "average", "trust")
CALL_KEYS = (*(key for key in SEARCH_KEYS if key != "nbest"), "unknown", "longest_line", "batch_size")


def load(*runs: str | os.PathLike[str], user_dir: str | os.PathLike[str] | None = None, **settings: Any) -> "Model":
    """Load a trained model.

    Args:
        runs: The folder of a run, a checkpoint, or a model on the Hugging Face hub: hf:OWNER/NAME or
            hf:OWNER/NAME@REVISION. Several are an ensemble.
        user_dir: The folder of your own classes, if the runs use any.
        settings: Settings of conf/translate.yaml: `device`, `threads`, `int8`, `graphs`, `candidates`,
            `matmul_precision`, `trust`, and for an ensemble `weights` and `average`.
    """
    if not runs:
        raise UserError("load(): no run is given. Fix: load('outputs/…/RUN')")
    paths = [str(path) for path in runs]
    named = {"run": paths[0]} if len(paths) == 1 else {"runs": paths}
    _check(settings, LOADING_KEYS, "load()")
    return Model(settings | named | {"user_dir": None if user_dir is None else os.fspath(user_dir)})


class Model:
    """A trained model or an ensemble: text in, text out; `load` makes it.

    Attributes:
        folders: The folders of its runs.
        config: The settings of the first run, as plain dictionaries and lists.
    """

    def __init__(self, settings: Mapping[str, Any]):
        # search settings are null, so that those of the run count
        self._settings = _merge(load_defaults("translate"), dict.fromkeys(SEARCH_KEYS) | dict(settings))
        self._runs, self._translator = load_translator(self._settings)
        self.folders: list[Path] = [run.folder for run in self._runs]
        self.config = cast(dict[str, Any], OmegaConf.to_container(self._runs[0].config))

    def translate(self, lines: Sequence[str], *, traces: bool = False, **search: Any) -> list[Translation]:
        """Return the best translation of each line; that of a blank line is empty.

        Args:
            lines: The lines, as anybody would write them: they are tokenized as the training text was.
            traces: Also keep what the parts of the model show; not of a line in parts.
            search: Settings of conf/search.yaml, such as `beam=5`; those not given are those of the run. Also
                `unknown`, `longest_line` and `batch_size` of conf/translate.yaml.
        """
        if "nbest" in search:
            raise UserError("translate(): returns one translation of each line. Fix: translate_nbest(lines, nbest=…)")
        return [best for best, *_ in self.translate_nbest(lines, nbest=1, traces=traces, **search)]

    def translate_nbest(
        self, lines: Sequence[str], *, nbest: int, traces: bool = False, **search: Any
    ) -> list[list[Translation]]:
        """Return the `nbest` best translations of each line, best first; other arguments are those of `translate`."""
        if isinstance(lines, str):
            raise UserError("translate(): takes a list of lines, not one text. Fix: translate([text])")
        search["nbest"] = nbest
        _check(search, (*CALL_KEYS, "nbest"), "translate()")
        config = _merge(self._settings, search)
        replace_unknown = make_replacer(self._runs[0], config.unknown)
        translated = self._translator.translate_lines(
            ((line, None) for line in lines),
            build_search(config, self._runs),
            batch_size=config.batch_size,
            max_pieces=config.longest_line,
            traces=traces,
        )
        empty = text_translator.Translation.empty()
        return [
            [to_translation(replace_unknown(translation)) for translation in line.translations or [empty]]
            for line in translated
        ]

    def score(self, pairs: Iterable[tuple[str, str]], *, batch_size: int = 64) -> list[ScoredTranslation]:
        """Return the log-probability of given translations, with that of each word and the alignment.

        Args:
            pairs: Lines with their translations.
            batch_size: Pairs that are scored at once.
        """
        aligned_word = build_search(_merge(self._settings, {"batch_size": batch_size}), self._runs).aligned_word
        given = (SentencePair(*pair) for pair in pairs)
        translations = score_translations(self._translator, given, batch_size=batch_size, aligned_word=aligned_word)
        scored = []
        for number, translation in enumerate(translations):
            if translation is None:
                raise DataError(f"score(): the source of pair {number} has no words. Fix: leave the pair out")
            scored.append(translation)
        return scored

    def evaluate(
        self, sources: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]], **search: Any
    ) -> dict[str, float]:
        """Translate, and return the scores by name: bleu, chrf, ter and others.

        Args:
            sources: The lines to translate.
            references: A correct translation of each line, or several lists of such lines.
            search: As of `translate`; but without `unknown`, `score_unknown` of the run counts, as in evaluate.py.
        """
        if not sources or not references:
            raise DataError("evaluate(): no sources or no references are given")
        one_set = isinstance(references[0], str)
        sets = [list(map(str, lines)) for lines in ([references] if one_set else references)]
        if wrong := [len(lines) for lines in sets if len(lines) != len(sources)]:
            raise DataError(
                f"evaluate(): {len(sources)} sources and {wrong[0]} references. Fix: give one reference for each source"
            )
        search = {"unknown": self._runs[0].unknown} | search
        texts = [translation.text for translation in self.translate(sources, **search)]
        data = self._runs[0].config.data
        return {
            name: score.score
            for name, score in score_text(texts, sets, language=data.target.language, **data.score).items()
        }

    def export(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to a new folder that can be shared: weights, settings, vocabularies and a model card."""
        export_model(self._name_checkpoint("export()"), to_path(folder), user_dir=self._settings.user_dir)

    def push(self, name: str) -> str:
        """Upload the model to the Hugging Face hub as hf:OWNER/NAME, and return its address."""
        return push_model(self._name_checkpoint("push()"), name, self._settings.user_dir)

    def _name_checkpoint(self, call: str) -> str:
        if len(self._runs) > 1:
            raise UserError(f"{call}: this is an ensemble. Fix: load one run at a time")
        return str(self._runs[0].checkpoint)

    def __repr__(self) -> str:
        return f"load({', '.join(repr(str(folder)) for folder in self.folders)})"


def _check(given: Mapping[str, Any], known: Sequence[str], call: str) -> None:
    """Refuse settings that the call does not know, and values of another kind than the default."""
    defaults = load_defaults("translate")
    for name, value in given.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise UserError(f"{call}: {name}: no such setting{hint}. Fix: choose {', '.join(known)}")
        if problem := find_misfit(name, value, defaults[name]):
            raise ConfigurationError(problem)


def _merge(defaults: DictConfig, settings: Mapping[str, Any]) -> DictConfig:
    return cast(DictConfig, OmegaConf.merge(defaults, settings))
