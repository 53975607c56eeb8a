"""Only results of obygaze are replaced."""

from pathlib import Path

import pytest

from obygaze_features.core import overwrite
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.overwrite import OwnFolder, check_folder

THING = OwnFolder("thing", lambda folder: "no thing.json")


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"mark, then more", ""),
        (b"more, then mark", ""),
        (b"more, mark in the middle", "it does not contain the words"),
        (b"", "it does not contain the words"),
    ],
)
def test_a_mark_may_be_at_either_end(tmp_path, monkeypatch, data, refusal) -> None:
    monkeypatch.setattr(overwrite, "_MARK_BYTES", 4)
    (tmp_path / "file").write_bytes(data)
    kind = OwnFolder.marked("thing", "the words", b"mark")
    assert kind.refusal(tmp_path / "file") == refusal


@pytest.mark.parametrize("text", ["", "{", "[]", '{"created_by": 7}', "[" * 100_000])
def test_what_is_not_a_document_of_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "thing.json").write_text(text)
    assert not overwrite.made_by_obygaze(tmp_path / "thing.json")
    with pytest.raises(AlreadyThere):
        check_folder(tmp_path, THING, force=True)


def test_the_folder_one_is_in_is_no_result(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", "..", str(tmp_path)):
        with pytest.raises(FixUsage, match="cannot be the name of a result"):
            check_folder(Path(name), THING, force=True)
