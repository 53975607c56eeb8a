"""Changed files of every kind are read or refused; `make fuzz` reads many more of them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.fuzz import campaign
from support.fuzz_targets import MANIFEST, all_targets
from support.runs import usual, write_run
from support.stores import copy_of_sealed

from obygaze_features.core.errors import Corrupt, FixInput, ObygazeError
from obygaze_features.core.files import parse_json
from obygaze_features.core.schema_check import Document
from obygaze_features.extraction.plan import (
    ExtractPlan,
    PlannedClip,
    Target,
    plan_from_bytes,
)
from obygaze_features.manifest.adapters import csv_table
from obygaze_features.store import (
    ArraySpec,
    ImportSettings,
    import_store,
    open_features,
    open_store,
)
from obygaze_features.store.remote.fetch import unpack
from obygaze_models.protocols.runner.records import read_run


def test_changed_inputs_are_read_or_refused(tmp_path: Path) -> None:
    n_inputs = 200
    found = campaign(all_targets(tmp_path), n_inputs, seed=13)
    assert {what: lines for what, (_, _, lines) in found.first.items()} == {}
    assert sum(found.counts.values()) == n_inputs
    read = sum(n for what, n in found.counts.items() if what.endswith(": read"))
    assert n_inputs / 20 < read < n_inputs  # neither all refused nor all unchanged


def test_a_finding_is_found(tmp_path: Path) -> None:
    def read(tree: dict[str, bytes], folder: Path) -> None:
        if b"\xff" in tree.get("x", b""):
            raise ZeroDivisionError

    from support.fuzz import Target as Kind

    found = campaign([Kind("kind", [{"x": b"abc"}], read)], 300, seed=1)
    assert [key.rpartition(" at ")[0] for key in found.first] == [
        "kind: ZeroDivisionError"
    ]
    assert found.counts["findings"] + found.counts["kind: read"] == 300


def zip_with(path: Path, field: int, value: int, *, name: str = "store.json") -> Path:
    """Pack a store, and change a field of the directory entry of its first file."""
    store = copy_of_sealed(path.with_suffix(""))
    with zipfile.ZipFile(path, "w") as packed:
        for file in sorted(store.rglob("*")):
            if file.is_file():
                packed.write(file, file.relative_to(store).as_posix())
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + field : at + field + 2] = value.to_bytes(2, "little")
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("bit", [0, 5, 6])
def test_zip_entries_that_are_not_plain_are_refused(tmp_path: Path, bit: int) -> None:
    path = zip_with(tmp_path / "s.zip", 8, 1 << bit)
    for work in (open_store, lambda path: unpack(path, tmp_path / "out")):
        with pytest.raises(FixInput, match="encrypted"):
            work(path)


def test_a_zip_entry_without_a_name_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("a", b"")
    data = bytearray(out.getvalue())
    at = data.index(b"PK\x01\x02")
    data[at + 28 : at + 30], data[at + 30 : at + 32] = b"\0\0", b"\x01\0"
    (tmp_path / "s.zip").write_bytes(data)
    for work in (open_store, lambda path: unpack(path, tmp_path / "out")):
        with pytest.raises(ObygazeError):
            work(tmp_path / "s.zip")


@pytest.mark.parametrize(
    "text", ['{"x": "\\ud800"}', '"\\udfffabc"', "[" * 100_000, '"\xed\xa0\x80"']
)
def test_json_that_cannot_be_written_again_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"surrogates|nested|decode"):
        parse_json(text.encode("latin-1"))
    assert parse_json('"\\ud83c\\udfac é"'.encode()) == "🎬 é"


def test_half_a_pair_in_an_argument_is_printed_as_an_escape(workspace: Path) -> None:
    said = call_obygaze("store", "info", "a\ud800b", cwd=workspace)
    assert said.code == 2
    assert "a\\ud800b" in said.stderr


def test_a_very_long_key_does_not_hang() -> None:
    document = Document({}, "x.toml", lines={"a": 7})
    document.add("a." + "x" * 1_000_000 + "[0]" * 100, "is odd")  # hours if squared
    assert document.violations.lines[0].startswith("x.toml:7: ")


def a_plan(**changes: object) -> bytes:
    rows = (PlannedClip("a-1", "a", "a.mp4", 0.0, 1.5), PlannedClip("b-1", "b", ""))
    plan = ExtractPlan(
        "films", "", "", rows, (Target("s", "descriptors", arrays=("clip",)),)
    )
    whole = json.loads(plan.to_bytes())
    assert plan_from_bytes(plan.to_bytes(), "p.json") == plan
    whole["rows"][0].update(changes.pop("row", {}))
    whole["targets"][0].update(changes.pop("target", {}))
    return json.dumps({**whole, **changes}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"row": {"start_s": float("inf")}},
        {"row": {"end_s": "1"}},
        {"row": {"clip_id": 3}},
        {"row": {"more": 3}},
        {"rows": []},
        {"rows": ["x"]},
        {"timeout_s": None},
        {"manifest": ["films"]},
        {"target": {"block_rows": 0}},
        {"target": {"arrays": "clip"}},
    ],
)
def test_an_extraction_plan_with_an_invalid_value_is_refused(changes: dict) -> None:
    with pytest.raises(FixInput, match="the plan is not valid"):
        plan_from_bytes(a_plan(**changes), "p.json")


def test_a_run_with_edited_records_is_refused_or_shown(tmp_path: Path) -> None:
    odd = [{**usual()[0], "ap": {"value": 0.5, "ci": 7}}]
    table = read_run(write_run(tmp_path / "odd", odd)).to_frame()
    assert table["ap"].tolist() == [0.5]
    assert table["ap_low"].isna().all()
    folder = write_run(tmp_path / "run", usual(), protocol="x")
    said = call_obygaze("report", folder, "--format", "csv", cwd=tmp_path)
    assert said.code == 4
    assert "invalid value" in said.stderr
    not_text = b"clip_id,\xff\n"
    checksum = hashlib.sha256(not_text).hexdigest()
    folder = write_run(tmp_path / "more", usual(), predictions_sha256=checksum)
    (folder / "predictions.csv").write_bytes(not_text)
    with pytest.raises(Corrupt, match="not a table of predictions"):
        _ = read_run(folder).predictions


@pytest.mark.parametrize("shape", [(10**400,), (10**10,) * 4])
def test_an_array_larger_than_any_disk_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(FixInput, match=r"more than 1e\+30 bytes"):
        ArraySpec("clip", shape)


def test_a_mapping_may_use_an_id_twice(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(MANIFEST["m.csv"])
    found = csv_table.read(tmp_path / "t.csv", {"movie_id": "clip_id"})
    assert [clip.movie_id for clip in found.manifest] == [
        "tt1-001",
        "tt1-002",
        "tt2-001",
    ]


def test_ids_with_very_long_numbers_are_sorted(tmp_path: Path) -> None:
    ids = ["a-10", "a-9", "a-" + "9" * 5000, "a-009"]
    np.savez(
        tmp_path / "f.npz", clip_id=np.array(ids), clip=np.ones((4, 2), np.float32)
    )
    source = open_features("npz", [tmp_path / "f.npz"])
    import_store(source, tmp_path / "s", settings=ImportSettings())
    assert open_store(tmp_path / "s").clip_ids.tolist() == [
        "a-009",
        "a-9",
        "a-10",
        ids[2],
    ]
