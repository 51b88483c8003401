"""DiffusedMLP: against dense algebra, in training with either objective, and on graphs it has not seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from graphkin import GRACE, DiffusedMLP, Graph, Kinship, Method, Optimiser, SparseMatrix, fit, load, plus
from graphkin.errors import SettingError
from graphkin.methods import from_json, to_json
from graphkin.models.layers import NORMS
from graphkin.models.views import View, whole_graph
from graphkin.training.plan import plan

SMALL = DiffusedMLP(hidden=12, width=6, dropout=0.3)
TWO_VIEWS = replace(GRACE, name="test-diffused", encoder=SMALL).configure(epochs=4)
KIN = Method("test-diffused-kin", SMALL, None, Kinship(projector=8), Optimiser(epochs=4, learning_rate=0.01))


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features(graph: Graph) -> Tensor:
    assert isinstance(graph.x, Tensor)
    return graph.x


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_it_is_the_equations(small: Graph, norm: str, steps: int) -> None:
    settings = replace(SMALL, norm=norm, restart=0.3, diffusion_steps=steps)
    encoder, x = settings.build(16, draw()).eval(), features(small)
    with torch.no_grad():
        hidden = F.leaky_relu(x @ encoder.weight + encoder.bias, 0.25)
        if norm == "layer":
            hidden = (hidden - hidden.mean(1, keepdim=True)) / (hidden.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        elif norm == "batch":
            hidden = hidden / (1 + 1e-5) ** 0.5
        z = hidden @ encoder.second.weight.T + encoder.second.bias
        adjacency, expected = whole_graph(small).adjacency.to_dense(), z
        for _ in range(steps):
            expected = 0.7 * adjacency @ expected + 0.3 * z
        torch.testing.assert_close(encoder(x, whole_graph(small)), expected)


def test_many_steps_are_pagerank(small: Graph) -> None:
    encoder, view = replace(SMALL, diffusion_steps=200).build(16, draw()).eval(), whole_graph(small)
    with torch.no_grad():
        z = encoder.of_features(small.x, view)
        exact = 0.2 * torch.linalg.solve(torch.eye(40) - 0.8 * view.adjacency.to_dense(), z)
        torch.testing.assert_close(encoder(small.x, view), exact, atol=1e-5, rtol=1e-4)


def test_views_mask_features_and_remove_edges(small: Graph) -> None:
    encoder, x = SMALL.build(16, draw()).eval(), features(small)
    seen = GRACE.configure(drop_edges=(0.5, 0.5), drop_features=(0.5, 0.5)).views
    assert seen is not None
    view = seen.plan(small).draw(0, draw())
    assert view.feature_mask is not None
    found = encoder(x, view)
    torch.testing.assert_close(found, encoder(x * view.feature_mask, View(view.adjacency, None)))
    torch.testing.assert_close(found, encoder.diffused(encoder.of_features(x, view), view.adjacency))
    assert not torch.allclose(found, encoder(x, View(view.adjacency, None)))
    assert not torch.allclose(found, encoder(x * view.feature_mask, whole_graph(small)))


def test_dropout_in_training_only(small: Graph) -> None:
    encoder, view = SMALL.build(16, draw()), whole_graph(small)
    assert not torch.equal(encoder(small.x, view, draw(1)), encoder(small.x, view, draw(2)))
    assert torch.equal(encoder(small.x, view, draw(1)), encoder(small.x, view, draw(1)))
    encoder.eval()
    assert torch.equal(encoder(small.x, view, draw(1)), encoder(small.x, view))


def test_sparse_features_and_blocks_give_the_same(small: Graph) -> None:
    encoder, view, dense = SMALL.build(16, draw()).eval(), whole_graph(small), features(small)
    sparse = SparseMatrix.from_dense(dense)
    expected = encoder(dense, view)
    torch.testing.assert_close(encoder(sparse, view), expected)
    with torch.no_grad():
        for x in (sparse, dense):
            torch.testing.assert_close(encoder.in_blocks(x, view.adjacency, 7), expected.detach())


@pytest.mark.parametrize("method", [TWO_VIEWS, plus(TWO_VIEWS), KIN, KIN.configure(anchors=12), KIN.configure(norm="batch")])
def test_it_learns_and_is_inductive(small: Graph, method: Method, tmp_path: Any) -> None:
    fitted, again = (fit(small, method, epochs=150, device="cpu") for _ in range(2))
    assert sum(fitted.losses[-20:]) / 20 < sum(fitted.losses[:5]) / 5 and fitted.losses == again.losses
    found = fitted.embed(small)
    assert found.shape == (40, 6) and not found.requires_grad
    fitted.save(tmp_path / "model")
    assert torch.equal(load(tmp_path / "model").embed(small), found)
    both = Graph.from_arrays(features(small).repeat(2, 1), torch.cat([small.edge_index, small.edge_index + 40], dim=1))
    torch.testing.assert_close(fitted.embed(both), found.repeat(2, 1), atol=1e-5, rtol=1e-4)


def test_a_step_asks_the_device_for_no_value(small: Graph) -> None:
    prepared = plan(small, KIN.configure(anchors=12), device="cpu", adapt=False).prepare()
    task = KIN.objective.task(prepared.setup(seed=0))
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert task.loss().shape == ()


def test_it_is_read_by_its_tag_and_memory_grows() -> None:
    assert to_json(KIN)["encoder"]["type"] == "DiffusedMLP" and from_json(to_json(KIN)) == KIN
    assert SMALL.memory(100, 500) < replace(SMALL, hidden=13).memory(100, 500) < replace(SMALL, hidden=13).memory(101, 500)
    module = SMALL.build(16, draw())
    assert sum(4 * p.numel() for p in module.parameters() if p.dim() > 1) == SMALL.parameter_bytes(16)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"hidden": 0}, "hidden must be .*found 0"),
    ({"width": 2.5}, r"width must be .*found 2\.5"),
    ({"dropout": 1}, "dropout must be .*found 1"),
    ({"norm": "group"}, "unknown norm 'group'"),
    ({"restart": 0}, "restart must be .*found 0"),
    ({"diffusion_steps": -1}, "diffusion_steps must be .*found -1"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        KIN.configure(**settings)
