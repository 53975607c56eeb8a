"""A night on a GPU in some minutes: films to stores of pictures and sound, in one pass and in two.

The weights are random, of the shapes of the real ones, since times do not depend on them. Without
a GPU, one clip and two backbones show that all works, and the times say nothing.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.decode.films import character_films, make_film
from benchmarks.timing import OBYGAZE, ROOT
from obygaze_features.backbones.card import Card
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.geometry import Depth
from obygaze_features.backbones.lsmdc import lsmdc_model
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_file
from obygaze_features.core.machine import this_machine
from obygaze_features.video.container import av

PICTURES = ("xclip-b16-k600-zs", "vivit-b16x2-k400", "xclip-lsmdc-b16")
SOUND = ("wav2vec2-base", "wavlm-base-plus", "whisper-small", "clap-htsat-unfused")
PRECISIONS = ("float32", "bfloat16")
CHARACTERS = ("calm", "busy")
# A film repeats two pieces in an order of its own.
PIECE_S = 30
PIECES_OF_A_FILM = 5
N_FILMS = 16
CLIP_S = 5
CLIPS_OF_A_FILM = PIECE_S * PIECES_OF_A_FILM // CLIP_S
SAMPLES_A_SECOND = 10
SOUND_RATE = 48000
SOUND_FRAME = 1024
RIVAL = "torchcodec, transformers"


# --- Weights and films ---


def save_weights(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    """Save a checkpoint of the real shapes for some backbones; return where they are."""
    import torch
    import transformers

    torch.manual_seed(0)
    library: Any = transformers
    vision = {"patch_size": 16, "num_frames": 32}
    sizes = dict.fromkeys(("encoder_layers", "decoder_layers"), 12)
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 12)
    sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 3072)
    # The other sizes are those of the library.
    models = {
        "xclip-b16-k600-zs": (
            "XCLIPModel",
            library.XCLIPConfig(vision_config=vision, projection_dim=512),
        ),
        "vivit-b16x2-k400": ("VivitForVideoClassification", library.VivitConfig()),
        "wav2vec2-base": ("Wav2Vec2Model", library.Wav2Vec2Config()),
        "wavlm-base-plus": ("WavLMModel", library.WavLMConfig()),
        "whisper-small": ("WhisperModel", library.WhisperConfig(d_model=768, **sizes)),
        "clap-htsat-unfused": ("ClapModel", library.ClapConfig()),
    }
    paths = {name: folder / name for name in names}
    for name, path in paths.items():
        if name == "xclip-lsmdc-b16":
            _save_lsmdc(find_card(name), path)
        else:
            class_name, config = models[name]
            getattr(library, class_name)(config).save_pretrained(path)
    return paths


def _save_lsmdc(card: Card, folder: Path) -> None:
    import torch

    depth = Depth(**card.depth, patch=card.geometry.size // card.geometry.grid[1])
    geometry = replace(card.geometry, depth=depth)
    model = lsmdc_model(geometry, None, geometry.frames, "sdpa")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    folder.mkdir()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


def make_films(folder: Path, n_films: int, pieces: Path) -> list[Path]:
    """Make films whose clips differ, from two pieces of 30 seconds, without coding them again.

    Each has a sound of its own.
    """
    specs = {spec.character: spec for spec in character_films(PIECE_S)}
    made = [make_film(specs[character], pieces) for character in CHARACTERS]
    folder.mkdir(parents=True)
    orders = itertools.product(made, repeat=PIECES_OF_A_FILM)
    films = []
    for number, order in enumerate(itertools.islice(orders, n_films)):
        path = folder / f"film{number:02d}.mp4"
        _join(order, path, _noise(number))
        films.append(path)
    return films


def _join(pieces: Sequence[Path], path: Path, sound: Iterator[Any]) -> None:
    """Write the packets of several files, one file after another, and a sound beside them."""
    with av().open(str(path), "w") as out:
        heard = out.add_stream("aac", rate=SOUND_RATE, layout="stereo")
        stream = None
        offset = 0
        for piece in pieces:
            with av().open(str(piece)) as source:
                video = source.streams.video[0]
                if stream is None:
                    stream = out.add_stream_from_template(video)
                end = 0
                for packet in source.demux(video):
                    if packet.dts is None:
                        continue
                    end = max(end, packet.pts + packet.duration)
                    packet.pts += offset
                    packet.dts += offset
                    end_s = (packet.pts + packet.duration) * video.time_base
                    packet.stream = stream
                    out.mux(packet)
                    for frame in sound:
                        out.mux(heard.encode(frame))
                        if frame.pts * frame.time_base > end_s:
                            break
            offset += end
        out.mux(heard.encode())


def _noise(seed: int) -> Iterator[Any]:
    """Yield frames of noise without end."""
    random = np.random.default_rng(seed)
    for number in itertools.count():
        samples = random.normal(0, 0.1, (2, SOUND_FRAME)).astype(np.float32)
        frame = av().AudioFrame.from_ndarray(samples, "fltp", "stereo")
        frame.sample_rate = SOUND_RATE
        frame.time_base = Fraction(1, SOUND_RATE)
        frame.pts = number * SOUND_FRAME
        yield frame


# --- Passes ---


@dataclass
class Night:
    """A workspace with films, a manifest of their clips, and weights."""

    workspace: Path
    weights: Mapping[str, Path]
    device: str
    backbones: Sequence[str]
    n_clips: int = 0

    def add_films(self, films: Sequence[Path], clips_of_a_film: int) -> None:
        """Write the manifest of all clips, linked to their films."""
        rows = []
        for film in films:
            for number in range(clips_of_a_film):
                start_s = number * CLIP_S
                clip_id = f"{film.stem}-{number:03d}"
                rows.append((clip_id, film.stem, start_s, start_s + CLIP_S))
        path = self.workspace / "clips.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("clip_id", "movie_id", "start_s", "end_s"))
            writer.writerows(rows)
        self.n_clips = len(rows)
        self.run("manifest", "import", str(path), "-o", "clips")
        self.run("manifest", "link", "clips", str(films[0].parent))

    def run(self, *words: str) -> str:
        """Run a command of obygaze, and return what it printed."""
        line = [*OBYGAZE, "-C", str(self.workspace), *words]
        done = subprocess.run(
            line, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise FixInput(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def words_of(self, names: Sequence[str], tag: str, dtype: str) -> list[str]:
        """Return the options that name the backbones, their weights and stores."""
        words = ["--device", self.device, "--dtype", dtype]
        for name in names:
            words += ["-b", name, "--weights", f"{name}={self.weights[name]}"]
            words += ["--store", f"{name}={tag}.{name}"]
        return words

    def extract(self, names: Sequence[str], tag: str, dtype: str) -> None:
        """Extract all clips with some backbones in one pass."""
        self.run("extract", "run", "clips", *self.words_of(names, tag, dtype))

    def planned_s(self, dtype: str) -> tuple[float | None, float]:
        """Return the seconds of one clip that `plan` measures: to decode, and to compute."""
        words = self.words_of(self.backbones, "planned", dtype)
        plan = json.loads(self.run("extract", "plan", "clips", *words, "--json"))
        return plan["decode_s"], sum(store["forward_s"] for store in plan["stores"])

    def require_equal(self, tag: str, other: str) -> None:
        """Raise an error unless the stores of two tags have equal features, to the byte."""
        for name in self.backbones:
            folder = self.workspace / "stores" / f"{tag}.{name}"
            same = self.workspace / "stores" / f"{other}.{name}"
            for path in folder.rglob("*"):
                twin = same / path.relative_to(folder)
                if path.is_file() and sha256_file(path) != sha256_file(twin):
                    raise Corrupt(f"{path} differs from {twin}")


# --- What the device does meanwhile ---


@dataclass
class Watch:
    """Samples of a GPU: its busy share in percent, and its memory in bytes.

    `cpu_s` is the CPU time of the processes that the work started and that have ended.
    """

    busy: list[int] = field(default_factory=list)
    n_bytes: list[int] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def during(self, work: Callable[[], object]) -> Watch:
        """Do some work, and sample the GPU until it ends."""
        over = threading.Event()
        sampler = threading.Thread(target=self._sample, args=(over,))
        sampler.start()
        started = time.monotonic()
        cpu_before_s = _cpu_of_children_s()
        try:
            work()
        finally:
            self.wall_s = time.monotonic() - started
            self.cpu_s = _cpu_of_children_s() - cpu_before_s
            over.set()
            sampler.join()
        return self

    def _sample(self, over: threading.Event) -> None:
        with suppress(ImportError):
            import pynvml

            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
                while not over.wait(1 / SAMPLES_A_SECOND):
                    self.busy.append(pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu)
                    self.n_bytes.append(pynvml.nvmlDeviceGetMemoryInfo(gpu).used)

    @property
    def steady(self) -> slice:
        """The samples from the first to the last in which the GPU was over half as busy as at most.

        Before them a process imports its packages and reads its weights; after them it seals.
        """
        at_work = [n for n, share in enumerate(self.busy) if share > max(self.busy) / 2]
        return slice(at_work[0], at_work[-1] + 1) if at_work else slice(0)

    def row(self, title: str, n_clips: int) -> tuple[str | None, ...]:
        """Return the row of the table that says what the work took."""
        busy = self.busy[self.steady]
        steady_s = len(busy) / SAMPLES_A_SECOND
        return (
            title,
            f"{self.wall_s:.0f} s",
            f"{n_clips / self.wall_s:.1f}",
            f"{n_clips / steady_s:.1f}" if steady_s else None,
            f"{sum(busy) / len(busy):.0f} %" if busy else None,
            human(max(self.n_bytes)) if self.n_bytes else None,
            f"{self.cpu_s / n_clips:.2f} s",
        )


def _cpu_of_children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


# --- The plain loop ---


class PlainClips:
    """Clips as a data set of torch: 32 pictures of each, from torchcodec, scaled and cropped."""

    def __init__(self, table_path: Path, folder: Path) -> None:
        with table_path.open(encoding="utf-8", newline="") as file:
            self.rows = list(csv.DictReader(file))
        self.folder = folder

    def __len__(self) -> int:
        """Return the number of clips."""
        return len(self.rows)

    def __getitem__(self, number: int) -> Any:
        """Return the pictures of a clip [32, 3, 224, 224]."""
        import torch
        from torchcodec.decoders import VideoDecoder

        torch.set_num_threads(1)
        row = self.rows[number]
        path = self.folder / f"{row['movie_id']}.mp4"
        decoder = VideoDecoder(str(path), num_ffmpeg_threads=1)
        rate = decoder.metadata.average_fps
        first = round(float(row["start_s"]) * rate)
        last = round(float(row["end_s"]) * rate) - 1
        places = torch.linspace(first, last, 32).long().tolist()
        pictures = decoder.get_frames_at(places).data.float()
        height, width = pictures.shape[-2:]
        scale = 224 / min(height, width)
        size = (round(height * scale), round(width * scale))
        pictures = torch.nn.functional.interpolate(
            pictures, size=size, mode="bilinear", antialias=True
        )
        top = (size[0] - 224) // 2
        left = (size[1] - 224) // 2
        return pictures[..., top : top + 224, left : left + 224].round().byte()


def plain_loop(table_path: str, folder: str, weights: str, dtype: str) -> None:
    """Compute the vectors of X-CLIP for all clips as a script would; on a GPU."""
    import torch
    from torch.utils.data import DataLoader
    from transformers import XCLIPModel

    from obygaze_features.core.machine import usable_cores

    model: Any = XCLIPModel.from_pretrained(weights, dtype=getattr(torch, dtype))
    model = model.to("cuda").eval()
    clips: Any = PlainClips(Path(table_path), Path(folder))
    batches = DataLoader(
        clips,
        batch_size=16,
        num_workers=usable_cores(),
        pin_memory=True,
        prefetch_factor=4,
    )
    with torch.inference_mode():
        for batch in batches:
            pixels = batch.to("cuda", non_blocking=True).float().div_(127.5).sub_(1)
            model.get_video_features(pixels.to(model.dtype))
    torch.cuda.synchronize()


# --- The figures ---


def measure(quick: bool) -> str:
    """Return a table of passes: time, clips a second, how busy the GPU was, and its memory."""
    import torch

    on_gpu = torch.cuda.is_available() and not quick
    n_films = N_FILMS if on_gpu else 1
    clips_of_a_film = CLIPS_OF_A_FILM if on_gpu else 1
    pictures = PICTURES if on_gpu else PICTURES[-1:]
    sound = SOUND if on_gpu else SOUND[:1]
    precisions = PRECISIONS if on_gpu else PRECISIONS[:1]
    rows: list[tuple[str | None, ...]] = []
    lines = []
    with TemporaryDirectory(prefix="obygaze-bench-") as name:
        folder = Path(name)
        films = make_films(folder / "films", n_films, ROOT / ".cache" / "films")
        device = "cuda" if on_gpu else "cpu"
        names = (*pictures, *sound)
        night = Night(folder, save_weights(folder, names), device, names)
        night.add_films(films, clips_of_a_film)
        for dtype in precisions:
            rows += _passes(night, {"pictures": pictures, "sound": sound}, dtype)
            decode_s, forward_s = night.planned_s(dtype)
            lines.append(
                f"plan, {dtype}: {decode_s or 0:.3f} s to decode a clip with one process,"
                f" {forward_s:.4f} s to compute it"
            )
        if on_gpu and find_spec("torchcodec") is not None:
            rows.append(_plain_row(night, films[0].parent))
    headers = (
        "pass",
        "wall time",
        "clips a second",
        "without start",
        "GPU busy",
        "peak memory",
        "CPU time of a clip",
    )
    title = f"{n_films * clips_of_a_film} clips of {CLIP_S} s, 1280 x 544, H.264, AAC"
    gpu = torch.cuda.get_device_name(0) if on_gpu else "not measured on a GPU"
    machine = this_machine(("torch", "transformers")).line()
    return "\n".join([title, table(headers, rows), *lines, gpu, machine])


def _passes(
    night: Night, parts: Mapping[str, Sequence[str]], dtype: str
) -> list[tuple[str | None, ...]]:
    """Extract in one pass, and once more part by part; the features must be equal."""
    together = partial(night.extract, night.backbones, f"one-{dtype}", dtype)
    title = f"{' and '.join(parts)}, {dtype}"
    rows = [Watch().during(together).row(title, night.n_clips)]
    for part, names in parts.items():
        alone = partial(night.extract, names, f"parts-{dtype}", dtype)
        rows.append(Watch().during(alone).row(f"{part}, {dtype}", night.n_clips))
    night.require_equal(f"one-{dtype}", f"parts-{dtype}")
    return rows


def _plain_row(night: Night, films: Path) -> tuple[str | None, ...]:
    weights = night.weights[PICTURES[0]]
    words = (str(night.workspace / "clips.csv"), str(films), str(weights), "bfloat16")
    line = [sys.executable, "-m", "benchmarks.night", *words]
    watch = Watch().during(lambda: subprocess.run(line, cwd=ROOT, check=True))
    return watch.row(f"{RIVAL}: {PICTURES[0]}, bfloat16", night.n_clips)


if __name__ == "__main__":
    plain_loop(*sys.argv[1:])
