"""Story 48: each of us has a sheet in one workbook.

Anna writes decimal commas, and NA where she could not tell. Ben spells a film in another way, has a
column of remarks, and a formula of his failed. One refusal asks about all of it; the line that it
prints makes a manifest. The labels are those that pandas reads, and the agreement is that of the
package krippendorff.
"""

import shlex
from typing import Any

import numpy as np
import pandas
import pytest
from support.workbooks import write_workbook

from stories.workspace import Workspace

FILMS = ("Night Train", "L'Été", "Juno", "Kes")
PER_FILM = 12
OTHER_NAMES = {"Night Train": "night_train (1954)", "Kes": "KES"}
MOODS = ("ruhig", "heiter", "wild")
HEADER = ["Clip", "Film", "Begin Time - msec", "End Time - msec", "Stimmung", "Punkte"]
Cells = list[list[Any]]


def write_sheets(ws: Workspace, *, with_error: bool) -> None:
    """Write what two people said; each has an answer to most clips."""
    draws = np.random.default_rng(48)
    sheets: dict[str, Cells] = {"Legende": [["Wort", "Bedeutung"], ["ruhig", "-"]]}
    sheets |= {"Anna": [HEADER], "Ben": [[*HEADER, "Bemerkung"]]}
    for film in FILMS:
        for number in range(PER_FILM):
            clip = f"{FILMS.index(film)}{'abcdefghijkl'[number]}"
            times = [1000 * number + 500, 1000 * number + 1500]
            mood = draws.integers(len(MOODS))
            points = int(draws.integers(2, 11)) / 2
            comma = str(points).replace(".", ",").removesuffix(",0")
            anna = [MOODS[mood], comma]
            if draws.random() < 0.2:
                anna[draws.integers(2)] = "NA"
            sheets["Anna"].append([clip, film, *times, *anna])
            is_other = draws.random() < 0.3
            word = MOODS[(mood + 1) % 3 if is_other else mood]
            near = points + draws.choice([0, 0, 0.5, 1])
            ben: list[Any] = [word, float(near)]
            if number == 3 and film == "Juno" and with_error:
                ben[1] = "#DIV/0!"
            name = OTHER_NAMES.get(film, film)
            remark = "Schnee" if number == 0 else None
            sheets["Ben"].append([clip, name, *times, *ben, remark])
    write_workbook(ws.path("kino.xlsx"), sheets)


def said_by(ws: Workspace, sheet: str) -> pandas.DataFrame:
    """Return the answers of a sheet as pandas reads them."""
    table = pandas.read_excel(
        ws.path("kino.xlsx"), sheet_name=sheet, engine="calamine", dtype=str
    )
    answers = pandas.DataFrame(index=table["Clip"])
    answers["Stimmung"] = [*table["Stimmung"]]
    points = table["Punkte"].str.replace(",", ".")
    answers["Punkte"] = [*pandas.to_numeric(points, errors="coerce")]
    return answers


def likely_line(text: str) -> list[str]:
    """Return the words of the line that a refusal prints, without the name of the program."""
    line = text.rpartition("obygaze manifest import")[2]
    return ["manifest", "import", *shlex.split(line.splitlines()[0])]


def test_one_line_reads_the_sheets_of_two_people(ws: Workspace) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    write_sheets(ws, with_error=True)
    refused = ws("manifest import kino.xlsx -o kino", code=1).text
    for asked in (
        "'Anna' and 'Ben' have the same columns",
        "'night_train (1954)' may be the film 'Night Train'",
        "'KES' may be the film 'Kes'",
        "'Begin Time - msec' has milliseconds by its name",
        "'NA' usually means that there is no answer",
        "kino.xlsx (sheet Ben):29: column 'Punkte': expected a value, got the error #DIV/0!",
    ):
        assert asked in refused, asked
    assert not ws.path("manifests/kino.csv").exists()
    # The cell is unknown: nobody knows what Ben divided by nothing.
    line = likely_line(refused)
    assert "#DIV/0!=?" in line
    for option in ("--sheet Anna", "--sheet Ben", "--film KES=Kes", "--rule agreed"):
        assert option in shlex.join(line)
    ws(shlex.join(line))

    clips = {row["clip_id"]: row for row in ws.read_table("manifests/kino.csv")}
    assert len(clips) == len(FILMS) * PER_FILM
    films = [row["movie_id"] for row in clips.values()]
    assert films == [
        film for film in ("Night_Train", "L_Ete", "Juno", "Kes") for _ in range(12)
    ]
    spans = [(float(row["start_s"]), float(row["end_s"])) for row in clips.values()]
    assert spans == [(n + 0.5, n + 1.5) for _ in FILMS for n in range(PER_FILM)]

    told = {name: said_by(ws, name) for name in ("Anna", "Ben")}
    n_answers = 0
    for row in ws.read_table("manifests/kino.annotators.csv"):
        expected = told[row["annotator"]].loc[row["clip_id"]]
        mood = expected["Stimmung"]
        assert row["Stimmung"] == ("" if pandas.isna(mood) else mood)
        points = float(row["Punkte"] or "nan")
        assert (
            points == expected["Punkte"] or np.isnan([points, expected["Punkte"]]).all()
        )
        n_answers += bool(row["Stimmung"]) + bool(row["Punkte"])
    assert n_answers == sum(
        int(answers.notna().to_numpy().sum()) for answers in told.values()
    )
    # Where both say the same, or one says nothing, the label is what was said.
    for clip, row in clips.items():
        moods = {told[name].loc[clip, "Stimmung"] for name in told}
        moods = {mood for mood in moods if not pandas.isna(mood)}
        assert row["Stimmung"] == (moods.pop() if len(moods) == 1 else "")

    for column, level in (("Stimmung", "nominal"), ("Punkte", "interval")):
        agreed = ws(f"agree kino --column {column} --json").json()["rows"][0]
        codes = [told[name][column] for name in told]
        if column == "Stimmung":
            codes = [
                one.map({word: n for n, word in enumerate(MOODS)}) for one in codes
            ]
        values = np.array([one.to_numpy(float) for one in codes])
        alpha = krippendorff.alpha(values, level_of_measurement=level)
        assert agreed["alpha"] == pytest.approx(alpha, abs=1e-12), column
        assert agreed["items"] == (~np.isnan(values)).all(axis=0).sum()


def test_films_of_a_later_table_and_of_files_are_found_or_typed(ws: Workspace) -> None:
    write_sheets(ws, with_error=False)
    refused = ws("manifest import kino.xlsx -o kino", code=1).text
    ws(shlex.join(likely_line(refused)))
    decades = [
        {"Film": "NIGHT.TRAIN", "decade": "50s"},
        {"Film": "Kes (1969)", "decade": "60s"},
    ]
    decades.append({"Film": "Juno_Diablo_Cody", "decade": "00s"})
    ws.write_table("decades.csv", decades)
    join = "manifest join kino decades.csv --map movie_id=Film"
    said = ws(join).text
    assert (
        "matched in another spelling: NIGHT.TRAIN (Night_Train), Kes (1969) (Kes)"
        in said
    )
    option = "--film Juno_Diablo_Cody=Juno"
    assert f"pass {option}" in said
    ws(f"{join} --force {option}")
    found = {
        row["movie_id"]: row["decade"] for row in ws.read_table("manifests/kino.csv")
    }
    assert found == {"Night_Train": "50s", "L_Ete": "", "Juno": "00s", "Kes": "60s"}
