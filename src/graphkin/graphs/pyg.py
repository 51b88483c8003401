"""To and from PyTorch Geometric's ``Data``.

The library takes seconds to import. Whoever has a ``Data`` has imported it already, and nobody else needs it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor

from graphkin.errors import GraphError, check_text
from graphkin.graphs.arrays import no_features
from graphkin.support.files import check_memory
from graphkin.support.sparse import SparseMatrix

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphkin.graphs.graph import Graph

MASKS = ("train_mask", "val_mask", "test_mask")


def is_data(thing: object) -> TypeGuard[Data]:
    library = sys.modules.get("torch_geometric.data")
    return library is not None and isinstance(thing, library.Data)


def arrays_from_data(data: Data, features: str | None, weight: str = "edge_weight") -> dict[str, Any]:
    """What :meth:`Graph.from_arrays` takes, with notes on what was ignored."""
    check_text("weight", weight)
    if not is_data(data):
        raise GraphError(f"data must be a torch_geometric.data.Data, found {type(data).__name__}.")
    if data.edge_index is None:
        raise GraphError("data.edge_index is missing: edges of shape [2, edges] are needed.")
    if data.x is None and features is None:
        raise GraphError(f"data.x is missing: {no_features()}")
    notes: tuple[str, ...] = ()
    y = data.get("y")
    if isinstance(y, Tensor) and (y.is_floating_point() or y.dim() > 1 + (y.dim() == 2 and y.size(1) == 1)):
        y, notes = None, ("labels ignored: not one class per node",)
    weights = data.get(weight)
    if weights is None and weight != "edge_weight":
        raise GraphError(f"data.{weight} is missing, and weight={weight!r} asks for it.")
    if isinstance(weights, Tensor) and weights.dim() == 2 and weights.size(1) == 1:
        weights = weights[:, 0]
    if weight != "edge_attr" and data.get("edge_attr") is not None:
        notes += ("edge_attr left out; Graph.from_data(data, weight='edge_attr') would use it as weights",)
    arrays = {"x": data.x, "edge_index": data.edge_index, "y": y, "num_nodes": data.num_nodes, "edge_weight": weights}
    return arrays | {name: data.get(name) for name in MASKS} | {"notes": notes}


def data_from_graph(graph: Graph, *, sparse: bool) -> Data:
    from torch_geometric.data import Data

    optional = {"edge_weight": graph.edge_weight, "y": graph.y, **_masks(graph)}
    present = {name: value for name, value in optional.items() if value is not None}
    return Data(x=_features(graph, sparse), edge_index=graph.edge_index, **present)


def _features(graph: Graph, sparse: bool) -> Tensor:
    if not isinstance(graph.x, SparseMatrix):
        return graph.x
    if sparse:
        return graph.x.csr
    check_memory(f"the dense features of {graph.num_nodes:,} nodes", 4 * graph.num_nodes * graph.num_features)
    return graph.x.to_dense()


def _masks(graph: Graph) -> dict[str, Tensor | None]:
    """[N], or [N, splits] where the graph comes with several public splits."""
    own = [getattr(graph, name) for name in MASKS]
    columns = [[_mask(nodes, graph) for nodes in split.parts().values()] for split in graph.public_splits]
    if columns and not all(torch.equal(mask, first) for mask, first in zip(own, columns[0], strict=True)):
        columns.insert(0, own)
    if len(columns) < 2:
        return dict(zip(MASKS, own, strict=True))
    return {name: torch.stack(masks, dim=1) for name, masks in zip(MASKS, zip(*columns, strict=True), strict=True)}


def _mask(nodes: Tensor, graph: Graph) -> Tensor:
    mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
    mask[nodes.cpu()] = True
    return mask.to(graph.edge_index.device)
