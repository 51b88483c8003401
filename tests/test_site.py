"""The front door: the README and the pages of the site do what they show."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import graphkin
from scripts import example_tables, readme_output
from tests.documents import ROOT, blocks, page, part_of_cora, run_shown

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "example"
NAV = re.findall(r"(\w[\w-]*)\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.M)


@pytest.fixture
def example(quick: Path) -> Path:
    """The folder of ``quick`` with the tables of the guide."""
    for name in ("people.csv", "work.csv"):
        shutil.copy(EXAMPLE / name, quick / name)
    return quick


def commands(text: str) -> list[str]:
    return [line for block in blocks("sh", text) for line in block.splitlines() if line.startswith("graphkin ")]


def run_python(text: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """All blocks of a document, one after the other."""
    found: dict[str, Any] = {} if names is None else names
    for block in blocks("python", text):
        exec(compile(block.replace("epochs=50", "epochs=2"), "document", "exec"), found)
    return found


def test_the_readme_is_short_and_opens_with_the_two_commands() -> None:
    assert len(README.splitlines()) <= 120
    assert blocks("sh", README)[0].startswith("make demo")
    assert "\nmake test" in blocks("sh", README)[0]


def test_the_readme_shows_what_its_lines_printed() -> None:
    run = json.loads(readme_output.RUN.read_text(encoding="utf-8"))
    assert readme_output.shown(README) == (run["code"], run["printed"])


@pytest.mark.slow
def test_readme(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_python(README)["z"].shape == (387, 512)
    assert len(capsys.readouterr().out.splitlines()) == blocks("text", README)[-1].count("\n"), "as many lines as it shows"
    run_shown(commands(README), capsys)
    assert {"clusters.csv", "map.png", "run.json"} <= {path.name for path in (quick / "my-run").iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index", "quickstart", "tables", "methods", "research", "questions", "kin"])
def test_a_page_of_the_site(name: str, example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page(name)
    run_shown(commands(text), capsys)
    run_python(text.split("\n## Add an ")[0], {"graphkin": graphkin, "graph": part_of_cora()})


@pytest.mark.slow
def test_the_page_about_large_graphs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On small graphs, and in two processes."""
    graph = graphkin.Graph.from_tables("work.csv", "people.csv", weight="hours")
    np.savez("my-graph.npz", x=graph.x.to_dense().numpy(), edge_index=graph.edge_index.numpy())
    text = page("scale")
    run_shown([line.replace("synthetic-100000", "synthetic-200") for line in commands(text)], capsys)
    (spread,) = [line for line in text.splitlines() if line.startswith("torchrun") and not line.endswith("\\")]
    launched = [sys.executable, "-m", "torch.distributed.run", *shlex.split(spread.replace("node 4", "node 2"))[1:]]
    done = subprocess.run([*launched, "--epochs", "2", "--out", "spread"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (example / "spread" / "run.json").exists()


def test_the_guide_shows_the_tables_as_they_are() -> None:
    shown = "".join(blocks("text", page("tables")))
    for name in ("people.csv", "work.csv"):
        assert "".join((EXAMPLE / name).read_text(encoding="utf-8").splitlines(keepends=True)[:3]) in shown


def test_the_tables_of_the_guide_are_made_by_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_tables, "FOLDER", tmp_path)
    example_tables.main()
    for name in ("people.csv", "work.csv"):
        assert (tmp_path / name).read_bytes() == (EXAMPLE / name).read_bytes()


@pytest.mark.slow
def test_the_clusters_of_the_guide_are_the_teams() -> None:
    """What the guide says: nobody named the teams, or said how many there are."""
    graph = graphkin.Graph.from_tables(EXAMPLE / "work.csv", EXAMPLE / "people.csv", weight="hours")
    found = graphkin.cluster(graphkin.fit(graph, epochs=60).embed(graph))
    assert found.count == 4
    assert adjusted_rand_score(example_tables.teams(np.random.default_rng(example_tables.SEED)), found.numbers) > 0.8


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "docs" / "table-to-clusters.ipynb", as_version=4)
    shutil.copytree(EXAMPLE, tmp_path / "example")
    shown = [len(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]
    for cell in notebook.cells:
        cell.source = cell.source.replace("graphkin.fit(graph,", "graphkin.fit(graph, epochs=2,")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [len(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"] == shown
    assert (tmp_path / "people-with-clusters.csv").exists()


def test_every_public_name_is_in_the_reference() -> None:
    named = re.findall(r"^::: graphkin\.(\w+)$", page("api"), flags=re.M)
    assert sorted(named) == sorted(graphkin.__all__)


def test_the_site_has_every_page() -> None:
    assert sorted(NAV) == sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.glob("*.html"))
    assert len(pages) > len(NAV)
    for one in pages:
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?://[^\s\">]+)", one.read_text("utf-8"))
        assert loaded == [], one.name
