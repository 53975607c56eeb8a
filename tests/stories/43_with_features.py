"""Story 43: a lab that has the films of ObyGaze12 types the block "With features" of the papers.

The files of the data set are the published ones; films and weights are made up.
"""

import csv
import shutil
from collections import Counter
from itertools import groupby, islice, product
from operator import itemgetter
from types import SimpleNamespace

import pytest
from support.checkpoints import hub_cache, save_tiny, write_tiny_card
from support.cli import ROOT
from support.data import real_data
from support.pages import blocks
from support.videos import encode_video

import obygaze as og
from stories.workspace import Workspace

BACKBONE = "xclip-b16-k600-zs"
TINY_BACKBONE = "xclip-b16-ktiny"
CHECKPOINT = "lab/random"
N_FILMS = 4
"""Films of each label in each fold."""

pytestmark = pytest.mark.check("extracts features of 80 films")


def begin(ws: Workspace) -> None:
    """Begin with the published files, films of some clips, and weights in the hub's cache."""
    files = real_data("obygaze12")
    shutil.copy(files / "ObyGaze12_thresh_02.csv", ws.folder)
    shutil.copytree(files, ws.path("splits"))
    ws.path("clips").mkdir()
    with (files / "02_ENHN_S.csv").open(encoding="utf-8", newline="") as stream:
        rows = [
            row for row in csv.DictReader(stream, delimiter=";") if row["video_name"]
        ]
    rows.sort(key=itemgetter("fold", "label"))
    for _, alike in groupby(rows, itemgetter("fold", "label")):
        for row in islice(alike, N_FILMS):
            first = int(row["id"].split("-")[1])
            film = ws.path(f"clips/{row['video_name']}")
            encode_video(film, "mpeg4", numbers=range(first, first + 20))
    card = write_tiny_card("xclip", ws.path("cards"), CHECKPOINT).read_text("utf-8")
    # Like the card of the page, so it has the same presets, and a name that the protocol knows.
    card = card.replace("xclip-b32-k400", BACKBONE).replace("tiny-xclip", TINY_BACKBONE)
    ws.write(f"backbones/{TINY_BACKBONE}.toml", card)
    weights = save_tiny("xclip", ws.path("weights"))
    repository = SimpleNamespace(checkpoint=CHECKPOINT, revision="main")
    hub_cache(repository, ws.path("cache/hub"), weights)


def test_the_block_of_the_page_succeeds_the_first_time(ws: Workspace) -> None:
    begin(ws)
    env = {"HF_HOME": str(ws.path("cache")), "HF_HUB_OFFLINE": "1"}
    page = ROOT / "docs" / "papers.md"
    (block,) = (one for one in blocks(page) if "--device cuda" in one.text)
    typed = block.commands.replace("\\\n", " ").replace(" --device cuda", "")
    typed = typed.replace("/data/clips", "clips").replace(BACKBONE, TINY_BACKBONE)
    for line in typed.splitlines():
        # Clips without a film are rows without features, which an exit code tells.
        code = 3 if "extract run" in line else 0
        ws(line.removeprefix("obygaze "), code=code, env=env)
    store = og.open_store("obygaze12.xclip", workspace=ws.folder)
    n_films = len(list(ws.path("clips").iterdir()))
    assert Counter(row.status for row in store.rows) == {
        "ok": n_films,
        "no-video": 1914 - n_films,
    }
    results = ws.read_table("runs/table2/results.csv")
    cells = {(row["train"], row["test"]) for row in results}
    assert cells == set(product(("EN_S", "HN_S"), ("EN_S", "ENHN_S")))
    assert ".82 (.03)" in ws.read("paper.html")
