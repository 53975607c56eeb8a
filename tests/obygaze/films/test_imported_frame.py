"""A pandas table becomes the manifest that its CSV file becomes, and is refused as the file is."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage

COLUMNS = {
    **{"clip_id": "clip", "movie_id": "film", "level": "level", "concepts": "why"},
    **{"start_s": "start", "end_s": "end"},
}


def clips(**changed: Any) -> pd.DataFrame:
    cells = {
        "clip": ["a-1", "a-2", "b-1"],
        "film": ["alba", "alba", "brug"],
        "level": ["EN", "S", "HN"],
        "why": [None, "Look|Body", "Posture"],
        "start": [0.0, 12.5, 3.0],
        "end": [4.0, 20.25, 9.0],
        "mood": pd.Series([1, None, 3], dtype="Int64"),
    }
    return pd.DataFrame({**cells, **changed})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_in_memory_is_the_manifest_of_its_file(here: Path) -> None:
    clips().to_csv("clips.csv", index=False)
    og.manifest.import_("clips.csv", "file", columns=COLUMNS)
    og.manifest.import_(clips(), "memory", columns=COLUMNS)
    by_clip = clips().set_index("clip")
    og.manifest.import_(by_clip, "index", columns=COLUMNS)
    expected = og.read_manifest("file")
    for name in ("memory", "index"):
        found = og.read_manifest(name)
        assert found.clips == expected.clips
        assert found.to_frame().equals(expected.to_frame())
    (command,) = found.header.commands
    assert command.startswith("# index was made in Python: og.manifest.import_(table,")


def test_clock_times_and_empty_cells_are_those_of_a_file() -> None:
    seconds = pd.to_timedelta([0, 62, 3], unit="s")
    og.manifest.import_(clips(start=seconds, end=[4, 70, 9]), "times", columns=COLUMNS)
    films = og.read_manifest("times")
    assert [clip.start_s for clip in films] == [0.0, 62.0, 3.0]
    assert films["a-1"].concepts == ()


def test_a_table_in_memory_is_refused_with_its_line(here: Path) -> None:
    with pytest.raises(FixInput, match="cannot be imported: 1 problem") as refusal:
        og.manifest.import_(clips(level=["EN", "Q", "S"]), "films", columns=COLUMNS)
    (line, *_) = refusal.value.details
    assert line.startswith("table.csv:3: column 'level': unknown level 'Q'")
    typed = (
        f"og.manifest.import_(table, 'films', columns={COLUMNS}, words={{'Q': '?'}})"
    )
    assert refusal.value.hint == typed
    shown = "".join([str(refusal.value), *refusal.value.__notes__])
    assert "tmp" not in shown and not (here / "manifests" / "films.toml").exists()
    with pytest.raises(FixInput, match="got lists in the column 'why'"):
        og.manifest.import_(clips(why=[["Look"], [], []]), "films", columns=COLUMNS)
    with pytest.raises(FixUsage, match="expected a name for the manifest"):
        og.manifest.import_(clips(), columns=COLUMNS)
