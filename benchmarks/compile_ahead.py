"""Compile every fused kernel with its tiles for the GPUs people have, without one: what each needs must fit there.

    python -m benchmarks.compile_ahead [--target 8.6 ...] [--width 256 ...] [--precision bf16 ...] [--write]

Triton brings the compiler. ``--write`` puts all rows into benchmarks/results/compile_ahead.json. ``stack`` is where a thread
keeps what its registers do not hold, in bytes: with many of them a kernel is slow.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from graphkin.objectives.kernels.fused import kinship_programs, programs
from graphkin.objectives.kernels.fused.operands import INPUT_PRECISION
from graphkin.objectives.kernels.fused.tiles import (
    HOPPER,
    KIB,
    Chip,
    Tiles,
    gradient_tiles,
    kinship_gradient_tiles,
    sums_tiles,
)
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "compile_ahead.json"
TARGETS = {
    "8.0": Chip(163 * KIB, describes=False),
    "8.6": Chip(99 * KIB, describes=False),
    "8.9": Chip(99 * KIB, describes=False),
    "9.0": HOPPER,
    "10.0": Chip(227 * KIB, tensor_memory=True),
    "12.0": Chip(99 * KIB),
}
WIDTHS, PRECISIONS = (128, 256), ("bf16", "tf32", "float32")
TENSOR_MEMORY = 512
"""columns"""
WEIGHTED = {"ATTRACT": True, "REPEL": True, "SERIES": True}
OF_EACH_NODE = {**WEIGHTED, "SHARED": False}
KERNELS: dict[str, tuple[Any, Callable[[int, str, Chip], Tiles], dict[str, bool]]] = {
    "sums": (programs.sums_kernel, sums_tiles, WEIGHTED),
    "gradients": (programs.gradients_kernel, gradient_tiles, {**OF_EACH_NODE, "TURNED": False}),
    "gradients, turned": (programs.gradients_kernel, gradient_tiles, {**OF_EACH_NODE, "TURNED": True}),
    "kinship sums": (kinship_programs.sums_kernel, sums_tiles, {}),
    "kinship gradients": (kinship_programs.gradients_kernel, kinship_gradient_tiles, {}),
}
"""each with its tiles and the constants that need most"""
POINTERS = ("sums", "gradients", "inverses", "row_numbers", "column_numbers", "row_inverses", "column_inverses")
TYPES = {**dict.fromkeys(POINTERS, "*fp32"), "row_nodes": "*i32", "column_nodes": "*i32", "steepness": "fp32", "factor": "fp32"}


@dataclass(frozen=True)
class Row:
    target: str
    kernel: str
    precision: str
    width: int
    tiles: list[int]
    shared: int
    tensor_memory: int
    registers: int
    stack: int

    @property
    def fits(self) -> bool:
        return self.shared <= TARGETS[self.target].shared and self.tensor_memory <= TENSOR_MEMORY


def compiled(target: str, kernel: str, precision: str, width: int) -> Row:
    chip = TARGETS[target]
    program, tiles_of, constants = KERNELS[kernel]
    tiles = tiles_of(width, precision, chip)
    options = {"num_warps": tiles.warps}
    given = {"WIDTH": width, "PRECISION": INPUT_PRECISION[precision], "DESCRIBED": chip.describes, **constants}
    given |= {name: value for name, value in tiles.constants.items() if name not in options}
    operand = "bf16" if precision == "bf16" else "fp32"
    pairs = (tiles.columns, tiles.rows) if constants.get("TURNED") else (tiles.rows, tiles.columns)
    types = TYPES | {
        "rows": _in_tiles(operand, chip, 1, tiles.rows, width),
        "columns": _in_tiles(operand, chip, 1, tiles.columns, width),
        "similarity": _in_tiles("fp32", chip, *pairs),
    }
    signature = {name: "constexpr" if name in given else types.get(name, "i32") for name in program.arg_names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, (name, kind) in enumerate(signature.items())
        if kind.startswith("*") or name == "stride"
    }
    source = ASTSource(program, signature, given, aligned)
    binary = triton.compile(source, target=GPUTarget("cuda", int(target.replace(".", "")), 32), options=options)
    needed = binary.metadata
    return Row(target, kernel, precision, width, list(tiles), needed.shared, needed.tmem_size, *_registers(binary.asm["cubin"]))


def _in_tiles(kind: str, chip: Chip, *tile: int) -> str:
    return f"tensordesc<{kind}{list(tile)}>" if chip.describes else f"*{kind}"


def _registers(cubin: bytes) -> tuple[int, int]:
    """Registers of a thread, and bytes of its stack."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


def rows(targets: list[str], widths: list[int], precisions: list[str]) -> Iterator[Row]:
    for target in targets:
        for width in widths:
            for precision in precisions:
                for kernel in KERNELS:
                    yield compiled(target, kernel, precision, width)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--width", nargs="+", type=int, default=list(WIDTHS))
    parser.add_argument("--precision", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    found = []
    for row in rows(asked.target, asked.width, asked.precision):
        found.append(row)
        print(f"{'fits' if row.fits else 'TOO LARGE'}: {row}", flush=True)
    if asked.write:
        write_json(RESULTS, {"commit": commit(), **environment(), "rows": [asdict(row) for row in found]})
    sys.exit(not all(row.fits for row in found))


if __name__ == "__main__":
    main()
