"""Kinship alone, forward and backward, in its forms: with one drawn positive of each anchor, or with all of them stored."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphkin.bench.contenders import Contender
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels import Case
from graphkin.objectives.kernels.fused import needs as fused
from graphkin.objectives.kernels.kinship import Form, Shares, kinship_loss
from graphkin.objectives.kinship.tasks import Positives
from graphkin.support.products import multiplies_bf16_fast
from graphkin.weights import NodeWeights


def contenders(weights: NodeWeights, u: Tensor, tau: float, *, dense_fits: bool) -> Iterator[Contender]:
    """The definition first, so that the others' speed is a ratio to it; blocks in float32 where it does not fit."""
    shares = Positives(weights).in_rows()
    yield _dense(shares, weights, tau) if dense_fits else _kernel(Form(tau), shares)
    if u.is_cuda and fused.why_no_kinship(Case(u.device, len(u), u.size(1), tau=tau, both_views=False), asked=True) is None:
        for precision in ("float32", "tf32", "bf16"):
            yield _kernel(Form(tau, precision=precision, implementation="fused"), shares)
    lower = ("tf32", "bf16") if u.is_cuda else ("bf16",) if multiplies_bf16_fast(u.device) else ()
    for precision in (*(("float32",) if dense_fits else ()), *lower):
        yield _kernel(Form(tau, precision=precision), shares)


def _dense(shares: Shares | None, weights: NodeWeights, tau: float) -> Contender:
    """With p computed before; a step is products, sums and PyTorch's own gradient."""
    nodes = weights.all_nodes()
    whole = torch.eye(len(nodes), device=nodes.device) if shares is None else shares(nodes)
    return Contender("dense", "float32", lambda u, v, anchors: objective.kinship(u, v, whole, tau))


def _kernel(form: Form, shares: Shares | None) -> Contender:
    name = f"{form.implementation} {form.precision}"
    return Contender(name, form.precision, lambda u, v, anchors: kinship_loss(u, v, shares, form))
