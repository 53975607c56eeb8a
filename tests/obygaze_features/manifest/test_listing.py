"""The columns of tables that list clips."""

from __future__ import annotations

from obygaze_features.manifest.listing import manifest_columns
from obygaze_features.manifest.model import Clip, Header, Manifest


def test_columns_of_a_manifest_named_as_times_are_its_own() -> None:
    extra = {"start": "frame 7", "movie_title": ""}
    clip = Clip("a-1", "tt0467406", start_s=1.0, end_s=2.0, extra=extra)
    manifest = Manifest("m", Header("m", {}), (clip,), ("start", "movie_title"))
    columns = manifest_columns(manifest)
    assert columns["start"] == ["frame 7"]
    assert columns["end"] == ["0:00:02.000"]
    assert columns["movie_title"] == ["Juno"]
