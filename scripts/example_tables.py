"""Make the two tables of docs/example, which the guide and the notebook start from: ``python scripts/example_tables.py``.

240 people of an invented company, who work with each other. Four teams shape who works with whom and what people write about
themselves. The tables do not name the teams: clusters are to find them.
"""

from __future__ import annotations

import csv
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent.parent / "docs" / "example"
PEOPLE = 240
SEED = 7
WORDS = (
    ("build", "code", "deploy", "test", "servers", "release", "review", "database"),
    ("customers", "contracts", "travel", "negotiate", "markets", "demos", "pricing", "partners"),
    ("tickets", "answer", "calls", "training", "manuals", "patience", "feedback", "help"),
    ("experiments", "papers", "models", "measure", "statistics", "prototypes", "lab", "theory"),
)
EVERYONE = ("coffee", "meetings", "plan", "team", "mornings", "people", "cycling", "music", "write", "travel")
FIRST = ("ada", "ben", "cleo", "dan", "eva", "finn", "gia", "hugo", "ida", "jon", "kim", "leo", "mia", "ned", "ola", "pia")
CITIES = ("Lyon", "Porto", "Turin", "Ghent")


def main() -> None:
    draw = np.random.default_rng(SEED)
    team_of = teams(draw)
    ids = [f"{FIRST[number % len(FIRST)]}-{number:03d}" for number in range(PEOPLE)]
    people = [person(draw, ids[number], int(team_of[number])) for number in range(PEOPLE)]
    pairs = [
        (ids[one], ids[other], int(draw.integers(1, 10)))
        for one in range(PEOPLE)
        for other in range(one + 1, PEOPLE)
        if draw.random() < (0.055 if team_of[one] == team_of[other] else 0.006)
    ]
    FOLDER.mkdir(exist_ok=True)
    write("people.csv", ("id", "age", "salary", "city", "joined", "remote", "about"), people)
    write("work.csv", ("source", "target", "hours"), pairs)


def teams(draw: np.random.Generator) -> np.ndarray:
    """The team of each person."""
    return draw.integers(len(WORDS), size=PEOPLE)


def person(draw: np.random.Generator, name: str, team: int) -> tuple[Any, ...]:
    """One row of the table. Few columns depend on the team, and none gives it away."""
    age = min(max(int(draw.normal(40, 9)), 21), 66)
    salary = round(float(draw.normal(52_000 + 6_000 * (team == 3) + 300 * (age - 40), 7_000)), -2)
    city = CITIES[team] if draw.random() < 0.4 else CITIES[draw.integers(len(CITIES))]
    joined = date(2012, 1, 1) + timedelta(days=int(draw.integers(5_000)))
    about = [*draw.choice(WORDS[team], 2, replace=False), *draw.choice(EVERYONE, 3, replace=False)]
    draw.shuffle(about)
    return (
        name,
        "" if draw.random() < 0.05 else age,
        "" if draw.random() < 0.05 else int(salary),
        city,
        joined.isoformat(),
        "yes" if draw.random() < 0.3 else "no",
        " ".join(about),
    )


def write(name: str, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with (FOLDER / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
