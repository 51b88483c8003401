"""Adam and AdamW, beside PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphkin.support.adam import Adam

THEIRS = {False: torch.optim.Adam, True: torch.optim.AdamW}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.PReLU(), nn.Linear(4, 3))


def stepped(ours: nn.Module, theirs: nn.Module, adam: Adam, reference: torch.optim.Optimizer, steps: int) -> None:
    """Both take the same steps; the bias of the last layer has no gradient in every other one."""
    for step in range(steps):
        x = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
        adam.zero_grad()
        reference.zero_grad()
        for module in (ours, theirs):
            module(x).square().sum().backward()
            if step % 2:
                list(module.parameters())[-1].grad = None
        adam.step()
        reference.step()


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_steps_are_those_of_pytorch(decoupled: bool, weight_decay: float) -> None:
    ours, theirs = network(), network()
    adam = Adam(ours.parameters(), 0.05, weight_decay, decoupled)
    reference = THEIRS[decoupled](theirs.parameters(), lr=0.05, weight_decay=weight_decay)
    stepped(ours, theirs, adam, reference, 5)
    adam.rate = reference.param_groups[0]["lr"] = 0.01
    stepped(ours, theirs, adam, reference, 2)
    assert all(torch.equal(*pair) for pair in zip(ours.parameters(), theirs.parameters(), strict=True))
    assert not all(torch.equal(*pair) for pair in zip(ours.parameters(), network().parameters(), strict=True))


def test_what_one_remembers_another_goes_on_from() -> None:
    ours, theirs = network(), network()
    first, reference = Adam(ours.parameters(), 0.05), torch.optim.Adam(theirs.parameters(), lr=0.05)
    stepped(ours, theirs, first, reference, 3)
    second = Adam(ours.parameters(), 0.05)
    second.remember(first.memory)
    kept = {place: {name: value.clone() for name, value in values.items()} for place, values in first.memory.items()}
    stepped(ours, theirs, second, reference, 3)
    assert all(torch.equal(*pair) for pair in zip(ours.parameters(), theirs.parameters(), strict=True))
    for place, values in kept.items():
        assert all(torch.equal(first.memory[place][name], value) for name, value in values.items()), "a copy was remembered"


@pytest.mark.parametrize("wrong", [torch.zeros(3), torch.zeros(4, 5, dtype=torch.float64)])
def test_memory_of_other_parameters_is_refused(wrong: torch.Tensor) -> None:
    parameter = nn.Parameter(torch.zeros(4, 5))
    good = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(4, 5), "exp_avg_sq": torch.zeros(4, 5)}
    with pytest.raises(ValueError, match="exp_avg_sq of parameter 0"):
        Adam([parameter], 0.1).remember({0: good | {"exp_avg_sq": wrong}})


@pytest.mark.gpu
@pytest.mark.parametrize("decoupled", [False, True])
def test_on_a_gpu_the_steps_are_those_of_pytorch_and_can_be_recorded(decoupled: bool) -> None:
    ours, theirs = network().cuda(), network().cuda()
    rate, x = torch.tensor(0.05, device="cuda"), torch.ones(7, 5, device="cuda")
    adam = Adam(ours.parameters(), rate, 0.1, decoupled, on_gpu=True)
    reference = THEIRS[decoupled](theirs.parameters(), lr=0.05, weight_decay=0.1, fused=True, capturable=True)

    def step(module: nn.Module, taken: Adam | torch.optim.Optimizer) -> None:
        taken.zero_grad()
        module(x).square().sum().backward()
        taken.step()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(ours, adam)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step(ours, adam)
    for _ in range(3):
        graph.replay()
    for _ in range(4):
        step(theirs, reference)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)
