"""A table says the same to every command, whatever program wrote it.

The cells are drawn, written in a form that a person's programs write, and read again. What may be
in several encodings is refused with its line, never read as another text.
"""

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
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from support.workbooks import write_workbook

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.errors import FixInput, ObygazeError
from obygaze_features.core.tables import number_of_cell, read_header, read_table
from obygaze_features.core.written_tables import write_table
from obygaze_features.manifest.adapters.csv_table import read as read_clips
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.spans import span_in_film
from obygaze_features.store import export_features, import_features, open_store

# Words of people, without what would make a cell a number.
WORDS = st.sampled_from(["ja", "non", "peut-être", "L'Été", "Müller", '"so"', ""])
WORDS |= st.sampled_from(["a;b", "a,b", "x|y", "-nzD-1"])
NAMES = ["Film", "Début", "Größe", "Note", "level", "Nr."]
COLUMNS = st.lists(st.sampled_from(NAMES), unique=True, max_size=4)
FORMS = [
    *[("utf-8", delimiter, "") for delimiter in ",;\t|"],
    *[(encoding, ";", "") for encoding in ("utf-8-sig", "cp1252", "utf-16")],
    ("utf-8-sig", ";", "sep=;"),
    ("cp1252", "\t", "sep=\t"),
    ("xlsx", "", ""),
]
OTHERS = ("cp1250", "cp1251", "iso8859-7", "mac-roman", "cp850", "cp1252")
SLOW = settings(max_examples=12)


def written(folder, table, form, newline) -> Path:
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
def test_a_table_is_read_as_it_was_meant(tmp_path, columns, cells, form, newline):
    header = ["clip_id", *columns]
    rows = [[f"c{n}", *row[: len(columns)]] for n, row in enumerate(cells)]
    # One word that only Windows-1252 can mean, as each German or French table has.
    rows.append(["Nähe", *[""] * len(columns)])
    path = written(tmp_path, [header, *rows], form, newline)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = read_table(path, required=("clip_id",))
        assert read_header(path) == tuple(header)
        assert clip_ids(path) == [row[0] for row in rows]
    assert list(read.columns) == header
    assert [[row[name] for name in header] for row in read.rows] == rows


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
    tmp_path, written_text
):
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
    tmp_path, numbers, groups_thousands, delimiter
):
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
    pairs = zip(cells, numbers, strict=True)
    is_read = all(cell is None or cell == number for cell, number in pairs)
    assert is_read or table.maybe_thousands["x"] in written_numbers
    if not groups_thousands:
        assert cells == numbers


IDS = st.from_regex(r"[+-]{0,2}[A-Za-z0-9_][A-Za-z0-9._+-]{0,11}", fullmatch=True)
# A name of signs alone is no id, and is refused.
TITLES = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1
).filter(lambda title: any(map(str.isalnum, title)))


@settings(parent=SLOW, max_examples=4, phases=[Phase.generate])
@given(
    ids=st.lists(IDS, min_size=1, max_size=6, unique_by=str.casefold),
    title=TITLES,
    kind=st.sampled_from([".csv", ".xlsx"]),
)
def test_an_id_that_can_be_a_key_and_a_file_stays_itself_and_so_does_a_title(
    tmp_path, ids, title, kind
):
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


@SLOW
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
def test_frames_of_a_table_are_times_or_refused(tmp_path, pairs) -> None:
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


@SLOW
@given(
    rate=st.sampled_from((Fraction(24000, 1001), Fraction(25), Fraction(30))),
    first=st.integers(0, 200_000),
    column=st.sampled_from((*FRAME_COLUMNS, "start_s", "end_s")),
    later=st.sampled_from((0, 3, 25, 1000)),
    way=st.sampled_from(("in its film", "linked", "a file of its own")),
)
def test_frames_or_times_that_are_corrected_in_an_exported_table_are_read_or_refused(
    tmp_path, rate, first, column, later, way
):
    frames = {"start_frame": first, "end_frame": first + 1999}
    times = {"start_s": float(first / rate), "end_s": float((first + 2000) / rate)}
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
        assert "empty the wrong frames or times" in refused.value.details[0]
        return
    (back,) = read_clips(path).manifest
    assert span_in_film(back) == (times["start_s"], times["end_s"])


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
def test_a_formula_without_a_value_is_no_empty_cell(tmp_path, cells, column) -> None:
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
        first = f"row {cells.index('=') + 2} and column 2"
        with pytest.raises(FixInput, match=f"the formula in {first} of the sheet 'A'"):
            read_table(saved, required=("clip_id",))
    else:
        read = read_table(saved, required=("clip_id",))
        assert [row[column] for row in read.rows] == texts
