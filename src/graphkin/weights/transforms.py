r"""From similarity to weights (docs/math.md, section 3).

.. math::
    T(s) = e^{s/τ_p} - 1 \qquad D(s) = e^{-s/τ_n} \qquad
    w^+_i(j) = \frac{T(s_{ij})}{\mathrm{mean}_{k ∈ V_M} T(s_{ik})} \qquad
    w^-_i(j) = \frac{D(s_{ij})}{\mathrm{mean}_{k ∈ V_N} D(s_{ik})}

Everything is a logarithm here: s/τ reaches 10⁴ with settings in use, and float32 ends at e⁸⁸.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

NONE = -math.inf
"""The logarithm of no weight at all."""
LOG2_E = math.log2(math.e)
NO_OVERFLOW = 60.0
"""an exponent, of e or of 2, up to which a power is far from the end of float32"""


def log_attraction(similarity: Tensor, tau: Tensor | float) -> Tensor:
    """log T(s) = log(e^{s/τ} − 1), exact for small and for huge s/τ; −∞ where s = 0."""
    ratio = similarity / tau
    large = ratio + torch.log1p(-torch.exp(-ratio))
    log_tau = tau.log() if isinstance(tau, Tensor) else math.log(tau)
    near_zero = torch.where(ratio > 1e-6, torch.log(torch.expm1(ratio.clamp(max=1)) / ratio), ratio / 2)
    return torch.where(ratio > 1, large, similarity.log() - log_tau + near_zero)


def log_repulsion(similarity: Tensor, tau: Tensor | float) -> Tensor:
    """log D(s) = −s/τ."""
    return -similarity / tau


def log_indicator(condition: Tensor, dtype: torch.dtype) -> Tensor:
    """The logarithm of a weight that is 1 where the condition holds, and 0 elsewhere."""
    return torch.where(condition, 0.0, NONE).to(dtype)


def effective_count(log_weights: Tensor) -> Tensor:
    """How many candidates share a row's weight: e to the entropy of its normalised weights."""
    log_share = log_weights.log_softmax(dim=1).clamp(min=-1e30)
    return (-(log_share.exp() * log_share).sum(dim=1)).exp()
