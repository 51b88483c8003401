"""Run the five lines of README.md, show there what they print, and keep the run: ``python scripts/readme_output.py``."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

ROOT = Path(__file__).parent.parent
README, RUN = ROOT / "README.md", ROOT / "docs" / "results" / "readme.json"
LINES = re.compile(r"## Five lines\n\n```python\n(.*?)```\n\n```text\n(.*?)```", flags=re.DOTALL)


def shown(text: str) -> tuple[str, str]:
    """The lines, and what they print by the README."""
    found = LINES.search(text)
    assert found is not None
    return found.group(1), found.group(2)


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    code, before = shown(text)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    write_json(RUN, {"code": code, "printed": printed.getvalue(), "commit": commit(), **environment()})
    README.write_text(text.replace(before, printed.getvalue()), encoding="utf-8")
