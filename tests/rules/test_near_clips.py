"""Clips that begin one picture apart are several clips: no start is compared as near another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from obygaze.audits.share import audit_share
from obygaze_features.core.errors import Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

RATE = 60
LENGTH = 30  # of a clip, in pictures
N_CLIPS = 12  # of each film
FILMS = ("alba", "brug")


def window(film: str, first: int) -> Clip:
    """Return the clip that begins with a picture; those of even pictures have the level S."""
    start_s, end_s = first / RATE, (first + LENGTH) / RATE
    clip_id = f"{film}_{start_s:.3f}-{end_s:.3f}"
    level = "EN" if first % 2 else "S"
    clip = Clip(clip_id, film, start_s=start_s, end_s=end_s, level=level)
    return replace(clip, concepts=() if first % 2 else ("Look",))


WINDOWS = tuple(window(film, first) for film in FILMS for first in range(N_CLIPS))
MANIFEST = Manifest("films", Header("made up", {"Look": "visual"}), WINDOWS)


@pytest.mark.parametrize("moved", [0, 1])
def test_scores_of_clips_one_picture_later_are_refused_by_share(
    tmp_path: Path, moved: int
) -> None:
    """All of them have the ids of the clips, as tables that are numbered in each film have."""
    draw = {"draw_probability": "0.5", "draw_clips": str(2 * N_CLIPS)}
    drawn = [replace(clip, extra=draw) for clip in WINDOWS]
    manifest = replace(MANIFEST, name="drawn", clips=tuple(drawn), columns=tuple(draw))
    path = Workspace(tmp_path).new_manifest("drawn")
    path.parent.mkdir()
    write_manifest(manifest, path)
    lines = ["clip_id,movie_id,start_s,end_s,basis,score:S"]
    for clip in drawn:
        start_s = (clip.start_s or 0) + moved / RATE
        cells = [clip.clip_id, clip.movie_id, start_s, clip.end_s, "unseen", 0.5]
        lines.append(",".join(map(str, cells)))
    scores = tmp_path / "scores.csv"
    scores.write_text("\n".join(lines), "utf-8")
    if not moved:
        found = audit_share("drawn", predictions=scores, workspace=tmp_path)
        assert found["shares"][0]["n_marked"] == len(drawn)
        return
    with pytest.raises(Mismatch, match="24 clips of the predictions are not what"):
        audit_share("drawn", predictions=scores, workspace=tmp_path)
