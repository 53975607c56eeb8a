"""A store's own JSON files: what is wrong in one is named, and unknown keys are ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.stores import plan_store

from obygaze_features.core.errors import Corrupt
from obygaze_features.store.format.records import (
    LicenceHistory,
    LicenceStatement,
    Plan,
    with_checksum,
)

ORIGIN = {
    "store_sha256": "12" * 32,
    "seal_sha256": "",
    "levels": ["clip"],
    "movies": None,
}


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    """A store.json without its sha256."""
    plan_store(tmp_path / "s")
    document: dict[str, Any] = json.loads((tmp_path / "s/store.json").read_bytes())
    del document["sha256"]
    return document


def test_a_file_is_written_as_it_was_read(document: dict[str, Any]) -> None:
    data = with_checksum(document)
    assert Plan.from_bytes(data, "store.json").to_bytes() == data


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"n_clips": 0}, "n_clips: must be a whole number, at least 1"),
        ({"n_clips": "23"}, "n_clips: must be a whole number"),
        ({"block_rows": None}, "block_rows: must be a whole number"),
        ({"licence": 5}, "licence: must be a string, got 5"),
        ({"files": {"a": [1, "short"]}}, "files: invalid length or sha256 of 'a'"),
        ({"arrays": []}, "arrays: no arrays, or two of one name"),
        ({"manifest": {"name": "x"}}, "manifest_sha256: required key is missing"),
        ({"manifest": "x"}, "manifest_name: required key is missing"),
        ({"origins": "x"}, "origins: must be a list of tables"),
        ({"origins": [{}]}, r"origins\[0\].store_sha256: required key is missing"),
        ({"origins": [{**ORIGIN, "movies": [1]}]}, r"origins\[0\].movies: "),
    ],
)
def test_the_field_that_is_invalid_is_named(
    document: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    data = with_checksum({**document, **changes})
    with pytest.raises(Corrupt, match=rf"invalid for format 1 \({words}") as error:
        Plan.from_bytes(data, "store.json")
    assert error.value.where == "store.json"


def test_a_file_without_its_fingerprint_is_refused(document: dict[str, Any]) -> None:
    del document["fingerprint"]
    with pytest.raises(Corrupt, match="fingerprint: required key is missing"):
        Plan.from_bytes(with_checksum(document), "store.json")


def test_keys_of_later_versions_are_ignored(document: dict[str, Any]) -> None:
    later = {
        **document,
        "later": 1,
        "origins": [{**ORIGIN, "later": 2}],
    }
    plan = Plan.from_bytes(with_checksum(later), "store.json")
    (origin,) = plan.origins
    assert (origin.levels, origin.films) == (("clip",), None)
    assert json.loads(plan.to_bytes())["origins"] == [ORIGIN]


def test_a_licence_file_has_a_statement() -> None:
    stated = LicenceStatement("CC0-1.0", "", "2026-01-01", "a test")
    history = LicenceHistory(plan="12" * 32, statements=(stated,))
    assert LicenceHistory.from_bytes(history.to_bytes(), "x") == history
    empty = LicenceHistory(plan="12" * 32, statements=())
    with pytest.raises(Corrupt, match="statements: must be a list of tables of at"):
        LicenceHistory.from_bytes(empty.to_bytes(), "x")
