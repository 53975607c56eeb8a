"""Story 22: I publish features so that others find, cite and read them with their own programs."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
import pytest

from stories.workspace import Workspace

LICENCE = "CC-BY-4.0"
CITATION = "Doe, J. (2026). Gazes at the lake."
FAILED = 7

Features = npt.NDArray[np.float32]


def make_store(ws: Workspace, options: str = "") -> tuple[list[str], Features]:
    """Make the store `stored` of two films; return its clips with features, and these."""
    rows = []
    for film in ("lake", "night"):
        for scene in range(1, 11):
            level, concepts = ("S", "Look|Body") if scene % 3 == 0 else ("EN", "")
            row = {"clip_id": f"{film}-{scene:03d}", "movie_id": film, "level": level}
            rows.append({**row, "concepts": concepts})
    ws.import_table(rows, "films", "clips")
    ids = [row["clip_id"] for row in rows]
    X = np.random.default_rng(22).normal(size=(len(ids), 16)).astype(np.float32)
    X[FAILED, 3] = np.inf
    np.savez(ws.path("stored.npz"), clip_id=ids, X=X)
    line = "store import stored.npz --array clip=X --manifest films -o stored"
    ws(f"{line} {options}", code=3)
    del ids[FAILED]
    return ids, np.delete(X, FAILED, axis=0)


def publish(ws: Workspace) -> tuple[list[str], Features, Path]:
    ids, X = make_store(ws)
    terms = f"--licence {LICENCE} --citation '{CITATION}'"
    ws(f"store push stored films-2026 {terms}")
    ws("store export stored exported --as parquet --with-labels films", code=3)
    return ids, X, ws.path("films-2026")


def seal_of(ws: Workspace) -> str:
    seal: str = ws("store info stored --json").json()["seal_sha256"]
    assert len(seal) == 64
    return seal


def front_matter(card: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    _, head, text = card.split("---\n", 2)
    assert text.strip()
    facts: dict[str, Any] = yaml.safe_load(head)
    return facts


def check_table(table: Any, ids: list[str], X: Features) -> None:
    table = table.sort_values("clip_id")
    assert table["clip_id"].tolist() == ids
    assert table["movie_id"].tolist() == [one.partition("-")[0] for one in ids]
    np.testing.assert_array_equal(np.stack(table["clip"].to_list()), X)


def test_nothing_leaves_without_a_licence(ws: Workspace) -> None:
    make_store(ws)
    line = "store push stored ./lab/stored"
    refused = ws(line, code=2)
    assert "licence of this store is missing" in refused.text
    assert "--licence" in refused.text
    assert not ws.path("lab/stored").exists()
    # What the sentence says to type.
    ws("store push stored ./lab/private --no-licence")
    assert "not stated" in ws("store info ./lab/private").text
    ws(f"{line} --licence {LICENCE}")
    assert LICENCE in ws("store info ./lab/stored").text


def test_the_card_says_what_it_is_and_how_to_read_it(ws: Workspace) -> None:
    _ids, _X, folder = publish(ws)
    seal = seal_of(ws)
    card = (folder / "README.md").read_text(encoding="utf-8")
    facts = front_matter(card)
    assert facts["license"] == LICENCE.lower()
    assert "of clips of the manifest 'films', in 20 rows" in card
    assert "19 ok and 1 failed" in card
    for words in (LICENCE, CITATION, seal, "import zarr", "import xarray"):
        assert words in card
    assert facts["citation"] == CITATION
    assert facts["obygaze_seal"] == f"sha256:{seal}"
    # It is that of the store, of which the head was written when it was sent.
    assert card == ws.read("stores/stored/README.md")


def test_pandas_reads_the_published_table(ws: Workspace) -> None:
    pytest.importorskip("pyarrow")
    ids, X, _folder = publish(ws)
    table = pandas.read_parquet(ws.path("exported/data"))
    check_table(table, ids, X)
    levels = dict(zip(table["clip_id"], table["level"], strict=True))
    assert levels["lake-003"] == "S"
    assert levels["lake-004"] == "EN"
    concepts = dict(zip(table["clip_id"], table["concepts"], strict=True))
    assert sorted(concepts["lake-003"]) == ["Body", "Look"]
    # The labels state no licence, so none is claimed for the whole.
    assert front_matter(ws.read("exported/README.md"))["license"] == "other"


@pytest.mark.check("imports the package datasets, which takes seconds")
def test_datasets_loads_equal_values(ws: Workspace) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    ids, X, _folder = publish(ws)
    table = datasets.load_dataset(
        str(ws.path("exported")), split="train", cache_dir=str(ws.path("cache"))
    )
    check_table(table.to_pandas(), ids, X)


def test_a_licence_that_is_there_is_not_replaced_by_chance(ws: Workspace) -> None:
    make_store(ws, f"--licence {LICENCE}")
    refused = ws("store push stored lab/stored --licence CC0-1.0", code=1)
    assert "header of README.md" in refused.text
    assert ws("store info stored --json").json()["licence"] == LICENCE
    # What the sentence says to do; the seal does not change.
    seal = seal_of(ws)
    card = ws.read("stores/stored/README.md")
    ws.write("stores/stored/README.md", card.replace(LICENCE.lower(), "cc0-1.0"))
    assert ws("store info stored --json").json()["licence"] == "CC0-1.0"
    assert seal_of(ws) == seal
