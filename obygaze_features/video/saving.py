"""Save the pictures of a clip: as arrays (.npz) or as a contact sheet (.png)."""

import io
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_new
from obygaze_features.video.decoded_clip import DecodedClip

# The size of a contact sheet, in pixels, and its colours.
CELL_EDGE, GAP, LINE = 320, 8, 18
BACKGROUND, TEXT, WARNING = (250, 250, 248), (40, 40, 40), (178, 34, 34)


def save_clip(clip: DecodedClip, path: Path | str, *, force: bool = False) -> None:
    """Save a clip as an .npz file with its arrays, or as a .png file with a contact sheet.

    Args:
        clip: the clip that `decode_clip` returned.
        path: where to write; its ending selects the format.
        force: replace a file with other content.
    """
    suffix, data = Path(path).suffix.lower(), io.BytesIO()
    if suffix == ".npz":
        names = ("frames", "index", "time_s", "asked_s", "substituted", "mask")
        np.savez(data, **{name: getattr(clip, name) for name in names})
    elif suffix == ".png":
        data.write(contact_sheet(clip))
    else:
        raise FixUsage("the output must end in .npz or .png", where=str(path))
    write_new(Path(path), data.getvalue(), force=force)


def contact_sheet(clip: DecodedClip) -> bytes:
    """Return a PNG of all pictures with their times; substituted ones are framed and marked."""
    frames = clip.frames
    count, height, width = frames.shape[:3]
    scale = min(1.0, CELL_EDGE / max(height, width))
    cell_w, cell_h = max(1, round(width * scale)), max(1, round(height * scale))
    across = max(1, math.ceil(math.sqrt(count * cell_h / cell_w)))
    down = math.ceil(count / across)
    size = (across * (cell_w + GAP) + GAP, down * (cell_h + LINE + GAP) + GAP)
    sheet = Image.new("RGB", size, BACKGROUND)
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(12)
    for number, frame in enumerate(frames):
        x = GAP + number % across * (cell_w + GAP)
        y = GAP + number // across * (cell_h + LINE + GAP)
        sheet.paste(Image.fromarray(frame).resize((cell_w, cell_h)), (x, y))
        bad = bool(clip.substituted[number])
        if bad:
            draw.rectangle((x - 2, y - 2, x + cell_w + 1, y + cell_h + 1), outline=WARNING, width=2)
        labels = _labels(clip, number)
        text = next((text for text in labels if draw.textlength(text, font) <= cell_w), "")
        draw.text((x, y + cell_h + 2), text, fill=WARNING if bad else TEXT, font=font)
    data = io.BytesIO()
    sheet.save(data, "PNG")
    return data.getvalue()


def _labels(clip: DecodedClip, number: int) -> list[str]:
    """Return what may be written under a picture, the longest first."""
    if not clip.mask[number]:
        return ["empty"]
    seconds, milliseconds = divmod(round(float(clip.time_s[number]) * 1000), 1000)
    minutes, hours = f"{seconds // 60 % 60}", seconds // 3600
    clock = f"{hours}:{minutes:0>2}" if hours else minutes
    time = f"{clock}:{seconds % 60:02d}.{milliseconds:03d}"
    mark = " damaged" if clip.substituted[number] else ""
    return [f"{time}  #{clip.index[number]}{mark}", f"{time}{mark}", time]
