"""Which splits of a graph a protocol scores on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from graphkin.errors import SettingError, SplitError, check_range, check_whole
from graphkin.graphs.graph import Graph
from graphkin.graphs.splits import Split, few_labels, random_split


@dataclass(frozen=True)
class Option:
    """A choice that a protocol offers."""

    name: str
    default: Any
    check: Callable[[str, Any], None]
    """called with name and value; raises a SettingError"""
    description: str


@dataclass(frozen=True)
class SplitSource:
    """Where splits come from: drawn for each seed, or those of the graph."""

    description: str
    draw: Callable[..., Iterable[Split]]
    """called with the graph, the seeds and every option by name"""
    options: tuple[Option, ...] = ()
    replaceable: bool = False
    """a user may give a list of splits instead"""
    in_turn: bool = False
    """where a graph comes with several splits, the seeds of an experiment take them in turn"""


def public_splits(graph: Graph) -> tuple[Split, ...]:
    if not graph.public_splits:
        raise SplitError(f"{graph.name} comes with no public split; use protocol grace, or give it train, val and test masks.")
    return graph.public_splits


def _random(graph: Graph, seeds: range, *, train: float, val: float, ratio: float | None) -> Iterable[Split]:
    """Only nodes with a label are split."""
    assert graph.y is not None
    known = (graph.y.cpu() >= 0).nonzero()[:, 0]
    for seed in seeds:
        drawn = random_split(len(known), train=train, val=val, ratio=ratio, seed=seed)
        yield Split(known[drawn.train], known[drawn.val], known[drawn.test], drawn.name, seed)


def _random_or_public(graph: Graph, seeds: range, **shares: float | None) -> Iterable[Split]:
    if len(graph.public_splits) < 2:
        return RANDOM.draw(graph, seeds, **shares)
    for option in SHARES:
        if shares[option.name] != option.default:
            raise SettingError(
                f"{graph.name} comes with {len(graph.public_splits)} public splits, which leave nothing to draw: "
                f"{option.name} cannot be given, found {shares[option.name]}."
            )
    return graph.public_splits


def _public(graph: Graph, seeds: range) -> Iterable[Split]:
    return public_splits(graph)


def _few_labels(graph: Graph, seeds: range, *, per_class: int) -> Iterable[Split]:
    assert graph.y is not None
    public, labels = public_splits(graph)[0], graph.y.cpu()
    return (few_labels(public, labels, per_class, seed) for seed in seeds)


def _check_number_or_none(name: str, value: Any) -> None:
    if value is not None:
        check_range(name, value)


def _check_count(name: str, value: Any) -> None:
    check_whole(name, value, at_least=1)


SHARES = (
    Option("train", 0.1, check_range, "share of the nodes to train on"),
    Option("val", 0.1, check_range, "share of the nodes to validate on"),
    Option("ratio", None, _check_number_or_none, "train on this share of all nodes, drawn from those to train on"),
)
PER_CLASS = Option("per_class", 5, _check_count, "training nodes of each class")

RANDOM = SplitSource("random splits", _random, SHARES, replaceable=True)
RANDOM_OR_PUBLIC = SplitSource(
    "random splits, or the public ones where there are several", _random_or_public, SHARES, replaceable=True, in_turn=True
)
PUBLIC = SplitSource("the splits that come with the graph", _public)
FEW_LABELS = SplitSource("few training nodes of the first public split", _few_labels, (PER_CLASS,))
