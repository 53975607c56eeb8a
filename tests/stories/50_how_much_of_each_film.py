"""Story 50: how much of each film? Two people coded films wholly, and one of them only in part.

The share of the time and of the clips is counted: of each film, of each coder, and of all, with a
figure and tables. What a person did not code counts nowhere, so the share of half a film is that of
this half.
"""

import csv
import re
from fractions import Fraction

import pytest
from support.videos import write_video

from stories.workspace import Workspace

RATE = 10
LENGTH_S = 16
# What each person marked as strong violence, in seconds.
STRONG = {
    ("Anna", "Hof"): [(0, 4), (10, 11)],
    ("Ben", "Hof"): [(0, 3)],
    ("Anna", "See"): [(12, 16)],
    ("Ben", "See"): [(4, 6)],
    ("Anna", "Ufer"): [(6, 10)],
    ("Ben", "Ufer"): [(2, 6)],
}
# Ben coded half of one film.
HALF = ("Ben", "Ufer")
HALF_S = 8
OF = "--of 'violence == strong'"


def write_files(ws: Workspace) -> None:
    pympi = pytest.importorskip("pympi")
    ws.path("videos").mkdir()
    for (person, film), spans in STRONG.items():
        path = ws.path(f"videos/{film}.mp4")
        if not path.exists():
            frames = range(LENGTH_S * RATE)
            write_video(path, numbers=[*frames], rate=RATE, tick=Fraction(1, RATE))
        document = pympi.Eaf(author=person)
        document.add_linked_file(f"file:///films/{film}.mp4", mimetype="video/mp4")
        document.add_tier("violence")
        document.remove_tier("default")
        for start_s, end_s in spans:
            document.add_annotation("violence", 1000 * start_s, 1000 * end_s, "strong")
        seen_s = HALF_S if (person, film) == HALF else LENGTH_S
        document.add_tier("watched")
        document.add_annotation("watched", 0, 1000 * seen_s, "violence")
        ws.path(person).mkdir(exist_ok=True)
        document.to_file(str(ws.path(f"{person}/{film}.eaf")))


def seconds_of(person: str, film: str) -> tuple[set[int], set[int]]:
    """Return the seconds that a person coded, and those that this person marked."""
    marked: set[int] = set()
    for start_s, end_s in STRONG[person, film]:
        marked |= {*range(start_s, end_s)}
    coded_s = HALF_S if (person, film) == HALF else LENGTH_S
    return {*range(coded_s)}, marked


def test_the_share_of_each_film_and_coder_is_that_of_what_was_coded(ws) -> None:
    write_files(ws)
    ws("manifest windows videos -o clips --seconds 2")
    ws("marks import Anna Ben -o coded")
    document = ws(f"audit share coded {OF} --json").json()
    shares = {
        (row["film"], row["coder"]): row["share_of_time"] for row in document["rows"]
    }
    films = ("Hof", "See", "Ufer")
    expected = {}
    for film in films:
        anna, ben = (seconds_of(person, film) for person in ("Anna", "Ben"))
        expected[film, "Anna"] = len(anna[1]) / len(anna[0])
        expected[film, "Ben"] = len(ben[1]) / len(ben[0])
        both = len(anna[1] | ben[1]) / len(anna[0] | ben[0])
        expected[film, "all coders"] = both
    # Four of the eight seconds that Ben saw, not of sixteen.
    assert expected["Ufer", "Ben"] == 4 / 8
    expected["all films", "Anna"] = (5 + 4 + 4) / 48
    expected["all films", "Ben"] = (3 + 2 + 4) / 40
    expected["all films", "all coders"] = (5 + 6 + 8) / 48
    assert shares == pytest.approx(expected, abs=1e-9)
    said = ws(f"audit share coded {OF} --figure how-much --table how-much.csv").text
    assert "holds for 0.396 of the coded time (0:00:19 of 0:00:48)" in said
    assert "Coded in part, the rest counts nowhere: Ufer by Ben (0:00:08 of" in said
    assert ws.path("how-much.svg").is_file() and ws.path("how-much.png").is_file()
    with ws.path("how-much.csv").open(encoding="utf-8") as file:
        table = {(row["film"], row["coder"]): row for row in csv.DictReader(file)}
    assert float(table["Ufer", "Ben"]["share of time"]) == pytest.approx(0.5)

    # The share of clips needs clips. A clip that Ben did not see is none of his.
    ws("marks clips coded --clips clips --order violence=none,strong -o labels")
    document = ws(f"audit share labels {OF} --json").json()
    counts = {
        (row["film"], row["coder"]): (row["n_with"], row["n_clips"])
        for row in document["rows"]
    }
    assert counts["Ufer", "Ben"] == (2, 4)
    assert counts["Ufer", "Anna"] == (2, 8)
    assert counts["Ufer", "all coders"] == (4, 8)
    assert counts["Hof", "Ben"] == (2, 8)
    assert counts["all films", "Ben"] == (5, 20)
    ws(f"audit share labels {OF} --table share.tex --report share.html")
    tex = ws.read("share.tex")
    assert re.search(r"Ufer & Ben & 4 & 2 & 0\.500 & ", tex)
    assert r"\end{tabular}" in tex and "counts nowhere" in tex
    assert "<svg" in ws.read("share.html")
