"""Recordings that were joined without encoding: exact, or refused; a decoder keeps what it got."""

from collections.abc import Collection
from pathlib import Path

import av
import numpy as np
import pytest
from support.videos import packet_of, read_numbers, write_video

from obygaze_features.video.container import SETTINGS_CHANGE, BadVideo
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.sound import SoundView, decode_sound

# The two parts differ in the quantiser matrices of their parameter sets: nothing else shows it.
MATRICES = ("flat", "jvt")
START = b"\0\0\1"


def part(folder: Path, number: int, suffix: str) -> Path:
    coding = f"cqm={MATRICES[number]}:keyint=10:bframes=0"
    numbers = range(50 * number, 50 * number + 50)
    settings = {"options": {"preset": "veryfast", "qp": "20", "x264-params": coding}}
    path = folder / f"{number}{suffix}"
    return write_video(path, numbers=numbers, **settings)


def without_sets(packet: bytes) -> bytes:
    units = [unit.rstrip(b"\0") for unit in packet.split(START)]
    units = [unit for unit in units if unit and unit[0] & 31 not in (7, 8)]
    return b"".join(START + unit for unit in units)


def joined_film(folder: Path, with_sets: Collection[int], first: int = 0) -> Path:
    """Two recordings; only these packets, and the header, state parameter sets."""
    parts = [part(folder, number, ".ts") for number in (0, 1)]
    with av.open(str(parts[1])) as source:
        later = [packet for packet in source.demux(video=0) if packet.size]
    out = folder / "joined.mkv"
    with av.open(str(parts[0])) as source, av.open(str(out), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
        packets = [packet for packet in source.demux(video=0) if packet.size]
        for number, packet in enumerate([*packets, *later]):
            data = bytes(packet)
            if number not in with_sets:
                data = without_sets(data)
            if number < first:
                continue
            copy = packet_of(packet, data)
            copy.pts = copy.dts = 3600 * number
            copy.stream = stream
            target.mux(copy)
    return out


def test_a_clip_has_the_parameter_sets_of_its_part(tmp_path: Path) -> None:
    film = joined_film(tmp_path, range(51))
    with av.open(str(film)) as source:
        frames = source.decode(video=0)
        expected = [frame.to_ndarray(format="rgb24") for frame in frames]
    assert read_numbers(np.stack(expected)) == [*range(100)]
    for indexes in (None, tmp_path / "indexes"):
        # The last of the clips is in the first part, behind clips of the second.
        for start_s in (3.4, 2.6, 1.2):
            span = {"start_s": start_s, "end_s": start_s + 0.2, "indexes": indexes}
            clip = decode_clip(film, PictureView(5), **span)
            for picture, place in zip(clip.pictures, clip.index, strict=True):
                assert np.array_equal(picture, expected[place]), (indexes, start_s)
    # A recording that begins between key frames.
    cut = joined_film(tmp_path, range(51), first=3)
    clip = decode_clip(cut, PictureView(5), start_s=3.4, end_s=3.6)
    assert np.array_equal(clip.pictures, expected[88:93])


def test_a_part_that_states_no_parameter_sets_is_refused(tmp_path: Path) -> None:
    film = joined_film(tmp_path, [50])
    with pytest.raises(BadVideo, match=SETTINGS_CHANGE):
        decode_clip(film, PictureView(2), start_s=3.2)


def tags_of(path: Path) -> list[tuple[int, int, bytes]]:
    """The type, the time and the content of each tag of an FLV."""
    data = path.read_bytes()
    at = 13
    tags = []
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 4])
        time = int.from_bytes(data[at + 4 : at + 7])
        tags.append((data[at], time, data[at + 11 : at + 11 + size]))
        at += size + 15
    return tags


@pytest.mark.parametrize("is_other", [True, False])
def test_a_second_header_is_refused_if_it_is_another(tmp_path, is_other: bool) -> None:
    film = bytearray(part(tmp_path, 0, ".flv").read_bytes()[:13])
    for after_ms, number in ((0, 0), (2000, int(is_other))):
        for kind, time, body in tags_of(part(tmp_path, number, ".flv")):
            # A script, and the end of a sequence, are of the whole file.
            if kind == 9 and body[1] != 2:
                head = bytes([kind]) + len(body).to_bytes(3)
                head += (time + after_ms).to_bytes(3) + bytes(4)
                film += head + body + (len(body) + 11).to_bytes(4)
    path = tmp_path / "film.flv"
    path.write_bytes(film)
    if is_other:
        with pytest.raises(BadVideo, match=SETTINGS_CHANGE):
            decode_clip(path, PictureView(4), start_s=3.0, end_s=3.4)
    else:
        clip = decode_clip(path, PictureView(4), start_s=3.0, end_s=3.4)
        assert read_numbers(clip.pictures) == [25, 27, 30, 32]


def test_sound_with_a_second_header_is_refused(tmp_path: Path) -> None:
    """AAC of two channels decodes as one of them where a header stated one, or the reverse."""
    film = b""
    for layout in ("mono", "stereo"):
        path = tmp_path / f"{layout}.flv"
        with av.open(str(path), "w") as out:
            stream = out.add_stream("aac", rate=48000, layout=layout)
            for at in range(0, 96000, 1024):
                samples = np.full(
                    (stream.codec_context.channels, 1024), 0.1, np.float32
                )
                frame = av.AudioFrame.from_ndarray(samples, "fltp", layout=layout)
                frame.sample_rate, frame.pts = 48000, at
                out.mux(stream.encode(frame))
            out.mux(stream.encode())
        film = film or path.read_bytes()[:13]
        for kind, time, body in tags_of(path):
            if kind == 8:
                time += 2000 * (layout == "stereo")
                head = bytes([kind]) + len(body).to_bytes(3) + time.to_bytes(3)
                film += head + bytes(4) + body + (len(body) + 11).to_bytes(4)
    joined = tmp_path / "film.flv"
    joined.write_bytes(film)
    with pytest.raises(BadVideo, match=SETTINGS_CHANGE):
        decode_sound(joined, SoundView(16000), start_s=3.0, end_s=3.5)
