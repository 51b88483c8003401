"""Time the fused kernels over tile shapes on this GPU: how the numbers in ``kernels/fused/tiles.py`` were chosen.

Run it as ``python -m benchmarks.tune_fused [--nodes 19717] [--width 256] [--precision bf16]``.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

from graphkin.objectives.kernels.fused import tiles as cut
from graphkin.objectives.kernels.fused.operands import operands
from graphkin.objectives.kernels.fused.pairs import Pairs, Side, numbers_of
from graphkin.objectives.kernels.fused.tiles import Tiles
from graphkin.similarity import Stored
from graphkin.weights import Attraction, NodeWeights, Repulsion

SUMS = [(128, 64, 8, 2), (256, 32, 8, 2), (128, 32, 8, 3), (128, 32, 4, 2), (128, 128, 8, 2), (256, 64, 8, 2), (128, 64, 8, 3)]
GRADIENTS = [(128, 32, 8, 2), (128, 32, 8, 3), (64, 32, 4, 2), (128, 64, 8, 2), (64, 64, 4, 2), (128, 64, 8, 3)]

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


def milliseconds(pairs: Pairs, side: Side, kernel: str, tiles: Tiles, repeats: int = 5) -> float:
    setattr(cut, f"{kernel}_tiles", lambda width, precision, chip: tiles)

    def call() -> torch.Tensor:
        return pairs.sums(side, side) if kernel == "sums" else pairs.gradients(side, side, 1.0)

    times = []
    for _ in range(repeats + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)))
    return sorted(times[1:])[repeats // 2]


def compiled(job: tuple[str, tuple[int, int, int, int], int, str, torch.dtype, bool]) -> None:
    kernel, tiles, width, precision, dtype, per_anchor = job
    try:
        milliseconds(*problem(1027, width, precision, dtype, per_anchor), kernel, Tiles(*tiles), repeats=1)
    except Exception:  # out of shared memory or registers: reported when it is timed
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=19717)
    parser.add_argument("--width", type=int, nargs="+", default=[256])
    parser.add_argument("--precision", nargs="+", default=["bf16"])
    parser.add_argument("--similarity", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--per-anchor", action="store_true", help="a temperature for each anchor")
    options = parser.parse_args()
    dtype = getattr(torch, options.similarity)
    studies = [(width, precision) for precision in options.precision for width in options.width]
    shapes = [("sums", tiles) for tiles in SUMS] + [("gradient", tiles) for tiles in GRADIENTS]
    jobs = [
        (kernel, tiles, width, precision, dtype, options.per_anchor) for width, precision in studies for kernel, tiles in shapes
    ]
    with ProcessPoolExecutor(12, mp_context=get_context("spawn")) as pool:
        list(pool.map(compiled, jobs))
    for width, precision in studies:
        pairs, side = problem(options.nodes, width, precision, dtype, options.per_anchor)
        found = []
        for kernel, tiles in shapes:
            try:
                found.append((kernel, milliseconds(pairs, side, kernel, Tiles(*tiles)), tiles))
            except Exception as error:
                print(f"{precision} {width} {kernel} {tiles}: {type(error).__name__}")
                torch.cuda.synchronize()
        for kernel, time, tiles in sorted(found):
            print(f"{precision} d={width} N={options.nodes} {kernel:9} {time:8.3f} ms {tiles}", flush=True)


if __name__ == "__main__":
    main()
