"""The files that are written: bytes where these are the same each time, else what is in them.

A document with a date or a version, such as store.json, is read for its lasting facts alone.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from support.checkpoints import save_tiny, write_tiny_card

import obygaze as og
from golden import worlds
from golden.doors import Place, cut_windows, extract, import_clips, import_features
from golden.films import drawn_pictures, drawn_samples, write_film
from golden.tables import Row, Table

# What they say of the day or of other programs is not recorded.
WITH_A_DATE = ("store.json", "README.md")
RATE = 24


def record_files(place: Place) -> dict[str, Table]:
    return {**record_stores(place), **record_extraction(place)}


# ---- stores --------------------------------------------------------------------------------------


def record_stores(place: Place) -> dict[str, Table]:
    rows = worlds.labelled_clips(per_film=10)
    import_clips(place, rows, "films")
    seen = worlds.seen_features(rows)
    lacking = range(5, 60, 17)
    import_features(place, rows, seen, "seen", manifest="films", lacking=lacking)
    coarse = worlds.coarse_features(rows)
    import_features(place, rows, coarse, "coarse", manifest="films")
    frames = worlds.frame_features(rows)
    import_features(place, rows, frames, "frames", manifest="films", array="frames")
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
    rows = []
    for name in names:
        for file, data in place.bytes_of(f"stores/{name}").items():
            if Path(file).name not in WITH_A_DATE:
                sha256 = hashlib.sha256(data).hexdigest()
                facts = {"file": file, "bytes": len(data), "sha256": sha256}
                rows.append({"store": name, **facts})
    return rows


def arrays_of_stores(place: Place, names: Iterable[str]) -> list[Row]:
    rows = []
    for name in names:
        store = og.open_store(name, workspace=place.folder)
        arrays = {}
        for array in place(f"store info {name} --json").json()["arrays"]:
            matrix = store.matrix(array["name"], missing="drop")
            arrays[array["name"]] = np.asarray(matrix.values)
        # The times of windows are in the table of rows.
        if name.startswith("windows"):
            times = [(row.start_s, row.end_s) for row in store.rows if row.is_ok]
            arrays["start_s"], arrays["end_s"] = np.array(times).T
        for array, values in arrays.items():
            rows.append({"store": name, **facts_of_array(array, values)})
    return rows


def facts_of_array(name: str, values: np.ndarray[Any, Any]) -> Row:
    """Return type, shape, checksum, and some numbers by which a person sees what changed."""
    sha256 = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
    shape = " x ".join(map(str, values.shape))
    row = {"array": name, "dtype": str(values.dtype), "shape": shape, "sha256": sha256}
    if values.dtype.kind in "fiub" and values.size:
        numbers = values.astype(np.float64)
        row |= {"first": numbers.flat[0], "last": numbers.flat[-1]}
        row |= {"mean": numbers.mean(), "largest": numbers.max()}
    return row


def facts_of_stores(place: Place, names: Iterable[str]) -> list[Row]:
    rows = []
    for name in names:
        facts = place(f"store info {name} --json").json()
        row = {"store": name, "backbone": facts["backbone"]}
        counts = sorted(facts["counts"].items())
        row |= {"fingerprint": facts["fingerprint"]}
        rows.append(row | {f"clips {status}": n for status, n in counts})
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
