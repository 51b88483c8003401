"""A trained method: embed, predict, save, load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from graphkin.errors import GraphError, InputError, ModelFileError, check_choice, check_whole
from graphkin.execution.memory import memory_in_use, whole_memory
from graphkin.graphs.arrays import MOST_CLASSES, MOST_FEATURES
from graphkin.graphs.graph import Graph
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.graphs.recipes import Recipe, recipe_from_json
from graphkin.graphs.structural import KINDS as MADE
from graphkin.methods import Method, from_json, to_json
from graphkin.models.encoder import Encoder, declares, embedding_memory_of, features_for, inputs_of
from graphkin.models.views import isolated, whole_graph
from graphkin.support.files import check_memory, checked_path, read_tensors, reading, write_tensors
from graphkin.support.mapped import in_files
from graphkin.training.device import device_named
from graphkin.training.embeddings import column_names
from graphkin.training.modules import modules_for, parameter_bytes, prepared_features

if TYPE_CHECKING:
    import pandas

LAYER_AT_ONCE_BYTES = 2**28
"""Graphs whose widest layer takes more than this are embedded in blocks of nodes."""
FORMAT = "graphkin-model"
FORMAT_VERSION = 2


@dataclass(repr=False)
class Fitted:
    """What :func:`graphkin.fit` returns."""

    method: Method
    modules: nn.ModuleDict
    num_features: int
    num_classes: int
    seed: int
    feature_names: tuple[str, ...] = ()
    losses: tuple[float, ...] = ()
    interrupted: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    kernel: str | None = None
    """implementation and precision of the objective in training (docs/performance.md)"""
    execution: dict[str, Any] = field(default_factory=dict)
    """how it was trained: words, what was stored, whether another algorithm was taken than the one asked for, ..."""
    own_similarity: str | None = None
    """the digest of a similarity of the user's own"""
    features: str | None = None
    """those that were made from the edges, and are made of every graph that is embedded"""
    recipe: Recipe | None = None
    """what was done to the columns of a table, and is done to those of every graph that is embedded"""

    def __repr__(self) -> str:
        trained = f"{len(self.losses)} epochs" if self.losses else "nothing trained"
        stopped = ", interrupted" if self.interrupted else ""
        return f"Fitted({self.method.name!r}: {trained}{stopped}, {self.num_features} features, seed {self.seed})"

    @property
    def device(self) -> torch.device:
        first: Tensor = next(iter(self.modules.state_dict().values()))
        return first.device

    def to(self, device: str | torch.device) -> Fitted:
        """The same model on another device, where :meth:`embed` then computes; "auto" is the GPU if there is one."""
        self.modules.to(device_named(str(device)))
        return self

    def embed(self, data: GraphLike) -> Tensor:
        """Embeddings [num_nodes, d] of this or another graph with the same features."""
        blocks = list(self.embed_in_blocks(data))
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks)

    @torch.no_grad()
    def embed_in_blocks(self, data: GraphLike) -> Iterator[Tensor]:
        """The rows of :meth:`embed` in their order, some at a time, so that they need not fit in memory; kin's encoder can."""
        graph = self._checked(data).to(self.device)
        settings = self.method.encoder
        encoder: Any = self.modules["encoder"].eval()
        features = features_for(settings, prepared_features(self.method, graph))
        with in_files(_exceeds_memory(settings, graph, self.device)):
            x = inputs_of(settings, graph, features, encoder.learned() if hasattr(encoder, "learned") else {})
        if hasattr(encoder, "embed_in_blocks"):
            yield from encoder.embed_in_blocks(x, whole_graph(graph))
            return
        if hasattr(encoder, "embed"):
            yield encoder.embed(x, whole_graph(graph))
            return
        view = whole_graph(graph) if declares(settings, "sees_edges") else isolated(graph.num_nodes, self.device)
        widest = max(graph.num_features, *(weight.size(-1) for weight in encoder.parameters() if weight.dim() > 1), 1)
        layer = 4 * graph.num_nodes * widest
        embeddings: Tensor
        if layer > LAYER_AT_ONCE_BYTES and hasattr(encoder, "in_blocks"):
            embeddings = encoder.in_blocks(x, view.adjacency, max(LAYER_AT_ONCE_BYTES // (16 * widest), 1))
            yield embeddings
            return
        if layer > LAYER_AT_ONCE_BYTES:
            check_memory(f"embedding {graph.num_nodes:,} nodes at once ({type(settings).__name__} has no in_blocks)", 2 * layer)
        embeddings = encoder(x, view)
        yield embeddings

    def embed_frame(self, data: GraphLike) -> pandas.DataFrame:
        """:meth:`embed` as a pandas DataFrame: columns e0, e1, ..., and the ids of nodes, or their indices, as its index."""
        from graphkin.graphs.frames import frame_of

        graph = as_graph(data, self.features, None if self.recipe is None else self.recipe.kinds)
        rows = self.embed(graph).cpu().numpy()
        return frame_of(rows, column_names(rows.shape[1]), graph.ids)

    @torch.no_grad()
    def predict(self, data: GraphLike) -> Tensor:
        """Classes [num_nodes] from the features alone, for methods trained with labels (Graph-MLP)."""
        if "classifier" not in self.modules:
            raise InputError(
                f"{self.method.name} has no classifier; predict needs graph-mlp or graph-mlp+. Train a classifier on embed()."
            )
        classes: Tensor = self.modules["classifier"](self.embed(data)).argmax(dim=1)
        return classes

    def save(self, path: str | Path) -> None:
        """Write a safetensors file with the settings in its metadata, whole or not at all."""
        header = {
            "method": to_json(self.method),
            "num_features": self.num_features,
            "num_classes": self.num_classes,
            "seed": self.seed,
            "feature_names": self.feature_names,
            "losses": self.losses,
            "interrupted": self.interrupted,
            "seconds": self.seconds,
            "kernel": self.kernel,
            "execution": self.execution,
            "own_similarity": self.own_similarity,
            "features": self.features,
            "recipe": None if self.recipe is None else self.recipe.as_json(),
        }
        metadata = {"format": FORMAT, "format_version": str(FORMAT_VERSION), "graphkin": json.dumps(header)}
        write_tensors(path, self.modules.state_dict(), metadata)

    def _checked(self, data: GraphLike) -> Graph:
        graph = as_graph(data, self.features, None if self.recipe is None else self.recipe.kinds)
        if self.recipe is not None and not graph.prepared:
            graph = self.recipe.applied(graph)
        if graph.num_features != self.num_features:
            raise GraphError(
                f"the graph must have the model's {self.num_features} features per node, found {graph.num_features}."
            )
        if self.feature_names and graph.feature_names and graph.feature_names != self.feature_names:
            model, found = (", ".join(names[:8]) for names in (self.feature_names, graph.feature_names))
            raise GraphError(f"the graph must have the model's features in the model's order ({model}), found {found}.")
        return graph


def _exceeds_memory(encoder: Encoder, graph: Graph, device: torch.device) -> bool:
    """Whether embedding a graph takes more than a CPU has; a GPU's memory is all there is for it."""
    needs = embedding_memory_of(encoder, graph.num_nodes, graph.num_features) or 0
    return device.type == "cpu" and memory_in_use(device) + needs > whole_memory(device)


def load(path: str | Path) -> Fitted:
    """Read a model that :meth:`Fitted.save` wrote. Nothing in the file is executed or unpickled."""
    path = checked_path(path)
    if not path.is_file():
        raise ModelFileError(f"no model file at {path}.")
    with reading(path, "is not a graphkin model, or is cut off", ModelFileError):
        metadata, tensors = read_tensors(path)
    if metadata.get("format") != FORMAT or "graphkin" not in metadata or "format_version" not in metadata:
        raise ModelFileError(f"{path} was not written by graphkin (a safetensors file without our settings).")
    version = metadata["format_version"]
    if version not in [str(known) for known in range(1, FORMAT_VERSION + 1)]:
        raise ModelFileError(
            f"{path} has format version {version[:9]}, newer than this graphkin reads (up to {FORMAT_VERSION}): update it."
        )
    with reading(path, "is damaged: its settings and its parameters do not fit", ModelFileError):
        return _restored(json.loads(metadata["graphkin"]), tensors)


def _restored(header: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
    for name, value in tensors.items():
        if not torch.isfinite(value).all():
            raise ModelFileError(f"the parameter {name} must be finite, found NaN or infinite values.")
    method = from_json(header.pop("method"))
    for name, most in (("num_features", MOST_FEATURES), ("num_classes", MOST_CLASSES), ("seed", 2**40)):
        check_whole(name, header[name], at_least=0, at_most=most)
    check_memory("its parameters", parameter_bytes(method, header["num_features"]))
    modules = modules_for(method, header["num_features"], header["num_classes"], header["seed"])
    modules.load_state_dict(tensors)
    header |= {name: tuple(header[name]) for name in ("losses", "feature_names")}
    recipe = recipe_from_json(header.pop("recipe", None))
    if header.get("features") is not None:
        check_choice("features", header["features"], MADE)
    return Fitted(method=method, modules=modules, recipe=recipe, **header)
