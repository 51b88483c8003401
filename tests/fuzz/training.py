"""Graphs of up to 300 nodes, trained and scored with settings and options of all kinds; then embedded, evaluated, reported."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

import graphkin
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.graphs.splits import random_split
from tests.fuzz.draws import Draw, communities
from tests.fuzz.fits import fit
from tests.fuzz.promises import Case
from tests.fuzz.results import embeddings, strict_json
from tests.fuzz.sources import originals

METHODS = (
    "grace", "grace+", "grace+", "gca", "gca+", "graph-mlp", "graph-mlp+", "grace+(p)", "grace+(n)", "gca+(g)", "grace+(f)",
    "kin", "kin", "diffusion", "dgi", "mvgrl", "cca-ssg", "sgrl", "signa", "signa+", "ma-gcl", "ma-gcl+",
)  # fmt: skip
WITH_LABELS = ("graph-mlp", "graph-mlp+")
VALID: dict[str, tuple[str, ...]] = {
    "hidden": ("4", "8"), "layers": ("1", "2", "3"), "activation": ("relu", "prelu", "rrelu"),
    "drop_edges": ("0.1,0.3", "0,0"), "drop_features": ("0.2,0.4", "0.9,0.9"),
    "adaptive": ("none", "degree", "pagerank", "eigenvector"), "max_drop": ("0.5",), "tau": ("0.1", "0.9", "5"),
    "tau_pos": ("0.01", "1"), "tau_neg": ("0.1", "10"), "effective_positives": ("2", "5.5"),
    "effective_negatives": ("0.3", "1"), "beta": ("0", "0.5", "1"), "structure": ("ppr", "ppr-cosine"),
    "alpha": ("0.05", "0.9"), "steps": ("1", "5", "none"), "self_loops": ("true", "false"), "top_k": ("3", "none"),
    "learning_rate": ("0.01", "1e-5"), "weight_decay": ("0", "0.1"), "anchors": ("5", "none"), "positives_sampled": ("6",),
    "negatives_sampled": ("7",), "pooling": ("sum", "mean"), "precision": ("auto", "float32"), "projector": ("4", "none"),
    "candidates": ("8",), "batch": ("10",), "feature_scale": ("auto", "rows", "none"), "dropout": ("0", "0.5"),
    "contrast_weight": ("0", "3"), "branches": ("x", "x,ppr0.1", "hop1+hop2", "high"), "free": ("none", "hop1,ppr0.2*3"),
    "width": ("2", "7", "40"), "branch_width": ("2", "8"), "norm": ("none", "layer", "batch"), "early": ("0", "1", "50"),
    "hops": ("0", "2"), "lazy": ("0", "0.5"), "most_hops": ("0,3", "none"), "both_views": ("true", "false"),
    "mask_positives": ("0", "0.9"), "restart": ("0.1", "1"), "after_hops": ("0", "2"), "decorrelation": ("0", "0.1"),
    "smooth_outputs": ("true", "false"), "axes": ("2", "8", "600"), "own": ("0", "1"), "drop_positives": ("0.5",),
}  # fmt: skip
ODD = (
    "0", "-1", "1e-30", "1e30", "nan", "inf", "-inf", "999999999999", "1000000000", "9" * 40, "9" * 5000, "x", "none",
    "true", "", "1,2,3", "0.5,0.5", "1e-300", "0.5", "2", "\x1b[31m", "٣",
)  # fmt: skip
ODD_OPTIONS: dict[str, tuple[str, ...]] = {
    "--epochs": ("0", "-1", "x", "1.5", str(10**12), "9" * 40),
    "--seed": ("-1", str(2**40), str(2**63), "9" * 40, "x", "1.5"),
    "--memory": ("0", "1", "1KiB", "100MiB", "8GiB", "-1", "x", "1e3", "99999TiB", "0.5MB", " 2 gib "),
    "--splits": ("0", "-1", "x"), "--checkpoint-every": ("1", "2", "0", "-1", str(10**12), "x"),
    "--preset": ("cora", "pubmed", "photo", "default", "x", "", "\x1b[31m"),
    "--device": ("cpu", "x", "meta", "cuda:99", "cpu:5", ""), "--format": ("npy", "csv", "parquet", "x", ""),
    "--features": ("degree", "positional", "x", ""), "--label": ("y", "", "x"), "--nonsense": ("1",),
    "--hold-out-edges": ("0.1", "0.5", "0.9", "0", "1", "-1", "nan", "1e-9", "x"),
    "--nodes": ("nowhere.csv",), "--data-root": ("nowhere",), "--method": ("x", "", "grace++", "GRACE"),
}  # fmt: skip
EVALUATE_OPTIONS: dict[str, tuple[str, ...]] = {
    "--splits": ("1", "2", "0", "-1"), "--seed": ("3", "-1", str(2**40), "9" * 40),
    "--train": ("0.3", "0", "1", "nan", "-1", "1e-30"), "--val": ("0.2", "0", "0.9", "inf"),
    "--ratio": ("0.05", "0", "2", "nan", "1e-9"), "--per-class": ("1", "2", "0", "-1", "9" * 20),
}  # fmt: skip


def write_graph(folder: Path, draw: Draw, name: str = "graph") -> tuple[list[object], dict[str, Any]]:
    """An archive, or tables of the same graph, as arguments of a command; and its arrays."""
    nodes, classes = draw.whole(20, 300) if draw.chance(0.5) else draw.whole(20, 60), draw.whole(2, 5)
    arrays = communities(draw, nodes, classes)
    arrays["x"] = arrays["x"].astype(draw.pick(("f4", "f8", "f2")))
    if draw.chance(0.3):
        arrays["x"] = arrays["x"] - 0.5
    if draw.chance(0.2):
        arrays["edge_weight"] = draw.random.random(arrays["edge_index"].shape[1]) + 0.1
    if draw.chance(0.25):
        return [_write_tables(folder / name, arrays)], arrays
    if draw.chance(0.6):
        part = np.concatenate([np.zeros(classes, int), draw.random.integers(0, 4, nodes - classes)])
        part[-2:] = 1, 2
        arrays |= {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part >= 2}
    if draw.chance(0.3):
        arrays["ids"] = np.array([f"node {i}" for i in range(nodes)])
    np.savez(folder / f"{name}.npz", **arrays)
    return [folder / f"{name}.npz"], arrays


def _write_tables(folder: Path, arrays: dict[str, Any]) -> Path:
    folder.mkdir()
    width, weight = arrays["x"].shape[1], arrays.get("edge_weight")
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"f{i}" for i in range(width)), "label"])
        rows = zip(arrays["x"].tolist(), arrays["y"], strict=True)
        writer.writerows([i, *row, f"class {c}"] for i, (row, c) in enumerate(rows))
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"] + ([] if weight is None else ["weight"]))
        pairs = arrays["edge_index"].T.tolist()
        writer.writerows(pair + ([] if weight is None else [weight[i]]) for i, pair in enumerate(pairs))
    return folder


def settings_of(method: str, draw: Draw, *, odd: bool) -> list[str]:
    """Some settings of a method; with ``odd`` one of them has a value that it may not have."""
    known = sorted(graphkin.method_named(method).settings())
    chosen = {name: draw.pick(VALID[name]) for name in draw.some(known, 3) if name in VALID}
    chosen.setdefault("hidden", draw.pick(("4", "8")))
    if odd:
        chosen[draw.pick(known)] = draw.pick(ODD)
    return [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]


def can_be_scored(arrays: dict[str, Any], splits: int, seed: int) -> bool:
    """Whether every random split trains on two classes."""
    labels = arrays["y"]
    drawn = (random_split(len(labels), seed=s) for s in range(seed, seed + splits))
    return all(len(np.unique(labels[split.train.numpy()])) > 1 for split in drawn)


def case(case: Case) -> str:
    draw = case.draw
    source, arrays = write_graph(case.folder, draw)
    method = draw.pick(METHODS)
    if method in WITH_LABELS and "train_mask" not in arrays and draw.chance(0.9):
        method = "grace"
    splits, seed, odd = draw.whole(1, 2), draw.whole(0, 5), draw.chance(0.25)
    options = ["--method", method, "--epochs", str(draw.whole(1, 3)), "--splits", str(splits), "--seed", str(seed)]
    odd_option = draw.pick(tuple(ODD_OPTIONS)) if draw.chance(0.2) else None
    if odd_option is not None:
        options += [odd_option, draw.pick(ODD_OPTIONS[odd_option])]
    options += settings_of(method, draw, odd=odd)
    sure = not odd and odd_option is None and (method in WITH_LABELS or can_be_scored(arrays, splits, seed))
    outcome = fit(case, source, options, nodes=len(arrays["y"]), must_score=sure)
    if outcome.startswith("embedded") and draw.chance(0.4):
        features = ["--features", options[-1]] if odd_option == "--features" else []
        outcome += ", " + follow(case, [*source, *features])
    return outcome


def follow(case: Case, source: list[object]) -> str:
    """What one does with a run."""
    draw, run = case.draw, case.out / "run"
    written = next(path for path in sorted(run.glob("embeddings.*")) if not path.name.endswith(".ids.csv"))
    what = draw.weighted((("embed", 4), ("evaluate", 5), ("report", 1), ("use", 4)))
    if what == "embed":
        target = case.out / f"other.{draw.pick(('npy', 'csv', 'parquet', 'txt'))}"
        other = source if draw.chance(0.6) else [originals().graph]
        said = case.run("embed", run / "model.graphkin", *other, "--out", target, "--json")
        if said.worked:
            rows = len(embeddings(target))
            assert rows == strict_json(said.stdout)["nodes"] > 0, f"{rows} rows of embeddings, and another number told"
    elif what == "evaluate":
        options = [word for name in draw.some(tuple(EVALUATE_OPTIONS), 2) for word in (name, draw.pick(EVALUATE_OPTIONS[name]))]
        protocol = draw.pick((*PROTOCOLS, "x"))
        few = ["--splits", "1", "--no-baselines"] if protocol == "gca" or draw.chance(0.5) else ["--splits", "2"]
        said = case.run("evaluate", written, *source, "--protocol", protocol, *few, *options, "--json")
    elif what == "use":
        return use(case, run)
    else:
        layout = "tsne" if draw.chance(0.1) else "pca"
        said = case.run("report", run, *source, "--layout", layout, "--out", case.out / "page.html")
    return f"then {what}" if said.worked else f"then {what} refused"


def use(case: Case, run: Path) -> str:
    """Similar nodes, clusters, a map or missing links, on the graph that the run names."""
    draw = case.draw
    what = draw.pick(("similar", "cluster", "map", "links"))
    out = ["--out", case.out / f"used.{draw.pick(('csv', 'parquet', 'npy'))}"] if draw.chance(0.5) else []
    count = ["--count", draw.pick(("0", "1", "3", "400", "x"))] if draw.chance(0.5) and what != "map" else []
    more = [draw.pick(("0", "1", "n0", "-1", "7", "", "²")) for _ in range(draw.whole(1, 3))] if what == "similar" else []
    more += ["--layout", "pca", "--no-picture"] if what == "map" else []
    said = (
        case.run(what, run, *out, *count, "--json", "--", *more)
        if what == "similar"
        else case.run(what, run, *out, *count, *more, "--json")
    )
    if said.worked:
        strict_json(said.stdout)
    return f"then {what}" if said.worked else f"then {what} refused"
