"""user_dir=FOLDER: code and configuration of the user, and nothing else, join those of the project."""

import importlib
import sys
from pathlib import Path

import pytest
from commands import ROOT
from compositions import configured

from nmt.config.allowed_targets import check_targets
from nmt.config.schema import is_group, list_choices
from nmt.config.user_dir import add_configured_user_dir, add_typed_user_dir, add_user_dir, find_module_file
from nmt.errors import UserError, user_folders
from nmt.runs.trained_model import build_model

PARTS = """from collections import OrderedDict
from subprocess import Popen
from nmt.model.attention.score import General
class Mine(General): pass
def build(**sizes): return Mine(**sizes)
"""
SCORE = "_target_: my_parts.Mine\nquery_size: ${decoder.hidden_size}\nannotation_size: ${encoder.annotation_size}\n"
ATTENTION = "defaults: [_parts, override score: mine]\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A user's folder that the process forgets after the test."""
    write(tmp_path / "project", {
        "my_parts.py": PARTS,
        "parts/scores.py": "from my_parts import Mine\nclass Deep(Mine): pass\n",
        "conf/attention/score/mine.yaml": SCORE,
        "conf/attention/mine.yaml": ATTENTION,
    })  # fmt: skip
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    yield tmp_path / "project"
    user_folders.clear()
    for name in sys.modules.keys() - modules:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def refusal(target: str, folder: Path | None) -> str:
    with pytest.raises(UserError) as refused:
        check_targets({"_target_": target}, user_dir=folder)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_files_of_the_users_conf_are_choices(project):
    add_user_dir(project)
    config = configured("attention=mine")
    assert config.attention.score._target_ == "my_parts.Mine"
    assert config.attention.context_size == configured().attention.context_size
    assert {"mine", "additive"} <= set(list_choices("attention"))
    config.model.source_vocabulary_size = config.model.target_vocabulary_size = 9
    assert type(build_model(config, project).decoder.attention.score).__module__ == "my_parts"


def test_a_new_group_of_the_user_is_a_group(project):
    write(project, {"conf/experiment/mine/first.yaml": "# @package _global_\n", "conf/trick/a.yaml": "x: 1\n"})
    assert not is_group("trick")
    add_user_dir(project)
    assert is_group("trick")
    assert "mine/first" in list_choices("experiment")


def test_a_file_with_the_name_of_a_choice_of_the_project_is_refused(project):
    write(project, {"conf/attention/additive.yaml": "{}\n"})
    with pytest.raises(UserError, match=r"/conf/attention/additive\.yaml has the name of a file of this project\. Fix"):
        add_user_dir(project)
    assert user_folders == []


def test_folders_that_hold_no_code_of_a_user_are_refused(project, monkeypatch):
    monkeypatch.chdir(project.parent)
    write(project.parent, {"file": "", "empty/data.txt": ""})
    for path, message in {
        "": "user_dir=: names no folder. Fix: user_dir=FOLDER",
        "projct": "user_dir=projct: no such folder (did you mean project?). Fix: user_dir=FOLDER",
        "file/x": "user_dir=file/x: no such folder. Fix",
        "file": f"user_dir=file: is a file, not a folder. Fix: user_dir={project.parent}",
        "empty": "user_dir=empty: holds neither Python files nor conf/. Fix",
        str(ROOT): f"user_dir={ROOT}: holds this project, or libraries of Python. Fix",
        str(Path(importlib.__file__).parents[1]): "holds this project, or libraries of Python. Fix",
        str(Path(pytest.__file__).parents[1]): "holds this project, or libraries of Python. Fix",
    }.items():
        with pytest.raises(UserError) as refused:
            add_user_dir(path)
        assert message in str(refused.value)
    assert str(project.parent) not in " ".join(sys.path)


@pytest.mark.parametrize("path", ["project", "project/", "project/../project", "link", "other/../project/parts/.."])
def test_a_folder_may_be_named_in_any_way(project, monkeypatch, path):
    monkeypatch.chdir(project.parent)
    (project.parent / "link").symlink_to(project)
    (project.parent / "other").mkdir()
    assert add_typed_user_dir(["seed=2", f"user_dir={path}"]) == [f"user_dir='{project}'", "seed=2"]
    check_targets({"_target_": "my_parts.Mine"}, user_dir=path)


def test_files_beside_a_strangers_run_are_not_the_users(project):
    """A run may lie in the user's folder, and bring code with it."""
    write(project, {"downloads/run/evil.py": "open('ran', 'w')\nclass Evil: pass\n", "downloads/run/checkpoints/x": ""})
    add_user_dir(project)
    for run in (project / "downloads/run", project / "downloads", project):
        with pytest.raises(UserError, match=r"refused, because a run may only name .* beside the run"):
            check_targets({"_target_": "downloads.run.evil.Evil"}, user_dir=project, run=run)
    assert "downloads.run.evil" not in sys.modules
    check_targets({"_target_": "my_parts.Mine"}, user_dir=project, run=project / "downloads/run")


@pytest.mark.parametrize("name", ["007", "a b", "it's", "1e3", "null and void"])
def test_a_folder_may_have_any_name(project, monkeypatch, name):
    monkeypatch.chdir(project.parent)
    project.rename(project.with_name(name))
    (argument,) = add_typed_user_dir([f'user_dir="{name}"' if "'" in name else f"user_dir={name}"])
    assert add_typed_user_dir([argument]) == [argument]
    assert user_folders == [str(project.with_name(name))]


@pytest.mark.parametrize("arguments", [[], ["seed=1"], ["user_dir=null"], ["~user_dir"]])
def test_no_folder_is_added_where_none_is_named(arguments):
    assert add_typed_user_dir(arguments) == arguments
    assert user_folders == []


def test_several_folders_in_one_command_are_refused(project, monkeypatch):
    monkeypatch.chdir(project.parent)
    with pytest.raises(UserError, match="user_dir=project,link: no such folder"):
        add_typed_user_dir(["-m", "user_dir=project,link"])


@pytest.mark.parametrize("target", ["my_parts.Mine", "parts.scores.Deep", "parts.scores.Mine", "my_parts.General"])
def test_classes_of_the_folder_are_allowed(project, target):
    assert "Fix: add user_dir=FOLDER if you trust it" in refusal(target, None)
    check_targets({"_target_": target}, user_dir=add_user_dir(project))
    assert f"_target_={target}: refused" in refusal(target, None)  # another run, opened without the folder


NOT_OF_THE_FOLDER = (
    "subprocess.Popen", "os.system", "builtins.eval", "posix.system", "antigravity.x", "nmt.runs.job.Job", "sys.exit",
    "my_parts.Popen", "my_parts.OrderedDict", "my_parts.build", "my_parts.subprocess.Popen", "my_parts.Mine.bind",
    "my_parts.__builtins__.get", "my_parts", "parts.Mine", "parts..scores.Deep", ".my_parts.Mine", "other.Evil",
    "/other.Evil", "../other.Evil", "parts/scores.Deep", "PROJECT/my_parts.Mine", "__main__.Mine", "train.main", "",
)  # fmt: skip


@pytest.mark.parametrize("target", NOT_OF_THE_FOLDER)
def test_nothing_else_is_allowed_with_a_folder(project, target):
    marker = project.parent / "marker"
    write(project.parent, {"other.py": f"open({str(marker)!r}, 'w')\nclass Evil: pass\n"})
    message = refusal(target.replace("PROJECT", str(project)), add_user_dir(project))
    assert ": refused, because " in message
    assert "add user_dir" not in message
    assert not marker.exists()


@pytest.mark.parametrize("name", ["collections", "torch", "nmt", "nmt/model/attention/score"])
def test_a_file_never_takes_the_place_of_an_installed_module(project, name):
    module = name.replace("/", ".")
    write(project, {f"{name}.py": "raise SystemExit('imported')\nclass General: pass\n"})
    before = importlib.import_module(module)
    folder = add_user_dir(project)
    assert importlib.import_module(module) is before
    message = refusal(f"{module}.Mine", folder)
    assert f"the installed module {module} hides {folder}/{name}.py. Fix: rename the file" in message


def test_two_folders_with_a_module_of_one_name_are_told_apart(project, tmp_path):
    write(tmp_path / "second", {"my_parts.py": PARTS})
    check_targets({"_target_": "my_parts.Mine"}, user_dir=add_user_dir(project))
    assert "hides" in refusal("my_parts.Mine", add_user_dir(tmp_path / "second"))


def test_a_link_in_the_folder_is_a_file_of_the_folder(project):
    write(project.parent, {"shared.py": "class Shared: pass\n"})
    (project / "linked.py").symlink_to(project.parent / "shared.py")
    check_targets({"_target_": "linked.Shared"}, user_dir=add_user_dir(project))
    assert find_module_file("shared", [project]) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("class Mine(:\n", "line 1: SyntaxError: invalid syntax"),
        ("import nmt\nimport not_there\n", "line 2: ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_an_error_in_the_users_file_names_the_file_and_the_line(project, text, error):
    write(project, {"broken.py": text})
    assert refusal("broken.Mine", add_user_dir(project)).endswith(f"_target_=broken.Mine: {project}/broken.py, {error}")
    assert "no such class (module 'my_parts' has no attribute 'Mne')" in refusal("my_parts.Mne", project)


def test_a_folder_that_a_file_names_is_refused(project):
    config = configured(f"user_dir='{project}'")
    with pytest.raises(UserError, match=r"user_dir=.*: is set by a file. Fix: type it on the command line"):
        add_configured_user_dir(config, ["seed=1"])
    add_configured_user_dir(config, [f"user_dir='{project}'"])
    assert user_folders == [str(project)]
