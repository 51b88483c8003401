"""The experiments that ship with graphkin, and those in files of the same form."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path

from graphkin.errors import SettingError, check_choice, unknown
from graphkin.experiments.definition import Experiment, is_own_graph
from graphkin.experiments.parsing import parse
from graphkin.support.files import reading

NAMES = ("grace-ratios", "gca", "graph-mlp", "graph-mlp-few-labels", "ablation-grace", "ablation-graph-mlp")
"""the paper's tables and figures, in the order in which they are run: "all" of them"""
BEYOND = ("clustering-grace", "clustering-gca", "similarity-search-grace", "similarity-search-gca", "links")
"""what the paper does not measure"""
KIN = ("kin", "kin-more", "ablation-kin")
"""our own method"""
PEERS = ("peers", "peers-more")
"""the leaderboard"""
FREE = ("free", "free-gca")
"""the bar without training"""
SEARCHES = ("search-grace", "search-gca", "search-parts", "search-graph-mlp", "search-kin")
"""how settings were found that the paper does not give"""
SHIPPED = (*NAMES, *KIN, *PEERS, *BEYOND, *FREE, *SEARCHES)


def experiments_named(
    names: list[str], datasets: list[str] | None = None, rows: list[str] | None = None, seeds: int | None = None
) -> list[Experiment]:
    """Experiments by name ("all": every one of the paper's), with some of their datasets or rows, or other numbers of seeds.

    A dataset may also be the file or folder of a graph of one's own, which every experiment then takes.
    """
    if not names:
        raise SettingError(f"say what to reproduce: {', '.join(NAMES)}, all, or a file.toml.")
    chosen = [
        experiment_named(name) for name in dict.fromkeys(n for given in names for n in (NAMES if given == "all" else (given,)))
    ]
    for what, wanted, allowed in (
        ("dataset", datasets, {name for experiment in chosen for name in experiment.datasets}),
        ("row", rows, {row.name for experiment in chosen for row in experiment.rows}),
    ):
        for name in wanted or ():
            if what == "dataset" and is_own_graph(name):
                continue
            check_choice(what, name, sorted(allowed))
    reduced = (experiment.only(datasets, rows, seeds) for experiment in chosen)
    return [experiment for experiment in reduced if experiment is not None]


def experiment_named(name: str) -> Experiment:
    """One that ships with graphkin, or a file of the same form."""
    if name in SHIPPED:
        return _shipped(name)
    path = Path(name)
    if path.suffix != ".toml":
        raise unknown("experiment", name, (*SHIPPED, "all", "a file.toml"))
    if not path.is_file():
        raise SettingError(f"no experiment file at {path}.")
    with reading(path, "cannot be read as an experiment", SettingError):
        return parse(path.stem, path.read_text(encoding="utf-8", errors="replace"))


@functools.cache
def _shipped(name: str) -> Experiment:
    text = resources.files("graphkin.experiments").joinpath("definitions", f"{name}.toml").read_text(encoding="utf-8")
    return parse(name, text)
