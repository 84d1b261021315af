"""Bring the settings of a run that an earlier version trained up to date; its weights have the same names today."""

from collections.abc import Mapping
from typing import Any

RENAMED = {  # classes
    "nmt.data.batches.Plan": "nmt.data.batches.BatchPlan",
    "nmt.data.corpus.FilePairs": "nmt.data.parallel_text.FilePairs",
    "nmt.data.hub.HubPairs": "nmt.data.huggingface.HubPairs",
    "nmt.data.language.Preprocessing": "nmt.data.preprocessing.Preprocessing",
    "nmt.data.module.TranslationData": "nmt.data.datamodule.TranslationData",
    "nmt.data.toy_pairs.ToyPairs": "nmt.data.toy_corpus.ToyPairs",
    "nmt.model.attention.interactive.Interactive": "nmt.model.attention.writing.Interactive",
    "nmt.model.attention.joined.Attention": "nmt.model.attention.attention.Attention",
    "nmt.model.attention.joined.NoAttention": "nmt.model.attention.attention.NoAttention",
    "nmt.model.attention.temporal.Temporal": "nmt.model.attention.history.Temporal",
    "nmt.model.attention.window.Predicted": "nmt.model.attention.window.Predictive",
    "nmt.model.decoder.gru.Bahdanau": "nmt.model.decoder.recurrent.Bahdanau",
    "nmt.model.decoder.gru.Conditional": "nmt.model.decoder.recurrent.Conditional",
    "nmt.model.decoder.gru.Feedback": "nmt.model.decoder.recurrent.Feedback",
    "nmt.model.initial.Copied": "nmt.model.initial_state.EncoderStates",
    "nmt.model.initial.FromLast": "nmt.model.initial_state.FromLast",
    "nmt.model.initial.FromMean": "nmt.model.initial_state.FromMean",
    "nmt.model.readout.Direct": "nmt.model.readout.StateOnly",
}
SOFTMAX = {"_target_": "nmt.model.attention.weights.Softmax"}
GRU = {"cell": {"_target_": "nmt.model.cells.GRU"}, "context_gate": None}
ADDED = {  # arguments that these classes did not have, with the values that change nothing
    "nmt.model.attention.attention.Attention": {"weights": SOFTMAX, "penalty": None},
    "nmt.model.attention.writing.Interactive": {"weights": SOFTMAX},
    "nmt.model.decoder.recurrent.Bahdanau": GRU,
    "nmt.model.decoder.recurrent.Conditional": GRU,
    "nmt.model.decoder.recurrent.Feedback": GRU,
}
REMOVED = {"nmt.model.attention.coverage.Fertility": ("auxiliary",)}  # arguments of training alone


def update_settings(node: Any) -> Any:
    """Return settings with the names and the arguments that classes have today."""
    if isinstance(node, list):
        return [update_settings(value) for value in node]
    if not isinstance(node, Mapping):
        return node
    updated = {key: update_settings(value) for key, value in node.items()}
    if isinstance(target := updated.get("_target_"), str):
        updated["_target_"] = target = RENAMED.get(target, target)
        updated = {key: value for key, value in updated.items() if key not in REMOVED.get(target, ())}
        return ADDED.get(target, {}) | updated
    return updated
