"""A change of the design changes no number, no key of a committed run, and no model file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from graphkin import load, method_named
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.experiments.trials import Trial
from graphkin.methods import from_json
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
