"""The clips of a command: ids or files that list them, wherever clips are chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze

import obygaze as og
from obygaze_features.core.errors import NotFound
from obygaze_features.store import open_store

FORMS = [
    ["--clips", "a-1,b-2"],
    ["--clips", "table.csv"],
]


@pytest.mark.parametrize("chosen", FORMS, ids=" ".join)
def test_every_command_takes_ids_and_files(inside, chosen):
    subset = call_obygaze("store", "subset", "mine", *chosen, "-o", "part").ok()
    assert subset.stdout.startswith(f"{Path('stores/part')}: 2 clips")
    assert open_store("part").clip_ids.tolist() == ["a-1", "b-2"]
    predict = ["models", "predict", "kept", "mine", "--in-sample"]
    table = call_obygaze(*predict, *chosen).ok().stdout.splitlines()
    assert [line.partition(",")[0] for line in table] == ["clip_id", "a-1", "b-2"]


def test_a_file_that_is_not_there_and_an_unknown_id_are_errors(inside):
    missing = call_obygaze("store", "subset", "mine", "--clips", "no.txt", "-o", "p")
    assert missing.stderr.splitlines()[:2] == ["Error: no such file", "  in: no.txt"]
    unknown = call_obygaze("store", "subset", "mine", "--clips", "a-1,a-9", "-o", "p")
    assert unknown.code == 1
    assert "1 of the clips are not in the store" in unknown.stderr
    assert "the first is 'a-9'" in unknown.stderr


def test_in_python_a_list_holds_ids_and_a_path_is_a_file(inside):
    Path("a-2").write_text("b-1\n", encoding="utf-8")
    assert len(og.predict("kept", "mine", ["a-2"], in_sample=True)) == 1
    named = og.predict("kept", "mine", Path("ids.txt"), in_sample=True)
    assert list(named.clip_ids) == ["a-1", "b-2"]
    with pytest.raises(NotFound, match="no such file"):
        og.predict("kept", "mine", "none.csv")
