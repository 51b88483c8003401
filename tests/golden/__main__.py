from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.golden import machine, settings, values

found = {f"{method} {preset}": values(method, preset) for method, preset in settings()}
lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
Path(sys.argv[1]).write_text(
    f'{{\n  "machine": {json.dumps(machine())},\n  "values": {{\n{lines}\n  }}\n}}\n', encoding="utf-8"
)
