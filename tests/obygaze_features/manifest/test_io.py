from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixInput
from obygaze_features.core.files import leads_out
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.io import (
    check_manifest,
    manifest_sha256,
    read_manifest,
    rows_to_csv,
    update_manifest,
    write_manifest,
)
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    LEVELS,
    VIEWS,
    Clip,
    Header,
    Manifest,
    SourceFile,
    with_equal_numbers,
)
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.stats import compute_stats
from obygaze_features.manifest.vocabulary import MODALITIES

TOML = """\
schema = "obygaze-manifest/1"
dataset = "Tiny"

[concepts]
"Look" = "visual"
"Body" = "visual"
"""
CSV = """\
clip_id,movie_id,scene,video,start_s,end_s,level,concepts,annotator
tt1-001,tt1,1,tt1/1.avi,0.0,2.5,S,Look|Body,ada
tt1-002,tt1,2,,,,EN,,ben
"""


def pair(folder: Path, toml: str = TOML, csv: str | bytes = CSV) -> Path:
    path = folder / "tiny.toml"
    path.write_text(toml, encoding="utf-8")
    data = csv if isinstance(csv, bytes) else csv.encode("utf-8")
    path.with_suffix(".csv").write_bytes(data)
    return path


def violations(path: Path) -> list[str]:
    with pytest.raises(FixInput) as caught:
        read_manifest(path)
    return [line.removeprefix(f"{path.parent}/") for line in caught.value.details]


def test_all_violations_of_all_rows_at_once(tmp_path: Path) -> None:
    header = CSV.splitlines()[0]
    rows = [
        "tt1-001,tt1,1,../etc/passwd,0,1,S,Look,",
        "tt1-001,tt1,one,/abs.avi,2.5,2.5,SURE,Looks,",
        "a b,,1,C:\\x.avi,1,,EN,Look|Look,",
        "tt1-003,tt1,3,,-1,nan,,,",
    ]
    found = violations(pair(tmp_path, csv="\n".join([header, *rows]) + "\n"))
    columns = {
        2: ("video",),
        3: ("clip_id", "scene", "video", "end_s", "level", "concepts"),
        4: ("clip_id", "movie_id", "video", "end_s", "concepts"),
        5: ("start_s", "end_s"),
    }
    expected = [(f"tiny.csv:{n}", f"column '{c}'") for n in columns for c in columns[n]]
    assert sorted(tuple(line.split(": ")[:2]) for line in found) == sorted(expected)


N_WINDOWS = 450


def windows_csv(**wrong: Any) -> str:
    """Windows of one film, which differ in ids and times only; `at` has other cells."""
    lines = ["clip_id,movie_id,scene,video,start_s,end_s,level,concepts"]
    for number in range(N_WINDOWS):
        cells = {"id": f"w{number}", "start": f"{number}.0", "end": f"{number}.5"}
        if number == wrong.get("at"):
            cells |= wrong["cells"]
        lines.append(f"{cells['id']},tt1,,tt1.mp4,{cells['start']},{cells['end']},,")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("at", [0, 1, 199, 200, 201, N_WINDOWS - 1])
@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"id": "a b"}, "column 'clip_id': 'a b' is not an id"),
        ({"id": ""}, "column 'clip_id': is empty"),
        ({"start": "1_0"}, "column 'start_s': '1_0' is not a time in seconds"),
        ({"end": "nan"}, "column 'end_s': 'nan' is not a time in seconds"),
        ({"start": ""}, "column 'end_s': expected both start_s and end_s, or neither"),
        (
            {"start": "9.5", "end": "9.5"},
            "column 'end_s': expected an end after the start 9.5",
        ),
        ({"end": "1,"}, "expected 8 cells as in the header, got 9"),
    ],
)
def test_one_wrong_row_among_many_alike_is_found(tmp_path, at, cells, expected) -> None:
    (found,) = violations(pair(tmp_path, csv=windows_csv(at=at, cells=cells)))
    assert found.startswith(f"tiny.csv:{at + 2}: {expected}")


@pytest.mark.parametrize("first", [0, 1, 199, 250])
def test_an_id_that_was_there_before_is_found_among_many_alike(tmp_path, first) -> None:
    for at in {first + 1, N_WINDOWS - 1}:
        csv = windows_csv(at=at, cells={"id": f"w{first}"})
        (found,) = violations(pair(tmp_path, csv=csv))
        already = f"'w{first}' is already on line {first + 2}"
        assert found == f"tiny.csv:{at + 2}: column 'clip_id': {already}"


def test_many_rows_alike_are_clips_with_times_of_their_own(tmp_path: Path) -> None:
    csv = windows_csv(at=210, cells={"start": "", "end": ""})
    clips = read_manifest(pair(tmp_path, csv=csv)).clips
    expected = []
    for number in range(N_WINDOWS):
        span_s = (None, None) if number == 210 else (number + 0.0, number + 0.5)
        expected.append(Clip(f"w{number}", "tt1", None, "tt1.mp4", *span_s))
    assert clips == tuple(expected)


NO_DATASET = "dataset: required key is missing"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("dataset =", "data_set =", ["data_set: unknown key 'data_set'", NO_DATASET]),
        ('"Tiny"', "3", ["dataset: must be str, got 3"]),
        # "Visual" made clips easy negatives in the visual view.
        ('"visual"\n"B', '"Visual"\n"B', ["concepts.Look: must be one of visual"]),
        ('"Body"', '"Bo|dy"', ["concepts.Bo|dy: must be a name without '|'"]),
        (
            "[concepts]",
            '[[sources]]\nfile = "a"\nsha256 = "00"\n[concepts]',
            ["sources[0].sha256: must be 64 hexadecimal digits, got '00'"],
        ),
    ],
)
def test_a_header_of_another_form(tmp_path, before, after, expected):
    found = violations(pair(tmp_path, toml=TOML.replace(before, after, 1)))
    assert len(found) == len(expected)
    for text in expected:
        assert any(line.startswith(f"tiny.toml: {text}") for line in found), found


@pytest.mark.parametrize("name", ["mine.csv", "mine.toml"])
def test_a_file_of_somebody_is_not_replaced_also_with_force(tmp_path, name) -> None:
    manifest = read_manifest(pair(tmp_path))
    (tmp_path / name).write_text("[columns]", encoding="utf-8")
    with pytest.raises(AlreadyThere):
        write_manifest(manifest, tmp_path / "mine.toml")
    with pytest.raises(AlreadyThere, match="not part of a manifest"):
        write_manifest(manifest, tmp_path / "mine.toml", force=True)
    assert (tmp_path / name).read_text(encoding="utf-8") == "[columns]"
    assert [path.name for path in tmp_path.glob("mine.*")] == [name]


def test_an_invalid_manifest_is_never_written(tmp_path: Path) -> None:
    manifest = Manifest("bad", Header("x", {}), (Clip("a", "m", concepts=("Look",)),))
    with pytest.raises(FixInput, match="the manifest is not valid"):
        write_manifest(manifest, tmp_path / "bad.toml")
    assert list(tmp_path.iterdir()) == []
    twice = Manifest("bad", Header("x", {}), (Clip("a", "m"), Clip("a", "m")))
    with pytest.raises(FixInput):
        check_manifest(twice)


def test_what_another_process_added_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = pair(tmp_path)
    read_by_both = read_manifest(path)
    first = read_by_both.with_column("fold:a", {"tt1-001": "0"})
    update_manifest(read_by_both, first, path)
    with pytest.raises(AlreadyThere, match="changed by another command"):
        update_manifest(read_by_both, read_by_both.with_column("fold:b", {}), path)
    assert read_manifest(path) == first


def test_a_time_needs_no_digit_before_its_point(tmp_path: Path) -> None:
    path = pair(tmp_path, csv=CSV.replace("0.0,2.5", ".5,2.5"))
    assert read_manifest(path).clips[0].start_s == 0.5


@pytest.mark.parametrize("time", ["1_0", "-0.0", ".", "\u0661", "inf"])
def test_cells_that_are_no_times_or_command_a_terminal(tmp_path: Path, time) -> None:
    cells = CSV.replace("0.0,2.5", f"{time},2.5").replace("tt1/1.avi", "\x1b[31m.avi")
    assert violations(pair(tmp_path, csv=cells)) == [
        "tiny.csv:2: column 'video': '\\x1b[31m.avi' contains characters that cannot be printed",
        f"tiny.csv:2: column 'start_s': {time!r} is not a time in seconds",
    ]


def test_equal_manifests_have_one_hash() -> None:
    whole = Manifest("m", Header("d"), (Clip("a", "f", start_s=0, end_s=1),))
    decimal = Manifest("m", Header("d"), (Clip("a", "f", start_s=-0.0, end_s=1.0),))
    assert whole == decimal
    assert manifest_sha256(whole) == manifest_sha256(decimal)


def test_a_text_is_a_name_or_a_path_and_a_path_is_never_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, clip_id in ((tmp_path / "manifests", "a-1"), (tmp_path, "b-1")):
        folder.mkdir(exist_ok=True)
        films = Manifest("films", Header("made up"), (Clip(clip_id, clip_id[0]),))
        write_manifest(films, folder / "films.toml")
    assert read_manifest("films").clip_ids == ("a-1",)
    assert read_manifest("./films.csv").clip_ids == ("b-1",)
    assert read_manifest(Path("films")).clip_ids == ("b-1",)
    assert read_manifest("films", workspace=tmp_path).clip_ids == ("a-1",)


def test_a_column_that_would_not_be_written_is_refused(tmp_path: Path) -> None:
    clip = Clip("a-1", "a", extra={"mood": "joy"})
    with pytest.raises(FixInput, match="clip 'a-1' has 'joy' in 'mood', but no column"):
        write_manifest(Manifest("m", Header("m"), (clip,)), tmp_path / "m.toml")
    assert not list(tmp_path.iterdir())
    whole = Manifest("m", Header("m"), (clip,), ("mood",))
    write_manifest(whole, tmp_path / "m.toml")
    assert read_manifest(tmp_path / "m.toml") == whole


def test_all_clips_have_a_film_or_the_header_says_none(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    without = Manifest("m", Header("d", films="none"), (Clip("a", ""), Clip("b", "")))
    write_manifest(without, path)
    assert 'films = "none"' in path.read_text()
    assert read_manifest(path) == without
    assert "2 clips, films not stated" in repr(without)
    assert compute_stats(without).n_films == 0
    one = Clip("a", "lake"), Clip("b", "")
    for films in ("", "none"):
        with pytest.raises(FixInput) as caught:
            check_manifest(Manifest("m", Header("d", films=films), one))  # type: ignore[arg-type]
        (line,) = caught.value.details
        assert "column 'movie_id'" in line
    stated = check_manifest(Manifest("m", Header("d"), one[:1])).toml
    assert b"films" not in stated


def test_a_path_leads_out_by_two_dots_a_root_or_a_drive() -> None:
    for path in ("../x", "a/../../x", "/x", "C:/x", "\\x", "a\\..\\x", "a\0"):
        assert leads_out(path), path
    for path in ("x.avi", "a/b.avi", "a/..b.avi", "a.../x"):
        assert not leads_out(path), path


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
    folds = draw(st.lists(WORD, unique=True, max_size=2))
    columns += [f"fold:{name}" for name in folds]
    ids = draw(st.lists(WORD, unique=True, max_size=5))
    spelling = Spelling()
    drawn = [draw(a_clip(one, tuple(concepts), columns, spelling)) for one in ids]
    clips, _ = with_equal_numbers(drawn, (), spelling.equal_numbers())
    sources = [SourceFile(name, "0" * 64) for name in draw(st.lists(LINE, max_size=2))]
    header = Header(
        dataset=draw(LINE.filter(bool)),
        concepts=concepts,
        view=draw(st.sampled_from(VIEWS)),
        licence=draw(LINE),
        citation=draw(LINE),
        notes=tuple(draw(st.lists(LINE, max_size=2))),
        sources=tuple(sources),
        video_root=draw(LINE),
    )
    return Manifest("m", header, clips, tuple(columns))


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
