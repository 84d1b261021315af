"""The number of CPU threads."""

import pytest
import torch

from nmt.errors import ConfigurationError
from nmt.system.threads import set_threads


@pytest.mark.parametrize("threads", [0, 5000, "two", 1.5, True])
def test_a_wrong_number_of_threads_is_refused(threads):
    with pytest.raises(ConfigurationError, match=rf"^threads={threads}: must be a number of threads from 1 to 1024"):
        set_threads(threads)


def test_threads_are_set_unless_they_are_null(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    try:
        set_threads(2)
        set_threads(None)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
