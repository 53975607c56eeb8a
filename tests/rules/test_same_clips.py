"""Which clips are the same: one table of differences, asked at the function and at each door.

A row of DIFFERENCES is what two sources state of the clip of one id, and what must be found. A door
carries what its files can state; what a door cannot be asked is listed with its reason.
"""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec import structs
from support.experiments import ONE_PAIR, films, quick
from support.joined_stores import join_of
from support.maps import GRID
from support.run_tables import (
    MANIFEST,
    Clips,
    MadeCell,
    labels_of,
    made_run,
    scores_for,
)
from support.stores import a_recipe, made_store
from support.videos import write_video

import obygaze as og
from obygaze.audits.maps import pictures
from obygaze.audits.maps.boxes import read_boxes
from obygaze.audits.share import FilmLabels, read_scores
from obygaze.films.page.view import view
from obygaze.films.predictions import read_predictions
from obygaze_features.backbones.cards import find_card
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    Mismatch,
    NotFound,
    ObygazeError,
    ObygazeWarning,
)
from obygaze_features.core.files import quick_sha256
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.cases import (
    ANOTHER_PLAN,
    CHANGED,
    ExtractionRequest,
    Work,
    compare_with_store,
)
from obygaze_features.extraction.clips import PlannedClip, plan_clips
from obygaze_features.extraction.kept import usable_frames
from obygaze_features.extraction.linking import link_manifest
from obygaze_features.extraction.recipes import decoder_recipe, sampling_recipe
from obygaze_features.extraction.search import search
from obygaze_features.extraction.stored import StoreState
from obygaze_features.extraction.subtitles import words_of_clips
from obygaze_features.manifest.adapters import csv_table
from obygaze_features.manifest.adapters.join_table import join
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.io import manifest_sha256, rows_to_csv, write_manifest
from obygaze_features.manifest.merging import merged_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.same_clips import (
    FILM,
    FRAME_NUMBERS,
    FRAME_RATE,
    ONE_FILM,
    OPEN,
    PLACE,
    SAME_PICTURES,
    SAME_PLAN,
    TIMES,
    VIDEO,
    same_clips,
)
from obygaze_features.manifest.vocabulary import concepts
from obygaze_features.store import Row, Store, merge, subset
from obygaze_features.store.exporting import export_features
from obygaze_features.store.importing import import_features
from obygaze_features.store.layout import CLEAN, PICTURES, Array
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.rows import FAILED, NOT_EXTRACTED, OK
from obygaze_features.video.decoded_clip import PictureView
from obygaze_models.models.linear import LogisticProbe
from obygaze_models.report.comparison import compare_runs
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.text_vectors import select_groups
from obygaze_models.zoo import (
    FeatureSpec,
    ModelInfo,
    TrainingClips,
    TrainingData,
    predict,
    read_model,
    save_model,
)

Facts = dict[str, Any]
X = "tt0000001-001"
FRAME_CELLS = ("start_frame", "end_frame", "framerate")
FILM_CELLS = ("film_start_s", "film_end_s")


def seconds(start_s: float, **facts: Any) -> Facts:
    times = {"start_s": float(start_s), "end_s": float(start_s + 2)}
    return {"movie_id": "A", **times, **facts}


def frames(first: int, rate: str = "25", **facts: Any) -> Facts:
    counted = {"start_frame": first, "end_frame": first + 49, "framerate": rate}
    return {"movie_id": "A", **counted, **facts}


def own_file(at_s: float, **facts: Any) -> Facts:
    """A clip that is a whole file of its own, and its place in the film."""
    place = {"film_start_s": at_s, "film_end_s": at_s + 2}
    return {"movie_id": "A", "video_name": "own.mp4", **place, **facts}


class Difference(NamedTuple):
    """What two sources state of a clip, and what is found.

    `differs` and `compared` are letters of BITS; `answers` those of SAME_CLIP, SAME_PICTURES and
    SAME_PLAN: = same, ? same by its id only, R refused.
    """

    ours: Facts
    theirs: Facts
    compared: str
    differs: str
    answers: str


BITS = {
    "F": FILM,
    "R": FRAME_RATE,
    "N": FRAME_NUMBERS,
    "T": TIMES,
    "P": PLACE,
    "O": OPEN,
    "V": VIDEO,
    "S": ONE_FILM,
}
S = seconds(12.0)
N = frames(300)
BOTH = {**S, **N}
SEEN = {"video_bytes": 10, "video_hash": "a" * 16}
OTHER_LENGTH = {"video_bytes": 11, "video_hash": "b" * 16}
OTHER_CONTENT = {"video_bytes": 10, "video_hash": "b" * 16}
DIFFERENCES = {
    "equal": Difference(S, S, "FTP", "", "==="),
    "other film": Difference(S, seconds(12.0, movie_id="B"), "FTP", "F", "RRR"),
    "film renamed": Difference(
        {**S, **SEEN}, {**S, **SEEN, "movie_id": "new-name"}, "FTPV", "F", "RRR"
    ),
    "film in other case": Difference(S, seconds(12, movie_id="a"), "FTP", "F", "RRR"),
    ".5 ms": Difference(S, seconds(12.0005), "FTP", "", "==="),
    "2 ms": Difference(S, seconds(12.002), "FTP", "TP", "RRR"),
    "one picture in seconds": Difference(S, seconds(12.04), "FTP", "TP", "RRR"),
    "one picture in frames": Difference(N, frames(301), "FRN", "N", "RRR"),
    "rates 25 and 24": Difference(N, frames(300, "24"), "FRN", "R", "RRR"),
    "rates 25 and 25.0002": Difference(N, frames(300, "25.0002"), "FRN", "", "==="),
    "rate of one unknown": Difference(N, frames(300, ""), "FN", "", "==="),
    "one picture, a rate unknown": Difference(N, frames(301, ""), "FN", "N", "RRR"),
    "frames equal, times of a copy": Difference(
        BOTH, {**N, **seconds(12.52)}, "FRNP", "P", "==R"
    ),
    "times equal, frames apart": Difference(
        BOTH, {**S, **frames(301)}, "FRNP", "N", "RRR"
    ),
    "frames of one, times equal": Difference(BOTH, S, "FTP", "", "==="),
    "frames of one, times 2 ms": Difference(BOTH, seconds(12.002), "FTP", "TP", "RRR"),
    "frames against seconds": Difference(N, S, "FT", "O", "=RR"),
    "frames against seconds, 2 ms": Difference(N, seconds(12.002), "FT", "TO", "RRR"),
    "frames against seconds, 18 s": Difference(N, seconds(30.0), "FT", "TO", "RRR"),
    "seconds against frames, 18 s": Difference(seconds(30.0), N, "FT", "TO", "RRR"),
    "times of one unknown": Difference({"movie_id": "A"}, S, "F", "O", "=RR"),
    "film of one unknown": Difference(S, seconds(12, movie_id=""), "TP", "S", "=RR"),
    "nothing in common": Difference({"movie_id": ""}, S, "", "OS", "?RR"),
    "own file and part of the film": Difference(own_file(12), S, "FT", "O", "=RR"),
    "own file, 18 s apart": Difference(own_file(12.0), seconds(30), "FT", "TO", "RRR"),
    "own files, 18 s apart in the film": Difference(
        own_file(12.0), own_file(30.0), "FT", "T", "RRR"
    ),
    "parts of own files, 18 s apart in the film": Difference(
        own_file(12.0, start_s=0.0, end_s=2.0),
        own_file(30.0, start_s=0.0, end_s=2.0),
        "FTP",
        "T",
        "RRR",
    ),
    "named file, other video, moved": Difference(
        seconds(12.0, video_name="one.mp4", **SEEN),
        seconds(30.0, video_name="two.mp4", **OTHER_LENGTH),
        "FTPV",
        "TPV",
        "RRR",
    ),
    "video of another length": Difference(
        {**S, **SEEN}, {**S, **OTHER_LENGTH}, "FTPV", "V", "=RR"
    ),
    "video of other content": Difference(
        {**S, **SEEN}, {**S, **OTHER_CONTENT}, "FTPV", "V", "=RR"
    ),
}


# --- The function ---


def clip_of(clip_id: str, facts: Facts, **labels: Any) -> Clip:
    names = (*FRAME_CELLS, *FILM_CELLS, "video_name")
    cells = {name: str(facts[name]) for name in names if name in facts}
    return Clip(
        clip_id,
        facts["movie_id"],
        start_s=facts.get("start_s"),
        end_s=facts.get("end_s"),
        extra=cells,
        **labels,
    )


def table_of(facts: Facts) -> ClipTable:
    table = ClipTable.of_clips([clip_of(X, facts)])
    seen = {name: [facts[name]] for name in SEEN if name in facts}
    return table.with_columns(**seen)


@pytest.mark.parametrize("what", DIFFERENCES)
def test_the_function_finds_each_difference(what: str) -> None:
    case = DIFFERENCES[what]
    found = same_clips(table_of(case.ours), table_of(case.theirs))

    def letters(bits: int) -> set[str]:
        return {name for name, bit in BITS.items() if bits & bit}

    # OPEN and ONE_FILM are always compared.
    assert letters(int(found.compared[0])) - {*"OS"} == {*case.compared}
    assert letters(int(found.differs[0])) == {*case.differs}
    answers = ""
    for bits in (
        found.refused(),
        found.refused(SAME_PICTURES),
        found.refused(SAME_PLAN),
    ):
        answers += "R" if bits[0] else "="
    assert answers == case.answers.replace("?", "=")
    assert bool(found.n_by_ids) == ("?" in case.answers)


@pytest.mark.parametrize("what", DIFFERENCES)
def test_both_sides_give_one_answer(what: str) -> None:
    case = DIFFERENCES[what]
    one = same_clips(table_of(case.ours), table_of(case.theirs))
    other = same_clips(table_of(case.theirs), table_of(case.ours))
    assert one.compared.tolist() == other.compared.tolist()
    assert one.differs.tolist() == other.differs.tolist()


def test_each_of_several_rows_of_a_clip_is_compared() -> None:
    ours = ClipTable.of(["x", "x"], ["A", "B"])
    found = same_clips(ours, ClipTable.of(["x"], ["A"]))
    assert found.refused().tolist() == [0, FILM]


def test_a_clip_that_the_second_table_lacks_is_not_compared() -> None:
    found = same_clips(ClipTable.of(["x", "y"], ["A", "A"]), ClipTable.of(["y"], ["B"]))
    assert found.places.tolist() == [-1, 0]
    assert found.compared.tolist()[0] == 0
    assert found.refused().tolist() == [0, FILM]
    nothing = same_clips(ClipTable.of(["x"], ["A"]), ClipTable.of([]))
    assert nothing.places.tolist() == [-1]
    assert not nothing.compared.any()


# --- The doors ---


def manifest_of(facts: Facts, name: str = "made-up") -> Manifest:
    """The clip X beside other clips, of a film of their own, with labels."""
    first, *others = films(2, 6).clips
    has_films = bool(facts["movie_id"])
    header = Header(name, concepts(), films="" if has_films else "none")
    clip = clip_of(X, facts, level=first.level, concepts=first.concepts)
    clips = [clip]
    for other in others:
        other_film = other.movie_id if has_films else ""
        cells = dict.fromkeys(clip.extra, "")
        clips.append(
            Clip(
                other.clip_id,
                other_film,
                start_s=other.start_s,
                end_s=other.end_s,
                level=other.level,
                concepts=other.concepts,
                extra=cells,
            )
        )
    return Manifest(name, header, tuple(clips), tuple(clip.extra))


def row_of(clip: Clip, facts: Facts) -> Row:
    seen = {name: facts[name] for name in SEEN if name in facts}
    return Row.of_clip(clip)._replace(**seen)


def store_of(facts: Facts, path: Path, backbone: str = "toy") -> Store:
    manifest = manifest_of(facts)
    rows = [row_of(clip, facts if clip.clip_id == X else {}) for clip in manifest]
    recipe = a_recipe(backbone={"name": backbone, "card_sha256": "ab" * 32})
    values = np.random.default_rng(0).normal(size=(len(rows), 4)).astype("float32")
    mark = ManifestMark(manifest.name, "12" * 32)
    return made_store(path, rows, {"clip": values}, recipe=recipe, manifest=mark)


def cells_of(facts: Facts) -> dict[str, str]:
    """The cells of a table of results: without the file and the video."""
    names = ("movie_id", "start_s", "end_s", *FRAME_CELLS, *FILM_CELLS)
    return {
        name: str(facts[name]) for name in names if facts.get(name) not in ("", None)
    }


def table_file(facts: Facts, path: Path, **cells: str) -> Path:
    """A table of the clip X."""
    row = {"clip_id": X, **cells_of(facts), **cells}
    path.write_text(f"{','.join(row)}\n{','.join(row.values())}\n", encoding="utf-8")
    return path


def at_a_run(ours: Facts, theirs: Facts, folder: Path) -> None:
    protocol = quick("honest-negatives", 'data.view="raw"', *ONE_PAIR)
    gather(protocol, manifest_of(ours), "m", {"s": store_of(theirs, folder / "s")})


def at_a_matrix(ours: Facts, theirs: Facts, folder: Path) -> None:
    store_of(theirs, folder / "s").matrix("clip", clips=manifest_of(ours))


def at_a_subset(ours: Facts, theirs: Facts, folder: Path) -> None:
    store = store_of(theirs, folder / "s")
    subset(store, folder / "part", clips=manifest_of(ours).clips, workspace=folder)


def at_an_export(ours: Facts, theirs: Facts, folder: Path) -> None:
    store = store_of(theirs, folder / "s")
    export_features(
        store, folder / "f.parquet", labels=manifest_of(ours), workspace=folder
    )


def at_a_join_of_stores(ours: Facts, theirs: Facts, folder: Path) -> None:
    one = store_of(ours, folder / "one")
    other = store_of(theirs, folder / "other", "also")
    join_of({"one": one, "other": other}).status()


def model_of(manifest: Manifest, folder: Path) -> Path:
    """A saved model that was trained on the clips of a manifest."""
    values = np.random.default_rng(0).normal(size=(len(manifest), 4)).astype("float32")
    probe = LogisticProbe().fit(values, np.arange(len(values)) % 2)
    trained_films = tuple(sorted({clip.movie_id for clip in manifest} - {""}))
    training = TrainingData(
        "films", "0" * 64, "raw", len(values), len(trained_films), trained_films
    )
    info = ModelInfo(
        name="kept",
        kind="logistic",
        task="EN_S",
        classes=("EN", "S"),
        features=FeatureSpec("toy", "clip", "float32", 4, a_recipe().fingerprint),
        training=training,
    )
    scores = {"p:EN": np.full(len(values), 0.25), "p:S": np.full(len(values), 0.75)}
    clips = TrainingClips(ClipTable.of_clips(manifest.clips), scores)
    return save_model(probe, info, folder / "models" / "kept", values, clips=clips)


def at_a_prediction(ours: Facts, theirs: Facts, folder: Path) -> None:
    """A model that was trained on the clips of one source predicts those of the other."""
    saved = model_of(manifest_of(ours), folder)
    store = store_of(theirs, folder / "s")
    predicted = predict(read_model(saved), store)
    for note in predicted.warnings:
        warnings.warn(note, ObygazeWarning, stacklevel=1)


def at_an_import(ours: Facts, theirs: Facts, folder: Path) -> None:
    arrays: dict[str, Any] = {"clip_id": np.array([X])}
    for name, cell in cells_of(theirs).items():
        is_film = name == "movie_id"
        arrays[name] = np.array([cell if is_film else float(Fraction(cell))])
    np.savez(folder / "f.npz", **arrays, clip=np.ones((1, 4), "float32"))
    done = import_features(
        folder / "f.npz",
        folder / "s",
        manifest=manifest_of(ours),
        workspace=folder,
    )
    for note in done.notes:
        warnings.warn(note, ObygazeWarning, stacklevel=1)


def at_a_join_of_tables(ours: Facts, theirs: Facts, folder: Path) -> None:
    path = table_file(theirs, folder / "t.csv", mood="calm")
    joined = join(manifest_of(ours), path)
    for note in joined.notes:
        warnings.warn(note, ObygazeWarning, stacklevel=1)


def at_two_coders(ours: Facts, theirs: Facts, folder: Path) -> None:
    """Two people have a table each, about the same clips."""
    paths = []
    for name, facts in (("ada", ours), ("ben", theirs)):
        one = Manifest(
            name, Header(name), (clip_of(X, facts),), tuple(clip_of(X, facts).extra)
        )
        paths.append(folder / f"{name}.csv")
        paths[-1].write_bytes(rows_to_csv(one.with_column("mood", {X: name})))
    without = None if ours["movie_id"] else "none"
    try:
        made = csv_table.read(paths, films=without, name="both", rule="by:ada")
    except FixInput as error:
        said = [line for line in error.details if "under the same id" in line]
        if said:
            raise Mismatch(said[0]) from error
        raise
    assert made.manifest.clip_ids == (X,)


def at_texts_of_clips(ours: Facts, theirs: Facts, folder: Path) -> None:
    path = table_file(theirs, folder / "t.csv", text="hello")
    words_of_clips(manifest_of(ours), str(path))


def at_groups_of_clips(ours: Facts, theirs: Facts, folder: Path) -> None:
    path = table_file(theirs, folder / "t.csv")
    manifest = manifest_of(ours)
    select_groups((path, [manifest.clip_ids[1]]), manifest)


def at_a_share(ours: Facts, theirs: Facts, folder: Path) -> None:
    film = theirs["movie_id"]
    path = table_file(theirs, folder / "t.csv", **{"score:toy": "0.5"})
    labels = {film: FilmLabels(1, 1, 0, {X: True})}
    manifest = manifest_of(ours)
    only = Manifest("m", manifest.header, manifest.clips[:1], manifest.columns)
    labels.setdefault(ours["movie_id"], FilmLabels(1, 1, 0, {X: True}))
    read_scores(path, only, labels)


def at_boxes(ours: Facts, theirs: Facts, folder: Path) -> None:
    manifest = manifest_of(theirs)
    geometry = {"grid": list(GRID), "frames": GRID[0]}
    store = made_store(
        folder / "maps",
        [row_of(clip, {}) for clip in manifest],
        {"maps": np.zeros((len(manifest), 1, *GRID), "float16")},
        recipe=a_recipe(backbone={"name": "toy", "geometry": geometry}),
    )
    box = dict.fromkeys(("x0", "y0"), "0") | dict.fromkeys(("x1", "y1"), "1")
    read_boxes(table_file(ours, folder / "t.csv", **box), store)


def at_predictions(ours: Facts, theirs: Facts, folder: Path) -> None:
    path = table_file(theirs, folder / "t.csv", score="0.5")
    read_predictions(manifest_of(ours), path)


def at_a_search(ours: Facts, theirs: Facts, folder: Path) -> None:
    """The table of the hits has titles and times of the manifest."""
    write_manifest(manifest_of(ours), folder / "manifests" / "made-up.toml")
    store = store_of(theirs, folder / "s")
    like = str(store.clip_ids[1])
    search(store, like=like, out=folder / "hits.csv", workspace=folder)


def run_of(facts: Facts, name: str, folder: Path) -> Run:
    """A run of a manifest, which is written into the workspace."""
    manifest = manifest_of(facts, name)
    path = folder / "manifests" / f"{name}.toml"
    write_manifest(manifest, path)
    films_of_clips = tuple(clip.movie_id for clip in manifest)
    is_positive = np.array([clip.level == "S" for clip in manifest])
    clips = Clips(manifest.clip_ids, films_of_clips, is_positive)
    about = {"name": name, "path": str(path), "sha256": manifest_sha256(manifest)}
    about |= {"labels": labels_of(manifest), "n_films": len({*films_of_clips} - {""})}
    cell = MadeCell("ridge", clips, scores_for(clips, 1.0, 1))
    return made_run(folder / "runs" / name, [cell], manifest={**MANIFEST, **about})


def at_a_comparison(ours: Facts, theirs: Facts, folder: Path) -> None:
    runs = [run_of(ours, "one", folder), run_of(theirs, "other", folder)]
    for note in compare_runs(runs).warnings:
        said = note.replace("clips with the same id", "matched by id only: clips")
        warnings.warn(said, ObygazeWarning, stacklevel=1)


def at_a_view(ours: Facts, theirs: Facts, folder: Path) -> None:
    run_of(theirs, "made-up", folder)
    write_manifest(manifest_of(ours), folder / "manifests" / "made-up.toml", force=True)
    view("made-up", run="made-up", workspace=folder)


def at_a_test(ours: Facts, theirs: Facts, folder: Path) -> None:
    """A model that was trained on the clip X of one source is tested on those of the other."""
    manifest = manifest_of(theirs)
    trained = manifest_of(ours)
    model_of(trained.with_clips(trained.clips[:6]), folder)
    store = store_of(theirs, folder / "s")
    run = og.models.test(
        "kept",
        {"s": store},
        manifest,
        changes=["report.replicates=10", "data.view=raw"],
        output="t",
        workspace=folder,
    )
    for note in run.about["remarks"].values():
        warnings.warn(note, ObygazeWarning, stacklevel=1)


def planned(facts: Facts) -> tuple[PlannedClip, dict[str, tuple[int, str] | None]]:
    """The clip X of a manifest as an extraction plans it, and the facts of its video now."""
    (clip,) = plan_clips(Manifest("m", Header("m"), (clip_of(X, facts),)))
    now = facts["video_bytes"], facts["video_hash"]
    return clip._replace(video="/v.mp4"), {"/v.mp4": now}


def compared(ours: Facts, theirs: Facts, **state: Any) -> Work:
    """The work of an extraction of our clip with the row of their clip."""
    clip, now = planned({**SEEN, **ours})
    request = ExtractionRequest([clip], a_recipe(), ("clip",), None, now)
    row = row_of(clip_of(X, theirs), {**SEEN, **theirs})
    status = state.pop("status", OK)
    array = Array.of("clip", "float32", (4,))
    rows = [row._replace(status=status)]
    stored = StoreState(a_recipe(), [array], rows, (), **state)
    return compare_with_store(request, stored)


def at_a_growth(ours: Facts, theirs: Facts, folder: Path) -> str:
    work = compared(ours, theirs)
    # A failed row whose clip changed is tried again; one of the same clip is not.
    failed = compared(ours, theirs, status=FAILED)
    if not ours.keys() & SEEN:
        assert failed.computed[0] == (CHANGED in work.found)
    return "R" if CHANGED in work.found else "="


def at_a_filling(ours: Facts, theirs: Facts, folder: Path) -> str:
    if ours.keys() & SEEN:
        # Of a row that is not computed yet, no video was read.
        return "R" if CHANGED in compared(ours, theirs, computed=[False]).found else "="
    work = compared(ours, theirs, status=NOT_EXTRACTED, computed=[True])
    return "R" if ANOTHER_PLAN in work.found else "="


def at_kept_frames(ours: Facts, theirs: Facts, folder: Path) -> str:
    clip, now = planned({**SEEN, **ours})
    row = row_of(clip_of(X, theirs), {**SEEN, **theirs})
    arrays = {PICTURES: np.zeros((1, 2, 2, 2, 3), "uint8"), CLEAN: np.ones(1, "bool")}
    store = made_store(folder / "kept", [row], arrays)
    kept = usable_frames(store, [clip], now)
    assert len(kept.row_of_clip) + len(kept.changed) == 1
    return "R" if kept.changed else "="


STORES: tuple[Callable[[Facts, Facts, Path], None], ...] = (
    at_a_run,
    at_a_matrix,
    at_a_subset,
    at_an_export,
    at_a_join_of_stores,
    at_a_prediction,
    at_a_test,
    at_a_comparison,
    at_a_search,
)
TABLES: tuple[Callable[[Facts, Facts, Path], None], ...] = (
    at_an_import,
    at_a_join_of_tables,
    at_two_coders,
    at_texts_of_clips,
    at_groups_of_clips,
    at_a_share,
    at_boxes,
    at_predictions,
)


def answer(door: Callable[[Facts, Facts, Path], None], case: Difference) -> str:
    """Return R if a door refuses, E for another error, ? if it says that only ids match, else =."""
    with (
        tempfile.TemporaryDirectory() as name,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", ObygazeWarning)
        try:
            door(case.ours, case.theirs, Path(name))
        except ObygazeError as error:
            return "R" if "under the same id" in error.message else "E"
    return "?" if any("id only" in str(one.message) for one in caught) else "="


# What a door cannot be asked: the case, the answer (E: another error), and the reason.
Unasked = dict[str, tuple[str, str]]
UNASKED: dict[str, Unasked] = {door.__name__: {} for door in (*STORES, *TABLES)}
UNASKED["at_two_coders"] = {
    "rates 25 and 25.0002": ("E", "one import has one rate of each film"),
    "rate of one unknown": ("E", "one import has one rate of each film"),
    "film of one unknown": ("E", "one import has films or none"),
    "nothing in common": ("E", "one import has films or none"),
}
UNASKED["at_a_prediction"] |= {
    "film of one unknown": ("E", "clips of unknown films may have trained"),
    "nothing in common": ("=", "a model without films: each clip may have trained"),
}
UNASKED["at_a_test"] |= UNASKED["at_a_prediction"]
UNASKED["at_a_run"]["nothing in common"] = "E", "the protocol holds out films"
# In a table, a film may be spelled in another way: a join says so, an import asks.
UNASKED["at_a_join_of_tables"]["film in other case"] = "=", "matched, which is said"
UNASKED["at_two_coders"]["film in other case"] = "E", "asked: --film a=A"
UNASKED["at_a_share"] |= {
    "film of one unknown": ("E", "shares are of films"),
    "nothing in common": ("E", "shares are of films"),
}


@pytest.mark.parametrize(
    ("door", "place"), [(at_a_growth, 1), (at_kept_frames, 1), (at_a_filling, 2)]
)
def test_an_extraction_refuses_what_the_function_finds(door, place, tmp_path) -> None:
    expected = {}
    found = {}
    for number, (what, case) in enumerate(DIFFERENCES.items()):
        expected[what] = case.answers[place]
        found[what] = door(case.ours, case.theirs, tmp_path / str(number))
    assert found == expected


@pytest.mark.parametrize("door", [*STORES, *TABLES])
def test_a_door_refuses_what_the_function_finds(door) -> None:
    unasked = UNASKED[door.__name__]
    expected = {}
    found = {}
    for what, case in DIFFERENCES.items():
        expected[what] = unasked[what][0] if what in unasked else case.answers[0]
        found[what] = answer(door, case)
    assert found == expected


def test_a_view_with_a_run_asks_the_films() -> None:
    """A run keeps the film of each clip, and neither times nor frames."""
    expected = {}
    found = {}
    for what, case in DIFFERENCES.items():
        is_known = "F" in case.compared
        expected[what] = "R" if "F" in case.differs else "=" if is_known else "?"
        found[what] = answer(at_a_view, case)
    assert found == expected


def at_exact_pictures(
    ours: Facts, theirs: Facts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The clip of a manifest as it is now, and the row of a store, whose recipe is that of now."""
    clip, now = planned({**SEEN, **ours})
    row = row_of(clip_of(X, theirs), {**SEEN, **theirs})
    card = find_card("clip-b16", Workspace(folder))
    resize = card.family.resize(card)
    view = PictureView(card.geometry.frames, card.input.sampling, resize)
    recipe = a_recipe(
        backbone={"name": card.name, "card_sha256": card.sha256},
        preprocessing={"edge": resize.edge},
        sampling=sampling_recipe(view),
        decoder=decoder_recipe(view),
    )
    values = {"clip": np.ones((1, 4), "float32")}
    store = made_store(folder / "s", [row], values, recipe=recipe)
    monkeypatch.setattr(pictures, "_find_clip", lambda *_: clip)
    monkeypatch.setattr(pictures, "read_video_facts", lambda _: now)
    monkeypatch.setattr(pictures, "decode_clip", lambda *_, **__: None)
    try:
        pictures.exact_pictures(Workspace(folder), store, X)
    except Mismatch as error:
        assert "the times or the video of" in error.message
        return "R"
    return "="


def test_exact_pictures_are_those_of_the_same_clip(tmp_path, monkeypatch) -> None:
    expected = {}
    found = {}
    for number, (what, case) in enumerate(DIFFERENCES.items()):
        expected[what] = case.answers[1]
        sides = case.ours, case.theirs
        folder = tmp_path / str(number)
        found[what] = at_exact_pictures(*sides, folder, monkeypatch)
    assert found == expected


# The file of a film states its name and its frame rate; of its clips it states nothing.
AT_A_LINK = {
    "equal": "=",
    "other film": "R",
    "film renamed": "R",
    # The name of a file is no id: it may be written in another way, which is told.
    "film in other case": "told",
    "frames against seconds": "=",
    "rates 25 and 24": "R",
    "rates 25 and 25.0002": "=",
    "rate of one unknown": "=",
}


@pytest.mark.parametrize("what", AT_A_LINK)
def test_a_link_and_subtitles_ask_the_film(what: str, tmp_path: Path) -> None:
    case = DIFFERENCES[what]
    # An import gives clips that count frames their times, which a link needs.
    clips = manifest_of({**S, **case.ours})
    film = case.theirs["movie_id"]
    rate = Fraction(case.theirs.get("framerate") or 25)
    (tmp_path / "videos").mkdir()
    write_video(
        tmp_path / "videos" / f"{film}.mp4",
        numbers=range(375),
        size=(16, 16),
        rate=rate,
        tick=1 / rate,
    )
    write_manifest(clips, tmp_path / "manifests" / "made-up.toml")
    found = "="
    try:
        report = link_manifest("made-up", tmp_path / "videos", workspace=tmp_path)
    except NotFound as error:
        assert error.message == "no video file matches a clip"
        found = "R"
    except FixInput as error:
        assert error.message.startswith("the film contradicts the frames of 1 clip")
        found = "R"
    else:
        if report.in_other_spelling:
            assert report.in_other_spelling == [f"{film} (A)"]
            found = "told"
    assert found == AT_A_LINK[what]
    # Subtitles state the name of the film alone.
    (tmp_path / f"{film}.srt").write_text("1\n00:00:01,000 --> 00:00:20,000\nTea\n")
    try:
        words = words_of_clips(clips, str(tmp_path))
    except FixInput as error:
        assert error.message.startswith("no film of the manifest has subtitles")
        found = "R"
    else:
        found = "told" if words.in_other_spelling else "="
    assert found == ("=" if what == "rates 25 and 24" else AT_A_LINK[what])


# --- A video that was replaced: told in the same words wherever features meet ---


def linked(folder: Path, content: bytes) -> tuple[Manifest, Store]:
    """A manifest whose clip X is part of a video, and a store that was read from this video."""
    (folder / "v.mp4").write_bytes(content)
    seen = quick_sha256(folder / "v.mp4")
    manifest = manifest_of({**S, "video_name": ""})
    first, *others = manifest.clips
    clips = (replace(first, video="v.mp4"), *others)
    header = structs.replace(manifest.header, video_root=str(folder))
    facts = {**S, "video_bytes": seen[0], "video_hash": seen[1][:16]}
    return replace(manifest, header=header, clips=clips), store_of(facts, folder / "s")


def said_of_run(manifest: Manifest, store: Store, folder: Path) -> str:
    protocol = quick("honest-negatives", 'data.view="raw"', *ONE_PAIR)
    return str(gather(protocol, manifest, "m", {"s": store}).table.remarks)


def said_of_dataset(manifest: Manifest, store: Store, folder: Path) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ObygazeWarning)
        og.dataset(store, manifest, "EN_S", view="raw")
    return " ".join(str(one.message) for one in caught)


def said_of_subset(manifest: Manifest, store: Store, folder: Path) -> str:
    made = subset(store, folder / "part", clips=manifest, workspace=folder)
    return " ".join(made.warnings)


def said_of_export(manifest: Manifest, store: Store, folder: Path) -> str:
    path = folder / "f.parquet"
    done = export_features(store, path, labels=manifest, workspace=folder)
    return " ".join(done.warnings)


def said_of_prediction(manifest: Manifest, store: Store, folder: Path) -> str:
    predicted = predict(
        read_model(model_of(manifest, folder)), store, manifest=manifest
    )
    return " ".join(predicted.warnings)


@pytest.mark.parametrize(
    "door",
    [
        said_of_run,
        said_of_dataset,
        said_of_subset,
        said_of_export,
        said_of_prediction,
    ],
)
def test_a_replaced_video_is_told(door, tmp_path: Path) -> None:
    """Whether or not it has the length of the video that was read."""
    told = []
    for number, now in enumerate((b"as before", b"As before", b"longer than before")):
        folder = tmp_path / str(number)
        folder.mkdir()
        manifest, store = linked(folder, b"as before")
        (folder / "v.mp4").write_bytes(now)
        said = door(manifest, store, folder)
        told.append("these videos were replaced" in said and "v.mp4" in said)
    assert told == [False, True, True]


def test_stores_that_read_two_files_of_one_film_are_told(tmp_path: Path) -> None:
    """At a join clip by clip, and at a merger, whose stores have no clip in common."""
    one = store_of({**S, **SEEN}, tmp_path / "one")
    with pytest.warns(ObygazeWarning, match="1 clip with features of different video"):
        other = store_of({**S, **OTHER_CONTENT}, tmp_path / "other", "also")
        join_of({"one": one, "other": other}).status()
    clips = (clip_of("a", S), clip_of("b", seconds(20.0)))
    halves = []
    for clip, facts in zip(clips, (SEEN, OTHER_CONTENT), strict=True):
        values = {"clip": np.ones((1, 4), "float32")}
        halves.append(
            made_store(tmp_path / clip.clip_id, [row_of(clip, facts)], values)
        )
    merged = merge(halves, tmp_path / "both", workspace=tmp_path)
    assert merged.warnings == [
        "the clips of these films were read from different files: A"
    ]
    # Two clips with files of their own are no parts of one file.
    own = []
    for name, facts in (("c", SEEN), ("d", OTHER_CONTENT)):
        row = row_of(clip_of(name, own_file(12.0)), facts)
        own.append(made_store(tmp_path / name, [row], values))
    assert merge(own, tmp_path / "files", workspace=tmp_path).warnings == []


@pytest.mark.parametrize(
    ("theirs", "how"),
    [
        (S, "as the same clips"),
        (seconds(12.002), "1 of them as other clips"),
        ({"movie_id": ""}, "1 of them by id only"),
    ],
)
def test_a_merger_says_which_shared_clips_are_the_same(theirs, how, tmp_path) -> None:
    values = {"clip": np.ones((1, 4), "float32")}
    stores = []
    manifests = []
    for name, facts in (("one", S), ("two", theirs)):
        clip = clip_of(X, facts)
        stores.append(made_store(tmp_path / name, [Row.of_clip(clip)], values))
        header = Header(name, films="" if facts["movie_id"] else "none")
        manifests.append(Manifest(name, header, (clip,)))
    with pytest.raises(Mismatch, match=f"1 clip .* in .*one, {how}: "):
        merge(stores, tmp_path / "both", workspace=tmp_path)
    if theirs["movie_id"]:
        with pytest.raises(AlreadyThere, match=f"1 clip is in two manifests, {how}: "):
            merged_manifest(manifests, "both")
