"""Which nodes train, validate and test: disjoint by construction, of the stated sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphkin.errors import SplitError
from graphkin.randomness import generator


@dataclass(frozen=True, eq=False)
class Split:
    """Node indices of three disjoint sets."""

    train: Tensor
    val: Tensor
    test: Tensor

    def __post_init__(self) -> None:
        for name, nodes in self.parts().items():
            if nodes.numel() == 0:
                raise SplitError(f"the {name} set of a split must not be empty.")
        together = torch.cat(list(self.parts().values()))
        shared = together.numel() - torch.unique(together).numel()
        if shared:
            raise SplitError(f"the sets of a split must be disjoint, found {shared} nodes more than once.")

    def parts(self) -> dict[str, Tensor]:
        return {"train": self.train, "val": self.val, "test": self.test}


def random_split(num_nodes: int, *, train: float = 0.1, val: float = 0.1, test: float | None = None, seed: int = 0) -> Split:
    """A random split by shares of all nodes; ``test`` is the rest unless it is given, and then the three must add up to 1."""
    rest = 1 - train - val if test is None else test
    shares = {"train": train, "val": val, "test": rest}
    if not all(0 < share < 1 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
        found = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise SplitError(f"the shares of a split must each be between 0 and 1 and add up to 1, found {found}.")
    sizes = [round(train * num_nodes), round(val * num_nodes)]
    if min(*sizes, num_nodes - sum(sizes)) < 1:
        raise SplitError(f"{num_nodes} nodes are too few for a split of {train:g}/{val:g}/{rest:g}.")
    order = torch.randperm(num_nodes, generator=generator(seed, "split"))
    return Split(order[: sizes[0]], order[sizes[0] : sum(sizes)], order[sum(sizes) :])
