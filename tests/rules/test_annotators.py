"""Rule (a): what is counted, tested and followed in time is the clip, not the annotators' rows."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.stores import a_recipe, made_store

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.eat import audit_eat
from obygaze.audits.levels import audit_levels
from obygaze.audits.reliability import audit_reliability
from obygaze.films.agreement import measure_agreement
from obygaze.films.clip_spans import read_clip_spans
from obygaze.films.mark_tables import Marks, Segment
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.planning import ChosenBackbone, plan_stores
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.folds import assign_folds
from obygaze_features.manifest.io import read_manifest, rows_to_csv, write_manifest
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.overview import summarize
from obygaze_features.manifest.stats import compute_stats
from obygaze_features.manifest.times import long_clips
from obygaze_features.store import Row
from obygaze_features.store.recipe import space_id_of
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.schema import Data

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


@pytest.fixture(scope="module")
def no_intervals() -> Iterator[None]:
    """Intervals are bootstrapped over films, which takes the time, and say nothing of rows."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("annotations", "levels"):
            module = import_module(f"obygaze.audits.{name}")
            patch.setattr(module, "ratio_interval", lambda *_, **__: [None, None])
        patch.setattr(module, "_interval_of_mean", lambda _: [None, None])
        yield


def with_watched(manifest: Manifest, names: tuple[str, ...] = ANNOTATORS) -> Manifest:
    """The manifest with rows that say which films its annotators watched, all of each."""
    rows = []
    for film, name in product(manifest.films, names):
        extra = {"annotator": name, "start_frame": "0", "comment": "watched"}
        row = Clip(f"{film}-{name}-0001", film, start_s=0.0, end_s=5400.0, extra=extra)
        rows.append(row)
    columns = (*manifest.columns, "start_frame", "comment")
    of_clips = []
    for clip in manifest:
        extra = {**clip.extra, "start_frame": "", "comment": ""}
        of_clips.append(replace(clip, extra=extra))
    return replace(manifest, clips=(*rows, *of_clips), columns=columns)


def check_spans(folder: Path, several: Manifest, watched: Manifest) -> None:
    """Marks are projected on clips: a film that was watched was one more, with all its marks."""
    marks = [Segment(film, "ada", 0, 10**6, "S") for film in several.films]
    of_films = Marks(tuple(marks), dict.fromkeys(several.films, Fraction(25)))
    expected = [
        (clip.clip_id, 250 * clip.scene, 250 * clip.scene + 249)
        for clip in several
        if clip.scene is not None
    ]
    for manifest in (several, watched):
        clips = []
        for clip in manifest:
            if clip.scene is not None:
                start_s = 10.0 * clip.scene
                clip = replace(clip, start_s=start_s, end_s=start_s + 10)
            clips.append(clip)
        table = folder / "spans.csv"
        table.write_bytes(rows_to_csv(manifest.with_clips(clips)))
        spans = read_clip_spans(table, of_films)
        found = [(span.clip_id, span.start_frame, span.end_frame) for span in spans]
        assert found == expected


@pytest.mark.usefixtures("no_intervals")
@settings(max_examples=25, deadline=None, suppress_health_check=NO_FIXTURES)
@given(CLIPS)
def test_what_was_watched_is_no_clip(tmp_path: Path, labelled: list[Labelled]) -> None:
    several = manifest_of(labelled, by_annotator=True)
    watched = with_watched(several)
    asked: dict[str, Any] = {"column": "mood", "x": "level == S", "y": "level != S"}
    audits: list[Any] = [
        audit_levels,
        lambda manifest: audit_annotations(manifest, **asked),
    ]
    for audit in audits:
        try:
            expected = audit(several).to_json()
        except FixInput as error:
            with pytest.raises(FixInput, match=error.message[:20]):
                audit(watched)
        else:
            assert audit(watched).to_json() == expected
    ids = [clip_table(m, Data(view="raw")).ids for m in (watched, several)]
    assert ids[0] == ids[1]
    descriptors = [ChosenBackbone("descriptors")]
    here = Workspace.of(tmp_path)
    plans = [plan_stores(m, descriptors, here) for m in (watched, several)]
    assert [*plans[0].clips] == [*plans[1].clips]
    n_watched = len(watched) - len(several)
    assert plans[0].notes == [f"not extracted: {n_watched} rows of what was watched"]
    check_spans(tmp_path, several, watched)
    folds = {}
    for manifest in (watched, several) if len(several.films) > 1 else ():
        path = here.new_manifest("films")
        write_manifest(manifest, path, force=True)
        report = str(assign_folds(path, kind="grouped", k=2))
        assert "fold  clips" in report
        fold_of_clip = {}
        for clip in read_manifest(path):
            if clip.fold("grouped") is not None:
                fold_of_clip[clip.clip_id] = clip.fold("grouped")
        folds[len(manifest)] = fold_of_clip
    assert len({tuple(fold.items()) for fold in folds.values()}) < 2
    assert compute_stats(watched).size == compute_stats(several).size
    assert summarize(watched).clips == summarize(several).clips
    a_row_each = several.where("annotator == ada")
    if len(a_row_each) > 1:
        raters: dict[str, Any] = {"raters": "mood,mood_again"}
        counts = []
        for manifest in (a_row_each, with_watched(a_row_each, ("ada",))):
            moods = {c.clip_id: c.extra.get("mood", "") for c in a_row_each}
            rated = manifest.with_column("mood", moods).with_column("mood_again", moods)
            with suppress(FixInput):
                audit = audit_reliability(rated, **raters)
                counts.append((audit["n_items"], audit["n_incomplete"]))
        assert len(set(counts)) < 2
    assert long_clips(watched) == long_clips(several)
    notes = []
    for manifest in (several, watched):
        of_labs = [
            replace(manifest.where(f"annotator == {name}"), name=name)
            for name in ANNOTATORS
        ]
        notes.append(merged_manifest(of_labs, "all").notes)
    assert notes[0] == notes[1]


def test_a_person_s_own_comment_makes_a_clip_no_watched_time() -> None:
    own = {"Rating": "3", "annotator": "ada", "comment": "watched"}
    rated = Manifest("a", Header("a"), (Clip("a-1", "a", extra=own),), tuple(own))
    assert compute_stats(rated).clips == 1


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


def test_annotators_who_gave_a_label_together_are_no_third_one(tmp_path: Path) -> None:
    """`ada|ben` was compared with `ada`, and alpha of two who agree was near 0."""
    table = tmp_path / "rows.csv"
    lines = ["clip_id,movie_id,annotator,level,framerate,start_s,end_s"]
    for number, who in enumerate(("ada|ben", "ada", "ben", "cy d|ben")):
        lines.append(f"c{number},alba,{who},S,25,{number},{number + 1}")
    table.write_text("\n".join(lines), "utf-8")
    with pytest.raises(FixInput, match=r"together .*: ada\|ben, cy d\|ben") as caught:
        measure_agreement(table, clips=table)
    tests = "not (annotator == ada and annotator == ben)"
    assert f"--where '{tests}'" in (caught.value.hint or "")
