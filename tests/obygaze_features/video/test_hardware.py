"""Pictures from the decoder of a GPU: those of the CPU at the times of the index, or a reason."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.generated_videos import CODECS, draw, make
from support.gpu_decoders import forget_decoders, install_stand_in, remove_torchcodec
from support.videos import read_numbers, write_video

from obygaze_features.core.errors import FixInput, FixUsage, InstallExtra
from obygaze_features.video import film, hardware, resize_on_device
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip, decode_views
from obygaze_features.video.decoded_clip import DecodedClip, View
from obygaze_features.video.hardware_check import (
    HEIGHT,
    WIDTH,
    require_gpu_decoder,
    write_coloured_film,
)
from obygaze_features.video.resize import RESIZERS, Resize

X264 = {"preset": "veryfast", "sc_threshold": "0"}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with a GPU whose decoder is honest."""
    install_stand_in(monkeypatch)
    return monkeypatch


def on_gpu(path: Path, count: int = 8, **more: Any) -> DecodedClip:
    return decode_clip(path, View(count, decoder="cuda"), **more)


def reason(path: Path, count: int = 8, **more: Any) -> str:
    """Return why a film is refused."""
    with pytest.raises(BadVideo) as caught:
        on_gpu(path, count, **more)
    assert caught.value.reason == "gpu" and caught.value.stage == "decode"
    assert "--decoder cpu" in str(caught.value)
    return caught.value.message.removeprefix("the decoder of the GPU cannot be used: ")


def difference(one: DecodedClip, other: DecodedClip) -> int:
    levels = one.pictures.astype(int) - other.pictures
    return int(np.abs(levels).max())


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("in_memory", [False, True])
def test_pictures_are_those_of_the_index(
    codec: str, indexed: bool, in_memory: bool, gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu.setattr(film, "KEEP_BYTES", 2**28 if in_memory else 0)
    path = write_video(tmp_path / "film.mp4", codec)
    indexes = tmp_path / "indexes" if indexed else None
    for part in ({}, {"start_s": 1.1, "end_s": 2.9}, {"ranks": [7, 8, 40]}):
        of_cpu = decode_clip(path, View(8), indexes=indexes, **part)
        of_gpu = on_gpu(path, indexes=indexes, **part)
        assert read_numbers(of_gpu.pictures) == of_cpu.index.tolist()
        for name in ("index", "time_s", "asked_s", "mask", "substituted"):
            np.testing.assert_array_equal(
                getattr(of_gpu, name), getattr(of_cpu, name), name
            )


@pytest.mark.parametrize("colour_space", [1, 2, 5, 6])
def test_colours_differ_by_two_levels_at_most(
    colour_space: int, gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "film.mp4"
    write_coloured_film(path, colour_space)
    # The formula of the GPU cuts off, that of FFmpeg is a table of integers.
    assert 0 < difference(on_gpu(path), decode_clip(path, View(8))) <= 2


def test_views_that_resize_are_resized_to_the_bits_of_their_pictures(
    gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "film.mp4"
    write_coloured_film(path)
    small = Resize(64, 48)
    views = [
        View(4),
        View(8, resize=small),
        View(3, "fps"),
    ]
    on_device = [View(v.count, v.sampling, v.resize, "cuda") for v in views]
    clips = decode_views(path, on_device)
    whole = on_gpu(path, 24)
    for view, of_view in zip(views, on_device, strict=True):
        clip = clips[of_view]
        expected = whole.pictures[clip.index[clip.mask]]
        if view.resize is not None:
            expected = view.resize(expected)
        np.testing.assert_array_equal(clip.pictures[clip.mask], expected)


def test_a_film_that_fills_no_memory_is_asked_for_in_parts(
    gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_video(tmp_path / "film.mp4")
    at_once = on_gpu(path, 32)
    gpu.setattr(hardware, "ASKED_BYTES", 5 * 160 * 120 * 3)
    np.testing.assert_array_equal(on_gpu(path, 32).pictures, at_once.pictures)


LIES = {
    "late": "its picture 87 is of 3.480078 s, not of 3.480000 s, and 1 of 8 differ so",
    "no time": "its picture 0 is of nan s, not of 0.000000 s, and 1 of 1 differ so",
    "missing": "it answers 7 pictures, 8 were asked for",
    "another picture": "its picture 0 differs by [0-9]{3} of 255 levels from that of the CPU",
    "smaller": "its pictures are 118 x 160 x 3, not 120 x 160 x 3",
    "floats": "its levels are torch.float32, not uint8",
    "fails": "it fails: Could not push packet to decoder: -22",
    "full": "its memory is full; use fewer --workers, then --retry-failed",
    "cannot open": "it fails: Could not open input file",
    "fallback": "it leaves the file to the CPU: Video not supported",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_decoder_that_lies_is_refused(
    lie: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_stand_in(monkeypatch, lie)
    path = write_video(tmp_path / "film.mp4")
    assert re.fullmatch(LIES[lie], reason(path))


def test_other_colours_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_stand_in(monkeypatch, "other colours")
    path = tmp_path / "film.mp4"
    write_coloured_film(path)
    assert re.fullmatch("its picture 0 differs by .* of the CPU", reason(path))
    # In shades of grey all formulas are the same, and there is nothing to refuse.
    grey = write_video(tmp_path / "grey.mp4")
    assert (
        read_numbers(on_gpu(grey).pictures) == decode_clip(grey, View(8)).index.tolist()
    )


@pytest.mark.parametrize("lie", ["", "other colours"])
def test_other_colours_after_a_black_key_frame_are_refused(
    lie: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_stand_in(monkeypatch, lie)
    path = tmp_path / "film.mp4"
    write_coloured_film(path, n_black=5)
    if lie:
        assert re.fullmatch("its picture [0-9]+ differs by .* of the CPU", reason(path))
    else:
        assert difference(on_gpu(path), decode_clip(path, View(8))) <= 2


def test_a_picture_can_be_compared_twice(
    gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "film.mp4"
    write_coloured_film(path)
    with film.open_film(path) as source:
        opened = hardware._opened(source, source.film.index, "cuda")
        (picture,) = opened.pictures([0])
        for _ in range(2):
            # Its colours tell BT.709 from BT.601, which the comparison tries too.
            assert hardware._compare_with_cpu(opened, 0, picture)


def test_resizing_to_other_pixels_is_refused(
    gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_video(tmp_path / "film.mp4")
    gpu.setattr(hardware, "has_the_same_bits", lambda resize, device: False)
    with pytest.raises(BadVideo, match="it resizes a test picture to other pixels"):
        decode_clip(path, View(4, resize=Resize(48), decoder="cuda"))
    on_gpu(path)  # nothing is resized


def interlaced(stream: Any) -> None:
    stream.codec_context.options = X264 | {"x264-params": "interlaced=1"}


def square_not(stream: Any) -> None:
    stream.sample_aspect_ratio = Fraction(4, 3)


def in_bt2020(stream: Any) -> None:
    stream.codec_context.colorspace = 9


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "codec": (
        "film.mp4",
        {"codec": "mpeg4"},
        "the codec is mpeg4, which is not one of h264",
    ),
    "counted": (
        "film.webm",
        {"codec": "libvpx-vp9"},
        "the codec is vp9, which is not one of",
    ),
    "times": ("film.avi", {"codec": "mpeg4"}, "the pictures have no reliable times"),
    "depth": (
        "film.mp4",
        {"pix_fmt": "yuv420p10le"},
        "the pixel format is yuv420p10le, not",
    ),
    "chroma": (
        "film.mp4",
        {"pix_fmt": "yuv444p"},
        "the pixel format is yuv444p, not yuv420p",
    ),
    "shape": ("film.mp4", {"setup": square_not}, "the pixels are not square (4/3)"),
    "space": ("film.mp4", {"setup": in_bt2020}, "the colours are of space 9 of FFmpeg"),
    "fields": ("film.mp4", {"setup": interlaced}, "the pictures are interlaced"),
    "refresh": (
        "film.mp4",
        {"options": X264 | {"g": "16", "x264-params": "intra-refresh=1:bframes=0"}},
        "key frames renew only a part of the picture (intra refresh)",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_films_that_a_gpu_may_decode_to_other_pictures_are_refused(
    kind: str, gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, settings, problem = REFUSED[kind]
    path = write_video(tmp_path / name, **settings)
    decode_clip(path, View(8), max_substituted=1)
    assert reason(path).startswith(problem)


def test_a_damaged_film_is_refused(gpu: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write_video(tmp_path / "film.mkv", options=X264 | {"g": "12"})
    data = path.read_bytes()
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(data[: len(data) * 4 // 5])
    assert "damage" in reason(cut, end_s=1.0, max_substituted=1)
    # Zeros inside a picture, in a container that stays intact.
    middle = len(data) // 2
    zeroed = tmp_path / "zeroed.mkv"
    zeroed.write_bytes(data[:middle] + bytes(300) + data[middle + 300 :])
    assert decode_clip(zeroed, View(100), max_substituted=1).substituted.any()
    assert "damage" in reason(zeroed, 100, max_substituted=1)


def test_the_parts_that_no_gpu_decodes_are_errors_as_on_the_cpu(
    gpu: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_video(tmp_path / "film.mp4")
    with pytest.raises(BadVideo, match="after the last picture") as caught:
        on_gpu(path, start_s=50.0, end_s=60.0)
    assert caught.value.reason == "outside"


def test_a_clip_has_one_decoder(tmp_path: Path) -> None:
    with pytest.raises(FixUsage, match="must have one decoder"):
        decode_views(tmp_path / "film.mp4", [View(4), View(4, decoder="cuda")])
    with pytest.raises(FixUsage, match="unknown decoder 'gpu'"):
        View(4, decoder="gpu")


def test_without_torchcodec_the_message_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_decoders()
    remove_torchcodec(monkeypatch)
    real = importlib.import_module

    def without(name: str, *more: Any) -> Any:
        if name.startswith("torchcodec"):
            raise ModuleNotFoundError(name=name)
        return real(name, *more)

    monkeypatch.setattr("obygaze_features.core.lazy.import_module", without)
    with pytest.raises(InstallExtra, match="torchcodec") as caught:
        require_gpu_decoder("cuda")
    assert 'pip install "obygaze[gpu]"' in str(caught.value)


def test_torchcodec_without_ffmpeg_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*names: str) -> Any:
        raise RuntimeError("Could not load libtorchcodec. Likely causes:\nmany lines")

    monkeypatch.setattr(hardware, "need", fails)
    with pytest.raises(FixInput, match="does not work: Could not load libtorchcodec"):
        hardware.hardware_recipe()


def test_a_run_is_refused_where_there_is_no_gpu_or_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_stand_in(monkeypatch, "other colours")
    with pytest.raises(
        FixInput, match=r"cuda:1 does not decode a test film: .* differs by"
    ):
        require_gpu_decoder("cuda:1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(FixUsage, match="PyTorch finds none"):
        require_gpu_decoder("cuda:2")


def test_the_recipe_is_another_one_for_each_version(gpu: pytest.MonkeyPatch) -> None:
    torchcodec = importlib.import_module("torchcodec")
    recipe = hardware.hardware_recipe()
    assert recipe == {
        "name": "torchcodec",
        "version": "0.17.0",
        "device": "cuda",
        "rule": 1,
    }
    gpu.setattr(torchcodec, "__version__", "0.18.0")
    assert hardware.hardware_recipe() != recipe


SIZES = [(90, 160), (160, 90), (301, 97), (56, 56), (50, 60)]
RESIZES: list[dict[str, Any]] = [
    {"edge": 56},
    {"edge": 64, "crop": 47},
    {"edge": 64, "crop": 47, "crop_offset": "round"},
    {"edge": 40, "fit": "squash"},
    {"edge": 56, "crop": 56, "squash_first": 64},
    {"edge": 0, "target": (30, 70)},
    {"edge": 0, "target": (70, 30), "fit": "squash"},
]


@pytest.mark.parametrize("resizer", RESIZERS)
@pytest.mark.parametrize("kernel", ["bilinear", "bicubic", "nearest"])
def test_a_device_resizes_to_the_same_bits(
    resizer: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(resize_on_device, "AT_ONCE", 2)
    random = np.random.default_rng(3)
    for size, settings in product(SIZES, RESIZES):
        resize = Resize(filter=kernel, resizer=resizer, **settings)
        pictures = random.integers(0, 256, (3, *size, 3), dtype=np.uint8)
        resized = resize_on_device.resize_on_device(resize, torch.from_numpy(pictures))
        np.testing.assert_array_equal(resized.numpy(), resize(pictures))
        assert resize_on_device.has_the_same_bits(resize, "cpu")


def torchcodec_or_skip() -> None:
    """Skip a test where torchcodec, or an FFmpeg for it, is missing; its CPU acts as a GPU."""
    forget_decoders()
    try:
        hardware.torchcodec()
    except (InstallExtra, FixInput) as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("colour_space", [1, 2, 5, 6])
def test_the_cpu_of_torchcodec_has_the_levels_of_ours(
    colour_space: int, tmp_path: Path
) -> None:
    torchcodec_or_skip()
    for width in (WIDTH, 322):
        path = tmp_path / f"{width}.mp4"
        write_coloured_film(path, colour_space, width)
        of_cpu = decode_clip(path, View(8))
        assert of_cpu.pictures.shape == (8, HEIGHT, width, 3)
        assert difference(on_gpu(path, device="cpu"), of_cpu) <= 2


@pytest.mark.check("hundreds of files")
@pytest.mark.parametrize("codec", CODECS)
def test_files_of_every_kind_are_exact_or_refused(codec: str, tmp_path: Path) -> None:
    torchcodec_or_skip()
    counts: Counter[str] = Counter()
    for case in draw(400, seed=38):
        path = make(case, tmp_path) if case.codec == codec else None
        if path is None:
            continue
        counts["files"] += 1
        for part in ({}, {"start_s": 0.4, "end_s": 1.3}):
            try:
                of_gpu = on_gpu(path, 9, device="cpu", **part)
            except BadVideo as error:
                counts[error.reason] += 1
                continue
            of_cpu = decode_clip(path, View(9), **part)
            assert read_numbers(of_gpu.pictures) == read_numbers(of_cpu.pictures), case
            np.testing.assert_array_equal(of_gpu.index, of_cpu.index)
            np.testing.assert_array_equal(of_gpu.time_s, of_cpu.time_s)
            assert not of_cpu.substituted.any(), case
            counts["exact"] += 1
    print(f"{codec}: {dict(counts)}")
    assert counts["files"] and (counts["exact"] > 0) == (codec in hardware.EXACT_CODECS)
