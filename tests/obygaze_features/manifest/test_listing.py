"""The columns of tables that list clips."""

from __future__ import annotations

from obygaze_features.manifest.clip_facts import ClipFacts
from obygaze_features.manifest.listing import film_columns, manifest_columns
from obygaze_features.manifest.model import Clip, Header, Manifest


def test_columns_of_a_manifest_named_as_times_are_its_own() -> None:
    extra = {"start": "frame 7", "movie_title": ""}
    clip = Clip("a-1", "tt0467406", start_s=1.0, end_s=2.0, extra=extra)
    manifest = Manifest("m", Header("m", {}), (clip,), ("start", "movie_title"))
    columns = manifest_columns(manifest)
    assert columns["start"] == ["frame 7"]
    assert columns["end"] == ["0:00:02.000"]
    assert columns["movie_title"] == ["Juno"]


def test_times_of_another_clip_are_not_taken() -> None:
    """The manifest of a store may have been made anew, with other clips of the same ids."""
    clips = (
        Clip("a-1", "lake", start_s=1.0, end_s=2.0),
        Clip("a-2", "sea", start_s=3.0, end_s=4.0),
        Clip("a-3", "lake", start_s=5.0, end_s=6.0),
    )
    manifest = Manifest("m", Header("m", {}), clips)
    facts = ClipFacts.of(
        ["a-1", "a-2", "a-3"],
        ["", "lake", "lake"],
        [None, None, 5.01],
        [2.0, None, 6.0],
    )
    columns = film_columns(facts, manifest)
    # A store knows times of its own.
    assert columns["start_s"] == [1.0, None, 5.01]
    assert columns["movie_id"] == ["lake", "lake", "lake"]
