"""The digest of the code that trained a run."""

import pytest

from nmt.runs.provenance import strip_comments

PROGRAM = '''"""A module."""

class Half:
    """Divides by two."""

    factor = 0.5  # of all

    def of(self, x):
        """x / 2"""
        return self.factor * x
'''


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (PROGRAM.replace("Divides by two", "Halves").replace("  # of all", ""), True),
        (PROGRAM.replace("        return self", "\n        # an equation\n        return self"), True),
        (PROGRAM.replace('        """x / 2"""\n', ""), True),
        (PROGRAM.replace("0.5", "0.4"), False),
        (PROGRAM.replace("self.factor * x", "x * self.factor"), False),
        (PROGRAM.replace("factor = 0.5", "factor = '0.5'"), False),
    ],
)
def test_comments_and_docstrings_do_not_change_the_digest(now, same):
    assert (strip_comments(now) == strip_comments(PROGRAM)) is same
