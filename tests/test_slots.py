"""Encoders and objectives of one's own, in the slots of a method."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv

import graphkin
from graphkin import GRACE, GRAPH_MLP, Graph, fit, load, method_named
from graphkin.commands.runs import write_run
from graphkin.errors import GraphError, InputError, OutputError, SettingError
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import Method, Optimiser, from_json, to_json
from graphkin.models.encoder import width_of
from graphkin.models.encoders import GCN, MLP
from graphkin.models.views import TwoViews, View, whole_graph
from graphkin.objectives.contrast import Contrast
from graphkin.objectives.neighbourhood import NeighbourhoodContrast
from graphkin.support.components import COMPONENTS
from graphkin.training.plan import plan


@dataclass(frozen=True)
class Attention:
    """Two layers of PyTorch Geometric's GATConv."""

    channels: int = 8

    def build(self, num_features: int, generator: torch.Generator) -> nn.Module:
        return AttentionEncoder(num_features, self.channels)


class AttentionEncoder(nn.Module):
    def __init__(self, num_features: int, channels: int) -> None:
        super().__init__()
        self.first, self.second = GATConv(num_features, channels, heads=2), GATConv(2 * channels, channels)

    def forward(self, x: Tensor, view: View, generator: torch.Generator | None = None) -> Tensor:
        hidden = F.elu(self.first(view.masked(x), view.edge_index))
        embeddings: Tensor = self.second(hidden, view.edge_index)
        return embeddings


@pytest.fixture
def registered() -> Iterator[None]:
    graphkin.register("Attention")(Attention)
    yield
    COMPONENTS._entries.pop("Attention")


MINE = replace(GRACE, name="mine", encoder=Attention()).configure(epochs=4)


LEARNING: dict[str, Any] = {"epochs": 60, "learning_rate": 0.01, "device": "cpu"}


@pytest.fixture
def communities() -> Graph:
    return community_graph(200, classes=3, mean_degree=8, words=48)


def test_an_encoder_of_ones_own_learns(communities: Graph) -> None:
    seen: dict[str, Any] = {"feature_scale": "none", "drop_features": (0.0, 0.0), "drop_edges": (0.2, 0.2)}
    losses = fit(communities, MINE, **seen, **LEARNING).losses
    assert sum(losses[-10:]) < sum(losses[:10]) - 5


def test_one_seed_gives_one_result(small: Graph) -> None:
    one, again = (fit(small, MINE, device="cpu") for _ in range(2))
    assert one.losses == again.losses, "one seed, one result, though its layers draw from PyTorch's global state"
    assert one.embed(small).shape == (40, 8)
    assert fit(small, MINE, device="cpu", seed=1).losses != one.losses


def test_building_a_users_encoder_leaves_the_global_random_state_alone(small: Graph) -> None:
    before = torch.get_rng_state()
    fit(small, MINE, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


def test_it_goes_on_from_a_checkpoint(small: Graph, tmp_path: Path) -> None:
    whole = fit(small, MINE, device="cpu")
    path = tmp_path / "mine.checkpoint"
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        after = GATConv.forward

        def fail_later(*args: Any, **kwargs: Any) -> Any:
            if path.exists():
                raise KeyboardInterrupt
            return after(*args, **kwargs)

        patched.setattr(GATConv, "forward", fail_later)
        with pytest.raises(KeyboardInterrupt):
            fit(small, MINE, device="cpu", checkpoint=path, checkpoint_every=2)
    resumed = fit(small, MINE, device="cpu", checkpoint=path, checkpoint_every=2)
    assert resumed.losses == whole.losses
    with pytest.raises(OutputError, match="another channels"):
        fit(small, replace(MINE, encoder=Attention(4)), device="cpu", checkpoint=path)


def test_loading_needs_the_class_registered_and_says_how(small: Graph, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fitted = fit(small, MINE, device="cpu")
    fitted.save(tmp_path / "mine.graphkin")
    with pytest.raises(InputError, match=r"@graphkin\.register\('Attention'\)"):
        load(tmp_path / "mine.graphkin")
    request.getfixturevalue("registered")
    loaded = load(tmp_path / "mine.graphkin")
    assert loaded.method == MINE.configure(feature_scale="rows")
    assert torch.equal(loaded.embed(small), fitted.embed(small))


def test_a_tag_means_one_class(registered: None) -> None:
    with pytest.raises(SettingError, match="'Attention' already"):
        graphkin.register("Attention")(GCN)


def test_removed_edges_are_visible_to_attention(small: Graph) -> None:
    """A layer that only sees ``edge_index`` gives what it gives on the graph without the removed edges."""
    drawn = TwoViews(drop_edges=(0.5, 0.5), drop_features=(0.5, 0.5)).plan(small).draw(0, torch.Generator().manual_seed(0))
    remaining = drawn.edge_index
    assert 0 < remaining.size(1) < small.edge_index.size(1)
    everything = set(map(tuple, small.edge_index.T.tolist()))
    assert set(map(tuple, remaining.T.tolist())) < everything
    whole = whole_graph(small).edge_index
    assert set(map(tuple, whole.T.tolist())) == everything
    dense = drawn.adjacency.to_dense()
    assert {(s, t) for t, s in dense.nonzero().tolist() if s != t} == set(map(tuple, remaining.T.tolist()))


def test_masked_features_are_masked_weights(small: Graph) -> None:
    view = TwoViews().plan(small).draw(1, torch.Generator().manual_seed(0))
    weight = torch.randn(16, 3)
    assert isinstance(small.x, Tensor)
    torch.testing.assert_close(view.masked(small.x) @ weight, small.x @ view.masking(weight))


def test_sparse_features_reach_a_plain_encoder_as_a_tensor(cora: Graph) -> None:
    assert not isinstance(cora.x, Tensor)
    assert fit(cora, MINE, epochs=1, device="cpu").embed(cora).shape == (2708, 8)


@pytest.mark.parametrize("base", ["grace", "grace+"])
def test_grace_with_the_encoder_of_graph_mlp(communities: Graph, base: str) -> None:
    fitted = fit(communities, replace(method_named(base), encoder=MLP(hidden=16, dropout=0.2)), **LEARNING)
    assert sum(fitted.losses[-10:]) < sum(fitted.losses[:10]) - 1
    assert fitted.embed(communities).shape == (200, 16)


def test_the_width_is_declared_or_found() -> None:
    assert width_of(GCN(hidden=7), 5) == 7
    assert width_of(Attention(6), 5) == 6


@dataclass(frozen=True)
class OneRow:
    def build(self, num_features: int, generator: torch.Generator) -> nn.Module:
        return nn.Module()


class Pooling(nn.Module):
    def forward(self, x: Tensor, view: View, generator: torch.Generator | None = None) -> Tensor:
        return x.mean(dim=0)


@dataclass(frozen=True)
class Pooled:
    def build(self, num_features: int, generator: torch.Generator) -> nn.Module:
        return Pooling()


def test_encoders_that_do_not_fit_are_refused(small: Graph) -> None:
    with pytest.raises(SettingError, match=r"build\(num_features, generator\), found type|found str"):
        replace(GRACE, encoder="gcn")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"\[2, d\] for 2 nodes, found \(16,\)"):
        fit(small, replace(GRACE, encoder=Pooled()), device="cpu")
    with pytest.raises(SettingError, match=r"features alone.*found GCN"):
        replace(GRAPH_MLP, encoder=GCN())


def test_a_setting_belongs_to_one_component() -> None:
    @dataclass(frozen=True)
    class Hot(Attention):
        tau: float = 1.0

    with pytest.raises(SettingError, match=r"share the setting 'tau' \(Hot and Contrast\)"):
        replace(GRACE, encoder=Hot())


def test_objectives_say_what_they_need() -> None:
    with pytest.raises(SettingError, match="NeighbourhoodContrast takes no views"):
        replace(GRACE, encoder=MLP(), objective=NeighbourhoodContrast())
    with pytest.raises(SettingError, match="Contrast takes two views"):
        replace(GRACE, views=None)
    with pytest.raises(SettingError, match="found str"):
        replace(GRACE, objective="infonce")  # type: ignore[arg-type]
    assert GRAPH_MLP.sampling is None and "anchors" not in GRAPH_MLP.settings()
    assert Method("mine", GCN(), TwoViews(), Contrast()) == replace(GRACE, name="mine")


def test_methods_are_read_by_their_tags() -> None:
    method = replace(GRACE, optimiser=Optimiser(kind="adamw", schedule="cosine", warm_up=3))
    data = to_json(method)
    assert data["encoder"]["type"] == "GCN" and data["objective"]["type"] == "Contrast"
    assert from_json(data) == method


@pytest.mark.parametrize("epochs", [10, 11])
def test_the_cosine_schedule(epochs: int) -> None:
    optimiser = Optimiser(learning_rate=2.0, epochs=epochs, schedule="cosine", warm_up=4)
    rates = [optimiser.rate(epoch) for epoch in range(epochs)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0]
    assert rates[4] == 2.0 and all(later < earlier for earlier, later in itertools.pairwise(rates[4:]))
    assert 0 < rates[-1] < 0.2
    with pytest.raises(SettingError, match="warm_up=3 and a constant"):
        Optimiser(warm_up=3)


def test_the_schedule_reaches_the_optimiser(small: Graph) -> None:
    """With a rate that stays zero after one epoch, nothing more is learned."""
    settings: dict[str, Any] = {"epochs": 3, "hidden": 8}
    constant = fit(small, "grace", device="cpu", **settings)
    cosine = fit(small, "grace", device="cpu", schedule="cosine", **settings)
    assert constant.losses[:2] == cosine.losses[:2] and constant.losses[2] != cosine.losses[2]
    assert fit(small, "grace", device="cpu", kind="adamw", weight_decay=0.1, **settings).losses != constant.losses


@pytest.mark.slow
def test_another_algorithm_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph(2100, mean_degree=4)
    assert fit(graph, "grace", device="cpu", epochs=1, hidden=8).execution["change"] is None
    monkeypatch.setattr("graphkin.objectives.contrast.ways.MOST_AT_ONCE", {"cpu": 2000})
    with pytest.warns(UserWarning, match=r"anchors=512 instead of None") as told:
        fitted = fit(graph, "grace", device="cpu", epochs=1, hidden=8)
    assert len(told) == 1 and "\n" not in str(told[0].message)
    assert "sampled" in fitted.execution["words"] and "candidates=2048" in fitted.execution["change"]


def test_a_similarity_of_ones_own_is_decided_on_and_remembered(small: Graph, tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    one, other = (torch.rand(40, 40, generator=draw) for _ in range(2))
    path = tmp_path / "checkpoint"
    fitted = fit(small, "grace+", device="cpu", epochs=2, hidden=8, similarity=one, checkpoint=path)
    assert fitted.own_similarity is not None
    with pytest.raises(OutputError, match="another similarity"):
        fit(small, "grace+", device="cpu", epochs=2, hidden=8, similarity=other, checkpoint=path)
    with pytest.raises(OutputError, match="another similarity"):
        fit(small, "grace+", device="cpu", epochs=2, hidden=8, checkpoint=path)
    fitted.save(tmp_path / "model.graphkin")
    assert load(tmp_path / "model.graphkin").own_similarity == fitted.own_similarity
    assert load(tmp_path / "model.graphkin").execution == fitted.execution
    with pytest.raises(SettingError, match="memory must be at least"):
        fit(small, "grace+", device="cpu", similarity=one, memory="1KiB")
    assert plan(small, "grace+", device="cpu", similarity=lambda rows: one[rows]).execution.stored == "weights"


def test_the_run_file_holds_how_it_was_trained(small: Graph, tmp_path: Path) -> None:
    fitted = fit(small, "grace+", device="cpu", epochs=1, hidden=8)
    record = write_run(tmp_path, fitted, small)
    assert record["execution"] == fitted.execution
    assert json.loads((tmp_path / "run.json").read_text())["execution"]["stored"] == "weights"


def test_a_model_moves_to_another_device(small: Graph) -> None:
    fitted = fit(small, "grace", device="cpu", epochs=1, hidden=8)
    assert fitted.to("cpu") is fitted and fitted.device == torch.device("cpu")
    with pytest.raises(SettingError, match="found 'warp'"):
        fitted.to("warp")


def test_no_edges(small: Graph) -> None:
    alone = replace(small, edge_index=torch.empty(2, 0, dtype=torch.int64))
    with pytest.raises(GraphError, match="no edges"):
        fit(alone, MINE, device="cpu")
