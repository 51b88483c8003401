from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graphkin import Graph, cluster, fit
from graphkin.commands.runs import run_record
from graphkin.errors import InputError, OutputError, SettingError
from graphkin.report.page import fit_page
from graphkin.training.embeddings import read_embeddings
from tests.reports import change_record, fetched, nodes_of, run_folder, scored, scripts_are_whole, words_of
from tests.wording import refused, told


def test_fit_page_has_it_all(small: Graph, tmp_path: Path) -> None:
    named = replace(
        small, ids=np.array(["</script><b>", *(f"n{i}" for i in range(39))]), class_names=("a & b", "c"), name="<g>"
    )
    folder = run_folder(tmp_path / "run", named)
    heard: list[str] = []
    page = fit_page(folder, named, command="graphkin report run", say=heard.append)
    words = words_of(page)
    assert told(" ".join(heard), "neighbours", "40", "tsne", "40", "weights") and len(heard) == 3
    parts = ("above the training-free row", "40 nodes", "Map", "a & b 20", "c 20", "81.50 ± 0.71", "raw features", "w⁺", "Loss")
    assert told(words, "grace+ on <g>", *parts, "tau_pos", "Machine", "Versions", "Finished", "graphkin report run")
    nodes = nodes_of(page)
    assert nodes["names"][0] == "</script><b>"
    assert nodes["groupNames"] == ["a & b", "c"]
    assert scripts_are_whole(page)
    assert fetched(page) == []
    assert len(page.encode()) < 200_000


def test_only_scripts_of_the_page_may_run(small: Graph, tmp_path: Path) -> None:
    page = fit_page(run_folder(tmp_path / "run", small), small, layout="pca")
    (allowed,) = re.findall(r"script-src ([^;]*);", page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert allowed.split() == [f"'sha256-{digest}'" for digest in digests]
    assert "default-src 'none'" in page and "unsafe-eval" not in page
    assert not re.search(r"<[^>]*\son[a-z]+=", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))


def test_scores_of_a_run_name_the_chosen_row(small: Graph, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    best = scored(90, chosen=["2 hops", "2 hops"])
    change_record(folder, scores={**scored(80), "of": "grace+", "baselines": {"best free": best, "2 hops": best}})
    assert "best free: 2 hops" in words_of(fit_page(folder, small, layout="pca"))


def test_a_warning_of_the_run_is_on_its_page(small: Graph, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    assert "Warning" not in words_of(fit_page(folder, small, layout="pca"))
    change_record(folder, warning="training collapsed.")
    assert "Warning: training collapsed." in words_of(fit_page(folder, small, layout="pca"))


def test_fit_page_without_labels(small: Graph, tmp_path: Path) -> None:
    """The number of clusters with its reason and a table of them, and no section on scores or weights."""
    bare = replace(small, y=None, train_mask=None, val_mask=None, test_mask=None)
    folder = run_folder(tmp_path / "run", bare, kind="csv")
    page = fit_page(folder, bare, layout="pca")
    found = cluster(read_embeddings(folder / "embeddings.csv"))
    reason = found.why.partition(": ")[2]
    assert told(
        words_of(page), f"{found.count} clusters", reason, "no labels", "Map", f"cluster 1 {found.sizes[0]}", "Clusters"
    )
    assert re.findall(r'<section id="(\w+)">', page) == ["map", "clusters", "loss", "settings"]
    assert str(found.central[0][0]) in words_of(page)


def test_nothing_trained_leaves_no_empty_section(small: Graph, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    change_record(folder, epochs=0, losses=[])
    page = fit_page(folder, small, layout="pca")
    assert "Nothing was trained" in words_of(page) and '<section id="loss">' not in page


@pytest.mark.parametrize("method", ["grace", "grace+(p)", "grace+(n)", "graph-mlp+"])
def test_fit_page_of_other_methods(small: Graph, tmp_path: Path, method: str) -> None:
    page = fit_page(run_folder(tmp_path / "run", small, method), small, layout="pca")
    assert ('<section id="weights">' in page) == ("+" in method)


def test_refused_folders(small: Graph, tmp_path: Path) -> None:
    with refused(OutputError, tmp_path, "run.json", "graphkin fit"):
        fit_page(tmp_path, small)
    folder = run_folder(tmp_path / "run", small)
    with refused(SettingError, "layout", "'umap'", "tsne, pca"):
        fit_page(folder, small, layout="umap")
    other = Graph.from_arrays(torch.ones(30, 16), torch.tensor([[0, 1], [1, 2]]))
    with refused(InputError, "40 nodes", "'graph'", "30"):
        fit_page(folder, other)
    np.save(folder / "embeddings.npy", np.full((40, 8), np.nan))
    with refused(InputError, "embeddings", "finite"):
        fit_page(folder, small)
    (folder / "embeddings.npy").unlink()
    with refused(OutputError, folder, "embeddings.npy", "embeddings.parquet", "embeddings.csv"):
        fit_page(folder, small)
    for text, fact in (("{", "graphkin fit"), ("[]", "list"), ("{}", "method")):
        (folder / "run.json").write_text(text)
        with refused(OutputError, folder / "run.json", "damaged", fact):
            fit_page(folder, small)


def test_run_record_has_what_the_page_needs(small: Graph) -> None:
    record = run_record(fit(small, "grace", epochs=1, hidden=4), small, {"not_scored": ""})
    assert {"method", "settings", "seed", "graph", "scores", "losses", "epochs", "versions", "machine", "finished"} <= set(
        record
    )


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("graph", 7),
        ("graph", {}),
        ("scores", 7),
        ("scores", {"accuracy": [1]}),
        ("losses", 7),
        ("losses", ["a"]),
        ("settings", 7),
    ],
)
def test_a_damaged_run_file_is_named(small: Graph, part: str, damage: object, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    change_record(folder, **{part: damage})
    path = folder / "run.json"
    with refused(OutputError, path, "damaged", part):
        fit_page(folder, small, layout="pca")


@pytest.mark.parametrize("rows", [np.zeros(40), np.full((40, 3), np.nan), np.zeros((40, 2, 2)), np.full((40, 2), "a")])
def test_embeddings_that_are_none_are_refused(small: Graph, rows: np.ndarray, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    np.save(folder / "embeddings.npy", rows)
    with refused(InputError, "embeddings"):
        fit_page(folder, small, layout="pca")
