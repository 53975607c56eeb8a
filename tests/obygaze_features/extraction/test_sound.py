from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.heard_films import RATE, noise, tone, write_film
from support.sounds import only, with_damage
from support.written_stores import lasting_bytes

import obygaze as og
from obygaze_features.backbones.actions import load_backbone
from obygaze_features.backbones.sound import ClipSound, SoundBackbone
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.video import DecodeJob, DecodePool
from obygaze_features.video.container import BadVideo
from obygaze_features.video.sound import SoundView

HEARD = "films.sound-descriptors"
SEEN = "films.descriptors"
# A film of 4 s has two clips; the last film is silent.
FILMS = ("loud", "soft", "mute")
TIMES = ((0.0, 1.5), (1.5, 4.0))


def samples_of(film: str) -> Any:
    """What the film plays, as it is stored: in steps of 1 / 32768."""
    samples = noise(4.0, len(film), 0.2) if film == "loud" else tone(4.0, level=0.1)
    return np.round(samples * 32768).astype(np.float32) / 32768


def make_films(folder: Path, films: tuple[str, ...] = FILMS) -> Manifest:
    clips = []
    for film in films:
        samples = None if film == "mute" else samples_of(film)
        write_film(folder / "videos" / f"{film}.mkv", 4.0, samples, seed=len(film))
        for number, (start_s, end_s) in enumerate(TIMES):
            times = {"start_s": start_s, "end_s": end_s}
            clips.append(Clip(f"{film}-{number}", film, video=f"{film}.mkv", **times))
    header = Header("Films", {}, video_root=str(folder / "videos"), licence="CC0-1.0")
    manifest = Manifest("films", header, tuple(clips))
    write_manifest(manifest, folder / "manifests" / "films.toml", force=True)
    return manifest


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Films, and the stores of one pass."""
    folder = tmp_path_factory.mktemp("heard")
    manifest = make_films(folder)
    extract(folder, manifest, "descriptors", "sound-descriptors")
    return folder


def extract(folder: Path, manifest: Any, *backbones: str, **options: Any) -> Any:
    return og.extract(manifest, backbones, workspace=folder, workers=1, **options)


def test_a_row_that_has_nothing_is_the_same_beside_another_sense(tmp_path) -> None:
    """The film `loud` has no pictures any more, and `mute` no sound."""
    manifest = make_films(tmp_path, ("loud", "mute"))
    videos = tmp_path / "videos"
    only("audio", videos / "loud.mkv", videos / "heard.mkv")
    (videos / "heard.mkv").replace(videos / "loud.mkv")
    extract(tmp_path, manifest, "descriptors", "sound-descriptors")
    stores = (("descriptors", SEEN, "failed"), ("sound-descriptors", HEARD, "silent"))
    for backbone, name, status in stores:
        store = og.open_store(tmp_path / "stores" / name)
        counts = {"ok": 2, status: 2}
        assert store.status().counts == counts
        extract(tmp_path / backbone, manifest, backbone)
        alone = tmp_path / backbone / "stores" / name
        assert lasting_bytes(alone) == lasting_bytes(tmp_path / "stores" / name)


def test_the_features_are_those_of_the_samples_of_the_clip(world: Path) -> None:
    backbone = load_backbone("sound-descriptors")
    assert isinstance(backbone, SoundBackbone)
    store = og.open_store(world / "stores" / HEARD)
    for film in ("loud", "soft"):
        for number, (start_s, end_s) in enumerate(TIMES):
            clip_id = f"{film}-{number}"
            samples = samples_of(film)[round(start_s * RATE) : round(end_s * RATE)]
            expected = backbone.forward([ClipSound(samples)])
            for name in ("clip", "pooled", "frames"):
                got = store.matrix(name, clips=[clip_id]).values[0]
                np.testing.assert_array_equal(got, expected[name][0].astype(got.dtype))
            # The centres of sixteen equal parts.
            times = store.matrix("time_s", clips=[clip_id]).values[0]
            centres = start_s + (np.arange(16) + 0.5) * (end_s - start_s) / 16
            np.testing.assert_allclose(times, centres, rtol=0, atol=1e-12)


def test_damaged_sound_fails_or_counts_as_missing(tmp_path: Path) -> None:
    manifest = make_films(tmp_path, ("loud",))
    loud = tmp_path / "videos" / "loud.mkv"
    # Packets have 1,152 samples: this one is heard at 2.5 s.
    with_damage(loud, tmp_path / "damaged.mkv", 34).replace(loud)
    extract(tmp_path, manifest, "sound-descriptors", "descriptors")
    whole, damaged = og.open_store(tmp_path / "stores" / HEARD).rows
    assert whole.status == "ok"
    assert damaged.status == "failed"
    assert damaged.reason.startswith("damaged: sound for 2.")
    seen = og.open_store(tmp_path / "stores" / SEEN).rows
    assert [row.status for row in seen] == ["ok", "ok"]
    again = {"retry_failed": True, "accept_damaged": True}
    extract(tmp_path, manifest, "sound-descriptors", **again)
    _, taken = og.open_store(tmp_path / "stores" / HEARD).rows
    assert taken.status == "ok"
    assert taken.reason.endswith("the rest is damaged or missing")


def test_a_clip_of_less_than_a_sample_is_too_short(world: Path) -> None:
    """The worker has no memory yet, and cannot map none."""
    view = SoundView(16000)
    job = DecodeJob(world / "videos" / "loud.mkv", (view,), 1.0, 1.00001)
    with DecodePool(1) as pool:
        result = pool.submit(job).result()
    with pytest.raises(BadVideo) as error:
        result.sound(view).check()
    assert error.value.reason == "too-short"


def test_a_plan_times_sound_by_a_film_that_has_sound(tmp_path: Path) -> None:
    both = ("descriptors", "sound-descriptors")
    make_films(tmp_path, ("mute", "soft"))
    seen, heard = og.extraction.plan("films", both, workspace=tmp_path).stores
    assert seen.forward_s and heard.forward_s
    make_films(tmp_path, ("mute",))
    seen, heard = og.extraction.plan("films", both, workspace=tmp_path).stores
    assert seen.forward_s and heard.forward_s is None
    assert (
        heard.sentences[-1] == "its time is not counted: silent: no sound in the file"
    )
