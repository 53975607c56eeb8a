"""The columns of tables that list clips."""

from dataclasses import replace

import numpy as np

from obygaze_features.manifest.clip_facts import ClipFacts
from obygaze_features.manifest.listing import film_columns, manifest_columns
from obygaze_features.manifest.model import Clip, Header, Manifest

COUNTED = ("start_frame", "end_frame", "framerate")


def test_columns_of_a_manifest_named_as_times_are_its_own() -> None:
    extra = {"start": "frame 7", "movie_title": ""}
    clip = Clip("a-1", "tt0467406", start_s=1.0, end_s=2.0, extra=extra)
    manifest = Manifest("m", Header("m", {}), (clip,), ("start", "movie_title"))
    columns = manifest_columns(manifest)
    assert columns["start"] == ["frame 7"]
    assert columns["end"] == ["0:00:02.000"]
    assert columns["movie_title"] == ["Juno"]


def test_times_that_only_the_manifest_states_are_its_own() -> None:
    """Of a clip that is another one there, nothing is taken."""
    clip = Clip(
        "a-1", "lake", start_s=1.0, end_s=2.0, extra={"movie_title": "The Lake"}
    )
    manifest = Manifest("m", Header("m", {}), (clip,), ("movie_title",))
    other = Clip("a-2", "brook", start_s=1.0, end_s=2.0)
    manifest = replace(manifest, clips=(clip, other))
    facts = ClipFacts.of(["a-1", "a-2"], ["lake", "sea"], None, [None, 6.0])
    assert film_columns(facts, manifest) == {
        "movie_id": ["lake", "sea"],
        "movie_title": ["The Lake", None],
        "start_s": [1.0, None],
        "end_s": [2.0, 6.0],
        "start": ["0:00:01.000", None],
        "end": ["0:00:02.000", "0:00:06.000"],
    }


def test_frames_are_listed_as_a_table_states_them() -> None:
    extra = {"start_frame": "25", "end_frame": "49.0", "framerate": "24000/1001"}
    clip = Clip("a-1", "lake", start_s=1.0, end_s=2.0, extra=extra)
    facts = ClipFacts.of_clips([clip, Clip("a-2", "sea")])
    columns = film_columns(facts, None)
    assert columns["start_frame"] == ["25", ""]
    assert columns["end_frame"] == ["49", ""]
    assert columns["framerate"] == ["23.976", ""]
    rows = [
        {"clip_id": one, **{name: columns[name][n] for name in COUNTED}}
        for n, one in enumerate(("a-1", "a-2"))
    ]
    np.testing.assert_array_equal(
        ClipFacts.of_cells(rows).numbers[:, 2:], facts.numbers[:, 2:]
    )
