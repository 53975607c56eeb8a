"""The pictures of the pages show the program of today (`scripts/make-pictures` makes them anew)."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.cli import ROOT, environment
from support.servers import need_program

IMAGES = ROOT / "docs" / "images"
MADE = ("one-store", "two-senses", "joined", "film", "agreement", "share")
DRAWN = ("night", "laptop", "lab")


def words_on(picture: Path) -> list[str]:
    """Return the words on a picture, 0 for each number: last digits and times differ by machine."""
    if picture.suffix == ".svg":
        text = "\n".join(ElementTree.parse(picture).getroot().itertext())
    else:
        text = picture.with_suffix(".txt").read_text(encoding="utf-8")
    return re.sub(r"\b[0-9a-f]{8,}\b|-?[\d.,:]*\d", "0", text).split()


def numbers_on(picture: Path) -> list[float]:
    text = picture.with_suffix(".txt").read_text(encoding="utf-8")
    return [float(number) for number in re.findall(r"-?\d*\.\d+", text)]


@pytest.mark.check("follows four pages, and photographs what they make in a browser")
@pytest.mark.timeout(900)
def test_the_words_on_the_pictures_are_those_of_today(tmp_path):
    need_program("chromium")
    need_program("chromedriver")
    script = ROOT / "scripts" / "make-pictures"
    words = [sys.executable, script, "-o", tmp_path, "gallery", *DRAWN]
    subprocess.run(words, check=True, env=environment())
    for name in MADE:
        picture = f"{name}.png"
        assert words_on(tmp_path / picture) == words_on(IMAGES / picture), picture
        today = pytest.approx(numbers_on(tmp_path / picture), abs=0.011)
        assert numbers_on(IMAGES / picture) == today, picture
    for name in DRAWN:
        picture = f"{name}.svg"
        assert words_on(tmp_path / picture) == words_on(IMAGES / picture), picture


def test_every_picture_is_made_by_the_script_and_shown_on_a_page():
    pictures = {path.name for path in IMAGES.iterdir() if path.suffix != ".txt"}
    by_script = {f"{name}.png" for name in MADE} | {f"{name}.svg" for name in DRAWN}
    assert pictures == by_script | {"overview.svg"}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert pictures == set(re.findall(r"images/([\w-]+\.\w+)\)", text))
