import re
import shlex
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.written_stores import a_recipe

from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction import cases
from obygaze_features.extraction.cases import (
    Case,
    ExtractionRequest,
    Work,
    compare_with_store,
)
from obygaze_features.extraction.clips import PlannedClip
from obygaze_features.extraction.stored import StoreState
from obygaze_features.manifest.spans import FrameSpan
from obygaze_features.store.layout import Array
from obygaze_features.store.records import ComputeSetup
from obygaze_features.store.rows import (
    NO_VIDEO,
    NOT_EXTRACTED,
    OK,
    STATUSES,
    Row,
)

KIND = ComputeSetup("cpu", "float32")
CLIP = Array.of("clip", "float32", (4,))
FACTS = {"a.mp4": (10, "a" * 64), "b.mp4": (20, "b" * 64)}
ROW_A = Row("a", "film", 0.0, 1.0, video_bytes=10, video_hash="a" * 16, pictures=25)
CLIP_A = PlannedClip("a", "film", "a.mp4", 0.0, 1.0)
CLIP_B = PlannedClip("b", "film", "b.mp4", 1.0, 2.0)
NOT_THERE = Row("b", "film", 1.0, 2.0, NOT_EXTRACTED)


def work(
    clips: list[PlannedClip],
    rows: list[Row] | None = None,
    *,
    filling: bool = False,
    arrays: tuple[str, ...] = ("clip",),
    kind: ComputeSetup | None = KIND,
    recipe: str = "clip-b16",
    **more: object,
) -> Work:
    """What is to compute for clips, given the rows of a store or of a filling."""
    request_keys = ("retry_failed", "facts", "kept")
    options = {key: more.pop(key) for key in request_keys if key in more}
    options = {"facts": FACTS, **options}
    request = ExtractionRequest(clips, a_recipe(recipe), arrays, kind, **options)
    stored = None
    if rows is not None:
        computed = more.pop("computed", [True] * len(rows) if filling else None)
        stored = StoreState(a_recipe(), [CLIP], rows, [KIND], computed=computed, **more)
    return compare_with_store(request, stored)


def found(done: Work) -> dict[Case, int]:
    return {case: len(lines) for case, lines in done.found.items()}


@pytest.mark.parametrize(
    ("clips", "line"),
    [
        ([CLIP_A, CLIP_B._replace(end_s=3.0)], "b: was 1 s to 2 s, is now 1 s to 3 s"),
        ([CLIP_A], "b: not in the manifest"),
        ([CLIP_A, CLIP_B, CLIP_A._replace(clip_id="c")], "c: not in the plan"),
    ],
)
def test_a_manifest_that_changed_since_the_plan_is_refused(clips, line) -> None:
    done = work(clips, [ROW_A, NOT_THERE], filling=True)
    assert done.found[cases.ANOTHER_PLAN] == [line]
    with pytest.raises(Mismatch, match=f"different settings or clips: {line}") as error:
        done.refuse("films.clip")
    assert error.value.hint.startswith("finish it with its first settings and clips")


def test_another_recipe_is_refused() -> None:
    done = work([CLIP_A], [ROW_A], recipe="clip-l14")
    assert found(done)[cases.ANOTHER_STORE] == 1
    with pytest.raises(Mismatch, match=r"different recipe: backbone\.name") as error:
        done.refuse("films.clip")
    assert error.value.hint == "choose another store name: --store BACKBONE=NAME"
    being_filled = work([CLIP_A], [NOT_THERE], recipe="clip-l14", filling=True)
    with pytest.raises(Mismatch, match=r"being filled .* different recipe") as error:
        being_filled.refuse("films.clip")
    assert error.value.hint.endswith("discard it: rm -r films.clip.next")
    for is_filling, case in ((False, cases.ANOTHER_STORE), (True, cases.ANOTHER_PLAN)):
        done = work([CLIP_A], [ROW_A], arrays=("clip", "tokens"), filling=is_filling)
        assert done.found[case] == ["it has no array tokens"]


ON_THE_CPU = "on the CPU, but this command would use a GPU"


@pytest.mark.parametrize(
    ("kind", "sealed", "filling"),
    [
        (ComputeSetup("cpu", "float32", 2), "", "by a different version of obygaze"),
        (ComputeSetup("cuda", "float32"), ON_THE_CPU, "(use --device cpu)"),
        (ComputeSetup("cpu", "bfloat16"), "in float32, not in", "not in bfloat16"),
    ],
)
def test_another_version_or_device(kind, sealed, filling) -> None:
    """A finished store grows by a later version; while it is filled, it has one maker."""
    for is_filling, sentence in ((False, sealed), (True, filling)):
        done = work([CLIP_A], [ROW_A], kind=kind, filling=is_filling)
        assert found(done) == {cases.SAME: 1}
        both = ([CLIP_A, CLIP_B], [ROW_A, NOT_THERE])
        done = work(*both, kind=kind, filling=is_filling)
        if sentence:
            with pytest.raises(Mismatch, match=re.escape(sentence)) as error:
                done.refuse("films.clip", "clip-b16")
            another_store = "choose another store name: --store clip-b16=NAME"
            assert is_filling or error.value.hint == another_store
        else:
            assert found(done) == {cases.SAME: 1, cases.AGAIN: 1}
        # Where another machine computes, what computes here is not compared.
        elsewhere = work(*both, kind=None, filling=is_filling)
        assert found(elsewhere) == {cases.SAME: 1, cases.AGAIN: 1}


def test_a_clip_is_that_of_its_row_by_film_and_span() -> None:
    """Times are equal to the millisecond; where both count frames, these are the span."""
    for changes, case in (
        # A video that is not there now was not replaced.
        ({"video": "gone.mp4"}, cases.SAME),
        ({"movie_id": "other"}, cases.CHANGED),
        ({"start_s": 0.0004, "end_s": 1.0009}, cases.SAME),
        ({"end_s": 1.002}, cases.CHANGED),
        ({"start_s": None}, cases.CHANGED),
    ):
        assert found(work([CLIP_A._replace(**changes)], [ROW_A])) == {case: 1}
    row = ROW_A._replace(start_frame=25, end_frame=49, framerate=25.0)
    for frames, start_s, case in (
        (FrameSpan(25, 49, Fraction(25)), 7.0, cases.SAME),
        (FrameSpan(25, 49, Fraction(24)), 0.0, cases.CHANGED),
        (FrameSpan(25, 50, Fraction(25)), 0.0, cases.CHANGED),
        (None, 0.0, cases.SAME),
        (None, 7.0, cases.CHANGED),
    ):
        clip = CLIP_A._replace(frames=frames, start_s=start_s)
        assert found(work([clip], [row])) == {case: 1}


@pytest.mark.parametrize(
    ("films", "named"),
    [
        (["alba"], ["alba"]),
        (["my film", "alba", "my film"], ["my film", "alba"]),
        (["alba", ""], ["FILM"]),
        (["1", "2", "3", "4"], ["FILM"]),
    ],
)
def test_a_changed_clip_names_the_command_that_keeps_the_other_films(
    films, named
) -> None:
    clips = []
    rows = []
    for number, film in enumerate(films):
        names = {"clip_id": f"c{number}", "movie_id": film}
        clips.append(CLIP_A._replace(**names, end_s=1.002))
        rows.append(ROW_A._replace(**names))
    with pytest.raises(Mismatch, match="changed since the extraction") as error:
        work(clips, rows).refuse("my films/clip")
    _, _, line = str(error.value.hint).partition("first: obygaze ")
    without = [word for film in named for word in ("--without", film)]
    command = ["store", "subset", "my films/clip", *without, "-o", "NAME"]
    assert shlex.split(line) == command
    # The lines of all clips are in order above the error.
    is_one = len(films) == 1
    listed = [detail.partition(":")[0] for detail in error.value.details]
    assert listed == ([] if is_one else [row.clip_id for row in rows])


IDS = [f"c{number}" for number in range(6)]
# Of half of the clips, which are those that a table counts in frames.
FRAMES = st.sampled_from([None, None, FrameSpan(0, 24), FrameSpan(25, 49)])
ROWS = st.builds(
    lambda frames, **facts: Row(**facts).with_frames(frames),
    frames=FRAMES,
    clip_id=st.sampled_from(IDS),
    movie_id=st.just("film"),
    start_s=st.sampled_from([0.0, 1.0]),
    end_s=st.none(),
    status=st.sampled_from(STATUSES),
    reason=st.sampled_from(["not extracted", "damaged"]),
    # Other bytes of a video are another test.
    video_bytes=st.none(),
)
CLIPS = st.builds(
    PlannedClip,
    clip_id=st.sampled_from(IDS),
    movie_id=st.just("film"),
    video=st.sampled_from(["", "a.mp4"]),
    start_s=st.sampled_from([0.0, 1.0]),
    end_s=st.none(),
    frames=FRAMES,
)


def is_changed(row: Row, clip: PlannedClip) -> bool:
    """Whether the span of a clip is another one: by frames where both have them."""
    if clip.frames is None or row.start_frame is None:
        return row.start_s != clip.start_s
    return (row.start_frame, row.end_frame) != clip.frames[:2]


def by_id(values):
    return st.lists(values, unique_by=lambda value: value.clip_id)


@settings(max_examples=60, deadline=None)
@given(rows=by_id(ROWS), clips=by_id(CLIPS), retry=st.booleans())
def test_drawn_stores_against_a_plain_model(rows, clips, retry) -> None:
    """Which ids are computed, which are refused, and that every row and clip is one case."""
    clip_of = {clip.clip_id: clip for clip in clips}
    row_of = {row.clip_id: row for row in rows}
    done = work(clips, rows, retry_failed=retry)
    to_compute = clip_of.keys() - row_of.keys()
    refused = set()
    for name in clip_of.keys() & row_of.keys():
        clip, row = clip_of[name], row_of[name]
        if row.status == OK:
            refused |= {name} if is_changed(row, clip) else set()
        elif (
            row.status == NOT_EXTRACTED
            or (row.status == NO_VIDEO and clip.video)
            or is_changed(row, clip)
            or (row.status != NO_VIDEO and retry)
        ):
            to_compute.add(name)
    flags = zip(done.rows, done.computed, strict=True)
    assert {row.clip_id for row, flag in flags if flag} == to_compute
    lines = [line.partition(":")[0] for found in done.found.values() for line in found]
    assert sorted(lines) == sorted(clip_of.keys() | row_of.keys())
    changed = done.found.get(cases.CHANGED, [])
    assert {line.partition(":")[0] for line in changed} == refused
    # The rows of the store keep their numbers.
    assert [row.clip_id for row in done.rows[: len(rows)]] == [r.clip_id for r in rows]


def test_a_line_that_removes_a_folder_removes_no_other(tmp_path: Path) -> None:
    """`rm -r my films/x.next` would remove `my`."""
    done = Work([], [], {cases.ANOTHER_PLAN: ["without the array clip"]})
    with pytest.raises(Mismatch) as error:
        done.refuse(str(tmp_path / "my films" / "x"))
    _, _, line = str(error.value.hint).partition("discard it: ")
    assert shlex.split(line) == ["rm", "-r", str(tmp_path / "my films" / "x.next")]


def test_a_store_that_is_being_filled_has_the_times_of_its_plan() -> None:
    """Its rows are decoded now, in the file that the manifest names now."""
    frames = FrameSpan(25, 49)
    row = Row("a", "film", 1.0, 2.0, status=NOT_EXTRACTED).with_frames(frames)
    clip = PlannedClip("a", "film", "a.mp4", 2.52, 3.52, frames=frames)
    assert found(work([clip], [row._replace(status=OK)])) == {cases.SAME: 1}
    done = work([clip], [row], filling=True)
    moved = "a: was 1 s to 2 s of the file, is now 2.52 s to 3.52 s of the file"
    assert done.found == {cases.ANOTHER_PLAN: [moved]}


def test_a_growth_asks_once_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One question for each row of a store took hours where the store has a million."""
    asked = []

    class Counted(cases.Sameness):
        def refused(self, *door):
            asked.append(door)
            return super().refused(*door)

    def same_clips(ours, theirs):
        found = cases_same_clips(ours, theirs)
        return Counted(**vars(found))

    cases_same_clips = cases.same_clips
    monkeypatch.setattr(cases, "same_clips", same_clips)
    clips = [PlannedClip(f"c{n}", "film", "a.mp4", n, n + 1.0) for n in range(20)]
    rows = [Row(f"c{n}", "film", n, n + 1.0) for n in range(20)]
    found = work(clips, rows).found
    assert len(found[cases.SAME]) == 20 and len(asked) == 1
