"""``make demo`` with a few epochs, and its runs in ``graphkin report``."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
import runpy
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphkin
from graphkin import Graph
from graphkin.commands.cli import run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
EPOCHS = 3
RUNS = {"GRACE+": "graceplus-seed0", "kin": "kin-seed0"}


class Demo(NamedTuple):
    folder: Path
    printed: str
    table: dict[str, Any]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """What the Makefile runs, with one seed and a few epochs."""
    recipe = re.search(r"^demo:.*\n\t\$\(BIN\)/python (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    folder = tmp_path_factory.mktemp("demo")
    script, *given = shlex.split(recipe.group(1))
    fewer = ["--seeds", "1", "--epochs", str(EPOCHS), "--device", "cpu", "--out", str(folder)]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr("sys.argv", [script, *given, *fewer])
        runpy.run_path(str(ROOT / script), run_name="__main__")
    return Demo(folder, printed.getvalue(), json.loads((folder / "table.json").read_text(encoding="utf-8")))


def test_the_table_is_printed_and_written(demo: Demo) -> None:
    accuracies, seconds = demo.table["accuracies"], demo.table["seconds"]
    assert list(accuracies) == list(seconds) == ["unit features", "best free", *RUNS]
    printed = [[cell.strip() for cell in line.split("│")] for line in demo.printed.splitlines()]
    shown = {cells[1]: cells[2] for cells in printed if len(cells) > 2}
    assert shown == {row: f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" for row, values in accuracies.items()}
    assert all(len(values) == 5 and 30 < min(values) <= max(values) < 100 for values in accuracies.values())
    assert f"{np.mean(accuracies['kin']) - np.mean(accuracies['best free']):+.2f}" in demo.printed


@pytest.mark.parametrize("row", RUNS)
def test_its_runs_are_those_of_the_table(demo: Demo, cora: Graph, row: str) -> None:
    folder = demo.folder / RUNS[row]
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert (record["method"], record["epochs"], record["seed"]) == (row.lower(), EPOCHS, 0)
    assert record["scores"]["accuracy"] == demo.table["accuracies"][row]
    again = graphkin.load(folder / "model.graphkin").embed(cora)
    assert np.array_equal(again.numpy(), np.load(folder / "embeddings.npy"))


@pytest.mark.parametrize("row", RUNS)
def test_its_runs_open_in_the_report(demo: Demo, row: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(["report", str(demo.folder / RUNS[row]), "--layout", "pca", "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    shown = html.unescape(re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL))
    assert f"{row.lower()} on cora-bundled" in shown
    assert "2,708 nodes" in shown and f"{EPOCHS} epochs" in shown
    accuracy = np.mean(demo.table["accuracies"][row])
    (score,) = re.findall(r'<th scope="row">' + re.escape(row.lower()) + r"</th><td[^>]*>([^<]+)</td>", shown)
    assert score.startswith(f"{accuracy:.2f}")
