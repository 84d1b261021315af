"""Which words a hypothesis may go on with; the others' log-probabilities become -inf."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nmt.data.vocabulary import END, PAD, START
from nmt.search.settings import Search

NEVER = (PAD, START)  # symbols no translation may contain


class Permitted:
    """`shortest`: words before the end symbol may come, for each sentence. `prefixes`: words it has to begin with, then
    PAD. One that has nothing left to say may end."""

    def __init__(
        self,
        how: Search,
        shortest: Int[Tensor, " sentence"],
        prefixes: Int[Tensor, "sentence prefix"] | None,
    ):
        self.ngram, self.prefixes = how.no_repeat_ngram, prefixes
        self.shortest = shortest
        self.latest_shortest = int(shortest.max())

    def restrict(
        self,
        logs: Float[Tensor, "sentence beam vocabulary"],
        said: Int[Tensor, "sentence beam step"] | None,
        sentences: Int[Tensor, " sentence"],
        step: int,
    ) -> None:
        """In place. `said`: the words so far, where repetitions are looked for."""
        forced = None
        if self.prefixes is not None and step < self.prefixes.shape[1]:
            forced = self.prefixes[sentences, step][:, None, None].expand(-1, logs.shape[1], 1)
            unrestricted = logs.gather(2, forced)
        ending = logs[:, :, END].clone()
        logs[:, :, NEVER] = -torch.inf
        if step < self.latest_shortest:
            logs[:, :, END].masked_fill_((step < self.shortest[sentences])[:, None], -torch.inf)
        if self.ngram and step >= self.ngram:
            _ban_repetitions(logs, said, self.ngram)
            nothing_left = logs.amax(2) == -torch.inf
            logs[:, :, END] = torch.where(nothing_left, ending, logs[:, :, END])
        if forced is not None:
            logs.masked_fill_(forced != PAD, -torch.inf)
            logs.scatter_(2, forced, unrestricted.masked_fill(forced == PAD, -torch.inf))


def _ban_repetitions(logs: Tensor, said: Tensor, size: int) -> None:
    """Words that have once followed the last `size` − 1 words; the end symbol has followed none."""
    windows = said.unfold(2, size, 1)  # (sentence, beam, places, size)
    begun = said[:, :, said.shape[2] - (size - 1) :]
    again = (windows[..., :-1] == begun[:, :, None]).all(-1)
    banned = torch.zeros_like(logs).scatter_reduce_(2, windows[..., -1], again.to(logs.dtype), "amax")
    logs.masked_fill_(banned > 0, -torch.inf)
