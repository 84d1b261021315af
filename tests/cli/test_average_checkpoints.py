"""The command that averages checkpoints."""

import pytest

from nmt.cli.average_checkpoints import main


def test_help_prints_the_usage_of_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["average_checkpoints.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert capsys.readouterr().out.endswith("output=RUN/checkpoints/mean.ckpt\n")
