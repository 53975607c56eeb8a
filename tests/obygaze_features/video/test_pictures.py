import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from support.cli import call_obygaze

from obygaze_features.backbones.actions import load_backbone
from obygaze_features.store import open_store
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.film import probe

Pixels = npt.NDArray[np.uint8]
SIZE = (45, 63)


def scene(seed: int = 0, size: tuple[int, int] = SIZE) -> Pixels:
    """A smooth picture with other values in each corner and colour."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    picture: Pixels = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC)
    return picture


def chunk(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def png(rows: Pixels, colour: int, *before: bytes) -> bytes:
    """A PNG by the specification: 8 bits, no filter; `colour` is its colour type."""
    height, width = rows.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = (*before, chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(parts)


def exif(orientation: int) -> bytes:
    """A TIFF structure with one entry: the orientation."""
    entry = struct.pack("<HHIHH", 0x112, 3, 1, orientation, 0)
    return b"II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4)


def decoded(path: Path, count: int = 1) -> Pixels:
    return decode_clip(path, PictureView(count)).pictures


@pytest.mark.parametrize("name", ["x%03d.png", "star*.png"])
def test_a_png_made_by_hand_is_read_exactly(name: str, tmp_path: Path) -> None:
    picture = scene()
    (tmp_path / name).write_bytes(png(picture, 2))
    # What the name would match, were it a pattern.
    (tmp_path / "x001.png").write_bytes(png(scene(1), 2))
    (tmp_path / "starred.png").write_bytes(png(scene(1), 2))
    clip = decode_clip(tmp_path / name, PictureView(4))
    assert (clip.total, clip.damaged, clip.mask.all()) == (1, False, True)
    assert clip.as_line() == "1 of 1 pictures, 63 x 45, repeated to 4 frames"
    assert clip.index.tolist() == [0] * 4 and clip.time_s.tolist() == [0.0] * 4
    assert [np.array_equal(frame, picture) for frame in clip.pictures] == [True] * 4


def test_grey_transparent_and_indexed_pictures(tmp_path: Path) -> None:
    """Grey is grey in all colours; what is transparent has the colour that is stored."""
    picture, path = scene(), tmp_path / "a.png"
    grey = picture[..., 0]
    path.write_bytes(png(grey, 0))
    assert np.array_equal(decoded(path)[0], np.dstack([grey] * 3))
    path.write_bytes(png(np.dstack([picture, grey]), 6))
    assert np.array_equal(decoded(path)[0], picture)
    palette = np.random.default_rng(0).integers(0, 256, (256, 3), dtype=np.uint8)
    path.write_bytes(png(grey, 3, chunk(b"PLTE", palette.tobytes())))
    assert np.array_equal(decoded(path)[0], palette[grey])


def test_jpeg_and_webp_are_those_of_other_readers(tmp_path: Path) -> None:
    picture = scene(size=(600, 800))
    bgr = picture[..., ::-1]
    cv2.imwrite(str(tmp_path / "a.webp"), bgr, [cv2.IMWRITE_WEBP_QUALITY, 101])
    assert np.array_equal(decoded(tmp_path / "a.webp")[0], picture), "without loss"
    # With a colour for each pixel, decoders differ by rounding; else by how colours are spread.
    for name, sampling, most in (("full", 0, 3), ("half", 2, None)):
        path = tmp_path / f"{name}.jpeg"
        Image.fromarray(picture).save(path, quality=95, subsampling=sampling)
        theirs = cv2.imread(str(path))[..., ::-1].astype(int)
        away = np.abs(theirs - decoded(path)[0])
        assert away.max() <= most if most else 0 < away.mean() < 2
    Image.fromarray(picture).save(tmp_path / "lossy.webp", quality=95)
    theirs = cv2.imread(str(tmp_path / "lossy.webp"))[..., ::-1].astype(int)
    assert np.abs(theirs - decoded(tmp_path / "lossy.webp")[0]).mean() < 2


UPRIGHT: dict[int, Callable[[Any], Any]] = {
    1: lambda p: p,
    2: lambda p: p[:, ::-1],
    3: lambda p: p[::-1, ::-1],
    4: lambda p: p[::-1],
    5: lambda p: p.swapaxes(0, 1),
    6: lambda p: np.rot90(p, -1),
    7: lambda p: np.rot90(p, 2).swapaxes(0, 1),
    8: lambda p: np.rot90(p),
}


@pytest.mark.parametrize(
    ("orientation", "suffix"),
    [*((number, ".png") for number in UPRIGHT), (6, ".jpg"), (8, ".webp")],
)
def test_photographs_are_turned_upright(orientation, suffix, tmp_path) -> None:
    """By the table of the EXIF standard, and as OpenCV does."""
    picture, path, tiff = scene(), tmp_path / f"a{suffix}", exif(orientation)
    if suffix == ".png":
        path.write_bytes(png(picture, 2, chunk(b"eXIf", tiff)))
    else:
        settings = {"lossless": True, "quality": 95, "subsampling": 0}
        Image.fromarray(picture).save(path, **settings)
        picture = decoded(path)[0]
        Image.fromarray(scene()).save(path, exif=b"Exif\0\0" + tiff, **settings)
    (found,) = decoded(path)
    assert np.array_equal(found, UPRIGHT[orientation](picture))
    theirs = cv2.imread(str(path))[..., ::-1].astype(int)
    assert np.abs(theirs - found).max() <= (3 if suffix == ".jpg" else 0)
    upright = SIZE[::-1] if orientation > 4 else SIZE
    assert probe(path).geometry.upright == upright


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_the_density_of_a_print_does_not_stretch_a_picture(suffix, tmp_path) -> None:
    path = tmp_path / f"a{suffix}"
    Image.fromarray(scene()).save(path, dpi=(72, 144))
    assert decoded(path)[0].shape == scene().shape


def test_an_animation_is_a_clip_of_its_frames(tmp_path: Path) -> None:
    levels = (10, 100, 200)
    frames = [Image.fromarray(np.full((20, 30, 3), n, np.uint8)) for n in levels]
    more = {"save_all": True, "append_images": frames[1:], "duration": 100}
    for name in ("a.png", "a.gif"):
        frames[0].save(tmp_path / name, **more)
        clip = decode_clip(tmp_path / name, PictureView(6))
        assert clip.total == 3
        assert clip.pictures[:, 0, 0, 0].tolist() == [10, 10, 100, 100, 200, 200]
    frames[0].save(tmp_path / "a.webp", **more)
    with pytest.raises(BadVideo, match="animated WebP cannot be decoded") as caught:
        decoded(tmp_path / "a.webp")
    assert caught.value.reason == "animated"


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_damaged_pictures_are_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    Image.fromarray(scene()).save(path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    damaged = [whole[: len(whole) // 2], b"", b"not a picture", whole[:20]]
    for content in (*damaged, *[flipped] * (suffix == ".png")):
        path.write_bytes(content)
        with pytest.raises(BadVideo):
            decoded(path)


def test_a_folder_of_pictures_is_extracted(tmp_path: Path) -> None:
    """Each picture is a clip whose frames are all the same; videos come before their pictures."""
    folder = tmp_path / "art"
    for number, name in enumerate(("old/a.png", "old/b.jpg", "new/c.webp")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(scene(number)).save(folder / name, lossless=True)
    (folder / "new" / "d.png").write_bytes(b"\x89PNG\r\n\x1a\n, and no more")
    assert call_obygaze("-C", tmp_path, "manifest", "import", folder, "-o", "art").ok()
    words = ("extract", "run", "art", "-b", "descriptors")
    assert call_obygaze("-C", tmp_path, *words).code == 3
    store = open_store(tmp_path / "stores" / "art.descriptors")
    assert store.status().counts == {"ok": 3, "failed": 1}
    assert [*store.status().reasons] == [1]
    names = store.clip_ids.tolist()
    assert names == ["c", "d", "a", "b"]
    found = store.matrix("clip", missing="nan").values
    backbone = load_backbone("descriptors")
    for row, path in ((0, "new/c.webp"), (2, "old/a.png"), (3, "old/b.jpg")):
        still = np.repeat(decoded(folder / path), backbone.geometry.frames, axis=0)
        expected = backbone.forward(backbone.preprocess(still)[None])["clip"][0]
        assert np.array_equal(found[row], expected.astype(found.dtype))
