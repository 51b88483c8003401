"""An encoder in one file: what tests/test_encoders.py asks of all, and what only this one does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from graphkin import GRACE, Graph, fit
from graphkin.errors import SettingError
from graphkin.models.encoders import BatchNormGCN
from graphkin.models.views import whole_graph


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_layer_is_norm_of_convolution(small: Graph) -> None:
    """Against PyTorch's own pieces, in training and after it."""
    encoder = BatchNormGCN(hidden=8, layers=1).build(16, draw())
    view, x = whole_graph(small), small.x
    assert isinstance(x, torch.Tensor)
    norm = nn.BatchNorm1d(8, momentum=0.99)
    dense = view.adjacency.to_dense()
    for train in (True, False):
        encoder.train(train), norm.train(train)
        expected = nn.functional.prelu(norm(dense @ x @ encoder.weights[0] + encoder.biases[0]), torch.tensor([0.25]))
        torch.testing.assert_close(encoder(x, view), expected, rtol=1e-4, atol=1e-5)


def test_blocks_change_nothing(small: Graph) -> None:
    encoder = BatchNormGCN(hidden=8).build(16, draw())
    view = whole_graph(small)
    encoder(small.x, view)
    encoder.eval()
    torch.testing.assert_close(encoder.in_blocks(small.x, view.adjacency, 7), encoder(small.x, view))


def test_it_trains_in_place_of_another_encoder(small: Graph) -> None:
    fitted = fit(small, replace(GRACE, encoder=BatchNormGCN(hidden=8)), epochs=30, device="cpu")
    assert fitted.losses[-1] < fitted.losses[0]
    assert fitted.embed(small).shape == (40, 8)


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"momentum must be .*found 0"):
        BatchNormGCN(momentum=0)
