"""``python -m tests.fuzz N``: cases in several processes, and what came out of them.

A worker that dies or hangs costs its case alone: the parent notes it and starts another worker behind it.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

Tell = Callable[[dict[str, Any]], None]


def work(seeds: range) -> None:
    """One JSON line before each case and one after it, on a stream that no case can write to."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stream:
        os.dup2(2, 1)
        from tests.fuzz import TooLongError, one_case
        from tests.fuzz.sources import originals

        originals()

        def tell(record: dict[str, Any]) -> None:
            stream.write(json.dumps(record) + "\n")
            stream.flush()

        for seed in seeds:
            tell({"begins": seed})
            start = time.perf_counter()
            try:
                record: dict[str, Any] = {"outcome": one_case(seed)}
            except AssertionError as error:
                record = {"failure": str(error), "kind": "hang" if isinstance(error, TooLongError) else "broken promise"}
            tell({"seed": seed, "seconds": round(time.perf_counter() - start, 3), **record})


def shift(seeds: range, tell: Tell) -> None:
    """Workers one after the other until every seed has had its case."""
    while seeds:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", *map(str, (seeds.start, seeds.stop, seeds.step))]
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            root = Path(__file__).parents[2]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=root) as worker:
                at, begun = seeds.start, False
                assert worker.stdout is not None
                for line in worker.stdout:
                    record = json.loads(line)
                    at, begun = record.get("begins", at), True
                    if "seed" in record:
                        tell(record)
                        at += seeds.step
            errors.seek(0)
            said = errors.read()
        if at >= seeds.stop:
            return
        kind = "hang" if "Timeout (" in said else "crash"
        failure = f"seed {at}: {kind}, status {worker.returncode}\n{said[-6000:]}"
        tell({"seed": at, "seconds": 0.0, "kind": kind, "failure": failure})
        if not begun:  # nor would the next one
            return
        seeds = range(at + seeds.step, seeds.stop, seeds.step)


def all_cases(first: int, count: int, workers: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    lock = threading.Lock()

    def tell(record: dict[str, Any]) -> None:
        with lock:
            records.append(record)
            if "failure" in record:
                print("\n".join(last_lines(record["failure"])), file=sys.stderr, flush=True)
            if len(records) % 500 == 0:
                print(f"{len(records)} of {count} cases", file=sys.stderr, flush=True)

    shares = [range(first + i, first + count, workers) for i in range(workers)]
    threads = [threading.Thread(target=shift, args=(share, tell), daemon=True) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(records, key=lambda record: int(record["seed"]))


def last_lines(failure: str) -> list[str]:
    """The first line of a failure, where in graphkin it was, and the last ones."""
    lines = [line for line in failure.splitlines() if line.strip()]
    places = [line.strip() for line in lines if 'File "' in line and "graphkin/" in line]
    if "most recent call first" in failure:
        places.reverse()
    errors = [line for line in lines[1:] if re.match(r"[\w.]+(Error|Exception|Exit|Interrupt)\b", line)]
    chosen = dict.fromkeys([lines[0], *places[-1:], *errors[-1:], *lines[-1:]])
    return ["".join(char if char.isprintable() else "?" for char in line[:300]) for line in chosen]


def summary(records: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    passed = [record["outcome"] for record in records if "outcome" in record]
    failed = [record for record in records if "failure" in record]
    return {
        "cases": len(records),
        "passed": len(passed),
        "failed": len(failed),
        "by_family": dict(collections.Counter(outcome.partition(":")[0] for outcome in passed).most_common()),
        "by_outcome": dict(collections.Counter(passed).most_common()),
        "failing_seeds": {record["seed"]: record["kind"] for record in failed},
        "slowest": {record["seed"]: record["seconds"] for record in sorted(records, key=lambda r: -r["seconds"])[:5]},
        "seconds": round(seconds, 1),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("graphkin", "torch", "numpy")}},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("cases", type=int, nargs="?", default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", type=Path, help="also write counts, versions and failing seeds to this file")
    parser.add_argument("--worker", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(range(*options.worker))
        return 0
    start = time.perf_counter()
    records = all_cases(options.first, options.cases, max(min(options.workers, options.cases), 1))
    found = summary(records, time.perf_counter() - start)
    for what in ("by_outcome", "by_family"):
        for name, count in found[what].items():
            print(f"{count:6d}  {name}")
        print()
    for record in records:
        if "failure" in record:
            print(*last_lines(record["failure"]), sep="\n  ")
    print(f"{found['passed']} cases passed, {found['failed']} failed in {found['seconds']:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
