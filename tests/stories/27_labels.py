"""Story 27: I want to know what is in the labels, without any features.

How often is each level, and each concept at each level? Of which films and genres? Which of the
paper's sub-constructs? And do the emotions of somebody else's table go with a level?
"""

from __future__ import annotations

import pytest

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


def test_films_have_title_year_and_genres(ws: Workspace) -> None:
    import_clips(ws)
    answer = ws("manifest stats films")
    assert "Pulp Fiction 1994 Detective, Drama" in answer.text
    # Of a film that is in no list, a table says the genres.
    genres = [
        {"movie_id": "tt0110912", "genres": "detective|drama"},
        {"movie_id": "tt0467406", "genres": "comedy|drama"},
        {"movie_id": "pier", "genres": "comedy"},
    ]
    ws.write_table("genres.csv", genres)
    ws("manifest join films genres.csv")
    shown = ws("manifest show films --where 'comedy in genres and level == S' --json")
    found = [clip["clip_id"] for clip in shown.json()["clips"]]
    assert found == ["tt0467406-005", "pier-004", "pier-005"]


def test_concepts_are_grouped_by_subconstruct_or_by_ones_own_theory(
    ws: Workspace,
) -> None:
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


# ---- joined tables -------------------------------------------------------------------------------


def test_a_row_of_another_film_is_not_joined(ws: Workspace) -> None:
    import_clips(ws)
    rows = [{"clip_id": "pier-005", "movie_id": "tt0467406", "emotions": "fear"}]
    rows += [{"clip_id": "pier-004", "movie_id": "pier", "emotions": "joy"}]
    ws.write_table("emotions.csv", rows)
    text = ws("manifest join films emotions.csv", code=5).text
    assert "'pier-005' is of the film 'pier' and of 'tt0467406'" in text
