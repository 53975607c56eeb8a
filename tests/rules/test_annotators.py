"""Rule (a): what is counted, tested and followed in time is the clip, not the annotators' rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from support.stores import a_recipe, made_store

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.eat import audit_eat
from obygaze.audits.levels import audit_levels
from obygaze.films.agreement import measure_agreement
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row
from obygaze_features.store.recipe import space_id_of

ANNOTATORS = ("ada", "ben", "cleo")
LENGTH_S = 6.0
HASH = "ef" * 32
NO_FIXTURES = [HealthCheck.function_scoped_fixture]


class Labelled(NamedTuple):
    """A made-up clip: its film, level, concepts, mood, and whose rows it has."""

    film: str
    level: str
    concepts: tuple[str, ...]
    mood: str
    annotators: tuple[str, ...]


LABELS = st.builds(
    Labelled,
    st.sampled_from(("alba", "brug")),
    st.sampled_from(("EN", "HN", "S")),
    st.sampled_from(((), ("Look",), ("Look", "Body"))),
    st.sampled_from(("joy", "fear", "")),
    st.lists(st.sampled_from(ANNOTATORS), unique=True, min_size=1).map(tuple),
)
CLIPS = st.lists(LABELS, min_size=2, max_size=9)


def manifest_of(
    labelled: list[Labelled], *, by_annotator: bool, **place: Any
) -> Manifest:
    """The clips with one row each, or with a row for each annotator, who all say the same."""
    clips = []
    for number, row in enumerate(labelled):
        clip = Clip(
            f"{row.film}-{number:02d}",
            row.film,
            number,
            level=row.level,
            concepts=row.concepts,
            extra={"mood": row.mood},
        )
        if place.get("own_file"):
            clip = replace(clip, video=f"{clip.clip_id}.mp4")
        if not by_annotator:
            clips.append(clip)
            continue
        for name in row.annotators:
            extra = {**clip.extra, "annotator": name}
            clips.append(replace(clip, clip_id=f"{clip.clip_id}.{name}", extra=extra))
    header = Header("made up", {"Look": "visual", "Body": "visual"})
    columns = ("mood", "annotator") if by_annotator else ("mood",)
    return Manifest("films", header, tuple(clips), columns)


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


LABELLED = [
    Labelled("alba", "S", ("Look",), "joy", ("ada", "ben")),
    Labelled("brug", "EN", (), "fear", ("ada",)),
]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"movie_id": "lake"}, "'alba-00' is of the film 'lake' and of 'alba'"),
        ({"start_s": 5.0, "end_s": 9.0}, "'alba-00' is 5 s to 9 s and 2 s to 4 s"),
    ],
)
def test_an_association_of_clips_that_are_others_in_the_store_is_refused(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    manifest = manifest_of(LABELLED, by_annotator=False)
    store = store_of(tmp_path / "s", manifest)
    groups: dict[str, Any] = {"x": ["alba-00"], "y": ["brug-01"]}
    changed = [replace(manifest["alba-00"], **change), manifest["brug-01"]]
    with pytest.raises(Mismatch, match=problem):
        audit_eat(
            store, manifest.with_clips(changed), **groups, text=texts_in(tmp_path)
        )


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


def test_a_table_chooses_no_other_clip_of_a_store(tmp_path: Path) -> None:
    manifest = manifest_of(LABELLED, by_annotator=False)
    store = store_of(tmp_path / "s", manifest)
    table = tmp_path / "x.csv"
    table.write_text("clip_id,start_s,end_s\nalba-00,5,9\n", encoding="utf-8")
    values = "'alba-00' is 5 s to 9 s and 2 s to 4 s"
    with pytest.raises(Mismatch, match=values):
        audit_eat(store, x=table, y=["brug-01"], text=texts_in(tmp_path))


def test_an_association_of_clips_without_films_is_refused(tmp_path: Path) -> None:
    labelled = manifest_of(LABELLED, by_annotator=False)
    manifest = labelled.with_clips(replace(clip, movie_id="") for clip in labelled)
    groups: dict[str, Any] = {"x": ["alba-00"], "y": ["brug-01"]}
    store = store_of(tmp_path / "s", manifest)
    with pytest.raises(FixInput, match="the films of the group 'clips' are not known"):
        audit_eat(store, manifest, **groups, text=texts_in(tmp_path))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("alba-1,brug,,,x", "'alba-1' is of the film 'alba' and of 'brug'"),
        ("alba-1,alba,7.5,9,x", "'alba-1' is 0 s to 2 s and 7.5 s to 9 s"),
        ("alba-1,,0.01,2,x", "'alba-1' is 0 s to 2 s and 0.01 s to 2 s"),
    ],
)
def test_a_row_of_another_clip_is_not_joined(
    tmp_path: Path, row: str, problem: str
) -> None:
    clip = Clip("alba-1", "alba", start_s=0.0, end_s=2.0)
    manifest = Manifest("films", Header("made up"), (clip,))
    table = tmp_path / "t.csv"
    table.write_text(f"clip_id,movie_id,start_s,end_s,light\n{row}\n", encoding="utf-8")
    with pytest.raises(Mismatch) as caught:
        join(manifest, table)
    assert caught.value.message.endswith(problem)


@pytest.mark.parametrize("short", ["m:ss", "h:mm"])
def test_a_row_is_compared_by_times_of_minutes_or_hours(
    tmp_path: Path, short: str
) -> None:
    unit_s = {"m:ss": 1.0, "h:mm": 60.0}[short]
    clip = Clip("alba-1", "alba", start_s=65 * unit_s, end_s=70 * unit_s)
    manifest = Manifest("films", Header("made up"), (clip,))
    table = tmp_path / "t.csv"
    head = "clip_id,start_s,end_s,light"
    table.write_text(f"{head}\nalba-1,1:05,1:10,x\n", encoding="utf-8")
    with pytest.raises(FixInput) as caught:
        join(manifest, table)
    assert f"--map times={short}" in caught.value.details[0]
    joined = join(manifest, table, {"times": short})
    assert joined.manifest["alba-1"].extra["light"] == "x"
    table.write_text(f"{head}\nalba-1,2:05,2:10,x\n", encoding="utf-8")
    with pytest.raises(Mismatch, match="'alba-1' is "):
        join(manifest, table, {"times": short})


def test_rows_with_times_are_not_joined_to_all_clips_of_a_film(tmp_path: Path) -> None:
    clips = tuple(
        Clip(f"alba-{i}", "alba", start_s=2.0 * i, end_s=2.0 * i + 2) for i in range(2)
    )
    table = tmp_path / "t.csv"
    table.write_text("movie_id,start_s,end_s,light\nalba,0,2,x\nalba,2,4,y\n", "utf-8")
    with pytest.raises(FixInput) as caught:
        join(Manifest("films", Header("made up"), clips), table)
    assert "rows with times are of clips, not of films" in caught.value.details[0]


def test_a_table_with_rows_of_annotators_is_not_joined(tmp_path: Path) -> None:
    """It wrote `ada|ben`, of whom an audit then spoke as of one annotator."""
    manifest = Manifest("films", Header("made up"), (Clip("alba-1", "alba"),))
    table = tmp_path / "t.csv"
    table.write_text("clip_id,annotator\nalba-1,ada\nalba-1,ben\n", encoding="utf-8")
    with pytest.raises(FixInput, match="several annotators of one clip: ada, ben"):
        join(manifest, table)
    table.write_text("clip_id,annotator\nalba-1,ada\n", encoding="utf-8")
    assert join(manifest, table).manifest["alba-1"].extra["annotator"] == "ada"


def test_a_level_that_two_annotators_gave_together_is_one_of_each() -> None:
    clips = [
        Clip(f"c{i}", "alba", level=level, concepts=("Look",), extra={"annotator": who})
        for i, (level, who) in enumerate([("S", "ada|ben"), ("HN", "ada")])
    ]
    header = Header("made up", {"Look": "visual"})
    audit = audit_levels(Manifest("films", header, tuple(clips), ("annotator",)))
    assert [one["annotator"] for one in audit["annotators"][1:]] == ["ada", "ben"]


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
