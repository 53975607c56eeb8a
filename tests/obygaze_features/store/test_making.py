import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.damage import flip_bit
from support.written_stores import (
    MANIFEST,
    ArraySource,
    a_recipe,
    check_store,
    some_rows,
    some_values,
)

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput, FixUsage
from obygaze_features.store.atomic_files import replace_store
from obygaze_features.store.card import Terms
from obygaze_features.store.layout import Array
from obygaze_features.store.making import FinishedFile, Written, write_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import (
    FileMark,
    Maker,
    Origin,
    StoreRecord,
    decode,
    seal_of,
)
from obygaze_features.store.rows import FAILED, NO_VIDEO, Row

CLIP = Array("clip", "float32", (16,), ("d16",), 8, 32)
TOKENS = Array("tokens", "float16", (2, 16), ("t2", "d16"), 2, 32)
ARRAYS = (CLIP, TOKENS)
VALUES = {array.name: some_values(array, 75) for array in ARRAYS}


def write(target: Path, rows: list[Row], values=VALUES, **more) -> Written:
    given = {"arrays": ARRAYS, "recipe": a_recipe(), "manifest": MANIFEST} | more
    return write_store(target, ArraySource(rows, values), **given)


def test_every_byte_of_a_store(tmp_path: Path) -> None:
    rows = some_rows(75)
    rows[3] = rows[3]._replace(status=FAILED, reason="no picture")
    rows[40:72] = [row._replace(status=NO_VIDEO) for row in rows[40:72]]
    rows[74] = rows[74]._replace(video_bytes=7, video_hash="f" * 16)
    makers = (Maker("obygaze 1", "cpu"),)
    values = {name: array.copy() for name, array in VALUES.items()}
    values["clip"][3] = np.inf  # of a row that is not ok
    written = write(tmp_path / "s", rows, values, makers=makers, terms=Terms("CC0-1.0"))
    document = check_store(tmp_path / "s", rows, values)
    data = (tmp_path / "s/store.json").read_bytes()
    store = decode(data, StoreRecord, "here")
    assert store.makers == makers and store.arrays == ARRAYS
    assert document["fingerprint"] == a_recipe().fingerprint
    assert written == Written(tmp_path / "s", seal_of(data))
    card = (tmp_path / "s/README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: cc0-1.0\n")
    assert "42 ok, 1 failed and 32 no-video" in card
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_who_comes_second_removes_its_own(tmp_path: Path) -> None:
    target = tmp_path / "s"

    class Slow(ArraySource):
        def read(self, array: Array, first: int, after: int) -> np.ndarray:
            if not target.exists():
                write(target, some_rows(75))
            return super().read(array, first, after)

    with pytest.raises(AlreadyThere):
        write_store(
            target,
            Slow(some_rows(75, of_a_film=5), VALUES),
            arrays=ARRAYS,
            recipe=a_recipe(),
            manifest=MANIFEST,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    check_store(target, some_rows(75), VALUES)


def test_a_clip_whose_features_are_not_numbers_is_named(tmp_path: Path) -> None:
    values = {name: array.copy() for name, array in VALUES.items()}
    values["tokens"][61, 1, 3] = np.nan
    with pytest.raises(FixInput, match="tokens of clip 'clip 61' has values that are"):
        write(tmp_path / "s", some_rows(75), values)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"clip": VALUES["clip"][:, :8]}, r"\(\d+, 8\), expected float32 \(\d+, 16\)"),
        ({"clip": VALUES["clip"].astype("f8")}, r"are float64 .* expected float32"),
    ],
)
def test_rows_of_another_kind_are_refused(tmp_path: Path, values, sentence) -> None:
    with pytest.raises(FixInput, match=sentence):
        write(tmp_path / "s", some_rows(75), values)


class Linking(ArraySource):
    """A source that has the first file of `clip` already, from another store."""

    def __init__(self, rows, values, store: Path) -> None:
        super().__init__(rows, values)
        self.store = store

    def finished_file(self, array: Array, number: int) -> FinishedFile | None:
        if (array.name, number) != ("clip", 0):
            return None
        name = array.file_name(0)
        document = json.loads((self.store / "store.json").read_bytes())
        n_bytes, sha256 = document["files"][name]
        # Those of six columns of one chunk come first.
        checks = (self.store / "chunks.crc32c").read_bytes()[24:40]
        return FinishedFile(self.store / name, FileMark(n_bytes, sha256), checks)


def write_linked(tmp_path: Path, name: str) -> Path:
    source = Linking(some_rows(75), VALUES, tmp_path / "one")
    target = tmp_path / name
    write_store(target, source, arrays=ARRAYS, recipe=a_recipe(), manifest=MANIFEST)
    return target / CLIP.file_name(0)


def test_a_text_that_is_not_utf_8_is_refused_before_anything_is_read(tmp_path) -> None:
    """Words and names of files of another encoding, as Python has them: a byte is a surrogate."""
    texts = {
        "origins": [Origin("films/caf\udce9", "0" * 64)],
        "makers": [Maker("p 1", "cpu", "caf\udce9")],
        "terms": Terms("MIT", "caf\udce9"),
    }
    for key, text in texts.items():
        with pytest.raises(FixUsage, match=r"expected UTF-8 .* got '.*caf\\udce9'"):
            write(tmp_path / "s", some_rows(75), values={}, **{key: text})
    assert not list(tmp_path.iterdir())


def test_a_finished_file_is_copied_where_links_are_refused(tmp_path, monkeypatch):
    def refuse(*paths: Path) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    write(tmp_path / "one", some_rows(75))
    linked = write_linked(tmp_path, "linked")
    assert linked.samefile(tmp_path / "one" / CLIP.file_name(0))
    monkeypatch.setattr(os, "link", refuse)
    copied = write_linked(tmp_path, "two")
    assert not copied.samefile(tmp_path / "one" / CLIP.file_name(0))
    check_store(tmp_path / "two", some_rows(75), VALUES)
    flip_bit(tmp_path / "one" / CLIP.file_name(0), 100)
    differs = "length or SHA-256 differs from the list of files"
    with pytest.raises(Corrupt, match=differs):
        write_linked(tmp_path, "three")


def test_a_name_of_an_earlier_store_that_is_taken_is_said(tmp_path: Path) -> None:
    seal = write(tmp_path / "s", some_rows(75)).seal
    (tmp_path / f"s.before-{seal[:8]}/mine").mkdir(parents=True)
    (tmp_path / "later").mkdir()
    with pytest.raises(AlreadyThere, match="cannot keep the replaced store"):
        replace_store(tmp_path / "later", tmp_path / "s", seal)
    check_store(tmp_path / "s", some_rows(75), VALUES)


def test_a_recipe_is_spelled_as_for_its_fingerprint(tmp_path: Path) -> None:
    numbers = {"eps": 1e-5, "large": 1e16, "one": 1.0, "text": "é\n\x1f/", "whole": 1}
    recipe = Recipe.unknown("npz", numbers)
    write(tmp_path / "s", some_rows(75), recipe=recipe)
    told = (
        '"told": {\n   "eps": 1e-05,\n   "large": 1e+16,\n   "one": 1.0,\n'
        '   "text": "é\\n\\u001f/",\n   "whole": 1\n  }'
    )
    text = (tmp_path / "s/store.json").read_text(encoding="utf-8")
    assert told in text
    canonical = (
        '{"source":"npz","told":{"eps":1e-05,"large":1e+16,"one":1.0,'
        '"text":"é\\n\\u001f/","whole":1},"unknown":true}'
    )
    fingerprint = hashlib.sha256(canonical.encode("utf-8")).hexdigest()
    assert f'"fingerprint": "{fingerprint}"' in text


@pytest.mark.parametrize("name", ["s.next", ".s"])
def test_names_that_have_a_meaning_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FixInput, match="cannot be the name of a store"):
        write(tmp_path / name, some_rows(75))
