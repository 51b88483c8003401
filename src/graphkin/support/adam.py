"""Adam and AdamW as PyTorch computes them, without the import of a compiler by its optimisers, which takes a second."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.adamw import adamw

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
MEMORY = ("step", "exp_avg", "exp_avg_sq")


class Adam:
    """All of ``parameters`` in place; on a GPU fused, and a CUDA graph can record it.

    ``rate`` may be changed between steps. A tensor is read when a recorded step is replayed.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        rate: float | Tensor,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        on_gpu: bool = False,
    ) -> None:
        self.parameters = list(parameters)
        self.rate = rate
        self.memory: dict[int, dict[str, Tensor]] = {}
        """by place: how many steps a parameter has taken, and the means of its gradient and of its square"""
        self._how = {"weight_decay": weight_decay, "eps": EPSILON, "beta1": BETA1, "beta2": BETA2}
        self._fused, self._step = on_gpu, adamw if decoupled else adam

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Parameters without a gradient stay as they are."""
        moved = [place for place, parameter in enumerate(self.parameters) if parameter.grad is not None]
        for place in moved:
            if place not in self.memory:
                self.memory[place] = self._nothing(self.parameters[place])
        counts, means, squares = ([self.memory[place][name] for place in moved] for name in MEMORY)
        parameters = [self.parameters[place] for place in moved]
        gradients = [parameter.grad for parameter in parameters]
        gpu = {"fused": True, "capturable": True} if self._fused else {}
        options = {**self._how, "lr": self.rate, "amsgrad": False, "maximize": False}
        self._step(parameters, gradients, means, squares, [], counts, **gpu, **options)  # type: ignore[arg-type]

    def remember(self, memory: dict[int, dict[str, Tensor]]) -> None:
        """Go on from another's ``memory``, whose shapes and types must be those of the parameters."""
        for place, found in memory.items():
            for name, like in self._nothing(self.parameters[place]).items():
                if found[name].shape != like.shape or found[name].dtype != like.dtype:
                    raise ValueError(f"{name} of parameter {place}")
                self.memory.setdefault(place, {})[name] = found[name].to(like.device, copy=True)

    def _nothing(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        steps = torch.zeros((), dtype=torch.float32, device=parameter.device if self._fused else None)
        return {"step": steps, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}
