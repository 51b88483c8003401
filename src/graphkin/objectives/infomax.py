r"""The objective of DGI and MVGRL: nodes are told from those of shuffled features by a summary of the graph (docs/math.md).

An encoder that gives several blocks, such as one for each view of MVGRL, has each block compared with the summaries of the
others. A step costs as much as encoding the graph twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import SettingError
from graphkin.models.encoder import trained_widths_of
from graphkin.models.layers import glorot
from graphkin.models.views import whole_graph
from graphkin.objectives.kinship.tasks import rows_of
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.support.components import register
from graphkin.support.randomness import generator


def infomax(true: Sequence[Tensor], shuffled: Sequence[Tensor], weight: Tensor) -> Tensor:
    r"""The definition, for one block (DGI) or several (MVGRL), with :math:`s^b = σ(\frac{1}{N} \sum_i h^b_i)`.

    .. math:: ℓ = -\frac{1}{2N} \sum_i \left( \log σ(h_i^T W s) + \log (1 - σ(\tilde h_i^T W s)) \right)

    h̃ are the nodes with shuffled features. With several blocks it is the mean over all pairs of a block's nodes and another
    block's summary.
    """
    summaries = [torch.sigmoid(block.mean(dim=0)) for block in true]
    losses = []
    for place, (nodes, others) in enumerate(zip(true, shuffled, strict=True)):
        for which, summary in enumerate(summaries):
            if which != place or len(summaries) == 1:
                direction = weight @ summary
                losses.append(-F.logsigmoid(nodes @ direction).mean() - F.logsigmoid(-(others @ direction)).mean())
    return torch.stack(losses).mean() / 2


@register("Infomax")
@dataclass(frozen=True)
class Infomax(Objective):
    """DGI, and with an encoder of two views MVGRL: a bilinear discriminator, and shuffled features as corruption."""

    views: ClassVar[int] = 0
    recordable: ClassVar[bool] = True

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        return {"discriminator": Bilinear(width, generator)}

    def heads_of_blocks(self, widths: tuple[int, ...], num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        if len(set(widths)) > 1:
            raise SettingError(f"Infomax needs blocks of one width, found {', '.join(map(str, widths))}.")
        return self.heads(widths[0], num_classes, generator)

    def task(self, setup: Setup) -> Task:
        return InfomaxTask(setup)


class Bilinear(nn.Module):
    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = glorot(width, width, generator)


class InfomaxTask(Task):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.x, self.nodes, self.device = setup.x, setup.graph.num_nodes, setup.device
        self.rows = rows_of(self.x)
        self.view = whole_graph(setup.graph)
        self.widths = list(trained_widths_of(setup.method.encoder, setup.graph.num_features))
        self.sources = {name: generator(setup.seed, name, setup.device) for name in ("shuffling", "noise")}

    def loss(self) -> Tensor:
        order = torch.randperm(self.nodes, generator=self.sources["shuffling"], device=self.device)
        true, shuffled = (
            self.modules["encoder"](x, self.view, self.sources["noise"]).split(self.widths, dim=1)
            for x in (self.x, self.rows(order))
        )
        return infomax(true, shuffled, self.modules["discriminator"].get_parameter("weight"))
