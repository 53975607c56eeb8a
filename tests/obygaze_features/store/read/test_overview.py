"""What the commands that look at stores print is what their functions return."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.stores import copy_of_sealed, fill_store, plan_store, some_values

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage, Mismatch
from obygaze_features.store import (
    describe_store,
    diff_stores,
    list_stores,
    open_store,
    store_licence,
    verify,
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with a whole store, one that grows, and one that is broken."""
    stores = tmp_path / "stores"
    copy_of_sealed(stores / "whole")
    plan_store(stores / "growing")
    fill_store(stores / "growing", some_values(23), blocks=[0, 2])
    copy_of_sealed(stores / "broken")
    (stores / "broken" / "store.json").write_text("{}")
    return tmp_path


def printed(workspace: Path, *words: str) -> str:
    return call_obygaze("-C", workspace, "store", *words).stdout.removesuffix("\n")


def test_a_function_returns_what_its_command_prints(workspace: Path) -> None:
    listed = list_stores(workspace=workspace)
    assert str(listed) == printed(workspace, "ls")
    assert [facts["name"] for facts in listed.stores] == ["growing", "whole"]
    assert list(listed.broken) == ["broken"]
    page = describe_store("whole", workspace=workspace)
    assert str(page) == printed(workspace, "info", "whole")
    report = verify("whole", hashes=True, workspace=workspace)
    assert str(report) == printed(workspace, "verify", "whole", "--hash")
    diff = diff_stores("whole", "growing", workspace=workspace)
    assert str(diff) == printed(workspace, "diff", "whole", "growing")
    stated = store_licence("whole", workspace=workspace)
    assert str(stated) == printed(workspace, "licence", "whole")


def test_names_paths_and_open_stores_are_taken(workspace: Path) -> None:
    path = workspace / "stores" / "whole"
    store = open_store(path)
    for whole in (path, str(path), store, store.files):
        report = verify(whole)
        report.require_ok()
        assert report.n_files == 36  # and the seal
    for whole in (path, str(path), store):
        page = describe_store(whole)
        assert page.facts == describe_store("whole", workspace=workspace).facts
        assert diff_stores(whole, path).same


def test_a_store_that_is_not_whole_or_not_the_expected_one(workspace: Path) -> None:
    chunk = workspace / "stores/whole/data.zarr/clip/c.3.0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    report = verify("whole", workspace=workspace)
    assert [problem.name for problem in report.problems] == ["data.zarr/clip/c.3.0"]
    with pytest.raises(Corrupt, match="1 problem, the first in data"):
        report.require_ok()
    with pytest.raises(Mismatch):
        verify("whole", expect="0" * 64, workspace=workspace)


def test_a_licence_is_stated_by_name_or_path(workspace: Path) -> None:
    before = store_licence("whole", workspace=workspace)
    assert len(before.licence_history) == 1
    with pytest.raises(AlreadyThere):
        store_licence("whole", licence="CC0-1.1", workspace=workspace)
    path = workspace / "stores" / "whole"
    after = store_licence(path, licence="MIT", replace=True)
    assert (after.licence, after.citation) == ("MIT", before.citation)
    assert open_store(path).licence == "MIT"
    with pytest.raises(FixUsage, match="--replace needs --licence or --citation"):
        store_licence("whole", replace=True, workspace=workspace)
