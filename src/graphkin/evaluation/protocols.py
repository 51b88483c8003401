"""Protocols by name (docs/math.md, section 6): what they measure, on which splits, with which options.

A protocol is a value. :func:`graphkin.evaluate`, the command line, experiments and the documents read them from
:data:`PROTOCOLS`; ``PROTOCOLS.add(mine.name, mine)`` adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphkin.errors import SettingError, check_choice, check_text, unknown
from graphkin.evaluation.habits import best_test, refit, swapped
from graphkin.evaluation.links import found_again
from graphkin.evaluation.scoring import (
    NEIGHBOURS,
    Values,
    adam_regression,
    clustering,
    leaderboard,
    logistic_regression,
    search,
)
from graphkin.evaluation.split_sources import FEW_LABELS, PUBLIC, RANDOM, RANDOM_OR_PUBLIC, Option, SplitSource
from graphkin.graphs.graph import Graph
from graphkin.graphs.held_out import hold_out_edges
from graphkin.graphs.splits import Split
from graphkin.support.registry import Registry

RESERVED = ("embeddings", "data", "protocol", "splits", "seed")
ACCURACIES = {"accuracy": "test accuracy", "val_accuracy": "validation accuracy"}
CLUSTERS = {"nmi": "normalised mutual information", "ari": "adjusted Rand index"}
NEAREST = {f"sim@{k}": f"share of the {k} nearest nodes that share the node's class" for k in NEIGHBOURS}
LINK_MEASURES = {"auc": "area under the ROC curve", "ap": "average precision"}
HABITS = ("habit-refit", "habit-swapped", "habit-best-test")
"""ways of published evaluations that can raise numbers, by name"""


@dataclass(frozen=True)
class Column:
    """What an experiment measures: a measure of the protocol, with these options."""

    measure: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    protocol: str | None = None
    """another protocol whose measure it is, on the same rows"""


@dataclass(frozen=True)
class Protocol:
    """A way to score embeddings.

    ``score(subject, **options)`` gives the values of every measure for a :class:`~graphkin.evaluation.scoring.Subject`.
    """

    name: str
    description: str
    """one line"""
    measures: Mapping[str, str] = field(hash=False)
    """what each measure is, by name; the first is the main one, and "val_X" is X on validation nodes"""
    score: Callable[..., Values]
    splits: SplitSource | None = None
    """None: it needs no splits"""
    score_options: tuple[Option, ...] = ()
    """of ``score``, beside those of the splits"""
    columns: Mapping[str, Column] = field(default_factory=dict, hash=False)
    """what experiments can measure, by name; by default the measures above"""
    by_labels: bool = False
    """experiments measure it at numbers of labels per class, "1", "3" and so on"""
    own_classifier: bool = False
    """experiments score a method that trains with labels by its own classifier instead"""
    needs_labels: bool = True
    hold_out: Callable[[Graph, int], Graph] | None = None
    """experiments train, compute baselines and score on this graph, of the whole one and a seed; None: on the whole graph"""

    def __post_init__(self) -> None:
        for name in (self.name, self.description, *self.measures, *(option.name for option in self.options)):
            check_text("the name of a protocol, and what belongs to it,", name)
        if not self.measures:
            raise SettingError(f"protocol {self.name} needs at least one measure, found none.")
        names = [option.name for option in self.options]
        for name in names:
            if name in RESERVED or names.count(name) > 1:
                raise SettingError(f"options of protocol {self.name} must have different names, found {name!r} twice.")
        if self.by_labels and "per_class" not in names:
            raise SettingError(f"protocol {self.name} counts labels, which needs an option per_class, found {names}.")
        if not self.columns and not self.by_labels:
            shown = [name for name in self.measures if not name.startswith("val_")]
            object.__setattr__(self, "columns", {name: Column(name) for name in shown})

    @property
    def options(self) -> tuple[Option, ...]:
        return (() if self.splits is None else self.splits.options) + self.score_options

    @property
    def validates(self) -> bool:
        """Whether its main measure is also known on validation nodes."""
        return self.validated(Column(next(iter(self.measures))))

    def settled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The value of every option: the given one, checked, or its default."""
        known = {option.name: option for option in self.options}
        for name, value in given.items():
            if not known:
                raise SettingError(f"protocol {self.name} has no options, found {name}.")
            if name not in known:
                raise unknown(f"option of protocol {self.name}", name, known)
            known[name].check(name, value)
        return {name: given.get(name, option.default) for name, option in known.items()}

    def drawn(self, graph: Graph, seeds: range, options: Mapping[str, Any]) -> Iterable[Split]:
        if self.splits is None:
            return ()
        return self.splits.draw(graph, seeds, **{option.name: options[option.name] for option in self.splits.options})

    def trained_on(self, graph: Graph, seed: int) -> Graph:
        """What a run of an experiment sees of a graph."""
        return graph if self.hold_out is None else self.hold_out(graph, seed)

    def column(self, name: str) -> Column:
        """What an experiment measures under this name."""
        if not self.by_labels:
            check_choice("measure", name, self.columns)
            return self.columns[name]
        if not (name.isascii() and name.isdecimal() and not name.startswith("0")):
            raise SettingError(f"measures of {self.name} are numbers of labels per class, such as '3', found {name!r}.")
        return Column(next(iter(self.measures)), {"per_class": int(name)})

    def scoring(self, column: Column) -> Protocol:
        """The protocol that a column is scored by."""
        return self if column.protocol is None else PROTOCOLS[column.protocol]

    def validated(self, column: Column) -> bool:
        """Whether a column is also known on validation nodes."""
        return f"val_{column.measure}" in self.scoring(column).measures


def _a_tenth(graph: Graph, seed: int) -> Graph:
    return hold_out_edges(graph, seed=seed)


PROTOCOLS: Registry[Protocol] = Registry("protocol")
for _protocol in (
    Protocol(
        "grace",
        "logistic regression on random splits, C chosen on validation nodes; rows of unit length",
        ACCURACIES,
        logistic_regression,
        RANDOM,
        columns={f"{share} %": Column("accuracy", {"ratio": share / 100}) for share in (2, 4, 6, 8, 10)},
    ),
    Protocol(
        "gca",
        "logistic regression by Adam, at the epoch that is best on validation nodes; rows as they are",
        ACCURACIES,
        adam_regression,
        RANDOM_OR_PUBLIC,
        columns={"test": Column("accuracy")},
    ),
    Protocol(
        "public",
        "as grace, on the splits that come with the graph",
        ACCURACIES,
        logistic_regression,
        PUBLIC,
        columns={"test": Column("accuracy")},
        own_classifier=True,
    ),
    Protocol(
        "few-labels",
        "as grace, on the first public split with few training nodes of each class",
        ACCURACIES,
        logistic_regression,
        FEW_LABELS,
        by_labels=True,
        own_classifier=True,
    ),
    Protocol(
        "clustering",
        "k-means into as many clusters as there are classes; rows of unit length",
        CLUSTERS,
        clustering,
    ),
    Protocol(
        "search",
        "similarity search: how many of a node's nearest nodes, by cosine, share its class",
        NEAREST,
        search,
    ),
    Protocol(
        "links",
        "link prediction: how well cosines rank edges held out before training above pairs without an edge",
        {**LINK_MEASURES, **{f"val_{name}": f"{what}, validation edges" for name, what in LINK_MEASURES.items()}},
        found_again,
        needs_labels=False,
        hold_out=_a_tenth,
    ),
    Protocol(
        "leaderboard",
        "accuracy as grace, clustering and search of the same embeddings",
        {**ACCURACIES, **CLUSTERS, "sim@5": NEAREST["sim@5"]},
        leaderboard,
        RANDOM,
        columns={
            **{name: Column("accuracy", {}, name) for name in (*HABITS, "gca")},
            **{name: Column(name, {}, "clustering") for name in CLUSTERS},
            "sim@5": Column("sim@5", {}, "search"),
            "accuracy": Column("accuracy", {"ratio": 0.1}, "grace"),
        },
    ),
    Protocol(
        "habit-refit",
        "not for own claims: as grace, but fitted again on training and validation nodes",
        {"accuracy": "test accuracy, probe fitted on training and validation nodes"},
        refit,
        RANDOM,
    ),
    Protocol(
        "habit-swapped",
        "not for own claims: as grace, but with validation and test nodes swapped",
        {"accuracy": "test accuracy, validation and test nodes swapped"},
        swapped,
        RANDOM,
    ),
    Protocol(
        "habit-best-test",
        "not for own claims: as gca, but at the epoch that is best on test nodes",
        {"accuracy": "test accuracy, epoch of the probe chosen on test nodes"},
        best_test,
        RANDOM_OR_PUBLIC,
    ),
):
    PROTOCOLS.add(_protocol.name, _protocol)
