"""What processes agree on: each writes what it saw to a file by its rank, in the folder that is named."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from graphkin import fit
from graphkin.errors import SettingError
from graphkin.graphs.synthetic import community_graph
from graphkin.support.launch import ToldElsewhereError
from graphkin.support.parallel import joined


def agree(folder: Path) -> None:
    with joined() as among:
        said = [f"from the first: {among.from_first(lambda: among.rank)}"]

        def note() -> None:
            time.sleep(0.3 if among.first else 0)  # others that did not wait for it would be sooner
            with (folder / "order").open("a", encoding="utf-8") as file:
                file.write(str(among.rank))

        among.one_at_first(note)
        try:
            among.check_same(among.rank == 1, f"rank {among.rank} differs")
        except SettingError as error:
            said.append(f"told: {error}")
        except ToldElsewhereError:
            said.append("elsewhere")
        try:
            with among.same_fate():
                if among.rank > 0:
                    raise SettingError(f"rank {among.rank}")
        except SettingError as error:
            said.append(f"told: {error}")
        except ToldElsewhereError:
            said.append("elsewhere")
        said.append(f"any: {among.any(among.rank == 2)}")
        try:
            with joined():
                pass
        except SettingError:
            said.append("joined once")
        (folder / f"{among.rank}").write_text("\n".join(said), encoding="utf-8")


def leave(folder: Path) -> None:
    """The threads that are left after training."""
    with joined() as among:
        fit(community_graph(20, mean_degree=4), "grace", device="cpu", epochs=1)
    names = [(thread / "comm").read_text(encoding="utf-8").strip() for thread in Path("/proc/self/task").iterdir()]
    (folder / f"{among.rank}").write_text("\n".join(names), encoding="utf-8")


if __name__ == "__main__":
    leave(Path(sys.argv[1]))
