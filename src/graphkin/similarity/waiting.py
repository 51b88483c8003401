"""Whether rows of a similarity can be computed on a GPU without waiting for it, so that a training step can be recorded."""

from __future__ import annotations

import torch
from torch import Tensor

from graphkin.graphs.arrays import Features
from graphkin.similarity.blocks import NodeSimilarity, Stored
from graphkin.similarity.features import Blend, FeatureCosine, is_dense_on
from graphkin.similarity.given import Labels
from graphkin.similarity.settings import Similarity


def never_waits(
    similarity: Similarity | Labels | NodeSimilarity | None,
    x: Features,
    device: torch.device,
    *,
    stored: bool,
    some_rows: bool = False,
) -> bool:
    """Whether strips of this similarity of a graph with features ``x`` only queue work; nothing is computed to find out.

    They do if there is none, if it is ``stored`` as an N×N matrix, and if all rows in their order, not chosen ones
    (``some_rows``), are made of dense features and sparse rows of PageRank.
    """
    if similarity is None or stored:
        return True
    if some_rows:
        return isinstance(similarity, Stored) and isinstance(similarity.matrix, Tensor)
    if isinstance(similarity, Similarity):
        return similarity.top_k is not None and (similarity.beta == 0 or is_dense_on(device, x))
    if isinstance(similarity, Blend):
        features, structure = similarity.features, similarity.structure
        dense = isinstance(features, FeatureCosine) and isinstance(features.unit, Tensor)
        return dense and isinstance(structure, Stored)
    return isinstance(similarity, Stored)
