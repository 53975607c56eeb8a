"""Search by a text in the page: cosines as by definition; messages where there is no text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from support.cli import environment, without_torch
from support.film_pages import Answer, OneText, ask, film_clips, served, site
from support.stores import a_recipe, made_store, some_values

from obygaze.films.page import site as pages
from obygaze.films.page.server import PageServer
from obygaze_features.extraction.recipes import recipe_of, view_of
from obygaze_features.store import Array, Recipe, Row, Store

CLIPS = film_clips("lake", "", 9)
SPACE = "ef" * 32


def search(server: PageServer, text: str, **headers: str | None) -> Answer:
    return ask(server, f"/api/search?{urlencode({'text': text})}", headers)


def a_store(path: Path, recipe: Recipe, width: int) -> tuple[Store, Any]:
    """A store of the clips with made-up vectors of the array `clip`, and the vectors."""
    values = some_values(9, [Array.of("clip", "float32", (width,))])
    rows = [Row(clip.clip_id, "lake") for clip in CLIPS]
    store = made_store(path, rows, values, recipe=recipe)
    return store, values["clip"].astype(float)


def named_recipe(card: str) -> Recipe:
    backbone = {"name": card, "family": "clip", "levels": {"clip": "frame-mean"}}
    return a_recipe(backbone=backbone, weights={"tensors": SPACE})


def ranked(values: Any, query: Any) -> list[tuple[str, float]]:
    """The clips by their cosine, worked out one at a time."""
    lengths = [np.sqrt(np.dot(row, row) * np.dot(query, query)) for row in values]
    cosines = [
        float(np.dot(row, query) / n) for row, n in zip(values, lengths, strict=True)
    ]
    pairs = zip([clip.clip_id for clip in CLIPS], cosines, strict=True)
    return sorted(pairs, key=lambda pair: -pair[1])


def test_all_clips_are_ranked_by_the_text_tower_that_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from support.checkpoints import tiny_card, write_tiny_card
    from support.words import save_text_model

    from obygaze_features.backbones import text as towers
    from obygaze_features.backbones.actions import load_backbone

    weights = save_text_model("clip", tmp_path / "weights")
    write_tiny_card("clip", tmp_path / "backbones")
    backbone = load_backbone(tiny_card("clip"), weights)
    recipe = recipe_of(backbone, view_of(backbone))
    store, values = a_store(tmp_path / "s", recipe, *backbone.arrays["clip"].shape)
    loaded: list[str] = []
    load_strictly = towers.load_strictly
    queries = towers.load_text_tower(tiny_card("clip"), weights).embed(
        ["a sad dog", "a man"]
    )

    def counted(kind: Any, card: Any, *more: Any) -> Any:
        loaded.append(card.name)
        return load_strictly(kind, card, *more)

    monkeypatch.setattr(towers, "load_strictly", counted)
    with served(site(tmp_path, CLIPS, store=store, weights=str(weights))) as server:
        for text, query in zip(
            ("a sad dog", "a man"), queries.astype(float), strict=True
        ):
            found = search(server, text).json()
            assert [clip for clip, _ in found] == [
                clip for clip, _ in ranked(values, query)
            ]
            cosines = [cosine for _, cosine in ranked(values, query)]
            np.testing.assert_allclose(
                [cosine for _, cosine in found], cosines, atol=1e-6
            )
        too_long = search(server, "dog " * 200)
    assert loaded == ["tiny-clip"]
    assert (too_long.status, too_long.json()["hint"]) == (400, "use a shorter prompt")


def test_strangers_get_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "a <b>dog</b>"
    store, values = a_store(tmp_path / "s", named_recipe("gone"), 4)
    query = np.eye(4, dtype=np.float32)[0]
    tower = OneText(words, query, f"local@main#{SPACE}")
    monkeypatch.setattr(pages, "load_text_tower", lambda *args, **options: tower)
    with served(site(tmp_path, CLIPS, store=store)) as server:
        found = search(server, words).json()
        expected = [clip for clip, _ in ranked(values, query)]
        assert [clip for clip, _ in found] == expected
        assert search(server, words, Cookie=None).status == 403
        assert search(server, words, Host="evil.example").status == 421
        assert search(server, words, Origin="http://evil.example").status == 403
        assert ask(server, "/api/search?like=lake-001").status == 400


@pytest.mark.parametrize(
    ("card", "error", "hint"),
    [
        ("gone", "no backbone called 'gone'", "obygaze backbones ls"),
        (
            "descriptors",
            "descriptors has no text model",
            "use a backbone of the families",
        ),
        ("clip-b16", "no weights for clip-b16", "--weights FOLDER, or with a network:"),
    ],
)
def test_why_a_store_cannot_be_searched_by_a_text(
    card: str, error: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page loads nothing from the network: the hub is not asked for missing weights."""
    import obygaze_features.backbones.weights as hub

    def download(card: Any) -> None:
        raise AssertionError("the page must not use the network")

    monkeypatch.setattr(hub, "download_files", download)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    store, _ = a_store(tmp_path / "s", named_recipe(card), 4)
    with served(site(tmp_path, CLIPS, store=store)) as server:
        found = search(server, "a dog")
    assert found.status in (400, 404)
    assert error in found.json()["error"]
    assert hint in found.json()["hint"]


WITHOUT_TORCH = """
import sys
from pathlib import Path
from support.film_pages import ask, film_clips, served, site
from obygaze_features.store import open_store
folder = Path(sys.argv[1])
more = {"store": open_store(folder / "s"), "weights": str(folder / "weights")}
with served(site(folder, film_clips("lake", "", 9), **more)) as server:
    sys.stdout.write(ask(server, "/api/search?text=dog").body.decode())
"""


@pytest.mark.check("a process without torch")
def test_without_torch_the_page_names_what_to_install(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from support.checkpoints import write_tiny_card
    from support.words import save_text_model

    save_text_model("clip", tmp_path / "weights")
    write_tiny_card("clip", tmp_path / "backbones")
    a_store(tmp_path / "s", named_recipe("tiny-clip"), 4)
    hidden = without_torch(tmp_path / "hidden")["PYTHONPATH"]
    tests = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)],
        env=environment({"PYTHONPATH": os.pathsep.join((hidden, tests))}),
        capture_output=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert found["error"].endswith(
        "needs the package 'transformers', which is not installed"
    )
    assert found["hint"] == 'pip install "obygaze[extract]"'


def test_without_features_the_option_is_named(tmp_path: Path) -> None:
    with served(site(tmp_path, CLIPS)) as server:
        found = search(server, "a dog")
    assert found.json() == {"error": "a search needs features", "hint": "--store STORE"}
