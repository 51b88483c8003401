"""Killed at a known point, the same command goes on by itself and ends with what an undisturbed one leaves, bit for bit.

``python -m tests.kills 100`` does the same at random points.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.killed_at import STEP, AtCall, AtCommit, AtWrite, Point, ended, start, together, words
from tests.kills import Result, differences, new_folder, result_of_fit, result_of_reproduce

pytestmark = pytest.mark.slow
EPOCHS = 12
SETTINGS = ["--set", "top_k=4", "--set", "steps=none", "--set", "hidden=16", "--splits", "2", "--no-baselines"]
FIT = [
    *("fit", "synthetic-120", "--epochs", str(EPOCHS), "--checkpoint-every", "5", "--device", "cpu", "--quiet"),
    *("--out", "run", *SETTINGS),
]
SEVERAL = [*FIT, "--method", "grace+"]
REPRODUCE = [
    *("reproduce", "experiment.toml", "--store", "results.sqlite", "--seeds", "1", "--device", "cpu", "--quiet"),
    *("--epochs", "5", "--checkpoint-every", "2"),
]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = new_folder(tmp_path_factory.mktemp("fit"), "undisturbed")
    assert ended(start(FIT, folder)) == 0, words(folder)
    return result_of_fit(folder)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = new_folder(tmp_path_factory.mktemp("reproduce"), "undisturbed")
    assert ended(start(REPRODUCE, folder)) == 0, words(folder)
    return result_of_reproduce(folder)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(AtWrite("pagerank-0.npz", "after"), id="pageranks are kept"),
        pytest.param(AtCall(STEP, 1), id="first epoch"),
        pytest.param(AtCall(STEP, 7), id="epoch 7"),
        pytest.param(AtCall(STEP, EPOCHS), id="last epoch"),
        pytest.param(AtWrite("checkpoint.graphkin"), id="half a checkpoint"),
        pytest.param(AtWrite("checkpoint.graphkin", "cut"), id="a few bytes of a checkpoint"),
        pytest.param(AtWrite("model.graphkin", "cut"), id="a few bytes of a model"),
        pytest.param(AtWrite("embeddings.npy"), id="half of the embeddings"),
        pytest.param(AtWrite("run.json"), id="half a run file"),
        pytest.param(AtCall("graphkin.evaluation.probe:probe", 2), id="scoring"),
    ],
)
def test_fit_goes_on(point: Point, fitted: Result, tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "killed")
    cut = isinstance(point, AtWrite) and point.how == "cut"
    assert ended(start(FIT, folder, point)) == -(signal.SIGXFSZ if cut else signal.SIGKILL), words(folder)
    being_written = [path for path in folder.rglob(".*") if path.is_file()]
    assert bool(being_written) == (isinstance(point, AtWrite) and point.how != "after")
    assert ended(start(FIT, folder)) == 0, words(folder)
    assert not differences(result_of_fit(folder), fitted)


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_reproduce_goes_on(after: bool, reproduced: Result, tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "killed")
    assert ended(start(REPRODUCE, folder, AtCommit(after))) == -signal.SIGKILL, words(folder)
    assert ended(start(REPRODUCE, folder)) == 0, words(folder)
    assert not differences(result_of_reproduce(folder), reproduced)


def test_processes_that_train_together_go_on(tmp_path: Path) -> None:
    undisturbed, killed = new_folder(tmp_path, "undisturbed"), new_folder(tmp_path, "killed")
    assert together(SEVERAL, undisturbed, None, None) == [0, 0], words(undisturbed)
    assert together(SEVERAL, killed, None, AtCall(STEP, 9)) == [1, -signal.SIGKILL]
    (told,) = [line for line in words(killed).splitlines() if line.startswith("graphkin: ")]
    assert "another process" in told and "checkpoint" in told
    assert together(SEVERAL, killed, None, None) == [0, 0], words(killed)
    assert not differences(result_of_fit(killed), result_of_fit(undisturbed))
