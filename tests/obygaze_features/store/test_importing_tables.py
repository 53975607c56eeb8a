"""Stores made of a person's table of numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import call_obygaze

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.importing.features import import_features
from obygaze_features.store.reading import open_store

TABLE = """Film;Szene;Größe Gesicht;Personen;Bemerkung
Die Tür;1;3,5;2;
Die Tür;2;14,25;;unklar
Grüße;1;-7;0;
"""


def films() -> Manifest:
    """Return the three clips of the table, with ids as an import makes them."""
    clips = []
    for film, number in (("Die_Tur", 1), ("Die_Tur", 2), ("Grusse", 1)):
        clips.append(Clip(f"{film}-{number}", film, number, ""))
    return Manifest("films", Header("Made up", {}), clips)


@pytest.mark.filterwarnings("ignore:.*Windows-1252")
@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_table_of_numbers_is_imported(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"Meine Zahlen.{kind}"
    if kind == "csv":
        path.write_text(TABLE, "cp1252")
    else:
        xlsxwriter = pytest.importorskip("xlsxwriter")
        with xlsxwriter.Workbook(path) as book:
            sheet = book.add_worksheet()
            for row, line in enumerate(TABLE.splitlines()):
                for column, cell in enumerate(line.split(";")):
                    sheet.write(row, column, cell.replace(",", "."))
    done = import_features(
        path,
        tmp_path / "s",
        id_key="{Film}-{Szene}",
        manifest=films(),
        backbone="my numbers",
    )
    assert done.failed == {"Die_Tur-2": "no number in the column Personen"}
    assert "columns that are no features were left out: Bemerkung" in done.remarks
    assert str(done).endswith(", clip [2]")
    store = open_store(tmp_path / "s")
    rows = store.matrix("clip", clips=["Grusse-1", "Die_Tur-1"])
    assert np.asarray(rows).tolist() == [[-7.0, 0.0], [3.5, 2.0]]
    # A model of these columns reads no others.
    assert store.recipe.facts == {
        "backbone": "my numbers",
        "columns": "Größe Gesicht, Personen",
    }
    with pytest.raises(FixUsage, match="'columns' is recorded by the import itself"):
        told = {"columns": "a, b"}
        import_features(path, tmp_path / "t", id_key="Szene", facts=told)


def test_levels_folds_and_names_are_no_features(tmp_path: Path) -> None:
    """A model that reads the level of a clip is always right; Python reads 1_2 as a number."""
    path = tmp_path / "n.csv"
    path.write_text(
        "clip_id,level,fold:a,shot,mine\nx,3,1,1_2,7\ny,0,2,1_3,8\n", "utf-8"
    )
    done = import_features(path, tmp_path / "s", backbone="b")
    left_out = "columns that are no features were left out: level, fold:a, shot"
    assert left_out in done.remarks
    store = open_store(tmp_path / "s")
    assert store.matrix("clip").values.tolist() == [[7.0], [8.0]]


def test_rows_with_the_times_of_other_clips_are_refused(tmp_path: Path) -> None:
    """The times were left out, so that another cut of the film got these numbers."""
    path = tmp_path / "n.csv"
    path.write_text("clip_id,start_s,end_s,a\nx,0,2.5,7\ny,2.5,,8\n", "utf-8")
    import_features(path, tmp_path / "s", backbone="b")
    store = open_store(tmp_path / "s")
    assert [row[2:4] for row in store.rows] == [(0.0, 2.5), (2.5, None)]
    clips = [Clip("x", "lake", start_s=0.0, end_s=2.5)]
    clips.append(Clip("y", "lake", start_s=2.5, end_s=4.0))
    cut = Manifest("films", Header("Made up"), clips)
    done = import_features(path, tmp_path / "t", manifest=cut, backbone="b")
    assert not done.failed
    clips[1] = Clip("y", "lake", start_s=3.0, end_s=4.0)
    other = Manifest("films", Header("Made up"), clips)
    with pytest.raises(Mismatch, match=r"'y' is 2\.5 s to \? and 3 s to 4 s"):
        import_features(path, tmp_path / "u", manifest=other, backbone="b")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            TABLE.replace("14,25", "viel").replace("Grüße;1;-7;0", "Grüße;1;-7;k.A."),
            [
                "3: column 'Größe Gesicht': 'viel' is not a number",
                "4: column 'Personen': 'k.A.' is not a number",
            ],
        ),
        # One thousand, or little more than one?
        (
            "Film;Szene;a\nx;1;1,234\nx;2;0.0\n",
            ["2: column 'a': '1,234' is not a number"],
        ),
        ("Film,Szene,a\nx,1,\n", ["no column has numbers"]),
        ("Film,a\nx,1\n", ["1: column 'Szene': required column is missing"]),
        ("Film,Szene,a\nx,,1\n", ["2: column 'Szene': is empty, and is a part of"]),
    ],
)
def test_what_is_no_number_is_named_by_line_and_column(
    tmp_path: Path, text: str, lines: list[str]
) -> None:
    path = tmp_path / "n.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(FixInput, match="the table cannot be imported") as raised:
        import_features(path, tmp_path / "s", id_key="{Film}-{Szene}")
    for found, expected in zip(raised.value.details, lines, strict=True):
        assert expected in found


def test_arrays_of_a_table_have_no_names(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("clip_id,a\nx,1\n", "utf-8")
    with pytest.raises(FixUsage, match="--array does not apply to a table"):
        import_features(path, tmp_path / "s", arrays={"clip": "a"})
    hint = call_obygaze("-C", tmp_path, "store", "import", path, "-o", "t")
    assert "--backbone NAME" in hint.ok().stderr


CELLS = st.one_of(st.none(), st.integers(-999, 999), st.floats(-99, 99, width=16))


@settings(max_examples=12)
@given(
    table=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6),
    signs=st.sampled_from([(",", "."), (";", ","), (";", "."), ("\t", ",")]),
)
def test_rows_are_the_numbers_of_the_table(
    tmp_path_factory: pytest.TempPathFactory,
    table: list[tuple[float | None, float | None]],
    signs: tuple[str, str],
) -> None:
    """Whatever separates cells, and whichever mark decimals have."""
    delimiter, point = signs
    folder = tmp_path_factory.mktemp("table")
    lines = [delimiter.join(("clip_id", "a", "b")), delimiter.join(("m-0", "1", "2"))]
    for number, row in enumerate(table, 1):
        cells = ["" if cell is None else f"{cell:.12f}" for cell in row]
        cells = [cell.replace(".", point) for cell in cells]
        lines.append(delimiter.join((f"m-{number}", *cells)))
    path = folder / "n.csv"
    path.write_text("\n".join(lines), "utf-8")
    import_features(path, folder / "s", backbone="b")
    store = open_store(folder / "s")
    found = store.matrix("clip", missing="nan").values
    expected = []
    for row in [(1.0, 2.0), *table]:
        expected.append((np.nan, np.nan) if None in row else row)
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-6, atol=1e-11)


def test_times_that_are_no_seconds_are_refused(tmp_path: Path) -> None:
    """They were left out without a word, and a clip without times is any clip of its id."""
    path = tmp_path / "numbers.csv"
    path.write_text("clip_id,start_s,end_s,a\nx,0:05,7.5,7\ny,,late,8\n", "utf-8")
    with pytest.raises(FixInput, match="the table cannot be imported") as caught:
        import_features(path, tmp_path / "s")
    said = "\n".join(caught.value.details)
    assert "2: column 'start_s': '0:05' is not a number of seconds" in said
    assert "3: column 'end_s': 'late' is not a number of seconds" in said
    assert len(caught.value.details) == 2
