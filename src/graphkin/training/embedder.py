"""graphkin as a scikit-learn transformer: a graph goes in, a matrix of embeddings comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, check_random_state

from graphkin.errors import SettingError, check_whole, shown
from graphkin.graphs.inputs import GraphLike
from graphkin.methods import Method
from graphkin.training.fit import fit

DEFAULT_STATE = 0
MOST_DRAWN = 2**31 - 1
"""Seeds that are drawn are smaller."""


class NodeEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node embeddings with scikit-learn's ``fit``, ``transform`` and ``fit_transform``.

    ``X`` is a graph wherever scikit-learn says X: whatever :func:`graphkin.fit` takes, such as a :class:`graphkin.Graph`.

    Args:
        method, preset, device, progress: as in :func:`graphkin.fit`.
        random_state: the seed; or, as in scikit-learn, a ``numpy.random.RandomState`` or None (NumPy's global one), from which
            each ``fit`` draws a seed.
        seed: another name for a ``random_state`` that is a whole number.
        **settings: any setting of the method, such as ``epochs``, ``beta`` or ``hidden``, and whatever else
            :func:`graphkin.fit` takes. They are parameters like the others: ``get_params`` lists those that were given, and
            ``set_params``, ``clone`` and grids accept all of them.

    A classifier can follow it: ``make_pipeline(NodeEmbedder(beta=0.7), LogisticRegression()).fit(data, data.y)``.
    """

    def __init__(
        self,
        method: str | Method | None = None,
        *,
        preset: str | None = None,
        random_state: int | np.random.RandomState | None = DEFAULT_STATE,
        seed: int | None = None,
        device: str = "auto",
        progress: str | bool = "none",
        **settings: Any,
    ) -> None:
        self.method = method
        self.preset = preset
        self.random_state = random_state
        self.seed = seed
        self.device = device
        self.progress = progress
        self._settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters: those of the constructor, and the settings that were given."""
        return {**super().get_params(deep=deep), **self._settings}

    def set_params(self, **params: Any) -> NodeEmbedder:
        """Change parameters, settings among them. A setting that the method does not have is refused by ``fit``."""
        own = self._get_param_names()
        super().set_params(**{name: value for name, value in params.items() if name in own})
        self._settings = self._settings | {name: value for name, value in params.items() if name not in own}
        return self

    def fit(self, X: GraphLike, y: object = None) -> NodeEmbedder:  # noqa: N803
        """Train on a graph; ``y`` is ignored (methods that need labels take them from the graph)."""
        for name in ("settings", "data"):
            if name in self._settings:
                found = shown(self._settings[name])
                raise SettingError(f"settings are parameters of their own, as in NodeEmbedder(beta=0.7), found {name}={found}.")
        self.fitted_ = fit(
            X,
            self.method,
            preset=self.preset,
            seed=self._drawn_seed(),
            device=self.device,
            progress=self.progress,
            **self._settings,
        )
        self.n_features_in_ = self.fitted_.num_features
        return self

    def transform(self, X: GraphLike) -> np.ndarray:  # noqa: N803
        """Embeddings [num_nodes, d] of this or another graph with the same features."""
        check_is_fitted(self, "fitted_")
        return self.fitted_.embed(X).numpy()

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
