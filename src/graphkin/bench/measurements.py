"""What ``graphkin bench`` measures, checked before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from graphkin.bench import epoch, objective
from graphkin.bench.plot import check_plot
from graphkin.bench.results import Row
from graphkin.errors import SettingError, check_choice, check_whole
from graphkin.graphs.catalogue import DEFAULT
from graphkin.graphs.graph import Graph
from graphkin.graphs.readers import open_graph
from graphkin.methods import Method
from graphkin.objectives.kinship import Kinship
from graphkin.training.device import device_named
from graphkin.training.plan import resolve
from graphkin.training.usable import check_usable

KINDS = ("objective", "epoch")
NODES = {"cpu": [1000, 2708], "cuda": [2708, 19717]}
WIDTHS = {"cpu": [128], "cuda": [256]}


@dataclass(frozen=True)
class Measurements:
    what: list[str]
    nodes: list[int]
    widths: list[int]
    weights: list[str]
    features: int
    graphs: list[tuple[Graph, Method]]
    device: torch.device
    repeats: int

    @staticmethod
    def checked(
        what: list[str] | None,
        *,
        nodes: list[int] | None,
        widths: list[int] | None,
        weights: list[str] | None,
        features: int,
        graphs: list[str] | None,
        methods: list[str] | None,
        device: str,
        repeats: int,
        data_root: Path | None,
        plot: Path | None,
    ) -> Measurements:
        where = device_named(device)
        chosen = what or list(KINDS)
        for kind in chosen:
            check_choice("benchmark", kind, KINDS)
        if plot is not None:
            check_plot(plot)
            if "objective" not in chosen:
                raise SettingError(
                    "--plot shows the objective against the number of nodes, found only epoch: bench objective too."
                )
        for kind in weights or ():
            check_choice("weights", kind, objective.WEIGHTS)
        sizes = [("nodes", nodes or NODES[where.type], 2), ("width", widths or WIDTHS[where.type], 1)]
        for name, values, least in (*sizes, ("features", [features], 1), ("repeats", [repeats], 1)):
            for value in values:
                check_whole(name, value, at_least=least)
        return Measurements(
            chosen,
            sizes[0][1],
            sizes[1][1],
            weights or list(objective.WEIGHTS),
            features,
            _pairs(graphs or [DEFAULT], methods or ["grace", "grace+", "kin"], data_root) if "epoch" in chosen else [],
            where,
            repeats,
        )

    def rows(self, kind: str) -> Iterator[Row]:
        if kind == "objective":
            for weights in self.weights:
                for width in self.widths:
                    for nodes in self.nodes:
                        yield from self._objective(nodes, width, weights)
        else:
            for graph, method in self.graphs:
                yield from epoch.compare(graph, method, self.device, self.repeats)

    def _objective(self, nodes: int, width: int, weights: str) -> Iterator[Row]:
        try:
            yield from objective.compare(nodes, width, weights, self.features, self.device, self.repeats)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            problem = {"nodes": nodes, "width": width, "weights": weights, "device": self.device.type}
            yield Row(problem, "all", failure="embeddings and similarity alone do not fit into memory")


def _pairs(graphs: list[str], methods: list[str], data_root: Path | None) -> list[tuple[Graph, Method]]:
    """Every method on every graph."""
    pairs = []
    for name in graphs:
        graph = open_graph(name, data_root=data_root)
        for method in methods:
            setting = resolve(method, graph)
            like_grace = setting.views is not None and setting.views.adaptive is None
            if not (like_grace or isinstance(setting.objective, Kinship)):
                raise SettingError(
                    "the method of bench epoch must be grace or grace+, to compare with the published GRACE, or kin, "
                    f"found {method}."
                )
            check_usable(graph, setting)
            pairs.append((graph, setting))
    return pairs
