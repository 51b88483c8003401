"""From similarity to weights: whom an anchor attracts and whom it repels (docs/math.md, section 3).

``settings`` are what a method holds; on a graph they become :class:`NodeWeights`, which answer for any block of anchors.
"""

from graphkin.weights.attraction import Attraction, Effective, Repulsion
from graphkin.weights.candidates import Candidates
from graphkin.weights.functions import FunctionWeights
from graphkin.weights.lists import ShortLists
from graphkin.weights.node import LinearWeights, NodeWeights, PairWeights, StoredWeights
from graphkin.weights.pairwise import (
    AllAlike,
    IndicatorAttraction,
    IndicatorRepulsion,
    Linked,
    NegativeWeights,
    OwnOnly,
    PositiveWeights,
)
from graphkin.weights.sampling import SomeNodes, draw_candidates, similar_nodes
from graphkin.weights.settings import (
    AllNeighbours,
    Attract,
    Neighbours,
    OtherClasses,
    OwnCounterpart,
    Repel,
    SameClass,
    Uniform,
)
from graphkin.weights.temperatures import attraction_temperatures, repulsion_temperatures
from graphkin.weights.transforms import NONE, effective_count, log_attraction, log_indicator, log_repulsion

__all__ = [
    "NONE",
    "AllAlike",
    "AllNeighbours",
    "Attract",
    "Attraction",
    "Candidates",
    "Effective",
    "FunctionWeights",
    "IndicatorAttraction",
    "IndicatorRepulsion",
    "LinearWeights",
    "Linked",
    "NegativeWeights",
    "Neighbours",
    "NodeWeights",
    "OtherClasses",
    "OwnCounterpart",
    "OwnOnly",
    "PairWeights",
    "PositiveWeights",
    "Repel",
    "Repulsion",
    "SameClass",
    "ShortLists",
    "SomeNodes",
    "StoredWeights",
    "Uniform",
    "attraction_temperatures",
    "draw_candidates",
    "effective_count",
    "log_attraction",
    "log_indicator",
    "log_repulsion",
    "repulsion_temperatures",
    "similar_nodes",
]
