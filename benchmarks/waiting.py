"""How long a device waits for its clips: a stub with the fixed time a clip of a real GPU.

The stub is user code that sleeps. It stands for three backbones in one pass (`benchmarks.night`),
and sees the pictures that X-CLIP sees.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from benchmarks.night import CLIP_S, CLIPS_OF_A_FILM, Night, make_films
from benchmarks.timing import ROOT
from obygaze_features.core.console import table
from obygaze_features.core.machine import this_machine, usable_cores
from obygaze_features.extraction.costs import (
    KNOWN_DEVICES,
    KnownDevice,
    plan_extraction,
)

# Seconds of a clip: measured on an H100; an A100 by what its maker says of both (19.5 to 67 TFLOPS
# in float32, 312 to 989 in bfloat16).
SECONDS = {
    "A100, float32": 0.253,
    "A100, bfloat16": 0.029,
    "H100, float32": 0.074,
    "H100, bfloat16": 0.009,
}
STUB = """\
import time
from dataclasses import replace

import torch

from obygaze_features.backbones import Preset, module_card


def load():
    return torch.nn.Identity()


def run(module, pixels):
    begun = time.monotonic()
    time.sleep({seconds} * len(pixels))
    with open({log!r}, "a") as log:
        print(begun, time.monotonic(), file=log)
    return {{"clip": torch.zeros(len(pixels), 1)}}


def stub():
    card = module_card(
        "stub", load, run, arrays={{"clip": [1]}}, frames=32, size=224,
        licence="none", values="levels", preset=Preset(filter="bilinear"), files=[],
    )
    # For the plan, the stub does a billion operations a second.
    return replace(card, gflop={seconds} or 1e-9)
"""


def measure(quick: bool) -> str:
    """Return a table: for each device, its time a clip, and the share of time that it waits.

    Beside it stands the share that `extract plan` says.

    The first device takes no time, so that its clips a second are those of the decoders; the last
    one is half as fast as they are.
    """
    with TemporaryDirectory(prefix="obygaze-bench-") as name:
        folder = Path(name)
        films = make_films(folder / "films", 1, ROOT / ".cache" / "films")
        night = Night(folder, {}, "cpu", ())
        night.add_films(films, 2 if quick else CLIPS_OF_A_FILM)
        clips_a_second, *_ = extract_with_stub(night, 0.0)
        rows: list[tuple[str | None, ...]] = [
            ("none", "0 s", f"{clips_a_second:.1f}", None, None)
        ]
        devices = {**SECONDS, "half as fast as the decoders": 2 / clips_a_second}
        for device, seconds in devices.items():
            clips_a_second, share, planned = extract_with_stub(night, seconds)
            shares = (f"{share:.0%}", f"{planned:.0%}")
            rows.append((device, f"{seconds:.3f} s", f"{clips_a_second:.1f}", *shares))
    title = f"{night.n_clips} clips of {CLIP_S} s, 1280 x 544, H.264, {usable_cores()} cores"
    headers = ("device (stub)", "a clip", "clips a second", "waits", "plan")
    return "\n".join([title, table(headers, rows), this_machine(("torch",)).line()])


def extract_with_stub(night: Night, seconds: float) -> tuple[float, float, float]:
    """Extract all clips; return how many there were a second, and the share that the stub waited.

    Both count from the beginning of the first clip to the end of the last one. The last number is
    the share that the plan said.
    """
    log = night.workspace / f"{seconds}.log"
    code = night.workspace / "stub.py"
    text = STUB.format(seconds=seconds, log=str(log))
    code.write_text(text, encoding="utf-8")
    name = f"{code}:stub"
    stores = {name: f"stub-{seconds}"}
    with mock.patch.dict(KNOWN_DEVICES, stub=KnownDevice(1.0, 1.0)):
        planned = plan_extraction(
            "clips", name, stores=stores, device="stub", workspace=night.workspace
        )
    store = f"{name}=stub-{seconds}"
    night.run("extract", "run", "clips", "-b", name, "--store", store)
    times = []
    for line in log.read_text("utf-8").splitlines():
        begun, end = map(float, line.split())
        times.append((begun, end))
    whole_s = times[-1][1] - times[0][0]
    busy_s = sum(end - begun for begun, end in times)
    return len(times) / whole_s, 1 - busy_s / whole_s, planned.waits or 0.0
