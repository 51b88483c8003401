"""How alike two nodes are (docs/math.md, section 2).

Structure is personalised PageRank, content is the cosine of features, and the two are blended. A similarity answers for any
block of node pairs and is never required to be a stored N×N matrix: everything above this package asks for blocks.
All similarities are clipped at zero, because a negative one has no place in either transformation.
"""

from graphkin.similarity.blocks import BLOCK, BLOCK_PAIRS, NodeSimilarity, Stored, aligned_copy, aligned_empty, aligned_rows
from graphkin.similarity.features import Blend, FeatureCosine
from graphkin.similarity.given import Computed, Labels, LabelSimilarity, as_similarity
from graphkin.similarity.settings import Similarity
from graphkin.similarity.structure import PageRank, PageRankCosine
from graphkin.similarity.waiting import never_waits

__all__ = [
    "BLOCK",
    "BLOCK_PAIRS",
    "Blend",
    "Computed",
    "FeatureCosine",
    "LabelSimilarity",
    "Labels",
    "NodeSimilarity",
    "PageRank",
    "PageRankCosine",
    "Similarity",
    "Stored",
    "aligned_copy",
    "aligned_empty",
    "aligned_rows",
    "as_similarity",
    "never_waits",
]
