"""Clips that begin one picture apart are several clips: no start is compared as near another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.levels import audit_levels
from obygaze.audits.share import audit_share
from obygaze.films.agreement import pairs_of
from obygaze.films.labels import project_tables
from obygaze.films.marks import Mark, written
from obygaze_features.core.errors import Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest

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


def test_each_clip_is_one_to_agreement() -> None:
    said = []
    for clip in WINDOWS:
        for person in ("ada", "ben"):
            said.append(Annotation(clip.clip_id, person, clip.level, (), {}))
    pairs = pairs_of(replace(MANIFEST, annotations=tuple(said)))
    assert [pair.n for pair in pairs] == [N_CLIPS, N_CLIPS]


def test_each_clip_is_one_to_audits() -> None:
    audit = audit_annotations(MANIFEST, x="level == S", y="level == EN")
    n_of_level = N_CLIPS * len(FILMS) // 2
    assert (audit["n_x"], audit["n_y"]) == (n_of_level, n_of_level)
    of_levels = audit_levels(MANIFEST)["annotators"][0]["levels"]
    assert sum(level["n_clips"] for level in of_levels) == n_of_level


def test_each_clip_is_one_to_project(tmp_path: Path) -> None:
    end_s = (LENGTH + 1) / RATE
    marks = [
        Mark("alba", 0.0, end_s, "level", "S", person) for person in ("ada", "ben")
    ]
    (tmp_path / "marks.csv").write_bytes(written(marks))
    path = Workspace(tmp_path).new_manifest("films")
    path.parent.mkdir()
    write_manifest(MANIFEST, path)
    table = tmp_path / "marks.csv"
    projected = project_tables(table, "films", None, workspace=tmp_path)
    assert len(projected.marked) == N_CLIPS
    (pair,) = pairs_of(projected.marked)
    assert pair.n == N_CLIPS


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


def test_merging_keeps_each_clip() -> None:
    later = [window(film, N_CLIPS + first) for film in FILMS for first in range(3)]
    other = replace(MANIFEST, name="others", clips=(*WINDOWS[:4], *later))
    merged = merged_manifest([MANIFEST, other], "all").manifest
    assert len(merged) == len(WINDOWS) + len(later)
