r"""The objectives, as the paper writes them (docs/math.md, section 4).

Rows of ``u`` and ``v`` are the two views of the same nodes, scaled to unit length, so that a product of rows is a cosine.
These functions are the definition: dense, readable and differentiable. The kernels compute the same faster and are tested
against them. Weights come as logarithms and sums are log-sum-exps, so that no setting overflows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphkin.errors import check_choice, check_range
from graphkin.weights import NONE, PairWeights, log_indicator

POOLINGS = ("sum", "mean")


def infonce(u: Tensor, v: Tensor, tau: float, *, both_views: bool = True) -> Tensor:
    r"""One positive, all others negative, Eq. (contrastive_loss) with the candidates of both views.

    .. math:: ℓ(u_i) = -\log \frac{e^{⟨u_i,v_i⟩/τ}}{\sum_j e^{⟨u_i,v_j⟩/τ} + \sum_{j≠i} e^{⟨u_i,u_j⟩/τ}}

    Without ``both_views`` the second sum of the denominator is left out.
    """

    def loss_of_anchors(anchor: Tensor, other: Tensor) -> Tensor:
        inter = anchor @ other.T / tau
        candidates = [inter, without_own_pairs(anchor @ anchor.T / tau)] if both_views else [inter]
        return torch.cat(candidates, dim=1).logsumexp(dim=1) - inter.diagonal()

    check_range("tau", tau, above=0)
    return (loss_of_anchors(u, v) + loss_of_anchors(v, u)).mean() / 2


def enhanced(
    u: Tensor,
    v: Tensor,
    weights: PairWeights,
    tau: float,
    pooling: str = "sum",
    anchors: Tensor | None = None,
    columns: Tensor | None = None,
    *,
    both_views: bool = True,
) -> Tensor:
    r"""Similar nodes attract, dissimilar ones repel, by how similar they are: Eq. (final_loss).

    .. math::
        ℓ(u_i) = -\log \frac{\sum_j w^+_{ij} e^{⟨u_i,v_j⟩/τ} + \sum_{j≠i} w^+_{ij} e^{⟨u_i,u_j⟩/τ}}
        {e^{⟨u_i,v_i⟩/τ} + \sum_{j≠i} w^-_{ij} (e^{⟨u_i,v_j⟩/τ} + e^{⟨u_i,u_j⟩/τ})}

    ``pooling="mean"`` averages the logits of a view's positives instead of summing their exponentials (the authors' program):
    the numerator is then :math:`e^{\sum_j p_{ij}⟨u_i,v_j⟩/τ} + e^{\sum_{j≠i} p_{ij}⟨u_i,u_j⟩/τ}`, with
    :math:`p = w^+ / \sum w^+` in each view.

    ``anchors`` [B] and ``columns`` [C] are the sampled nodes that ``weights`` is about (None: all). Without ``both_views`` all
    terms with :math:`⟨u_i,u_j⟩` are left out.
    """
    check_range("tau", tau, above=0)
    check_choice("pooling", pooling, POOLINGS)
    of_u = anchor_losses(u, v, weights, tau, pooling, anchors, columns, both_views=both_views)
    of_v = anchor_losses(v, u, weights, tau, pooling, anchors, columns, both_views=both_views)
    return (of_u + of_v).mean() / 2


def anchor_losses(
    anchor: Tensor,
    other: Tensor,
    weights: PairWeights,
    tau: float,
    pooling: str,
    anchors: Tensor | None = None,
    columns: Tensor | None = None,
    *,
    both_views: bool = True,
) -> Tensor:
    """ℓ of every anchor in one view against both views: one side of :func:`enhanced`."""
    rows, counterparts = (anchor, other) if anchors is None else (anchor[anchors], other[anchors])
    inter = rows @ (other if columns is None else other[columns]).T / tau
    intra = rows @ (anchor if columns is None else anchor[columns]).T / tau if both_views else None
    counterpart = (rows * counterparts).sum(dim=1) / tau
    numerator = _positives(inter, intra, counterpart, weights, pooling)
    denominator = _log_sum(counterpart, *(weights.repel + scores for scores in (inter, intra) if scores is not None))
    return denominator - numerator


def ideal(u: Tensor, v: Tensor, labels: Tensor, tau: float) -> Tensor:
    r"""With labels, every node of the class attracts and only other classes repel: Eq. (multi_contrastive_loss).

    .. math:: -\log \frac{\sum_j 1[y=y_j]\, e^{⟨v,v_j⟩/τ}}{e^{⟨v,v'⟩/τ} + \sum_j 1[y≠y_j]\, e^{⟨v,v_j⟩/τ}}
    """
    same = labels[:, None] == labels
    weights = PairWeights(
        attract=without_own_pairs(log_indicator(same, u.dtype)),
        repel=log_indicator(~same, u.dtype),
        own=u.new_zeros(len(u)),
    )
    return enhanced(u, v, weights, tau)


def estimated(
    anchor: Tensor, counterpart: Tensor, positives: Tensor, negatives: Tensor, ell: float, q: float, tau: float
) -> Tensor:
    r"""The Monte Carlo estimate from m sampled positives and n sampled negatives: Eq. (estimate_ideal_contrastive_loss).

    .. math:: -\log \frac{\frac{l}{m}\sum_j e^{⟨v,v^+_j⟩/τ}}{e^{⟨v,v'⟩/τ} + \frac{q}{n}\sum_k e^{⟨v,v^-_k⟩/τ}}
    """
    attraction = ell * (positives @ anchor / tau).exp().mean()
    repulsion = q * (negatives @ anchor / tau).exp().mean()
    return ((anchor @ counterpart / tau).exp() + repulsion).log() - attraction.log()


def asymptotic(
    anchor: Tensor, counterpart: Tensor, nodes: Tensor, p_pos: Tensor, p_neg: Tensor, ell: float, q: float, tau: float
) -> Tensor:
    r"""What the estimate tends to as m, n → ∞ (the theorem), for distributions ``p_pos`` and ``p_neg`` over ``nodes``.

    .. math:: -\log \frac{l\,E_{p^+}[e^{⟨v,v^+⟩/τ}]}{e^{⟨v,v'⟩/τ} + q\,E_{p^-}[e^{⟨v,v^-⟩/τ}]}
    """
    exponentials = (nodes @ anchor / tau).exp()
    return ((anchor @ counterpart / tau).exp() + q * (p_neg @ exponentials)).log() - (ell * (p_pos @ exponentials)).log()


def neighbourhood(z: Tensor, weights: PairWeights, tau: float) -> Tensor:
    r"""One view, Eq. (individual_NC_loss) and, with w⁺ and w⁻ from similarity, Eq. (individual_en_NC_loss).

    .. math:: ℓ(z_i) = -\log \frac{\sum_{j≠i} w^+_{ij} e^{⟨z_i,z_j⟩/τ}}{\sum_{k≠i} w^-_{ik} e^{⟨z_i,z_k⟩/τ}}

    A node without any positive says nothing: it adds zero to the mean.
    """
    check_range("tau", tau, above=0)
    scores = z @ z.T / tau
    has_positive = (weights.attract > NONE).any(dim=1)
    numerator = torch.where(has_positive[:, None], weights.attract + scores, 0).logsumexp(dim=1)
    denominator = torch.where(has_positive[:, None], weights.repel + scores, 0).logsumexp(dim=1)
    return torch.where(has_positive, denominator - numerator, 0).mean()


def kinship(u: Tensor, v: Tensor, shares: Tensor, tau: float, *, symmetric: bool = False, both_views: bool = False) -> Tensor:
    r"""Similar nodes attract, all repel alike, and the mean of the positives' scores stands outside the logarithm.

    .. math:: ℓ(u_i) = -\sum_j p_{ij} s_{ij} + \log \sum_j e^{s_{ij}}, \qquad s_{ij} = ⟨u_i,v_j⟩/τ

    ``shares`` [N, N] is p, whose rows add up to 1 (:func:`kinship_shares`). The loss is the mean of ℓ(u_i), or with
    ``symmetric`` of ½(ℓ(u_i) + ℓ(v_i)). With ``both_views``, other nodes are candidates and positives in the anchor's view too:
    :math:`\sum_{j≠i} e^{⟨u_i,u_j⟩/τ}` joins the sum, and each of their scores is the mean of both views'.
    """
    check_range("tau", tau, above=0)
    own = torch.eye(len(u), dtype=torch.bool, device=u.device)

    def loss_of_anchors(anchor: Tensor, other: Tensor) -> Tensor:
        inter = anchor @ other.T / tau
        if not both_views:
            return inter.logsumexp(dim=1) - (shares * inter).sum(dim=1)
        intra = anchor @ anchor.T / tau
        scores = torch.where(own, inter, (inter + intra) / 2)
        return torch.cat([inter, without_own_pairs(intra)], dim=1).logsumexp(dim=1) - (shares * scores).sum(dim=1)

    if not symmetric:
        return loss_of_anchors(u, v).mean()
    return (loss_of_anchors(u, v) + loss_of_anchors(v, u)).mean() / 2


def kinship_shares(weights: PairWeights, own: float = 0.0, kept: Tensor | None = None) -> Tensor:
    r"""p of :func:`kinship` from the weights of all nodes: the counterpart has the share ``own``, similar nodes the rest.

    .. math:: p_{ij} = own · 1[i = j] + (1 - own) · 1[i ≠ j]\, w^+_{ij} / \sum_{k≠i} w^+_{ik}

    Positives outside of ``kept`` [N, N] have no weight. A node without any positive left has its counterpart alone.
    """
    counterpart = torch.eye(len(weights.attract), dtype=weights.attract.dtype, device=weights.attract.device)
    attract = weights.attract if kept is None else weights.attract.masked_fill(~kept, NONE)
    has_others = (attract > NONE).any(dim=1, keepdim=True)
    others = torch.where(has_others, attract, 0).softmax(dim=1)
    return torch.where(has_others, own * counterpart + (1 - own) * others, counterpart)


def without_own_pairs(matrix: Tensor) -> Tensor:
    own = torch.eye(len(matrix), dtype=torch.bool, device=matrix.device)
    return matrix.masked_fill(own, NONE)


def _positives(inter: Tensor, intra: Tensor | None, counterpart: Tensor, weights: PairWeights, pooling: str) -> Tensor:
    if pooling == "sum":
        views = (weights.attract + scores for scores in (inter, intra) if scores is not None)
        return _log_sum(weights.own + counterpart, *views)
    with_own = torch.cat([weights.own[:, None], weights.attract], dim=1).softmax(dim=1)
    inter_mean = (with_own * torch.cat([counterpart[:, None], inter], dim=1)).sum(dim=1)
    if intra is None:
        return inter_mean
    has_others = (weights.attract > NONE).any(dim=1)
    others = torch.where(has_others[:, None], weights.attract, 0).softmax(dim=1)
    intra_mean = (others * intra).sum(dim=1)
    return torch.where(has_others, torch.logaddexp(inter_mean, intra_mean), inter_mean)


def _log_sum(single: Tensor, *blocks: Tensor) -> Tensor:
    return torch.cat([single[:, None], *blocks], dim=1).logsumexp(dim=1)
