"""Rule (b): what obygaze writes of marks, it reads back whole, or says what it leaves out.

Marks at random go through every export and its import: tables of the page, csv, ELAN, WebVTT. Each
is written down by hand with what has to come back: a comment is one line, and an import gives
concepts the names of the papers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unicodedata import normalize

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.elan_rules import problems_of
from support.seeds import amount

from obygaze.audits.share import audit_share
from obygaze.films.agreement import measure_agreement
from obygaze.films.clip_spans import read_clip_spans
from obygaze.films.exchange import (
    exported_files,
    import_segments,
)
from obygaze.films.formats import export_manifest
from obygaze.films.labels import project_segments
from obygaze.films.mark_tables import (
    SEGMENT_COLUMNS,
    FilmSegments,
    Segment,
    read_marks,
)
from obygaze.films.marks import MarkTable, WatchedTable
from obygaze.films.sampling import sample_clips
from obygaze.films.tiers import TierMapping
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.adapters.csv_table import read as read_table
from obygaze_features.manifest.adapters.table_mapping import TableMapping
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest

# As tables write them, and what they are.
RATES = {
    "24": Fraction(24),
    "25": Fraction(25),
    "23.976": Fraction(24000, 1001),
    "59.94": Fraction(60000, 1001),
    "12.5": Fraction(25, 2),
    "25/3": Fraction(25, 3),
    "50/3": Fraction(50, 3),
    "100/3": Fraction(100, 3),
    "500/21": Fraction(1000, 42),
}
# Names of other tiers, of what was watched, and of lanes are only names.
ANNOTATORS = (
    *("ada", "ada concepts", "ada watched", "ada #2", "ada comments", "watched"),
    *("ben <b>", "Zoé & co", "S", "山田", 'the "other" one', "=1+1"),
)
# As a person names films in a table, and their ids in a manifest.
FILMS = {
    "film-0": "film-0",
    "film-1": "film-1",
    "Les Yeux 2": "Les_Yeux_2",
    "-été": "-ete",
    "a.b": "a.b",
}
CONCEPTS = {
    "Body": "Body",
    "look": "Look",
    "type of plan": "Type of shot",
    "our own & odd": "our own & odd",
    "one, two; three": "one, two; three",
    "'quoted' <i>": "'quoted' <i>",
}
COMMENTS = {
    "": "",
    "S": "S",
    "not sure": "not sure",
    "watched": "watched",
    "Look": "Look",
    'a < b & "c" --> d': 'a < b & "c" --> d',
    "it's &#x27;quoted&#x27; &amp; <v ada>": "it's &#x27;quoted&#x27; &amp; <v ada>",
    "two\nlines\r\nand a\ttab": "two lines and a tab",
    " blanks  around ": "blanks around",
    "=1+1, then; more": "=1+1, then; more",
    "NOTE": "NOTE",
    "WEBVTT\n\nSTYLE": "WEBVTT STYLE",
    "é \u2028 ü": "é ü",
}
WATCHED = "watched"


class Mark(NamedTuple):
    """A mark that has to come back, or a stretch of film that was only watched."""

    film: str
    annotator: str
    first: int
    last: int
    level: str
    concepts: tuple[str, ...] = ()
    comment: str = ""


class Drawn:
    """Tables of annotators at random, and what is in them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = Random(seed)
        self.folder = folder
        self.tables: list[Path] = []
        self.marks: list[Mark] = []  # as they have to come back
        self.marks_of_tables: list[Mark] = []  # with the concepts of the tables
        self.rate_of: dict[str, str] = {}
        films = self.draw.sample(list(FILMS), self.draw.randint(1, 2))
        for film in films:
            self.rate_of[film] = self.draw.choice(list(RATES))
        names = self.draw.sample(ANNOTATORS, self.draw.randint(1, 4))
        for number, annotator in enumerate(names):
            self._write_annotator(number, annotator)
        self.marks = [mark._replace(film=FILMS[mark.film]) for mark in self.marks]

    def rate_of_file(self, path: Path) -> str:
        """The rate of the film of a file, which is called as the table or by the id."""
        names = [name for name in self.rate_of if path.stem in (name, FILMS[name])]
        return self.rate_of[names[0]]

    @property
    def is_watched_alone(self) -> bool:
        """Whether nobody marked anything."""
        return all(mark.level == WATCHED for mark in self.marks)

    def _write_annotator(self, number: int, annotator: str) -> None:
        """Write the table of an annotator: with marks, what was watched, or only the latter."""
        watched_where = self.draw.choice(("nowhere", "inside", "beside", "alone"))
        rows: list[list[object]] = []
        rows_beside: list[list[object]] = []
        for film in self.rate_of:
            marks = [] if watched_where == "alone" else self._marks_of(film, annotator)
            rows += [self._row(*mark) for mark in marks]
            read = [self._read(*mark, CONCEPTS) for mark in marks]
            same = dict(zip(CONCEPTS, CONCEPTS, strict=True))
            in_table = [self._read(*mark, same) for mark in marks]
            stretches = self._stretches_of(film, annotator)
            if watched_where == "nowhere" or (read and self.draw.random() < 0.3):
                stretches = []
            self.marks += [*read, *stretches]
            self.marks_of_tables += [*in_table, *stretches]
            of_watched = [self._row(one, "", "") for one in stretches]
            if watched_where == "inside":
                rows += of_watched
            elif watched_where != "nowhere":
                rows_beside += of_watched
                if not stretches:
                    # A table beside it has nothing of the film: what was marked was seen.
                    seen = [Mark(*one[:4], WATCHED) for one in read]
                    self.marks += seen
                    self.marks_of_tables += seen
        path = self.folder / f"films.a{number}.csv"
        self._write(path, rows)
        if watched_where in ("beside", "alone"):
            self._write(path.with_name(f"films.a{number}.watched.csv"), rows_beside)
        self.tables.append(path)

    def _marks_of(self, film: str, annotator: str) -> list[tuple[Mark, str, str]]:
        """Return marks that may overlap, each with its concepts and its comment as written."""
        marks = {}
        for _ in range(self.draw.randint(1, 6)):
            first = self.draw.randrange(200_000)
            last = first + self.draw.choice((0, 1, 5, 300))
            level = self.draw.choice(("EN", "HN", "NS", "S"))
            names = self.draw.sample(list(CONCEPTS), self.draw.randint(0, 3))
            mark = Mark(film, annotator, first, last, level)
            marks[mark] = (mark, "|".join(names), self.draw.choice(list(COMMENTS)))
        return list(marks.values())

    def _read(
        self, mark: Mark, concepts: str, comment: str, names_read: dict[str, str]
    ) -> Mark:
        names = tuple(names_read[name] for name in concepts.split("|") if name)
        return mark._replace(concepts=names, comment=COMMENTS[comment])

    def _stretches_of(self, film: str, annotator: str) -> list[Mark]:
        first = self.draw.randrange(0, 900)
        last = first + self.draw.randrange(900)
        later = last + 2 + self.draw.randrange(9)
        spans = [(first, last), (later, later + self.draw.randrange(99))]
        return [Mark(film, annotator, *span, WATCHED) for span in spans]

    def _row(self, mark: Mark, concepts: str, comment: str) -> list[object]:
        return [*mark[:5], concepts, self.rate_of[mark.film], comment]

    def _write(self, path: Path, rows: Iterable[list[object]]) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            table = csv.writer(stream)
            table.writerow((*SEGMENT_COLUMNS, "framerate", "comment"))
            table.writerows(rows)


def marks_of_tables(tables: Path | list[Path]) -> list[Mark]:
    return sorted(
        Mark(
            one.movie_id,
            one.annotator,
            one.start_frame,
            one.end_frame,
            one.level,
            one.concepts,
            one.comment,
        )
        for one in read_marks(tables).segments
    )


def marks_of_manifest(manifest: Manifest) -> list[Mark]:
    marks = []
    for clip in manifest:
        more = clip.extra
        level, comment = clip.level, more["comment"]
        if comment == WATCHED and not level:
            level, comment = WATCHED, ""
        span = (int(more["start_frame"]), int(more["end_frame"]))
        facts = (clip.movie_id, more["annotator"], *span, level)
        marks.append(Mark(*facts, clip.concepts, comment))
    return sorted(marks)


def rates_of_manifest(manifest: Manifest) -> dict[str, Fraction]:
    rates: dict[str, Fraction] = {}
    for clip in manifest:
        rate = RATES[clip.extra["framerate"]]
        assert rates.setdefault(clip.movie_id, rate) == rate
        # A picture is shown from its number divided by the rate on.
        assert clip.start_s == float(int(clip.extra["start_frame"]) / rate)
    return rates


def elan_marks(drawn: Drawn, tables: list[Path], folder: Path) -> list[Mark]:
    """The marks of tables that went to ELAN, and came back."""
    found = []
    for number, table in enumerate(tables):
        export = export_manifest(table, folder / str(number), format="elan")
        assert export.left_out == columns_without(table, {"framerate"})
        for path in export.files:
            assert problems_of(path.read_bytes()) == []
            rate = drawn.rate_of_file(path)
            again = import_segments([path], "again").manifest
            assert set(rates_of_manifest(again).values()) == {RATES[rate]}
            found += marks_of_manifest(again)
            other = next(one for one in RATES if one != rate)
            with pytest.raises(FixUsage, match=f"the file has {re.escape(rate)}"):
                import_segments([path], "again", other)
    return sorted(found)


def columns_without(table: Path, kept: set[str]) -> tuple[str, ...]:
    """Say which filled columns of a table have no place in a file of marks."""
    with table.open(encoding="utf-8", newline="") as stream:
        filled = {name for row in csv.DictReader(stream) for name in row if row[name]}
    times = {"start_s", "end_s"}
    lost = sorted(filled - {*SEGMENT_COLUMNS, "comment", "clip_id", *times, *kept})
    # The rate is named last.
    lost.sort(key=lambda name: name == "framerate")
    return (f"the columns {', '.join(lost)}",) if lost else ()


def check_all_ways(folder: Path, seed: int) -> None:
    drawn = Drawn(folder, seed)
    expected = sorted(drawn.marks)
    named = {mark.film for mark in drawn.marks_of_tables}
    rates = {film: RATES[drawn.rate_of[film]] for film in named}
    # The tables themselves.
    assert marks_of_tables(drawn.tables) == sorted(drawn.marks_of_tables)
    assert read_marks(drawn.tables).rates == rates
    # A manifest of them.
    spoken = TierMapping(modalities=dict.fromkeys(CONCEPTS.values(), "speech"))
    imported = import_segments(drawn.tables, "marks", mapping=spoken).manifest
    # The name was that of the last concept with a modality.
    assert imported.header.dataset == "marks"
    for name in set().union(*(mark.concepts for mark in expected)):
        assert imported.header.concepts[name] == "speech"
    write_manifest(imported, folder / "marks.toml")
    marks = read_manifest(folder / "marks.toml")
    assert marks_of_manifest(marks) == expected
    rates_of_ids = {FILMS[film]: rate for film, rate in rates.items()}
    assert rates_of_manifest(marks) == rates_of_ids
    assert marks_of_tables(folder / "marks.csv") == expected
    # A table of the manifest, read by each of its readers.
    for name in ("out.csv", "out.xlsx"):
        (table,) = export_manifest(marks, folder / name).files
        assert marks_of_tables(table) == expected
        own = TableMapping(modalities=dict.fromkeys(CONCEPTS.values(), "visual"))
        again = read_table(table, mapping=own, name="again").manifest
        assert marks_of_manifest(again) == expected
        assert rates_of_manifest(again) == rates_of_ids
    # ELAN, of the manifest and of the tables, which are of different annotators.
    assert elan_marks(drawn, [folder / "marks.csv"], folder / "elan") == expected
    assert elan_marks(drawn, drawn.tables, folder / "elan-of-tables") == expected
    # WebVTT says how many stretches it leaves out.
    if drawn.is_watched_alone:
        return
    export = export_manifest(marks, folder / "vtt", format="vtt")
    not_watched = [mark for mark in expected if mark.level != WATCHED]
    assert export.n_watched == len(expected) - len(not_watched)
    *_, of_columns = export.left_out
    assert (of_columns,) == columns_without(folder / "marks.csv", set())
    found = []
    for path in export.files:
        text = path.read_text("utf-8")
        assert "STYLE\n" not in text and "&#" not in text.replace("&amp;#", "")
        imported_vtt = import_segments([path], "again", drawn.rate_of_file(path))
        assert "does not say what was watched" in imported_vtt.notes[-1]
        found += marks_of_manifest(imported_vtt.manifest)
    assert sorted(found) == not_watched


@pytest.mark.parametrize("seed", range(amount(8, 100)))
def test_marks_come_back(seed: int, tmp_path: Path) -> None:
    check_all_ways(tmp_path, seed)


@pytest.mark.parametrize("seed", range(4))
def test_what_the_page_saves_is_read(seed: int, tmp_path: Path) -> None:
    draw = Random(seed)
    films = {f"film-{number}": draw.choice(list(RATES.values())) for number in range(3)}
    table = MarkTable(tmp_path / "films.ada.csv", "ada", list(films), ["Look", "Body"])
    watched = WatchedTable(tmp_path / "films.ada.watched.csv", "ada")
    table.create()
    expected: list[Mark] = []
    for film, rate in films.items():
        # One stretch, or two that touch.
        watched.add(film, [(0, 499), (500, 999)], rate)
        expected.append(Mark(film, "ada", 0, 999, WATCHED))
    assert marks_of_tables(table.path) == sorted(expected)
    for number in range(12):
        film = draw.choice(list(films))
        first = draw.randrange(900)
        comment = draw.choice(list(COMMENTS))
        names = draw.sample(["Look", "Body"], draw.randint(0, 2))
        wanted = {
            "mark": f"00000000-0000-4000-8000-{number:012d}",
            "movie_id": film,
            "start_frame": first,
            "end_frame": first + 9,
            "level": "S",
            "concepts": names,
            "comment": comment,
            "state": None,
        }
        table.save(wanted, films[film])
        in_order = tuple(name for name in ("Look", "Body") if name in names)
        read_comment = COMMENTS[comment]
        mark = Mark(film, "ada", first, first + 9, "S", in_order, read_comment)
        expected.append(mark)
    assert marks_of_tables(table.path) == sorted(expected)
    assert read_marks(table.path).rates == films
    # The page itself reads what it wrote.
    state = MarkTable(table.path, "ada", list(films), ["Look", "Body"]).read()
    comments = sorted(mark["comment"] for mark in state.marks.values())
    assert comments == sorted(one.comment for one in expected if one.level == "S")


class Place(NamedTuple):
    """Where the row of a clip says that it is, and its time in the film; None if that is open."""

    video: str
    start_s: str
    end_s: str
    film_start_s: str
    film_end_s: str
    in_film: tuple[int, int] | None


def places(draw: Random, n_clips: int) -> list[Place]:
    """Rows of one film in one of the ways that a manifest has them."""
    way = draw.choice(("film", "file of film", "own files", "own files alone"))
    rows = []
    for number in range(n_clips):
        start = 3 * number + draw.randint(0, 2)
        end = 3 * number + 3
        if way == "film":
            place = Place("", f"{start}", f"{end}", "", "", (start, end))
        elif way == "file of film":
            place = Place("film.mp4", f"{start}", f"{end}", "", "", (start, end))
        elif way == "own files":
            # Times in the file, which begins elsewhere in each.
            named = (f"{number}.mp4", "1.5", f"{1.5 + end - start}")
            place = Place(*named, f"{start}", f"{end}", (start, end))
        else:
            place = Place(f"{number}.mp4", "0", f"{end - start}", "", "", None)
        rows.append(place)
    return rows


@pytest.mark.parametrize("seed", range(40))
def test_marks_of_a_manifest_of_clips_are_where_they_are_in_the_film(
    seed: int, tmp_path: Path
) -> None:
    draw = Random(seed)
    rows = places(draw, draw.randint(2, 5))
    header = "clip_id,movie_id,scene,level,concepts,annotator,video,start_s,end_s"
    lines = [f"{header},film_start_s,film_end_s"]
    expected = []
    for number, place in enumerate(rows):
        level = draw.choice(("EN", "HN", "S"))
        cells = (f"lake-{number}", "lake", str(number), level, "", "ada", *place[:5])
        lines.append(",".join(cells))
        if place.in_film is not None:
            start, end = place.in_film
            expected.append(("lake", "ada", 25 * start, 25 * end - 1, level))
    table = tmp_path / "clips.csv"
    table.write_text("\n".join(lines) + "\n", "utf-8")
    if len(expected) < len(rows):
        with pytest.raises(FixInput, match="cannot be read") as caught:
            read_marks(table, fps="25")
        assert "not known where the clip is in its film" in caught.value.details[0]
        return
    found = []
    for one in read_marks(table, fps="25").segments:
        found.append(
            (one.movie_id, one.annotator, one.start_frame, one.end_frame, one.level)
        )
    assert found == expected


WAYS = ("frames", "times", "both", "first frame and times")


@settings(max_examples=amount(30, 300), deadline=None)
@given(
    places=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 9), st.sampled_from(WAYS)),
        min_size=1,
        max_size=5,
    ),
    written=st.sampled_from(list(RATES)),
    wrong=st.none() | st.integers(0, 4),
)
def test_a_place_is_read_from_frames_or_from_times(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[tuple[int, int, str]],
    written: str,
    wrong: int | None,
) -> None:
    """Rows of one table may have either; of a row that has both, they must agree."""
    rate = RATES[written]
    frames = [
        (100 * n + start, 100 * n + start + length)
        for n, (start, length, _) in enumerate(places)
    ]
    ways = [way for _, _, way in places]
    cells = []
    for (first, last), way in zip(frames, ways, strict=True):
        times = (float(first / rate), float((last + 1) / rate))
        cells.append(
            {
                "start_frame": "" if way == "times" else first,
                "end_frame": "" if way in ("times", WAYS[3]) else last,
                "start_s": "" if way == "frames" else times[0],
                "end_s": "" if way == "frames" else times[1],
            }
        )
    columns = [name for name in cells[0] if any(row[name] != "" for row in cells)]
    folder = tmp_path_factory.mktemp("places")
    for name, begin in (("clips", "clip_id"), ("marks", "annotator")):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["movie_id", begin, "level", *columns])
            for number, row in enumerate(cells):
                who = f"c{number}" if name == "clips" else "ada"
                table.writerow(["lake", who, "S", *(row[key] for key in columns)])
    marks = read_marks(folder / "marks.csv", fps=written)
    assert [(one.start_frame, one.end_frame) for one in marks.segments] == frames
    spans = read_clip_spans(folder / "clips.csv", marks)
    assert [(one.start_frame, one.end_frame) for one in spans] == frames
    if wrong is None or wrong >= len(places) or ways[wrong] != "both":
        return
    # As those of a copy with other pictures a second, or after only the times were corrected.
    first, last = frames[wrong]
    readers: dict[str, Callable[[Path], object]] = {
        "clips": lambda path: read_clip_spans(path, marks),
        "marks": lambda path: read_marks(path, fps=written),
    }
    for name, reader in readers.items():
        path = folder / f"{name}.csv"
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        rows[wrong][header.index("start_frame")] = str(first + 1000)
        rows[wrong][header.index("end_frame")] = str(last + 1000)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
        with pytest.raises(FixInput) as caught:
            reader(path)
        (problem,) = caught.value.details
        assert f"the frames {first + 1000} to {last + 1000} are" in problem
        assert f"and the times are {float(first / rate):.6g} s to" in problem


@pytest.mark.parametrize("has_titles", ["marks", "clips"])
def test_clips_have_their_films_by_title_or_by_id(
    tmp_path: Path, has_titles: str
) -> None:
    """Most clips of a table with titles were left out, as clips of films without segments."""
    for name in ("marks", "clips"):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            columns = ["movie_id", "start_frame", "end_frame", "framerate"]
            own = ["annotator", "level"] if name == "marks" else ["clip_id"]
            table.writerow(columns + own)
            for number, (title, film) in enumerate(FILMS.items()):
                written = title if name == has_titles else film
                cells = ["ada", "S"] if name == "marks" else [f"clip-{number}"]
                table.writerow([written, 0, number, 25, *cells])
    projected = project_segments(tmp_path / "marks.csv", clips=tmp_path / "clips.csv")
    # Each mark covers its clip, and no clip is without a film.
    assert [row.ratio for row in projected.projection.merged] == [
        (n, n) for n in range(1, len(FILMS) + 1)
    ]
    assert projected.projection.unseen == ()
    with pytest.raises(FixInput, match="no clip lies in a film with segments"):
        (tmp_path / "clips.csv").write_text(
            "clip_id,movie_id,start_frame,end_frame\na,Les Yeux 3,0,9\n"
        )
        project_segments(tmp_path / "marks.csv", clips=tmp_path / "clips.csv")


FORMS = st.sampled_from(["NFC", "NFD"])


@settings(max_examples=amount(10, 60), deadline=None)
@given(forms=st.lists(FORMS, min_size=5, max_size=5))
def test_a_film_is_one_however_its_accents_were_typed(forms: list[str]) -> None:
    """The marks of who typed on a Mac were those of a second film of the same name."""
    found = []
    for typed in (forms, ["NFC"] * 5):
        of_marks = [normalize(form, "Amélie") for form in typed]
        *films, film_of_clip = of_marks
        with TemporaryDirectory() as name:
            marks = Path(name, "marks.csv")
            header = "movie_id,annotator,start_frame,end_frame,level,framerate\n"
            rows = []
            for number, film in enumerate(films):
                who = ("ada", "ben")[number % 2]
                rows.append(f"{film},{who},{number * 30},{number * 30 + 40},S,25\n")
            marks.write_text("".join([header, *rows]), "utf-8")
            clips = Path(name, "clips.csv")
            line = f"c,{film_of_clip},0,99\n"
            clips.write_text(f"clip_id,movie_id,start_frame,end_frame\n{line}", "utf-8")
            of_clips = project_segments(marks, clips=clips)
            of_films = project_segments(marks, every=1)
            agreed = measure_agreement(marks, every=1, permutations=0)
        projections = (of_clips.projection, of_films.projection)
        found.append([*projections, agreed.measures, *of_clips.warnings])
    assert found[0] == found[1]


@settings(max_examples=amount(20, 200), deadline=None)
@given(
    names=st.lists(
        st.sampled_from(["Les Yeux", "Les_Yeux", "lake", "Lac"]),
        min_size=1,
        unique=True,
    ),
    kind=st.sampled_from(["vtt", "elan"]),
    videos=st.sampled_from([{}, {"Les Yeux": "Les Yeux", "Les_Yeux": "Les Yeux"}]),
)
def test_each_film_has_a_file_of_its_own(
    names: list[str], kind: str, videos: dict[str, str]
) -> None:
    """Of a film that a table writes in two ways, the file had the marks of the second alone."""
    films = []
    for name in names:
        video = Path(f"{videos[name]}.mp4") if name in videos else None
        mark = Segment(name, "ada", 0, 9, "S")
        films.append(FilmSegments(name, Fraction(25), video, [mark]))
    if videos and {"Les Yeux", "Les_Yeux"}.issubset(names):
        with pytest.raises(FixInput, match="are one film, and would have one file"):
            exported_files(films, kind, Path())
        return
    files = exported_files(films, kind, Path())
    written = {path.stem for path in files}
    assert written == {videos.get(name, name) for name in names}
    assert all(b">S</" in data for data in files.values())


WORDS_OF_LOOK = ("look", "Gaze", "Look", "LOOK")


@settings(max_examples=amount(10, 60), deadline=None)
@given(
    words=st.lists(
        st.sampled_from([*WORDS_OF_LOOK, "body", "our own", ""]),
        min_size=4,
        max_size=6,
    ),
    is_own=st.booleans(),
)
def test_a_share_counts_a_concept_under_each_of_its_names(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], is_own: bool
) -> None:
    """A table made by hand had `look`, and the share of Look was 0."""
    folder = tmp_path_factory.mktemp("share")
    (folder / "manifests").mkdir()
    words = words[: len(words) // 2 * 2]
    # A concept that nobody marked is refused, as one that is misspelt.
    assume(is_own or not set(words).isdisjoint(WORDS_OF_LOOK))
    clips = []
    marks = ["movie_id,annotator,start_frame,end_frame,level,concepts,framerate"]
    for number, word in enumerate(words):
        film = ("lake", "pier")[number % 2]
        first = 50 * (number // 2)
        start = first / 25
        clips.append(Clip(f"c{number}", film, start_s=start, end_s=start + 2))
        marks.append(f"{film},ada,{first},{first + 49},S,{word},25")
    # A concept of one's own may be called as a word that papers have for another.
    own = {"look": "visual"} if is_own else {}
    manifest = Manifest("all", Header("made up", own), tuple(clips))
    write_manifest(manifest, folder / "manifests" / "all.toml")
    (folder / "marks.csv").write_text("\n".join(marks) + "\n", "utf-8")
    sample_clips("all", len(words), "drawn", workspace=folder)
    names = ["look"] if is_own else list(WORDS_OF_LOOK)
    asked = names[0] if is_own else "Look"
    audit = audit_share(
        "drawn",
        marks=folder / "marks.csv",
        of=f"{asked} in concept",
        workspace=folder,
    )
    expected = sum(word in names for word in words) / len(words)
    assert audit["shares"][0]["share"] == pytest.approx(expected)
