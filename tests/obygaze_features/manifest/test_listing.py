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


def test_films_and_times_are_those_that_are_stated() -> None:
    """The manifest of a store may have been made anew, with other clips of the same ids."""
    clip = Clip(
        "a-1", "lake", start_s=1.0, end_s=2.0, extra={"movie_title": "The Lake"}
    )
    manifest = Manifest("m", Header("m", {}), (clip,), ("movie_title",))
    facts = ClipFacts.of(["a-1", "a-2"], ["lake", "sea"], [None, 5.01], [None, 6.0])
    assert film_columns(facts, manifest) == {
        "movie_id": ["lake", "sea"],
        "movie_title": ["The Lake", None],
        "start_s": [None, 5.01],
        "end_s": [None, 6.0],
        "start": [None, "0:00:05.010"],
        "end": [None, "0:00:06.000"],
    }
