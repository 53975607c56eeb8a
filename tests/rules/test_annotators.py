"""Rule (a): what is counted, tested and followed in time is the clip, not the annotators' rows."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from itertools import combinations, permutations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from support import experiments
from support.cli import call_obygaze
from support.experiments import (
    ONE_PAIR,
    films,
    planted,
    quick,
    run_on,
    without_models,
)
from support.stores import a_recipe, made_store

import obygaze as og
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
from obygaze_models.evaluation.error_analysis import analyse_success
from obygaze_models.evaluation.metrics import average_precision
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import FixTraining
from obygaze_models.models.concept_report import concept_quality, shift_test
from obygaze_models.models.erasure import fit_eraser
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.schema import Data
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.page import chapter_of
from obygaze_models.runner.features import Features
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.scores import expected_random
from obygaze_models.runner.store_run import store_runs
from obygaze_models.runner.summary import cells_of
from obygaze_models.runner.tables import ClipNumbers

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


@given(
    st.integers(1, 3).flatmap(
        lambda n_rows: st.lists(
            st.tuples(st.integers(0, 2), st.tuples(*[st.booleans()] * n_rows)),
            min_size=1,
            max_size=5,
        )
    )
)
def test_an_order_is_of_clips_whatever_their_annotators_say(
    clips: list[tuple[int, tuple[bool, ...]]],
) -> None:
    """Average precision is that of each order of the clips, and its mean over all orders."""
    y = np.array([labels for _, labels in clips])
    scores = np.array([float(score) for score, _ in clips])
    numbers = np.broadcast_to(np.arange(len(y))[:, None], y.shape)
    assume(y.any())
    found = []
    for order in permutations(range(len(y))):
        in_order = 10 * scores + np.array(order)
        of_rows = np.broadcast_to(in_order[:, None], y.shape)
        found.append(average_precision_score(y.ravel(), of_rows.ravel()))
    of_rows = np.broadcast_to(scores[:, None], y.shape)
    predictions = Predictions.of(y.ravel(), of_rows.ravel(), clips=numbers.ravel())
    assert average_precision(predictions) == pytest.approx(np.mean(found))
    if len(set(scores.tolist())) == 1:
        one_unit = np.zeros(y.size, dtype=np.intp)
        at_random = expected_random(y.ravel(), one_unit, 1, 0.5, clips=numbers.ravel())
        assert at_random(np.ones((1, 1)))["ap"] == pytest.approx(np.mean(found))


def test_values_are_the_same_since_annotators_agree(tmp_path: Path) -> None:
    """Of a nearly perfect AUC the interval is that of the number of clips."""
    single = films(8, 20)
    rows = []
    for clip in single:
        for name in ANNOTATORS:
            extra = {"annotator": name}
            rows.append(replace(clip, clip_id=f"{clip.clip_id}.{name}", extra=extra))
    several = Manifest(single.name, single.header, tuple(rows), ("annotator",))
    X = planted(single, strength=2)
    store = experiments.store_of(tmp_path / "store", single, X)
    one_pair = (*ONE_PAIR, 'grid.models=["ridge"]', 'grid.baselines=["random"]')
    intervals = []
    precisions = []
    for manifest, most in ((single, "1"), (several, "at most 1")):
        run = run_on(tmp_path, quick("honest", *one_pair), manifest, {"x": store})
        limits = " ".join(chapter_of(ReportRun.of(run)).limits)
        assert f"; in perfect order they have {most}." in limits
        for row in run.results:
            is_asked = (row["model"], row["metric"]) == ("ridge", "auc")
            if is_asked and not row["film"] and not row["against_model"]:
                intervals.append((row["value"], row["low"], row["high"]))
        of_run = {}
        for (*_, model), cell in run.tested_cells.items():
            (rows,) = [rows for rows in cells_of(run) if rows.model == model]
            assert cell.value["ap"] == pytest.approx(rows.value("ap"), nan_ok=True)
            of_run[model] = rows.value("ap")
        precisions.append(of_run)
    of_clips, of_rows = intervals
    assert of_clips[0] > 0.95 and of_rows == pytest.approx(of_clips)
    assert {"ridge", "random"} <= precisions[0].keys()
    assert precisions[1] == pytest.approx(precisions[0])


def test_runs_are_compared_on_clips_whoever_labelled_them(tmp_path: Path) -> None:
    """No clip was in both: an annotator's rows have ids of their own."""
    single = films(6, 12)
    rng = np.random.default_rng(4)
    rows = []
    for clip in single:
        rows.append((clip, "ada", clip.level))
        level = "S" if rng.random() < 0.5 else "EN"
        rows.append((clip, "ben", level))
    several = []
    for clip, name, level in rows:
        extra = {"annotator": name}
        named = replace(clip, clip_id=f"{clip.clip_id}.{name}", extra=extra)
        several.append(replace(named, level=level))
    of_all = Manifest("all", single.header, tuple(several), ("annotator",))
    experiments.store_of(tmp_path / "stores" / "x", single, planted(single))
    changes = (*ONE_PAIR, 'grid.models=["ridge"]', "data.view=raw")
    runs = {}
    for name, manifest in {"one": single, "ada": of_all, "ben": of_all}.items():
        manifest = replace(manifest, name=name)
        write_manifest(manifest, tmp_path / "manifests" / f"{name}.toml")
        where = [] if name == "one" else [f"data.where=annotator == {name}"]
        options: Any = {"changes": [*changes, *where], "output": name}
        runs[name] = og.run("honest", "x", name, workspace=tmp_path, **options)
    tested = [clip for clip in single if clip.level != "NS"]
    level_of = {(clip.clip_id, name): level for clip, name, level in rows}
    n_same = 0
    for clip in tested:
        is_sure = level_of[clip.clip_id, "ben"] == "S"
        n_same += is_sure == (clip.level == "S")
    assert 0 < n_same < len(tested)
    for name, n_clips in {"ada": len(tested), "ben": n_same}.items():
        (cell,) = og.compare(runs["one"], runs[name]).cells
        of_one, of_other = cell.sides
        assert of_one is not None and of_other is not None
        assert (of_one.n_clips, of_other.n_clips) == (n_clips, n_clips)
        if name == "ada":
            assert (of_other.value, of_other.difference) == (of_one.value, 0)


@settings(max_examples=40, deadline=None)
@given(
    CLIPS,
    st.lists(
        st.lists(st.sampled_from(ANNOTATORS), unique=True, min_size=1),
        min_size=1,
        max_size=4,
    ),
)
def test_a_clip_has_one_place_in_runs_of_some_of_its_annotators(
    labelled: list[Labelled], annotators_of_runs: list[list[str]]
) -> None:
    """`c.ben` was the first row of its clip in one run, and `c.ada` in another one.

    Together they had two places in the order of a comparison, and in turn two values.
    """
    several = manifest_of(labelled, by_annotator=True)
    runs: Any = []
    # For each clip, the annotators that a run says are about one clip.
    together: dict[str, list[set[str]]] = {}
    for annotators in annotators_of_runs:
        rows = [
            clip
            for name in annotators
            for clip in several
            if clip.extra["annotator"] == name
        ]
        if not rows:
            continue
        table = clip_table(several.with_clips(rows), Data(view="raw"))
        predictions = [
            {"movie_id": clip.movie_id, "clip_id": clip.clip_id} for clip in rows
        ]
        about = {"clip_of_row": dict(table.clip_of)}
        run = SimpleNamespace(predictions=predictions, about=about, group_of_film={})
        runs.append(run)
        for clip_id in {unannotated_id(clip) for clip in rows}:
            names = {
                clip.extra["annotator"]
                for clip in rows
                if unannotated_id(clip) == clip_id
            }
            groups = together.setdefault(clip_id, [])
            for group in [group for group in groups if group & names]:
                groups.remove(group)
                names |= group
            groups.append(names)
    assume(runs)
    found = ClipNumbers.of(runs)
    rows_of_place: dict[int, set[str]] = {}
    for (_, row_id), number in found.number_of.items():
        rows_of_place.setdefault(int(found.clips[number]), set()).add(row_id)
    expected = []
    for clip_id, groups in together.items():
        for names in groups:
            expected.append({f"{clip_id}.{name}" for name in names})
    assert sorted(map(sorted, rows_of_place.values())) == sorted(map(sorted, expected))


class Layout(NamedTuple):
    """How many films there are, whether scenes are known, and whose rows come first."""

    n_films: int
    has_scenes: bool
    is_by_annotator: bool
    seed: int


LAYOUTS = st.builds(
    Layout,
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)


def one_and_several(layout: Layout) -> tuple[Manifest, Manifest]:
    """Clips with one row each, and with a row of each annotator; all say the same."""
    single = films(layout.n_films, 60 // layout.n_films, layout.seed)
    clips = []
    for number, clip in enumerate(single):
        scene = clip.scene if layout.has_scenes else None
        part = ("train", "train", "test")[number % 3]
        clips.append(replace(clip, scene=scene, extra={"part": part}))
    columns = ("part",)
    single = Manifest(single.name, single.header, tuple(clips), columns)
    pairs = [*product(clips, ANNOTATORS)]
    if layout.is_by_annotator:
        pairs.sort(key=lambda pair: pair[1])
    rows = []
    for clip, name in pairs:
        extra = {**clip.extra, "annotator": name}
        rows.append(replace(clip, clip_id=f"{clip.clip_id}.{name}", extra=extra))
    header = single.header
    return single, Manifest(single.name, header, tuple(rows), (*columns, "annotator"))


FIXED = ("splits.kind=fixed", "splits.column=part", 'splits.test=["test"]')
CLIP_SPLITS = {
    "drawn": ("splits.kind=kfold", "splits.folds=4"),
    "fixed": FIXED,
}


@given(LAYOUTS, st.sampled_from([*CLIP_SPLITS]))
@settings(max_examples=12, suppress_health_check=NO_FIXTURES)
def test_rows_about_one_clip_are_on_one_side_of_a_split(
    layout: Layout, splits: str
) -> None:
    """Each side has every row of as many clips as if each clip had one row."""
    single, several = one_and_several(layout)
    changes = (*CLIP_SPLITS[splits], 'grid.models=["ridge"]', "leakage=warn")
    protocol = without_models(quick("honest", *ONE_PAIR, *changes), "random")
    sides = []
    for manifest in (single, several):
        inputs = gather(protocol, manifest, "made-up", {})
        (run,) = store_runs(inputs)
        n_rows = len(manifest) // len(single)
        for _, _, held in run.every_fold:
            of_sides = []
            for rows in (held.train, held.validation, held.test):
                found = np.unique(inputs.table.clip_numbers[rows], return_counts=True)
                assert set(found[1].tolist()) <= {n_rows}
                of_sides.append(len(found[0]))
            sides.append(of_sides)
    n_folds = len(sides) // 2
    assert sides[:n_folds] == sides[n_folds:]
    assert all(n_train and n_test for n_train, _, n_test in sides)


@given(LAYOUTS.filter(lambda layout: layout.n_films > 1))
@settings(max_examples=4, deadline=None, suppress_health_check=NO_FIXTURES)
def test_a_guess_from_scenes_is_as_good_however_many_annotators_agree(
    tmp_path: Path, layout: Layout
) -> None:
    """The scene of a row is that of its clip: rows of others do not move scenes apart."""
    changes = ("splits.kind=kfold", "splits.folds=4", *ONE_PAIR)
    guesses = ("film_prior", "neighbour")
    protocol = without_models(quick("honest", *changes, replicates=2), *guesses)
    found = []
    for manifest in one_and_several(layout):
        run = run_on(tmp_path, protocol, manifest, {})
        for row in run.results:
            if row["metric"] == "auc" and not row["film"]:
                # Sums of more rows are rounded in other ways, which parts a tie or two, and the one
                # row that film_prior adds weighs less: films of nearly one share change places.
                value = pytest.approx(row["value"], abs=0.05, nan_ok=True)
                found.append((row["model"], value))
    assert len(found) == 4
    for (model, value), (other, several) in zip(found[:2], found[2:], strict=True):
        assert model == other and value.expected == several


def test_what_is_chosen_inside_a_film_has_not_seen_the_clip(tmp_path: Path) -> None:
    """Features of noise ask for a strong penalty, and for vectors that promise nothing.

    A fit without one row of a clip, but with another one, would know its class by heart.
    """
    single, several = one_and_several(Layout(1, True, False, 3))
    X = np.random.default_rng(0).normal(size=(len(single), 200)).astype(np.float32)
    store = experiments.store_of(tmp_path / "store", single, X)
    changes = ("splits.kind=kfold", "splits.folds=3", 'grid.models=["ridge","pcbm-lr"]')
    protocol = quick("honest", *ONE_PAIR, *changes, replicates=2)
    alphas = []
    errors = []
    for manifest in (single, several):
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        ridge, bottleneck = cells_of(run)
        alphas.append([fold["chosen"]["alpha"] for fold in ridge.facts["folds"]])
        errors.append(bottleneck.value("brier"))
    of_clips, of_rows = np.log10(alphas)
    # Three equal rows are one with a third of the penalty: at most a step of the search.
    assert np.abs(of_clips - of_rows).max() < 0.51
    assert errors[1] < errors[0] + 0.04


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), min_size=6
    ),
    st.integers(2, 4),
)
def test_a_concept_is_as_sure_however_many_annotators_agree(
    clips: list[tuple[int, int, bool]], n_rows: int
) -> None:
    """Labels are shifted from clip to clip, not from row to row of one clip."""
    film, score, positive = (np.array(column) for column in zip(*clips, strict=True))
    if positive.all() or not positive.any():
        return
    rows = np.repeat(np.arange(len(clips)), n_rows)
    one = shift_test(score.astype(float), positive, film, 3)
    several = shift_test(score[rows].astype(float), positive[rows], film[rows], 3, rows)
    assert several == pytest.approx(one)
    numbers: dict[str, Any] = {"n_replicates": 20}
    perfect = [
        concept_quality(margins, margins > 0, films, ["Look"], clips=of_rows, **numbers)
        for margins, films, of_rows in (
            (positive[:, None] * 2.0 - 1, film, None),
            (positive[rows][:, None] * 2.0 - 1, film[rows], rows),
        )
    ]
    intervals = [quality.metrics["auc"].by_film for (quality,) in perfect]
    assert intervals[1] == intervals[0] or math.isnan(intervals[0].low)


@given(st.integers(2, 4), st.integers(0, 99))
@settings(max_examples=5, deadline=None)
def test_what_makes_clips_easy_is_as_sure_however_many_annotators_agree(
    n_rows: int, seed: int
) -> None:
    """Standard errors of a film are over clips: rows of one clip tell it once."""
    random = np.random.default_rng(seed)
    factor = random.random(60) < 0.5
    is_right = random.random(60) < 0.3 + 0.4 * factor
    film = np.repeat(["alba", "brug"], 30)
    found = []
    for clips in (np.arange(60), np.repeat(np.arange(60), n_rows)):
        factors = {"dark": factor[clips]}
        of_rows = is_right[clips], factors, film[clips]
        for of_film in analyse_success(*of_rows, clips=clips)[1:]:
            assert of_film.errors == "clips"
            (dark,) = of_film.factors
            if of_film.method == "ml":  # a penalised fit has no standard error
                found.append((dark.log_odds, dark.se, dark.p))
    half = len(found) // 2
    expected = [pytest.approx(numbers, rel=1e-6) for numbers in found[:half]]
    assert found[half:] == expected


@pytest.mark.parametrize("n_rows", [1, 4])
def test_too_few_clips_are_too_few_however_many_annotators_agree(n_rows: int) -> None:
    clips = np.repeat(np.arange(52), n_rows)
    film = np.where(clips < 24, "alba", np.where(clips < 48, "brug", "cove"))
    is_right = clips % 3 > 0
    factors = {"dark": clips % 24 < 2}
    of_all, alba, _, cove = analyse_success(is_right, factors, film, clips=clips)
    # By hand: clips 0 and 1, 24 and 25, 48 and 49.
    assert [factor.name for factor in of_all.factors] == ["dark"]
    assert alba.left_out == {"dark": "2 of 24 clips are with it"}
    assert cove.note == "4 clips, 5 are needed for 1 factors"
    X = np.random.default_rng(0).normal(size=(52, 4))[clips]
    with pytest.raises(FixTraining, match="got 2 and 50"):
        fit_eraser(X, (clips < 2)[:, None].astype(int), ["Look"], clips)


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


def test_rows_of_one_clip_have_one_score(tmp_path: Path) -> None:
    """A product of matrices rounds equal rows in other ways; their order is no order."""
    random = np.random.default_rng(0)
    rows = []
    vectors = {}
    for film, number in product(range(6), range(9)):
        clip = f"f{film}-{number}"
        vectors[clip] = random.normal(size=257).astype(np.float32)
        for annotator in ANNOTATORS:
            own = "yes" if vectors[clip][0] + random.normal() > 0 else "no"
            rows.append(f"{clip},f{film},{annotator},{own}")
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["clip_id,movie_id,annotator,own", *rows]))
    np.savez(tmp_path / "x.npz", clip_id=[*vectors], X=list(vectors.values()))
    call_obygaze("manifest", "import", "csv", table, "-o", "t", cwd=tmp_path).ok()
    store = ("store", "import", "npz", "x.npz", "--array", "clip=X", "-o", "x")
    call_obygaze(*store, "--manifest", "t", cwd=tmp_path).ok()
    changes = ["grid.models=['ridge']", "report.replicates=50"]
    run = og.run(
        "honest", "x", "t", tasks=["own"], changes=changes, workspace=tmp_path, n_jobs=1
    )
    scores_of: dict[str, set[float]] = {}
    for row in run.predictions:
        if row["model"] == "ridge":
            clip = row["clip_id"].rpartition(".")[0]
            scores_of.setdefault(clip, set()).add(row["score"])
    assert scores_of.keys() == vectors.keys()
    assert {len(scores) for scores in scores_of.values()} == {1}


def test_rows_of_one_clip_have_one_margin_of_each_concept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, several = one_and_several(Layout(4, True, False, 0))
    # The last rows of a product are rounded in another way, if their number is odd.
    several = several.with_clips(several.clips[:-1])
    random = np.random.default_rng(0)
    X = np.repeat(random.normal(size=(60, 257)), 3, axis=0).astype(np.float32)[:-1]
    store = experiments.store_of(tmp_path / "store", several, X)
    ranked: list[tuple[Any, Any]] = []

    def quality(margins: Any, *args: Any, clips: Any, **options: Any) -> Any:
        ranked.append((margins, clips))
        return concept_quality(margins, *args, clips=clips, **options)

    monkeypatch.setattr("obygaze_models.models.concept_report.concept_quality", quality)
    changes = ('grid.models=["pcbm-lr"]', "models.pcbm-lr.tolerance=0.1")
    protocol = quick("honest", *ONE_PAIR, *changes, replicates=2)
    run_on(tmp_path, protocol, several, {"x": store})
    ((margins, clips),) = ranked
    assert len(np.unique(clips)) == 60
    for clip in np.unique(clips):
        assert len(np.unique(margins[clips == clip], axis=0)) == 1


def test_equal_features_are_tied_whatever_their_scores_were_rounded_to() -> None:
    equal = np.array([0, 1, 0, -1, 1])
    features = Features(
        "x", np.zeros((4, 1)), np.array([0, 1, 2, -1, 3]), {}, equal=equal
    )
    scores = np.array([0.3, 0.1 + 0.2, 0.2])
    tied = features.tied(np.array([4, 0, 1]), scores)
    assert tied.tolist() == [0.3, 0.1 + 0.2, 0.3]
