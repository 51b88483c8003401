"""Encoders, one in each file: frozen dataclasses that build a module from features, a view and a generator to embeddings."""

from graphkin.models.encoders.batchnorm import BatchNormGCN
from graphkin.models.encoders.branches import Branches
from graphkin.models.encoders.diffused import DiffusedMLP
from graphkin.models.encoders.gcn import GCN
from graphkin.models.encoders.hops import HopGCN
from graphkin.models.encoders.mlp import MLP
from graphkin.models.encoders.normed import NormedMLP
from graphkin.models.encoders.smoothed import SmoothedGCN
from graphkin.models.encoders.two_sights import TwoSights

__all__ = ["GCN", "MLP", "BatchNormGCN", "Branches", "DiffusedMLP", "HopGCN", "NormedMLP", "SmoothedGCN", "TwoSights"]
