"""A table says the same to every command, whatever program wrote it.

The cells are drawn, written in a form that a person's programs write, and read again. What may be
in several encodings is refused with its line, never read as another text.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import tempfile
import unicodedata
import warnings
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import xlsxwriter
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from support.cli import ROOT
from support.workbooks import write_workbook

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import header_of, number_of_cell, read_table
from obygaze_features.core.written_tables import write_table
from obygaze_features.manifest.adapters.csv_table import read as read_clips
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.listing import manifest_columns
from obygaze_features.manifest.model import Clip, Header, Manifest, clock
from obygaze_features.manifest.spans import span_in_film
from obygaze_features.store import export_features, import_features, open_store
from obygaze_features.store.importing.features import Imported

# Words of people, without what would make a cell a number.
WORDS = st.sampled_from(
    [
        "ja",
        "non",
        "peut-être",
        "L'Été",
        "Müller",
        "a;b",
        "a,b",
        "x|y",
        '"so"',
        "-nzD-1",
        "",
    ]
)
COLUMNS = st.lists(
    st.sampled_from(["Film", "Début", "Größe", "Note", "level", "Nr."]),
    unique=True,
    max_size=4,
)
FORMS = [
    *[("utf-8", delimiter, "") for delimiter in ",;\t|"],
    *[(encoding, ";", "") for encoding in ("utf-8-sig", "cp1252", "utf-16")],
    ("utf-8-sig", ";", "sep=;"),
    ("cp1252", "\t", "sep=\t"),
    ("xlsx", "", ""),
]
OTHERS = ("cp1250", "cp1251", "iso8859-7", "mac-roman", "cp850", "cp1252")
SLOW = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def written(
    folder: Path, table: list[list[str]], form: tuple[str, str, str], newline: str
) -> Path:
    """Write a table in a form."""
    encoding, delimiter, first_line = form
    if encoding == "xlsx":
        return write_workbook(folder / "t.xlsx", {"A": table})
    text = io.StringIO(newline="")
    if first_line:
        text.write(first_line + newline)
    csv.writer(text, delimiter=delimiter, lineterminator=newline).writerows(table)
    path = folder / "t.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    return path


@SLOW
@given(
    columns=COLUMNS,
    cells=st.lists(st.lists(WORDS, min_size=5, max_size=5), min_size=1, max_size=5),
    form=st.sampled_from(FORMS),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_a_table_is_read_as_it_was_meant(
    tmp_path: Path,
    columns: list[str],
    cells: list[list[str]],
    form: tuple[str, str, str],
    newline: str,
) -> None:
    header = ["clip_id", *columns]
    rows = [[f"c{n}", *row[: len(columns)]] for n, row in enumerate(cells)]
    # One word that only Windows-1252 can mean, as each German or French table has.
    rows.append(["Nähe", *[""] * len(columns)])
    path = written(tmp_path, [header, *rows], form, newline)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = read_table(path, required=("clip_id",))
        assert header_of(path) == tuple(header)
        assert clip_ids(path) == [row[0] for row in rows]
    assert list(read.columns) == header
    assert [[row[name] for name in header] for row in read.rows] == rows


@pytest.mark.parametrize("form", [form for form in FORMS if form[0] != "cp1252"])
def test_a_column_is_one_on_a_mac_and_elsewhere(
    tmp_path: Path, form: tuple[str, str, str]
) -> None:
    """Two labs had two columns of one name, and each was empty for the other lab."""
    decomposed = "Gro\u0308\u00dfe"
    rows = [["clip_id", "movie_id", decomposed, "Fila"], ["c0", "a", "3", "x"]]
    path = written(tmp_path, rows, form, "\n")
    for name in ("Größe", decomposed):
        assert read_clips(path).manifest.columns == ("Größe", "Fila")
        read = read_clips(path, {"comment": name}).manifest
        assert read["c0"].extra["comment"] == "3"


@SLOW
@given(
    title=st.sampled_from(
        ["Sguardo, Laboratorio Torino, versione 3", "a|b", "Blicke; 2024", "x\ty", ""]
    ),
    columns=COLUMNS.filter(lambda names: len(names) > 1),
    numbers=st.lists(st.sampled_from(["0,5", "1,25", "3"]), min_size=3, max_size=8),
    delimiter=st.sampled_from(";\t|"),
)
def test_a_title_and_decimal_commas_are_not_what_separates_cells(
    tmp_path: Path, title: str, columns: list[str], numbers: list[str], delimiter: str
) -> None:
    header = ["clip_id", *columns]
    rows = []
    for n, number in enumerate(numbers):
        rows.append([f"c{n}", *["ja"] * (len(columns) - 1), number])
    form = ("utf-8", delimiter, "" if delimiter in title else title)
    path = written(tmp_path, [header, *rows], form, "\n")
    # Nothing is required of a table that is shown in a draft of a mapping.
    for required in ((), ("clip_id", "movie_id"), ("clip_id",)):
        read = read_table(path, required=required, violations=Violations(path))
        assert (read.delimiter, list(read.columns)) == (delimiter, header)
        assert not read.doubt


def test_a_table_whose_lines_differ_says_how_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Blicke; 2024\nclip;film;n\nc1;Juno;2\n")
    with pytest.raises(FixInput) as caught:
        read_clips(path)
    assert "read with ';' between cells" in (caught.value.hint or "")
    assert "columns on line 1; where" in (caught.value.hint or "")


@st.composite
def texts_in_an_encoding(draw: st.DrawFn) -> tuple[str, bytes]:
    """A list of ids in the letters of an encoding, and its bytes."""
    encoding = draw(st.sampled_from(OTHERS))
    high = bytes(range(0x80, 0x100)).decode(encoding, "ignore")
    letters = [letter for letter in high if letter.isalpha()]
    letter = st.sampled_from(letters) | st.sampled_from("aeinrst")
    words = draw(
        st.lists(st.text(letter, min_size=1, max_size=8), min_size=1, max_size=5)
    )
    text = "\n".join(["clip_id", *words])
    return text, text.encode(encoding)


@SLOW
@given(written_text=texts_in_an_encoding())
def test_text_in_another_encoding_is_read_as_it_is_or_refused_or_shown(
    tmp_path: Path, written_text: tuple[str, bytes]
) -> None:
    _, data = written_text
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            table = read_table(path, required=("clip_id",))
        except ObygazeError as error:
            where = [*error.details, error.where or ""]
            assert any(line.startswith(str(path)) for line in where)
            return
    with contextlib.suppress(UnicodeDecodeError):
        # Some bytes are UTF-8 all the same.
        data.decode("utf-8")
        return
    # A text that is not UTF-8 is never read without a word of it that a person can compare.
    (warning,) = caught
    assert "read as Windows-1252: " in str(warning.message)
    assert table.rows


@pytest.mark.parametrize(
    ("delimiter", "cells", "expected"),
    [
        (";", ["1,5", "2", ""], ["1.5", "2", ""]),
        ("\t", ["-0,25", "0,5"], ["-0.25", "0.5"]),
        (";", ["1,5", "1.5"], ["1,5", "1.5"]),
        (";", ["1,2,3", "1,5"], ["1,2,3", "1,5"]),
        (",", ["1,5", "2"], ["1,5", "2"]),
    ],
)
def test_decimal_commas_are_points_where_all_cells_are_numbers(
    tmp_path: Path, delimiter: str, cells: list[str], expected: list[str]
) -> None:
    table = [["n", "x"], *[[str(n), cell] for n, cell in enumerate(cells)]]
    path = written(tmp_path, table, ("utf-8", delimiter, ""), "\n")
    assert [row["x"] for row in read_table(path, required=("x",)).rows] == expected


@SLOW
@given(
    numbers=st.lists(
        st.integers(-2_000_000, 2_000_000)
        | st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
        max_size=6,
    ),
    groups_thousands=st.booleans(),
    delimiter=st.sampled_from(";\t"),
)
@example(numbers=[856, 1234], groups_thousands=True, delimiter="\t")
@example(numbers=[0.5, 1.5e-05], groups_thousands=False, delimiter=";")
def test_a_number_with_a_comma_is_read_as_it_was_meant_or_named(
    tmp_path: Path, numbers: list[float], groups_thousands: bool, delimiter: str
) -> None:
    """An English program may part thousands, another one has decimals behind a comma."""
    if groups_thousands:
        numbers = [round(number) for number in numbers if abs(number) < 1e12]
        written_numbers = [f"{number:,}" for number in numbers]
    else:
        written_numbers = [str(number).replace(".", ",") for number in numbers]
    rows = [[str(n), cell] for n, cell in enumerate(written_numbers)]
    path = written(tmp_path, [["n", "x"], *rows], ("utf-8", delimiter, ""), "\n")
    table = read_table(path, required=("n", "x"))
    cells = [number_of_cell(row["x"]) for row in table.rows]
    is_read = all(
        cell is None or cell == number
        for cell, number in zip(cells, numbers, strict=True)
    )
    assert is_read or table.maybe_thousands["x"] in written_numbers
    if not groups_thousands:
        assert cells == numbers


# Tables that obygaze writes and reads itself: of runs, of models, of stores.
OWN = {
    "obygaze_models/evaluation/tables.py",
    "obygaze_models/runner/files.py",
    "obygaze_models/zoo/info.py",
    "obygaze_features/store/decoding.py",
}


def test_no_other_module_reads_tables_of_people() -> None:
    readers = set()
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in (ROOT / package).rglob("*.py"):
            if re.search(
                r"csv\.(reader|DictReader)\(|read_csv|loadtxt", path.read_text("utf-8")
            ):
                readers.add(path.relative_to(ROOT).as_posix())
    assert readers == {*OWN, "obygaze_features/core/tables.py"}


IDS = st.from_regex(r"[+-]{0,2}[A-Za-z0-9_][A-Za-z0-9._+-]{0,11}", fullmatch=True)
# A name of signs alone is no id, and is refused.
TITLES = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1
).filter(lambda title: any(map(str.isalnum, title)))


@settings(parent=SLOW, max_examples=10, phases=[Phase.generate])
@given(
    ids=st.lists(IDS, min_size=1, max_size=6, unique_by=str.casefold),
    title=TITLES,
    kind=st.sampled_from([".csv", ".xlsx"]),
)
def test_an_id_that_can_be_a_key_and_a_file_stays_itself_and_so_does_a_title(
    tmp_path: Path, ids: list[str], title: str, kind: str
) -> None:
    table = [["clip_id", "movie_id"], *[[clip_id, title] for clip_id in ids]]
    form = ("xlsx" if kind == ".xlsx" else "utf-8", ",", "")
    imported = read_clips(written(tmp_path, table, form, "\n"))
    manifest = imported.manifest
    assert list(manifest.clip_ids) == ids
    assert not [line for line in imported.warnings if line.startswith("clip_id")]
    titles = {clip.extra.get("movie_title", clip.movie_id) for clip in manifest}
    # A sign that is the same as another one becomes that one at the door.
    plain = unicodedata.normalize("NFC", title).strip()
    assert titles == {plain}
    changed = [line for line in imported.warnings if line.startswith("movie_id")]
    assert bool(changed) == (manifest.films[0] != plain)

    with tempfile.TemporaryDirectory(dir=tmp_path) as place:
        path = Path(place, "own.toml")
        write_manifest(manifest, path)
        again = read_manifest(path)
        assert again.clips == manifest.clips
        features = np.arange(len(ids) * 2, dtype=np.float32).reshape(-1, 2)
        np.savez(Path(place, "x.npz"), clip_id=ids, clip=features)
        import_features(Path(place, "x.npz"), Path(place, "own"), manifest=again)
        store = open_store(Path(place, "own"))
        assert store.clip_ids.tolist() == ids
        export_features(Path(place, "own"), Path(place, "out.npz"))
        with np.load(Path(place, "out.npz")) as out:
            assert out["clip_id"].tolist() == ids


FRAME_CELLS = st.sampled_from(("12", "12.0", " 12", "12.00", "12a", "12.5", "", "-1"))


@settings(parent=SLOW, max_examples=40)
@given(
    pairs=st.lists(
        st.tuples(FRAME_CELLS, st.sampled_from(("36", "36.0", "36,5", "", "x", "9"))),
        min_size=1,
        max_size=4,
    )
)
@example(pairs=[("12", "36"), ("12.0", "36.0")])
@example(pairs=[("12", "36"), ("12a", "36")])
@example(pairs=[("12", "36"), ("", "36")])
def test_frames_of_a_table_are_times_or_refused(
    tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    """A clip whose frames are no whole numbers had no times, without a word."""
    header = ["clip_id", "movie_id", "start_frame", "end_frame", "framerate", "rated"]
    rows = [[f"c{n}", "m", *pair, "24", "1"] for n, pair in enumerate(pairs)]
    path = written(tmp_path, [header, *rows], ("utf-8", ",", ""), "\n")
    wrong = []
    for first, last in pairs:
        is_first = first.strip() in ("12", "12.0", "12.00")
        is_span = is_first and last in ("36", "36.0")
        if (first, last) != ("", "") and not is_span:
            wrong.append((first, last))
    try:
        manifest = read_clips(path).manifest
    except FixInput:
        assert wrong
        return
    assert not wrong
    for clip, (first, _) in zip(manifest, pairs, strict=True):
        expected = (12 / 24, 37 / 24) if first else (None, None)
        assert (clip.start_s, clip.end_s) == expected


FRAME_COLUMNS = ("start_frame", "end_frame")


@settings(parent=SLOW, max_examples=40)
@given(
    rate=st.sampled_from((Fraction(24000, 1001), Fraction(25), Fraction(30))),
    first=st.integers(0, 200_000),
    column=st.sampled_from((*FRAME_COLUMNS, "start_s", "end_s")),
    later=st.sampled_from((0, 3, 25, 1000)),
    way=st.sampled_from(("in its film", "linked", "a file of its own")),
)
def test_frames_or_times_that_are_corrected_in_an_exported_table_are_read_or_refused(
    tmp_path: Path, rate: Fraction, first: int, column: str, later: int, way: str
) -> None:
    """Who corrected frames in Excel had the old times in films, players and stores."""
    frames = {"start_frame": first, "end_frame": first + 1999}
    times = {
        "start_s": float(first / rate),
        "end_s": float((first + 2000) / rate),
    }
    if column in frames:
        frames[column] += later
    else:
        times[column] += float(later / rate)
    extra = {name: str(frame) for name, frame in frames.items()}
    extra["framerate"] = frame_rate_text(rate)
    video = ""
    start_s, end_s = times["start_s"], times["end_s"]
    if way == "linked":
        video = "lake.mp4"
        extra["video_name"] = ""
    if way == "a file of its own":
        video = "lake-1.mp4"
        extra |= {"film_start_s": repr(start_s), "film_end_s": repr(end_s)}
        start_s = end_s = None
    clip = Clip("a-1", "lake", None, video, start_s, end_s, extra=extra)
    edited = Manifest("m", Header("d"), (clip,), tuple(extra))
    path = write_table(tmp_path / "edited.csv", edited.cells_by_column(), force=True)
    if later:
        with pytest.raises(FixInput) as refused:
            read_clips(path)
        assert "empty those that are wrong" in refused.value.details[0]
        return
    (back,) = read_clips(path).manifest
    assert span_in_film(back) == (times["start_s"], times["end_s"])


@settings(parent=SLOW, max_examples=40)
@given(
    starts=st.lists(st.integers(0, 7_000_000), min_size=1, max_size=3, unique=True),
    column=st.sampled_from(("start_s", "end_s", "start", "end")),
    later_ms=st.sampled_from((0, 2, 40, 1000, 60_000)),
    form=st.sampled_from(FORMS),
)
def test_a_time_that_is_corrected_in_a_shown_table_is_read_or_refused(
    tmp_path: Path,
    starts: list[int],
    column: str,
    later_ms: int,
    form: tuple[str, str, str],
) -> None:
    """`manifest show -o` writes clock times beside seconds: who corrected one had the old times."""
    clips = []
    for number, start_ms in enumerate(starts):
        times = (start_ms / 1000, start_ms / 1000 + 900)
        clips.append(Clip(f"lake-{number}", "lake", start_s=times[0], end_s=times[1]))
    shown = manifest_columns(Manifest("m", Header("d"), tuple(clips)))
    rows = [[str(cell) for cell in row] for row in zip(*shown.values(), strict=True)]
    name = "start_s" if column.startswith("start") else "end_s"
    corrected_s = getattr(clips[-1], name) + later_ms / 1000
    is_clock = column != name
    new_cell = clock(corrected_s, 3) if is_clock else repr(corrected_s)
    rows[-1][[*shown].index(column)] = new_cell
    path = written(tmp_path, [[*shown], *rows], form, "\n")
    try:
        *_, last = read_clips(path).manifest
    except FixInput:
        assert later_ms
        return
    assert not later_ms
    assert getattr(last, name) == pytest.approx(corrected_s, abs=0.0006)


@SLOW
@given(
    rates=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(("25", "25.0", "23.976"))),
        min_size=1,
        max_size=4,
    )
)
def test_frames_of_a_film_are_counted_at_one_rate(
    tmp_path: Path, rates: list[tuple[str, str]]
) -> None:
    """One wrong rate put a clip four minutes later, in which nobody had seen anything."""
    header = ["clip_id", "movie_id", "start_frame", "end_frame", "framerate"]
    rows = [[f"c{n}", film, "0", "249", rate] for n, (film, rate) in enumerate(rates)]
    path = written(tmp_path, [header, *rows], ("utf-8", ",", ""), "\n")
    rates_of_film: dict[str, set[float]] = {}
    for film, rate in rates:
        rates_of_film.setdefault(film, set()).add(float(rate))
    if all(len(of_film) == 1 for of_film in rates_of_film.values()):
        assert len(read_clips(path).manifest) == len(rates)
        return
    with pytest.raises(FixInput) as caught:
        read_clips(path)
    assert "is not that of the film's other rows" in str(caught.value.details)


@pytest.mark.parametrize("column", ["video", "video_name"])
@pytest.mark.parametrize("n_files", [1, 3])
def test_frames_are_in_no_file_that_a_table_names(
    tmp_path: Path, column: str, n_files: int
) -> None:
    """`video_name` names the file of a clip as `video` does: times in the film are not in it."""
    header = ["clip_id", "movie_id", column, "start_frame", "end_frame", "framerate"]
    rows = []
    for number in range(3):
        frames = [f"{100 * number}", f"{100 * number + 99}"]
        rows.append([f"c{number}", "m", f"{number % n_files}.mp4", *frames, "25"])
    path = written(tmp_path, [header, *rows], ("utf-8", ",", ""), "\n")
    if n_files < 3:
        with pytest.raises(FixInput) as caught:
            read_clips(path)
        assert "does not say where in 0.mp4 the clip is" in caught.value.details[0]
        return
    # A clip alone in its file is all of it.
    clips = read_clips(path).manifest.clips
    assert [(clip.start_s, clip.end_s) for clip in clips] == [(None, None)] * 3


def test_times_in_a_file_that_is_named_are_said_so_and_no_join_names_one(
    tmp_path: Path,
) -> None:
    """Times in a film became times in the files of a column that says nothing of times."""
    header = ["clip_id", "movie_id", "start_s", "end_s"]
    rows = [["c0", "m", "60", "70"], ["c1", "m", "70", "80"]]
    form = ("utf-8", ",", "")
    named = [[*header, "video_name"], *([*row, "x.mp4"] for row in rows)]
    read = read_clips(written(tmp_path, named, form, "\n"))
    assert "times in the file that video_name names" in read.notes[0]
    films = read_clips(written(tmp_path, [header, *rows], form, "\n"))
    assert films.notes == ()
    names = [["clip_id", "video_name", "mood"], ["c0", "x.mp4", "joy"]]
    joined = join(films.manifest, written(tmp_path, names, form, "\n"))
    assert joined.manifest.columns == ("mood",)
    assert any("have their own: video_name" in text for text in joined.warnings)
    spans = [span_in_film(clip) for clip in joined.manifest]
    assert spans == [(60.0, 70.0), (70.0, 80.0)]


def store_of_numbers(folder: Path, table: list[list[str]], form: str) -> Imported:
    """The import of a table as features."""
    if form == "xlsx":
        path = write_workbook(folder / "t.xlsx", {"A": table})
        return import_features(path, folder / "store", workspace=folder)
    path = written(folder, table, ("utf-8", form, ""), "\n")
    return import_features(path, folder / "store", workspace=folder)


@SLOW
@given(
    numbers=st.lists(
        st.sampled_from(["1,234", "-12,500", "856", "0,5", "1234,500", "2,25"]),
        min_size=2,
        max_size=5,
    ),
    column=st.sampled_from(["v0", "start_s"]),
    form=st.sampled_from([";", "\t", "|", "xlsx"]),
)
@example(numbers=["1,234", "987"], column="v0", form="\t")
def test_features_that_may_be_thousands_are_named(
    numbers: list[str], column: str, form: str
) -> None:
    if (column, form) == ("start_s", "xlsx"):
        numbers = [number for number in numbers if "," not in number] or ["7"]
    header = ["clip_id", "movie_id", "w", column]
    rows = [[f"a-{n}", "a", "1", number] for n, number in enumerate(numbers)]
    doubtful = [number for number in numbers if "," in number]
    is_doubtful = bool(doubtful) and {*doubtful} <= {"1,234", "-12,500"}
    with tempfile.TemporaryDirectory() as name:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            imported = store_of_numbers(Path(name), [header, *rows], form)
        store = open_store(imported.path)
        if column == "v0":
            read = store["clip"].values[:, 1].tolist()
        else:
            read = [row.start_s for row in store.rows]
    # What is said is how the numbers were read.
    expected = [float(number.replace(",", ".")) for number in numbers]
    np.testing.assert_allclose(read, expected, rtol=1e-6)
    said = [str(one.message) for one in found]
    assert ["in the column" in text for text in said] == [True] * is_doubtful


@SLOW
@given(
    ratings=st.lists(
        st.sampled_from(["2,5", "0,25", "3", 1.5, 2, 12.125, None]),
        min_size=1,
        max_size=6,
    )
)
def test_numbers_and_texts_of_a_sheet_are_one_column_of_numbers(
    ratings: list[str | float | None],
) -> None:
    """Texts with decimal commas beside cells that are numbers were words."""
    rows = [[f"c{n}", "film", rating] for n, rating in enumerate(ratings)]
    with tempfile.TemporaryDirectory() as name:
        table = [["clip_id", "movie_id", "rating"], *rows]
        path = write_workbook(Path(name, "t.xlsx"), {"A": table})
        clips = read_clips(path).manifest.clips
    read = [number_of_cell(clip.extra.get("rating")) for clip in clips]
    expected = []
    for rating in ratings:
        number = rating.replace(",", ".") if isinstance(rating, str) else rating
        expected.append(None if number is None else float(number))
    assert read == expected


@SLOW
@given(
    cells=st.lists(st.sampled_from(["1", "2", "1,2", "2,1"]), min_size=1, max_size=5),
    title=st.sampled_from(["8,5", "Lake"]),
    is_sheet=st.booleans(),
)
def test_numbers_of_concepts_and_titles_keep_their_commas(
    cells: list[str], title: str, is_sheet: bool
) -> None:
    """Concepts 1 and 2 of a sheet were the unknown concept 1.2, and the film 8,5 was 8.5."""
    table = [["clip_id", "movie_id", "movie_title", "concepts"]]
    for number, cell in enumerate(cells):
        table.append([f"c{number}", "film", title, cell])
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "t.csv")
        path.write_text("".join(f"{';'.join(row)}\n" for row in table), "utf-8")
        if is_sheet:
            path = write_workbook(Path(name, "t.xlsx"), {"A": table})
        mapping = Path(name, "words.toml")
        words = 'separator = ","\n[concepts]\n1 = "Look"\n2 = "Body"\n'
        mapping.write_text(words, "utf-8")
        clips = read_clips(path, mapping=mapping).manifest.clips
    word_of = {"1": "Look", "2": "Body"}
    expected = []
    for cell in cells:
        expected.append((tuple(word_of[sign] for sign in cell.split(",")), title))
    assert [(clip.concepts, clip.extra["movie_title"]) for clip in clips] == expected


@SLOW
@given(
    cells=st.lists(st.sampled_from(["1", "3", "1,2", "4,5"]), min_size=1, max_size=8),
    is_sheet=st.booleans(),
)
def test_a_column_is_shown_as_it_was_read(cells: list[str], is_sheet: bool) -> None:
    """The codes 1 and 2 of a sheet were joined as 1.2 without a word."""
    table = [["clip_id", "movie_id", "codes"]]
    table += [[f"c{number}", "film", cell] for number, cell in enumerate(cells)]
    clips = [Clip(f"c{number}", "film") for number, _ in enumerate(cells)]
    manifest = Manifest("films", Header("films"), tuple(clips))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "t.csv")
        path.write_text("".join(f"{';'.join(row)}\n" for row in table), "utf-8")
        if is_sheet:
            path = write_workbook(Path(name, "t.xlsx"), {"A": table})
        (said_of_import,) = read_clips(path).notes
        said_of_join = str(join(manifest, path))
    numbers = [cell.replace(",", ".") for cell in cells]
    for said in (said_of_import, said_of_join):
        assert min(numbers, key=float) in said
        assert max(numbers, key=float) in said


def without_values(path: Path) -> Path:
    """A spreadsheet whose formulas have no values, as openpyxl saves it."""
    saved = path.with_name(f"saved-{path.name}")
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(saved, "w") as copy:
        for name in archive.namelist():
            data = archive.read(name)
            copy.writestr(name, re.sub(rb"</f><v>[^<]*</v>", b"</f><v/>", data))
    return saved


@SLOW
@given(
    cells=st.lists(st.sampled_from(["3", "S", "", "="]), min_size=1, max_size=6),
    column=st.sampled_from(["start_s", "level", "Note"]),
)
@example(cells=["3", "="], column="start_s")
def test_a_formula_without_a_value_is_no_empty_cell(
    tmp_path: Path, cells: list[str], column: str
) -> None:
    """Clips whose times were formulas became their whole films, once openpyxl had saved them."""
    path = tmp_path / "t.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("A")
    sheet.write_row(0, 0, ["clip_id", column])
    for row, cell in enumerate(cells, start=1):
        sheet.write_string(row, 0, f"c{row}")
        if cell == "=":
            sheet.write_formula(row, 1, "=2+5", None, 7)
        else:
            sheet.write_string(row, 1, cell)
    book.close()
    texts = ["7" if cell == "=" else cell for cell in cells]
    computed = read_table(path, required=("clip_id",))
    assert [row[column] for row in computed.rows] == texts
    saved = without_values(path)
    if "=" in cells:
        first = f"B{cells.index('=') + 2}"
        with pytest.raises(FixInput, match=f"the formula in {first} of the sheet 'A'"):
            read_table(saved, required=("clip_id",))
    else:
        read = read_table(saved, required=("clip_id",))
        assert [row[column] for row in read.rows] == texts


def test_a_formula_may_give_an_empty_text(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet("A")
    sheet.write_row(0, 0, ["clip_id", "level"])
    sheet.write_string(1, 0, "c1")
    sheet.write_formula(1, 1, '=IF(A1="x","S","")', None, "S")
    book.close()
    # As Excel writes the result of this formula.
    saved = tmp_path / "saved.xlsx"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(saved, "w") as copy:
        for name in archive.namelist():
            data = archive.read(name)
            copy.writestr(name, data.replace(b"</f><v>S</v>", b"</f><v></v>"))
    (row,) = read_table(saved, required=("clip_id",)).rows
    assert row["level"] == ""


@SLOW
@given(
    notes=st.lists(
        st.sampled_from(("", "see p. 3", "?", "12")), min_size=1, max_size=4
    ),
    place=st.sampled_from((0, 2)),
    form=st.sampled_from(FORMS),
)
def test_notes_beside_a_table_are_named_as_left_out(
    tmp_path: Path, notes: list[str], place: int, form: tuple[str, str, str]
) -> None:
    """Numbers alone are those of the rows, as some programs write them."""
    rows = [["clip_id", "movie_id"]]
    rows += [[f"c{n}", "Nähe"] for n in range(len(notes))]
    for row, note in zip(rows, ["", *notes], strict=True):
        row.insert(place, note)
    path = written(tmp_path, rows, form, "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        imported = read_clips(path)
        joined = join(imported.manifest, path)
    first = next((note for note in notes if note not in ("", "12")), "")
    for said in (imported.warnings, joined.warnings):
        found = [text for text in said if "without a name" in text]
        assert len(found) == bool(first)
        assert all(f"such as {first!r}" in text for text in found)


def test_times_and_labels_that_may_be_thousands_are_named(tmp_path: Path) -> None:
    """English Excel writes 1,200 in a table with tabs; 23,976 is a rate."""
    path = tmp_path / "t.tsv"
    path.write_text(
        "clip_id\tmovie_id\tstart_s\tend_s\tframerate\tviews\n"
        'a\tm\t856\t861\t"23,976"\t12\nb\tm\t"1,200"\t"1,210"\t"23,976"\t"1,500"\n'
    )
    imported = read_clips(path)
    named = [line for line in imported.warnings if " was read as " in line]
    assert [line.split(" was ")[0] for line in named] == [
        "1,200 in the column start_s",
        "1,210 in the column end_s",
        "1,500 in the column views",
    ]
    labels = tmp_path / "labels.tsv"
    labels.write_text('clip_id\tseen\na\t"1,500"\nb\t856\n')
    joined = join(imported.manifest, labels)
    assert any("1,500 in the column seen was read as" in w for w in joined.warnings)
