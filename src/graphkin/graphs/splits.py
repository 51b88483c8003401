"""Training, validation and test nodes: three disjoint sets of the stated sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphkin.errors import GraphError, SplitError, check_range, check_whole
from graphkin.support.randomness import generator


@dataclass(frozen=True, eq=False)
class Split:
    """Node indices of three disjoint sets, with the name of their recipe and the seed that drew them."""

    train: Tensor
    val: Tensor
    test: Tensor
    name: str = "given"
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, nodes in self.parts().items():
            if nodes.numel() == 0:
                raise SplitError(f"the {name} set of a split must not be empty.")
            if nodes.dim() != 1 or nodes.is_floating_point() or nodes.dtype == torch.bool or int(nodes.min()) < 0:
                raise SplitError(f"the {name} set of a split must be a list of node indices >= 0.")
        together = torch.cat(list(self.parts().values()))
        shared = together.numel() - torch.unique(together).numel()
        if shared:
            raise SplitError(f"the sets of a split must be disjoint, found {shared} nodes more than once.")

    def __repr__(self) -> str:
        drawn = "" if self.seed is None else f", seed {self.seed}"
        return f"Split({self.name!r}: {', '.join(f'{size} {name}' for name, size in self.sizes.items())}{drawn})"

    def parts(self) -> dict[str, Tensor]:
        return {"train": self.train, "val": self.val, "test": self.test}

    @property
    def sizes(self) -> dict[str, int]:
        return {name: nodes.numel() for name, nodes in self.parts().items()}

    def check(self, num_nodes: int, labels: Tensor | None = None) -> None:
        """Refuse a split of another graph, and one whose training set lacks a class that is tested."""
        highest = max(int(nodes.max()) for nodes in self.parts().values())
        if highest >= num_nodes:
            raise SplitError(f"the split must hold nodes 0..{num_nodes - 1} of this graph, found {highest}.")
        if labels is not None:
            unlabelled = int(sum((labels[nodes] < 0).sum() for nodes in self.parts().values()))
            if unlabelled:
                raise SplitError(f"every node of a split needs a label, found {unlabelled} without one.")
            unseen = sorted(set(labels[self.test].tolist()) - set(labels[self.train].tolist()))
            if unseen:
                raise SplitError(f"every tested class must be in the training set, found class {unseen[0]} in test only.")

    def to_json(self) -> str:
        lists = {name: nodes.tolist() for name, nodes in self.parts().items()}
        return json.dumps({"name": self.name, "seed": self.seed, "sizes": self.sizes, **lists})

    @classmethod
    def from_json(cls, text: str) -> Split:
        try:
            data: dict[str, Any] = json.loads(text)
            parts = [torch.tensor(data[part], dtype=torch.long) for part in ("train", "val", "test")]
            split = cls(parts[0], parts[1], parts[2], str(data["name"]), data["seed"])
            stated = data["sizes"]
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            if isinstance(error, SplitError):
                raise
            reason = f"{type(error).__name__}: {error}"
            raise SplitError(f"the text is not a split: it needs train, val, test, name, seed and sizes ({reason}).") from error
        if split.sizes != stated:
            raise SplitError(f"the sets of a split must have the stated sizes {stated}, found {split.sizes}.")
        return split


def splits_of_masks(masks: Sequence[Tensor | None]) -> tuple[Split, ...]:
    """One split for each column of the training, validation and test masks [N, splits]; a single column serves all splits.

    Without all three masks there is none, and a column with an empty set gives none.
    """
    known = [mask for mask in masks if mask is not None]
    if len(known) < 3:
        return ()
    count = max(mask.size(1) for mask in known)
    columns = [mask.expand(-1, count) if mask.size(1) == 1 else mask for mask in known]
    if any(mask.size(1) != count for mask in columns):
        found = ", ".join(str(mask.size(1)) for mask in known)
        raise GraphError(f"the masks must have one column per split, or one for all, found {found} columns.")
    splits = []
    for i in range(count):
        train, val, test = (mask[:, i].nonzero()[:, 0] for mask in columns)
        if min(train.numel(), val.numel(), test.numel()) > 0:
            splits.append(Split(train, val, test, name=f"public {i}"))
    return tuple(splits)


def random_split(
    num_nodes: int,
    *,
    train: float = 0.1,
    val: float = 0.1,
    test: float | None = None,
    ratio: float | None = None,
    seed: int = 0,
) -> Split:
    """A random split by shares of all nodes. ``test`` is the rest unless it is given; then the three must add up to 1.

    ``ratio`` keeps that share of all nodes of the training set, so that ratios of one seed share validation and test set.
    """
    for name, share in (("train", train), ("val", val), ("test", test), ("ratio", ratio)):
        if share is not None or name in ("train", "val"):
            check_range(name, share)
    rest = 1 - train - val if test is None else test
    shares = {"train": train, "val": val, "test": rest}
    if not all(0 < share < 1 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-9:
        found = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise SplitError(f"the shares of a split must each be between 0 and 1 and add up to 1, found {found}.")
    if ratio is not None and not 0 < ratio <= train:
        raise SplitError(f"ratio must be above 0 and at most the training share {train:g}, found {ratio:g}.")
    sizes = [round(train * num_nodes), round(val * num_nodes)]
    kept = sizes[0] if ratio is None else round(ratio * num_nodes)
    if min(kept, sizes[1], num_nodes - sum(sizes)) < 1:
        raise SplitError(f"{num_nodes} nodes are too few for a split of {ratio or train:g}/{val:g}/{rest:g}.")
    order = torch.randperm(num_nodes, generator=generator(seed, "split"))
    name = f"random {ratio or train:g}/{val:g}/{rest:g}"
    return Split(order[:kept], order[sizes[0] : sum(sizes)], order[sum(sizes) :], name, seed)


def few_labels(public: Split, labels: Tensor, per_class: int, seed: int = 0) -> Split:
    """``per_class`` training nodes of every class, drawn from a public training set; validation and test stay."""
    check_whole("per_class", per_class, at_least=1)
    train = public.train[torch.randperm(public.train.numel(), generator=generator(seed, "few labels"))]
    chosen = []
    for c in torch.unique(labels[train]).tolist():
        members = train[labels[train] == c]
        if members.numel() < per_class:
            raise SplitError(
                f"labels per class must be at least 1 and at most what the training set has, found {per_class} "
                f"for class {c} with {members.numel()}."
            )
        chosen.append(members[:per_class])
    return Split(torch.cat(chosen).sort().values, public.val, public.test, f"{per_class} per class", seed)
