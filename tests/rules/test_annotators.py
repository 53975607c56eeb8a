"""Rule (a): what is counted, tested and followed in time is the clip, not the annotators' rows."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
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
from obygaze.films.decisions import scores_of_table
from obygaze.films.exchange import export_segments
from obygaze.films.mark_tables import Marks, Segment
from obygaze.films.predictions import read_predictions
from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.planning import ChosenBackbone, plan_stores
from obygaze_features.manifest.adapters.csv_table import read
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.folds import assign_folds
from obygaze_features.manifest.io import read_manifest, rows_to_csv, write_manifest
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest, unannotated_id
from obygaze_features.manifest.overview import summarize
from obygaze_features.manifest.same_clip import (
    Identity,
    clips_of_rows,
    compare_clips,
    rows_of_clips,
)
from obygaze_features.manifest.stats import compute_stats
from obygaze_features.manifest.times import film_times, long_clips
from obygaze_features.manifest.vocabulary import LEVELS
from obygaze_features.store import Row, open_store
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.copying import push
from obygaze_features.store.describing import describe_store
from obygaze_features.store.exporting import export_features
from obygaze_features.store.recipe import space_id_of
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.verifying import verify
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


IDENTITIES = st.lists(
    st.builds(
        Identity,
        st.sampled_from(("1", "2", "3", "alba:000004")),
        st.sampled_from(("alba", "brug", "")),
        st.sampled_from((None, (0.0, 2.0), (2.0, 4.0), (0.01, 2.0))),
        st.sampled_from((None, (0.0, 2.0))),
        st.sampled_from((None, (0.0, 2.0), (0.0, None))),
        st.sampled_from(("", "file")),
        annotator=st.sampled_from(("", *ANNOTATORS)),
    ),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(IDENTITIES)
def test_rows_are_of_one_clip_if_the_comparison_says_so(rows: list[Identity]) -> None:
    contradictions = [
        pair for pair in combinations(rows, 2) if compare_clips(*pair).contradiction
    ]
    if contradictions:
        with pytest.raises(
            FixInput, match=r"contradict each other: (film|times): .* and "
        ):
            rows_of_clips(rows)
        return
    # The closure of "the same clip", by the naive way.
    groups = [{number} for number in range(len(rows))]
    for one, other in combinations(range(len(rows)), 2):
        if compare_clips(rows[one], rows[other]).sameness.is_same:
            (of_one,) = [group for group in groups if one in group]
            (of_other,) = [group for group in groups if other in group]
            if of_one is not of_other:
                of_one |= of_other
                groups.remove(of_other)
    assert rows_of_clips(rows) == sorted(sorted(group) for group in groups)


@pytest.mark.usefixtures("no_intervals")
@settings(max_examples=25, deadline=None)
@given(CLIPS)
def test_audits_of_a_manifest_count_clips(labelled: list[Labelled]) -> None:
    single = manifest_of(labelled, by_annotator=False)
    several = manifest_of(labelled, by_annotator=True)
    levels = [row.level for row in single.view()]
    if {"EN", "S"} <= set(levels) and any(
        row.mood for row in labelled if row.level != "HN"
    ):
        groups: dict[str, Any] = {
            "column": "mood",
            "x": "level == S",
            "y": "level == EN",
        }
        expected: Any = None
        try:
            expected = audit_annotations(single, **groups).to_json()
        except FixInput as error:
            with pytest.raises(FixInput, match=error.message[:20]):
                audit_annotations(several, **groups)
        else:
            assert audit_annotations(several, **groups).to_json() == expected
    if {"HN", "S"} & set(levels):
        of_all, *_ = audit_levels(several).annotators
        assert [level.n_clips for level in of_all.levels] == [
            levels.count(level) for level in LEVELS[1:]
        ]
        assert of_all == audit_levels(single).annotators[0]
    assert compute_stats(several).different_clips == len(labelled)


@pytest.mark.parametrize(
    ("ids", "names", "n_clips"),
    [
        ("lake-1.A lake-2.A lake-1.B lake-2.B", "A A B B", 2),
        # The annotators were given other names, and their ids kept those of before.
        ("lake-1.ada lake-2.ada lake-1.ben lake-2.ben", "A A B B", 4),
        ("1 2 3 4", "A A B B", 4),
        ("1 2 3 4", "A A A A", 4),
    ],
)
def test_an_import_says_that_no_clip_has_rows_of_two_annotators(
    tmp_path: Path, ids: str, names: str, n_clips: int
) -> None:
    """Each of two people's rows was a clip, and nothing said that they are about the same ones."""
    lines = ["clip_id,movie_id,annotator,rating"]
    for clip_id, name in zip(ids.split(), names.split(), strict=True):
        lines.append(f"{clip_id},lake,{name},1")
    table = tmp_path / "t.csv"
    table.write_text("\n".join(lines) + "\n", "utf-8")
    saved = read(table).save("films", workspace=tmp_path)
    assert compute_stats(saved.manifest).different_clips == n_clips
    are_apart = n_clips == 4 and len(set(names.split())) == 2
    said = [note for note in saved.notes if "no clip has rows of two of the 2" in note]
    assert len(said) == are_apart


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
        has_more_rows = len(clips_of_rows(several.clips)) < len(several)
        assert f"fold  {'rows' if has_more_rows else 'clips'}" in report
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
                counts.append((audit.n_items, audit.n_incomplete))
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


@settings(max_examples=8, deadline=None, suppress_health_check=NO_FIXTURES)
@given(labelled=CLIPS, with_manifest=st.booleans(), has_films=st.booleans())
def test_an_association_is_of_clips(
    labelled: list[Labelled],
    with_manifest: bool,
    has_films: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A store that does not say the films has them from the manifest."""
    path = tmp_path_factory.mktemp("eat")
    texts = texts_in(path)
    results = []
    for by_annotator in (False, True):
        manifest = manifest_of(labelled, by_annotator=by_annotator)
        is_said = has_films or not (with_manifest and by_annotator)
        store = store_of(path / f"s{by_annotator}", manifest, has_films=is_said)
        x = [clip.clip_id for clip in manifest if clip.level == "S"]
        y = [clip.clip_id for clip in manifest if clip.level == "EN"]
        if not x or not y:
            return
        used = manifest if with_manifest else None
        results.append(audit_eat(store, used, x=x, y=y, text=texts).to_json())
    assert results[0] == {**results[1], "source": results[0]["source"]}


LABELLED = [
    Labelled("alba", "S", ("Look",), "joy", ("ada", "ben")),
    Labelled("brug", "EN", (), "fear", ("ada",)),
]


@pytest.mark.parametrize("with_manifest", [False, True])
def test_an_association_counts_whole_files_once(
    tmp_path: Path, with_manifest: bool
) -> None:
    """Rows of annotators with ids of their own were counted each."""
    rows = manifest_of(LABELLED, by_annotator=True)
    renamed = [
        replace(clip, clip_id=f"row-{i}", extra={}) for i, clip in enumerate(rows)
    ]
    manifest = rows.with_clips(renamed)
    store = store_of(tmp_path / "s", manifest, (None, None))
    groups: dict[str, Any] = {"x": ["row-0", "row-1"], "y": ["row-2"]}
    used = manifest if with_manifest else None
    audit = audit_eat(store, used, **groups, text=texts_in(tmp_path))
    assert [len(audit.tests[0].s_x), len(audit.tests[0].s_y)] == [1, 1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"movie_id": "lake"}, "film: lake and alba"),
        ({"start_s": 5.0, "end_s": 9.0}, "times: 5 s to 9 s and 2 s to 4 s"),
    ],
)
def test_an_association_of_clips_that_are_others_in_the_store_is_refused(
    tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    manifest = manifest_of(LABELLED, by_annotator=False)
    store = store_of(tmp_path / "s", manifest)
    groups: dict[str, Any] = {"x": ["alba-00"], "y": ["brug-01"]}
    changed = [replace(manifest["alba-00"], **change), manifest["brug-01"]]
    with pytest.raises(FixInput, match=problem):
        audit_eat(
            store, manifest.with_clips(changed), **groups, text=texts_in(tmp_path)
        )


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("brug,,", "another clip, film: brug and alba"),
        (",7.5,9", "another clip, times: 7.5 s to 9 s and 0 s to 2 s"),
        ("alba,0,2", ""),
        ("unknown,,", ""),
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
    with pytest.raises(FixInput) as caught:
        audit_annotations(manifest, **groups)
    assert caught.value.details[0].endswith(problem)


def test_an_association_reads_the_clip_of_which_a_manifest_has_annotators(
    tmp_path: Path,
) -> None:
    store = store_of(tmp_path / "s", manifest_of(LABELLED, by_annotator=False))
    manifest = manifest_of(LABELLED, by_annotator=True)
    groups: dict[str, Any] = {"x": "level == S", "y": "level == EN"}
    audit = audit_eat(store, manifest, **groups, text=texts_in(tmp_path))
    assert [len(audit.tests[0].s_x), len(audit.tests[0].s_y)] == [1, 1]


def test_clips_that_annotators_put_into_both_groups_are_left_out() -> None:
    labelled = [
        Labelled("alba", "S", ("Look",), "joy", ("ada", "ben")),
        Labelled("alba", "EN", (), "fear", ("ada", "ben")),
        Labelled("alba", "S", ("Look",), "joy", ("ada", "ben")),
        Labelled("brug", "EN", (), "", ("ada",)),
    ]
    manifest = manifest_of(labelled, by_annotator=True)
    clips = [
        replace(clip, level="EN", concepts=())
        if clip.clip_id == "alba-02.ben"
        else clip
        for clip in manifest
    ]
    audit = audit_annotations(
        manifest.with_clips(clips), column="mood", x="level == S", y="level == EN"
    )
    document = audit.to_json()
    assert (document["n_x"], document["n_y"], document["n_in_both"]) == (1, 2, 1)
    assert "1 clip that annotators put into both groups is left out" in str(audit)
    with pytest.raises(FixInput, match="each clip of the group"):
        audit_annotations(
            manifest,
            column="mood",
            x="level == S and annotator == ada",
            y="level == S and annotator == ben",
        )


@settings(max_examples=12, deadline=None, suppress_health_check=NO_FIXTURES)
@given(
    levels=st.lists(
        st.tuples(st.sampled_from(LEVELS[1:]), st.sampled_from(LEVELS[1:])),
        min_size=2,
        max_size=8,
    ),
    n_rows=st.lists(st.integers(1, 3), min_size=8, max_size=8),
)
def test_agreement_is_of_clips(
    levels: list[tuple[str, str]], n_rows: list[int], tmp_path: Path
) -> None:
    marks = ["movie_id,annotator,start_frame,end_frame,level,concepts,framerate"]
    single = ["clip_id,movie_id,start_frame,end_frame"]
    several = ["clip_id,movie_id,start_frame,end_frame,annotator"]
    # Each lab rounds in its own way: to other pictures, but to the same times.
    rounded = ["clip_id,movie_id,start_s,end_s,annotator"]
    for number, pair in enumerate(levels):
        first, last = 100 * number, 100 * number + 99
        for name, level in zip(ANNOTATORS, pair, strict=False):
            marks.append(f"alba,{name},{first},{last},{level},,25")
        single.append(f"alba-{number},alba,{first},{last}")
        for place, name in enumerate(ANNOTATORS[: n_rows[number]]):
            several.append(f"alba-{number}.{name},alba,{first},{last},{name}")
            start_s = first / 25 + (0.015, 0.025, 0.015)[place]
            end_s = start_s + 4
            rounded.append(f"alba-{number}.{name},alba,{start_s},{end_s},{name}")
    measured = []
    for rows in (single, several, rounded):
        (tmp_path / "marks.csv").write_text("\n".join(marks) + "\n", encoding="utf-8")
        (tmp_path / "clips.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        agreement = measure_agreement(
            tmp_path / "marks.csv", clips=tmp_path / "clips.csv", permutations=99
        )
        measured.append(agreement.to_json())
    assert measured[0] == measured[1] == measured[2]


@settings(max_examples=40, deadline=None)
@given(CLIPS, st.sampled_from((0.0, LENGTH_S)))
def test_a_film_is_as_long_as_its_clips_whoever_labelled_them(
    labelled: list[Labelled], length_s: float
) -> None:
    single = manifest_of(labelled, by_annotator=False, own_file=True)
    several = manifest_of(labelled, by_annotator=True, own_file=True)
    for film in single.films:
        expected = film_times(
            [clip for clip in single if clip.movie_id == film],
            rate=Fraction(25),
            length_of=lambda _: length_s,
        )
        found = film_times(
            [clip for clip in several if clip.movie_id == film],
            rate=Fraction(25),
            length_of=lambda _: length_s,
        )
        assert (found.axis, found.end_s, found.n_frames) == (
            expected.axis,
            expected.end_s,
            expected.n_frames,
        )
        assert found.pieces == expected.pieces
        assert found.unknown == expected.unknown
        for clip_id, span in found.spans.items():
            assert span == expected.spans[clip_id.partition(".")[0]]
    assert bool(long_clips(several)) == bool(long_clips(single))


@settings(max_examples=25, deadline=None, suppress_health_check=NO_FIXTURES)
@given(labelled=CLIPS, values=st.lists(st.sampled_from(("", "a", "b")), min_size=9))
def test_a_table_is_joined_with_every_row_of_its_clips(
    labelled: list[Labelled], values: list[str], tmp_path: Path
) -> None:
    single = manifest_of(labelled, by_annotator=False)
    several = manifest_of(labelled, by_annotator=True)
    lines = ["clip_id,movie_id,light"]
    for clip, value in zip(single, values, strict=False):
        lines.append(f"{clip.clip_id},{clip.movie_id},{value}")
    table = tmp_path / "light.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    of_clips = {
        clip.clip_id: clip.extra["light"] for clip in join(single, table).manifest
    }
    joined = join(several, table)
    for clip in joined.manifest:
        assert clip.extra["light"] == of_clips[clip.clip_id.partition(".")[0]]
    assert joined.n_by_id == 0
    table.write_text(
        table.read_text("utf-8").replace(",alba,", ",,").replace(",brug,", ",,"),
        "utf-8",
    )
    assert join(several, table).n_by_id == len(several)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("alba-1,brug,,,x", "film: alba and brug"),
        ("alba-1,alba,7.5,9,x", "times: 0 s to 2 s and 7.5 s to 9 s"),
        ("alba-1,,7.5,9,x", "times: 0 s to 2 s and 7.5 s to 9 s"),
    ],
)
def test_a_row_of_another_clip_is_not_joined(
    tmp_path: Path, row: str, problem: str
) -> None:
    clip = Clip("alba-1", "alba", start_s=0.0, end_s=2.0)
    manifest = Manifest("films", Header("made up"), (clip,))
    table = tmp_path / "t.csv"
    table.write_text(f"clip_id,movie_id,start_s,end_s,light\n{row}\n", encoding="utf-8")
    with pytest.raises(FixInput) as caught:
        join(manifest, table)
    assert caught.value.details[0].endswith(problem)


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
    with pytest.raises(FixInput) as caught:
        join(manifest, table, {"times": short})
    assert "another clip than 'alba-1'" in caught.value.details[0]


def test_rows_with_times_are_not_joined_to_all_clips_of_a_film(tmp_path: Path) -> None:
    clips = tuple(
        Clip(f"alba-{i}", "alba", start_s=2.0 * i, end_s=2.0 * i + 2) for i in range(2)
    )
    table = tmp_path / "t.csv"
    table.write_text("movie_id,start_s,end_s,light\nalba,0,2,x\nalba,2,4,y\n", "utf-8")
    with pytest.raises(FixInput) as caught:
        join(Manifest("films", Header("made up"), clips), table)
    assert "rows with times are of clips, not of films" in caught.value.details[0]


def test_no_row_gets_another_annotator(tmp_path: Path) -> None:
    rows = [
        Clip(f"alba-1.{name}", "alba", extra={"annotator": name})
        for name in ("ada", "ben")
    ]
    manifest = Manifest("films", Header("made up"), tuple(rows), ("annotator",))
    table = tmp_path / "t.csv"
    table.write_text("clip_id,who\nalba-1,ben\n", encoding="utf-8")
    with pytest.raises(FixInput, match="have a column annotator"):
        join(manifest, table, {"annotator": "who"}, force=True)


@pytest.mark.parametrize("form", ["lake-{}", "lake:{:06d}"])
def test_a_table_of_clips_or_windows_has_rows_of_annotators(
    tmp_path: Path, form: str
) -> None:
    """Two people label a sample of windows in one table."""
    rows = ["clip_id,movie_id,start_s,end_s,annotator,level"]
    for name in ("ada", "Ben Ö"):
        for number in range(3):
            start = 2 * number
            rows.append(f"{form.format(number)},lake,{start},{start + 2},{name},S")
    table = tmp_path / "table.csv"
    table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    manifest = read(table).manifest
    write_manifest(manifest, tmp_path / "labelled.toml")
    again = read_manifest(tmp_path / "labelled.toml")
    assert again.clips == manifest.clips
    stats = compute_stats(again)
    assert (stats.clips, stats.different_clips) == (6, 3)
    assert {unannotated_id(row) for row in again} == {form.format(n) for n in range(3)}


@settings(max_examples=40, deadline=None, suppress_health_check=NO_FIXTURES)
@given(
    rows=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 3)),
        min_size=2,
        max_size=6,
        unique_by=lambda row: row[0],
    )
)
def test_a_clip_whose_id_ends_like_the_name_of_its_annotator_is_no_other_clip(
    rows: list[tuple[int, int]], tmp_path: Path
) -> None:
    """`juno.1` of the annotator 1 and `juno.2` of 2 were the clip `juno` of both."""
    table = tmp_path / "t.csv"
    lines = ["clip_id,movie_id,annotator"]
    lines += [f"juno.{clip},juno,{annotator}" for clip, annotator in rows]
    table.write_text("\n".join(lines), "utf-8")
    n_named = sum(clip == annotator for clip, annotator in rows)
    if 0 < n_named < len(rows):
        with pytest.raises(FixInput, match="cannot be imported") as caught:
            read(table)
        assert "some ids end with the name of their annotator" in str(
            caught.value.details
        )
        return
    clips = read(table).manifest.clips
    # As an export writes the rows of all annotators of the clip `juno`.
    assert len(clips_of_rows(clips)) == (1 if n_named else len(rows))


def test_a_prediction_is_of_a_clip_whoever_labelled_it(tmp_path: Path) -> None:
    """Of a store, which has a clip once, and of a run, which has all rows.

    It is one cue of a subtitle. On the page, where each row is shown, each has the score: that of
    the first annotator alone had it.
    """
    rows = [
        Clip(
            f"alba-{i}.{name}",
            "alba",
            start_s=2.0 * i,
            end_s=2.0 * i + 2,
            extra={"annotator": name, "framerate": "25"},
        )
        for i, name in product(range(2), ("ada", "ben"))
    ]
    columns = ("annotator", "framerate")
    manifest = Manifest("films", Header("made up"), tuple(rows), columns)
    of_store = [f"alba-{i}" for i in range(2)]
    table = tmp_path / "scores.csv"
    texts = []
    for ids in (of_store, [row.clip_id for row in rows]):
        lines = [f"{clip_id},alba,unseen,S,0.{clip_id[5]}" for clip_id in ids]
        header = "clip_id,movie_id,basis,decision,score:S"
        table.write_text("\n".join([header, *lines]), "utf-8")
        (path,) = export_segments(
            "vtt", manifest, predictions=table, folder=tmp_path, force=True
        ).files
        texts.append(path.read_text("utf-8"))
        on_page = scores_of_table(read_predictions(manifest, table), manifest)
        scores = {row: one["score"] for row, one in on_page["scores"].items()}
        assert scores == {row.clip_id: float(f"0.{row.clip_id[5]}") for row in rows}
        assert (
            on_page["text"] == f"Scores of a saved model, by basis: {len(ids)} unseen."
        )
    assert texts[0] == texts[1]
    assert texts[0].count("-->") == 2


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
    assert [one.annotator for one in audit.single] == ["ada", "ben"]


NAMES = {"Zoë B": ("Zoe\u0308 B", "Zoë  B", "Zoe\u0308\u00a0B"), "ben": ("ben",)}


@settings(max_examples=15, deadline=None, suppress_health_check=NO_FIXTURES)
@given(
    levels=st.lists(
        st.tuples(st.sampled_from(LEVELS), st.sampled_from(LEVELS)),
        min_size=4,
        max_size=8,
    ),
    data=st.data(),
)
def test_an_annotator_is_one_however_the_name_is_written(
    levels: list[tuple[str, str]], data: st.DataObject, tmp_path: Path
) -> None:
    """Who typed on a Mac and under Windows was two people, who agreed with nobody."""
    found = []
    for is_plain in (True, False):
        lines = ["clip_id,movie_id,annotator,level,concepts,framerate,start_s,end_s"]
        for number, pair in enumerate(levels):
            # The name of the film, too.
            film = "Amélie" if is_plain or number % 2 else "Ame\u0301lie"
            for name, level in zip(NAMES, pair, strict=True):
                written = name if is_plain else data.draw(st.sampled_from(NAMES[name]))
                times = f"{number},{number + 1}"
                lines.append(f"c{number},{film},{written},{level},Look,25,{times}")
        table = tmp_path / "typed.csv"
        table.write_text("\n".join(lines), "utf-8")
        manifest = read(table).manifest
        write_manifest(manifest, tmp_path / "rows.toml", force=True)
        agreed = measure_agreement(
            tmp_path / "rows.toml", clips=tmp_path / "rows.toml", permutations=9
        )
        reliability = audit_reliability(manifest, column="level").to_json()
        audited = None
        if any(clip.level != "EN" for clip in manifest):
            audited = audit_levels(manifest).to_json()
        found.append((agreed.to_json(), reliability, audited, manifest.films))
    assert found[0] == found[1]


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


def test_annotators_who_place_a_clip_apart_are_refused_at_import(
    tmp_path: Path,
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        "clip_id,movie_id,annotator,start_s,end_s\n"
        "alba-1,alba,ada,0,2\n"
        "alba-1,alba,ben,5,9\n",
        encoding="utf-8",
    )
    imported = read(table)
    with pytest.raises(FixInput, match="times: 0 s to 2 s and 5 s to 9 s"):
        imported.save(tmp_path / "films.toml")
    assert not (tmp_path / "films.toml").exists()


@pytest.mark.parametrize("has_times", [True, False])
@pytest.mark.parametrize(
    ("withdrawn", "other", "is_withdrawn"),
    [
        ("lake-1", "lake-1.ada", True),
        ("lake-1.ada", "lake-1", True),
        ("lake-1.ada", "lake-1.ada", True),
        ("lake-1", "lake-10.ada", False),
        # Other clips, whose ids only begin with the same word.
        ("lake.1", "lake.2", False),
    ],
)
def test_a_withdrawn_clip_is_known_in_stores_of_annotators(
    tmp_path: Path, withdrawn: str, other: str, is_withdrawn: bool, has_times: bool
) -> None:
    """Each place that asks whether it was withdrawn gets the same answer."""
    workspace = Workspace(tmp_path)
    places = []
    for number, name in enumerate((withdrawn, other)):
        start_s = 10.0 if has_times else None
        if has_times and not is_withdrawn:
            start_s = 10.0 + number
        end_s = None if start_s is None else start_s + 2
        rows = [Row(name, "lake", start_s, end_s), Row(f"{number}", "pier")]
        values = {"clip": np.ones((2, 4), np.float32)}
        place = tmp_path / "stores" / str(number)
        made_store(place, rows, values)
        places.append(place)
    made = subset(places[0], without=[withdrawn], reason="asked", workspace=workspace)
    assert [copy.path.name for copy in made.copies[1:]] == ["1"] * is_withdrawn
    shown = describe_store(places[1], workspace=workspace)
    assert len(shown.warnings) == is_withdrawn
    sent = push(places[1], tmp_path / "sent", no_licence=True, workspace=workspace)
    assert any("withdrawn from" in note for note in sent.notes) == is_withdrawn
    merge(places, tmp_path / "stores" / "both", workspace=workspace)
    status_of = {
        row.clip_id: row.status for row in open_store("both", workspace=workspace).rows
    }
    assert (status_of[other] == "withdrawn") == is_withdrawn
    assert status_of["1"] == "ok"


@settings(max_examples=25, deadline=None, suppress_health_check=NO_FIXTURES)
@given(
    rows_of_clips=st.lists(
        st.lists(st.sampled_from(("", *ANNOTATORS)), min_size=1, unique=True),
        min_size=1,
        max_size=3,
    ),
    has_times=st.booleans(),
    has_manifest=st.booleans(),
    place=st.integers(0, 99),
)
def test_what_a_withdrawal_leaves_was_not_withdrawn(
    rows_of_clips: list[list[str]], has_times: bool, has_manifest: bool, place: int
) -> None:
    """A store may have a clip beside rows of annotators about it, as a merger does.

    Where nobody knows whose rows they are, `lake-1.ada` and `lake-1.ben` are one clip if the store
    has `lake-1`. What stays is not said to be withdrawn from this store.
    """
    with TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        clips = []
        for number, names in enumerate(rows_of_clips):
            span = (2.0 * number, 2.0 * number + 2) if has_times else (None, None)
            for name in names:
                clip_id = f"lake-{number}.{name}" if name else f"lake-{number}"
                extra = {"annotator": name} if name else {}
                clips.append(Clip(clip_id, "lake", None, "", *span, extra=extra))
        if has_manifest:
            manifest = Manifest("films", Header("f"), tuple(clips), ("annotator",))
            write_manifest(manifest, workspace.manifest("films"))
        rows = [Row(c.clip_id, c.movie_id, c.start_s, c.end_s) for c in clips]
        store = workspace.folder("stores") / "films"
        values = {"clip": np.ones((len(rows), 4), np.float32)}
        made_store(store, rows, values, manifest=ManifestMark("films", "0" * 64))
        chosen = clips[place % len(clips)].clip_id
        made = subset(store, without=[chosen], reason="asked", workspace=workspace)
        about, _, name = chosen.partition(".")
        rows_about = [row for row in rows if row.clip_id.partition(".")[0] == about]
        is_one_clip = has_manifest or about in {row.clip_id for row in rows_about}
        expected = {row.clip_id for row in rows_about} if is_one_clip else {chosen}
        assert set(made.clips) == expected
        assert verify(store, workspace=workspace).warnings == []


# Whose rows of a clip the manifest and the store have; "" is a row of nobody.
OWNERS = st.sampled_from([("",), ("ada",), ("ada", "ben"), ()])
STORED = st.sampled_from([("",), ("ada",), ("ada", "ben"), ("",)])


@given(st.lists(st.tuples(OWNERS, STORED), min_size=1, max_size=4))
@settings(max_examples=15, suppress_health_check=NO_FIXTURES, deadline=None)
def test_the_labels_in_an_export_are_those_of_the_clip(
    tmp_path_factory: pytest.TempPathFactory,
    owners_of_clips: list[tuple[tuple[str, ...], tuple[str, ...]]],
) -> None:
    """A row has the level of its own row of the manifest, or of the only one about its clip."""
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path_factory.mktemp("labels")
    clips = []
    rows = []
    expected: dict[str, str | None] = {}
    is_several = False
    for number, (owners, stored) in enumerate(owners_of_clips):
        clip_id = f"lake-{number}"
        span = (float(number), float(number + 1))
        level_of: dict[str, str] = {}
        for owner, level in zip(owners, ("S", "EN"), strict=False):
            level_of[owner] = level
            name = f"{clip_id}.{owner}".rstrip(".")
            extra = {"annotator": owner} if owner else {}
            clips.append(Clip(name, "lake", None, "", *span, level=level, extra=extra))
        for owner in stored:
            name = f"{clip_id}.{owner}".rstrip(".")
            rows.append(Row(name, "lake", *span))
            # Those whose annotators have rows in the store are about these.
            about = [one for one in owners if not owner and one not in stored]
            found = [owner] if owner in owners else about
            is_several |= len(found) > 1
            expected[name] = level_of[found[0]] if len(found) == 1 else None
    manifest = Manifest("labels", Header("labels", {}), tuple(clips), ("annotator",))
    store = made_store(folder / "s", rows, {"clip": np.ones((len(rows), 4), "f4")})
    if is_several or not any(expected.values()):
        sentence = "rows of several annotators about" if is_several else "has none of"
        with pytest.raises(FixInput, match=sentence):
            export_features(store, folder / "out", "parquet", labels=manifest)
        assert not (folder / "out").exists()
        return
    done = export_features(store, folder / "out", "parquet", labels=manifest)
    table = parquet.read_table(folder / "out" / "data" / "features.parquet")
    levels = {row["clip_id"]: row["level"] for row in table.to_pylist()}
    assert levels == expected
    n_missing = [*expected.values()].count(None)
    assert len(done.warnings) == bool(n_missing)
    assert all(text.startswith(f"{n_missing} clip") for text in done.warnings)
