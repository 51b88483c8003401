"""Time the fused kernels over tile shapes on this GPU: how the numbers in ``kernels/fused/tiles.py`` were chosen.

Run it as ``python -m benchmarks.tune_fused [--nodes 19717] [--width 256] [--precision bf16] [--kinship]``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from graphkin.objectives.kernels.fused import tiles as cut
from graphkin.objectives.kernels.fused.kinship import gradients_of, sums_of
from graphkin.objectives.kernels.fused.operands import operands
from graphkin.objectives.kernels.fused.pairs import Pairs, Side, numbers_of
from graphkin.objectives.kernels.fused.tiles import Tiles
from graphkin.objectives.kernels.kinship import Form
from graphkin.similarity import Stored
from graphkin.weights import Attraction, NodeWeights, Repulsion

SUMS = [(128, 64, 8, 2), (256, 32, 8, 2), (128, 32, 8, 3), (128, 32, 4, 2), (128, 128, 8, 2), (256, 64, 8, 2), (128, 64, 8, 3)]
GRADIENTS = [(128, 32, 8, 2), (128, 32, 8, 3), (64, 32, 4, 2), (128, 64, 8, 2), (64, 64, 4, 2), (128, 64, 8, 3)]

Call = Callable[[], torch.Tensor]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def problem(nodes: int, width: int, precision: str, dtype: torch.dtype, per_anchor: bool) -> tuple[Pairs, Side]:
    draw = torch.Generator(device=DEVICE).manual_seed(0)
    views = torch.nn.functional.normalize(torch.randn(2, nodes, width, device=DEVICE, generator=draw), dim=2)
    similarity = torch.rand(nodes, nodes, device=DEVICE, generator=draw).square_().to(dtype)
    stored = Stored(similarity, symmetric=True).stored()
    tau = torch.full((nodes,), 0.3, device=DEVICE) if per_anchor else 0.3
    weights = NodeWeights(Attraction(stored, tau), Repulsion(stored, tau), nodes, DEVICE).functions
    assert weights is not None
    side = Side(
        operands(views[0], views[1], precision),
        torch.arange(nodes, dtype=torch.int32, device=DEVICE),
        numbers_of(weights).functions,
        inverses=torch.rand(2, 2, nodes, device=DEVICE) / nodes,
    )
    return Pairs(weights, True, 0.4, precision), side


def calls(nodes: int, width: int, precision: str, dtype: torch.dtype, per_anchor: bool, kinship: bool) -> dict[str, Call]:
    """What is timed, by the name of the function that gives its tiles."""
    pairs, side = problem(2 if kinship else nodes, width, precision, dtype, per_anchor)
    if not kinship:
        return {"sums_tiles": lambda: pairs.sums(side, side), "gradient_tiles": lambda: pairs.gradients(side, side, 1.0)}
    views = torch.nn.functional.normalize(torch.randn(2, nodes, width, device=DEVICE), dim=2)
    z, form = operands(views[0], views[1], precision), Form(0.4, precision=precision)
    inverses = torch.rand(2, nodes, device=DEVICE) / nodes
    return {
        "sums_tiles": lambda: sums_of(z, 1, form),
        "kinship_gradient_tiles": lambda: gradients_of(z, inverses, 1.0, form),
    }


def milliseconds(call: Call, tiles_of: str, tiles: Tiles, repeats: int = 5) -> float:
    setattr(cut, tiles_of, lambda width, precision, chip: tiles)
    times = []
    for _ in range(repeats + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)))
    return sorted(times[1:])[repeats // 2]


def compiled(job: tuple[str, tuple[int, int, int, int], int, str, torch.dtype, bool, bool]) -> None:
    tiles_of, tiles, width, precision, dtype, per_anchor, kinship = job
    try:
        call = calls(1027, width, precision, dtype, per_anchor, kinship)[tiles_of]
        milliseconds(call, tiles_of, Tiles(*tiles), repeats=1)
    except Exception:  # out of shared memory or registers: reported when it is timed
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=19717)
    parser.add_argument("--width", type=int, nargs="+", default=[256])
    parser.add_argument("--precision", nargs="+", default=["bf16"])
    parser.add_argument("--similarity", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--per-anchor", action="store_true", help="a temperature for each anchor")
    parser.add_argument("--kinship", action="store_true", help="the kernels of Kinship")
    options = parser.parse_args()
    dtype = getattr(torch, options.similarity)
    studies = [(width, precision) for precision in options.precision for width in options.width]
    of_gradient = "kinship_gradient_tiles" if options.kinship else "gradient_tiles"
    shapes = [("sums_tiles", tiles) for tiles in SUMS] + [(of_gradient, tiles) for tiles in GRADIENTS]
    jobs = [
        (tiles_of, tiles, width, precision, dtype, options.per_anchor, options.kinship)
        for width, precision in studies
        for tiles_of, tiles in shapes
    ]
    with ProcessPoolExecutor(12, mp_context=get_context("spawn")) as pool:
        list(pool.map(compiled, jobs))
    for width, precision in studies:
        timed = calls(options.nodes, width, precision, dtype, options.per_anchor, options.kinship)
        found = []
        for tiles_of, tiles in shapes:
            kernel = tiles_of.removesuffix("_tiles").replace("_", " ")
            try:
                found.append((kernel, milliseconds(timed[tiles_of], tiles_of, Tiles(*tiles)), tiles))
            except Exception as error:
                print(f"{precision} {width} {kernel} {tiles}: {type(error).__name__}")
                torch.cuda.synchronize()
        for kernel, time, tiles in sorted(found):
            print(f"{precision} d={width} N={options.nodes} {kernel:16} {time:8.3f} ms {tiles}", flush=True)


if __name__ == "__main__":
    main()
