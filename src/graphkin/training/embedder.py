"""graphkin as a scikit-learn transformer: nodes of a graph go in, their embeddings come out."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from graphkin.errors import GraphError, SettingError, check_whole, shown
from graphkin.graphs.arrays import as_array
from graphkin.graphs.graph import Graph
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.graphs.places import NodePlaces
from graphkin.methods import Method
from graphkin.models.encoder import width_of
from graphkin.training.embeddings import column_names
from graphkin.training.fit import fit
from graphkin.training.kept import embedded
from graphkin.training.plan import resolve

DEFAULT_STATE = 0
MOST_DRAWN = 2**31 - 1
"""Seeds that are drawn are smaller."""


class NodeEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node embeddings with scikit-learn's ``fit``, ``transform`` and ``fit_transform``.

    With a ``graph``, ``X`` are nodes of it: their ids where the graph has ids, or their indices; an array [n] or [n, 1], a
    list, a Series or a DataFrame of one column. ``fit`` trains on the whole graph, whichever nodes X are: features and edges
    of all nodes are used, those of a test fold too, and labels never are. ``transform`` gives the rows of X. Pipelines,
    ``cross_val_score`` and ``GridSearchCV`` work as with any transformer (docs/sklearn.md)::

        pipeline = make_pipeline(NodeEmbedder(graph=graph, beta=0.7), LogisticRegression())
        cross_val_score(pipeline, np.arange(graph.num_nodes), graph.y)

    Without a ``graph``, ``X`` itself is one: ``NodeEmbedder().fit_transform(graph)`` embeds all nodes.

    Args:
        method, preset, device, progress: as in :func:`graphkin.fit`.
        graph: whatever :func:`graphkin.fit` takes, such as a :class:`graphkin.Graph`. Clones share it.
        random_state: the seed; or, as in scikit-learn, a ``numpy.random.RandomState`` or None (NumPy's global one), from which
            each ``fit`` draws a seed.
        seed: another name for a ``random_state`` that is a whole number.
        **settings: any setting of the method, such as ``epochs``, ``beta`` or ``hidden``, and whatever else
            :func:`graphkin.fit` takes. They are parameters like the others: ``get_params`` lists those that were given, and
            ``set_params``, ``clone`` and grids accept all of them.

    Attributes:
        embedding_: embeddings [num_nodes, d] of the whole ``graph``.
        fitted_: the trained model, as :func:`graphkin.fit` returns it.
        n_features_in_: 1, the column of nodes; without a ``graph``, the number of features of its nodes.

    A process keeps up to 1 GiB of embeddings: the same graph, settings and seed are trained once, and not for every fold.
    Methods that are trained with labels (graph-mlp) take them from the graph's ``train_mask`` and ``val_mask``; ``fit`` refuses
    if one of these nodes is not in X, so that no label of a test fold is used.
    """

    def __init__(
        self,
        method: str | Method | None = None,
        *,
        graph: GraphLike = None,
        preset: str | None = None,
        random_state: int | np.random.RandomState | None = DEFAULT_STATE,
        seed: int | None = None,
        device: str = "auto",
        progress: str | bool = "none",
        **settings: Any,
    ) -> None:
        self.method = method
        self.graph = graph
        self.preset = preset
        self.random_state = random_state
        self.seed = seed
        self.device = device
        self.progress = progress
        self.__dict__.update(settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters: those of the constructor, and the settings that were given."""
        return {**super().get_params(deep=deep), **self._settings()}

    def set_params(self, **params: Any) -> NodeEmbedder:
        """Change parameters, settings among them. A setting that the method does not have is refused by ``fit``."""
        self.__dict__.update(params)
        return self

    def fit(self, X: Any, y: Any = None) -> NodeEmbedder:  # noqa: N803
        """Train on the whole graph; ``y`` is not used."""
        settings = self._settings()
        for name in ("settings", "data"):
            if name in settings:
                found = shown(settings[name])
                raise SettingError(f"settings are parameters of their own, as in NodeEmbedder(beta=0.7), found {name}={found}.")
        given: dict[str, Any] = {
            "preset": self.preset,
            "seed": self._drawn_seed(),
            "device": self.device,
            "progress": self.progress,
        }
        if self.graph is None:
            self.fitted_ = fit(X, self.method, **given, **settings)
            self.n_features_in_ = self.fitted_.num_features
            self._n_features_out = width_of(self.fitted_.method.encoder, self.fitted_.num_features)
            return self
        features = settings.pop("features", None)
        graph = as_graph(self.graph, features)
        self._places = NodePlaces(graph)
        nodes = self._places.of(X, "X")
        _check_length(len(nodes), y)
        graph = _without_leak(resolve(self.method, graph, self.preset), graph, nodes)
        self.fitted_, self.embedding_ = embedded(graph, self.method, **given, **settings)
        self.fitted_.features = features
        self.n_features_in_ = 1
        self._n_features_out = self.embedding_.shape[1]
        return self

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        """Embeddings [n, d] of nodes; without a ``graph``, of all nodes of X, a graph with the features of the trained one."""
        check_is_fitted(self, "fitted_")
        if self.graph is None:
            return self.fitted_.embed(X).numpy()
        rows: np.ndarray = self.embedding_[self._places.of(X, "X")]
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """e0, e1, ...: the columns of embeddings, as in the files that graphkin writes. ``input_features`` is not used."""
        check_is_fitted(self, "fitted_")
        return np.array(column_names(self._n_features_out), dtype=object)

    def _settings(self) -> dict[str, Any]:
        """Attributes that are neither parameters of the constructor nor, by scikit-learn's underscores, its own or learned."""
        own = self._get_param_names()
        public = {name: value for name, value in vars(self).items() if not (name.startswith("_") or name.endswith("_"))}
        return {name: value for name, value in public.items() if name not in own}

    def _drawn_seed(self) -> int:
        state = self.random_state
        if self.seed is not None:
            if not isinstance(state, int) or state != DEFAULT_STATE:
                raise SettingError(f"seed and random_state are the same: give one, found {self.seed} and {shown(state)}.")
            return self.seed
        if state is None or isinstance(state, np.random.RandomState):
            return int(check_random_state(state).randint(MOST_DRAWN))
        check_whole("random_state", state, at_least=0)
        return int(state)

    def __sklearn_clone__(self) -> NodeEmbedder:
        """Clones share the graph, which is not changed here and may be large."""
        bare = copy.copy(self)
        bare.graph = None
        found: NodeEmbedder = super(NodeEmbedder, bare).__sklearn_clone__()
        return found.set_params(graph=self.graph)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _check_length(nodes: int, y: Any) -> None:
    if y is None:
        return
    shape = as_array(y, "y").shape
    if shape[:1] != (nodes,):
        raise SettingError(f"X and y must have the same length, found {nodes} and {shape[0] if shape else 'a single value'}.")


def _without_leak(method: Method, graph: Graph, nodes: np.ndarray) -> Graph:
    """The graph without labels; for a method that is trained with labels, these must all be of ``nodes``."""
    if not method.needs_labels:
        return replace(graph, y=None, train_mask=None, val_mask=None, test_mask=None, public_splits=(), class_names=())
    used = np.zeros(graph.num_nodes, dtype=bool)
    for mask in (graph.train_mask, graph.val_mask):
        if mask is not None:
            used |= mask.cpu().numpy()
    used[nodes] = False
    if used.any():
        raise GraphError(
            f"{method.name} is trained with the labels of the graph's train_mask and val_mask. All of these nodes must be in "
            f"X, or labels of a test fold might be used; found {int(used.sum())} that are not."
        )
    return graph
