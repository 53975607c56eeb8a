"""A table of features is refused with a line of NumPy, which makes an npz of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cli import environment

from obygaze_features.core.errors import FixUsage
from obygaze_features.store.importing import import_features
from obygaze_features.store.reading import open_store

PLAIN = """clip_id,a,b
x 1,0.5,2
"y,#2",-1e-3,3
"""
# Of one feature alone, after a title, with what is no feature between.
LABELLED = """All my clips,,,,,
movie_id,clip_id,level,start_s,note,Größe
Die Tür,x,S,0,dark,7
Grüße,y,EN,2.5,,8
"""
GERMAN = """Szene;a;b;c
x;0,5;1.5;-7
y;14,25;2;0
"""
# As Excel writes it, with cells that nobody has filled.
OF_EXCEL = """Szene;Größe;start_s;end_s
Tür;0,5;0;2,5
x;;2,5;
"""
TABBED = "clip_id\ta\tlevel\tb\nx\t1\tS\t2\ny\t3\tEN\t4\n"


def make_npz(line: str) -> None:
    """Type the line."""
    here = Path(sys.executable).parent
    changes = {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", line], env=environment(changes), check=True)


@pytest.mark.parametrize(
    ("name", "text", "clips", "films", "numbers"),
    [
        ("n.csv", PLAIN, ["x_1", "y_2"], ["", ""], [[0.5, 2], [-0.001, 3]]),
        ("my n's.csv", LABELLED, ["x", "y"], ["Die_Tur", "Grusse"], [[7], [8]]),
        ("n.csv", GERMAN, ["x", "y"], ["", ""], [[0.5, 1.5, -7], [14.25, 2, 0]]),
        ("n.tsv", TABBED, ["x", "y"], ["", ""], [[1, 2], [3, 4]]),
    ],
)
def test_the_line_of_the_refusal_makes_an_npz(
    tmp_path: Path,
    name: str,
    text: str,
    clips: list[str],
    films: list[str],
    numbers: list[list[float]],
) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(FixUsage, match="features are not read from a table") as refused:
        import_features(path, tmp_path / "s")
    assert "leave out labels" in refused.value.message
    line = refused.value.hint
    assert line is not None and line.startswith("python -c ")
    make_npz(line)
    import_features(f"{path}.npz", tmp_path / "s")
    store = open_store(tmp_path / "s")
    assert [row.clip_id for row in store.rows] == clips
    assert [row.movie_id for row in store.rows] == films
    expected = np.array(numbers, np.float32)
    np.testing.assert_array_equal(store.matrix("clip").values, expected)


@pytest.mark.filterwarnings("ignore:.*Windows-1252")
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
def test_times_and_empty_cells_come_with_the_line(
    tmp_path: Path, encoding: str
) -> None:
    """Without its times, the features of a clip were those of any clip of its id."""
    path = tmp_path / "n.csv"
    path.write_text(OF_EXCEL, encoding)
    with pytest.raises(FixUsage) as refused:
        import_features(path, tmp_path / "s")
    make_npz(str(refused.value.hint))
    done = import_features(f"{path}.npz", tmp_path / "s")
    assert done.failed == {"x": "clip holds NaN or infinity"}
    store = open_store(tmp_path / "s")
    rows = [(row.clip_id, row.start_s, row.end_s) for row in store.rows]
    assert rows == [("Tur", 0.0, 2.5), ("x", 2.5, None)]
    assert store.matrix("clip", missing="drop").values.tolist() == [[0.5]]


def test_a_table_of_labels_and_a_spreadsheet_have_other_hints(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("clip_id,movie_id,level\nx,film,S\n", "utf-8")
    with pytest.raises(FixUsage) as refused:
        import_features(labels, tmp_path / "s")
    assert refused.value.hint is not None
    assert "obygaze manifest import" in refused.value.hint
    for ending in (".xlsx", ".ods"):
        with pytest.raises(FixUsage, match="not read from a table") as refused:
            import_features(labels.with_suffix(ending), tmp_path / "s")
        assert refused.value.hint is not None
        assert refused.value.hint.startswith("save the sheet as CSV")
    assert not (tmp_path / "s").exists()
