"""Story 38: I have films, and ELAN files in which two of us wrote what we saw, in our own words.

My tiers become labels, I see how far we agree, and what features find of our words. The same ELAN
file comes back with a tier of scores, and all that was in it.
"""

import re
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from support.videos import write_video

from stories.workspace import Workspace

FILMS = ("Der Hof", "Nacht zug", "See", "Ufer")
SECONDS = 16
RATE = 10
# Of each two seconds of a film, whether there is violence, and how much.
WORDS = ("", "schwach", "stark")


def scenes_of(film: str) -> list[str]:
    draw = Random(film)
    return [draw.choice(WORDS) for _ in range(SECONDS // 2)]


def write_film(path: Path, scenes: list[str]) -> None:
    """Write a film whose pictures of violence have other numbers, which are in their pixels."""
    numbers = []
    for word in scenes:
        numbers += [(512 if word == "stark" else 0) + n for n in range(2 * RATE)]
    write_video(
        path,
        numbers=numbers,
        rate=RATE,
        tick=Fraction(1, RATE),
        options={"g": str(RATE)},
    )


def write_elan(path: Path, film: str, person: str, scenes: list[str]) -> None:
    """Write what a person saw as ELAN has it: an own tier, a tier that is linked, comments."""
    pympi = pytest.importorskip("pympi")
    document = pympi.Eaf(author="unspecified")
    document.add_linked_file(f"file:///C:/Filme/{film}.mp4", mimetype="video/mp4")
    document.add_linguistic_type("part", "Symbolic_Association", timealignable=False)
    document.add_tier("Gewalt_MK" if person == "Anna" else "Gewalt", ann=person)
    document.add_tier("Notiz", ann=person)
    document.remove_tier("default")
    tier = next(iter(document.tiers))
    document.add_tier("Mittel", "part", parent=tier, ann=person)
    for number, word in enumerate(scenes):
        start_ms = 2000 * number
        # Ben sees some scenes otherwise, and is not sure of others.
        if person == "Ben" and number % 6 == 0:
            word = "stark" if word == "schwach" else word
        elif person == "Ben" and number % 6 == 1 and word:
            word = f"{word} (?)"
        if word:
            document.add_annotation(tier, start_ms, start_ms + 2000, word)
        if word == "stark":
            document.add_ref_annotation("Mittel", tier, start_ms + 500, "Messer")
    document.add_annotation("Notiz", 1000, 3000, "vgl. Szene 3")
    path.parent.mkdir(exist_ok=True)
    document.to_file(str(path))


def test_from_elan_to_a_score_and_back(ws: Workspace) -> None:
    ws.path("videos").mkdir()
    for film in FILMS:
        scenes = scenes_of(film)
        write_film(ws.path(f"videos/{film}.mp4"), scenes)
        for person in ("Anna", "Ben"):
            write_elan(ws.path(f"{person}/{film}.eaf"), film, person, scenes)
    # 1: The films, cut into clips.
    ws("manifest windows videos -o clips --seconds 2 --every 2")
    # 2: What both wrote. Seven words are ours.
    imported = ws(
        "marks import Anna Ben -o coded --tier Gewalt_MK=Gewalt"
        " --tier Notiz=comment --word 'stark (?)=stark' --word 'schwach (?)=?' --json"
    ).json()
    assert imported["annotators"] == ["Anna", "Ben"]
    assert sorted(imported["columns"]) == ["Gewalt", "Mittel", "comment", "watched"]
    n_of_word = dict.fromkeys(imported["columns"]["Gewalt"], 0)
    for film in FILMS:
        for number, word in enumerate(scenes_of(film)):
            if not word:
                continue
            of_ben = word
            if number % 6 == 0:
                of_ben = "stark"
            elif number % 6 == 1:
                of_ben = "stark" if word == "stark" else "?"
            n_of_word[word] += 1
            n_of_word[of_ben] += 1
    assert imported["columns"]["Gewalt"] == n_of_word
    # 3: One label a clip.
    order = "--order Gewalt=schwach,stark"
    ws(f"marks clips coded --clips clips {order} -o labels")
    # 4: How far we agree.
    order = "--order Gewalt=none,schwach,stark"
    agreed = ws(f"agree labels --column Gewalt {order} --json")
    assert 0.5 < agreed.json()["rows"][0]["gamma_uniform"] < 1.0
    shown = ws("manifest show labels --limit 0 --json").json()["clips"]
    words = [clip["extra"]["Gewalt"] for clip in shown]
    expected = []
    for film in sorted(FILMS):
        for number, word in enumerate(scenes_of(film)):
            if number % 6 == 0 and word == "schwach":
                word = "stark"
            expected.append(word or "none")
    assert len(words) == len(FILMS) * SECONDS // 2
    assert words == expected
    # 5 and 6: Features of the pictures, and the question.
    ws("extract run labels -b descriptors --workers 1")
    asked = "--manifest labels --store labels.descriptors --task Gewalt=stark"
    ws(
        f"run honest {asked} -o question --jobs 1 --set report.replicates=20"
        """ --set 'grid.models=["ridge"]'"""
    )
    # 7: The same file, with a tier of scores.
    ws(
        "marks scores labels runs/question/predictions.csv scored.eaf"
        " --into 'Anna/Nacht zug.eaf'"
    )
    before = ws.path("Anna/Nacht zug.eaf").read_text("utf-8")
    after = ws.path("scored.eaf").read_text("utf-8")
    new = re.findall(r'(?s)\n    <TIER [^>]*TIER_ID="score[^"]*">.*?</TIER>', after)
    slots = re.findall(r'<TIME_SLOT TIME_SLOT_ID="ts[0-9]+"[^>]*>\n        ', after)
    for slot in slots:
        named = slot.partition(" TIME_VALUE")[0]
        if f"{named} " not in before:
            new.append(slot)
    for part in new:
        after = after.replace(part, "", 1)
    assert after == before
    again = "marks scores labels runs/question/predictions.csv twice.eaf"
    told = ws(f"{again} --into scored.eaf", code=1).text
    assert "the file already has scores of" in told
    pympi = pytest.importorskip("pympi")
    document = pympi.Eaf(str(ws.path("scored.eaf")))
    tiers = [name for name in document.tiers if name.startswith("score")]
    assert tiers
    rows = ws.read_table("runs/question/predictions.csv")
    of_film = [float(row["score"]) for row in rows if row["movie_id"] == "Nacht_zug"]
    for tier in tiers:
        annotations = document.get_annotation_data_for_tier(tier)
        assert len(annotations) == SECONDS // 2
        for _, _, text, *_ in annotations:
            # A tier has four digits of a score.
            score = float(text.partition("score ")[2])
            assert min(abs(score - one) for one in of_film) <= 1e-3 * abs(score)
