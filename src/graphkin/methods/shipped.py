"""The paper's methods, as values; the settings of each dataset are in settings/NAME.toml."""

from __future__ import annotations

from dataclasses import replace

from graphkin.methods.method import Method
from graphkin.methods.optimiser import Optimiser
from graphkin.models.encoders import GCN, MLP
from graphkin.models.views import TwoViews
from graphkin.objectives.contrast import Contrast
from graphkin.objectives.neighbourhood import NeighbourhoodContrast

GRACE = Method("grace", GCN(), TwoViews(), Contrast())
GCA = replace(GRACE, name="gca", views=TwoViews(adaptive="degree"))
GRAPH_MLP = Method("graph-mlp", MLP(), None, NeighbourhoodContrast(), Optimiser(weight_decay=5e-3, epochs=400))
