"""Rule (b): what obygaze writes, it reads back whole, or it says what it leaves out."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.seeds import amount
from support.stores import a_recipe
from support.written_stores import ArraySource

from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.files import FORMATS_OF_FEATURES
from obygaze_features.manifest.io import as_id
from obygaze_features.store.card import Terms
from obygaze_features.store.exporting import export_features
from obygaze_features.store.importing import import_features
from obygaze_features.store.layout import Array
from obygaze_features.store.making import write_store
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import Maker, ManifestMark
from obygaze_features.store.rows import FAILED, NO_VIDEO, OK, SILENT, Row

N_FRAMES = 3
# What the name of an export says of its format, and what is said beside it.
OUTPUTS = {f"out{ending}": None for ending in FORMATS_OF_FEATURES}
OUTPUTS["parquet-out"] = "parquet"
# Names that other programs, other formats and other columns have too; arrays of any shape.
FEATURES = {
    "clip": ("float32", (4,), ("width",)),
    "half": ("float16", (5,), ("five",)),
    "exact": ("float64", (4,), ("width",)),
    "frames": ("float32", (N_FRAMES, 4), ("frame", "width")),
    "tokens": ("float16", (N_FRAMES, 2, 4), ("frame", "place", "width")),
    "steps": ("float32", (2, 4), ("step", "width")),
    "deep": ("float64", (2, 1, 2, 1), ("step", "a", "b", "c")),
    "n_words": ("int32", (), ()),
    "counts": ("int64", (N_FRAMES,), ("frame",)),
    "bytes": ("uint8", (2,), ("step",)),
    "flags": ("bool", (4,), ("width",)),
    "share": ("float64", (), ()),
    "keys": ("float32", (2,), ("step",)),
    "obygaze_origin": ("float32", (2,), ("step",)),
}
COMPANIONS = {
    "mask": ("bool", (N_FRAMES,), ("frame",)),
    "time_s": ("float64", (N_FRAMES,), ("frame",)),
    "asked_s": ("float64", (N_FRAMES,), ("frame",)),
}
# As a manifest has them, and as another program may write them into a store.
IDS = st.text("ab-._0", min_size=1, max_size=6).filter(lambda text: as_id(text) == text)
ANY_IDS = st.text("ab-. _='\"#,;:é日0{}", min_size=1, max_size=6).filter(
    lambda text: text.strip(" ")
)
TEXTS = st.text("ab \"'#:é|&<*\\", max_size=12).map(str.strip)
LICENCES = st.sampled_from(["", "CC-BY-4.0", "ODbL-1.0", "for this lab only"])
CITATIONS = st.sampled_from(["", "Doe (2026).", 'Doe: "Gazes" #1 & <b>, 2026', "été"])


class Drawn(NamedTuple):
    """What a store is made of."""

    rows: list[Row]
    arrays: list[Array]
    values: dict[str, np.ndarray]
    terms: Terms
    makers: tuple[Maker, ...] = ()

    def write(self, folder: Path) -> Store:
        facts: Any = {"arrays": self.arrays, "makers": self.makers, "terms": self.terms}
        facts["manifest"] = ManifestMark("films", "0" * 64)
        source = ArraySource(self.rows, self.values)
        write_store(folder, source, recipe=a_recipe(), **facts)
        return open_store(folder)


@st.composite
def stores(draw: st.DrawFn) -> Drawn:
    """Stores with arrays, masks, times, statuses, reasons, films and terms of every kind."""
    ids = draw(st.sampled_from([IDS, ANY_IDS]))
    clips = draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    films = draw(st.lists(ids, min_size=1, max_size=3))
    seconds = st.none() | st.floats(0, 1e6)
    has_times = draw(st.booleans())
    rows = []
    for number, clip in enumerate(clips):
        statuses = [OK, OK, FAILED, NO_VIDEO, SILENT] if number else [OK]
        status = draw(st.sampled_from(statuses))
        row = Row(clip, draw(st.sampled_from(films)), status=status)
        if has_times:
            start_s, end_s = draw(seconds), draw(seconds)
            if start_s is not None and end_s is not None:
                start_s, end_s = sorted([start_s, end_s])
            row = row._replace(start_s=start_s, end_s=end_s)
        if status != OK or draw(st.booleans()):
            row = row._replace(reason=draw(TEXTS))
        if draw(st.booleans()):
            row = row._replace(video_bytes=7, video_hash="0" * 16, pictures=2)
        rows.append(row)
    kinds = {**FEATURES, **COMPANIONS}
    features = st.lists(st.sampled_from(sorted(FEATURES)), min_size=1, unique=True)
    companions = st.lists(st.sampled_from(sorted(COMPANIONS)), unique=True)
    names = draw(st.permutations(draw(features) + draw(companions)))
    arrays = [Array.of(name, *kinds[name]) for name in names]
    random = np.random.default_rng(draw(st.integers(0, 999)))
    is_real = random.random((len(rows), N_FRAMES)) < 0.6
    values = {}
    for array in arrays:
        shape = (len(rows), *array.shape)
        numbers = random.normal(scale=50, size=shape)
        if array.name == "mask":
            numbers = is_real
        elif array.name in ("time_s", "asked_s"):
            numbers = np.where(is_real, numbers, np.nan)
        elif array.dtype == "bool":
            numbers = numbers > 0
        elif array.dtype == "uint8":
            numbers = np.abs(numbers) % 256
        values[array.name] = np.asarray(numbers).astype(array.dtype)
    makers = draw(st.sampled_from([(), (Maker("p 1", "cpu"),)]))
    terms = Terms(draw(LICENCES), draw(CITATIONS))
    return Drawn(rows, arrays, values, terms, makers)


def of_frames(arrays: Sequence[Array], name: str) -> set[str]:
    """Which arrays docs/store.md, section 4, says belong to one, worked out by hand."""
    names = {name}
    if name in ("frames", "tokens", "time_s", "asked_s"):
        names |= {"mask", "time_s", "asked_s"}
    if name in ("counts", "mask"):
        names |= {"time_s", "asked_s"}
    if name in FEATURES and FEATURES[name][0].startswith("float"):
        # Of words: without them nobody knows which vectors are those of no words.
        names.add("n_words")
    return names & {array.name for array in arrays}


@pytest.fixture(params=list(OUTPUTS))
def output(request: pytest.FixtureRequest) -> Any:
    """The name of an export to each format."""
    if "parquet" in request.param:
        pytest.importorskip("pyarrow")
    return request.param


@pytest.fixture(params=[name for name in OUTPUTS if "parquet" not in name])
def imported_output(request: pytest.FixtureRequest) -> Any:
    """The name of an export to each format that is imported."""
    return request.param


@settings(max_examples=amount(6, 200))
@given(drawn=stores(), data=st.data())
def test_an_export_comes_back_whole(tmp_path_factory, output, drawn, data) -> None:
    check_trip(tmp_path_factory.mktemp("trip"), output, drawn, data)


@settings(max_examples=amount(8, 400), deadline=None)
@given(seed=st.integers(0, 10**6), n_arrays=st.integers(1, 2), data=st.data())
def test_a_changed_byte_of_an_export_changes_no_number_and_no_film(
    tmp_path_factory, imported_output, seed, n_arrays, data
):
    """It is refused, or a clip is said to have failed, or the byte says nothing of a number."""
    folder = tmp_path_factory.mktemp("changed")
    rng = np.random.default_rng(seed)
    rows = [Row(f"c{number}", "film", status=OK) for number in range(5)]
    shapes = {"clip": (40,), "share": ()}
    arrays, values = [], {}
    for name in list(shapes)[:n_arrays]:
        arrays.append(Array.of(name, "float32", shapes[name]))
        values[name] = rng.normal(size=(5, *shapes[name])).astype("float32")
    drawn = Drawn(rows, arrays, values, Terms("", ""))
    target = folder / imported_output
    export_features(drawn.write(folder / "store"), target)
    files = [path for path in sorted(target.rglob("*")) if path.is_file()] or [target]
    file = data.draw(st.sampled_from(files))
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    try:
        imported = import_features(target, folder / "again")
    except ObygazeError:
        return
    again = open_store(folder / "again")
    there = {array.name for array in again.record.arrays}
    for row in again.rows:
        if row.clip_id in imported.failed or not row.is_ok:
            continue
        assert row.movie_id == "film"
        number = int(row.clip_id.removeprefix("c"))
        for name in there & values.keys():
            (found,) = again.matrix(name, clips=[row.clip_id]).values
            assert np.array_equal(found, values[name][number])


def check_trip(folder: Path, output: str, drawn: Drawn, data: st.DataObject) -> None:
    """Export a store, import the export, and compare all but what is said to be left out."""
    store = drawn.write(folder / "store")
    name = data.draw(st.sampled_from([array.name for array in drawn.arrays]))
    names = data.draw(st.sampled_from([[], [name]]))
    target = folder / output
    ok_rows = [row for row in drawn.rows if row.status == OK]
    try:
        done = export_features(store, target, format=OUTPUTS[output], arrays=names)
    except (FixInput, FixUsage) as error:
        # Refused before anything is written, for one of these reasons.
        assert not target.exists()
        reasons = [
            "need the same column",
            "no array has exactly one vector for each clip",
        ]
        assert any(reason in error.message for reason in reasons), error
        return
    if names:
        assert set(done.arrays) == of_frames(drawn.arrays, name)
    elif "parquet" not in output:
        assert set(done.arrays) >= {array.name for array in drawn.arrays}
    # What is not in the export is said by it, and by the import.
    absent = [array.name for array in drawn.arrays if array.name not in done.arrays]
    failed = {row.clip_id for row in drawn.rows if row.status != OK}
    assert set(done.left_out) == failed
    assert list(done.not_exported) == absent
    films = {row.clip_id: row.movie_id for row in ok_rows}
    assert films_in(target) == films
    if "parquet" in output:
        check_table(target, drawn, done.arrays)
    elif all(as_id(name) == name for name in (*films, *films.values())):
        check_import(folder, target, drawn, done.arrays)


def films_in(path: Path) -> dict[str, str]:
    """The film of each clip of an export, as other programs read it."""
    if path.suffix in (".h5", ".hdf5"):
        with h5py.File(path) as file:
            pairs = zip(file["clip_id"], file["movie_id"], strict=True)
            return {clip.decode(): film.decode() for clip, film in pairs}
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            pairs = zip(arrays["clip_id"], arrays["movie_id"], strict=True)
            return {str(clip): str(film) for clip, film in pairs}
    if path.suffix == ".zarr":
        group = zarr.open_group(str(path), mode="r")
        names = (group[name][:].tolist() for name in ("clip_id", "movie_id"))
        return dict(zip(*names, strict=True))
    table = table_in(path)
    columns = (table[name].to_pylist() for name in ("clip_id", "movie_id"))
    return dict(zip(*columns, strict=True))


def table_in(path: Path) -> Any:
    """The table of an export, as pyarrow reads it."""
    file = path / "data/features.parquet" if path.is_dir() else path
    return pytest.importorskip("pyarrow.parquet").read_table(file)


def check_table(path: Path, drawn: Drawn, names: Sequence[str]) -> None:
    """Compare the columns of a table with the arrays of its store."""
    table = table_in(path)
    is_ok = np.array([row.status == OK for row in drawn.rows])
    for name in names:
        found = np.array(table[name].to_pylist(), drawn.values[name].dtype)
        np.testing.assert_array_equal(found, drawn.values[name][is_ok])


def check_import(folder, target, drawn, names) -> None:
    """Import an export as any other file of its format."""
    ok_rows = [row for row in drawn.rows if row.status == OK]
    features = [name for name in names if name not in COMPANIONS]
    try:
        imported = import_features(target, folder / "again")
    except FixInput as error:
        if "no array is clearly the features" in error.message:
            assert not any(FEATURES[name][0].startswith("float") for name in features)
            return
        # A clip of which no frame is real has no features.
        assert "no clip has us" in error.message and "mask" in names
        return
    again = open_store(folder / "again")
    is_ok = [row.clip_id not in imported.failed for row in ok_rows]
    if not all(is_ok):
        assert "mask" in names
    for row, before in zip(again.rows, ok_rows, strict=True):
        assert (row.clip_id, row.movie_id) == (before.clip_id, before.movie_id)
        assert (row.start_s, row.end_s) == (before.start_s, before.end_s)
    there = {array.name: array for array in again.record.arrays}
    said = "\n".join(imported.remarks)
    for name in features:
        is_float = FEATURES[name][0].startswith("float")
        assert name in there or (not is_float and name in said)
    # The order decides which array an experiment reads.
    floats = [name for name in features if FEATURES[name][0].startswith("float")]
    assert [name for name in there if name in FEATURES and name in floats] == floats
    of_rows = np.flatnonzero([row.status == OK for row in drawn.rows])[is_ok]
    for name in there.keys() & drawn.values.keys():
        values = again.read(name, np.flatnonzero(is_ok))
        expected = drawn.values[name][of_rows].astype(values.dtype)
        np.testing.assert_array_equal(values, expected)


def write_frames(folder, layout, ids, arrays) -> tuple[Path, dict[str, Any]]:
    """Write a file with a row, a group or a data set a clip; return the options that read it."""
    if layout == "npz":
        np.savez(folder / "f.npz", clip_id=ids, **arrays)
        return folder / "f.npz", {}
    path = folder / "f.hdf5"
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            place = layout.replace("{}", name)
            if "{id}" not in place:
                file[place] = values
                continue
            for clip, row in zip(ids, values, strict=True):
                file[place.replace("{id}", clip)] = row
        if "{id}" not in layout:
            file["a/ids"] = ids
    options: dict[str, Any] = {}
    if "{id}" not in layout:
        options["id_key"] = "a/ids"
    of_frames = {"frames": layout.replace("{}", "frames")}
    with pytest.raises(FixInput, match=r"mask next to .* is not read") as error:
        import_features(path, folder / "s", arrays=of_frames, **options)
    assert "mask=" in str(error.value.hint)
    options["arrays"] = {name: layout.replace("{}", name) for name in arrays}
    return path, options


# What each has: an array, or a list or a data set a clip, of any length.
OF_ONE_LENGTH = ("npz", "in/{}")
OF_ANY_LENGTH = ("{id}/{}", "in/{}/{id}")


@settings(max_examples=24)
@given(
    seed=st.integers(0, 999),
    drawn_lengths=st.lists(st.integers(1, N_FRAMES), min_size=4, max_size=4),
    pool=st.sampled_from([None, "max", "mean", "last"]),
    keep_frames=st.booleans(),
    doubtful=st.sampled_from([None, 0.5, np.nan, -1]),
    layout=st.sampled_from([*OF_ONE_LENGTH, *OF_ANY_LENGTH]),
)
def test_padding_is_never_in_what_is_pooled(
    tmp_path_factory, seed, drawn_lengths, pool, keep_frames, doubtful, layout
):
    """Of a file of another program: frames, some of them padding, and their times.

    A clip without a real frame has no features, nor one whose mask is neither yes nor no. Clips are
    of one length where their frames are kept.
    """
    folder = tmp_path_factory.mktemp("padding")
    random = np.random.default_rng(seed)
    has_all = keep_frames or pool is None
    lengths = [N_FRAMES] * 4
    if layout in OF_ANY_LENGTH and not has_all:
        lengths = drawn_lengths
    has_patches = seed % 2 == 1
    shape = (4, N_FRAMES, 3, 2) if has_patches else (4, N_FRAMES, 2)
    frames = random.normal(size=shape).astype(np.float32)
    is_real = random.random((4, N_FRAMES)) < 0.7
    is_real &= np.arange(N_FRAMES) < np.array(lengths)[:, None]
    frames[~is_real] += 99
    times = np.where(is_real, random.random((4, N_FRAMES)), np.nan)
    ids = [f"a-{number}" for number in range(4)]
    mask = is_real.astype(["bool", "int64", "float32"][seed % 3])
    has_frames = is_real.any(axis=1)
    if doubtful is not None:
        mask = mask.astype("float64")
        mask[seed % 4, 0] = doubtful
        has_frames[seed % 4] = False
    assume(has_frames.any())
    arrays_of_file = {}
    for name, rows in {"frames": frames, "mask": mask, "time_s": times}.items():
        cut = [row[:length] for row, length in zip(rows, lengths, strict=True)]
        arrays_of_file[name] = cut
    path, options = write_frames(folder, layout, ids, arrays_of_file)
    options["keep_frames"] = keep_frames
    done = import_features(path, folder / "s", pool=pool, **options)
    assert set(done.failed) == set(np.array(ids)[~has_frames].tolist())
    store = open_store(folder / "s")
    of_column = {"mean": statistics.fmean, "last": lambda column: column[-1]}
    expected = []
    for clip, real in zip(frames[has_frames], is_real[has_frames], strict=True):
        vectors = clip[real].reshape(-1, clip.shape[-1])
        pooled = map(of_column.get(pool, max), vectors.T.tolist())
        expected.append([*pooled])
    arrays = [array.name for array in store.record.arrays]
    of_all = ["frames", "mask", "time_s"] if has_all else []
    # A name that was given stays.
    vector = "frames" if "arrays" in options and not has_all else "pooled"
    assert arrays == [vector] * (pool is not None) + of_all
    if pool is not None:
        assert "over the real frames" in store.recipe.facts["pooling"]
        pooled = store.matrix(vector, missing="drop")
        np.testing.assert_array_equal(pooled, np.array(expected, np.float32))
    if has_all:
        rows = np.flatnonzero(has_frames)
        np.testing.assert_array_equal(store.read("time_s", rows), times[rows])
        np.testing.assert_array_equal(store.real_frames("frames", rows), is_real[rows])
    else:
        assert not any(
            note.startswith("left out") and "mask" in note for note in done.notes
        )
