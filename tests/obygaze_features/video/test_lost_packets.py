"""Lost and damaged packets: what the times, the container and the decoder say of them.

Files are made damaged in all the ways below; every picture that is not, to the pixel, one of the
clean file must be marked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.damage import (
    change_packets,
    drop_packets,
    flip_bits,
)
from support.doubtful import Counts, change, what_is_said, whole_film
from support.doubtful import judge as judge_in_parts
from support.generated_videos import Case
from support.videos import read_numbers, remux, write_video

from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip, decode_views
from obygaze_features.video.decoded_clip import DecodedClip, PictureView
from obygaze_features.video.film import VideoInfo, probe

COUNT = 60
X264 = {"preset": "veryfast", "g": "20", "sc_threshold": "0", "bf": "2"}
X265 = (
    "log-level=none:pools=none:frame-threads=1:keyint=20:bframes=2:b-adapt=0:scenecut=0"
)
MPEG = {"bf": "2", "g": "15", "b": "800k", "b_strategy": "0"}
CODED: dict[str, tuple[str, dict[str, str]]] = {
    "h264": ("libx264", X264),
    "hevc": ("libx265", {"preset": "ultrafast", "x265-params": X265}),
    "hashed": ("libx265", {"preset": "ultrafast", "x265-params": f"{X265}:hash=1"}),
    "mpeg2": ("mpeg2video", MPEG),
    "mpeg4": ("mpeg4", MPEG),
    "vp8": ("libvpx", {"g": "20", "b": "4M", "deadline": "realtime"}),
    "mjpeg": ("mjpeg", {"b": "2M"}),
    "vp9": ("libvpx-vp9", {"g": "20", "b": "4M", "deadline": "realtime"}),
    "mpeg4p": ("mpeg4", {"bf": "0", "g": "15", "b": "800k"}),
    "msmpeg4v2": ("msmpeg4v2", {"g": "15", "b": "800k"}),
    "wmv2": ("wmv2", {"g": "15", "b": "800k"}),
    "flv1": ("flv", {"g": "15", "b": "800k"}),
    "h263": ("h263", {"g": "15", "b": "800k"}),
    "ffv1": ("ffv1", {"level": "3", "slicecrc": "1", "g": "10"}),
    "av1": ("libsvtav1", {"g": "20", "preset": "8", "svtav1-params": "lp=1"}),
}
PIXELS = {"mjpeg": "yuvj420p"}
# H.263 has a few sizes only.
SIZES = {"h263": (176, 144)}


@dataclass(frozen=True)
class Verdict:
    """Of each picture that can be had: whether it is one of the clean file, whether marked."""

    whole: np.ndarray
    marked: np.ndarray
    info: VideoInfo


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("clean")

    @cache
    def make(name: str) -> Path:
        codec, options = CODED[name.split(".")[0]]
        path, numbers = folder / name, range(COUNT)
        kind = name.split(".")[0]
        return write_video(
            path,
            codec,
            numbers=numbers,
            options=options,
            size=SIZES.get(kind, (160, 120)),
            pix_fmt=PIXELS.get(kind, "yuv420p"),
        )

    return make


def all_of(path: Path) -> tuple[VideoInfo, DecodedClip]:
    info = probe(path, decode=True)
    view = PictureView(info.index.frames)
    return info, decode_views(path, [view])[view]


def digest(picture: np.ndarray) -> bytes:
    return hashlib.sha256(picture.tobytes()).digest()


@cache
def known_pictures(clean: Path) -> frozenset[bytes]:
    """The digests of all pictures of a clean file, which many tests compare with."""
    return frozenset(map(digest, all_of(clean)[1].pictures))


def judge(path: Path, clean: Path) -> Verdict:
    known = known_pictures(clean)
    info, clip = all_of(path)
    whole = np.array([digest(picture) in known for picture in clip.pictures])
    return Verdict(whole, clip.substituted, info)


def positions_of(path: Path, kind: str) -> list[int]:
    """Positions of pictures of a kind, as the decoder names them."""
    import av

    with av.open(str(path)) as opened:
        packets = [packet for packet in opened.demux(video=0) if packet.size]
        codec = opened.streams.video[0].codec_context
        found = []
        for number, packet in enumerate(packets):
            packet.pts = packet.dts = number
        for packet in [*packets, None]:
            found += [
                f.pts
                for f in codec.decode(packet)
                if f.pict_type == av.video.frame.PictureType[kind]
            ]
    return sorted(found)


@pytest.mark.parametrize(("suffix", "nth"), [(".mkv", 2), (".ts", 5), (".avi", 5)])
def test_a_lost_picture_of_h264_marks_what_was_built_on_it(
    clean: Any, tmp_path: Path, suffix: str, nth: int
) -> None:
    whole = clean(f"h264{suffix}")
    position = positions_of(whole, "P")[nth]
    found = judge(drop_packets(whole, tmp_path / f"lost{suffix}", {position}), whole)
    assert len(found.whole) == COUNT - 1 and not found.whole.all()
    assert not (~found.whole & ~found.marked).any()
    assert found.info.damaged
    # Nothing but the group it was lost from.
    (rows,) = np.nonzero(found.marked)
    group = position // 20
    assert group * 20 <= rows.min() and rows.max() < (group + 1) * 20


def test_no_picture_behind_a_hole_in_an_avi_film_is_at_another_time(
    tmp_path: Path,
) -> None:
    """AVI has no times: pictures behind missing ones are counted, and are too early."""
    path = write_video(tmp_path / "film.avi", "mpeg4", numbers=range(200))
    data = bytearray(path.read_bytes())
    start = int(len(data) * 0.4)
    n_bytes = int(len(data) * 0.05)
    data[start : start + n_bytes] = bytes(n_bytes)
    path.write_bytes(data)
    before = decode_clip(path, PictureView(8), start_s=0.4, end_s=2.0)
    assert read_numbers(before.pictures) == before.index.tolist()
    with pytest.raises(BadVideo) as caught:
        decode_clip(path, PictureView(8), start_s=6.0, end_s=7.5)
    assert caught.value.reason == "damaged"


LOST = ["vp8.avi", "mpeg4p.mkv", "msmpeg4v2.avi", "flv1.flv", "ffv1.mkv", "av1.mkv"]
LOST += ["hevc.mkv", "mpeg2.mkv", "h264.mkv"]
LOST_AT = [(name, 23) for name in LOST] + [("mpeg4.avi", 36), ("vp9.webm", 36)]


@pytest.mark.parametrize(("name", "position"), LOST_AT)
def test_nothing_is_built_on_a_lost_packet_unmarked(
    clean: Any, tmp_path: Path, name: str, position: int
) -> None:
    """Most decoders go on with the picture before, and report nothing."""
    whole = clean(name)
    path = drop_packets(whole, tmp_path / name, {position})
    found = judge(path, whole)
    assert not (~found.whole & ~found.marked).any()
    assert found.info.damaged or found.whole.all()
    # Also in a part that begins after the lost packet, and before the next key frame.
    known = known_pictures(whole)
    wrong = np.flatnonzero(~found.whole).tolist()
    for rank in wrong[1:2]:
        ranks = [rank, rank + 1]
        with pytest.raises(BadVideo) as caught:
            decode_clip(path, PictureView(2), ranks=ranks)
        assert caught.value.reason == "damaged"
    # The last group is whole.
    last = decode_clip(path, PictureView(4), ranks=[55, 56, 57, 58])
    assert all(digest(picture) in known for picture in last.pictures)


@pytest.mark.parametrize(
    ("name", "position", "indexed"),
    [
        ("ffv1.mkv", 23, True),
        ("msmpeg4v2.avi", 36, True),
        ("wmv2.avi", 23, False),
        ("h263.avi", 36, False),
    ],
)
def test_what_a_decoder_only_logs_is_damage(
    clean: Any, tmp_path: Path, name: str, position: int, indexed: bool
) -> None:
    whole = clean(name)
    path = change_packets(whole, tmp_path / name, {position}, flip_bits)
    found = judge(path, whole)
    assert found.marked.any() and not (~found.whole & ~found.marked).any()
    rank = int(np.flatnonzero(found.marked).max())
    indexes = tmp_path / "indexes" if indexed else None
    with pytest.raises(BadVideo) as caught:
        decode_clip(path, PictureView(1), ranks=[rank], indexes=indexes)
    assert caught.value.reason == "damaged"


def test_what_is_reported_of_a_whole_film_is_reported_of_one_picture(
    clean: Any, tmp_path: Path
) -> None:
    """The decoder finds no error in the lost packet, but in a picture on which none is built."""
    whole = clean("h264.mp4")
    path = drop_packets(whole, tmp_path / "lost.mp4", {24})
    assert judge(path, whole).marked[38]
    with pytest.raises(BadVideo) as caught:
        decode_clip(path, PictureView(1), ranks=[38])
    assert caught.value.reason == "damaged"


def test_of_packets_falsely_called_key_frames_some_are(tmp_path: Path) -> None:
    """Every seventh packet is a key frame, and the container says that all are."""
    options = {"g": "7", "bf": "2", "b": "800k"}
    whole = write_video(
        tmp_path / "whole.mp4", "mpeg4", numbers=range(COUNT), options=options
    )

    def call_it_a_key_frame(number: int, packet: Any) -> Any:
        packet.is_keyframe = True
        return packet

    path = remux(whole, tmp_path / "all.mp4", call_it_a_key_frame)
    for rank in range(9, COUNT - 2, 7):
        ranks = [rank, rank + 1, rank + 2]
        assert (
            read_numbers(decode_clip(path, PictureView(3), ranks=ranks).pictures)
            == ranks
        )
    damaged = change_packets(path, tmp_path / "damaged.mp4", {23}, flip_bits)
    found = judge(damaged, path)
    assert not (~found.whole & ~found.marked).any()


@pytest.mark.parametrize(
    ("case", "how", "seed"),
    [
        # The key frame before the pictures that are reported is whole.
        (Case("hevc", "open", "hevc", "25", "whole", "none"), "file-remove", 75),
        # The packets that are reported show no picture.
        (Case("vp9", "plain", "mp4", "25", "whole", "none"), "file-zero", 76),
    ],
)
def test_what_is_reported_of_a_later_packet_marks_the_picture_that_is_asked_for_alone(
    case: Case, how: str, seed: int, tmp_path: Path
) -> None:
    whole = whole_film(case, tmp_path)
    assert whole is not None
    path = change(whole.path, tmp_path / f"damaged.{case.container}", how, seed)
    counts = Counts()
    judge_in_parts(whole, path, how, counts, at_a_time=14)
    assert counts.n_wrong == 0
    assert counts.n_marked + counts.refused.total() > 0 and what_is_said(path)


def test_a_pause_looks_like_a_loss_unless_the_container_says_how_long_pictures_last(
    tmp_path: Path,
) -> None:
    """Up to the next key frame the pictures are refused, and can be accepted."""
    ticks = [n + 2 * (n >= 25) for n in range(COUNT)]
    film_path = write_video(
        tmp_path / "pause.mkv", numbers=range(COUNT), ticks=ticks, options=X264
    )
    clip = decode_clip(film_path, PictureView(COUNT), accept_damaged=True)
    assert read_numbers(clip.pictures) == list(range(COUNT))
    (rows,) = np.nonzero(clip.substituted)
    assert set(range(25, 40)) <= set(rows.tolist()) <= set(range(21, 40))
    declared = write_video(
        tmp_path / "pause.mp4", numbers=range(COUNT), ticks=ticks, options=X264
    )
    clip = decode_clip(declared, PictureView(COUNT))
    assert read_numbers(clip.pictures) == list(range(COUNT))
    assert not clip.damaged


def test_a_gif_that_was_cut_in_its_last_picture(tmp_path: Path) -> None:
    whole = write_video(
        tmp_path / "whole.gif", "gif", numbers=range(20), pix_fmt="gray"
    )
    data = whole.read_bytes()
    assert not probe(whole).damaged
    short = tmp_path / "short.gif"
    for share in (0.35, 0.62, 0.93):
        short.write_bytes(data[: int(len(data) * share)])
        assert probe(short, decode=True).damaged
    # Comments may follow the last picture, and bytes that mean nothing the end.
    for end in (b"!\xfe\x05hello\x02ab\0;", b";" + bytes(40)):
        short.write_bytes(data[:-1] + end)
        assert not probe(short, decode=True).damaged


@pytest.mark.parametrize(("name", "seed"), [("hashed.mp4", 0), ("mjpeg.avi", 1)])
def test_flipped_bits_where_the_decoder_can_tell(
    clean: Any, tmp_path: Path, name: str, seed: int
) -> None:
    whole = clean(name)
    path = change_packets(whole, tmp_path / name, {10 + 9 * seed}, flip_bits, seed=seed)
    found = judge(path, whole)
    assert found.marked.any() and not (~found.whole & ~found.marked).any()
