"""Columns of clips as protocols read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.clips import (
    ClipTable,
    clip_table,
    other_annotators,
    task_labels,
)
from obygaze_models.protocols.schema import Data, Task

EN_S = Task(classes={"EN": 0, "S": 1})


def test_folds_are_numbers_and_empty_cells_are_outside() -> None:
    clips = [
        Clip(f"c{i}", "m", extra={"fold:a": cell})
        for i, cell in enumerate(["3", "", "0"])
    ]
    assert ClipTable("m", clips, ()).fold("a").tolist() == [3, -1, 0]


def test_positions_are_scenes_or_ranks_by_start_time() -> None:
    timed = [("a", 9.0), ("b", 1.0), ("a", 3.0)]
    clips = [Clip(f"c{i}", m, start_s=s, end_s=s + 1) for i, (m, s) in enumerate(timed)]
    found = ClipTable("m", clips, ()).scene_of_clip
    assert found == {"c0": ("a", 1), "c1": ("b", 2), "c2": ("a", 0)}
    assert ClipTable("m", clips[::2], ()).scene_of_clip is None, (
        "of one film nothing is near another"
    )


def test_positions_do_not_depend_on_the_selected_clips() -> None:
    """Those of parts of two files were known where a selection had one of the files alone."""
    clips = []
    for film in "ab":
        for number in (1, 2):
            name = f"{film}{number}"
            clips.append(Clip(name, film, None, f"{name}.mp4", 3.0, 4.0, level="S"))
    manifest = Manifest("m", Header("m"), tuple(clips))
    everyone = clip_table(manifest, Data(view="raw"))
    selected = clip_table(manifest, Data(view="raw", where="clip_id in {a1, b1}"))
    assert selected.ids == ["a1", "b1"]
    assert everyone.scenes is None
    assert selected.scenes is None


def test_concepts_of_clips_in_the_order_of_their_names() -> None:
    clips = [Clip("a", "m", concepts=("Look",)), Clip("b", "m")]
    table = ClipTable("m", clips, ("Body", "Look"))
    assert table.has_concept.tolist() == [[False, True], [False, False]]


def test_segments_with_the_same_times_are_one_clip() -> None:
    spans = [(0.0, 2.0), (0.0, 2.0), (0.0, 3.0), (0.0, None)]
    clips = [Clip(f"c{i}", "m", start_s=s, end_s=e) for i, (s, e) in enumerate(spans)]
    segments = ClipTable("m", clips, (), of_segments=True).clip_of
    assert segments == {
        "c0": "m: 0.0 to 2.0",
        "c1": "m: 0.0 to 2.0",
        "c2": "m: 0.0 to 3.0",
        "c3": "m: c3",
    }
    whole_clips = ClipTable("m", clips, ()).clip_of
    assert whole_clips == {f"c{i}": f"m: c{i}" for i in range(4)}


def test_what_other_annotators_say_of_a_clip() -> None:
    """Ada says S of clip 1; Ben says EN, Cy HN, which is in neither class; clip 2 is Ada's only."""
    rows = [
        ("1", "ada", "S"),
        ("1", "ben", "EN"),
        ("1", "cy", "HN"),
        ("2", "ada", "EN"),
    ]
    clips = [
        Clip(
            f"{given}-{annotator}",
            "m",
            level=level,
            extra={"given_clip_id": given, "annotator": annotator},
        )
        for given, annotator, level in rows
    ]
    table = ClipTable("m", clips, (), everyone=clips)
    scores = other_annotators("EN_S", EN_S, table)
    # The means of 0 and .5, of 1 and .5, and of 1 and 0; nobody else saw clip 2.
    np.testing.assert_array_equal(scores, [0.25, 0.75, 0.5, np.nan])
    alone = ClipTable("m", clips[3:], (), everyone=clips[3:])
    np.testing.assert_array_equal(other_annotators("EN_S", EN_S, alone), [np.nan])


def test_a_task_with_folds_has_the_clips_that_have_a_fold() -> None:
    cells = [("EN", "0"), ("S", "1"), ("S", ""), ("EN", "")]
    clips = [
        Clip(f"c{i}", "m", level=level, extra={"fold:a": fold})
        for i, (level, fold) in enumerate(cells)
    ]
    task = Task(classes={"EN": 0, "S": 1}, folds="a")
    assert task_labels("t", task, ClipTable("m", clips, ())).tolist() == [0, 1, -1, -1]


def test_classes_by_expressions() -> None:
    levels = ("S", "HN", "EN", "")
    clips = [Clip(f"c{i}", "m", level=level) for i, level in enumerate(levels)]
    table = ClipTable("m", clips, ())
    others = Task(positive="level in {S}")
    assert task_labels("t", others, table).tolist() == [1, 0, 0, -1]
    named = Task(positive="level in {S}", negative="level in {EN}")
    assert task_labels("t", named, table).tolist() == [1, -1, 0, -1]


def test_a_row_of_another_annotator_is_about_a_clip_from_a_fifth_of_it() -> None:
    """Ada's clip is from 10 to 20 s, so that two seconds are a fifth."""
    spans = {"late": (18.0, 30.0), "later": (18.5, 30.0), "early": (5.0, 12.5)}
    ada = Clip("ada", "m", level="S", start_s=10.0, end_s=20.0)
    others = [
        replace(ada, clip_id=name, level="EN", start_s=start, end_s=end)
        for name, (start, end) in spans.items()
    ]
    clips = [
        replace(clip, extra={"annotator": clip.clip_id}) for clip in (ada, *others)
    ]
    table = ClipTable("m", clips, (), everyone=clips)
    assert [clip.clip_id for clip in table.others[0]] == ["late", "early"]


def test_rated_clips_without_any_concept_have_no_visual_view() -> None:
    films = Header(dataset="made up")
    rated = Manifest("films", films, (Clip("a", "m", level="S"),))
    with pytest.raises(FixInput, match="no clip has a concept"):
        clip_table(rated, Data(view="visual"))
    assert clip_table(rated, Data(view="raw")).levels.tolist() == ["S"]
    unrated = Manifest("films", films, (Clip("a", "m", level="EN"),))
    assert clip_table(unrated, Data(view="visual")).levels.tolist() == ["EN"]
