"""``graphkin evaluate``: which untrained encoder a run is compared with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from graphkin import Graph, evaluate, load
from graphkin.commands.cli import run
from graphkin.evaluation.baselines import untrained
from graphkin.evaluation.free import BEST_FREE, FREE
from tests.wording import told

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def graph_file(folder: Path, small: Graph) -> None:
    masks = {name: getattr(small, name) for name in ("train_mask", "val_mask", "test_mask")}
    np.savez("small.npz", x=np.asarray(small.x), edge_index=small.edge_index, y=np.asarray(small.y), **masks)


def graphkin(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


@pytest.mark.parametrize(("method", "seed"), [("graph-mlp", 0), ("grace", 3)])
def test_evaluate_compares_with_the_untrained_encoder_of_the_run(method: str, seed: int, capsys: Capture, small: Graph) -> None:
    fit = ["fit", "small.npz", "--method", method, "--seed", seed, "--epochs", 1, "--out", "run", "-q", "-s", "hidden=8"]
    assert graphkin(*fit, "--splits", 1) == 0
    capsys.readouterr()
    for embeddings in ("run", "run/embeddings.npy"):
        assert graphkin("evaluate", embeddings, "--train", 0.3, "--val", 0.2, "--splits", 2, "--json") == 0
        found = json.loads(capsys.readouterr().out)["baselines"]["untrained encoder"]["accuracy"]
        rows = untrained(small, load("run/model.graphkin").method, seed)
        assert found == pytest.approx(evaluate(rows, small, train=0.3, val=0.2, splits=2).values["accuracy"])


def test_evaluate_without_a_readable_model_leaves_a_row_out(capsys: Capture) -> None:
    assert graphkin("fit", "small.npz", "--epochs", 1, "--out", "run", "-q", "-s", "hidden=8", "--splits", 1) == 0
    Path("run/model.graphkin").write_bytes(b"damaged")
    capsys.readouterr()
    assert graphkin("evaluate", "run", "--train", 0.3, "--val", 0.2, "--splits", 1, "--json") == 0
    out, err = capsys.readouterr()
    assert set(json.loads(out)["baselines"]) == {BEST_FREE, *FREE}
    assert told(err, "untrained encoder", "model.graphkin") and err.count("\n") == 1
