"""Story 27: I want to know what is in the labels, without any features.

How often is each level, and each concept at each level? Of which films and genres? Which of the
paper's sub-constructs? And do the emotions of somebody else's table go with a level?
"""

import numpy as np
import pytest
from scipy.stats import hypergeom

from stories.workspace import Workspace

# Two films of the paper by their ids, and one that nobody knows. In the visual view a clip of
# speech or voice alone is EN.
CLIPS = """\
clip_id,movie_id,level,concepts
tt0110912-001,tt0110912,EN,
tt0110912-002,tt0110912,HN,Look
tt0110912-003,tt0110912,HN,Speech
tt0110912-004,tt0110912,S,Look|Body|Speech
tt0110912-005,tt0110912,S,Type of shot|Look|Body
tt0467406-001,tt0467406,EN,
tt0467406-002,tt0467406,EN,
tt0467406-003,tt0467406,NS,Voice
tt0467406-004,tt0467406,NS,Body|Posture
tt0467406-005,tt0467406,S,Body
pier-001,pier,EN,
pier-002,pier,HN,Activities
pier-003,pier,HN,Activities|Look
pier-004,pier,S,Speech
pier-005,pier,S,Posture|Clothing
"""


def import_clips(ws: Workspace) -> None:
    ws.write("clips.csv", CLIPS)
    ws("manifest import clips.csv -o films")


def test_levels_and_concepts_are_counted_in_both_views(ws: Workspace) -> None:
    import_clips(ws)
    raw = ws("manifest stats films --view raw --json").json()
    assert raw["clips"] == 15
    assert raw["levels"] == {"EN": 4, "HN": 4, "NS": 2, "S": 5}
    assert raw["concepts"]["S"] == {
        "Type of shot": 1,
        "Look": 2,
        "Body": 3,
        "Posture": 1,
        "Clothing": 1,
        "Speech": 2,
    }
    # 2 of speech or voice alone, and a clip of level S with speech alone, become EN.
    visual = ws("manifest stats films --view visual --json").json()
    assert visual["levels"] == {"EN": 7, "HN": 3, "NS": 1, "S": 4}
    assert visual["share"]["EN"] == pytest.approx(7 / 15)
    assert visual["concepts_per_clip"] == pytest.approx(
        {"HN": 4 / 3, "NS": 2.0, "S": 8 / 4}
    )
    assert visual["concepts"]["HN"] == {"Look": 2, "Activities": 2}
    assert visual["by_film"]["pier"] == {"EN": 2, "HN": 2, "NS": 0, "S": 1}
    text = ws("manifest stats films --view visual").text
    assert "15 clips of 3 films" in text
    assert "EN 7 46.7 %" in text
    part = ws("manifest stats films --view visual --where 'Look in concept' --json")
    assert part.json()["levels"] == {"EN": 0, "HN": 2, "NS": 0, "S": 2}


def test_concepts_are_grouped_by_subconstruct_or_by_ones_own_theory(ws) -> None:
    import_clips(ws)
    ws("manifest group films -o by-subconstruct")
    # The male gaze is Type of shot and Look; a clip with both counts once.
    expression = "'\"male gaze\" in concept'"
    shown = ws(f"manifest show by-subconstruct --where {expression} --json").json()
    found = [clip["clip_id"] for clip in shown["clips"]]
    assert found == ["tt0110912-002", "tt0110912-004", "tt0110912-005", "pier-003"]
    ws.write(
        "theory.toml",
        '[groups]\n"being looked at" = ["Look", "Body"]\n"work" = ["Activities"]\n',
    )
    ws("manifest group films -o by-theory --groups theory.toml")
    counted = ws("manifest stats by-theory --view visual --json").json()["concepts"]
    assert counted["HN"] == {"being looked at": 2, "work": 2}
    assert counted["S"] == {
        "being looked at": 3,
        "Type of shot": 1,
        "Posture": 1,
        "Clothing": 1,
    }


# ---- emotions of another table -------------------------------------------------------------------

# Of each film: how many clips of levels S and EN, and how many of these have each emotion.
FILMS = {
    "harbour": {"S": 5, "EN": 7, "fear": (4, 1), "joy": (1, 4)},
    "lake": {"S": 4, "EN": 4, "fear": (3, 0), "joy": (2, 2)},
    "night": {"S": 6, "EN": 3, "fear": (3, 1), "joy": (5, 2)},
}


def clips_and_emotions() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    clips = []
    emotions = []
    for film, counts in FILMS.items():
        for column, level in enumerate(("S", "EN")):
            for number in range(counts[level]):
                clip_id = f"{film}-{level}-{number}"
                concepts = "Look" if level == "S" else ""
                row = {"clip_id": clip_id, "movie_id": film, "level": level}
                clips.append({**row, "concepts": concepts})
                # Two emotions of a clip are in two rows.
                for emotion in ("fear", "joy"):
                    if number < counts[emotion][column]:
                        emotions.append({"clip_id": clip_id, "emotions": emotion})
    return clips, emotions


def test_emotions_are_joined_and_tested_exactly(ws: Workspace) -> None:
    clips, emotions = clips_and_emotions()
    ws.write_table("clips.csv", clips)
    ws.write_table("emotions.csv", emotions)
    ws("manifest import clips.csv -o films")
    ws("manifest join films emotions.csv")
    # The third clip of level S of night has both emotions, of two rows of the table.
    both = ws(
        "manifest show films --where 'fear in emotions and joy in emotions' --json"
    )
    assert "night-S-2" in [clip["clip_id"] for clip in both.json()["clips"]]
    answer = ws(
        "audit annotations films 'level == S' 'level == EN' --column emotions --json"
    )
    found = answer.json()
    assert (found["n_x"], found["n_y"]) == (15, 14)
    values = {row["value"]: row for row in found["values"]}
    p_within = {}
    for emotion in ("fear", "joy"):
        n_s = sum(counts[emotion][0] for counts in FILMS.values())
        n_en = sum(counts[emotion][1] for counts in FILMS.values())
        row = values[emotion]
        assert row["share_x"] == pytest.approx(n_s / 15)
        assert row["share_y"] == pytest.approx(n_en / 14)
        # The chance of so many, where S is drawn from the clips of each film.
        chances = np.ones(1)
        for counts in FILMS.values():
            n_clips, k = counts["S"] + counts["EN"], np.arange(counts["S"] + 1)
            drawn = hypergeom.pmf(k, n_clips, sum(counts[emotion]), counts["S"])
            chances = np.convolve(chances, drawn)
        assert row["p_blocked"]["greater"] == pytest.approx(chances[n_s:].sum())
        p_within[emotion] = row["p_blocked"]["two_sided"]
    # Holm: the smaller of two p-values is doubled, the larger one is not below it.
    assert p_within["fear"] < p_within["joy"]
    largest = max(2 * p_within["fear"], p_within["joy"])
    assert values["fear"]["p_holm"] == pytest.approx(2 * p_within["fear"])
    assert values["joy"]["p_holm"] == pytest.approx(largest)
    line = "audit annotations films 'level == S' 'level == EN' --column emotions"
    assert "fear: 66.7 % of X, 14.3 % of Y" in ws(line).text
