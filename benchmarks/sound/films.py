"""Films with a flash and a click at the same moments, in many containers and codecs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.video.container import av
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView

RATE = 25
SIZE = (64, 48)
SECONDS = 12
# The pictures that are white, each with a click in each sound at the same time. Section 1 of the
# sound begins at 10 s.
FLASHES = (30, 101, 205, 246, 251, 280)
# Of a click, in seconds: a sweep, which has one place where it fits.
CLICK_S = 0.02
TICK = Fraction(1, RATE)


@dataclass(frozen=True)
class SoundTrack:
    """A stream of sound.

    `flashes` are those that have a click; `late_s` is when the sound begins, `gap_s` when there is
    none; `language`, `title` and `disposition` are what the container says of it.
    """

    codec: str = "aac"
    rate: int = 48000
    layout: str = "stereo"
    format: str = ""
    options: tuple[tuple[str, str], ...] = ()
    flashes: Sequence[int] = FLASHES
    late_s: float = 0.0
    gap_s: tuple[float, float] = (0.0, 0.0)
    end_s: float = SECONDS
    language: str = ""
    title: str = ""
    disposition: str = ""


@dataclass(frozen=True)
class SoundFilm:
    """A film: its container, its sounds, and when its pictures begin.

    `has_times` tells that the container stores times of sound to a millisecond. `cut_s` is where a
    copy begins, in the middle of the packets of sound. `heard` is the number of the sound that a
    player takes.
    """

    name: str
    suffix: str
    tracks: Sequence[SoundTrack] = (SoundTrack(),)
    codec: str = "mpeg4"
    options: tuple[tuple[str, str], ...] = ()
    pictures_late_s: float = 0.0
    cut_s: float = 0.0
    has_times: bool = True
    heard: int = 0
    size: tuple[int, int] = SIZE


def click(rate: int) -> NDArray[np.float32]:
    """Return the samples of a click: a sweep to a quarter of the rate, from and to silence."""
    time = np.arange(round(CLICK_S * rate)) / rate
    highest = min(rate / 4, 4000)
    phase = 2 * np.pi * (300 * time + (highest - 300) / (2 * CLICK_S) * time**2)
    wave: NDArray[np.float32] = (0.6 * np.hanning(len(time)) * np.sin(phase)).astype(
        np.float32
    )
    return wave


def click_offset(
    samples: NDArray[np.float32], rate: int, at_s: float
) -> tuple[int, float]:
    """Return how many samples late the click of a time is, and how well it fits, 1 being best."""
    wave = click(rate)
    first = round(at_s * rate)
    reach = round(0.1 * rate)
    begin = max(first - reach, 0)
    near = samples[begin : first + reach + len(wave)].astype(np.float64)
    if len(near) < len(wave):
        return 0, 0.0
    products = np.correlate(near, wave.astype(np.float64), "valid")
    best = int(np.argmax(np.abs(products)))
    found = near[best : best + len(wave)]
    norm = float(np.linalg.norm(found) * np.linalg.norm(wave)) or 1.0
    return begin + best - first, abs(float(products[best])) / norm


def samples_of(track: SoundTrack) -> NDArray[np.float32]:
    """Return what is muxed as one channel, from second 0 on."""
    samples = np.zeros(round(track.end_s * track.rate), np.float32)
    noise = np.random.default_rng(5).standard_normal(len(samples))
    samples += (0.001 * noise).astype(np.float32)
    wave = click(track.rate)
    for flash in track.flashes:
        first = round(flash / RATE * track.rate)
        part = samples[first : first + len(wave)]
        part += wave[: len(part)]
    return samples


def make_film(film: SoundFilm, folder: Path) -> Path:
    """Write a film."""
    path = folder / f"{film.name}{film.suffix}"
    if not film.cut_s:
        return _encode(film, path)
    whole = _encode(film, folder / f"{film.name}-whole{film.suffix}")
    return copy(whole, path, film.cut_s)


def _encode(film: SoundFilm, path: Path) -> Path:
    with av().open(str(path), "w", options=dict(film.options)) as out:
        pictures = out.add_stream(film.codec, rate=RATE, options={"g": "12"})
        pictures.width, pictures.height = film.size
        pictures.pix_fmt = "yuv420p"
        sounds = [_sound_stream(out, track) for track in film.tracks]
        sources = list(map(_frames, film.tracks, sounds))
        late = round(film.pictures_late_s * RATE)
        for number in range(SECONDS * RATE):
            if number >= late:
                level = 235 if number in FLASHES else 16
                width, height = film.size
                planes = np.full((height * 3 // 2, width), 128, np.uint8)
                planes[:height] = level
                frame = av().VideoFrame.from_ndarray(planes, format="yuv420p")
                frame.pts, frame.time_base = number, TICK
                out.mux(pictures.encode(frame))
            for stream, source in zip(sounds, sources, strict=True):
                _mux_until(out, stream, source, (number + 1) / RATE)
        out.mux(pictures.encode())
        for stream, source in zip(sounds, sources, strict=True):
            _mux_until(out, stream, source, float("inf"))
            out.mux(stream.encode())
    return path


def make_long(folder: Path, seconds: float) -> Path:
    """Write a film of AAC that is as long, from a short one again and again."""
    short = make_film(SoundFilm("short", ".mp4"), folder)
    path = folder / "long.mp4"
    with av().open(str(short)) as old, av().open(str(path), "w") as new:
        copies = {s.index: new.add_stream_from_template(s) for s in old.streams}
        packets = [packet for packet in old.demux() if packet.size]
        for number in range(-int(-seconds // SECONDS)):
            for packet in packets:
                stream = old.streams[packet.stream_index]
                tick_s = stream.time_base
                if stream.type == "audio" and packet.pts < 0:
                    continue
                again = av().Packet(bytes(packet))
                shift = round(number * SECONDS / tick_s)
                again.pts, again.dts = packet.pts + shift, packet.dts + shift
                again.time_base, again.is_keyframe = tick_s, packet.is_keyframe
                again.stream = copies[stream.index]
                new.mux(again)
    return path


def _sound_stream(out: Any, track: SoundTrack) -> Any:
    settings: dict[str, Any] = {"options": dict(track.options)}
    stream = out.add_stream(
        track.codec, rate=track.rate, layout=track.layout, **settings
    )
    if track.format:
        stream.format = track.format
    if track.language:
        stream.metadata["language"] = track.language
    if track.title:
        stream.metadata["title"] = track.title
    if track.disposition:
        stream.disposition = getattr(av().stream.Disposition, track.disposition)
    return stream


def _frames(track: SoundTrack, stream: Any) -> Iterator[tuple[float, Any]]:
    """Yield the frames of a track with the time at which each begins."""
    stream.codec_context.open(strict=False)
    size = stream.codec_context.frame_size or 1024
    samples = samples_of(track)
    for first in range(round(track.late_s * track.rate), len(samples), size):
        begin_s = first / track.rate
        if track.gap_s[0] <= begin_s < track.gap_s[1]:
            continue
        part = samples[first : first + size]
        channels = np.repeat(part[None], stream.codec_context.channels, axis=0)
        frame = av().AudioFrame.from_ndarray(
            channels, format="fltp", layout=track.layout
        )
        frame.sample_rate = track.rate
        frame.pts, frame.time_base = first, Fraction(1, track.rate)
        yield begin_s, frame


def _mux_until(out: Any, stream: Any, source: Iterator[Any], end_s: float) -> None:
    """Encode the frames of a track that begin before a time."""
    for begin_s, frame in source:
        out.mux(stream.encode(frame))
        if begin_s >= end_s:
            return


def copy(
    source: Path,
    target: Path,
    cut_s: float = 0.0,
    change: Callable[[Any, int, Any], Any] | None = None,
    kinds: Sequence[str] = ("video", "audio"),
) -> Path:
    """Copy the packets of the streams of some kinds, from a time on.

    `change` gets the stream, the number of a packet in it, and the packet, and returns what is
    written in its place.
    """
    with ExitStack() as stack:
        old = stack.enter_context(av().open(str(source)))
        new = stack.enter_context(av().open(str(target), "w"))
        streams = {
            stream.index: new.add_stream_from_template(stream, opaque=True)
            for stream in old.streams
            if stream.type in kinds
        }
        numbers = dict.fromkeys(streams, -1)
        has_begun = False
        for packet in old.demux():
            stream = packet.stream
            if not packet.size or stream.index not in streams:
                continue
            numbers[stream.index] += 1
            if cut_s:
                is_key_picture = stream.type == "video" and packet.is_keyframe
                has_begun |= is_key_picture and packet.dts * stream.time_base >= cut_s
                if not has_begun:
                    continue
                shift = round(cut_s / stream.time_base)
                packet.pts -= shift
                packet.dts -= shift
            if change is not None:
                packet = change(stream, numbers[stream.index], packet)
            packet.stream = streams[stream.index]
            new.mux(packet)
    return target


def flashes_of(path: Path) -> dict[int, float]:
    """Return the flashes of a film with their times on the clock of clips.

    Some containers have a few wrong times of pictures: most of them tell where the clock begins.
    """
    view = PictureView(SECONDS * RATE)
    clip = decode_clip(path, view, accept_damaged=True)
    is_bright = clip.pictures.mean(axis=(1, 2, 3)) > 128
    is_first = np.append(True, np.diff(clip.index) > 0)
    ranks = clip.index[is_bright & is_first].tolist()
    begin_s = float(np.median(clip.time_s - clip.index / RATE))
    return {rank: begin_s + rank / RATE for rank in ranks}


def click_errors(
    path: Path, samples: NDArray[np.float32], rate: int, begin_s: float = 0.0
) -> list[int]:
    """Return how many samples late each click is, in samples that begin at a time of the film.

    A film that has none, or one that cannot be found, is an error.
    """
    errors = []
    for time_s in flashes_of(path).values():
        late, fit = click_offset(samples, rate, time_s - begin_s)
        if fit < 0.8:
            raise ValueError(f"{path.name}: no click at {time_s:.2f} s")
        errors.append(late)
    if not errors:
        raise ValueError(f"{path.name}: no flash")
    return errors


def _options(**options: str) -> tuple[tuple[str, str], ...]:
    return tuple(options.items())


ENGLISH = SoundTrack("ac3", language="eng")
GERMAN = SoundTrack("ac3", flashes=(60,), language="ger")
COMMENTARY = SoundTrack("ac3", flashes=(), language="eng", disposition="comment")
MPEG2 = "mpeg2video"
VP8 = "libvpx"
H264 = "libx264"

# Containers that store the times of sound.
FILMS = (
    SoundFilm("mp4-aac", ".mp4"),
    SoundFilm("mp4-aac-44100", ".mp4", [SoundTrack(rate=44100)]),
    SoundFilm("mp4-aac-22050", ".mp4", [SoundTrack(rate=22050)]),
    SoundFilm("mp4-aac-8000", ".mp4", [SoundTrack(rate=8000, layout="mono")]),
    SoundFilm("mp4-aac-5.1", ".mp4", [SoundTrack(layout="5.1")]),
    SoundFilm("mp4-aac-pns", ".mp4", [SoundTrack(options=_options(b="48000"))]),
    SoundFilm("mp4-no-edit-list", ".mp4", options=_options(use_editlist="0")),
    SoundFilm(
        "mp4-fragmented", ".mp4", options=_options(movflags="frag_keyframe+empty_moov")
    ),
    SoundFilm("mp4-ac3", ".mp4", [SoundTrack("ac3")]),
    SoundFilm("mp4-mp3", ".mp4", [SoundTrack("libmp3lame", format="fltp")]),
    SoundFilm("mp4-opus", ".mp4", [SoundTrack("libopus", format="flt")]),
    SoundFilm("mp4-flac", ".mp4", [SoundTrack("flac", format="s16")]),
    SoundFilm("mp4-late-sound", ".mp4", [SoundTrack(late_s=0.8)]),
    SoundFilm("mp4-early-sound", ".mp4", pictures_late_s=0.8),
    SoundFilm("mp4-gap", ".mp4", [SoundTrack(gap_s=(5.0, 6.5))]),
    SoundFilm("mov-pcm", ".mov", [SoundTrack("pcm_s16be", format="s16")]),
    SoundFilm("mov-pcm-24", ".mov", [SoundTrack("pcm_s24le", format="s32")]),
    SoundFilm("mov-alac", ".mov", [SoundTrack("alac", format="s16p")]),
    SoundFilm("mkv-aac", ".mkv"),
    SoundFilm("mkv-aac-44100", ".mkv", [SoundTrack(rate=44100)]),
    SoundFilm("mkv-ac3", ".mkv", [SoundTrack("ac3")]),
    SoundFilm("mkv-ac3-5.1", ".mkv", [SoundTrack("ac3", layout="5.1(side)")]),
    SoundFilm("mkv-eac3", ".mkv", [SoundTrack("eac3")]),
    SoundFilm("mkv-opus", ".mkv", [SoundTrack("libopus", format="flt")]),
    SoundFilm(
        "mkv-vorbis", ".mkv", [SoundTrack("vorbis", options=_options(strict="-2"))]
    ),
    SoundFilm("mkv-flac-24", ".mkv", [SoundTrack("flac", format="s32")]),
    SoundFilm("mkv-flac-22050", ".mkv", [SoundTrack("flac", rate=22050, format="s16")]),
    SoundFilm("mkv-pcm-24", ".mkv", [SoundTrack("pcm_s24le", format="s32")]),
    SoundFilm(
        "mkv-pcm-8000",
        ".mkv",
        [SoundTrack("pcm_s16le", rate=8000, layout="mono", format="s16")],
    ),
    SoundFilm("mkv-late-sound", ".mkv", [SoundTrack(late_s=0.8)]),
    SoundFilm("mkv-early-sound", ".mkv", pictures_late_s=0.8),
    SoundFilm("mkv-gap", ".mkv", [SoundTrack("ac3", gap_s=(5.0, 6.5))]),
    SoundFilm("mkv-languages", ".mkv", [COMMENTARY, ENGLISH, GERMAN], heard=1),
    SoundFilm("mkv-cut", ".mkv", cut_s=3.01),
    SoundFilm("webm-opus", ".webm", [SoundTrack("libopus", format="flt")], codec=VP8),
    SoundFilm(
        "webm-vorbis",
        ".webm",
        [SoundTrack("vorbis", options=_options(strict="-2"))],
        codec=VP8,
    ),
    SoundFilm("ts-aac", ".ts", codec=MPEG2),
    SoundFilm("ts-mp2", ".ts", [SoundTrack("mp2", format="s16")], codec=MPEG2),
    SoundFilm("ts-ac3", ".ts", [SoundTrack("ac3")], codec=MPEG2),
    SoundFilm("ts-ac3-gap", ".ts", [SoundTrack("ac3", gap_s=(5.0, 6.5))], codec=MPEG2),
    SoundFilm("ts-late-sound", ".ts", [SoundTrack("mp2", format="s16", late_s=0.8)]),
    SoundFilm("ts-cut", ".ts", [SoundTrack("ac3")], cut_s=3.01, codec=MPEG2),
    SoundFilm("mpg-mp2", ".mpg", [SoundTrack("mp2", format="s16")], codec=MPEG2),
    SoundFilm("mpg-ac3", ".mpg", [SoundTrack("ac3")], codec=MPEG2),
    SoundFilm("flv-aac", ".flv", codec=H264),
    SoundFilm(
        "flv-mp3",
        ".flv",
        [SoundTrack("libmp3lame", rate=44100, format="fltp")],
        codec=H264,
    ),
    # Only a table of packets tells of these when they are played.
    SoundFilm("mp4-cut", ".mp4", cut_s=3.01, has_times=False),
    SoundFilm("mp4-cut-ac3", ".mp4", [SoundTrack("ac3")], cut_s=3.01, has_times=False),
    SoundFilm(
        "avi-mp3", ".avi", [SoundTrack("libmp3lame", format="fltp")], has_times=False
    ),
    SoundFilm("avi-ac3", ".avi", [SoundTrack("ac3")], has_times=False),
    SoundFilm("avi-mp2", ".avi", [SoundTrack("mp2", format="s16")], has_times=False),
    SoundFilm("avi-aac", ".avi", has_times=False),
    SoundFilm(
        "avi-pcm", ".avi", [SoundTrack("pcm_s16le", format="s16")], has_times=False
    ),
)
