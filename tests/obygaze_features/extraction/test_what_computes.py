import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import Result, call_obygaze
from support.extraction import film_folder, keep_manifest, run
from support.simulated_gpu import SimulatedGpu
from support.written_stores import lasting_bytes

from obygaze_features.backbones import devices
from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction.costs import Cost, StoreCost
from obygaze_features.extraction.results import Watch
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import layout

# A block of four clips, and one of two.
N_CLIPS = 6
CARD = "tiny-dinov2"
STORE = Path("stores", f"films.{CARD}")
ON_CPU = "computes on the CPU"


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    monkeypatch.setattr(layout, "CLIPS_OF_A_BLOCK", 4)
    manifest = film_folder(tmp_path, N_CLIPS)
    keep_manifest(manifest, tmp_path)
    write_tiny_card("dinov2", tmp_path / "backbones")
    save_tiny("dinov2", tmp_path / "weights")
    return manifest


def extract(folder: Path, verb: str, *words: str) -> Result:
    return call_obygaze("-C", folder, "extract", verb, "films", *words)


def stop_at_row(number: int) -> Watch:
    seen: list[int] = []

    def watch(row: int, failed: bool) -> None:
        seen.append(row)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGINT)

    return watch


def use_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs, and other programs use both."""
    used_mb = {"0": 60_000, "1": 2001}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "_used_mb", lambda: used_mb)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)


def test_the_first_line_says_what_computes(films: Manifest, tmp_path: Path) -> None:
    kept = extract(tmp_path, "run", "-b", "frames:descriptors").ok()
    assert "computes on" not in kept.stderr
    done = extract(tmp_path, "run", "-b", "descriptors").ok()
    assert done.stderr.splitlines()[0] == ON_CPU
    assert "kept frames are read" in done.stderr.splitlines()[1]
    again = extract(tmp_path, "run", "-b", "descriptors").ok()
    assert "computes on" not in again.stderr


def test_no_idle_gpu_stops_what_would_use_one(films, tmp_path, monkeypatch) -> None:
    use_no_gpu(monkeypatch)
    network = ("-b", CARD, "--weights", str(tmp_path / "weights"))
    for verb in ("run", "plan"):
        done = extract(tmp_path, verb, *network)
        assert done.code == 2
        sentence, hint = done.stderr.splitlines()
        busy = "no GPU is idle: each has more than 2,000 MB of memory in use"
        assert sentence.endswith(busy)
        assert hint.endswith("--device cuda:0, or --device cpu")
    assert not (tmp_path / "stores").exists()
    # Each task decides on its own node, and these name what computes.
    script = ("--tasks", "2", "-o", str(tmp_path / "night.sh"))
    extract(tmp_path, "slurm", *network, *script).ok()
    assert "--device" not in (tmp_path / "night.sh").read_text("utf-8")
    on_h100 = ("plan", *network, "--device", "h100")
    refused = extract(tmp_path, *on_h100)
    assert refused.code == 2 and "states no operations (gflop)" in refused.stderr
    card = tmp_path / "backbones" / f"{CARD}.toml"
    card.write_text("gflop = 33.0\n" + card.read_text("utf-8"), "utf-8")
    # 33,000 billions of operations a second.
    planned = extract(tmp_path, *on_h100, "--json").ok().json()
    assert planned["stores"][0]["forward_s"] == pytest.approx(0.001)
    done = extract(tmp_path, "run", *network, "--device", "cpu").ok()
    assert done.stderr.splitlines()[0] == ON_CPU
    extract(tmp_path, "run", "-b", "descriptors").ok()


def test_a_plan_counts_the_seconds_of_missing_clips_only(films, tmp_path) -> None:
    network = ("-b", CARD, "--weights", f"{CARD}={tmp_path / 'weights'}")
    extract(tmp_path, "run", *network, "--device", "cpu").ok()
    options = (*network, "-b", "descriptors", "--device", "cpu", "--workers", "2")
    plan = extract(tmp_path, "plan", *options, "--json").ok().json()
    complete, missing = plan["stores"]
    assert (complete["to_extract"], missing["to_extract"]) == (0, N_CLIPS)
    of_core = N_CLIPS * (plan["decode_s"] + missing["forward_s"])
    assert plan["seconds"] == pytest.approx(of_core / 2)
    # The card states no operations, and a complete store needs none.
    plan = extract(tmp_path, "plan", *network, "--device", "h100", "--json").ok().json()
    assert (plan["stores"][0]["forward_s"], plan["seconds"]) == (None, 0)


@pytest.mark.parametrize(
    ("is_second_seen", "n_heard"), [(True, 0), (False, 4), (False, 0)]
)
def test_a_plan_proposes_to_decode_first_if_no_sound_is_missing(
    is_second_seen: bool, n_heard: int
) -> None:
    """Sound is never kept: its clips would be decoded while the GPU waits."""
    stores = []
    for n_missing, is_seen in ((4, True), (n_heard, is_second_seen)):
        facts = {"clips": 4, "n_bytes": 0, "is_on_gpu": True, "sentences": ()}
        stores.append(
            StoreCost(
                store="x",
                to_extract=n_missing,
                forward_s=0.5,
                takes_pictures=is_seen,
                **facts,
            )
        )
    cost = Cost("films", 4, 4, 10.0, stores, device="h100", workers=2)
    assert f"{80 // (4 + n_heard)} cores would keep it busy" in str(cost)
    assert ("decode first" in str(cost)) == (n_heard == 0)
    seconds = None if n_heard else (20.0, 2.0)
    assert cost.to_json()["decode_first_s"] == seconds


def test_a_plan_counts_clips_with_a_video_or_with_kept_frames(films, tmp_path) -> None:
    """Of one clip, the manifest names no video; the file of another is not on this machine."""

    def n_to_extract(*options: str) -> int:
        plan = extract(tmp_path, "plan", "-b", "descriptors", "--json", *options).ok()
        return int(plan.json()["stores"][0]["to_extract"])

    unlinked, away, *others = films
    clips = [replace(unlinked, video=""), away, *others]
    keep_manifest(films.with_clips(clips), tmp_path)
    away_file = tmp_path / "videos" / away.video
    moved = away_file.rename(tmp_path / "away.mp4")
    assert n_to_extract() == N_CLIPS - 2
    assert n_to_extract("--device", "h100") == N_CLIPS - 1
    moved.rename(away_file)
    keep_manifest(films, tmp_path)
    extract(tmp_path, "run", "-b", "frames:descriptors").ok()
    away_file.unlink()
    assert n_to_extract() == N_CLIPS


def test_a_store_that_the_cpu_fills_names_the_way_on(films, tmp_path, monkeypatch):
    options = {"weights": {CARD: str(tmp_path / "weights")}}
    on_gpu: list[str] = []
    run(films, tmp_path, CARD, stores={CARD: "undisturbed"}, **options)
    run(films, tmp_path, CARD, watch=stop_at_row(5), **options)
    with SimulatedGpu():
        of_cpu = "on the CPU, but this command would use a GPU"
        with pytest.raises(Mismatch, match=of_cpu) as error:
            run(films, tmp_path, CARD, **options)
        assert "(use --device cpu)" in error.value.message
        assert "or discard it: rm -r " in error.value.hint
        run(films, tmp_path, CARD, device="cpu", **options)
        store = {CARD: "of-a-gpu"}
        run(films, tmp_path, CARD, stores=store, note=on_gpu.append, **options)
    assert on_gpu[0] == "computes on cuda:0 (Simulated GPU)"
    undisturbed = tmp_path / "stores" / "undisturbed"
    assert lasting_bytes(tmp_path / STORE) == lasting_bytes(undisturbed)


def test_what_is_there_is_sealed_wherever_a_command_runs(films, tmp_path, monkeypatch):
    options = {"weights": {CARD: str(tmp_path / "weights")}}
    notes: list[str] = []
    with SimulatedGpu():
        run(films, tmp_path, CARD, watch=stop_at_row(5), **options)
    # The CPU would not continue this store.
    use_no_gpu(monkeypatch)
    (state,) = run(films, tmp_path, CARD, seal_now=True, note=notes.append, **options)
    assert state.seal
    assert 0 < state.ok < N_CLIPS
    assert not any("computes on" in note for note in notes)
