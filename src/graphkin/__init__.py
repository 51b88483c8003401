"""Node embeddings from a graph without labels: similar nodes attract and dissimilar nodes repel, by how similar they are.

``import graphkin`` is instant: each name brings its module, and PyTorch, when it is first used.
"""

from typing import TYPE_CHECKING

from graphkin.support.lazy import lazy_names
from graphkin.support.waiting import spin_for_a_moment

spin_for_a_moment()

if TYPE_CHECKING:
    from graphkin.errors import InputError as InputError
    from graphkin.evaluation.evaluate import evaluate as evaluate
    from graphkin.evaluation.protocols import PROTOCOLS as PROTOCOLS
    from graphkin.evaluation.protocols import Protocol as Protocol
    from graphkin.evaluation.scores import Scores as Scores
    from graphkin.execution import Sampling as Sampling
    from graphkin.graphs.datasets import bundled_cora as bundled_cora
    from graphkin.graphs.graph import Graph as Graph
    from graphkin.graphs.held_out import hold_out_edges as hold_out_edges
    from graphkin.graphs.readers import open_graph as open_graph
    from graphkin.graphs.splits import Split as Split
    from graphkin.methods import GCA as GCA
    from graphkin.methods import GRACE as GRACE
    from graphkin.methods import GRAPH_MLP as GRAPH_MLP
    from graphkin.methods import METHODS as METHODS
    from graphkin.methods import ByAlikeness as ByAlikeness
    from graphkin.methods import Method as Method
    from graphkin.methods import Optimiser as Optimiser
    from graphkin.methods import declare as declare
    from graphkin.methods import method_named as method_named
    from graphkin.methods import plus as plus
    from graphkin.models.encoders import GCN as GCN
    from graphkin.models.encoders import MLP as MLP
    from graphkin.models.encoders import BatchNormGCN as BatchNormGCN
    from graphkin.models.encoders import Branches as Branches
    from graphkin.models.encoders import DiffusedMLP as DiffusedMLP
    from graphkin.models.encoders import HopGCN as HopGCN
    from graphkin.models.encoders import NormedMLP as NormedMLP
    from graphkin.models.encoders import SmoothedGCN as SmoothedGCN
    from graphkin.models.encoders import TwoSights as TwoSights
    from graphkin.models.views import TwoViews as TwoViews
    from graphkin.models.views import View as View
    from graphkin.objectives.agreement import Agreement as Agreement
    from graphkin.objectives.bootstrap import Bootstrap as Bootstrap
    from graphkin.objectives.canonical import Canonical as Canonical
    from graphkin.objectives.contrast import Contrast as Contrast
    from graphkin.objectives.infomax import Infomax as Infomax
    from graphkin.objectives.kinship import Kinship as Kinship
    from graphkin.objectives.losses import EnhancedInfoNCE as EnhancedInfoNCE
    from graphkin.objectives.losses import InfoNCE as InfoNCE
    from graphkin.objectives.neighbourhood import NeighbourhoodContrast as NeighbourhoodContrast
    from graphkin.objectives.neighbourhood import Supervision as Supervision
    from graphkin.objectives.objective import Objective as Objective
    from graphkin.objectives.objective import Setup as Setup
    from graphkin.objectives.objective import Task as Task
    from graphkin.objectives.scattering import Scattering as Scattering
    from graphkin.similarity import NodeSimilarity as NodeSimilarity
    from graphkin.similarity import Similarity as Similarity
    from graphkin.support.components import register as register
    from graphkin.support.parallel import joined as joined
    from graphkin.support.sparse import SparseMatrix as SparseMatrix
    from graphkin.training.embedder import NodeEmbedder as NodeEmbedder
    from graphkin.training.fit import fit as fit
    from graphkin.training.fit import fit_repeats as fit_repeats
    from graphkin.training.fitted import Fitted as Fitted
    from graphkin.training.fitted import load as load
    from graphkin.tuning.criteria import CRITERIA as CRITERIA
    from graphkin.tuning.outcome import Tuned as Tuned
    from graphkin.tuning.tune import tune as tune
    from graphkin.uses.cluster import Clusters as Clusters
    from graphkin.uses.cluster import cluster as cluster
    from graphkin.uses.layout import layout as layout
    from graphkin.uses.links import Links as Links
    from graphkin.uses.links import links as links
    from graphkin.uses.nearest import Similar as Similar
    from graphkin.uses.similar import similar as similar
    from graphkin.weights import AllNeighbours as AllNeighbours
    from graphkin.weights import Attract as Attract
    from graphkin.weights import Neighbours as Neighbours
    from graphkin.weights import OwnCounterpart as OwnCounterpart
    from graphkin.weights import Repel as Repel
    from graphkin.weights import Uniform as Uniform

__version__ = "0.2.0"

_HOMES = {
    "Agreement": "objectives.agreement",
    "AllNeighbours": "weights",
    "Attract": "weights",
    "BatchNormGCN": "models.encoders",
    "Bootstrap": "objectives.bootstrap",
    "Branches": "models.encoders",
    "ByAlikeness": "methods",
    "CRITERIA": "tuning.criteria",
    "Canonical": "objectives.canonical",
    "Clusters": "uses.cluster",
    "Contrast": "objectives.contrast",
    "DiffusedMLP": "models.encoders",
    "EnhancedInfoNCE": "objectives.losses",
    "Fitted": "training.fitted",
    "GCA": "methods",
    "GCN": "models.encoders",
    "GRACE": "methods",
    "GRAPH_MLP": "methods",
    "Graph": "graphs.graph",
    "HopGCN": "models.encoders",
    "InfoNCE": "objectives.losses",
    "Infomax": "objectives.infomax",
    "InputError": "errors",
    "Kinship": "objectives.kinship",
    "Links": "uses.links",
    "METHODS": "methods",
    "MLP": "models.encoders",
    "Method": "methods",
    "NeighbourhoodContrast": "objectives.neighbourhood",
    "Neighbours": "weights",
    "NodeEmbedder": "training.embedder",
    "NodeSimilarity": "similarity",
    "NormedMLP": "models.encoders",
    "Objective": "objectives.objective",
    "Optimiser": "methods",
    "OwnCounterpart": "weights",
    "PROTOCOLS": "evaluation.protocols",
    "Protocol": "evaluation.protocols",
    "Repel": "weights",
    "Sampling": "execution",
    "Scattering": "objectives.scattering",
    "Scores": "evaluation.scores",
    "Setup": "objectives.objective",
    "Similar": "uses.nearest",
    "Similarity": "similarity",
    "SmoothedGCN": "models.encoders",
    "SparseMatrix": "support.sparse",
    "Split": "graphs.splits",
    "Supervision": "objectives.neighbourhood",
    "Task": "objectives.objective",
    "Tuned": "tuning.outcome",
    "TwoSights": "models.encoders",
    "TwoViews": "models.views",
    "Uniform": "weights",
    "View": "models.views",
    "bundled_cora": "graphs.datasets",
    "cluster": "uses.cluster",
    "declare": "methods",
    "evaluate": "evaluation.evaluate",
    "fit": "training.fit",
    "fit_repeats": "training.fit",
    "hold_out_edges": "graphs.held_out",
    "joined": "support.parallel",
    "layout": "uses.layout",
    "links": "uses.links",
    "load": "training.fitted",
    "method_named": "methods",
    "open_graph": "graphs.readers",
    "plus": "methods",
    "register": "support.components",
    "similar": "uses.similar",
    "tune": "tuning.tune",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
