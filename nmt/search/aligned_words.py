"""The word that the attention of a step belongs to.

Step i reads y_{i-1} and predicts y_i. Its attention may be taken for either word (Luong 2015, footnote 14).
"""

import numpy as np


def align_to_read_words(alignment: np.ndarray) -> np.ndarray:
    """Return the alignment in which each word has the weights of the step that reads it, the step after its own.

    Args:
        alignment: (steps, source); each row belongs to the word that the step predicts. The last word keeps its row.
    """
    return np.concatenate([alignment[1:], alignment[-1:]])
