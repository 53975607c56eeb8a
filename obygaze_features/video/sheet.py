"""A contact sheet: the pictures of a clip on one page with their times, for eyes."""

from __future__ import annotations

import io
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from obygaze_features.video.decode import Clip

CELL_EDGE = 320
GAP, LINE = 8, 18
PAPER, INK, WARNING = (250, 250, 248), (40, 40, 40), (178, 34, 34)


def contact_sheet(clip: Clip, *, columns: int | None = None) -> bytes:
    """The sheet as PNG; substituted pictures are framed and marked."""
    count, height, width = clip.frames.shape[:3]
    scale = min(1.0, CELL_EDGE / max(height, width))
    cell_w, cell_h = max(1, round(width * scale)), max(1, round(height * scale))
    across = columns or max(1, math.ceil(math.sqrt(count * cell_h / cell_w)))
    down = math.ceil(count / across)
    size = (across * (cell_w + GAP) + GAP, down * (cell_h + LINE + GAP) + GAP)
    sheet = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(12)
    for number in range(count):
        x = GAP + number % across * (cell_w + GAP)
        y = GAP + number // across * (cell_h + LINE + GAP)
        picture = Image.fromarray(clip.frames[number]).resize((cell_w, cell_h))
        sheet.paste(picture, (x, y))
        bad = bool(clip.substituted[number])
        if bad:
            draw.rectangle((x - 2, y - 2, x + cell_w + 1, y + cell_h + 1), outline=WARNING, width=2)
        text = _fitting(_labels(clip, number), draw, font, cell_w)
        draw.text((x, y + cell_h + 2), text, fill=WARNING if bad else INK, font=font)
    data = io.BytesIO()
    sheet.save(data, "PNG")
    return data.getvalue()


def _labels(clip: Clip, number: int) -> list[str]:
    """What to write under a picture, the longest first."""
    if not clip.mask[number]:
        return ["empty", ""]
    time, index = _clock(clip.time_s[number]), int(clip.index[number])
    mark = " damaged" if clip.substituted[number] else ""
    return [f"{time}  #{index}{mark}", f"{time}{mark}", time, ""]


def _fitting(
    labels: list[str],
    draw: ImageDraw.ImageDraw,
    font: ImageFont.ImageFont | ImageFont.FreeTypeFont,
    width: int,
) -> str:
    return next((text for text in labels if draw.textlength(text, font) <= width), "")


def _clock(seconds: float) -> str:
    whole, thousandths = divmod(int(np.round(seconds * 1000)), 1000)
    hours, minutes = whole // 3600, whole // 60 % 60
    clock = f"{hours}:{minutes:02d}" if hours else f"{minutes}"
    return f"{clock}:{whole % 60:02d}.{thousandths:03d}"
