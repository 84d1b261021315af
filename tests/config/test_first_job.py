"""--cfg and --help of a sweep show its first job."""

import pytest
from commands import command
from omegaconf import OmegaConf

from nmt.config.first_job import show_first_job


@pytest.mark.parametrize("flags", [["-m"], ["--multirun"]])
@pytest.mark.parametrize("shows", [["--cfg", "job"], ["--cfg=job"], ["-c", "job"], ["--help"], ["--info", "config"]])
def test_a_command_that_shows_settings_has_the_first_value_of_each_list(flags, shows, capsys):
    swept = ["attention=dot,general", "seed=range(2,4)", "dropout=choice(0.1,0.3)", "fresh=[a,b]"]
    first = ["attention=dot", "seed=2", "dropout=0.1", "fresh=[a,b]"]
    assert show_first_job([*swept, *flags, *shows]) == [*first, *shows]
    assert capsys.readouterr().err == "the first job of the sweep: attention=dot seed=2 dropout=0.1\n"


def test_a_command_that_trains_keeps_its_lists():
    sweep = ["-m", "attention=dot,general", "+table=tu2016_table1"]
    assert show_first_job(sweep) == sweep
    assert show_first_job(["attention=dot", "--cfg", "job"]) == ["attention=dot", "--cfg", "job"]


def test_the_first_job_of_a_table_is_its_first_row():
    shown = show_first_job(["+table=tu2016_table1", "size=small", "--cfg", "job"])
    assert shown == ["experiment=tu2016/groundhog", "+table=tu2016_table1", "size=small", "--cfg", "job"]


def test_what_lists_no_values_keeps_its_default():
    assert show_first_job(["-m", "dropout=interval(0,1)", "attention=glob(*)", "seed=2", "-h"]) == ["seed=2", "-h"]


def test_the_composed_first_job_is_printed():
    done = command("train", "-m", "attention=dot,general", "seed=3,4", "--cfg", "job")
    settings = OmegaConf.create(done.stdout)
    assert (settings.seed, settings.attention.score._target_) == (3, "nmt.model.attention.score.Dot")
