import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import Result, call_obygaze
from support.damage import flip_bits_visibly
from support.extraction import films_with_failures, keep_manifest, run
from support.stores import made_store, some_rows, some_values
from support.videos import write_video
from support.written_stores import lasting_bytes

from obygaze_features.core.errors import (
    AlreadyThere,
    FixUsage,
    Mismatch,
    ObygazeError,
    ObygazeWarning,
)
from obygaze_features.extraction import cases, extracting
from obygaze_features.extraction.compute import ThreadComputer
from obygaze_features.extraction.stored import store_status
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.same_clips import SAME_PLAN, VIDEO
from obygaze_features.store import layout
from obygaze_features.store.changing import subset
from obygaze_features.store.filling import Filling
from obygaze_features.store.reading import open_store

STORE = "films.descriptors"
# A block of eight and one of four.
N_CLIPS = 12


@pytest.fixture(scope="module", autouse=True)
def blocks_of_eight_clips() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "CLIPS_OF_A_BLOCK", 8)
        yield


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return films_with_failures(tmp_path_factory.mktemp("films"), N_CLIPS)


@pytest.fixture(scope="module")
def undisturbed(films: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that one process made, with two decoders."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(films, folder, workers=2)
    return folder / "stores" / STORE


@pytest.fixture
def world(films: Manifest, tmp_path: Path) -> Path:
    """A workspace with the manifest and without stores."""
    keep_manifest(films, tmp_path)
    (tmp_path / "stores").mkdir()
    return tmp_path


def at_row(number: int, what: Callable[[], object]) -> Callable[[int, bool], None]:
    """A `watch` that does something at the n-th decoded row."""
    seen: list[int] = []

    def watch(row: int, failed: bool) -> None:
        seen.append(row)
        if len(seen) == number:
            what()

    return watch


def stopped() -> Callable[[int, bool], None]:
    return at_row(10, lambda: os.kill(os.getpid(), signal.SIGINT))


def some_clips(manifest: Manifest, numbers: Sequence[int]) -> Manifest:
    clips = list(manifest.clips)
    return manifest.with_clips([clips[number] for number in numbers])


def test_a_store_that_is_sealed_while_looked_at(films, world, undisturbed, monkeypatch):
    """Another process finishes and removes the blocks that are about to be read."""
    run(films, world, watch=stopped())
    store = world / "stores" / STORE
    read_block = Filling.read_block

    def seal_before(filling: Filling, block: int) -> object:
        monkeypatch.setattr(Filling, "read_block", read_block)
        run(films, world)
        return read_block(filling, block)

    monkeypatch.setattr(Filling, "read_block", seal_before)
    assert store_status(store).seal == open_store(store).seal
    assert lasting_bytes(store) == lasting_bytes(undisturbed)


def test_a_broken_device_ends_the_run_early_on(films, world, undisturbed, monkeypatch):
    forward = ThreadComputer.forward

    def broken(computer: ThreadComputer, *arguments: Any) -> dict[str, Any]:
        arrays = forward(computer, *arguments)
        return {name: np.full_like(array, np.nan) for name, array in arrays.items()}

    monkeypatch.setattr(ThreadComputer, "forward", broken)
    # Begin at the last block: it has fewer clips than must fail before the device counts as broken.
    monkeypatch.setattr("secrets.randbelow", lambda most: most - 1)
    with pytest.raises(ObygazeError, match="8 clips in a row failed") as error:
        run(films, world)
    # It computes in float32 already.
    hint = "use a different --device, because this device may be broken"
    assert error.value.hint == hint
    store = world / "stores" / STORE
    assert list((world / "stores").iterdir()) == []
    monkeypatch.setattr(ThreadComputer, "forward", forward)
    run(films, world)
    assert lasting_bytes(store) == lasting_bytes(undisturbed)


def test_a_run_whose_store_is_changed_meanwhile_says_it_added_nothing(films, world):
    run(some_clips(films, [0, 1, 10, 11]), world)
    store = world / "stores" / STORE

    def change() -> None:
        shutil.rmtree(store.with_name(f"{STORE}.next"))
        subset(store, world / "rest", without=["tt1"])
        store.rename(world / "before")
        (world / "rest").rename(store)

    with pytest.raises(Mismatch, match="were not added: another command") as error:
        run(films, world, watch=at_row(3, change))
    assert str(store) in str(error.value)
    assert len(open_store(store)) == 2
    assert run(films, world)[0].clips == len(films)


def test_a_device_that_fails_is_named(films, world, monkeypatch) -> None:
    def failed(computer: ThreadComputer, *arguments: Any) -> dict[str, Any]:
        raise RuntimeError("CUDA error: an illegal memory access\nmore lines")

    monkeypatch.setattr(ThreadComputer, "forward", failed)
    with pytest.raises(ObygazeError, match="the GPU failed: CUDA error: an") as error:
        run(films, world)
    assert error.value.where == "cpu"


def extract(folder: Path, verb: str, *words: str) -> Result:
    return call_obygaze("-C", folder, "extract", verb, *words)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--arrays", "clip,none"), 2, "no array none"),
        (("-b", "descriptors"), 2, "a separate store for each backbone"),
        (("--seal-now",), 1, "blocks are missing"),
    ],
)
def test_invalid_options_leave_no_store(world, words, code, message) -> None:
    done = extract(world, "run", "films", "-b", "descriptors", *words)
    assert (done.code, message in done.stderr) == (code, True), done.stderr
    assert not list(world.glob("stores/*"))


def test_the_status_counts_blocks_while_a_store_is_filled(world, films) -> None:
    """Also of a store that is changed: its rows count, and those that are still to compute."""
    run(some_clips(films, range(4)), world)

    def stop(row: int, failed: bool) -> None:
        signal.raise_signal(signal.SIGTERM)

    done = run(films, world, watch=stop, workers=1)
    assert done.stop.signal_name == "SIGTERM"
    (state,) = extract(world, "status", "films", "--json").ok().json()["stores"]
    assert (state["clips"], state["sealed"], state["blocks"]) == (N_CLIPS, False, 2)
    assert state["blocks_done"] == 0
    assert (state["ok"], state["not_extracted"]) == (4, N_CLIPS - 4)
    text = extract(world, "status", "films.descriptors").ok().stdout
    assert "being filled, 0 of 2 blocks; 12 clips: 4 ok, 8 not-extracted" in text
    run(films, world)
    text = extract(world, "status", "films.descriptors").ok().stdout
    assert "sealed; 12 clips: 9 ok, 2 failed, 1 no-video" in text


def test_a_licence_that_was_corrected_stays(films: Manifest, world: Path) -> None:
    """Clips that are added under another licence or citation of their manifest are a warning.

    A licence that was typed for the new clips is none.
    """
    run(films.with_clips(films.clips[:8]), world)
    card = world / "stores" / STORE / "README.md"
    text = card.read_text("utf-8")
    card.write_text(text.replace("cc0-1.0", "cc-by-nc-4.0", 1), "utf-8")
    with pytest.raises(
        AlreadyThere, match="a different licence or citation is stated already"
    ):
        run(films, world, licence="CC-BY-4.0")
    with pytest.warns(ObygazeWarning, match="not those of the manifest films"):
        run(films.with_clips(films.clips[:10]), world)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ObygazeWarning)
        run(films, world, licence="cc-by-nc-4.0")
    store = open_store(world / "stores" / STORE)
    assert (len(store), store.terms.licence) == (N_CLIPS, "CC-BY-NC-4.0")


@pytest.mark.parametrize(
    ("n_clips", "retry_failed"), [(8, False), (8, True), (N_CLIPS, False)]
)
def test_a_store_without_a_licence_gets_the_typed_one(
    films, world, n_clips, retry_failed
) -> None:
    """Also if the run adds no features: all failed clips fail again, or none is computed."""
    run(films.with_clips(films.clips[:8]), world)
    store = world / "stores" / STORE
    card = store / "README.md"
    card.write_text(card.read_text("utf-8").replace("cc0-1.0", "unknown", 1), "utf-8")
    now = films.with_clips(films.clips[:n_clips])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ObygazeWarning)
        run(now, world, licence="CC-BY-4.0", retry_failed=retry_failed)
    assert "Licence: CC-BY-4.0" in card.read_text("utf-8")
    stored = open_store(store)
    assert (len(stored), stored.terms.licence) == (n_clips, "CC-BY-4.0")


@pytest.mark.parametrize(("typed", "kept"), [("", "CC-BY-4.0"), ("MIT", "MIT")])
def test_a_continued_extraction_keeps_the_licence_of_its_start(
    films: Manifest, world: Path, typed: str, kept: str
) -> None:
    run(films, world, watch=stopped(), licence="CC-BY-4.0")
    assert not (world / "stores" / STORE).exists()
    run(films, world, licence=typed)
    assert open_store(world / "stores" / STORE).terms.licence == kept


def test_a_licence_that_no_card_can_have_is_refused_at_the_start(films, world):
    with pytest.raises(FixUsage, match="the licence or the citation is not UTF-8"):
        run(films, world, licence="caf\udce9")
    assert not list((world / "stores").glob("*"))


def test_the_advice_for_a_film_that_is_damaged_in_one_clip_is_true(tmp_path) -> None:
    """Its other clip has features, so the store does not take the repaired file."""
    video = write_video(tmp_path / "a.mp4", numbers=range(50), size=(64, 48))
    whole = video.read_bytes()
    flip_bits_visibly(Path(shutil.copy(video, tmp_path / "whole.mp4")), video, {30})
    clips = [Clip(f"a-{n}", "a", n, "a.mp4", n * 1.0, n + 1.0) for n in range(2)]
    films = Manifest("films", Header("Films", video_root=str(tmp_path)), tuple(clips))
    done = run(films, tmp_path)
    assert (done[0].ok, done[0].counts["failed"]) == (1, 1)
    advice = "--store BACKBONE=NAME if a corrected file has features of other clips"
    assert any(advice in note for note in done.notes)
    video.write_bytes(whole)
    with pytest.raises(Mismatch, match="changed since the extraction"):
        run(films, tmp_path, retry_failed=True)
    assert run(films, tmp_path, stores={"descriptors": "other"})[0].ok == 2


def write_bad_files(folder: Path, good: bytes) -> list[str]:
    """Write what is no video, and return the names; the first two are not there."""
    contents = {
        "empty.mp4": b"",
        "text.mp4": b"a text that is called a video\n" * 50,
        "noise.mp4": np.random.default_rng(0).bytes(5000),
        "cut.mp4": good[: len(good) // 3],
        "head.mp4": good[:40],
        "picture.mp4": b"\x89PNG\r\n\x1a\n" + bytes(100),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.mp4").mkdir()
    (folder / "link.mp4").symlink_to("nowhere.mp4")
    os.mkfifo(folder / "pipe.mp4")
    return ["none.mp4", "link.mp4", *contents, "folder.mp4", "pipe.mp4"]


def test_invalid_clips_do_not_change_the_others(tmp_path: Path) -> None:
    """Good and bad clips by turns; the good ones are copies of one file."""
    good = write_video(tmp_path / "good.mp4", numbers=range(16), size=(64, 48))
    bad = write_bad_files(tmp_path, good.read_bytes())
    names = []
    for number, name in enumerate(bad):
        copy = shutil.copy(good, tmp_path / f"{number}.mp4")
        names += [Path(copy).name, name]
    clips = [Clip(f"c{n:02d}", "tt", n, name) for n, name in enumerate(names)]
    header = Header("Many", {}, video_root=str(tmp_path))
    done = run(Manifest("many", header, tuple(clips)), tmp_path, workers=2)
    assert done.exit_code == 3
    store = open_store(tmp_path / "stores" / "many.descriptors")
    statuses = [row.status for row in store.rows]
    assert statuses[::2] == ["ok"] * len(bad)
    assert statuses[1::2] == ["no-video"] * 2 + ["failed"] * (len(bad) - 2)
    assert store.rows[1].reason == "no such file"
    values = store.matrix("clip", missing="drop").values
    np.testing.assert_array_equal(values, np.repeat(values[:1], len(bad), axis=0))


def test_a_film_of_which_workers_read_two_files_is_not_sealed(tmp_path, monkeypatch):
    """The second worker compared its manifest before the first one had finished a block."""
    film = tmp_path / "videos" / "a.mkv"
    film.parent.mkdir()
    write_video(film, numbers=range(40), size=(64, 48))
    clips = []
    for number in range(N_CLIPS):
        start_s = number / 20
        times = {"start_s": start_s, "end_s": start_s + 0.05}
        clips.append(Clip(f"a-{number:02d}", "a", video=film.name, **times))
    header = Header("Films", {}, video_root=str(film.parent))
    manifest = Manifest("films", header, tuple(clips))
    run(manifest, tmp_path, watch=stopped())
    write_video(film, numbers=range(40, 80), size=(64, 48))
    blind = SAME_PLAN._replace(refused=SAME_PLAN.refused & ~VIDEO)
    monkeypatch.setattr(cases, "SAME_PLAN", blind)
    monkeypatch.setattr(extracting, "_files_read_before", lambda *_: {})
    replaced = "videos were replaced while their clips were extracted"
    with pytest.raises(Mismatch, match=replaced):
        run(manifest, tmp_path)
    assert not (tmp_path / "stores" / STORE).exists()


def test_no_store_is_extracted_into_another_one(films, world, undisturbed) -> None:
    before = lasting_bytes(undisturbed)
    with pytest.raises(AlreadyThere, match="outside this store"):
        run(films, world, stores={"descriptors": str(undisturbed / "inside")})
    assert lasting_bytes(undisturbed) == before


def test_a_store_that_is_always_finished_by_others_is_no_endless_loop(
    films: Manifest, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(*_: Any) -> None:
        asked.append(1)
        assert len(asked) < 20
        raise AlreadyThere("finished by another process")

    monkeypatch.setattr(extracting, "open_filling", refuse)
    with pytest.raises(AlreadyThere, match="finished by another process"):
        run(films, world)
    assert len(asked) == 5


def test_the_status_of_a_manifest_has_no_stores_of_others(films, undisturbed, tmp_path):
    keep_manifest(films, tmp_path)
    shutil.copytree(undisturbed, tmp_path / "stores" / STORE)
    made_store(tmp_path / "stores" / "theirs", some_rows(3), some_values(3))
    done = call_obygaze("extract", "status", "films", "--json", cwd=tmp_path).ok()
    assert STORE in done.stdout
    assert "theirs" not in done.stdout
