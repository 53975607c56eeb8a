"""The pictures of linked films: where marks are put, and where clips of equal length are cut."""

from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest
from support.cli import call_obygaze
from support.film import write_marks
from support.videos import write_video

from obygaze.films.labels import equal_clips
from obygaze.films.marks import Mark, Marks, at_pictures
from obygaze.films.pictures import LinkedFilms
from obygaze_features.core.errors import FixInput

NTSC = Fraction(1001, 24000)
N_PICTURES = 96


@pytest.fixture(params=["steady", "uneven", "late"])
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> LinkedFilms:
    """The film lake: at 23.976 pictures a second, at a varying rate, or beginning late."""
    (tmp_path / "films").mkdir()
    path = tmp_path / "films/lake.mp4"
    ticks = [*range(N_PICTURES)]
    if request.param == "uneven":
        draws = Random(1)
        ticks = sorted(draws.sample(range(3 * N_PICTURES), N_PICTURES))
    if request.param == "late":
        ticks = [70 + tick for tick in ticks]
    write_video(path, numbers=range(N_PICTURES), tick=NTSC, ticks=ticks)
    call_obygaze("manifest", "import", "films", cwd=tmp_path).ok()
    return LinkedFilms(tmp_path)


def test_equal_clips_are_cut_at_pictures_to_the_end_of_the_file(linked) -> None:
    boundaries = linked.boundaries("lake")
    assert boundaries is not None
    mark = Mark("lake", 0.0, 0.1, "level", "S", "ada")
    warnings: list[str] = []
    clips = equal_clips(Marks((mark,)), Fraction(1), linked, warnings)
    assert not warnings
    end_s = 0.0
    for clip in clips:
        assert clip.start_s in boundaries and clip.end_s in boundaries
        end_s = clip.end_s or 0.0
    # Only a rest that is shorter than a clip is left.
    assert boundaries[-1] - end_s < 1 + np.diff(boundaries).max()
    with pytest.raises(FixInput, match="the mark was made on a different copy"):
        at_pictures([mark._replace(end_s=60.0)], linked)


def test_two_files_of_one_film_are_refused_unless_they_are_equal(tmp_path) -> None:
    for folder in ("films", "more"):
        (tmp_path / folder).mkdir()
        write_video(tmp_path / folder / "lake.mp4", numbers=range(10))
        call_obygaze("manifest", "import", folder, cwd=tmp_path).ok()
    write_marks(tmp_path / "m.csv", [Mark("lake", 0.0, 0.2, "level", "S", "ada")])
    words = ("marks", "clips", "m.csv", "--every", "0.1", "-o", "labels")
    call_obygaze(*words, cwd=tmp_path).ok()
    write_video(tmp_path / "more/lake.mp4", numbers=range(11))
    refused = call_obygaze(*words, "--force", cwd=tmp_path)
    assert refused.code == 1
    assert "manifests link the film lake to 2 files" in refused.stderr
