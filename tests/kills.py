"""Kill graphkin at random points, start it again, and compare what it ends with: ``python -m tests.kills 100``.

Three commands are killed: ``fit``, ``reproduce --jobs 2``, and ``fit`` in two processes of torchrun. Each runs undisturbed
first, twice. Then come chains: the command is killed by SIGKILL one to four times, at moments drawn uniformly over the time
that it takes, and started again at once; then it may finish. What it leaves, down to the list of its files, must be what the
undisturbed run left, and no process may be left behind. A command that finishes before its moment was not killed, and does not
count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from safetensors import SafetensorError
from safetensors.numpy import load_file

ROOT = Path(__file__).parents[1]
MARK = "GRAPHKIN_KILLS"
"""environment variable by which the processes of a command are known, wherever they come from"""
MOST_KILLS = 4
"""in a chain"""
PATIENCE = 120
"""seconds for a command whose worker was killed to end, and for orphans to notice that they are"""
ENOUGH = 10
"""chains that end differently, after which it is pointless to go on"""
WITHIN = 1e-5
"""of the largest number, where undisturbed runs differ from each other too"""
NOT_COMPARED = ("seconds", "finished", "versions", "machine")
"""in run.json: when and where it was made"""
COLUMNS = ("test", "val", "losses", "kernel")
"""of a store's runs"""
EXPERIMENT = """
title = "Two methods on a small graph"
protocol = "grace"
seeds = 2
datasets = ["synthetic-300"]
measures = ["10 %"]
[[rows]]
name = "GRACE"
method = "grace"
settings = { hidden = 32 }
[[rows]]
name = "GRACE+"
method = "grace+"
settings = { hidden = 32 }
"""

Result = dict[str, Any]
"""arrays and texts by name"""


@dataclass(frozen=True)
class Scenario:
    name: str
    arguments: tuple[str, ...]
    """of Python, in a folder of its own"""
    result: Callable[[Path], Result]
    stage: Callable[[Path], str]
    victims: tuple[str, ...]
    """to draw from: main, worker, or all processes"""


@dataclass(frozen=True)
class Undisturbed:
    result: Result
    seconds: float
    exact: bool
    """whether two undisturbed runs were the same, bit for bit"""


@dataclass(frozen=True)
class Kill:
    victim: str
    after: float
    """seconds from the start"""
    stage: str
    """what was on disk"""
    half_written: bool
    """a temporary file was left"""


@dataclass
class Tally:
    asked: int
    undisturbed: Undisturbed
    kills: list[Kill] = field(default_factory=list)
    chains: int = 0
    troubles: list[str] = field(default_factory=list)
    different: int = 0

    @property
    def fine(self) -> bool:
        return len(self.kills) == self.asked and not self.different

    def as_dict(self) -> dict[str, Any]:
        return {
            "kills": len(self.kills),
            "chains": self.chains,
            "equal": self.chains - self.different,
            "different": self.different,
            "compared": "bit for bit" if self.undisturbed.exact else f"within {WITHIN}",
            "seconds_undisturbed": round(self.undisturbed.seconds, 1),
            "on_disk": dict(Counter(kill.stage for kill in self.kills).most_common()),
            "killed": dict(Counter(kill.victim for kill in self.kills).most_common()),
            "half_written": sum(kill.half_written for kill in self.kills),
            "troubles": self.troubles,
        }


def result_of_fit(folder: Path) -> Result:
    """Embeddings, the model's tensors, the run file less times and versions, and which files there are."""
    run = folder / "run"
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    record["graph"]["source"].pop("folder")
    losses = np.array(record.pop("losses"))
    return {
        "embeddings": np.load(run / "embeddings.npy", allow_pickle=False),
        **{f"model {name}": value for name, value in load_file(run / "model.graphkin").items()},
        "losses": losses,
        **{f"run.json {name}": json.dumps(value) for name, value in record.items() if name not in NOT_COMPARED},
        "files": files_of(folder),
    }


def result_of_reproduce(folder: Path) -> Result:
    """What every run gave, by task and seed, and which files there are."""
    with closing(sqlite3.connect(folder / "results.sqlite")) as database:
        runs = database.execute(f"SELECT task, seed, {', '.join(COLUMNS)} FROM runs").fetchall()
        (claims,) = database.execute("SELECT count(*) FROM claims").fetchone()
    found = {
        f"{task} {seed} {name}": str(value) for task, seed, *rest in runs for name, value in zip(COLUMNS, rest, strict=True)
    }
    return {**found, "number of runs": str(len(runs)), "claims": str(claims), "files": files_of(folder)}


def files_of(folder: Path) -> str:
    return " ".join(sorted(str(path.relative_to(folder)) for path in folder.rglob("*")))


def differences(found: Result, wanted: Result, *, exact: bool = True) -> list[str]:
    """The names under which two results differ. Scores count nodes, so that they are compared only bit for bit."""
    names = [name for name in sorted(found.keys() | wanted.keys()) if exact or name != "run.json scores"]
    return [name for name in names if not _same(found.get(name), wanted.get(name), exact)]


def _same(one: Any, other: Any, exact: bool) -> bool:
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if exact:
        return one.tobytes() == other.tobytes()
    return bool(np.allclose(one, other, rtol=0, atol=WITHIN * np.abs(other).max()))


def stage_of_fit(folder: Path) -> str:
    run = folder / "run"
    for stage, pattern in (
        ("run file", "run.json"),
        ("model", "model.graphkin"),
        ("checkpoint", "checkpoint.graphkin"),
        ("pageranks", "*.pagerank/*/*.npz"),
    ):
        if any(run.glob(pattern)):
            return stage
    return "nothing yet"


def stage_of_reproduce(folder: Path) -> str:
    store = folder / "results.sqlite"
    if not store.exists():
        return "nothing yet"
    try:  # immutable: a look must not roll back what the killed process left behind
        with closing(sqlite3.connect(f"{store.as_uri()}?immutable=1", uri=True)) as database:
            (runs,) = database.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.DatabaseError:
        runs = 0
    checkpoints = [path for path in folder.glob("*.checkpoints/*") if not path.name.startswith(".")]
    return "finished runs" if runs else "checkpoint" if checkpoints else "store"


FIT = (
    *("--device", "cpu", "--checkpoint-every", "5", "--splits", "2", "--out", "run"),
    *("--set", "top_k=8", "--set", "steps=none", "--set", "hidden=64"),
)
SCENARIOS = (
    Scenario("fit", ("-m", "graphkin", "fit", "synthetic-400", "--epochs", "60", *FIT), result_of_fit, stage_of_fit, ("main",)),
    Scenario(
        "reproduce --jobs 2",
        (
            *("-m", "graphkin", "reproduce", "experiment.toml", "--jobs", "2", "--epochs", "60", "--device", "cpu"),
            *("--checkpoint-every", "3", "--store", "results.sqlite", "--quiet"),
        ),
        result_of_reproduce,
        stage_of_reproduce,
        ("main", "main", "worker", "all"),
    ),
    Scenario(
        "torchrun, 2 processes",
        (
            *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
            *("-m", "graphkin", "fit", "synthetic-300", "--method", "grace+", "--epochs", "40", *FIT),
        ),
        result_of_fit,
        stage_of_fit,
        ("worker", "worker", "worker", "all"),
    ),
)


class Attempt:
    """One start of a scenario's command in a folder, by which its processes are found."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.folder, self.said = folder, folder.with_suffix(".stderr")
        temporary = folder.with_suffix(".tmp")
        temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            MARK: str(folder),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(temporary),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        }
        self.start = time.monotonic()
        with self.said.open("wb") as said:
            command = [sys.executable, *scenario.arguments]
            how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": said}
            self.process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **how)

    def ended(self, within: float) -> bool:
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def words(self) -> str:
        return self.said.read_text(encoding="utf-8", errors="replace")

    def finished(self) -> bool:
        """Done, or refused because an earlier start had done all but end."""
        return self.process.returncode == 0 or "already holds a run" in self.words()

    def was_killed(self) -> bool:
        """By us, and not done before: by the signal itself, or because it lost a worker."""
        return self.process.returncode < 0 or not self.finished()

    def kill(self, victim: str, draw: random.Random) -> str:
        """Kill -9, all where there is no worker yet. Who it was."""
        processes = processes_of(self.folder)
        workers = [found for found in processes if found.pid != self.process.pid and not _is_tracker(found)]
        if victim == "worker" and workers:
            _kill(draw.choice(workers))
            return "worker"
        if victim == "main":
            self.process.kill()
            return "main"
        self.process.kill()
        for found in processes:
            _kill(found)
        return "all"


def processes_of(folder: Path) -> list[Any]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def _is_tracker(process: Any) -> bool:
    """A process that multiprocessing starts to clean up after the others."""
    try:
        return any("resource_tracker" in part for part in process.cmdline())
    except psutil.Error:
        return True


def _kill(process: Any) -> None:
    with suppress(psutil.Error):
        process.kill()


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that are there even after a while."""
    end = time.monotonic() + PATIENCE
    while (found := processes_of(folder)) and time.monotonic() < end:
        time.sleep(0.2)
    lines = []
    for process in found:
        with suppress(psutil.Error):
            lines.append("left behind: " + " ".join(process.cmdline()))
    return lines


def end_all(folder: Path) -> None:
    for process in processes_of(folder):
        _kill(process)


def new_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    (folder / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    return folder


def undisturbed(scenario: Scenario, parent: Path) -> Undisturbed:
    """The result, and how long it takes once everything is compiled and cached."""
    results = []
    seconds = 0.0
    for name in ("first", "second"):
        attempt = Attempt(scenario, new_folder(parent, name))
        try:
            attempt.process.wait()
        finally:
            end_all(attempt.folder)
        seconds = time.monotonic() - attempt.start
        if attempt.process.returncode:
            raise RuntimeError(f"{scenario.name} fails without being killed: {attempt.words()}")
        results.append(scenario.result(parent / name))
    return Undisturbed(results[0], seconds, not differences(*results))


def chain(
    scenario: Scenario, folder: Path, wanted: Undisturbed, most: int, draw: random.Random
) -> tuple[list[Kill], list[str]]:
    """Kill, start again, ..., finish, compare: the kills, and what is wrong in the end."""
    kills: list[Kill] = []
    planned = min(most, draw.randint(1, MOST_KILLS))
    try:
        while True:
            attempt = Attempt(scenario, folder)
            killing = len(kills) < planned
            moment = draw.uniform(0, wanted.seconds) if killing else 10 * wanted.seconds + PATIENCE
            if not attempt.ended(moment):
                if not killing:
                    return kills, [f"it did not finish within {moment:.0f} s"]
                victim, after = attempt.kill(draw.choice(scenario.victims), draw), time.monotonic() - attempt.start
                if not attempt.ended(PATIENCE):
                    return kills, [f"it did not end within {PATIENCE} s after a {victim} was killed at {after:.1f} s"]
                if attempt.was_killed():
                    half = any(path.name.startswith(".") for path in folder.rglob("*"))
                    kills.append(Kill(victim, after, scenario.stage(folder), half))
                    continue
            if attempt.finished():
                break
            return kills, [f"it cannot go on: {attempt.words()[-500:]}"]
        return kills, left_behind(folder) + _unlike(scenario.result(folder), wanted)
    except (OSError, ValueError, KeyError, SafetensorError, sqlite3.DatabaseError) as error:
        return kills, [f"its result cannot be read: {error!r}"]
    finally:
        end_all(folder)


def _unlike(found: Result, wanted: Undisturbed) -> list[str]:
    lines = []
    for name in differences(found, wanted.result, exact=wanted.exact):
        values = [value[name] if isinstance(value.get(name), str) else "" for value in (found, wanted.result)]
        lines.append(f"different: {name}" + (f" (found {values[0]}, wanted {values[1]})" if any(values) else ""))
    return lines


def kill_often(scenario: Scenario, number: int, parent: Path, draw: random.Random) -> Tally:
    parent.mkdir()
    tally = Tally(number, undisturbed(scenario, parent))
    say(f"{scenario.name}: {tally.undisturbed.seconds:.1f} s undisturbed")
    while len(tally.kills) < number and tally.chains < 5 * number and tally.different < ENOUGH:
        tally.chains += 1
        folder, start = new_folder(parent, f"chain-{tally.chains}"), time.monotonic()
        kills, troubles = chain(scenario, folder, tally.undisturbed, number - len(tally.kills), draw)
        tally.kills += kills
        if not kills and not troubles:  # it takes less time than it did, perhaps because the machine has less to do
            seconds = min(tally.undisturbed.seconds, time.monotonic() - start)
            tally.undisturbed = replace(tally.undisturbed, seconds=seconds)
        told = ", ".join(f"{kill.victim} after {kill.after:.1f} s ({kill.stage})" for kill in kills)
        say(f"{scenario.name}, {len(tally.kills)} of {number} kills: {told or 'none in time'}")
        if troubles:
            tally.different += 1
            tally.troubles += [f"{folder.name} ({told}): {trouble}" for trouble in troubles]
            say("\n".join(troubles))
        else:
            for path in (folder, folder.with_suffix(".tmp")):
                shutil.rmtree(path, ignore_errors=True)
    return tally


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def table(tallies: dict[str, Tally]) -> str:
    lines = [f"{'command':24}{'kills':>7}{'chains':>8}{'equal':>7}{'different':>11}  compared"]
    for name, tally in tallies.items():
        row = tally.as_dict()
        numbers = f"{row['kills']:7}{row['chains']:8}{row['equal']:7}{row['different']:11}"
        lines.append(f"{name:24}{numbers}  {row['compared']}")
        for title, counts in (("on disk", row["on_disk"]), ("killed", row["killed"])):
            lines.append(f"  {title}: " + ", ".join(f"{what} {count}" for what, count in counts.items()))
        lines.append(f"  in the middle of writing a file: {row['half_written']}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kills", type=int, help="how many in all, shared by three commands")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of who is killed")
    parser.add_argument("--json", type=Path, help="write the outcome to this file too")
    parser.add_argument("--only", choices=[scenario.name.split()[0].strip(",") for scenario in SCENARIOS], help="one command")
    given = parser.parse_args()
    chosen = [scenario for scenario in SCENARIOS if given.only is None or scenario.name.startswith(given.only)]
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="graphkin-kills-"))
    tallies = {}
    for place, scenario in enumerate(chosen):
        number = given.kills // len(chosen) + (place < given.kills % len(chosen))
        tallies[scenario.name] = kill_often(
            scenario, number, folder / str(place), random.Random(f"{given.seed} {scenario.name}")
        )
    seconds = time.monotonic() - start
    print(table(tallies))
    print(f"{seconds / 60:.1f} minutes")
    fine = all(tally.fine for tally in tallies.values())
    if fine:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"not all is well; the folders of what was different are in {folder}")
    if given.json is not None:
        packages = ("graphkin", "torch", "numpy", "safetensors")
        versions = {"python": platform.python_version(), **{name: version(name) for name in packages}}
        outcome = {"asked": given.kills, "seed": given.seed, "seconds": round(seconds, 1), "versions": versions}
        outcome["commands"] = {name: tally.as_dict() for name, tally in tallies.items()}
        given.json.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
