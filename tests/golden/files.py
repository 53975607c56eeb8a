"""The files that are written: bytes where these are the same each time, else what is in them.

A document with a date or a version, such as store.json, is read for its lasting facts alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow.parquet
from pympi.Elan import Eaf
from python_calamine import load_workbook
from support.checkpoints import save_tiny, write_tiny_card

import obygaze as og
from golden import worlds
from golden.doors import (
    Place,
    cut_windows,
    extract,
    import_clips,
    import_features,
    predict,
    train,
)
from golden.films import drawn_pictures, drawn_samples, write_film
from golden.tables import Row, Table

# What they say of the day or of other programs is not recorded.
WITH_A_DATE = ("store.json", "README.md")
RATE = 24


def record_files(place: Place) -> dict[str, Table]:
    """Bytes and contents of stores, extractions, exports and tables."""
    return {
        **record_stores(place),
        **record_extraction(place),
        **record_exports(place),
        **record_tables(place),
    }


# ---- stores --------------------------------------------------------------------------------------


def record_stores(place: Place) -> dict[str, Table]:
    """Stores that were imported, cut and merged."""
    rows = worlds.labelled_clips(per_film=10)
    import_clips(place, rows, "films")
    seen = worlds.seen_features(rows)
    lacking = range(5, 60, 17)
    import_features(place, rows, seen, "seen", manifest="films", lacking=lacking)
    import_features(
        place, rows, worlds.coarse_features(rows), "coarse", manifest="films"
    )
    import_features(
        place,
        rows,
        worlds.frame_features(rows),
        "frames",
        manifest="films",
        array="frames",
    )
    first, second, *_ = worlds.FILMS
    for name, film in (("cut-1", first), ("cut-2", second)):
        place(f"store subset seen --film {film} -o {name}")
    place("store merge cut-1 cut-2 -o merged")
    place(f"store subset frames --without {first} -o without-a-film")
    names = ("seen", "coarse", "frames", "cut-1", "merged", "without-a-film")
    return {
        "stores.bytes": bytes_of_stores(place, names),
        "stores.arrays": arrays_of_stores(place, names),
        "stores.facts": facts_of_stores(place, names),
    }


def bytes_of_stores(place: Place, names: Iterable[str]) -> list[Row]:
    """Return size and checksum of each file of stores."""
    rows = []
    for name in names:
        rows += bytes_of_folder(place.folder / "stores" / name, "store", name)
    return rows


def bytes_of_folder(folder: Path, kind: str, name: str) -> list[Row]:
    """Return size and checksum of each file of a folder."""
    rows = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in WITH_A_DATE:
            data = path.read_bytes()
            file = path.relative_to(folder).as_posix()
            sha256 = hashlib.sha256(data).hexdigest()
            rows.append(
                {kind: name, "file": file, "bytes": len(data), "sha256": sha256}
            )
    return rows


def arrays_of_stores(place: Place, names: Iterable[str]) -> list[Row]:
    """Return what is in each array of stores, as a program that reads them gets it."""
    rows = []
    for name in names:
        store = og.open_store(name, workspace=place.folder)
        for array in place(f"store info {name} --json").json()["arrays"]:
            matrix = store.matrix(array["name"], missing="drop")
            rows.append(
                {
                    "store": name,
                    **facts_of_array(array["name"], np.asarray(matrix.values)),
                }
            )
        # Windows have their times in the table of rows.
        times = [(row.start_s, row.end_s) for row in store.rows if row.is_ok]
        if store.recipe.windows:
            for column, values in zip(
                ("start_s", "end_s"), np.array(times).T, strict=True
            ):
                rows.append({"store": name, **facts_of_array(column, values)})
    return rows


def facts_of_array(name: str, values: np.ndarray[Any, Any]) -> Row:
    """Return type, shape, checksum, and some numbers by which a person sees what changed."""
    row = {
        "array": name,
        "dtype": str(values.dtype),
        "shape": " x ".join(map(str, values.shape)),
        "sha256": hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest(),
    }
    if values.dtype.kind in "fiub" and values.size:
        numbers = values.astype(np.float64)
        row |= {
            "first": numbers.flat[0],
            "last": numbers.flat[-1],
            "mean": numbers.mean(),
            "largest": numbers.max(),
        }
    return row


def facts_of_stores(place: Place, names: Iterable[str]) -> list[Row]:
    """Return the counts of stores and the fingerprint of their recipe."""
    rows = []
    for name in names:
        facts = place(f"store info {name} --json").json()
        counts = facts["counts"]
        rows.append(
            {
                "store": name,
                "backbone": facts["backbone"],
                "fingerprint": facts["fingerprint"],
                **{f"clips {status}": counts[status] for status in sorted(counts)},
            }
        )
    return rows


# ---- extraction ----------------------------------------------------------------------------------


def record_extraction(place: Place) -> dict[str, Table]:
    """What is computed of the pictures and the sound of windows of three films.

    One film has no sound, and the sound of another ends early.
    """
    draws = np.random.default_rng(15)
    seconds_of_sound = {"pier": 4.0, "quay": 2.5, "dock": 0}
    for film, seconds in seconds_of_sound.items():
        pictures = drawn_pictures(draws, draws.normal(110, 30, 4 * RATE))
        samples = drawn_samples(draws, seconds) if seconds else None
        write_film(place.path(f"videos/{film}.mkv"), pictures, RATE, samples)
    cut_windows(place, "videos", "windows", pictures=16)
    extract(place, "windows", "descriptors", "sound-descriptors")
    write_tiny_card("clip", place.path("backbones"))
    save_tiny("clip", place.path("weights"))
    extract(place, "windows", "tiny-clip", weights="weights")
    exact = ("windows.descriptors", "windows.sound-descriptors")
    tiny = og.open_store("windows.tiny-clip", workspace=place.folder)
    return {
        "extraction.bytes": bytes_of_stores(place, exact),
        "extraction.arrays": arrays_of_stores(place, exact),
        "extraction.facts": facts_of_stores(place, (*exact, "windows.tiny-clip")),
        "extraction.tiny": numbers_of_clips(tiny),
    }


def numbers_of_clips(store: Any) -> list[Row]:
    """Return the first eight numbers of each clip, which depend on the code of the processor."""
    matrix = store.matrix("clip", missing="drop")
    rows = []
    for row, numbers in enumerate(matrix.values):
        named = {f"x{place}": float(x) for place, x in enumerate(numbers[:8])}
        rows.append({"row": row, **named})
    return rows


# ---- exports -------------------------------------------------------------------------------------


def record_exports(place: Place) -> dict[str, Table]:
    """The exports of a store, read by the library of each format."""
    arrays = []
    for store in ("frames", "seen"):
        place(f"store export {store} {store}-out.npz")
        place(f"store export {store} {store}-out.h5")
        with np.load(place.folder / f"{store}-out.npz") as archive:
            arrays += of_export("npz", store, archive)
        with h5py.File(place.folder / f"{store}-out.h5") as file:
            arrays += of_export("hdf5", store, file)
    place("store export seen parquet-out --as parquet --with-labels films")
    read = pyarrow.parquet.read_table(
        place.folder / "parquet-out/data/features.parquet"
    )
    labelled = []
    for line in read.to_pylist():
        row: dict[str, Any] = {}
        for column, value in line.items():
            if isinstance(value, list) and value and isinstance(value[0], float):
                numbers = np.array(value, dtype=np.float64)
                row |= {f"{column} first": numbers[0], f"{column} mean": numbers.mean()}
            else:
                row[column] = "|".join(value) if isinstance(value, list) else value
        labelled.append(row)
    return {"exports.arrays": arrays, "exports.parquet": labelled}


def of_export(format: str, store: str, file: Any) -> list[Row]:
    """Return what is in each array of a file but in its origin, which has a date."""
    rows = []
    for name in sorted(file):
        if name != "obygaze_origin":
            values = np.asarray(file[name])
            if values.dtype.kind in "UO":
                values = np.array([str(as_text(value)) for value in values], dtype="S")
            rows.append(
                {"format": format, "store": store, **facts_of_array(name, values)}
            )
    return rows


def as_text(value: Any) -> str:
    """Return a text of an HDF5 file or an archive."""
    return value.decode() if isinstance(value, bytes) else str(value)


# ---- tables --------------------------------------------------------------------------------------


def record_tables(place: Place) -> dict[str, Table]:
    """The files for other programs: of manifests, of marks, of predictions, for MediaEval."""
    place("manifest export films films-out.csv")
    place("manifest export films films-out.xlsx")
    place.write_rows("marks.csv", worlds.drawn_marks())
    place("manifest import marks.csv --as marks -o marks")
    place("manifest export marks elan-out --as elan")
    train(place, "ridge", "seen", "films", "--set report.replicates=50", output="kept")
    predict(place, "kept", "seen")
    place("models predict kept seen -o predicted.xlsx --force")
    files = []
    for name in ("films-out.csv", "manifests/films.csv", "segments/marks.csv"):
        files.append(bytes_of_file(place.folder / name, name))
    return {
        "tables.bytes": files,
        "tables.elan": annotations_of(place.folder / "elan-out"),
        "tables.films": sheet(place.folder / "films-out.xlsx"),
        "tables.predicted": sheet(place.folder / "predicted.xlsx"),
        "tables.mediaeval": record_mediaeval(place),
    }


def bytes_of_file(path: Path, name: str) -> Row:
    """Return size and checksum of a file."""
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    return {"folder": "", "file": name, "bytes": len(data), "sha256": sha256}


def annotations_of(folder: Path) -> list[Row]:
    """Return the annotations of ELAN files, which have a date, read by another library."""
    rows: list[Row] = []
    for path in sorted(folder.glob("*.eaf")):
        file = Eaf(str(path))
        for tier in sorted(file.get_tier_names()):
            for start, end, word, *_ in file.get_annotation_data_for_tier(tier):
                times = {"start": start / 1000, "end": end / 1000}
                rows.append({"film": path.stem, "tier": tier, **times, "word": word})
    return rows


def sheet(path: Path) -> list[Row]:
    """Return the rows of a workbook, read by another library."""
    header, *lines = load_workbook(str(path)).get_sheet_by_index(0).to_python()
    return [dict(zip(header, line, strict=True)) for line in lines]


def record_mediaeval(place: Place) -> list[Row]:
    """The run files of MediaEval, of violence and of affect, and their scores."""
    excerpts = worlds.accede_excerpts()
    for name, text in worlds.accede_files(excerpts).items():
        place.write_text(f"annotations/{name}", text)
    place("manifest import annotations --as liris-accede")
    ids = [{"clip_id": excerpt["name"]} for excerpt in excerpts]
    X = worlds.accede_features(excerpts)
    import_features(place, ids, X, "accede", manifest="liris-accede")
    settings = "--task violence=1 --set splits.kind=fixed --set report.replicates=50"
    split = "--set splits.column=fold:mediaeval2015 --set 'splits.test=[\"0\"]'"
    train(place, "ridge", "accede", "liris-accede", f"{settings} {split}", output="v")
    place("models predict v accede -o v.csv")
    place("audit mediaeval --write violence.txt --predictions v.csv")
    place.write_rows("affect.csv", affect_of(excerpts))
    place("audit mediaeval --write affect.txt --affect affect.csv")
    rows: list[Row] = []
    for name in ("violence.txt", "affect.txt"):
        for line in (place.folder / name).read_text(encoding="utf-8").splitlines():
            rows.append({"run": name, **named_words(line.split())})
        line = f"audit mediaeval {name} --manifest liris-accede --table scored.csv"
        place(f"{line} --force")
        for row in place.read_rows("scored.csv"):
            rows.append({"run": f"score of {name}", **named_words(list(row.values()))})
    return rows


def affect_of(excerpts: Sequence[Row]) -> list[Row]:
    """Return made-up scores of valence and arousal of the excerpts of the test."""
    draws = np.random.default_rng(16)
    rows = []
    for excerpt in excerpts:
        if excerpt["is_test"]:
            valence, arousal = draws.uniform(-1, 1, 2).round(3)
            row = {"clip_id": excerpt["name"], "valence": valence, "arousal": arousal}
            rows.append(row)
    return rows


def named_words(words: Sequence[str]) -> Row:
    """Return the words of a line, as numbers where they are some."""
    return {f"word {place}": word for place, word in enumerate(words, start=1)}
