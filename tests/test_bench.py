from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks import tune_fused
from graphkin import Graph
from graphkin.bench import Results, Row, epoch, objective, read
from graphkin.commands.cli import run
from graphkin.errors import OutputError
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import GRACE, method_named, plus
from graphkin.objectives.kernels.fused import tiles
from graphkin.support.products import multiplies_bf16_fast

CPU = torch.device("cpu")


@pytest.mark.parametrize("weights", objective.WEIGHTS)
def test_every_contender_agrees_and_is_timed(weights: str) -> None:
    rows = list(objective.compare(90, 8, weights, 20, CPU, repeats=2))
    symmetric = [] if weights == "on-the-fly" else ["symmetric float32", "symmetric bf16"]
    if weights.startswith("kinship"):
        lower = ["blocked bf16"] if multiplies_bf16_fast(CPU) else []
        assert [row.contender for row in rows] == ["dense", "blocked float32", *lower]
    else:
        assert [row.contender for row in rows] == ["dense", *symmetric, "blocked float32"]
    for row in rows:
        assert row.failure is None and row.seconds is not None and row.error is not None
        assert row.seconds > 0 and row.peak_bytes is not None and row.peak_bytes > 2**20


def test_no_speed_while_the_values_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(u: Tensor, v: Tensor, *_: Any, **__: Any) -> Tensor:
        return (u * v).sum()

    monkeypatch.setattr(objective, "two_view_loss", wrong)
    _, *others = objective.compare(50, 8, "infonce", 20, CPU, repeats=1)
    assert others
    for row in others:
        assert row.seconds is None and row.failure is not None and "disagrees" in row.failure


def test_where_the_dense_way_cannot_fit_some_anchors_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "_memory", lambda device: 0)
    (row,) = objective.compare(50, 8, "on-the-fly", 20, CPU, repeats=1)
    assert row.contender == "blocked float32" and row.seconds is not None
    first, *others = objective.compare(50, 8, "kinship", 20, CPU, repeats=1)
    assert first.contender == "blocked float32" and all(row.seconds is not None for row in others)


def test_epochs(small: Graph) -> None:
    rows = list(epoch.compare(small, plus(GRACE).configure(hidden=8), CPU, repeats=1))
    assert [row.contender for row in rows] == ["published form", "graphkin symmetric float32", "graphkin symmetric bf16"]
    assert all(row.seconds is not None for row in rows)


def test_epochs_of_kin(small: Graph) -> None:
    method = method_named("kin").configure(hidden=8, branch_width=4, anchors=20)
    rows = list(epoch.compare(small, method, CPU, repeats=1))
    whole = ["all anchors, blocked float32", "one positive each, blocked float32"]
    assert [row.contender for row in rows] == [*whole, "20 anchors, blocked float32"]
    assert all(row.seconds is not None and row.error == 0 for row in rows)
    rows = list(epoch.compare(small, method.configure(anchors=40), CPU, repeats=1))
    assert [row.contender for row in rows] == whole


def test_epochs_of_kin_in_lower_precision() -> None:
    graph = community_graph(1100, words=20)
    rows = list(epoch.compare(graph, method_named("kin").configure(hidden=8, branch_width=4), CPU, repeats=1))
    precisions = ["float32", "bf16"] if multiplies_bf16_fast(CPU) else ["float32"]
    expected = [f"{what}, blocked {precision}" for what in ("all anchors", "one positive each") for precision in precisions]
    assert [row.contender for row in rows] == expected
    assert all(row.seconds is not None and row.error is not None and row.error < epoch.ALLOWED for row in rows)


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--nodes", "40", "--nodes", "80", "--width", "8", "--weights", "stored", "--weights", "infonce", "--repeats", "1"]
    arguments = ["bench", "objective", *sizes, "--device", "cpu", "--out", str(tmp_path)]
    assert run([*arguments, "--plot", str(tmp_path / "plot.png")]) == 0
    shown = capsys.readouterr().out
    assert "nodes 80, width 8, stored, cpu: symmetric float32:" in shown
    assert (tmp_path / "plot.png").stat().st_size > 10_000
    assert run([*arguments, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["objective"]) == 16
    runs = read(tmp_path / "objective.json")
    assert [len(one["rows"]) for one in runs] == [16, 16]
    assert {"commit", "versions", "machine", "finished"} <= set(runs[0])


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["bench", "speed"], ["'speed'", "objective, epoch"]),
        (["bench", "objective", "--weights", "dense"], ["weights", "'dense'", "infonce, stored"]),
        (["bench", "objective", "--nodes", "1"], ["nodes", ">= 2", "found 1"]),
        (["bench", "epoch", "--method", "graph-mlp"], ["grace or grace+", "found graph-mlp"]),
        (["bench", "epoch", "--method", "gca+"], ["grace or grace+", "found gca+"]),
        (["bench", "objective", "--plot", "p.xyz"], [".png, .svg, .pdf", "found p.xyz"]),
        (["bench", "epoch", "--plot", "p.png"], ["--plot", "bench objective"]),
    ],
)
def test_mistakes(arguments: list[str], facts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--device", "cpu", "--out", str(tmp_path)]) == 2
    line = capsys.readouterr().err
    assert all(fact in line for fact in facts), line


def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    results = Results(tmp_path / "objective.json")
    results.add(Row({"nodes": 5}, "dense", seconds=1.0))
    results.add(Row({"nodes": 5}, "blocked", failure="out of memory"))
    (kept,) = read(tmp_path / "objective.json")
    assert [row["contender"] for row in kept["rows"]] == ["dense", "blocked"]


def test_more_nodes_than_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--nodes", str(10**11), "--weights", "infonce"]
    assert run(["bench", "objective", *sizes, "--device", "cpu", "--out", str(tmp_path)]) == 0
    assert "do not fit into memory" in capsys.readouterr().out


def test_the_tuning_script_still_fits_the_kernels() -> None:
    pairs, side = tune_fused.problem(40, 8, "bf16", torch.bfloat16, per_anchor=True)
    assert pairs.sums(side, side).isfinite().all()
    for kinship in (False, True):
        timed = tune_fused.calls(40, 8, "bf16", torch.bfloat16, per_anchor=True, kinship=kinship)
        assert all(hasattr(tiles, tiles_of) and call().isfinite().all() for tiles_of, call in timed.items())


def test_a_file_that_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "objective.json"
    for content in ("not json", '{"a": 1}', "[1]", '[{"rows": [{"seconds": 1}]}]'):
        path.write_text(content)
        with pytest.raises(OutputError, match=r"objective\.json"):
            Results(path)
        assert path.read_text() == content
