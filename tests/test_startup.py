"""What is imported, and when: nothing by the package itself, Typer by help and version, PyTorch with its first use.

``python -m benchmarks.startup`` measures the same in seconds.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import graphkin
from graphkin.bench import objective
from graphkin.commands.map import COLOURS
from graphkin.commands.options.fit import method_names
from graphkin.graphs import structural
from graphkin.methods import METHODS
from graphkin.training.embeddings import FORMATS
from graphkin.uses.layout import LAYOUTS

PACKAGE = {"graphkin", "graphkin.support", "graphkin.support.lazy", "graphkin.support.waiting"}
COMMANDS = (
    *("bench", "cluster", "datasets", "embed", "evaluate", "fit", "links", "map", "report", "reproduce", "results"),
    *("similar", "tune"),
)
PROGRAM = PACKAGE | {
    *("graphkin.commands", "graphkin.commands.app", "graphkin.commands.cli", "graphkin.commands.loading"),
    *("graphkin.commands.options", "graphkin.commands.options.shared"),
    *(f"graphkin.commands.options.{name}" for name in COMMANDS),
    *("graphkin.errors", "graphkin.graphs", "graphkin.graphs.catalogue"),
    *("graphkin.support.launch", "graphkin.support.signals"),
}
TYPER = {
    *("typer", "rich", "annotated_doc", "annotated_types", "attr", "click", "markdown_it", "mdurl", "pydantic"),
    *("pydantic_core", "pygments", "shellingham", "typing_extensions", "typing_inspection"),
}
"""Typer, Rich and what these import where it is installed."""
NOT_FOR_A_FIT = {"torch_geometric", "sklearn", "numba", "pyarrow", "networkx", "pandas", "matplotlib", "typer"}


def loaded_by(source: str) -> tuple[set[str], set[str]]:
    """The modules of graphkin and the other packages that a program in a process of its own has imported at its end."""
    told = "import atexit, json, sys\natexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr))\n"
    done = subprocess.run([sys.executable, "-c", told + source], capture_output=True, text=True, timeout=120, check=False)
    modules: list[str] = json.loads(done.stderr.splitlines()[-1])
    packages = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    known = {name for name in packages if name.startswith(("_", "sitecustomize"))}
    return {name for name in modules if name.partition(".")[0] == "graphkin"}, packages - known - {"graphkin"}


def started_with(source: str) -> set[str]:
    """Other packages that such a program has for reasons of its environment, such as an editable installation."""
    return loaded_by(source)[1]


def test_the_package_imports_nothing() -> None:
    modules, packages = loaded_by("import graphkin")
    assert modules == PACKAGE
    assert packages == started_with("pass")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["--version", "--help", *(f"{name} --help" for name in COMMANDS)])
def test_version_and_help_import_typer_alone(arguments: str) -> None:
    program = f"import sys; sys.argv[1:] = {arguments.split()}; from graphkin.commands.cli import main; main()"
    modules, packages = loaded_by(program)
    assert modules == PROGRAM
    assert packages - started_with("pass") <= TYPER


@pytest.mark.slow
def test_a_plain_fit_imports_only_what_it_uses() -> None:
    fit = "import torch, graphkin; graph = graphkin.Graph.from_arrays(torch.rand(9, 4), [[0, 1, 2], [1, 2, 3]]);"
    modules, packages = loaded_by(fit + "graphkin.fit(graph, 'grace+', epochs=1, hidden=4, progress='none').embed(graph)")
    assert "graphkin.training.fit" in modules
    assert packages & NOT_FOR_A_FIT == set()


def test_every_public_name_is_there_and_typed() -> None:
    for name in graphkin.__all__:
        assert getattr(graphkin, name) is not None and name in dir(graphkin)
    tree = ast.parse(Path(graphkin.__file__).read_text(encoding="utf-8"))
    (typed,) = [node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)]
    homes = {
        entry.name: str(one.module).removeprefix("graphkin.")
        for one in typed.body
        if isinstance(one, ast.ImportFrom)
        for entry in one.names
    }
    assert homes == graphkin._HOMES
    with pytest.raises(AttributeError, match="nothing"):
        graphkin.nothing  # noqa: B018


def test_modules_need_no_import_statement() -> None:
    modules, _ = loaded_by("import graphkin; graphkin.errors.InputError")
    assert modules == PACKAGE | {"graphkin.errors"}


def test_help_names_what_the_library_has(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Help does not import the library, so its lists are compared here."""
    from graphkin.commands.cli import run

    monkeypatch.setenv("COLUMNS", "400")
    assert set(method_names()) == set(METHODS)
    lists = {
        "fit": [*method_names(), *FORMATS, *structural.KINDS],
        "report": LAYOUTS,
        "map": [*LAYOUTS, *COLOURS],
        "bench": objective.WEIGHTS,
    }
    for command, names in lists.items():
        assert run([command, "--help"]) == 0
        text = capsys.readouterr().out
        assert [name for name in names if name not in text] == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "passive 1000"),
        ({"OMP_WAIT_POLICY": "active"}, "active None"),
        ({"GOMP_SPINCOUNT": "7"}, "passive 7"),
    ],
)
def test_threads_hardly_spin_unless_the_user_says_so(
    given: dict[str, str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set before PyTorch is loaded, which reads it once."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = "os.environ['OMP_WAIT_POLICY'], os.environ.get('GOMP_SPINCOUNT')"
    code = f"import sys, os; from graphkin.commands import cli; print('torch' in sys.modules, {found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"False {wanted}"


@pytest.mark.parametrize(
    ("first", "given", "threads", "percent", "warned"),
    [
        ("torch", {}, 2, 100.0, True),
        ("torch", {}, 2, 0.0, False),
        ("torch", {}, 1, 100.0, False),
        ("torch", {"OMP_WAIT_POLICY": "passive"}, 2, 100.0, False),
        ("torch", {"GOMP_SPINCOUNT": "7"}, 2, 100.0, False),
        ("graphkin", {}, 2, 100.0, False),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch has another OpenMP there")
def test_a_fit_beside_other_programs_says_that_pytorch_came_first(
    first: str, given: dict[str, str], threads: int, percent: float, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    code = f"""
import {first}, graphkin, os, psutil, torch, warnings
os.cpu_count, psutil.cpu_percent = lambda: 2, lambda interval: {percent}
torch.set_num_threads({threads})
graph = graphkin.Graph.from_arrays(torch.eye(6), torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]))
with warnings.catch_warnings(record=True) as told:
    graphkin.fit(graph, "grace", epochs=1, progress=False)
print([str(warning.message) for warning in told if "imported before" in str(warning.message)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ("grace on graph: PyTorch was imported before graphkin" in done.stdout) == warned, done.stdout


@pytest.mark.parametrize("method", ["kin", "grace+", "bgrl"])
def test_training_imports_no_compiler(method: str) -> None:
    """PyTorch's own optimisers do, which takes as long as PyTorch itself."""
    code = f"""
import sys, graphkin
from graphkin.graphs.synthetic import community_graph
graphkin.fit(community_graph(300), {method!r}, epochs=2, progress=False)
print([name for name in sys.modules if name in ("torch._dynamo", "sympy")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
