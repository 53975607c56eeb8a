"""Story 34: I have the subtitles of my films.

They become a store without a word in it. A concept that only words carry is found by words, and a
model of two sentences stands in the same table as what was trained.
"""

import re

import numpy as np
import pytest
from support.words import real_encoder

from stories.films import Row
from stories.results import the_result
from stories.workspace import Workspace

FILMS = tuple(f"film{number:02d}" for number in range(1, 7))
PER_FILM = 12
SECONDS = 4
AT_SEA = (
    "The captain steers the ship through the storm.",
    "Raise the sails, the wind is turning!",
    "We saw the harbour from the deck.",
    "The anchor is lost in deep water.",
    "Sailors sing while the waves rise.",
)
IN_THE_KITCHEN = (
    "The soup needs more salt and pepper.",
    "She bakes bread in the oven.",
    "Cut the onions, then fry them in butter.",
    "Dinner is ready, wash the plates.",
    "He peels potatoes for the stew.",
)
# Some clips of both kinds say what tells nothing.
ANYWHERE = ("Yes, of course.",)
SILENT = 5
PROMPTS = """
schema = "obygaze-prompts/1"
name = "places"
templates = ["{}", "they talk of {}"]
[attributes]
sea = ["a ship at sea", "sailing"]
kitchen = ["cooking a meal", "a kitchen"]
"""
ONE_TASK = """--set 'grid.train=["EN_S_spoken"]' --set 'grid.test=["EN_S_spoken"]'"""


def rows_and_texts() -> tuple[list[Row], list[str]]:
    """Return the table of clips, and what is said in each; in one of each film nothing is."""
    draws = np.random.default_rng(3)
    rows, texts = [], []
    for film in FILMS:
        for number in range(PER_FILM):
            is_spoken = bool(draws.random() < 0.4)
            lines = AT_SEA if is_spoken else IN_THE_KITCHEN
            if draws.random() < 0.15:
                lines = ANYWHERE
            said = str(draws.choice(lines))
            if number == SILENT:
                is_spoken, said = False, ""
            row = {"clip_id": f"{film}-{number:03d}", "movie_id": film}
            row |= {"start_s": SECONDS * number, "end_s": SECONDS * (number + 1)}
            row["level"] = "S" if is_spoken else "EN"
            rows.append({**row, "concepts": "Speech" if is_spoken else ""})
            texts.append(said)
    return rows, texts


def clock(seconds: float, sign: str) -> str:
    return f"0:00:{seconds:06.3f}".replace(".", sign)


def write_subtitles(ws: Workspace, rows: list[Row], texts: list[str]) -> None:
    for place, film in enumerate(FILMS):
        cues = [
            (row["start_s"] + 1.0, row["start_s"] + 2.5, said)
            for row, said in zip(rows, texts, strict=True)
            if row["movie_id"] == film and said
        ]
        ending = (".srt", ".vtt")[place % 2]
        parts = []
        for number, (start_s, end_s, said) in enumerate(cues, start=1):
            if ending == ".srt":
                times = f"{clock(start_s, ',')} --> {clock(end_s, ',')}"
                parts.append(f"{number}\n{times}\n<i>{said}</i>\n\n")
            else:
                times = f"{clock(start_s, '.')[2:]} --> {clock(end_s, '.')[2:]} line:0"
                parts.append(f"{times}\n<v Ann>{said}</v>\n\n")
        head = "WEBVTT\n\nNOTE made up\n\n" if ending == ".vtt" else ""
        text = head + "".join(parts)
        encoding = "utf-16" if film == FILMS[0] else "utf-8"
        path = ws.path(f"said/{film}{ending}")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode(encoding))


def words_in(ws: Workspace, store: str) -> set[str]:
    spoken = set(re.findall(r"[a-z]{5,}", " ".join(AT_SEA + IN_THE_KITCHEN).lower()))
    assert len(spoken) > 20
    # The page of the store has words of its own.
    spoken -= {"there", "while", "through"}
    found = set()
    for data in ws.bytes_of(f"stores/{store}").values():
        found |= {word for word in spoken if word.encode() in data.lower()}
    return found


@pytest.mark.timeout(200)
def test_words_are_read_and_two_sentences_stand_beside_a_trained_model(ws) -> None:
    real_encoder()
    rows, texts = rows_and_texts()
    ws.import_table(rows, "films")
    write_subtitles(ws, rows, texts)
    told = ws("extract words films -b minilm --subtitles said")
    assert f"{len(FILMS)} clips without words" in told.err
    assert words_in(ws, "films.minilm") == set()
    ws("store verify films.minilm --hash")

    # By words alone, films unseen.
    ws.write("places.toml", PROMPTS)
    ws("extract text -b minilm --prompts places.toml -o places.npz")
    said = "--set models.said.kind=zero-shot --set models.said.texts=places.npz"
    said += " --set models.said.positive=sea --set models.said.negative=kitchen"
    ws(
        f"run mobygaze-words --manifest films --store words=films.minilm {ONE_TASK} {said}"
        ' --set \'grid.models=["ridge", "said"]\' -o by-words'
        " --set report.replicates=100"
    )
    ws("report by-words")
    page = ws.read("runs/by-words/report.html")
    assert f"{len(FILMS)} of {len(rows)} clips have no words in words" in page
    assert the_result(ws, "by-words", model="ridge")["ap"] > 0.9
    said_by_two = the_result(ws, "by-words", model="said")
    assert said_by_two["ap"] > 0.9
    assert said_by_two["ap_low"] < said_by_two["ap"] <= said_by_two["ap_high"]
