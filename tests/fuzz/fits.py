"""``graphkin fit`` on a case's graph, with options of all kinds, and what is promised of its folder."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.promises import Case
from tests.fuzz.results import check_run
from tests.fuzz.sources import originals

QUICK = ("--epochs", "1", "--set", "hidden=4", "--splits", "1")
OPTIONS: tuple[list[str], ...] = (
    [], ["--features", "degree"], ["--features", "positional"], ["--ignore", "f0"], ["--label", "f0"], ["--method", "gca"],
    ["--set", "beta=1"], ["--set", "beta=0"], ["--method", "graph-mlp+"], ["--format", "csv"], ["--format", "parquet"],
    ["--set", "structure=ppr-cosine"], ["--set", "tau_pos=0.001"], ["--set", "pooling=mean"], ["--no-baselines"],
    ["--method", "grace"], ["--label", "\x1b[31mred"], ["--ignore", "\x1b]0;title\x07"], ["--seed", "7"],
    ["--hold-out-edges", "0.3"],
)  # fmt: skip


def fit(
    case: Case, source: Sequence[object], options: Sequence[str], *, nodes: int | None = None, must_score: bool = False
) -> str:
    """Sometimes into a folder with results. ``nodes`` and ``must_score`` are what a valid graph lets one know."""
    draw, target = case.draw, case.out / "run"
    options = list(options)
    there = draw.chance(0.12)
    if there:
        originals().copy(draw.pick(("npy", "csv", "parquet", "cut-off")), target)
        options += ["--overwrite"] if draw.chance(0.7) else []
    quiet = ["-q"] if draw.chance(0.9) else []
    told = ["--json"] if draw.chance(0.8) else []
    said = case.run("fit", *source, *options, *quiet, *told, "--out", target)
    if not said.worked:
        return said.outcome
    record = check_run(target, nodes=nodes, must_score=must_score)
    return "embedded and scored" if "accuracy" in record["scores"] else "embedded"


def some_options(case: Case) -> list[str]:
    return [word for options in case.draw.some(OPTIONS, 2) for word in options]
