"""Random choices: everything in a case follows from its seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class Draw:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def whole(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both of them included."""
        return int(self.random.integers(low, high + 1))

    def pick(self, values: Sequence[T]) -> T:
        return values[self.whole(0, len(values) - 1)]

    def some(self, values: Sequence[T], most: int) -> list[T]:
        """Up to ``most`` different values, in random order."""
        order = self.random.permutation(len(values))
        return [values[place] for place in order[: self.whole(0, most)]]

    def weighted(self, values: Sequence[tuple[T, float]]) -> T:
        shares = np.array([share for _, share in values])
        return values[int(self.random.choice(len(values), p=shares / shares.sum()))][0]


def changed(value: T, draw: Draw, changes: Sequence[Callable[[T, Draw], T]], most: int = 2) -> tuple[T, int]:
    """``value`` after none, one or two ``changes``, and how many they were."""
    count = draw.weighted([(times, (3, 4, 2)[times]) for times in range(most + 1)])
    for _ in range(count):
        value = draw.pick(changes)(value, draw)
    return value, count


def communities(draw: Draw, nodes: int, classes: int, width: int = 0) -> dict[str, Any]:
    """A graph whose classes show in its edges and its features: ``x`` [N, F], ``edge_index`` [2, E] and ``y`` [N]."""
    width = width or draw.whole(2, 8)
    labels = np.concatenate([np.arange(classes), draw.random.integers(0, classes, max(nodes - classes, 0))])[:nodes]
    same = labels[:, None] == labels
    chance = np.where(same, min(6 * classes / nodes, 0.9), min(1 / nodes, 0.3))
    pairs = np.stack(np.nonzero(np.triu(draw.random.random((nodes, nodes)) < chance, 1)))
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    centres = draw.random.random((classes, width))
    features = np.clip(centres[labels] + draw.random.normal(0, 0.3, (nodes, width)), 0, None)
    if draw.chance(0.3):
        features = (features > 0.7).astype(np.float64)
    return {"x": features, "edge_index": np.concatenate([pairs, ring], axis=1), "y": labels}
