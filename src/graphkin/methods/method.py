"""GRACE, GCA and Graph-MLP as values, and :func:`plus`, which is the paper in one function (docs/math.md, section 5)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

from graphkin.errors import SettingError, check_choice, check_range, check_whole, shown, unknown
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.graph import Graph
from graphkin.models.encoders import GCN, MLP
from graphkin.models.views import TwoViews
from graphkin.objectives.kernels.precision import PRECISIONS
from graphkin.objectives.reference import POOLINGS
from graphkin.similarity import LATER, Labels, NodeSimilarity, Similarity
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.node import AllAlike, Attraction, Effective, Linked, NegativeWeights, OwnOnly, PositiveWeights, Repulsion
from graphkin.weights.temperatures import attraction_temperatures, repulsion_temperatures

PARTS = ("p", "n", "g", "f")
MOST_EPOCHS = 10**7
FEATURE_SCALES = ("auto", "rows", "none")


@dataclass(frozen=True)
class OwnCounterpart:
    """The only positive of a node is itself in the other view."""

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        return OwnOnly()


@dataclass(frozen=True)
class Neighbours:
    """The positives of a node are its neighbourhood, weighted by Â^hops."""

    hops: int = 2

    def __post_init__(self) -> None:
        check_whole("hops", self.hops, at_least=1, at_most=1000)

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        adjacency = normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight).csr
        power = adjacency
        for _ in range(self.hops - 1):
            power = power @ adjacency
        return Linked(SparseMatrix(power))


@dataclass(frozen=True)
class Attract:
    """Similar nodes are positives: w⁺ at temperature ``tau_pos``, or with ``effective_positives`` of them in effect."""

    tau_pos: float | None = None
    effective_positives: float | None = 10.0

    def __post_init__(self) -> None:
        _check_one_given(self)
        if self.tau_pos is not None:
            check_range("tau_pos", self.tau_pos, above=0)
        if self.effective_positives is not None:
            check_range("effective_positives", self.effective_positives, at_least=1)

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        assert similarity is not None
        return self.weights(similarity, counterpart, lazy)

    def weights(self, similarity: NodeSimilarity, counterpart: bool = True, lazy: bool = False) -> Attraction:
        if self.tau_pos is not None:
            return Attraction(similarity, self.tau_pos, counterpart)
        assert self.effective_positives is not None
        if lazy:
            return Attraction(similarity, Effective(self.effective_positives), counterpart)
        tau = attraction_temperatures(similarity, self.effective_positives, counterpart=counterpart)
        return Attraction(similarity, tau, counterpart)


@dataclass(frozen=True)
class Uniform:
    """Every other node is a negative with weight 1."""

    def on(self, graph: Graph, similarity: NodeSimilarity | None, lazy: bool = False) -> NegativeWeights:
        return AllAlike()


@dataclass(frozen=True)
class Repel:
    """Dissimilar nodes are negatives: w⁻ at ``tau_neg``, or with a share ``effective_negatives`` of them in effect."""

    tau_neg: float | None = None
    effective_negatives: float | None = 0.9

    def __post_init__(self) -> None:
        _check_one_given(self)
        if self.tau_neg is not None:
            check_range("tau_neg", self.tau_neg, above=0)
        if self.effective_negatives is not None:
            check_range("effective_negatives", self.effective_negatives, above=0, at_most=1)

    def on(self, graph: Graph, similarity: NodeSimilarity | None, lazy: bool = False) -> NegativeWeights:
        assert similarity is not None
        return self.weights(similarity, lazy)

    def weights(self, similarity: NodeSimilarity, lazy: bool = False) -> Repulsion:
        if self.tau_neg is not None:
            return Repulsion(similarity, self.tau_neg)
        assert self.effective_negatives is not None
        if lazy:
            return Repulsion(similarity, Effective(self.effective_negatives * (similarity.num_nodes - 1)))
        return Repulsion(similarity, repulsion_temperatures(similarity, self.effective_negatives))


@dataclass(frozen=True)
class SameClass:
    """Every node of the anchor's class is a positive with weight 1, as T(1) is at τ_p = 1/log 2."""

    def on(self, graph: Graph, similarity: NodeSimilarity | None, counterpart: bool, lazy: bool = False) -> PositiveWeights:
        assert similarity is not None
        return Attraction(similarity, 1 / math.log(2), counterpart, normalised=False)


@dataclass(frozen=True)
class OtherClasses:
    """Every node of another class is a negative with weight 1; D(1) is 0 in float32 at this τ_n."""

    def on(self, graph: Graph, similarity: NodeSimilarity | None, lazy: bool = False) -> NegativeWeights:
        assert similarity is not None
        return Repulsion(similarity, 1e-3, normalised=False)


@dataclass(frozen=True)
class Optimiser:
    """Adam, for a number of epochs.

    ``anchors`` nodes are drawn as anchors in each epoch, and ``positives`` and ``negatives`` nodes as V_M and V_N (None: all).
    ``candidates`` nodes are drawn in each epoch to stand for all, beside ``near`` similar ones of every anchor, and
    ``neighbours`` of every node in every layer are looked at (None: all): an estimate of the full loss whose cost does not grow
    with the graph.
    ``precision`` is that of the products of embeddings in the objective: "float32", "tf32", "bf16", or "auto", which is bf16
    for more than 4,096 nodes on a GPU with fused kernels and float32 otherwise. On a GPU the encoder multiplies in TF32 with
    "tf32", "bf16" and, for more than 4,096 nodes, "auto".
    """

    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    epochs: int = 200
    anchors: int | None = None
    positives_sampled: int | None = None
    negatives_sampled: int | None = None
    precision: str = "auto"
    candidates: int | None = field(default=None, metadata=LATER)
    near: int = field(default=8, metadata=LATER)
    neighbours: int | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, PRECISIONS)
        check_range("learning_rate", self.learning_rate, above=0, at_most=1e6)
        check_range("weight_decay", self.weight_decay, at_least=0, at_most=1e6)
        check_whole("epochs", self.epochs, at_least=1, at_most=MOST_EPOCHS)
        for name in ("anchors", "positives_sampled", "negatives_sampled"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), at_least=2)
        check_whole("near", self.near, at_least=0)
        if self.candidates is not None:
            check_whole("candidates", self.candidates, at_least=2)
            if self.positives_sampled is not None or self.negatives_sampled is not None:
                raise SettingError("candidates stand for all nodes: positives_sampled and negatives_sampled must be none.")
        if self.neighbours is not None:
            check_whole("neighbours", self.neighbours, at_least=1)
            if self.candidates is None:
                raise SettingError("neighbours are drawn for sampled nodes alone: candidates must be given too.")

    def samples(self, num_nodes: int) -> bool:
        """Whether some of so many nodes are drawn to stand for all."""
        return self.candidates is not None and self.candidates < num_nodes


@dataclass(frozen=True)
class Supervision:
    """Graph-MLP's labels: cross entropy plus ``contrast_weight`` (λ) times the contrast, on batches with all training nodes."""

    contrast_weight: float = 1.0
    batch: int = 2000

    def __post_init__(self) -> None:
        check_range("contrast_weight", self.contrast_weight, at_least=0)
        check_whole("batch", self.batch, at_least=2)


@dataclass(frozen=True)
class Method:
    """A combination of choices. ``views=None`` is one view of the whole graph, which then needs ``supervision``."""

    name: str
    encoder: GCN | MLP
    views: TwoViews | None
    positives: OwnCounterpart | Neighbours | Attract | SameClass
    negatives: Uniform | Repel | OtherClasses
    similarity: Similarity | Labels | None = None
    supervision: Supervision | None = None
    optimiser: Optimiser = field(default_factory=Optimiser)
    projector: int | None = None
    """hidden width of the projector; None: the encoder's"""
    tau: float = 0.4
    pooling: str = "sum"
    feature_scale: str = "auto"
    """"rows" divides features by their row sum, "none" leaves them, "auto" scales rows unless there are negative entries"""

    def __post_init__(self) -> None:
        check_range("tau", self.tau, above=0)
        check_choice("pooling", self.pooling, POOLINGS)
        check_choice("feature_scale", self.feature_scale, FEATURE_SCALES)
        if self.projector is not None:
            check_whole("projector", self.projector, at_least=1, at_most=2**16)
        if (self.views is None) != (self.supervision is not None):
            raise SettingError("a method has either two views or supervision with labels, not both and not neither.")
        uses_similarity = isinstance(self.positives, Attract) or isinstance(self.negatives, Repel)
        if uses_similarity and self.similarity is None:
            raise SettingError("a method that attracts or repels by similarity needs a similarity.")

    @property
    def needs_labels(self) -> bool:
        return self.supervision is not None

    @property
    def needs_edges(self) -> bool:
        """Only similarity of features alone (beta = 1) makes sense without edges."""
        return isinstance(self.positives, Neighbours) or not (
            isinstance(self.similarity, Similarity) and self.similarity.beta == 1
        )

    def settings(self) -> dict[str, Any]:
        """All settings by name, flat, as :meth:`configure` takes them."""
        flat: dict[str, Any] = {}
        for entry in fields(self):
            value: Any = getattr(self, entry.name)
            if entry.name in COMPONENTS:
                flat.update({} if value is None else asdict(value))
            elif entry.name != "name":
                flat[entry.name] = value
        return {name: value for name, value in flat.items() if self.views is not None or name not in TWO_VIEWS_ONLY}

    def configure(self, /, **settings: Any) -> Method:
        """The same method with other settings: ``GRACE.configure(tau=0.5, hidden=128, drop_edges=(0.1, 0.2))``."""
        changes: dict[str, Any] = {}
        known = self.settings()
        for name in settings:
            if name not in known:
                raise unknown(f"setting for {self.name}", name, known)
        for entry in fields(self):
            value: Any = getattr(self, entry.name)
            if entry.name in COMPONENTS and value is not None:
                own = {f.name: _none_or_word(f, settings.pop(f.name)) for f in fields(value) if f.name in settings}
                if own:
                    changes[entry.name] = replace(value, **_prepared(value, own))
            elif entry.name in settings and entry.name not in ("name", *COMPONENTS):
                changes[entry.name] = _none_or_word(entry, settings.pop(entry.name))
        return replace(self, **changes)


TWO_VIEWS_ONLY = (
    *("anchors", "positives_sampled", "negatives_sampled", "precision", "pooling", "projector"),
    *("candidates", "near", "neighbours"),
)
COMPONENTS = ("encoder", "views", "positives", "negatives", "similarity", "supervision", "optimiser")

GRACE = Method("grace", GCN(), TwoViews(), OwnCounterpart(), Uniform())
GCA = replace(GRACE, name="gca", views=TwoViews(adaptive="degree"))
GRAPH_MLP = Method(
    "graph-mlp",
    MLP(),
    views=None,
    positives=Neighbours(),
    negatives=Uniform(),
    supervision=Supervision(),
    optimiser=Optimiser(weight_decay=5e-3, epochs=400),
)


def plus(method: Method, part: str | None = None) -> Method:
    """The enhanced objective on a base method: similar nodes attract, dissimilar nodes repel.

    ``part`` keeps a part of it, as the paper's ablations do: "p" positive weights only, "n" negative weights only,
    "g" structure only (β = 0), "f" features only (β = 1).
    """
    if part is not None:
        check_choice("part", part, PARTS)
    similarity = Similarity()
    if part in ("g", "f"):
        similarity = replace(similarity, beta=0.0 if part == "g" else 1.0)
    return replace(
        method,
        name=f"{method.name}+" + (f"({part})" if part else ""),
        similarity=similarity,
        positives=method.positives if part == "n" else Attract(),
        negatives=method.negatives if part == "p" else Repel(),
    )


def ideal(method: Method) -> Method:
    """The objective with labels that the enhanced one estimates, Eq. (multi_contrastive_loss): a top to measure against.

    It sees every label, those of test nodes too, and its embeddings prove nothing else.
    """
    if method.views is None:
        raise SettingError(f"the ideal objective is for methods with two views, found {method.name}.")
    name = method.name.partition("+")[0]
    return replace(
        method, name=f"{name}-ideal", similarity=Labels(), positives=SameClass(), negatives=OtherClasses(), pooling="sum"
    )


def _none_or_word(setting: Any, value: Any) -> Any:
    """None and "none" are the same, because a command line cannot tell them apart and TOML has only the word."""
    if value is None or (isinstance(value, str) and value == "none"):
        return None if "None" in setting.type else "none"
    return value


def _prepared(component: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Lists become tuples, and a temperature given replaces an effective count, or the other way round."""
    prepared = {key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()}
    if isinstance(component, Attract | Repel):
        names = [f.name for f in fields(component)]
        for name, other in (names, names[::-1]):
            if prepared.get(name) is not None and other not in prepared:
                prepared[other] = None
    return prepared


def _check_one_given(component: Attract | Repel) -> None:
    values = {entry.name: getattr(component, entry.name) for entry in fields(component)}
    if sum(value is not None for value in values.values()) != 1:
        found = ", ".join(f"{name}={shown(value)}" for name, value in values.items())
        raise SettingError(f"exactly one of {' and '.join(values)} must be given, found {found}.")


def to_json(method: Method) -> dict[str, Any]:
    """A method as plain data; :func:`from_json` is the way back."""

    def encode(value: Any) -> Any:
        if is_dataclass(value):
            told = [f for f in fields(value) if not (f.metadata.get("later") and getattr(value, f.name) == f.default)]
            return {"type": type(value).__name__} | {f.name: encode(getattr(value, f.name)) for f in told}
        return list(value) if isinstance(value, tuple) else value

    encoded: dict[str, Any] = encode(method)
    return encoded


def from_json(data: Any) -> Method:
    types = {
        cls.__name__: cls
        for cls in (
            Method,
            GCN,
            MLP,
            TwoViews,
            OwnCounterpart,
            Neighbours,
            Attract,
            SameClass,
            Uniform,
            Repel,
            OtherClasses,
            Similarity,
            Labels,
            Supervision,
            Optimiser,
        )
    }

    def decode(value: Any) -> Any:
        if isinstance(value, dict):
            given = dict(value)
            cls = types[given.pop("type")]
            return cls(**{key: decode(entry) for key, entry in given.items()})
        return tuple(value) if isinstance(value, list) else value

    method = decode(data)
    if not isinstance(method, Method):
        raise SettingError(f"the settings must describe a Method, found {type(method).__name__}.")
    return method
