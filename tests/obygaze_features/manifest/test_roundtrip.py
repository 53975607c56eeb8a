"""What was written is what is read, for manifests drawn at random."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.io import read_manifest, rows_to_csv, write_manifest
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    LEVELS,
    VIEWS,
    Clip,
    Header,
    Manifest,
    SourceFile,
)
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.vocabulary import MODALITIES

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
LINE = st.text(st.characters(codec="utf-8"), max_size=12)
WORD = st.text("abcXYZ019_", min_size=1, max_size=8)
NOT_OWN = ("", *CLIP_COLUMNS, *CONCEPTS)
COLUMN = TEXT.filter(lambda name: name not in NOT_OWN and name[:5] != "fold:")
TIME = st.floats(0, 1e6, allow_nan=False).filter(lambda value: value == value)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    names = st.text("ab Éß'\"", min_size=1, max_size=6).map(str.strip).filter(bool)
    concepts = draw(st.dictionaries(names, st.sampled_from(MODALITIES), max_size=4))
    columns = draw(st.lists(COLUMN, unique=True, max_size=3))
    columns += [
        f"fold:{name}" for name in draw(st.lists(WORD, unique=True, max_size=2))
    ]
    ids = draw(st.lists(WORD, unique=True, max_size=5))
    spelling = Spelling()
    clips = [draw(a_clip(one, tuple(concepts), columns, spelling)) for one in ids]
    sources = [SourceFile(name, "0" * 64) for name in draw(st.lists(LINE, max_size=2))]
    header = Header(
        dataset=draw(LINE.filter(bool)),
        concepts=concepts,
        unit=draw(st.sampled_from(["clip", "segment"])),
        view=draw(st.sampled_from(VIEWS)),
        licence=draw(LINE),
        citation=draw(LINE),
        notes=tuple(draw(st.lists(LINE, max_size=2))),
        sources=tuple(sources),
        video_root=draw(LINE),
    )
    return Manifest("m", header, tuple(clips), tuple(columns))


@st.composite
def a_clip(
    draw: st.DrawFn,
    clip_id: str,
    concepts: tuple[str, ...],
    columns: list[str],
    spelling: Spelling,
) -> Clip:
    times = st.lists(TIME, min_size=2, max_size=2, unique=True).map(sorted)
    start_s, end_s = draw(times | st.just([None, None]))
    cells = {}
    for column in columns:
        if ":" in column:
            cells[column] = draw(st.integers(0, 99).map(str) | st.just(""))
        else:
            cells[column] = spelling.cell(draw(TEXT), column)
    return Clip(
        clip_id,
        draw(WORD),
        draw(st.none() | st.integers(0, 10**9 - 1)),
        draw(st.lists(WORD, max_size=3).map("/".join)),
        start_s,
        end_s,
        draw(st.sampled_from((*LEVELS, ""))),
        tuple(draw(st.lists(st.sampled_from(concepts), unique=True)))
        if concepts
        else (),
        cells,
    )


@given(manifests())
def test_random_manifests(tmp_path: Path, manifest: Manifest) -> None:
    path = tmp_path / "m.toml"
    write_manifest(manifest, path, force=True)
    read = read_manifest(path)
    assert read == manifest
    assert rows_to_csv(read) == rows_to_csv(manifest)


@pytest.mark.parametrize(
    ("column", "cell"), [("x", "\0"), ("x", "\udcff"), ("\0", "x"), ("level", "S")]
)
def test_what_could_not_be_read_back_is_never_written(tmp_path, column, cell) -> None:
    clip = Clip("a", "m", extra={column: cell})
    path = tmp_path / "m.toml"
    with pytest.raises((FixInput, Corrupt)):
        write_manifest(Manifest("m", Header("d", {}), (clip,), (column,)), path)
    assert list(tmp_path.iterdir()) == []
