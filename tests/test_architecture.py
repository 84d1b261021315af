"""The rules of the house: rooms, the direction of imports, plain names, adapters for other libraries."""

import ast
import re
from pathlib import Path

import pytest
from compositions import choices

from nmt.config.installation import CONF_DIR

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "nmt").rglob("*.py"))
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
LEVELS = {  # a room may import rooms of lower levels, and those of its own
    "errors": 0, "system": 1, "config": 2, "data": 3, "model": 3, "runs": 4, "search": 5, "translate": 6,
    "evaluation": 7, "training": 7, "report": 8, "web": 8, "launch": 8, "share": 8, "api": 9, "cli": 9,
}  # fmt: skip
FRAGMENTS = re.compile(r"\s*(Of|What|Where|By|Or|Whether|Whom|Whose|Those|That|Who|Which)\b")
COINED = {"said", "told", "found", "own", "wanted", "anew", "whole"}
DOCUMENTED = {"_asdict", "_replace", "_fields", "_foreach_mul_", "_target_"}  # private by name alone
DOCUMENTED |= {"_thnn_fused_gru_cell", "_thnn_fused_lstm_cell", "_exit"}  # operators of torch; os._exit
LIBRARY_TEXT = re.compile(r"(\bin|search\(|match\(|startswith\().*\bstr\((error|cause|exception)\)")


def imported_modules(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nmt"):
            yield node, node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((node, alias.name, []) for alias in node.names if alias.name.startswith("nmt."))


def room(module):
    return module.split(".")[1]


def test_nmt_holds_rooms_alone():
    assert {path.name for path in (ROOT / "nmt").glob("*.py")} == {"__init__.py", "errors.py"}
    rooms = {path.name for path in (ROOT / "nmt").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(LEVELS) - {"errors"}


def test_every_folder_states_its_rule():
    inits = [name for name in TREES if name.endswith("__init__.py")]
    assert len(inits) == len({Path(name).parent for name in TREES})
    assert [name for name in inits if not ast.get_docstring(TREES[name])] == []


def test_modules_have_different_names():
    """A stack trace with two files of one name tells a reader nothing."""
    names = [Path(name).name for name in TREES if not name.endswith("__init__.py")]
    commands = {"train.py", "evaluate.py", "translate.py", "compare.py"}
    assert {name for name in names if names.count(name) > 1 and name not in commands} == set()


def test_imports_go_one_way():
    upwards = [
        f"{name} imports {module}"
        for name, tree in TREES.items()
        for _, module, names in imported_modules(tree)
        for target in ([module] if "." in module else [f"nmt.{one}" for one in names])
        if name != "nmt/__init__.py" and LEVELS[room(target)] > LEVELS[Path(name).parts[1].removesuffix(".py")]
    ]
    assert upwards == []


def test_model_knows_nothing_of_settings_logging_or_text():
    foreign = ("pytorch_lightning", "hydra", "omegaconf", "wandb", "nmt.data", "nmt.config", "nmt.runs")
    for name, tree in TREES.items():
        if name.startswith("nmt/model/"):
            modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            modules += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
            assert [module for module in modules if module.startswith(foreign)] == [], name


def test_no_files_import_each_other_in_a_circle():
    names = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): name for name in TREES}
    graph = {}
    for module, name in names.items():
        targets = set()
        for _, source, imported in imported_modules(TREES[name]):
            inner = {f"{source}.{one}" for one in imported} & names.keys()
            targets |= inner or ({source} & names.keys())
        graph[module] = targets - {module}
    while leaves := [module for module, targets in graph.items() if not targets & graph.keys()]:
        for module in leaves:
            del graph[module]
    assert sorted(graph) == []


def docstrings():
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{name}:{getattr(node, 'lineno', 1)}", ast.get_docstring(node) or ""


def test_no_docstring_opens_with_a_fragment():
    assert [f"{place} {text[:60]}" for place, text in docstrings() if FRAGMENTS.match(text)] == []


@pytest.mark.parametrize("folder", ["nmt", "studies"])
def test_no_variable_has_a_coined_name(folder):
    coined = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.id if is_stored else node.arg if isinstance(node, ast.arg) else None
            if name in COINED:
                coined.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert coined == []


def own_private_names():
    """Return the private names that nmt defines itself: methods, attributes, functions and constants."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def test_private_parts_of_libraries_are_used_in_adapters_alone():
    known = {*own_private_names(), *DOCUMENTED}
    outside = [
        f"{name}:{node.lineno} .{node.attr}"
        for name, tree in TREES.items()
        if not name.endswith("_internals.py")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr) and node.attr not in known
    ]
    assert outside == []


def test_every_adapter_has_a_contract_test():
    adapters = [Path(name) for name in TREES if name.endswith("_internals.py")]
    assert adapters
    for adapter in adapters:
        assert (ROOT / "tests" / adapter.parent.relative_to("nmt") / f"test_{adapter.name}").is_file(), adapter


def test_texts_of_other_libraries_errors_are_matched_in_one_file():
    matching = [
        f"{name}:{number}"
        for name in TREES
        if name != "nmt/config/explain.py"
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), start=1)
        if LIBRARY_TEXT.search(line)
    ]
    assert matching == []


def test_the_table_of_groups_in_the_documentation_names_every_choice():
    rows = {
        row[1]: row[2]
        for row in re.finditer(r"^\| `([\w/]+)` \| (.*) \|$", (ROOT / "docs" / "settings.md").read_text(), re.M)
    }
    groups = {path.parent.relative_to(CONF_DIR).as_posix() for path in CONF_DIR.glob("**/*.yaml")}
    parts = {group for group in groups if group.partition("/")[0] in ("attention", "decoder", "memory", "encoder")}
    assert parts | {"optimizer", "schedule", "initialization", "size", "trainer"} <= rows.keys()
    for group in parts:
        for choice in choices(group):
            assert f"`{choice}`" in rows[group], f"{group}={choice}"
