"""The workflows name targets, programs, commands and Python versions that there are."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from packaging.specifiers import SpecifierSet

from graphkin.commands.app import app
from tests.wheels import PROJECT, ROOT

WORKFLOWS = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").iterdir()}
TARGETS = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
VERSION = "Programming Language :: Python :: 3."
PYTHONS = [entry.removeprefix(VERSION) for entry in PROJECT["classifiers"] if entry.startswith(VERSION)]
OURS = ("actions/", "pypa/")


def jobs() -> list[Any]:
    return [pytest.param(job, id=f"{file}-{name}") for file, flow in WORKFLOWS.items() for name, job in flow["jobs"].items()]


def test_there_are_tests_docs_and_a_release() -> None:
    assert set(WORKFLOWS) == {"tests.yml", "docs.yml", "release.yml"}


@pytest.mark.parametrize("job", jobs())
def test_commands_exist(job: dict[str, Any]) -> None:
    for step in job["steps"]:
        for line in step.get("run", "").splitlines():
            for words in [shlex.split(line), *(shlex.split(inner) for inner in re.findall(r"\$\((.+?)\)", line))]:
                check_command(words)


def check_command(words: list[str]) -> None:
    program, *rest = words
    if program == "make":
        assert set(rest) <= TARGETS
    elif program == "python":
        assert rest[0] == "-m" and importlib.util.find_spec(rest[1]) is not None
    elif program.startswith(".venv/bin/") and program != ".venv/bin/graphkin":
        assert Path(sys.executable).with_name(Path(program).name).exists()
    elif Path(program).name == "graphkin":
        check_graphkin(rest)
    else:
        assert program == "test"


def check_graphkin(words: list[str]) -> None:
    group: Any = typer.main.get_command(app)
    command = group if words[0].startswith("--") else group.commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("job", jobs())
def test_jobs_end_and_may_do_little(job: dict[str, Any]) -> None:
    assert job["timeout-minutes"] <= 90
    granted = job.get("permissions", {})
    assert set(granted) <= {"pages", "id-token"}
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(action.startswith(OURS) and re.search(r"@(v\d+|release/v\d+)$", action) for action in actions)
    checked_out = any(action.startswith("actions/checkout") for action in actions)
    assert not (checked_out and granted), "a job that runs the project's code has no rights"


@pytest.mark.parametrize("flow", WORKFLOWS.values(), ids=WORKFLOWS)
def test_a_workflow_reads_and_runs_once_for_a_change(flow: dict[str, Any]) -> None:
    assert flow["permissions"] == {"contents": "read"}
    assert "github.ref" in flow["concurrency"]["group"]


def test_tests_run_on_every_python_that_is_declared() -> None:
    assert [f"3.{minor}" for minor in PYTHONS] == WORKFLOWS["tests.yml"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    allowed = [minor for minor in range(30) if f"3.{minor}" in SpecifierSet(PROJECT["requires-python"])]
    assert [str(minor) for minor in allowed[: len(PYTHONS)]] == PYTHONS
    for flow in WORKFLOWS.values():
        for job in flow["jobs"].values():
            used = job.get("strategy", {}).get("matrix", {}).get("python", [])
            used += [step["with"]["python-version"] for step in job["steps"] if "python-version" in step.get("with", {})]
            assert all(one.removeprefix("3.") in PYTHONS for one in used if "matrix." not in one)
