"""The word that the attention of a step belongs to.

Step i reads y_{i-1} and predicts y_i. Its attention may be taken for either word (Luong 2015, footnote 14).
"""

import numpy as np


def rows_of_words(steps: np.ndarray, aligned_word: str) -> np.ndarray:
    """Return the row of each word, from the rows of steps.

    Args:
        steps: (steps, …); step i predicts word i.
        aligned_word: `predicted`: a word has the row of its step. `read`: a word has the row of the step that reads it,
            the one after its own; the last word keeps its row.
    """
    return steps if aligned_word == "predicted" else np.concatenate([steps[1:], steps[-1:]])
