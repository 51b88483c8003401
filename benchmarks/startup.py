"""How long it takes to start: ``import graphkin`` and the program's help against ``import torch``, in one run.

    python -m benchmarks.startup

Every program runs in a process of its own, once to fill the disk's cache and then ``--repeats`` times, in turns. Prints the
medians and adds its rows to benchmarks/results/startup.json.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from graphkin.bench import Results, Row

RESULTS = Path(__file__).parent / "results" / "startup.json"
PROGRAMS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import graphkin": ["-c", "import graphkin"],
    "import graphkin; graphkin.Graph": ["-c", "import graphkin; graphkin.Graph"],
    "import graphkin; graphkin.fit": ["-c", "import graphkin; graphkin.fit"],
    "import graphkin; graphkin.evaluate": ["-c", "import graphkin; graphkin.evaluate"],
    "import torch; one step of Adam": [
        "-c",
        "import torch; p = torch.zeros(1, requires_grad=True); a = torch.optim.Adam([p]); p.sum().backward(); a.step()",
    ],
    "graphkin --version": ["-m", "graphkin", "--version"],
    "graphkin --help": ["-m", "graphkin", "--help"],
    "graphkin fit --help": ["-m", "graphkin", "fit", "--help"],
    "graphkin datasets": ["-m", "graphkin", "datasets"],
}


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    for arguments in PROGRAMS.values():
        seconds(arguments)
    rounds = [{name: seconds(arguments) for name, arguments in PROGRAMS.items()} for _ in range(given.repeats)]
    times = {name: [measured[name] for measured in rounds] for name in PROGRAMS}
    torch = statistics.median(times["import torch"])
    results = Results(RESULTS)
    for name, found in times.items():
        median = statistics.median(found)
        results.add(Row({"repeats": given.repeats}, name, None, median, min(found), max(found)))
        print(f"{name:36}{median:7.2f} s ({min(found):.2f} to {max(found):.2f}), {median / torch:5.2f} of import torch")


if __name__ == "__main__":
    main()
