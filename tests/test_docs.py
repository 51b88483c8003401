"""What the documents show is run."""

from __future__ import annotations

import doctest
import functools
import importlib
import json
import pkgutil
import re
import shlex
import statistics
from pathlib import Path

import pytest

import graphkin
from graphkin import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MODULES = sorted(m.name for m in pkgutil.walk_packages(graphkin.__path__, "graphkin.") if not m.name.endswith("__main__"))


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and training that lasts two epochs."""
    monkeypatch.chdir(tmp_path)
    for module in (graphkin, cli):
        monkeypatch.setattr(module, "fit", functools.partial(graphkin.fit, epochs=2))
    return tmp_path


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_readme_python(quick: Path) -> None:
    names: dict[str, object] = {}
    sources = [block.replace("epochs=50", "epochs=2") for block in blocks("python")]
    assert len(sources) >= 4
    for source in sources:
        exec(compile(source, "README.md", "exec"), names)
    assert (quick / "model.graphkin").exists()


def test_readme_commands(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("graphkin ")]
    assert len(commands) >= 6
    for command in commands:
        arguments = shlex.split(command, comments=True)[1:]
        assert cli.run(arguments) == 0, (command, capsys.readouterr().err)
    assert (quick / "runs/gca/run.json").exists()


def test_readme_opens_with_the_two_commands() -> None:
    assert blocks("sh")[0].startswith("make demo")
    assert "\nmake test" in blocks("sh")[0]


def test_the_results_table_is_the_run_files() -> None:
    record = json.loads((ROOT / "docs/results/cora-bundled-10-seeds.json").read_text(encoding="utf-8"))
    accuracies = record["accuracies"]
    assert all(len(values) == 10 for values in accuracies.values())
    for row, values in accuracies.items():
        assert f"| {row} | {statistics.mean(values):.2f} ± {statistics.stdev(values):.2f} |" in README
    differences = [b - a for a, b in zip(accuracies["GRACE"], accuracies["GRACE+"], strict=True)]
    assert f"{statistics.mean(differences):+.2f} ± {statistics.stdev(differences):.2f} points, median" in README
    assert f"median {statistics.median(differences):+.2f}:" in README


def test_links_and_named_tests_exist() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("http") or (document.parent / target).exists(), (document.name, target)
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    for name in re.findall(r"`(test_\w+?)_?(?:…)?`", (ROOT / "docs/math.md").read_text(encoding="utf-8")):
        assert f"def {name}" in tests, name
