"""Rule (a): what is counted, tested and followed in time is the clip, not the annotators' rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.stores import a_recipe, made_store

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.eat import audit_eat
from obygaze.films.agreement import measure_agreement
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row
from obygaze_features.store.recipe import space_id_of

HASH = "ef" * 32


def two_clips() -> Manifest:
    """A clip of each of two films, with other levels."""
    clips = (
        Clip("alba-00", "alba", 0, level="S", concepts=("Look",)),
        Clip("brug-01", "brug", 1, level="EN"),
    )
    return Manifest("films", Header("made up", {"Look": "visual"}), clips)


def store_of(
    path: Path,
    manifest: Manifest,
    times: tuple[float | None, float | None] = (2.0, 4.0),
    *,
    has_films: bool = True,
) -> Path:
    rows = []
    values = []
    for clip in manifest:
        film = clip.movie_id if has_films else "unknown"
        row = Row(clip.clip_id, film, *times)
        rows.append(row._replace(video_hash=f"{clip.scene:064x}"))
        angle = 0.7 * (clip.scene or 0)
        values.append([np.cos(angle), np.sin(angle)])
    backbone = {
        "name": "toy",
        "family": "clip",
        "checkpoint": "toy/clip",
        "revision": "main",
        "levels": {"clip": "frame-mean"},
    }
    weights = {"model.safetensors": "cd" * 32, "tensors": HASH}
    recipe = a_recipe(backbone=backbone, weights=weights)
    made_store(path, rows, {"clip": np.array(values, dtype=np.float32)}, recipe=recipe)
    return path


def texts_in(folder: Path) -> Path:
    texts = folder / "texts.npz"
    space = space_id_of("toy/clip", "main", HASH)
    np.savez(
        texts,
        embeddings=np.eye(2, dtype=np.float32),
        attribute=np.array(["up", "down"]),
        space_id=np.array(space),
    )
    return texts


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("brug,,", "'0' is of the film 'brug' and of 'alba'"),
        (",7.5,9", "'0' is 7.5 s to 9 s and 0 s to 2 s"),
        ("alba,0,2", ""),
        (",,", ""),
    ],
)
def test_a_table_chooses_no_other_clip_of_its_ids(
    tmp_path: Path, cells: str, problem: str
) -> None:
    """A list that was made of another manifest chose the clips of this one by their ids."""
    clips = []
    for number, level in enumerate(("S", "EN", "S", "EN")):
        extra = {"mood": level}
        times = {"start_s": 2.0 * number, "end_s": 2.0 * number + 2}
        clips.append(Clip(f"{number}", "alba", level=level, **times, extra=extra))
    manifest = Manifest("films", Header("made up"), tuple(clips), ("mood",))
    table = tmp_path / "x.csv"
    table.write_text(f"clip_id,movie_id,start_s,end_s\n0,{cells}\n", encoding="utf-8")
    groups: dict[str, Any] = {"column": "mood", "x": table, "y": "level == EN"}
    if not problem:
        assert audit_annotations(manifest, **groups).to_json()["n_x"] == 1
        return
    with pytest.raises(Mismatch, match=f"1 clip of the table x.csv .*{problem}"):
        audit_annotations(manifest, **groups)


def test_an_association_of_clips_without_films_is_refused(tmp_path: Path) -> None:
    labelled = two_clips()
    manifest = labelled.with_clips(replace(clip, movie_id="") for clip in labelled)
    groups: dict[str, Any] = {"x": ["alba-00"], "y": ["brug-01"]}
    store = store_of(tmp_path / "s", manifest)
    with pytest.raises(FixInput, match="the films of the group 'clips' are not known"):
        audit_eat(store, manifest, **groups, text=texts_in(tmp_path))


def test_a_mark_of_several_people_is_refused(tmp_path: Path) -> None:
    """`ada|ben` was compared with `ada`, and alpha of two who agree was near 0."""
    table = tmp_path / "rows.csv"
    lines = ["clip_id,movie_id,annotator,level,framerate,start_s,end_s"]
    for number, who in enumerate(("ada|ben", "ada", "ben")):
        lines.append(f"c{number},alba,{who},S,25,{number},{number + 1}")
    table.write_text("\n".join(lines), "utf-8")
    with pytest.raises(FixInput, match="cannot be read") as caught:
        measure_agreement(table, clips=table)
    assert "expected one name, got 'ada|ben'" in caught.value.details[0]
