"""What the tests of searches share."""

from __future__ import annotations

from typing import Any

import graphkin
from graphkin import Graph
from graphkin.methods import method_named
from graphkin.tuning.outcome import Tuned

QUICK: dict[str, Any] = {"hidden": 8, "epochs": 4, "device": "cpu", "splits": 2}
GRACE = method_named("grace")


def quick(graph: Graph, method: str = "grace", trials: int = 4, **options: Any) -> Tuned:
    return graphkin.tune(graph, method, trials=trials, **{**QUICK, **options})


def told(tuned: Tuned) -> list[Any]:
    return [(one.number, one.state, one.score, one.settings) for one in tuned.tried]
