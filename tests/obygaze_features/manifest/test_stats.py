import csv
import re
from collections import Counter
from pathlib import Path

import pytest
from support.data import real_data

from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.stats import FoldStats, compute_stats, draw_stats
from obygaze_features.manifest.vocabulary import concepts, film_facts

ROWS = [
    ("a-1", "EN", "", "a/1.avi", "0"),
    ("a-2", "HN", "Speech", "", "1"),
    ("a-3", "HN", "Look|Speech", "a/3.avi", "0"),
    ("b-1", "NS", "Body|Look", "b/1.avi", ""),
    ("b-2", "S", "Look", "b/2.avi", "1"),
    ("b-3", "S", "Voice|Soundtrack", "", ""),
    ("b-4", "S", "Body|Look|Clothing", "", "0"),
    ("b-5", "", "", "", ""),
]


@pytest.fixture
def manifest() -> Manifest:
    clips = []
    for name, level, names, video, fold in ROWS:
        facts = {"level": level, "concepts": tuple(filter(None, names.split("|")))}
        extra = {"fold:02_EN_HN_S": fold}
        clips.append(Clip(name, name[0], int(name[-1]), video, **facts, extra=extra))
    columns = ("fold:02_EN_HN_S",)
    return Manifest("tiny", Header("Tiny", concepts()), tuple(clips), columns)


def test_the_published_view_is_the_population_of_the_split(manifest: Manifest) -> None:
    seen = manifest.view("as_published")
    assert seen.clip_ids == ("a-1", "a-2", "a-3", "b-2", "b-4")
    folds = compute_stats(seen).folds["02_EN_HN_S"]
    assert folds == {0: FoldStats(3, 1, 1 / 3, 0), 1: FoldStats(2, 1, 0.5, 0)}


def test_a_selection_says_of_how_many_clips_it_is(manifest: Manifest) -> None:
    sure = compute_stats(manifest, where="level == S")
    assert sure.size == "3 of 8 clips of 1 film"
    # Nothing is known of the film, so the columns of title, year and genres are left out.
    header, row = str(sure).split("\n\n")[3].splitlines()
    assert header.split() == ["film", "clips", "EN", "HN", "NS", "S", "no", "level"]
    assert row.split() == ["b", "3", "0", "0", "0", "3", "0"]
    for all_clips in (None, "level in {EN, HN, NS, S} or not level"):
        size = compute_stats(manifest, where=all_clips).size
        assert size == "8 clips of 2 films"


def test_genres_are_those_of_the_list_of_films_of_mobygaze() -> None:
    path = real_data("mobygaze", "mobygaze_movielist.csv")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter=";"))
    assert len(rows) == 20
    for row in rows:
        genres = [genre.strip() for genre in row["genre"].split(",")]
        facts = film_facts(row["imdb_key"])
        assert facts["genres"] == genres and "genres_source" not in facts


def test_no_figure_is_drawn_of_clips_of_which_none_has_a_level(tmp_path: Path) -> None:
    clip = Clip("a-1", "a", concepts=("Look",))
    stats = compute_stats(Manifest("m", Header("m", {"Look": "visual"}), (clip,)))
    with pytest.raises(FixUsage, match="no clip has a level"):
        draw_stats(stats, figure=tmp_path / "f")
    assert not [*tmp_path.iterdir()]


def test_equal_shares_of_two_levels_are_both_seen(tmp_path: Path) -> None:
    clips = [Clip(one, "a", level=one, concepts=("Look",)) for one in ("HN", "NS", "S")]
    stats = compute_stats(Manifest("m", Header("m", {"Look": "visual"}), clips))
    (path,) = draw_stats(stats, figure=tmp_path / "f.svg")
    text = path.read_text("utf-8")
    shape_of = dict(re.findall(r'<path id="(\w+)" d="(.*?)"', text, re.DOTALL))
    drawn = re.findall(r'href="#(\w+)" x="(\S+)" y="(\S+)"', text)
    place, n_dots = Counter((x, y) for _, x, y in drawn).most_common(1)[0]
    assert n_dots == len({shape_of[dot] for dot, x, y in drawn if (x, y) == place}) == 3


def test_clips_on_which_annotators_differ_are_counted_in_a_note() -> None:
    concepts = {"Look": "visual", "Body": "visual"}
    open_clips = [
        Clip("a-1", "a", level="S", concepts=("Body",), extra={"differs": "Look"}),
        Clip("a-2", "a", level="", extra={"differs": "level|Look"}),
        Clip("a-3", "a", level="S", concepts=("Look",), extra={"differs": ""}),
    ]
    films = Manifest("m", Header("m", concepts), tuple(open_clips), ("differs",))
    stats = compute_stats(films)
    assert stats.concepts["S"] == {"Look": 1, "Body": 1}
    assert stats.notes[1:] == [
        "clips on which annotators differ count as clips without the label: Look 2, level 1"
    ]
    assert compute_stats(films.with_clips(open_clips[2:])).notes == ["levels: S sure"]
