"""The same numbers on a GPU. Run with ``make test-gpu``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from graphkin import GCN, MLP, EnhancedInfoNCE, Graph, Kinship, Method, Optimiser, Similarity, fit
from graphkin.errors import GraphError
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import METHODS
from graphkin.objectives.kernels.fused import needs
from graphkin.objectives.kernels.kinship import Form, kinship_loss
from graphkin.support.memory import peak_memory
from graphkin.training import loop
from graphkin.training.plan import plan
from graphkin.weights import Candidates
from tests.parallel_steps import steps
from tests.test_kernels import assert_same, given, value_and_gradient
from tests.test_kinship import value_and_gradient as kinship_value_and_gradient
from tests.test_kinship import views_of
from tests.test_parallel import assert_same_steps, torchrun

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (257, 100), (5000, 64)])
def test_kernels_agree_with_the_cpu(n: int, d: int, pooling: str) -> None:
    u, v, weights = given(n, d, "plus")
    expected = value_and_gradient(u, v, weights.stored(), "blocked", pooling=pooling)
    device = torch.device("cuda")
    moved = weights.to(device).stored()
    found = value_and_gradient(u.to(device), v.to(device), moved, "auto", pooling=pooling)
    assert_same(tuple(tensor.cpu() for tensor in found), expected, 1e-9)
    draw = torch.Generator(device).manual_seed(0)
    candidates = Candidates.draw(n, max(n // 2, 1), max(n // 3, 1), draw)
    fast = value_and_gradient(u.to(device), v.to(device), moved, "auto", pooling=pooling, candidates=candidates)
    slow = value_and_gradient(u.to(device), v.to(device), moved, "reference", pooling=pooling, candidates=candidates)
    assert_same(fast, slow, 1e-9)


@pytest.mark.parametrize("method", [*METHODS, "grace+(p)", "grace+(n)"])
def test_every_method_trains(small: Graph, method: str) -> None:
    fitted = fit(small, method, device="cuda", epochs=30, hidden=16)
    assert torch.isfinite(fitted.embed(small)).all()
    assert fitted.embed(small).device.type == "cpu"


RECORDED = [("grace+", "all"), ("grace+", "half"), ("graph-mlp", "all"), ("graph-mlp+", "all")]


@pytest.mark.parametrize(("method", "anchors"), RECORDED)
def test_a_recorded_step_draws_anew_each_time(small: Graph, method: str, anchors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing learned, only views, anchors, batches and dropout can change the loss."""
    monkeypatch.setattr(needs, "SMALLEST", 1)
    options: dict[str, Any] = {"epochs": 40, "hidden": 16, "learning_rate": 1e-30, "weight_decay": 0.0, "device": "cuda"}
    if anchors == "half":
        options["anchors"] = small.num_nodes // 2
    replayed = torch.tensor(fit(small, method, **options).losses)
    monkeypatch.setattr(loop, "EPOCHS_BEFORE_RECORDING", 1000)
    stepped = torch.tensor(fit(small, method, **options).losses)
    assert replayed.unique().numel() > 35
    assert abs(float(replayed.mean() - stepped.mean())) < 4 * float(stepped.std()) / 40**0.5 + 1e-3


@pytest.mark.parametrize(("method", "anchors"), RECORDED)
def test_a_recorded_step_learns_as_well_as_one_that_is_not(
    cora: Graph, method: str, anchors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"anchors": cora.num_nodes // 2} if anchors == "half" else {}
    replayed = fit(cora, method, epochs=60, device="cuda", **options).losses
    monkeypatch.setattr(loop, "EPOCHS_BEFORE_RECORDING", 1000)
    stepped = fit(cora, method, epochs=60, device="cuda", **options).losses
    assert replayed[:3] == pytest.approx(stepped[:3], rel=1e-3)
    assert sum(replayed[-10:]) == pytest.approx(sum(stepped[-10:]), rel=0.02)


KINSHIP: list[dict[str, Any]] = [
    {},
    {"anchors": 700},
    {"own": 0.2, "drop_positives": 0.4, "symmetric": True, "both_views": True},
    {"own": 0.2, "drop_positives": 0.4, "symmetric": True, "both_views": True, "anchors": 700},
]


@pytest.mark.parametrize("settings", KINSHIP)
@pytest.mark.parametrize("encoder", [MLP(hidden=32, dropout=0.2), GCN(hidden=32)])
def test_kinship_is_recorded_and_learns_as_well(
    cora: Graph, encoder: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = Method("kin", encoder, None, Kinship(), Optimiser(epochs=60, learning_rate=1e-3)).configure(**settings)
    replayed = fit(cora, method, device="cuda")
    assert replayed.execution["recorded"]
    monkeypatch.setattr(loop, "EPOCHS_BEFORE_RECORDING", 1000)
    stepped = fit(cora, method, device="cuda").losses
    assert replayed.losses[:3] == pytest.approx(stepped[:3], rel=1e-3)
    assert sum(replayed.losses[-10:]) == pytest.approx(sum(stepped[-10:]), rel=0.02)


@pytest.mark.parametrize("settings", [{}, {"anchors": 700}, {"own": 0.2, "drop_positives": 0.4, "symmetric": True}])
def test_fused_kinship_is_recorded_and_learns_as_well(
    cora: Graph, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the blocked form in float32 does, and the same whether its steps are replayed or not."""
    method = Method("kin", MLP(hidden=32, dropout=0.2), None, Kinship(), Optimiser(epochs=60, learning_rate=1e-3))
    blocked = fit(cora, method, device="cuda", precision="float32", **settings)
    monkeypatch.setattr(needs, "SMALLEST_KINSHIP", 1)
    replayed = fit(cora, method, device="cuda", precision="bf16", **settings)
    assert replayed.execution["recorded"] and replayed.kernel == "fused bf16" and blocked.kernel == "blocked float32"
    monkeypatch.setattr(loop, "EPOCHS_BEFORE_RECORDING", 1000)
    stepped = fit(cora, method, device="cuda", precision="bf16", **settings)
    for other in (blocked, stepped):
        assert replayed.losses[:3] == pytest.approx(other.losses[:3], rel=5e-3)
        assert sum(replayed.losses[-10:]) == pytest.approx(sum(other.losses[-10:]), rel=0.02)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize(("n", "d"), [(4096, 256), (5001, 100), (19_717, 256)])
def test_fused_kinship_on_many_nodes(n: int, d: int, precision: str) -> None:
    """Against blocks in float32, with drawn positives and with all of them."""
    u, v = (view.float().cuda() for view in views_of(n, d))
    shares = torch.rand(n, n, device="cuda", generator=torch.Generator("cuda").manual_seed(0)) ** 50
    shares /= shares.sum(dim=1, keepdim=True)
    for symmetric in (False, True):
        for of_rows in (None, lambda rows: shares[rows]):
            fused, blocked = (
                kinship_value_and_gradient(partial(kinship_loss, shares=of_rows, form=form), u, v)
                for form in (Form(0.4, symmetric, False, precision, "fused"), Form(0.4, symmetric))
            )
            allowed = {"float32": 1e-4, "tf32": 5e-3, "bf16": 2e-2}[precision]
            for one, other in zip(fused, blocked, strict=True):
                assert float((one - other).norm() / other.norm()) < allowed


def test_a_graph_of_900_nodes_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    graph = community_graph(900)
    for method in ("grace+", "kin"):
        assert "fused" not in str(fit(graph, method, device="cuda", epochs=3).kernel)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("anchors", [1024, 4096])
def test_kin_is_recorded_with_sparse_features(cora: Graph, anchors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer nodes than anchors all of them take part, and dropout changes the values of a sparse matrix in each step."""
    options: dict[str, Any] = {"epochs": 40, "hidden": 32, "branch_width": 16, "anchors": anchors, "device": "cuda"}
    replayed = fit(cora, "kin", **options)
    assert replayed.execution["recorded"]
    monkeypatch.setattr(loop, "EPOCHS_BEFORE_RECORDING", 1000)
    stepped = fit(cora, "kin", **options).losses
    assert replayed.losses[:3] == pytest.approx(stepped[:3], rel=1e-3)
    assert sum(replayed.losses[-10:]) == pytest.approx(sum(stepped[-10:]), rel=0.02)


@pytest.mark.parametrize("structure", ["ppr", "ppr-cosine"])
def test_similarity_agrees_with_the_cpu(cora: Graph, structure: str) -> None:
    settings = Similarity(beta=0.6, structure=structure)
    rows = torch.tensor([0, 5, 100])
    on_gpu = settings.on(cora, torch.float64, device="cuda").block(rows.cuda()).cpu()
    torch.testing.assert_close(on_gpu, settings.on(cora, torch.float64).block(rows))


def test_own_similarity_and_samples(small: Graph) -> None:
    matrix = torch.rand(40, 40, dtype=torch.float64)
    options = {"epochs": 3, "hidden": 8, "anchors": 10, "positives_sampled": 10, "negatives_sampled": 20}
    for similarity in (matrix, matrix.numpy(), lambda rows: matrix[rows]):
        fitted = fit(small, "grace+", device="cuda", similarity=similarity, **options)  # type: ignore[arg-type]
        assert torch.isfinite(fitted.embed(small)).all()


def test_module_on_the_gpu(small: Graph) -> None:
    u, v = torch.randn(2, 40, 8, device="cuda", requires_grad=True)
    loss = EnhancedInfoNCE(Similarity().on(small, device="cuda"))(u, v)
    loss.backward()
    assert torch.isfinite(loss)
    with pytest.raises(GraphError, match="must be on one device, found cuda:0 and cpu"):
        EnhancedInfoNCE(Similarity().on(small))(u, v)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("kind", ["matrix", "blend", "exact", "function"])
def test_a_loss_moves_to_the_gpu_and_back(small: Graph, kind: str, stored: bool) -> None:
    settings = Similarity(steps=None) if kind == "exact" else Similarity()
    similarity: Any = settings.on(small)
    if kind in ("matrix", "function"):
        matrix = similarity.stored().matrix
        similarity = matrix if kind == "matrix" else lambda rows: matrix[rows]
    u, v = torch.randn(2, 40, 8, generator=torch.Generator().manual_seed(0))
    loss = EnhancedInfoNCE(similarity, num_nodes=40, stored=stored)
    expected = loss(u, v)
    on_gpu = loss.cuda()
    assert on_gpu is loss and torch.device(loss.weights.device).type == "cuda"
    torch.testing.assert_close(loss(u.cuda(), v.cuda()).cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(loss.cpu()(u, v), expected, rtol=1e-5, atol=1e-6)


def test_two_processes_give_the_loss_and_gradient_of_one(tmp_path: Path) -> None:
    done = torchrun(2, "tests.parallel_steps", tmp_path / "steps", "cuda")
    assert done.returncode == 0, done.stderr
    alone = {name: value.cpu() for name, value in steps("cuda").items()}
    assert_same_steps(load_file(tmp_path / "steps"), alone)


@pytest.mark.parametrize(
    ("nodes", "memory", "words"),
    [
        (6000, None, "similarity and weights stored"),
        (30_000, "3GiB", "in blocks"),
        (300_000, "24GiB", "candidates a step, 32 largest"),
    ],
)
def test_the_estimate_is_near_the_peak(nodes: int, memory: str | None, words: str) -> None:
    graph, device = community_graph(nodes), torch.device("cuda")
    planned = plan(graph, "grace+", device="cuda", memory=memory, epochs=3)
    assert words in planned.execution.words
    with peak_memory(device) as peak:
        planned.fit(seed=0)
    assert planned.execution.estimate == pytest.approx(peak[0], rel=0.3)
