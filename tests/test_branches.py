"""The encoder Branches: its settings and widths, and embeddings of any graph with the same features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from graphkin import (
    GRACE,
    GRAPH_MLP,
    Branches,
    Fitted,
    Graph,
    Kinship,
    Method,
    Optimiser,
    SparseMatrix,
    fit,
    load,
    method_named,
)
from graphkin.errors import SettingError
from graphkin.evaluation.baselines import untrained
from graphkin.graphs.diffusion import pagerank_diffusion_plain
from graphkin.models import pieces as smoothed
from graphkin.models.encoder import trained_widths_of, width_of
from graphkin.models.encoders import branches_module as module
from graphkin.models.pieces import mean_length, pieces_of
from graphkin.models.views import whole_graph
from graphkin.objectives.untrained import Untrained
from graphkin.support.products import times
from graphkin.training.modules import parameter_bytes, untrained_modules

SMALL = Branches(hidden=12, branch_width=6, width=16, axes=8, early=2)
KIN = Method("test-kin", SMALL, None, Kinship(own=0.4, projector=8), Optimiser(epochs=4, learning_rate=0.01))
FREE = replace(SMALL, branches=())
KINDS = {
    "all": SMALL,
    "branches only": replace(SMALL, free=()),
    "free only": FREE,
    "features as they are": replace(SMALL, axes=16, few_features=0),
    "few features": replace(SMALL, axes=16),
    "standardised": replace(SMALL, axes=16, standardised=True),
    "diffused outputs": replace(SMALL, diffuse_outputs=0.2),
    "averaged over hops": replace(SMALL, smooth_hops=2),
    "batch norm": replace(SMALL, norm="batch"),
    "no norm": replace(SMALL, norm="none", smooth_outputs=False),
    "one branch": replace(SMALL, branches=("hop1+ppr0.2",)),
    "no features alone": replace(SMALL, branches=("hop1",), free=("hop2*3",)),
}


def method_of(encoder: Branches) -> Method:
    objective: Any = KIN.objective if encoder.branches else Untrained()
    return replace(KIN, encoder=encoder, objective=objective)


@pytest.fixture(params=KINDS)
def encoder(request: pytest.FixtureRequest) -> Branches:
    return KINDS[request.param]


def features(graph: Graph) -> Tensor:
    assert isinstance(graph.x, Tensor)
    return graph.x


def halves(found: Tensor, encoder: Branches, num_features: int) -> list[Tensor]:
    return [half for half in found.split(encoder.parts_width(num_features), dim=1) if half.size(1)]


def test_embeddings_have_the_width_they_say(small: Graph, encoder: Branches) -> None:
    fitted = fit(small, method_of(encoder), device="cpu")
    found = fitted.embed(small)
    assert found.shape == (40, width_of(encoder, 16)) and found.dtype == torch.float32 and not found.requires_grad
    keeps_lengths = encoder in (KINDS["few features"], KINDS["standardised"])
    for half in halves(found, encoder, 16)[: 1 if keeps_lengths else None]:
        torch.testing.assert_close(half.norm(dim=1), torch.ones(40))
    assert parameter_bytes(fitted.method, 16) == pytest.approx(_matrices(fitted.modules["encoder"]), rel=0.01)


def _matrices(encoder: torch.nn.Module) -> int:
    return sum(4 * value.numel() for value in encoder.state_dict().values() if value.dim() > 1)


@pytest.mark.parametrize(("num_features", "expected"), [(3, (8, 8)), (1, (10, 5)), (8, (8, 8)), (9, (8, 8)), (100, (8, 8))])
def test_widths_for_few_features(num_features: int, expected: tuple[int, int]) -> None:
    assert SMALL.parts_width(num_features) == expected and width_of(SMALL, num_features) == sum(expected)
    assert trained_widths_of(SMALL, num_features) == (6, 6, 6)
    graph = Graph.from_arrays(torch.rand(12, num_features, generator=torch.Generator().manual_seed(0)), [[0, 1, 2], [1, 2, 3]])
    assert fit(graph, KIN, device="cpu", epochs=1, feature_scale="rows").embed(graph).shape == (12, sum(expected))


def test_widths_without_branches_or_free_parts() -> None:
    assert FREE.parts_width(3) == (0, 15) and FREE.parts_width(100) == (0, 16) and FREE.trained_widths() == ()
    assert replace(SMALL, free=()).parts_width(3) == (16, 0)
    narrow = Branches(branches=("x",), free=("x",), branch_width=2, width=16)
    assert narrow.parts_width(3) == (6, 3) and narrow.width_for(3) == 9 and narrow.smoothed == [0]
    assert replace(narrow, few_features=2).parts_width(3) == (8, 3)
    assert replace(SMALL, smooth_outputs=False).smoothed == [] and SMALL.pieces == {"x", "hop1", "hop2", *PPR}


PPR = ("ppr0.05", "ppr0.1", "ppr0.2")


def test_another_graph_beside_it_changes_nothing(small: Graph, encoder: Branches) -> None:
    fitted = fit(small, method_of(encoder), device="cpu")
    found = fitted.embed(small)
    other = torch.rand(15, 16, generator=torch.Generator().manual_seed(1))
    ring = torch.stack([torch.arange(15), (torch.arange(15) + 1) % 15])
    both = Graph.from_arrays(torch.cat([features(small), other]), torch.cat([small.edge_index, ring + 40], dim=1))
    near: dict[str, Any] = {"atol": 2e-4, "rtol": 0}
    torch.testing.assert_close(fitted.embed(both)[:40], found, **near)
    alone = fitted.embed(Graph.from_arrays(other, ring))
    torch.testing.assert_close(fitted.embed(both)[40:], alone, **near)


def test_relabelling_nodes_permutes_embeddings(small: Graph, encoder: Branches) -> None:
    fitted = fit(small, method_of(encoder), device="cpu")
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    moved = Graph.from_arrays(features(small)[order], order.argsort()[small.edge_index])
    torch.testing.assert_close(fitted.embed(moved), fitted.embed(small)[order], atol=2e-4, rtol=0)


def test_blocks_of_rows_change_nothing(small: Graph, encoder: Branches, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(small, method_of(encoder), device="cpu")
    found = whole.embed(small)
    monkeypatch.setattr(module, "ROWS", 7)
    torch.testing.assert_close(whole.embed(small), found, atol=1e-5, rtol=0)
    again = fit(small, method_of(encoder), device="cpu").embed(small)
    torch.testing.assert_close(again @ again.T, found @ found.T, atol=1e-3, rtol=0)  # axes may turn round


def test_axes_from_some_nodes(small: Graph, encoder: Branches, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer than there are axes."""
    monkeypatch.setattr(module, "SAMPLE", 5)
    one, again = (fit(small, method_of(encoder), device="cpu") for _ in range(2))
    assert torch.equal(one.embed(small), again.embed(small)) and torch.isfinite(one.embed(small)).all()
    for name in ("learned_axes", "free_axes"):
        axes = one.modules["encoder"].get_buffer(name)
        torch.testing.assert_close(axes.T @ axes, torch.eye(axes.size(1)), atol=1e-5, rtol=0)


def test_sparse_features_give_the_same(small: Graph, encoder: Branches) -> None:
    sparse = SparseMatrix.from_dense(features(small) * (features(small) > 0.5))
    fitted = fit(replace(small, x=sparse.to_dense()), method_of(encoder), device="cpu")
    found = [fitted.embed(replace(small, x=x)) for x in (sparse, sparse.to_dense())]
    torch.testing.assert_close(*found, atol=2e-4, rtol=0)
    anchors: dict[str, Any] = {"anchors": 9} if encoder.branches else {}
    assert torch.isfinite(fit(replace(small, x=sparse), method_of(encoder), device="cpu", **anchors).embed(small)).all()


@pytest.mark.parametrize("settings", [{}, {"anchors": 12}])
def test_nodes_without_edges_or_features(settings: dict[str, Any]) -> None:
    x = torch.rand(30, 6, generator=torch.Generator().manual_seed(0))
    x[[0, 5, 29]] = 0
    graph = Graph.from_arrays(x, [[1, 2, 3, 4, 5], [2, 3, 4, 6, 7]])
    for norm in ("none", "layer", "batch"):
        fitted = fit(graph, KIN, device="cpu", norm=norm, **settings)
        assert torch.isfinite(torch.tensor(fitted.losses)).all() and torch.isfinite(fitted.embed(graph)).all()
    assert float(fitted.embed(graph)[0, 8:].norm()) == 0, "nothing is known of a node without features and edges"


@pytest.mark.parametrize("few", [0, 16])
def test_free_parts_are_the_rows_along_their_axes(small: Graph, few: int) -> None:
    """Nothing is trained: products of embeddings are those of the rows, with as many axes as rows have columns."""
    encoder = replace(FREE, free=("x*0.5", "hop2", "ppr0.1*2"), axes=16, width=64, few_features=few)
    found = fit(small, method_of(encoder), device="cpu").embed(small)
    x = features(small) / features(small).sum(1, keepdim=True)
    pieces: Any = pieces_of(small, x, encoder.pieces, length=mean_length(x) if few else None)
    rows = torch.cat([0.5 * pieces["x"], pieces["hop2"], 2 * pieces["ppr0.1"]], dim=1)
    rows = rows if few else F.normalize(rows, dim=1)
    assert found.shape == (40, 48)
    torch.testing.assert_close(found @ found.T, rows @ rows.T, atol=1e-4, rtol=0)


def test_outputs_are_diffused(small: Graph) -> None:
    """Products of embeddings are those of the blocks, with as many axes as there are columns."""
    encoder = replace(SMALL, branches=("hop1",), free=(), width=64, diffuse_outputs=0.3, early=0, few_features=0)
    fitted = fit(small, method_of(encoder), device="cpu")
    module_, scaled = fitted.modules["encoder"], features(small) / features(small).sum(1, keepdim=True)
    pieces = encoder.inputs(small, scaled, encoder.learn(small, scaled))
    rows = []
    for stage in ("early", "late"):
        unit = F.normalize(module_.get_submodule(stage)[0]([pieces["hop1"]]), dim=1)  # type: ignore[index]
        diffused = pagerank_diffusion_plain(whole_graph(small).adjacency, unit, 0.3)
        rows += [unit, F.normalize(diffused, dim=1)]
    expected = F.normalize(torch.cat(rows, dim=1), dim=1)
    found = fitted.embed(small)
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-3, rtol=0)


@pytest.mark.parametrize("hops", [1, 2])
def test_a_quarter_of_the_learned_part_is_averaged(small: Graph, hops: int) -> None:
    encoder = replace(SMALL, branches=("hop1",), free=(), width=10, smooth_hops=hops, few_features=0)
    fitted = fit(small, method_of(encoder), device="cpu")
    module_, scaled = fitted.modules["encoder"], features(small) / features(small).sum(1, keepdim=True)
    pieces = encoder.inputs(small, scaled, encoder.learn(small, scaled))
    stages = [module_.get_submodule(stage)[0]([pieces["hop1"]]) for stage in ("early", "late")]  # type: ignore[index]
    learned = torch.cat([F.normalize(rows, dim=1) for rows in stages], dim=1) @ module_.get_buffer("learned_axes")
    averaged = F.normalize(learned[:, :2], dim=1)
    for _ in range(hops):
        averaged = whole_graph(small).adjacency @ averaged
    expected = torch.cat([F.normalize(learned[:, :8], dim=1), F.normalize(averaged, dim=1)], dim=1) / 2**0.5
    torch.testing.assert_close(fitted.embed(small), expected, atol=1e-4, rtol=0)


def test_models_of_earlier_versions_are_read(small: Graph, tmp_path: Path) -> None:
    """They do not name the settings that were added since."""
    fitted = fit(small, KIN, device="cpu")
    fitted.save(tmp_path / "model.graphkin")
    written = (tmp_path / "model.graphkin").read_bytes()
    assert b"smooth_hops" not in written and b"standardised" not in written
    assert torch.equal(load(tmp_path / "model.graphkin").embed(small), fitted.embed(small))


def test_the_lengths_of_few_features_are_not_lost() -> None:
    """A single column separates two groups, also in another graph, whose mean is another."""
    values = torch.tensor([1.0, 5.0]).repeat_interleave(20)
    pairs = torch.arange(40).view(20, 2).T
    graph = Graph.from_arrays(values[:, None], pairs)
    fitted = fit(graph, KIN, device="cpu", epochs=3, feature_scale="none")
    found = fitted.embed(graph)
    free = SMALL.parts_width(1)[1]
    assert float(found[39, -free:].norm()) == pytest.approx(5 * float(found[0, -free:].norm()), rel=1e-4)
    some = fitted.embed(Graph.from_arrays(values[:2, None], pairs[:, :1]))
    torch.testing.assert_close(some, found[:2], atol=1e-4, rtol=0)


def test_an_untrained_encoder_knows_its_axes(small: Graph) -> None:
    """As a baseline it is what training starts from, not rows of zeros."""
    rows = untrained(small, KIN)
    for half in halves(rows, SMALL, 16):
        torch.testing.assert_close(half.norm(dim=1), torch.ones(40))
    free = replace(KIN, encoder=FREE, objective=Untrained())
    torch.testing.assert_close(untrained(small, free), fit(small, free, device="cpu").embed(small), atol=1e-5, rtol=0)
    modules = untrained_modules(KIN, small, 0, seed=0)
    assert torch.equal(Fitted(KIN, modules, 16, 0, 0).embed(small), rows)


def test_other_objectives(small: Graph) -> None:
    """Contrast trains what it gives as one block; Graph-MLP takes rows of features."""
    fitted = fit(small, replace(GRACE, encoder=SMALL), epochs=3, device="cpu")
    assert fitted.embed(small).shape == (40, 16) and len(fitted.losses) == 3
    with pytest.raises(SettingError, match=r"no inputs of its own.*found Branches"):
        replace(GRAPH_MLP, encoder=SMALL)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"branches": ("foo",)}, "smoothed features must be .*found 'foo'"),
    ({"branches": ("x+",)}, "smoothed features must be .*found ''"),
    ({"branches": (5,)}, r"branches must be names .*found \(5,\)"),
    ({"branches": (["x"],)}, "branches must be names"),
    ({"branches": {"x": 1}}, r"branches must be names .*found \(\{"),
    ({"branches": ("x*0.5",)}, r"found 'x\*0\.5'"),
    ({"free": ("x*0",)}, "weight of x must be a number above 0, found '0'"),
    ({"free": ("hop2*",)}, "weight of hop2 must be .*found ''"),
    ({"free": ("x*nan",)}, "found 'nan'"),
    ({"free": ("x*-1",)}, "found '-1'"),
    ({"free": ("x*1e9",)}, "found '1e9'"),
    ({"free": ("x+hop1",)}, r"found 'x\+hop1'"),
    ({"width": 1}, "width must be .*found 1"),
    ({"hidden": 1}, "hidden must be .*found 1"),
    ({"branch_width": 0}, "branch_width must be .*found 0"),
    ({"axes": 2.5}, r"axes must be .*found 2\.5"),
    ({"dropout": 1}, "dropout must be .*found 1"),
    ({"norm": "group"}, "unknown norm 'group'"),
    ({"smooth_outputs": 1}, "smooth_outputs must be True or False"),
    ({"early": -1}, "early must be .*found -1"),
    ({"branches": ()}, r"Kinship must have something to train, found Branches\(branches=\(\)"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message) as told:
        KIN.configure(**settings)
    assert "\n" not in str(told.value)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(SettingError, match="branches and free must not both be empty"):
        Branches(branches=(), free=())
    with pytest.raises(SettingError, match=r"branches must be names .*found 'x'"):
        Branches(branches="x")  # type: ignore[arg-type]


def test_a_single_name_and_none_may_be_given_as_they_are() -> None:
    kin = method_named("kin")
    assert kin.configure(branches="x").settings()["branches"] == ("x",)
    assert kin.configure(branches=["x", "hop1"], free="none").settings()["free"] == ()
    assert kin.configure(free=None).settings()["free"] == ()


def test_rows_in_blocks_are_the_embedding(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = fit(small, "kin", epochs=2, progress=False)
    whole = fitted.embed(small)
    monkeypatch.setattr(module, "ROWS", 7)
    blocks = list(fitted.embed_in_blocks(small))
    assert [len(block) for block in blocks] == [7, 7, 7, 7, 7, 5]
    torch.testing.assert_close(torch.cat(blocks), whole)


def test_many_smoothed_features_are_kept_in_half_the_memory(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """bf16 moves an embedding little: rows stay within 1 % of their direction."""
    exact = fit(small, "kin", epochs=3, progress=False).embed(small)
    monkeypatch.setattr(smoothed, "EXACT_UP_TO", 0)
    kept = smoothed.pieces_of(small, small.x, ["x", "hop1", "ppr0.1", "high"])
    assert {name: part.dtype for name, part in kept.parts.items() if name != "x"} == dict.fromkeys(
        ["hop1", "ppr0.1", "high"], torch.bfloat16
    )
    rounded = fit(small, "kin", epochs=3, progress=False).embed(small)
    assert rounded.dtype == torch.float32 and not torch.equal(rounded, exact)
    one, other = (torch.nn.functional.normalize(rows @ rows.T, dim=1) for rows in (exact, rounded))
    assert (one * other).sum(dim=1).min() > 0.99


def test_many_embeddings_are_multiplied_in_bf16(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a CPU is fast at it; rows keep their direction, and training has nothing to do with it."""
    monkeypatch.setattr(smoothed, "EXACT_UP_TO", 0)
    embeddings = []
    for fast in (False, True):
        monkeypatch.setattr(module, "multiplies_bf16_fast", lambda device, fast=fast: fast)
        fitted = fit(small, "kin", epochs=3, smooth_hops=2, precision="float32", progress=False)
        embeddings.append(fitted.embed(small))
    exact, rounded = (torch.nn.functional.normalize(rows @ rows.T, dim=1) for rows in embeddings)
    assert not torch.equal(embeddings[0], embeddings[1])
    assert (exact * rounded).sum(dim=1).min() > 0.999
    a, b = torch.rand(2, 3, 3)
    assert torch.equal(times(a, b), a @ b), "nothing is left of it afterwards"


def test_half_the_memory_is_in_the_plan() -> None:
    assert smoothed.stored_as(smoothed.EXACT_UP_TO) == torch.float32
    encoder, features = Branches(), 256
    below, above = smoothed.EXACT_UP_TO // features, 2 * smoothed.EXACT_UP_TO // features
    assert encoder.inputs_memory(above, features) < 1.2 * encoder.inputs_memory(below, features)
