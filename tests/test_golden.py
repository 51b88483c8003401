"""A change of the design changes no number, no key of a committed run, and no model file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from graphkin import Graph, fit, load, method_named
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.experiments.trials import Trial
from graphkin.methods import from_json, key_form, to_json
from graphkin.support.files import read_tensors, write_tensors
from tests import golden

KNOWN: dict[str, Any] = json.loads((golden.FOLDER / "losses.json").read_text())
RESULTS = Path(__file__).parents[1] / "docs/results/reproduction.json"


@pytest.mark.parametrize(("method", "preset"), golden.settings())
def test_shipped_settings_give_the_losses_they_gave(method: str, preset: str) -> None:
    """Bit for bit where sums are added up in the same order, to rounding elsewhere."""
    known, found = KNOWN["values"][f"{method} {preset}"], golden.values(method, preset)
    if golden.machine() == KNOWN["machine"]:
        assert found == known
    else:
        assert found["losses"] == pytest.approx(known["losses"], rel=1e-4)


def test_a_model_of_an_earlier_version_is_read() -> None:
    fitted = load(golden.FOLDER / "model.graphkin")
    assert fitted.method == method_named("gca+", "photo").configure(hidden=8, epochs=2, feature_scale="rows")
    assert (fitted.num_features, fitted.seed, fitted.kernel) == (256, 7, "symmetric float32")
    assert fitted.losses == (0.49580755829811096, 0.463331401348114)
    rows = fitted.embed(golden.graph())
    torch.testing.assert_close(rows[:2, :3], torch.tensor([[0.0, 0.0, 0.0424], [0.0, 0.0, 0.0410]]), atol=1e-4, rtol=0)
    if golden.machine() == KNOWN["machine"]:
        assert hashlib.sha256(rows.contiguous().numpy().tobytes()).hexdigest()[:16] == "02c8b8f5947a0dd0"


@pytest.mark.parametrize("neighbours", [None, 3])
def test_a_model_with_sampled_neighbours_is_read(small: Graph, neighbours: int | None, tmp_path: Path) -> None:
    """A setting that was taken out: it changed steps, and embeddings always came from all neighbours."""
    fitted, path = fit(small, "grace+", epochs=1, hidden=8, candidates=12, device="cpu"), tmp_path / "model.graphkin"
    fitted.save(path)
    metadata, tensors = read_tensors(path)
    header = json.loads(metadata["graphkin"])
    header["method"]["sampling"]["neighbours"] = neighbours
    write_tensors(path, tensors, {**metadata, "graphkin": json.dumps(header)})
    assert load(path).method == fitted.method
    assert torch.equal(load(path).embed(small), fitted.embed(small))


def test_a_run_with_sampled_neighbours_is_read() -> None:
    method = method_named("grace+").configure(candidates=12)
    flat = key_form(method)
    assert from_json({**flat, "optimiser": {**flat["optimiser"], "neighbours": 3}}) == method
    assert "neighbours" not in json.dumps([flat, to_json(method)])


def test_committed_runs_keep_their_keys() -> None:
    """But for those of ``tail``, a setting that was taken out."""
    tasks = json.loads(RESULTS.read_text(encoding="utf-8"))["tasks"]
    kept = {key: task for key, task in tasks.items() if '"tail"' not in json.dumps(task)}
    assert len(kept) > 0.9 * len(tasks)
    for key, task in kept.items():
        method = None if task["method"] is None else from_json(task["method"])
        given = {name: task[name] for name in ("graph", "content", "per_class", "baseline")}
        only = tuple(task.get("only", ()))
        assert Trial(**given, protocol=PROTOCOLS[task["protocol"]], method=method, only=only).key == key
