"""Story 44: I coded films in a spreadsheet: a row for each span, with own headers and clock times.

Several people write in it, in columns of words. The labels of clips are what pandas makes of the
spreadsheet.
"""

from random import Random
from typing import Any

import pandas
import pytest

from stories.workspace import Workspace

FILMS = ("Alba", "Brug", "Cirk")
MOODS = ("heiter", "traurig", "?", "")
STRENGTHS = ("schwach", "stark", "", "", "?")
CLIP_S = 10
THRESHOLD_S = 2
SEEN_S = 8
MAP = "--map movie_id=Film --map start_s=Von --map end_s=Bis"


def clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def draw_rows(people: tuple[str, ...]) -> list[dict[str, Any]]:
    """Draw spans of whole seconds; those of a person may overlap, and leave gaps."""
    draw = Random(44)
    rows = []
    for film in FILMS:
        for person in people:
            start_s = draw.randrange(0, 8)
            for _ in range(12):
                end_s = start_s + draw.randrange(1, 19)
                row = {"Nr": len(rows) + 1, "Film": film, "Wer": person}
                row |= {"Von": clock(start_s), "Bis": clock(end_s)}
                row |= {
                    "Stimmung": draw.choice(MOODS),
                    "Gewalt": draw.choice(STRENGTHS),
                }
                rows.append(row)
                start_s = max(0, end_s + draw.randrange(-3, 9))
    return rows


def covered_s(spans: pandas.DataFrame, first_s: int) -> int:
    """Return how many seconds of a clip spans cover together."""
    seconds = set()
    for start_s, end_s in zip(spans["start"], spans["end"], strict=True):
        seconds |= set(range(max(start_s, first_s), min(end_s, first_s + CLIP_S)))
    return len(seconds)


def mood_of(rows: pandas.DataFrame, first_s: int) -> str:
    """Return the word that covers most of a clip; `none` if the clip was seen; or nothing."""
    said = rows[~rows["Stimmung"].isin(["", "?"])]
    best, most_s, begin_s = "", THRESHOLD_S - 1, 0
    for word, spans in said.groupby("Stimmung"):
        of_word_s = covered_s(spans, first_s)
        touching = spans[(spans["start"] < first_s + CLIP_S) & (spans["end"] > first_s)]
        first_start_s = touching["start"].min()
        is_first = of_word_s == most_s and best and first_start_s < begin_s
        if of_word_s > most_s or is_first:
            best, most_s, begin_s = str(word), of_word_s, first_start_s
    return best or nothing_of(rows, "Stimmung", first_s)


def violence_of(rows: pandas.DataFrame, first_s: int) -> str:
    """Return the strongest word of a span that covers a fifth of a clip."""
    for word in ("stark", "schwach"):
        spans = rows[rows["Gewalt"] == word]
        for place in range(len(spans)):
            if covered_s(spans.iloc[place : place + 1], first_s) >= THRESHOLD_S:
                return word
    return nothing_of(rows, "Gewalt", first_s)


def nothing_of(rows: pandas.DataFrame, column: str, first_s: int) -> str:
    unknown = rows[rows[column].isin(["", "?"])]
    has_words = len(unknown) < len(rows)
    is_seen = CLIP_S - covered_s(unknown, first_s) >= SEEN_S
    return "none" if has_words and is_seen else ""


def expected_labels(
    rows: list[dict[str, Any]],
) -> dict[tuple[str, int, str], list[str]]:
    """Return mood and violence for each film, start of a clip, and person."""
    table = pandas.DataFrame(rows)
    for column, name in (("Von", "start"), ("Bis", "end")):
        seconds = pandas.to_timedelta(table[column]).dt.total_seconds()
        table[name] = seconds.astype(int)
    labels = {}
    for (film, person), own in table.groupby(["Film", "Wer"]):
        last_s = table[table["Film"] == film]["end"].max()
        for first_s in range(0, last_s - CLIP_S + 1, CLIP_S):
            said = [mood_of(own, first_s), violence_of(own, first_s)]
            if any(said):
                labels[str(film), first_s, str(person)] = said
    return labels


def found_labels(ws: Workspace, manifest: str) -> dict[tuple[str, int, str], list[str]]:
    clips = {row["clip_id"]: row for row in ws.read_table(f"manifests/{manifest}.csv")}
    found = {}
    for row in ws.read_table(f"manifests/{manifest}.annotators.csv"):
        clip = clips[row["clip_id"]]
        key = clip["movie_id"], round(float(clip["start_s"])), row["annotator"]
        found[key] = [row["Stimmung"], row["Gewalt"]]
    return found


@pytest.mark.parametrize("separator", [",", ";"])
def test_the_rows_of_several_people_become_labels_of_clips(ws, separator) -> None:
    rows = draw_rows(("Ada", "Ben"))
    ws.write_table("marken.csv", rows, separator)
    line = f"manifest import marken.csv -o marken {MAP} --map annotator=Wer --id {{Film}}-{{Nr}}"
    ws(line)
    refused = ws("marks clips marken --every 10 -o labels", code=2)
    assert "it is not stated which columns are marks" in refused.text
    # The running number is no likely answer.
    assert "pass --column Stimmung --column Gewalt" in refused.text
    words = "--column Stimmung --column Gewalt --order Gewalt=schwach,stark"
    told = ws(f"marks clips marken {words} --every {CLIP_S} -o labels")
    assert found_labels(ws, "labels") == expected_labels(rows)
    assert "the whole film counts as watched" in told.err
    # Of marks, agreement is measured on the labels of clips.
    agreed = ws("agree labels --column Stimmung --json").json()["rows"][0]
    both: dict[tuple[str, int], list[str]] = {}
    for (film, first_s, _), (mood, _) in expected_labels(rows).items():
        both.setdefault((film, first_s), []).append(mood)
    pairs = [words for words in both.values() if len(words) == 2 and all(words)]
    n_equal = sum(one == other for one, other in pairs)
    assert agreed["items"] == len(pairs)
    assert agreed["equal"] == pytest.approx(n_equal / len(pairs))
    # All is typed anew by the lines that the manifest keeps.
    lines = ws("manifest show labels --command").out.splitlines()
    assert lines == [
        f"obygaze {line}".replace("{Film}-{Nr}", "'{Film}-{Nr}'"),
        lines[1],
    ]


def test_without_a_column_of_people_all_rows_are_of_one(ws: Workspace) -> None:
    rows = draw_rows(("Ada",))
    own = [{name: cell for name, cell in row.items() if name != "Wer"} for row in rows]
    ws.write_table("marken.csv", own)
    ws(f"manifest import marken.csv -o marken {MAP} --id {{Film}}-{{Nr}}")
    words = "--column Stimmung --column Gewalt --order Gewalt=schwach,stark"
    ws(f"marks clips marken {words} --every {CLIP_S} -o labels")
    found = {}
    for row in ws.read_table("manifests/labels.csv"):
        key = row["movie_id"], round(float(row["start_s"])), "Ada"
        if row["Stimmung"] or row["Gewalt"]:
            found[key] = [row["Stimmung"], row["Gewalt"]]
    assert found == expected_labels(rows)
