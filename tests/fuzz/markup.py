"""GraphML and GEXF as NetworkX writes them, whole and with one or two faults."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import networkx as nx

from tests.fuzz.damage import BYTES
from tests.fuzz.draws import Draw, changed, communities
from tests.fuzz.fits import QUICK, fit, some_options
from tests.fuzz.promises import Case

WORDS = (
    "", "x", "NaN", "INF", "-1", "1e400", "9" * 400, "0." + "1" * 400, "true", "\x1b", "&#27;[31m", "&lt;", "&undefined;",
    "<", "é", "2024-01-01", "-0.0", "1e-320", "99999999999999999999",
)  # fmt: skip
TYPES = ("string", "int", "long", "float", "double", "boolean", "integer", "short", "date", "liststring", "nonsense", "")


def valid(draw: Draw) -> Any:
    nodes = draw.whole(2, 30)
    arrays = communities(draw, nodes, 2)
    kind = draw.pick((nx.Graph, nx.Graph, nx.DiGraph, nx.MultiGraph))
    graph = kind()
    labels = draw.pick((("a", "b"), (0, 1), ("zoë", "\u202e"), ("x y", 'q"q')))
    for node in range(nodes):
        attributes: dict[str, Any] = {"f0": float(arrays["x"][node, 0]), "f1": int(arrays["x"][node, 1] * 3)}
        attributes |= {"label": labels[arrays["y"][node] % 2]} if draw.chance(0.95) else {}
        graph.add_node(f"n {node}" if draw.chance(0.5) else node, **attributes)
    names, weighted = list(graph.nodes), draw.chance(0.4)
    for one, other in arrays["edge_index"].T.tolist():
        graph.add_edge(names[one], names[other], **({"weight": draw.random.random() + 0.1} if weighted else {}))
    return graph


def mixed_types(graph: Any, draw: Draw) -> Any:
    node = draw.pick(list(graph.nodes))
    graph.nodes[node][draw.pick(("f0", "f1", "label", "extra"))] = draw.pick((1, 1.5, "x", True, "", 10**400, float("nan"), -1))
    return graph


def odd_weight(graph: Any, draw: Draw) -> Any:
    for _, _, attributes in list(graph.edges(data=True))[: draw.whole(1, 3)]:
        attributes["weight"] = draw.pick((0, -1, 10**400, float("inf"), float("nan"), "x", True, 1e-320, 1e39))
    return graph


GRAPH_BREAKS: tuple[Callable[[Any, Draw], Any], ...] = (mixed_types, odd_weight)


def replace_value(text: str, draw: Draw) -> str:
    """The content of an element or an attribute."""
    found = list(re.finditer(r'>([^<>\s][^<>]*)<|="([^"]*)"', text))
    if not found:
        return text
    place = draw.pick(found)
    start, end = place.span(1) if place[1] is not None else place.span(2)
    return text[:start] + draw.pick(WORDS) + text[end:]


def replace_type(text: str, draw: Draw) -> str:
    found = list(re.finditer(r'type="([a-z]*)"', text))
    if not found:
        return text
    start, end = draw.pick(found).span(1)
    return text[:start] + draw.pick(TYPES) + text[end:]


def long_weight(text: str, draw: Draw) -> str:
    return re.sub(r'(<data key="d\d+">|weight=")[\d.]+', lambda found: found[1] + "9" * 400, text, count=draw.whole(1, 4))


def drop_tag(text: str, draw: Draw) -> str:
    found = list(re.finditer(r"<[^<>]+>", text))
    if not found:
        return text
    start, end = draw.pick(found).span()
    return text[:start] + text[end:]


def repeat_tag(text: str, draw: Draw) -> str:
    found = list(re.finditer(r"<(node|edge)\b.*?(</\1>|/>)", text, re.DOTALL))
    if not found:
        return text
    start, end = draw.pick(found).span()
    return text[:end] + text[start:end] + text[end:]


def noise(text: str, draw: Draw) -> str:
    return draw.pick(BYTES)(text.encode(), draw).decode("latin-1")


TEXT_BREAKS: tuple[Callable[[str, Draw], str], ...] = (
    replace_value, replace_value, replace_type, long_weight, drop_tag, repeat_tag, noise,
)  # fmt: skip


def case(case: Case) -> str:
    draw = case.draw
    graph, first = changed(valid(draw), draw, GRAPH_BREAKS, most=1)
    nodes = graph.number_of_nodes()
    suffix, generate = draw.pick(((".graphml", nx.generate_graphml), (".gexf", nx.generate_gexf)))
    try:
        text = "\n".join(generate(graph))
    except Exception:  # NetworkX does not write what it cannot say
        text = "\n".join(generate(nx.path_graph(4)))
    text, second = changed(text, draw, TEXT_BREAKS)
    path = case.folder / f"graph{suffix}"
    path.write_text(text, encoding="utf-8", errors="replace")
    return fit(case, [path], [*some_options(case), *QUICK], nodes=None if first + second else nodes)
