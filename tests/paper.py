"""The paper's equations as plain loops over Python floats: the oracle for everything that is faster or safer.

Nothing here is shared with the package. A graph is a list of undirected edges, a vector a list of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log, sqrt

Vector = Sequence[float]
Matrix = list[list[float]]


def dot(a: Vector, b: Vector) -> float:
    return sum(p * q for p, q in zip(a, b, strict=True))


def cosine(a: Vector, b: Vector) -> float:
    lengths = sqrt(dot(a, a)) * sqrt(dot(b, b))
    return dot(a, b) / lengths if lengths > 0 else 0.0


def product(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))] for i in range(len(a))]


def identity(n: int) -> Matrix:
    return [[float(i == j) for j in range(n)] for i in range(n)]


def normalised_adjacency(n: int, edges: Sequence[tuple[int, int]], self_loops: bool) -> Matrix:
    a = identity(n) if self_loops else [[0.0] * n for _ in range(n)]
    for i, j in edges:
        a[i][j] = a[j][i] = 1.0
    degree = [sum(row) for row in a]
    return [[a[i][j] / sqrt(degree[i] * degree[j]) if a[i][j] else 0.0 for j in range(n)] for i in range(n)]


def pagerank(n: int, edges: Sequence[tuple[int, int]], alpha: float, steps: int, self_loops: bool) -> Matrix:
    """P̂ = (1−α)^K Â^K + Σ_{k<K} α(1−α)^k Â^k"""
    a_hat = normalised_adjacency(n, edges, self_loops)
    power, result = identity(n), [[0.0] * n for _ in range(n)]
    for k in range(steps):
        for i in range(n):
            for j in range(n):
                result[i][j] += alpha * (1 - alpha) ** k * power[i][j]
        power = product(power, a_hat)
    return [[result[i][j] + (1 - alpha) ** steps * power[i][j] for j in range(n)] for i in range(n)]


def cosine_of_rows(rows: Matrix) -> Matrix:
    return [[max(cosine(a, b), 0.0) for b in rows] for a in rows]


def blend(structure: Matrix, features: Matrix, beta: float) -> Matrix:
    """sim = βγ sim_F + (1−β) sim_G, γ = Σ sim_G / Σ sim_F"""
    gamma = sum(map(sum, structure)) / sum(map(sum, features))
    n = len(structure)
    return [[beta * gamma * features[i][j] + (1 - beta) * structure[i][j] for j in range(n)] for i in range(n)]


def attraction(s: float, tau_p: float) -> float:
    return exp(s / tau_p) - 1


def repulsion(s: float, tau_n: float) -> float:
    return exp(-s / tau_n)


def positive_weights(sim: Matrix, i: int, members: Sequence[int], tau_p: float) -> dict[int, float]:
    """w⁺_i(j) for j in V_M, which the anchor's own node belongs to unless there is no other view."""
    values = {j: attraction(sim[i][j], tau_p) for j in members}
    mean = sum(values.values()) / len(values)
    if mean == 0:
        return {j: float(len(values)) if j == i else 0.0 for j in members}
    return {j: value / mean for j, value in values.items()}


def negative_weights(sim: Matrix, i: int, members: Sequence[int], tau_n: float) -> dict[int, float]:
    """w⁻_i(j) for j in V_N without the anchor's own node."""
    values = {j: repulsion(sim[i][j], tau_n) for j in members if j != i}
    mean = sum(values.values()) / len(values) if values else 1.0
    return {j: value / mean for j, value in values.items()}


def two_views(u: Matrix, v: Matrix, anchors: Sequence[int], loss: Callable[[Matrix, Matrix, int], float]) -> float:
    return sum((loss(u, v, i) + loss(v, u, i)) / 2 for i in anchors) / len(anchors)


def infonce_anchor(u: Matrix, v: Matrix, i: int, tau: float, both_views: bool = True) -> float:
    numerator = exp(dot(u[i], v[i]) / tau)
    denominator = sum(exp(dot(u[i], v[j]) / tau) for j in range(len(u)))
    if both_views:
        denominator += sum(exp(dot(u[i], u[j]) / tau) for j in range(len(u)) if j != i)
    return -log(numerator / denominator)


def enhanced_anchor(
    u: Matrix, v: Matrix, i: int, tau: float, w_pos: dict[int, float], w_neg: dict[int, float], pooling: str = "sum"
) -> float:
    if pooling == "sum":
        numerator = sum(w * exp(dot(u[i], v[j]) / tau) for j, w in w_pos.items())
        numerator += sum(w * exp(dot(u[i], u[j]) / tau) for j, w in w_pos.items() if j != i)
    else:
        inter = sum(w_pos.values())
        numerator = exp(sum(w * dot(u[i], v[j]) / tau for j, w in w_pos.items()) / inter)
        intra = sum(w for j, w in w_pos.items() if j != i)
        if intra > 0:
            numerator += exp(sum(w * dot(u[i], u[j]) / tau for j, w in w_pos.items() if j != i) / intra)
    denominator = exp(dot(u[i], v[i]) / tau)
    denominator += sum(w * (exp(dot(u[i], v[j]) / tau) + exp(dot(u[i], u[j]) / tau)) for j, w in w_neg.items())
    return -log(numerator / denominator)


def enhanced_anchor_of_other_view(
    u: Matrix, v: Matrix, i: int, tau: float, w_pos: dict[int, float], w_neg: dict[int, float], pooling: str = "sum"
) -> float:
    """MA-GCL+: the same without the nodes of the anchor's own view"""
    if pooling == "sum":
        numerator = sum(w * exp(dot(u[i], v[j]) / tau) for j, w in w_pos.items())
    else:
        numerator = exp(sum(w * dot(u[i], v[j]) / tau for j, w in w_pos.items()) / sum(w_pos.values()))
    denominator = exp(dot(u[i], v[i]) / tau) + sum(w * exp(dot(u[i], v[j]) / tau) for j, w in w_neg.items())
    return -log(numerator / denominator)


def ideal_anchor(u: Matrix, v: Matrix, i: int, tau: float, labels: Sequence[int]) -> float:
    numerator = sum(exp(dot(u[i], v[j]) / tau) for j in range(len(u)) if labels[j] == labels[i])
    numerator += sum(exp(dot(u[i], u[j]) / tau) for j in range(len(u)) if labels[j] == labels[i] and j != i)
    denominator = exp(dot(u[i], v[i]) / tau)
    for j in range(len(u)):
        if labels[j] != labels[i]:
            denominator += exp(dot(u[i], v[j]) / tau) + exp(dot(u[i], u[j]) / tau)
    return -log(numerator / denominator)


def neighbourhood_anchor(z: Matrix, i: int, tau: float, w_pos: dict[int, float], w_neg: dict[int, float]) -> float:
    numerator = sum(w * exp(dot(z[i], z[j]) / tau) for j, w in w_pos.items() if j != i)
    denominator = sum(w * exp(dot(z[i], z[j]) / tau) for j, w in w_neg.items() if j != i)
    return -log(numerator / denominator) if numerator > 0 else 0.0


def estimated(v: Vector, own: Vector, pos: Matrix, neg: Matrix, ell: float, q: float, tau: float) -> float:
    numerator = ell / len(pos) * sum(exp(dot(v, p) / tau) for p in pos)
    denominator = exp(dot(v, own) / tau) + q / len(neg) * sum(exp(dot(v, n) / tau) for n in neg)
    return -log(numerator / denominator)


def asymptotic(v: Vector, own: Vector, nodes: Matrix, p_pos: Vector, p_neg: Vector, ell: float, q: float, tau: float) -> float:
    numerator = ell * sum(p * exp(dot(v, node) / tau) for p, node in zip(p_pos, nodes, strict=True))
    repelled = sum(p * exp(dot(v, node) / tau) for p, node in zip(p_neg, nodes, strict=True))
    return -log(numerator / (exp(dot(v, own) / tau) + q * repelled))


def bootstrap(q1: Matrix, q2: Matrix, h1: Matrix, h2: Matrix) -> float:
    """BGRL: each view's prediction against what the target sees in the other, 2 − mean cos(q¹, h²) − mean cos(q², h¹)"""
    n = len(q1)
    return 2 - sum(cosine(q1[i], h2[i]) for i in range(n)) / n - sum(cosine(q2[i], h1[i]) for i in range(n)) / n


def kinship_shares(w_pos: dict[int, float], i: int, own: float = 0.0, kept: Sequence[bool] | None = None) -> dict[int, float]:
    """p_i(j): w⁺ of the other nodes that are kept, scaled to 1 − own, and own for i itself; all for i where it has no other"""
    others = {j: w for j, w in w_pos.items() if j != i and (kept is None or kept[j])}
    total = sum(others.values())
    if total == 0:
        return {i: 1.0}
    return {i: own} | {j: (1 - own) * w / total for j, w in others.items()}


def kinship_anchor(u: Matrix, v: Matrix, i: int, tau: float, p: dict[int, float], both_views: bool = False) -> float:
    """−Σ_j p_i(j) s_ij + log Σ_j e^{s_ij}, s_ij = ⟨u_i,v_j⟩/τ; with both views the mean of two scores for every other node"""
    attracted, repelled = 0.0, 0.0
    for j in range(len(v)):
        inter, intra = dot(u[i], v[j]) / tau, dot(u[i], u[j]) / tau
        mean_score = (inter + intra) / 2 if both_views and j != i else inter
        attracted += p.get(j, 0.0) * mean_score
        repelled += exp(inter) + (exp(intra) if both_views and j != i else 0.0)
    return log(repelled) - attracted


def layer_of_hops(n: int, edges: Sequence[tuple[int, int]], h: Matrix, weight: Matrix, hops: int, lazy: float) -> Matrix:
    """F^k h W with F = λI + (1−λ)Â"""
    a_hat, h = normalised_adjacency(n, edges, self_loops=True), product(h, weight)
    for _ in range(hops):
        spread = product(a_hat, h)
        h = [[lazy * h[i][c] + (1 - lazy) * spread[i][c] for c in range(len(h[0]))] for i in range(n)]
    return h


def sigmoid(value: float) -> float:
    return 1 / (1 + exp(-value))


def infomax(true: list[Matrix], shuffled: list[Matrix], weight: Matrix) -> float:
    """DGI with one block, MVGRL with two: −mean of log D(h, s) and log(1 − D(h̃, s)), s = σ(mean h) of the other block"""
    losses = []
    for one in range(len(true)):
        for other in range(len(true)):
            if one == other and len(true) > 1:
                continue
            n, width = len(true[other]), len(weight)
            summary = [sigmoid(sum(row[c] for row in true[other]) / n) for c in range(width)]
            direction = [dot(weight[c], summary) for c in range(width)]
            total = sum(log(sigmoid(dot(row, direction))) for row in true[one])
            total += sum(log(1 - sigmoid(dot(row, direction))) for row in shuffled[one])
            losses.append(-total / (2 * n))
    return sum(losses) / len(losses)


def standardised(rows: Matrix) -> Matrix:
    n, width = len(rows), len(rows[0])
    means = [sum(row[c] for row in rows) / n for c in range(width)]
    deviations = [sqrt(sum((row[c] - means[c]) ** 2 for row in rows) / (n - 1)) for c in range(width)]
    return [[(row[c] - means[c]) / deviations[c] for c in range(width)] for row in rows]


def canonical(u: Matrix, v: Matrix, decorrelation: float) -> float:
    """CCA-SSG: −tr(ũᵀṽ)/N + λ(‖ũᵀũ/N − I‖² + ‖ṽᵀṽ/N − I‖²) of standardised columns"""
    u, v = standardised(u), standardised(v)
    n, width = len(u), len(u[0])
    loss = -sum(dot(u[i], v[i]) for i in range(n)) / n
    for rows in (u, v):
        for a in range(width):
            for b in range(width):
                loss += decorrelation * (sum(row[a] * row[b] for row in rows) / n - float(a == b)) ** 2
    return loss


def scattering(target: Matrix) -> float:
    """SGRL: −mean ‖t_i − c‖², t_i = h_i/‖h_i‖ and c their mean"""
    unit = [[value / sqrt(dot(row, row)) for value in row] for row in target]
    n, width = len(unit), len(unit[0])
    centre = [sum(row[c] for row in unit) / n for c in range(width)]
    return -sum((row[c] - centre[c]) ** 2 for row in unit for c in range(width)) / n


def agreement_anchor(
    z: Matrix, i: int, w_pos: dict[int, float], own: float, w_neg: dict[int, float], kept: Sequence[bool]
) -> float:
    """SIGNA: −Σ p log((1+cos)/2) − Σ q log((1−cos)/2); as far as a pair is positive and kept, it is not negative"""
    others = [j for j in range(len(z)) if j != i]
    attract = {j: w_pos.get(j, 0.0) if kept[j] else 0.0 for j in others}
    largest = max([w_pos.get(j, 0.0) for j in others], default=0.0)
    repel = {j: w_neg.get(j, 0.0) * (1 - (attract[j] / largest if largest else 0.0)) for j in others}
    positives, negatives = own + sum(attract.values()), sum(repel.values())
    loss = 0.0
    for j in others:
        score = (1 + dot(z[i], z[j])) / 2
        loss -= attract[j] / positives * log(score) if attract[j] else 0.0
        loss -= repel[j] / negatives * log(1 - score) if repel[j] else 0.0
    return loss
