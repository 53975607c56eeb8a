import struct
from pathlib import Path

import av
import numpy as np
import pytest
from support.video_kinds import KINDS, Made
from support.videos import numbered, read_numbers, write_video

from obygaze_features.video import picture
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip, decode_views
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.film import probe
from obygaze_features.video.picture import PictureConverter
from obygaze_features.video.resize import Resize


@pytest.fixture(scope="module", params=sorted(KINDS))
def made(request, tmp_path_factory) -> Made:
    return KINDS[request.param](tmp_path_factory.mktemp(request.param))


# Height and width, where they are not those of most files.
SHAPES = {
    "mp4_odd_size": (123, 161),
    "mp4_wide_pixels": (120, 233),
    "mp4_narrow_pixels": (120, 142),
}


def test_the_larger_of_two_streams_is_read(tmp_path: Path) -> None:
    path = tmp_path / "two.mkv"
    with av.open(str(path), "w") as out:
        streams = []
        for width, height in ((64, 48), (160, 120)):
            stream = out.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            streams.append(stream)
        for number in range(20):
            for stream, shift in zip(streams, (500, 0), strict=True):
                grey = numbered(number + shift, stream.width, stream.height)
                frame = av.VideoFrame.from_ndarray(grey, format="gray")
                frame = frame.reformat(format="yuv420p")
                frame.pts = number
                out.mux(stream.encode(frame))
        for stream in streams:
            out.mux(stream.encode())
    assert read_numbers(decode_clip(path, PictureView(4)).pictures) == [0, 5, 10, 15]


def test_probe_counts_the_pictures(made: Made) -> None:
    quick, full = probe(made.path), probe(made.path, decode=True)
    assert quick.index.frames == full.index.frames == len(made.numbers)
    assert quick.index.timed == full.index.timed == made.timed
    assert not quick.damaged and not full.damaged
    if made.times_s is not None:
        assert np.allclose(quick.index.times_s, made.times_s, atol=1e-3)


def test_whole_files_are_exact(made: Made) -> None:
    total, count = len(made.numbers), 32
    clip = decode_clip(made.path, PictureView(count))
    wanted = [int(i * total / count) for i in range(count)]
    assert clip.index.tolist() == wanted
    assert read_numbers(clip.pictures) == [made.numbers[i] for i in wanted]
    assert not clip.substituted.any() and clip.mask.all() and not clip.damaged
    assert clip.total == total
    shown = SHAPES.get(made.path.stem, (120, 160))
    assert clip.pictures.shape[1:3] == shown


def test_parts_are_exact(made: Made) -> None:
    times = probe(made.path).index.times_s
    for start, end in [(0.7, 2.2), (1.999, 2.6), (0.0, 0.05), (3.0, None)]:
        inside = [i for i, t in enumerate(times) if start <= t + 1e-6 < (end or 1e9)]
        if not inside:
            continue
        clip = decode_clip(made.path, PictureView(8), start_s=start, end_s=end)
        wanted = [inside[i * len(inside) // 8] for i in range(8)]
        assert clip.index.tolist() == wanted
        assert read_numbers(clip.pictures) == [made.numbers[i] for i in wanted]
        assert np.allclose(clip.time_s, times[wanted])


def test_several_views_share_one_decode(tmp_path: Path) -> None:
    made = KINDS["mp4_edit_list"](tmp_path)
    square = Resize(40, fit="squash", filter="bilinear")
    views = [PictureView(16, resize=square), PictureView(4, "fps", Resize(48))]
    clips = decode_views(made.path, views)
    for view, clip in clips.items():
        alone = decode_clip(made.path, view)
        assert np.array_equal(clip.pictures, alone.pictures)
        assert np.array_equal(clip.index, alone.index)
        real = clip.pictures[clip.mask]
        assert read_numbers(real) == [made.numbers[i] for i in clip.index[clip.mask]]


def test_one_level_of_one_pixel_is_another_hash(monkeypatch) -> None:
    before = picture.conversion_sha256()
    convert = PictureConverter.convert

    def other(*args: object) -> np.ndarray:
        pixels = convert(*args).copy()  # type: ignore[arg-type]
        pixels[0, 0, 0] ^= 1
        return pixels

    monkeypatch.setattr(PictureConverter, "convert", other)
    picture.conversion_sha256.cache_clear()
    assert picture.conversion_sha256() != before
    picture.conversion_sha256.cache_clear()


def test_colours_without_a_formula_are_a_reason(tmp_path: Path) -> None:
    options = {"preset": "veryfast", "x264-params": "colormatrix=YCgCo"}
    film = write_video(tmp_path / "film.mp4", numbers=range(5), options=options)
    with pytest.raises(BadVideo, match="colours of its pictures") as caught:
        decode_clip(film, PictureView(2))
    assert caught.value.reason == "colours"


def add_to_entry(film: Path, box: bytes) -> Path:
    """Add a box to the description of the pictures of an MP4 that ends with its table."""
    data = bytearray(film.read_bytes())
    end = data.find(b"stsd") + 12
    size = int.from_bytes(data[end : end + 4])
    data[end + size : end + size] = box
    paths = (
        b"moov",
        b"trak",
        b"mdia",
        b"minf",
        b"stbl",
        b"stsd",
        data[end + 4 : end + 8],
    )
    at = 0
    for name in paths:
        at = data.find(name, at + 4) - 4
        data[at : at + 4] = (int.from_bytes(data[at : at + 4]) + len(box)).to_bytes(4)
    film.write_bytes(data)
    return film


@pytest.mark.parametrize("turn", [0, 90])
def test_what_players_cut_off_is_not_shown(tmp_path: Path, turn: int) -> None:
    """A clean aperture in MP4, PixelCrop in Matroska: here of 32 x 24 pixels, not in the middle."""
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[4:28, 20:52] = 200
    film = tmp_path / "film.mp4"
    write_video(film, pictures=[picture] * 5, size=(64, 48), options={"qp": "0"})
    numbers = (32, 1, 24, 1, 4, 1, -8, 1)
    add_to_entry(film, struct.pack(">I4s8i", 40, b"clap", *numbers))
    copy = tmp_path / "film.mkv"
    with av.open(str(film)) as source, av.open(str(copy), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    if turn:
        data = film.read_bytes()
        at = data.find(b"tkhd") + 44
        matrix = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
        film.write_bytes(data[:at] + matrix + data[at + 36 :])
    for path, shape in ((film, (32, 24) if turn else (24, 32)), (copy, (24, 32))):
        (shown,) = decode_clip(path, PictureView(1)).pictures
        assert shown.shape == (*shape, 3)
        assert shown.min() > 190
        assert probe(path).geometry.upright == shape


@pytest.mark.parametrize(("profile", "is_alone"), [(5, True), (7, False), (8, False)])
def test_colours_of_dolby_vision_alone_are_refused(tmp_path, profile, is_alone) -> None:
    """Profile 5: they are stated as of no matrix, and BT.601 would show other ones.

    Profiles 7 and 8 have those of HDR10, which old records of them do not state.
    """
    film = write_video(tmp_path / "film.mp4", numbers=range(5))
    record = bytes([1, 0]) + (profile << 9 | 6 << 3 | 0b101).to_bytes(2) + bytes(20)
    add_to_entry(film, struct.pack(">I4s", 32, b"dvcC") + record)
    if is_alone:
        with pytest.raises(BadVideo, match="Dolby Vision") as caught:
            decode_clip(film, PictureView(2))
        assert caught.value.reason == "colours"
    else:
        assert read_numbers(decode_clip(film, PictureView(5)).pictures) == [*range(5)]
