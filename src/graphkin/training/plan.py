"""From what a user asks for to a training run: checked and decided, then prepared, then trained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from graphkin.errors import MemoryLimitError, SettingError, argument, check_text, printable
from graphkin.execution import Execution, as_asked, decide, parse_memory, rows_among
from graphkin.graphs.graph import Graph
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.graphs.recipes import Recipe, recipe_for
from graphkin.methods import Method, base_name, key_form, method_named, presets, read_settings
from graphkin.methods.saved import is_settings_file
from graphkin.models.encoder import features_for, inputs_of, learned_from
from graphkin.similarity import NodeSimilarity, as_similarity
from graphkin.support.mapped import in_files
from graphkin.support.memory import give_back
from graphkin.support.parallel import peers
from graphkin.support.progress import Style, tell
from graphkin.training.checkpoints import Checkpoint
from graphkin.training.device import device_named
from graphkin.training.duration import WHOLE, duration, duration_before, is_told
from graphkin.training.fitted import Fitted
from graphkin.training.modules import prepared_features, scale_for, suited
from graphkin.training.prepared import Prepared
from graphkin.training.usable import check_usable

PAGERANKS = ".pagerank"
"""behind a checkpoint's name, the folder for PageRanks"""
DEFAULT_METHOD = "kin"


@dataclass(frozen=True)
class Plan:
    """A method on a graph that was checked, and how it will be trained."""

    graph: Graph
    """on its device"""
    device: torch.device
    execution: Execution
    own: NodeSimilarity | None
    """a user's similarity"""
    feature_scale: str
    """as it was asked for"""
    chosen: str | None = None
    """what was chosen for the graph, and why"""
    recipe: Recipe | None = None
    """what was done to the columns of the graph's table"""
    features: str | None = None
    """those that were made from the edges"""

    @property
    def method(self) -> Method:
        method: Method = self.execution.method
        return method

    def lines(self) -> list[str]:
        """How it will be trained, what was done to columns, and what was chosen for the graph."""
        named = {"plan": self.execution, "columns": self.recipe, "chosen for this graph": self.chosen}
        return [printable(f"{name}: {line}") for name, line in named.items() if line is not None]

    @property
    def title(self) -> str:
        return f"{self.method.name} on {self.graph.name}"

    def fit(self, seed: int, progress: Style = "none", checkpoint: Path | None = None, every: int = 50) -> Fitted:
        """Prepare and train; with a ``checkpoint`` that is there already, go on from it."""
        return self.fit_and_embed(seed, progress, checkpoint, every)[0]

    def fit_and_embed(
        self, seed: int, progress: Style = "none", checkpoint: Path | None = None, every: int = 50
    ) -> tuple[Fitted, Iterator[torch.Tensor]]:
        """:meth:`fit`, and the embeddings of the graph in blocks of rows, which are computed as they are taken.

        Of several processes the first has them. Where they share rows, all must take the blocks.
        """
        told, small = is_told(self, progress, checkpoint), self.graph.num_nodes <= WHOLE
        if told and not small:
            tell(progress, [f"time: {duration_before(self)}"])
        prepared = self.prepare(None if checkpoint is None else Path(f"{checkpoint}{PAGERANKS}"))
        if told and small:
            tell(progress, [f"time: {duration(prepared)}"])
        checkpoints = [] if checkpoint is None else [self.checkpoint(checkpoint, every, seed)]
        (fitted,) = prepared.train([seed], progress, self.title, checkpoints=checkpoints).fitted
        takes_part = peers().first or rows_among(self.method).size > 1
        return fitted, replace(prepared, for_objective=None).embed_in_blocks(fitted) if takes_part else iter(())

    def checkpoint(self, path: Path, every: int, seed: int, graph: Graph | None = None) -> Checkpoint:
        """Of the run of a seed; ``graph`` may have training labels of its own."""
        asked = replace(self.method, feature_scale=self.feature_scale)
        identity = {"method": key_form(asked), "seed": seed, "graph": (graph or self.graph).content}
        if self.own is not None:
            identity["similarity"] = self.own.digest()
        return Checkpoint(path, every, identity)

    def prepare(self, folder: Path | None = None, similarity: NodeSimilarity | None = None) -> Prepared:
        """Compute what all runs share. ``similarity`` is the one that the settings describe, computed before."""
        start = time.perf_counter()
        given = similarity if self.own is None else self.own
        for_objective = self.method.objective.prepare(self.graph, self.execution, given, folder)
        of_objective = time.perf_counter() - start
        give_back()
        x = features_for(self.method.encoder, prepared_features(self.method, self.graph))
        found = peers().from_first(lambda: _on_cpu(learned_from(self.method.encoder, self.graph, x)))
        learned = {name: value.to(self.device) for name, value in found.items()}
        with in_files(self.execution.in_files > 0):
            inputs = inputs_of(self.method.encoder, self.graph, x, learned, rows_among(self.method))
        give_back()
        return Prepared(self, for_objective, inputs, learned, time.perf_counter() - start, of_objective)


def plan(
    data: GraphLike,
    method: str | Method | None,
    *,
    preset: str | Path | None = None,
    device: str = "auto",
    similarity: Any = None,
    memory: str | int | None = None,
    features: str | None = None,
    adapt: bool = True,
    **settings: Any,
) -> Plan:
    """Check everything and decide how to train, before anything is computed.

    With ``adapt`` the settings change where they need too much memory or time; otherwise they stay as they are given.
    """
    graph = as_graph(data, features)
    asked = resolve(method, graph, preset).configure(**settings)
    scale = scale_for(asked, graph)
    recipe = recipe_for(graph) if scale == "columns" and not graph.prepared else None
    graph = graph if recipe is None else recipe.applied(graph)
    check_usable(graph, asked, own_similarity=similarity is not None)
    chosen, reason = suited(asked.configure(feature_scale=scale), graph, own_similarity=similarity is not None)
    where, limit = device_named(device), parse_memory(memory)
    there = graph.to(where)
    own = own_similarity(similarity, graph, chosen, where)
    if adapt:
        execution = peers().from_first(lambda: _decided(there, chosen, where, limit, own))
    else:
        execution = peers().from_first(lambda: as_asked(there, chosen, where, own))
    return Plan(there, where, execution, own, asked.feature_scale, reason, recipe, features)


def _decided(graph: Graph, method: Method, device: torch.device, memory: int | None, own: NodeSimilarity | None) -> Execution:
    """:func:`decide`, whose error names the default method where that needs less."""
    try:
        return decide(graph, method, device, memory, own)
    except MemoryLimitError as error:
        try:
            other = decide(graph, method_named(DEFAULT_METHOD), device, memory)
        except MemoryLimitError:
            raise error from None
        hint = f"{argument('method', DEFAULT_METHOD)} needs about {other.estimate / 2**30:.2f} GiB."
        raise MemoryLimitError(f"{error} {hint}") from None


def resolve(method: str | Method | None, graph: Graph, preset: str | Path | None = None) -> Method:
    """A method with its settings for a graph: those of ``preset``, of the graph's name where they are shipped, or for any.

    A ``preset`` that is a file has the settings of one method, and names it where ``method`` is None.
    """
    if isinstance(method, Method):
        if preset is not None:
            raise SettingError(f"preset needs a method's name; this {method.name} has its own settings already.")
        return method
    if preset is not None and isinstance(preset, str | Path) and is_settings_file(preset):
        saved = read_settings(preset)
        if method is not None and method_named(method).name != saved.name:
            raise SettingError(f"{preset} has settings of {saved.name}; the method must be the same, found {method!r}.")
        return saved
    method = DEFAULT_METHOD if method is None else method
    if preset is None:
        known = graph.name.removesuffix("-bundled")
        preset = known if known in presets(base_name(method_named(method).name)) else None
    check_text("preset", preset, optional=True)
    return method_named(method, None if preset is None else str(preset))


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.cpu() for name, value in tensors.items()}


def own_similarity(similarity: Any, graph: Graph, method: Method, device: torch.device) -> NodeSimilarity | None:
    if similarity is None:
        return None
    if method.similarity is None:
        raise SettingError(f"{method.name} uses no similarity; a '+' method does.")
    if isinstance(similarity, torch.Tensor):
        similarity = similarity.to(device, torch.float32)
    measure = as_similarity(similarity, graph.num_nodes, device)
    if measure.num_nodes != graph.num_nodes:
        raise SettingError(f"the similarity must be of the graph's {graph.num_nodes} nodes, found {measure.num_nodes}.")
    return measure
