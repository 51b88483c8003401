"""What a run gave, as a store holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphkin.support.files import parse_json
from graphkin.support.shapes import check_shape

TRIAL = {
    **{"graph": str, "content": str, "protocol": str, "baseline": (str, None), "method": ({"name": str}, None)},
    "per_class?": (int, None),
}
OUTCOME = {
    **{"seed": int, "test": {...: float}, "val": {...: float}, "losses": [float], "seconds": float},
    **{"kernel": (str, None), "finished": str, "chosen": {...: str}, "peak_bytes": (int, None)},
}
ENVIRONMENT = {"machine?": (dict, None), "versions?": (dict, None), "commit?": (str, None)}


@dataclass(frozen=True)
class Outcome:
    """The measures of one run in percent, some points of its loss curve, what training took."""

    trial: str
    """its key"""
    seed: int
    test: dict[str, float]
    val: dict[str, float]
    """on validation nodes, where the protocol has any"""
    losses: tuple[float, ...]
    seconds: float
    kernel: str | None
    finished: str
    environment: str
    """JSON: versions, machine, commit"""
    chosen: dict[str, str] = field(default_factory=dict)
    """by measure, which row it is, where one was chosen"""
    peak_bytes: int | None = None
    """of the process that trained it, where it was measured: resident on a CPU, allocated by PyTorch on a GPU"""

    @property
    def machine(self) -> str:
        """What it was trained on, such as "NVIDIA H200" or "CPU, 2 threads"."""
        known = parse_json(self.environment).get("machine") or {}
        threads = known.get("threads")
        on_cpu = "CPU" if not threads else f"CPU, {threads} thread{'s'[: threads != 1]}"
        return str(known.get("gpu") or on_cpu)


def check_outcomes(trials: Mapping[str, Any], outcomes: Iterable[Outcome]) -> None:
    """Refuse whatever another program may have written into a store."""
    for key, trial in trials.items():
        check_shape(trial, TRIAL, f"task {key}")
        if trial["baseline"] is None and trial["method"] is None:
            raise ValueError(f"task {key} has neither a method nor a baseline")
    for outcome in outcomes:
        where = f"the run of task {outcome.trial} with seed {outcome.seed}"
        check_shape({**vars(outcome), "losses": list(outcome.losses)}, OUTCOME, where)
        check_shape(parse_json(outcome.environment), ENVIRONMENT, f"the environment of {where}")
        if outcome.trial not in trials:
            raise ValueError(f"{where} is of a task that is not described")
