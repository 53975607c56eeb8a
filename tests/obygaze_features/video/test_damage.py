import io
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.cli import call_obygaze
from support.damage import change_packets, flip_bits_visibly, zero_the_middle
from support.seeds import amount
from support.videos import packet_of, read_numbers, remux, write_video

from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.cut_films import make_windows
from obygaze_features.manifest.windows import Grid
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip, decode_views
from obygaze_features.video.decoded_clip import DecodedClip, PictureView, contact_sheet
from obygaze_features.video.film import probe
from obygaze_features.video.index import overshoot
from obygaze_features.video.packets import length_of
from obygaze_features.video.sound import SoundView, decode_sound

EVEN_GROUPS = {"preset": "veryfast", "g": "30", "sc_threshold": "0", "bf": "2"}


def failure_of(decode: Callable[..., object], *given: object, **part: object) -> str:
    """The reason and the sentence with which a file is refused."""
    with pytest.raises(BadVideo) as caught:
        decode(*given, **part)
    return f"{caught.value.reason}: {caught.value.message}"


def all_of(path: Path, count: int) -> DecodedClip:
    """As many pictures as asked for, whatever their state."""
    return decode_views(path, [PictureView(count)])[PictureView(count)]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    return write_video(folder / "clean.mp4", options=EVEN_GROUPS)


def test_a_picture_that_cannot_be_decoded_is_black_and_marked(clean, tmp_path):
    def empty(number: int, packet: Any) -> Any:
        if number != 60:
            return packet
        hollow = packet_of(packet, b"\x00\x00\x00\x05\x65\xff\xff\xff\xff")
        hollow.is_keyframe = True
        return hollow

    path = remux(clean, tmp_path / "lost.mp4", empty)
    clip = all_of(path, 100)
    assert clip.total == 100
    assert clip.substituted[60:90].all()
    assert clip.index[60] == -1 and np.isnan(clip.time_s[60])
    assert not clip.pictures[60].any()
    fine = ~clip.substituted
    assert fine.sum() >= 65
    assert read_numbers(clip.pictures[fine]) == clip.index[fine].tolist()
    with pytest.raises(BadVideo, match="pictures cannot be decoded"):
        decode_clip(path, PictureView(100), accept_damaged=True)
    # A part that needs none of these pictures is exact.
    part = decode_clip(path, PictureView(8), start_s=0.4, end_s=2.0)
    assert read_numbers(part.pictures) == part.index.tolist()


def test_damage_of_av1_that_only_a_picture_nobody_asked_for_shows_is_marked(tmp_path):
    """The decoder returns a wrong picture, and refuses a later packet that no other needs."""
    options = {"g": "24", "preset": "10", "crf": "20"}
    options["svtav1-params"] = "lp=1:pred-struct=1"
    path = write_video(
        tmp_path / "film.mkv", "libsvtav1", numbers=range(40), options=options
    )
    pictures, _ = decoded_in_order(path)
    n_marked = 0
    for seed in range(amount(40, 400)):
        position = 2 + seed % 30
        damaged = change_packets(
            path, tmp_path / "damaged.mkv", {position}, zero_a_little, seed=seed
        )
        wrong, reported = decoded_in_order(damaged)
        is_wrong = wrong.get(position, pictures[position]) != pictures[position]
        if not is_wrong or not reported or not position < reported[0] <= position + 8:
            continue
        clip = decode_views(damaged, [PictureView(1)], ranks=[position])
        n_marked += 1
        assert clip[PictureView(1)].substituted.all()
    assert n_marked > 0


def zero_a_little(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data))
    data[at : at + 40] = bytes(len(data[at : at + 40]))


def decoded_in_order(path: Path) -> tuple[dict[int, bytes], list[int]]:
    """What FFmpeg shows of each packet, and the packets that it refuses."""
    import av

    pictures = {}
    refused = []
    with av.open(str(path)) as film:
        stream = film.streams.video[0]
        stream.codec_context.thread_count = 1
        for position, packet in enumerate(film.demux(stream)):
            packet.pts = position if packet.size else None
            try:
                for frame in stream.codec_context.decode(packet):
                    pictures[frame.pts] = frame.to_ndarray(format="rgb24").tobytes()
            except av.FFmpegError:
                refused.append(position)
    return pictures, refused


def test_noise_that_looks_like_parameters_harms_no_other_group(clean, tmp_path):
    """A parameter set whose numbers would have more bits than the standard allows."""
    noise = bytes.fromhex("1a52e6a0a7083ae5e07241c2f75c842b0decadf7c54f5a26")

    def spoilt(number: int, packet: Any) -> Any:
        damaged = noise + bytes(packet)[len(noise) :]
        return packet_of(packet, damaged) if number == 70 else packet

    path = remux(clean, tmp_path / "noise.mp4", spoilt)
    part = decode_clip(path, PictureView(8), start_s=0.4, end_s=2.0)
    assert read_numbers(part.pictures) == part.index.tolist()
    with pytest.raises(BadVideo):
        decode_clip(path, PictureView(100))


def cut(source: Path, target: Path, share: float) -> Path:
    data = source.read_bytes()
    target.write_bytes(data[: int(len(data) * share)])
    return target


FRONT = {"movflags": "faststart"}
CUT = {".avi": ("mpeg4", {"g": "12"})}


@pytest.mark.parametrize("seed", amount(range(1), range(80)))
def test_a_film_ends_after_its_last_picture_wherever_its_times_begin(seed, tmp_path):
    """An edit list leaves out what is before 0; files of other formats begin at any time."""
    draw = random.Random(seed)
    suffix = draw.choice([".mp4", ".mov", ".mkv", ".webm", ".ts"])
    codec = "libvpx" if suffix == ".webm" else "libx264"
    has_edit_list = suffix in (".mp4", ".mov")
    first = draw.randrange(-25, 0) if has_edit_list else draw.randrange(400)
    path = write_video(
        tmp_path / f"film{suffix}",
        codec,
        numbers=range(50),
        options={"g": "50"},
        ticks=range(first, first + 50),
    )
    end_s = (50 + min(first, 0)) / 25
    assert length_of(path) == pytest.approx(end_s, abs=0.05)
    with pytest.raises(BadVideo, match=f"ends at {end_s + 1.2:g} s, the film at"):
        decode_clip(path, PictureView(1), start_s=end_s - 0.5, end_s=end_s + 1.2)


def test_a_film_cut_short_is_named_also_where_its_pictures_begin_late(tmp_path) -> None:
    """Its sound begins with the file, and the header counts pictures from the first one."""
    late = range(50, 140)
    made = {"numbers": range(90), "ticks": late, "options": EVEN_GROUPS, "audio": True}
    path = write_video(tmp_path / "late.mp4", container_options=FRONT, **made)
    assert length_of(path) == pytest.approx(140 / 25, abs=0.01)
    for share in (0.5, 0.95):
        short = cut(path, tmp_path / "short.mp4", share)
        for end_s in (None, 140 / 25):
            part = {"start_s": 50 / 25, "end_s": end_s}
            reason = failure_of(decode_clip, short, PictureView(8), **part)
            assert reason.startswith("truncated")


@pytest.mark.parametrize("suffix", [".mkv", ".mp4", ".avi"])
def test_what_is_behind_the_end_of_a_cut_file_is_truncated(suffix, tmp_path) -> None:
    codec, options = CUT.get(suffix, ("libx264", EVEN_GROUPS))
    made = {"codec": codec, "options": options, "audio": True}
    front = FRONT if suffix == ".mp4" else {}
    whole = write_video(tmp_path / f"whole{suffix}", container_options=front, **made)
    short = cut(whole, tmp_path / f"short{suffix}", 0.5)
    ways = (decode_clip, PictureView(4)), (decode_sound, SoundView(16000))
    # The whole film ends before 5 s.
    for start_s in (2.5, 3.0, 3.4, 5.1):
        reasons = []
        for decode, view in ways:
            part = {"start_s": start_s, "end_s": start_s + 0.5}
            reasons.append(failure_of(decode, short, view, **part).split(":")[0])
        behind = ["outside", "too-long"]
        assert reasons == (behind if start_s > 5 else ["truncated"] * 2)
    by_rank = failure_of(decode_clip, short, PictureView(4), ranks=[98, 99])
    assert by_rank.startswith("truncated: ")
    # A film without sound at its end is silent there, also if it is damaged elsewhere.
    quiet = write_video(tmp_path / f"quiet{suffix}", numbers=range(200), **made)
    data = bytearray(quiet.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 200] = bytes(200)
    quiet.write_bytes(data)
    silent = failure_of(decode_sound, quiet, SoundView(16000), start_s=6.0, end_s=7.0)
    assert silent.startswith("no-sound: ")


def test_a_part_that_begins_where_pictures_are_missing_is_named(tmp_path: Path) -> None:
    film = write_video(tmp_path / "a.mkv", numbers=range(150), options=EVEN_GROUPS)
    zero_the_middle(film)
    times_s = probe(film).index.times_s
    before = int(np.diff(times_s).argmax())
    last_s, next_s = times_s[before : before + 2].tolist()
    assert next_s - last_s > 1
    for start_s in (last_s + 0.02, (last_s + next_s) / 2, next_s - 0.04):
        with pytest.raises(BadVideo, match="pictures of this part are missing"):
            decode_clip(film, PictureView(8), start_s=start_s, end_s=next_s + 2)
    clip = decode_clip(film, PictureView(8), start_s=next_s, end_s=next_s + 2)
    assert clip.time_s[0] == next_s and not clip.substituted.any()


@pytest.mark.parametrize("size", [188, 192])
def test_a_transport_stream_cut_inside_a_packet_spoils_its_last_picture(tmp_path, size):
    path = write_video(
        tmp_path / "a.ts",
        format="mpegts",
        options={"preset": "ultrafast", "g": "24", "bf": "0"},
        container_options={"mpegts_m2ts_mode": str(int(size == 192))},
    )
    whole = path.read_bytes()
    assert len(whole) % size == 0 and not probe(path).damaged
    # Packets before the beginning are no matter: recordings begin anywhere.
    path.write_bytes(whole[size // 2 :])
    assert not probe(path).index.broken.any()
    path.write_bytes(whole[: len(whole) * 2 // 3 // size * size + 77])
    info = probe(path)
    assert info.damaged
    clip = decode_views(path, [PictureView(info.index.frames)]).popitem()[1]
    assert clip.substituted.tolist() == [False] * (info.index.frames - 1) + [True]


LIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\nfile.ts\n#EXT-X-ENDLIST\n"
FILES = {
    "empty.mp4": b"",
    "noise.mkv": random.Random(0).randbytes(20_000),
    "text.txt": b"\x1b[31m art \x1b[0m\n" * 200,
    "list.m3u8": LIST,
    "list.ffconcat": b"ffconcat version 1.0\nfile clean.mp4\n",
    "sound.wav": b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0",
}


@pytest.mark.parametrize("name", ["missing.mp4", *FILES])
def test_what_is_not_a_video(tmp_path: Path, name: str) -> None:
    write_video(tmp_path / "clean.mp4", numbers=range(3))
    if name in FILES:
        (tmp_path / name).write_bytes(FILES[name])
    with pytest.raises(BadVideo) as caught:
        decode_clip(tmp_path / name, PictureView(8))
    assert caught.value.reason == ("unreadable" if name in FILES else "missing")
    assert name in str(caught.value).splitlines()[1]
    if FILES.get(name):
        # The file may be whole, and have a format that is not read.
        assert "not a video in a known format, or" in str(caught.value)


def test_a_file_without_pictures_is_refused(clean: Path, tmp_path: Path) -> None:
    short = cut(clean, tmp_path / "short.mp4", 0.6)
    assert "before its table of contents" in failure_of(probe, short)
    one = lambda number, packet: packet if number == 1 else None  # noqa: E731
    path = remux(clean, tmp_path / "none.ts", one)
    assert failure_of(probe, path).split(":")[0] in {"no-frames", "no-video"}


def test_a_part_outside_its_film_is_refused_and_a_little_of_it_is_cut(clean) -> None:
    """The film has 100 pictures at 25 a second."""
    for start_s, end_s, failure in (
        (4.5, None, r"outside: .*after the last picture"),
        (None, 0.0, r"outside: .*before the first picture"),
        (0.0, 5.001, r"too-long: the part ends at 5\.001 s, the film at 4\.00 s"),
    ):
        part = {"start_s": start_s, "end_s": end_s}
        said = failure_of(decode_clip, clean, PictureView(8), **part)
        assert re.search(failure, said)
    to_the_end = decode_clip(clean, PictureView(8), start_s=3.0)
    longer = decode_clip(clean, PictureView(8), start_s=3.0, end_s=5.0)
    assert longer.index.tolist() == to_the_end.index.tolist()


def test_a_tenth_of_a_long_part_may_lie_after_the_film() -> None:
    assert overshoot(100.0, 0.0, 111.0) is None
    assert overshoot(100.0, 0.0, 112.0) is not None
    assert overshoot(100.0, 80.0, 102.5) is not None
    assert overshoot(100.0, None, None) is None


def test_a_part_of_which_some_has_no_pictures_says_so(tmp_path: Path) -> None:
    """Pictures are shown from 1 s to 3 s, and the sound goes on from 0 to 4 s."""
    path = tmp_path / "a.ts"
    write_video(path, numbers=range(50), ticks=range(25, 75), audio=True)
    late = "the pictures begin at 1.0 s, {} s after the beginning of the clip"
    early = "the pictures end at 3.0 s, {} s before the end of the clip"
    for start_s, end_s, remark in (
        (None, None, ""),
        (1.2, 2.8, ""),
        (0.5, 2.0, late.format(0.5)),
        (2.0, 3.5, early.format(0.5)),
        (0.0, 4.0, f"{late.format('1.0')}; {early.format('1.0')}"),
    ):
        part = decode_clip(path, PictureView(8), start_s=start_s, end_s=end_s)
        assert part.remark == remark


def test_memory_is_not_taken_for_nonsense(clean: Path) -> None:
    failure = failure_of(decode_clip, clean, PictureView(1_000_000))
    assert failure.startswith("too-large: ") and "memory" in failure


def test_a_part_of_a_film_whose_clock_is_set_back_is_refused(tmp_path: Path) -> None:
    """Two recordings are joined, each with a clock of its own."""
    data = b""
    options = {"g": "20", "preset": "veryfast"}
    for numbers, begin in ((range(60), 100), (range(60, 120), 140)):
        ticks = range(begin, begin + 60)
        made = {"numbers": numbers, "ticks": ticks, "options": options}
        part = write_video(tmp_path / "part.ts", **made)
        data += part.read_bytes()
        part.unlink()
    film = tmp_path / "joined.ts"
    film.write_bytes(data)
    set_back = "the clock of the file is set back"
    for indexes in (None, tmp_path / "indexes"):
        for start_s, end_s in ((0.0, 1.0), (1.5, None), (None, 2.0), (3.0, 4.0)):
            part = {"start_s": start_s, "end_s": end_s, "indexes": indexes}
            failure = failure_of(decode_clip, film, PictureView(4), **part)
            assert failure.startswith(f"clock: {set_back}")
    words = {"workspace": Workspace(tmp_path), "name": "w"}
    with pytest.raises(FixInput, match=set_back):
        make_windows(tmp_path, Grid(seconds=1, every=1), **words)
    info = probe(film)
    assert not info.index.timed and info.index.jump == 60
    assert "the clock is set back after picture 60; pictures counted" in str(info)
    # All pictures are there, in the order of the file, at the times of counting.
    assert info.index.duration_s == pytest.approx(120 / 25)


def test_frames_say_what_is_damaged_missing_or_not_in_the_film(tmp_path: Path) -> None:
    """As the row of a store does, so that a sheet of an incomplete film is not one of a whole."""
    options = {"preset": "veryfast", "g": "25", "sc_threshold": "0"}
    whole = write_video(
        tmp_path / "whole.mp4", options=options, container_options=FRONT
    )
    short = cut(whole, tmp_path / "cut.mp4", 0.6)
    spoilt = flip_bits_visibly(whole, tmp_path / "spoilt.mp4", [0])
    late = write_video(tmp_path / "late.mkv", ticks=range(50, 150), audio=True)
    begin = "the pictures begin at 2.0 s, 2.0 s after the beginning of the clip"
    for path, remark in (
        (whole, ""),
        (short, "frames are missing from the file"),
        (spoilt, "1 of 4 frames damaged"),
        (late, begin),
    ):
        words = ("video", "frames", path, "--count", "4", "--start", "0")
        line = call_obygaze(*words, "-o", tmp_path / "x.png", "--force").ok().stdout
        assert line.strip().partition("160 x 120")[2].removeprefix("; ") == remark
        words = (*words, "-o", tmp_path / "x.npz", "--force", "--json")
        found = call_obygaze(*words).ok().json()
        assert found["remarks"] == ([remark] if remark else [])


def test_a_contact_sheet_marks_damage_and_emptiness(clean: Path) -> None:
    clip = decode_clip(clean, PictureView(6, "fps"))
    assert clip.mask.tolist() == [True] * 4 + [False] * 2
    plain = contact_sheet(clip)
    marked = contact_sheet(replace(clip, substituted=np.arange(6) == 1))
    assert plain != marked
    with Image.open(io.BytesIO(marked)) as sheet:
        pixels = np.asarray(sheet.convert("RGB")).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1] < 60) & (pixels[..., 2] < 60)
    assert red[:, 168:336].any() and not red[:, :160].any()
