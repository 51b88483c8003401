"""What is known of the graphs of the shipped leaderboard, so that a reader finds those like her own."""

from __future__ import annotations

import functools
import operator
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources

KINDS = {
    "neighbours mostly alike (homophily 0.7 or more)": ("homophily", operator.ge, 0.7),
    "neighbours often different (homophily below 0.7)": ("homophily", operator.lt, 0.7),
    "many features (1,000 or more)": ("features", operator.ge, 1000),
    "fewer features (below 1,000)": ("features", operator.lt, 1000),
    "few neighbours (mean degree below 10)": ("degree", operator.lt, 10),
    "many neighbours (mean degree 10 or more)": ("degree", operator.ge, 10),
}


@functools.cache
def graph_facts() -> Mapping[str, Mapping[str, float]]:
    """Nodes, features, classes, mean degree and homophily by dataset; scripts/graph_facts.py writes them."""
    return tomllib.loads(resources.files("graphkin.report").joinpath("graphs.toml").read_text(encoding="utf-8"))


def graph_kinds(datasets: Sequence[str]) -> dict[str, list[int]]:
    """The places of the datasets of each kind; kinds without any are left out."""
    known = {place: graph_facts()[name] for place, name in enumerate(datasets) if name in graph_facts()}
    found = {
        kind: [place for place, facts in known.items() if holds(facts[fact], bound)]
        for kind, (fact, holds, bound) in KINDS.items()
    }
    return {kind: places for kind, places in found.items() if places}
