"""Write the table of docs/performance.md from benchmarks/results: ``python scripts/performance_table.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from graphkin.bench import read

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
START, END = "<!-- measured -->\n", "<!-- end -->"
BF16, TF32, FP32, CPU = 774e12, 404e12, 51e12, 190e9
"""operations per second that an H200 and two CPU cores are assumed to reach on large products"""


class Line(NamedTuple):
    what: str
    problem: dict[str, Any]
    contender: str
    against: str | None
    target: str
    floor: float | None
    """seconds"""


def pairs(nodes: int, width: int, features: int = 0) -> float:
    """24 N²d operations of the objective in bf16, and twice 2 N²F of similarity on the fly in TF32."""
    return 24 * nodes**2 * width / BF16 + 4 * nodes**2 * features / TF32


def between_views(nodes: int, width: int) -> float:
    """10 N²d operations of Kinship in bf16."""
    return 10 * nodes**2 * width / BF16


def encoder(nodes: int, features: int, hidden: int, rate: float = FP32) -> float:
    """Products of two views, forward and backward; the first layer needs no gradient in its input."""
    products = 2 * features * 2 * hidden + 3 * (2 * hidden * hidden + 2 * hidden * hidden)
    return 2 * 2 * nodes * products / rate


def cora_on_a_cpu() -> float:
    """Half of the scores by symmetry, stored for the gradient: 4 + 8 N²d; the first layer reads 18 features of a node."""
    return (12 * 2708**2 * 128 + encoder(2708, 18, 128, rate=1)) / CPU


def kin_epoch(nodes: int, anchors: int, words: int, smoothed: int, rates: tuple[float, float]) -> float:
    """Kinship of three branches, and their products. First layers read ``words`` of a node, twice, and smoothed features."""
    first = 512 * (2 * words + 3 * smoothed)
    products = 2 * first + 3 * 3 * (512 * 256 + 2 * 256 * 256)
    return 3 * 10 * anchors**2 * 256 / rates[0] + 2 * 2 * nodes * products / rates[1]


def on_gpu(nodes: int, weights: str, width: int) -> dict[str, Any]:
    return {"nodes": nodes, "weights": weights, "width": width, "device": "cuda"}


def kin_on(graph: str, device: str) -> dict[str, Any]:
    return {"graph": graph, "method": "kin", "device": device}


def grace_plus(graph: str, device: str) -> dict[str, Any]:
    return {"graph": graph, "method": "grace+", "device": device}


EIGHT = "8 repeats at a time"
LINES = [
    Line(
        "N = 19,717, d = 256, similarity stored (bf16)",
        on_gpu(19717, "stored-bf16", 256),
        "fused bf16",
        "dense",
        "≤ 10 ms, ≤ 1.5 GiB",
        pairs(19717, 256),
    ),
    Line(
        "the same, on the fly: 32 neighbours, 500 features",
        on_gpu(19717, "on-the-fly", 256),
        "fused bf16",
        "dense",
        "≤ 20 ms, ≤ 0.3 GiB",
        pairs(19717, 256, 500),
    ),
    Line(
        "N = 169,343, d = 256, on the fly, 128 features",
        on_gpu(169343, "on-the-fly", 256),
        "fused bf16",
        None,
        "≤ 1.2 s, ≤ 6 GiB",
        pairs(169343, 256, 128),
    ),
    Line(
        "N = 1,000,000, d = 128, on the fly, 128 features",
        on_gpu(10**6, "on-the-fly", 128),
        "fused bf16",
        None,
        "runs",
        pairs(10**6, 128, 128),
    ),
    Line(
        "InfoNCE, N = 19,717, d = 256",
        on_gpu(19717, "infonce", 256),
        "fused bf16",
        "flex_attention",
        "–",
        pairs(19717, 256),
    ),
    Line(
        "Kinship, N = 19,717, d = 256, one positive each",
        on_gpu(19717, "kinship", 256),
        "fused bf16",
        "dense",
        "≤ 3 ms",
        between_views(19717, 256),
    ),
    Line(
        "Kinship, N = 19,717, d = 256, positives stored",
        on_gpu(19717, "kinship-stored", 256),
        "fused bf16",
        "dense",
        "–",
        between_views(19717, 256),
    ),
    Line(
        "N = 19,717, d = 256, stored, products in float32",
        on_gpu(19717, "stored", 256),
        "fused float32",
        "dense",
        "–",
        3 * pairs(19717, 256) * BF16 / TF32,
    ),
    Line(
        "GRACE+ epoch, Pubmed, all anchors",
        grace_plus("pubmed", "cuda"),
        "graphkin fused bf16",
        "published form",
        "≤ 15 ms",
        pairs(19717, 256) + encoder(19717, 500, 256, TF32),
    ),
    Line(
        "the same in float32",
        grace_plus("pubmed", "cuda"),
        "graphkin fused float32",
        "published form",
        "–",
        3 * pairs(19717, 256) * BF16 / TF32 + encoder(19717, 500, 256),
    ),
    Line(
        "GRACE+ epoch, Cora, one of 8 repeats, float32",
        grace_plus("cora", "cuda"),
        f"graphkin fused float32, {EIGHT}",
        "published form",
        "≤ 1.5 ms",
        3 * pairs(2708, 128) * BF16 / TF32 + encoder(2708, 18, 128),
    ),
    Line(
        "the same in bf16",
        grace_plus("cora", "cuda"),
        f"graphkin fused bf16, {EIGHT}",
        "published form",
        "≤ 1.5 ms",
        pairs(2708, 128) + encoder(2708, 18, 128, TF32),
    ),
    Line(
        "GRACE+ epoch, Cora, two CPU cores, float32",
        grace_plus("cora", "cpu"),
        "graphkin symmetric float32",
        "published form",
        "≥ 6× faster",
        cora_on_a_cpu(),
    ),
    Line(
        "the same in bf16",
        grace_plus("cora", "cpu"),
        "graphkin symmetric bf16",
        "published form",
        "≥ 6× faster",
        None,
    ),
    Line(
        "kin epoch, Pubmed, all anchors",
        kin_on("pubmed", "cuda"),
        "all anchors, fused bf16",
        "all anchors, blocked float32",
        "≤ 6 ms",
        kin_epoch(19717, 19717, 50, 500, (BF16, TF32)),
    ),
    Line(
        "the same, one positive each",
        kin_on("pubmed", "cuda"),
        "one positive each, fused bf16",
        "one positive each, blocked float32",
        "≤ 6 ms",
        kin_epoch(19717, 19717, 50, 500, (BF16, TF32)),
    ),
    Line(
        "kin epoch, Pubmed, 2,048 anchors, one of 8 repeats",
        kin_on("pubmed", "cuda"),
        f"2,048 anchors, blocked tf32, {EIGHT}",
        "2,048 anchors, blocked float32",
        "–",
        kin_epoch(4096, 2048, 50, 500, (TF32, TF32)),
    ),
    Line(
        "kin epoch, Cora, 2,048 anchors, two CPU cores",
        kin_on("cora", "cpu"),
        "2,048 anchors, blocked bf16",
        "2,048 anchors, blocked float32",
        "–",
        None,
    ),
]


def table() -> str:
    """The last measurement of every line that was run, compared with another of the same run."""
    heads = ("", "target", "time", "memory", "floor", "× floor", "compared with", "commit")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for line in LINES:
        found = latest(line.problem, line.contender)
        if found is None:
            cells = (line.what, line.target, "not run", "–", "–" if line.floor is None else _time(line.floor), "–", "–", "–")
            lines.append(f"| {' | '.join(cells)} |")
            continue
        (run, row), beside = found, "–"
        if line.against is not None:
            (other,) = (r for r in run["rows"] if r["problem"] == row["problem"] and r["contender"] == line.against)
            ratio = other["seconds"] / row["seconds"]
            beside = f"{line.against} {_time(other['seconds'])}{_spread(other)}, {_memory(other)}: **{ratio:.1f}×**"
        cells = (
            line.what,
            line.target,
            f"**{_time(row['seconds'])}**{_spread(row)}",
            _memory(row),
            "–" if line.floor is None else _time(line.floor),
            "–" if line.floor is None else f"{row['seconds'] / line.floor:.1f}",
            beside,
            run["commit"],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def latest(problem: dict[str, Any], contender: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    kind = "epoch" if "graph" in problem else "objective"
    found = [
        (run, row)
        for run in read(ROOT / "benchmarks" / "results" / f"{kind}.json")
        for row in run["rows"]
        if row["contender"] == contender and row["seconds"] is not None and problem.items() <= row["problem"].items()
    ]
    return found[-1] if found else None


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.5 else f"{1e3 * seconds:.3g} ms"


def _spread(row: dict[str, Any]) -> str:
    """Where it is more than a tenth."""
    close = row["slowest"] < 1.1 * row["fastest"]
    return "" if close else f" ({_time(row['fastest'])} to {_time(row['slowest'])})"


def _memory(row: dict[str, Any]) -> str:
    return f"{row['peak_bytes'] / 2**30:.2f} GiB"


def page(text: str) -> str:
    """The page with the current table."""
    before, rest = text.split(START)
    return before + START + table() + rest[rest.index(END) :]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
