"""``torchrun -m tests.last_is_killed EPOCH ...``: a command of graphkin whose last process is killed in an epoch."""

from __future__ import annotations

import os
import sys

from graphkin.commands.cli import main
from tests.killed_at import STEP, AtCall

if __name__ == "__main__":
    epoch, *arguments = sys.argv[1:]
    if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
        AtCall(STEP, int(epoch)).set_up()
    sys.argv[1:] = arguments
    main()
