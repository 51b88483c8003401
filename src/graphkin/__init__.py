"""Node embeddings from a graph without labels: similar nodes attract and dissimilar nodes repel, by how similar they are."""

from graphkin.datasets import bundled_cora
from graphkin.embedder import NodeEmbedder
from graphkin.errors import InputError
from graphkin.evaluation import evaluate
from graphkin.fitted import Fitted, load
from graphkin.graphs import Graph
from graphkin.losses import EnhancedInfoNCE, InfoNCE
from graphkin.methods import GCA, GRACE, GRAPH_MLP, Method, plus
from graphkin.presets import method_named
from graphkin.readers import open_graph
from graphkin.similarity import Similarity
from graphkin.splits import Split
from graphkin.training import fit, fit_repeats

__version__ = "0.1.0"

__all__ = [
    "GCA",
    "GRACE",
    "GRAPH_MLP",
    "EnhancedInfoNCE",
    "Fitted",
    "Graph",
    "InfoNCE",
    "InputError",
    "Method",
    "NodeEmbedder",
    "Similarity",
    "Split",
    "bundled_cora",
    "evaluate",
    "fit",
    "fit_repeats",
    "load",
    "method_named",
    "open_graph",
    "plus",
]
