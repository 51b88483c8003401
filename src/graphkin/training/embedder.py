"""graphkin as a scikit-learn transformer: a graph goes in, a matrix of embeddings comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from graphkin.errors import SettingError, shown
from graphkin.graphs.graph import Graph
from graphkin.methods.method import Method
from graphkin.training.fit import fit


class NodeEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node embeddings with scikit-learn's ``fit``, ``transform`` and ``fit_transform``.

    ``X`` is a graph wherever scikit-learn says X: a :class:`graphkin.Graph` or a ``torch_geometric.data.Data``.
    ``settings`` are any settings of the method by name, e.g. ``{"beta": 0.7, "hidden": 128}``; the other parameters are
    those of :func:`graphkin.fit`.

    A classifier may stand behind it: ``make_pipeline(NodeEmbedder(), LogisticRegression()).fit(data, data.y)``.
    """

    def __init__(
        self,
        method: str | Method = "grace+",
        *,
        epochs: int | None = None,
        preset: str | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: str = "none",
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.epochs = epochs
        self.preset = preset
        self.seed = seed
        self.device = device
        self.progress = progress
        self.settings = settings

    def fit(self, X: Graph | Data, y: object = None) -> NodeEmbedder:  # noqa: N803
        """Train on a graph; ``y`` is ignored (methods that need labels take them from the graph)."""
        if self.settings is not None and not isinstance(self.settings, dict):
            raise SettingError(f"settings must be a dict of settings by name, found {shown(self.settings)}.")
        settings = dict(self.settings or {})
        if self.epochs is not None:
            settings["epochs"] = self.epochs
        self.fitted_ = fit(
            X,
            self.method,
            preset=self.preset,
            seed=self.seed,
            device=self.device,
            progress=self.progress,
            **settings,
        )
        self.n_features_in_ = self.fitted_.num_features
        return self

    def transform(self, X: Graph | Data) -> np.ndarray:  # noqa: N803
        """Embeddings [num_nodes, d] of this or another graph with the same features."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.embed(X).numpy()
