"""Features in a table become a store: what export wrote, what pandas writes, what Excel writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze

from obygaze_features.core.errors import FixInput
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.interchange.importing import import_store
from obygaze_features.store.read.reader import open_store

EXCEL = "\ufeffShot;f1;f2\r\na;1;2,5\r\nb;-30;4,0\r\n;;\r\n"


def stored(folder: Path, text: str, *options: str) -> tuple[list[str], np.ndarray]:
    (folder / "f.csv").write_text(text, encoding="utf-8")
    call_obygaze(
        "store", "import", "csv", "f.csv", "-o", "s", *options, cwd=folder
    ).ok()
    matrix = open_store(folder / "stores" / "s").matrix("clip")
    return matrix.clip_ids.tolist(), matrix.values


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("clip_id,movie_id,x_0,x_1\na,m,1,2.5\nb,m,-3e1,4\n", ()),
        ("clip_id,movie_id,0,1,title\na,m,1,2.5,A\nb,m,-30,4,B\n", ()),
        (EXCEL, ("--id-key", "Shot", "--array", "clip=f")),
    ],
)
def test_a_table_becomes_the_array_clip(
    tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    clips, values = stored(tmp_path, text, *options)
    assert clips == ["a", "b"]
    np.testing.assert_array_equal(values, np.float32([[1, 2.5], [-30, 4]]))


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("x_2,x_1,x_0", "30,20,10"),
        ("x_1,x_0,x_2", "20,10,30"),
        ("x.0,x.2,x.1", "10,30,20"),
        ("x_00,x_02,x_01", "10,30,20"),
        ("x_3,x_1,x_2", "30,10,20"),
        ("2,0,1", "30,10,20"),
    ],
)
def test_the_numbers_of_columns_give_their_order(
    tmp_path: Path, header: str, cells: str
) -> None:
    _, values = stored(tmp_path, f"clip_id,{header}\na-1,{cells}\n")
    assert values.tolist() == [[10, 20, 30]]


def test_an_underscore_is_in_no_number(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("clip_id,x_0,x_1\na-1,1_0,2\n", encoding="utf-8")
    with pytest.raises(FixInput, match="not a table of features") as refused:
        open_features("csv", [tmp_path / "f.csv"])
    assert "'1_0' is not a number" in str(refused.value.details)


def test_columns_that_were_sorted_as_text_are_read_by_number(tmp_path: Path) -> None:
    names = sorted(f"x_{number}" for number in range(12))
    assert names[2] == "x_10"
    cells = ",".join(name.removeprefix("x_") for name in names)
    _, values = stored(tmp_path, f"clip_id,{','.join(names)}\na-1,{cells}\n")
    assert values.tolist() == [list(range(12))]


def test_two_tables_with_other_orders_of_columns_are_one_store(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("clip_id,x_0,x_1\nm-1,1,2\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("x_1,clip_id,x_0\n2,m-2,1\n", encoding="utf-8")
    import_store(
        open_features("csv", [tmp_path / "a.csv", tmp_path / "b.csv"]), tmp_path / "s"
    )
    assert open_store(tmp_path / "s").matrix("clip").values.tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("x_0,x_1,x_3", "no column with the number 2 between 'x_1' and 'x_3'"),
        ("x_0,x_1,x_01", "'x_1' and 'x_01' have the same number"),
        ("x_0,x_1,x1", "'x_1' and 'x1' have the same number"),
    ],
)
def test_columns_whose_order_is_not_certain_are_refused(
    tmp_path: Path, header: str, what: str
) -> None:
    (tmp_path / "f.csv").write_text(f"clip_id,{header}\na-1,1,2,3\n", encoding="utf-8")
    done = call_obygaze("store", "import", "csv", "f.csv", "-o", "s", cwd=tmp_path)
    assert done.code == 1
    assert what in done.stderr
    assert not (tmp_path / "stores").exists()


def test_what_export_wrote_comes_back(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    np.savez(tmp_path / "f.npz", clip_id=["m-1", "m-2", "m-3"], features=values)
    first = import_store(open_features("npz", [tmp_path / "f.npz"]), tmp_path / "first")
    assert list(first.arrays) == ["clip"]
    export_store(open_store(first.path), tmp_path / "f.csv", "csv")
    import_store(open_features("csv", [tmp_path / "f.csv"]), tmp_path / "second")
    again = open_store(tmp_path / "second").matrix("clip")
    np.testing.assert_array_equal(again.values, values)


@pytest.mark.parametrize(
    ("text", "arrays", "told"),
    [
        ("clip_id,x_0\na,one\n", {}, "not a table of features"),
        ("clip_id,x_0\na,1\n", {"clip": "y"}, "no columns 'y'_0, ...; numbered: x"),
        ("clip,x_0\na,1\n", {}, "not a table of features"),
        ("clip_id,x\na,1\n", {}, "no numbered columns"),
        ("clip_id;x_0\na;0,5\nb;1.234\n", {}, "not a table of features"),
        ("clip_id;x_0\na;1.234,5\n", {}, "not a table of features"),
    ],
)
def test_tables_that_are_refused(
    tmp_path: Path, text: str, arrays: dict[str, str], told: str
) -> None:
    (tmp_path / "f.csv").write_text(text, encoding="utf-8")
    with pytest.raises(FixInput, match=told):
        import_store(open_features("csv", [tmp_path / "f.csv"], arrays), tmp_path / "s")


def test_features_are_found_by_the_ids_that_the_table_of_the_manifest_had(
    tmp_path: Path,
) -> None:
    """Ids of YouTube may begin with `-`, which those of a manifest do not."""
    clips = "clip_id,movie_id\n-3kZ,m\n+49,m\nplain,m\n"
    (tmp_path / "clips.csv").write_text(clips, encoding="utf-8")
    features = "clip_id,x_0\n+49,2\n-3kZ,1\nplain,3\n"
    (tmp_path / "f.csv").write_text(features, encoding="utf-8")
    call_obygaze("manifest", "import", "csv", "clips.csv", "-o", "m", cwd=tmp_path).ok()
    words = ("store", "import", "csv", "f.csv", "-o", "s", "--manifest", "m")
    call_obygaze(*words, cwd=tmp_path).ok()
    store = open_store(tmp_path / "stores" / "s")
    found = dict(
        zip(store.clip_ids.tolist(), store.matrix("clip").values[:, 0], strict=True)
    )
    assert found == {"3kZ": 1, "49": 2, "plain": 3}


def test_a_table_without_the_column_of_ids_names_the_option_and_the_columns(
    tmp_path: Path,
) -> None:
    (tmp_path / "f.csv").write_text("shot,x_0,x_1\na,1,2\n")
    done = call_obygaze("store", "import", "csv", "f.csv", "-o", "s", cwd=tmp_path)
    assert done.code == 1
    assert "Try: --id-key COLUMN, one of shot, x_0, x_1\n" in done.stderr


def test_the_column_of_ids_is_looked_for_among_those_without_a_number(
    tmp_path: Path,
) -> None:
    """The hint listed x_0 to x_7, and the ids were in the last column."""
    columns = [f"x_{number}" for number in range(12)]
    lines = [",".join([*columns, "shot"]), ",".join([*["1"] * 12, "a-1"])]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    words = ("-C", tmp_path, "store", "import", "csv", tmp_path / "t.csv", "-o", "s")
    refused = call_obygaze(*words)
    assert "Try: --id-key COLUMN, one of shot" in refused.stderr
    call_obygaze(*words, "--id-key", "shot").ok()


def test_how_a_changed_file_is_imported_anew_and_not_pushed_over_another(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text(f"clip_id,x_0,x_1\na-1,{len(name)},2\n")
    (tmp_path / "two.csv").write_text("clip_id,x_0,x_1\na-1,7,2\n")

    def imported(name: str, store: str) -> Result:
        words = ("store", "import", "csv", tmp_path / f"{name}.csv", "-o", store)
        return call_obygaze("-C", tmp_path, *words, "--licence", "CC0-1.0")

    imported("one", "s").ok()
    refused = imported("two", "s")
    folder = tmp_path / "stores" / "s"
    assert refused.code == 5
    assert f"or, to import it anew, delete the folder {folder}" in refused.stderr
    call_obygaze("-C", tmp_path, "store", "push", "s", tmp_path / "there").ok()
    shutil.rmtree(folder)
    imported("two", "s").ok()
    pushed = call_obygaze("-C", tmp_path, "store", "push", "s", tmp_path / "there")
    assert pushed.code == 5
    assert "Try: another name, or remove this store first" in pushed.stderr
