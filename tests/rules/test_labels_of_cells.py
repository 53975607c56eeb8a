"""Labels and agreement are those of the answers, however people write them, at every door.

Four coders rate clips in words, numbers and levels. Answers are drawn, then written as people do:
`?`, `NA` and empty cells where there is no answer, decimal commas, 1.5 and 1.50, and one error of a
formula. Pandas works out what each rule makes of the answers, and krippendorff works out alpha.
"""

import csv
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.cli import call_obygaze
from support.seeds import amount
from support.workbooks import write_workbook

from obygaze_features.manifest.io import read_manifest

krippendorff = pytest.importorskip("krippendorff")

CODERS = ("ada", "ben", "cleo", "dora")
MOODS = ("calm", "tense", "grim")
LEVELS = ("EN", "HN", "NS", "S")
COLUMNS = ("points", "mood", "level")
# The places of levels on a line.
PLACES = {"EN": 0.0, "HN": 0.3, "NS": 0.7, "S": 1.0}
RULES = ("agreed", "majority", "highest", "mean", "by:cleo")
ERROR = "#DIV/0!"
N_CLIPS = 40
CALLED_UNKNOWN = "--word NA=? --word '#DIV/0!=?'"
Cell = str | float | None


@dataclass(frozen=True)
class Answers:
    """The answers by column: a row for each clip, a column for each coder; missing is NaN."""

    points: pd.DataFrame
    mood: pd.DataFrame
    level: pd.DataFrame

    def of(self, column: str) -> pd.DataFrame:
        table: pd.DataFrame = getattr(self, column)
        return table


def drawn_answers(draws: np.random.Generator) -> Answers:
    clips = [f"film{number % 5}-{number:02d}" for number in range(N_CLIPS)]
    tables = {}
    for column in COLUMNS:
        words = {"mood": MOODS, "level": LEVELS, "points": tuple(np.arange(0, 3, 0.25))}
        # Coders agree more often than by chance.
        usual = draws.choice(np.array(words[column], dtype=object), N_CLIPS)
        other = draws.choice(np.array(words[column], dtype=object), (N_CLIPS, 4))
        said = np.where(draws.random((N_CLIPS, 4)) < 0.6, usual[:, None], other)
        said[draws.random((N_CLIPS, 4)) < 0.2] = np.nan
        # The error is in a cell whose answer nobody knows.
        said[0, 1] = np.nan
        tables[column] = pd.DataFrame(said, index=clips, columns=CODERS)
    tables["points"] = tables["points"].astype(float)
    return Answers(**tables)


class Pen:
    """Writes answers as people write them; a decimal comma is one of the whole file."""

    def __init__(self, draws: np.random.Generator, mark: str) -> None:
        self.draws = draws
        self.mark = mark

    def cell(self, answer: Any) -> Cell:
        if pd.isna(answer):
            return str(self.draws.choice(["?", "NA", ""]))
        if not isinstance(answer, float):
            return str(answer)
        if self.mark == "xlsx":
            # A number, or the text of a number that somebody typed.
            return answer if self.draws.random() < 0.8 else f"{answer:.2f}"
        forms = [f"{answer:g}", f"{answer:.2f}", f"{answer:.1f}"]
        exact = [form for form in forms if float(form) == answer]
        return str(self.draws.choice(exact)).replace(".", self.mark)


def rows_of(answers: Answers, pen: Pen, coder: str) -> Iterator[dict[str, Cell]]:
    """Yield the row of each clip of one coder; the error is the second coder's first answer."""
    for number, clip in enumerate(answers.points.index):
        row: dict[str, Cell] = {"clip_id": clip, "movie_id": clip[:5]}
        for column in COLUMNS:
            row[column] = pen.cell(answers.of(column).loc[clip, coder])
        if (coder, number) == (CODERS[1], 0):
            row["points"] = ERROR
        yield row


def write(path: Path, rows: list[dict[str, Cell]], delimiter: str = ",") -> str:
    if path.suffix == ".xlsx":
        cells = [
            [cell if cell != "" else None for cell in row.values()] for row in rows
        ]
        write_workbook(path, {"Clips": [[*rows[0]], *cells]})
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    return path.name


def wide_rows(answers: Answers, pen: Pen) -> list[dict[str, Cell]]:
    """Return a row for each clip, with columns such as points_ada."""
    rows: dict[str, dict[str, Cell]] = {}
    for coder in CODERS:
        for row in rows_of(answers, pen, coder):
            clip = rows.setdefault(
                str(row["clip_id"]),
                {"clip_id": row["clip_id"], "movie_id": row["movie_id"]},
            )
            clip |= {f"{column}_{coder}": row[column] for column in COLUMNS}
    return [*rows.values()]


# Each door writes the answers of all coders, and returns what is typed after `manifest import`,
# the line of the error and its column.
Written = tuple[str, int, str]


def long_table(folder: Path, answers: Answers, draws: np.random.Generator) -> Written:
    pen = Pen(draws, ",")
    rows = []
    for coder in CODERS:
        rows += [{**row, "annotator": coder} for row in rows_of(answers, pen, coder)]
    return write(folder / "long.csv", rows, ";"), N_CLIPS + 2, "points"


def workbook(folder: Path, answers: Answers, draws: np.random.Generator) -> Written:
    pen = Pen(draws, "xlsx")
    rows = []
    for coder in CODERS:
        rows += [{**row, "annotator": coder} for row in rows_of(answers, pen, coder)]
    return write(folder / "book.xlsx", rows), N_CLIPS + 2, "points"


def coder_columns(
    folder: Path, answers: Answers, draws: np.random.Generator
) -> Written:
    # Between commas, numbers with decimal commas are in quotes.
    name = write(folder / "wide.csv", wide_rows(answers, Pen(draws, ",")))
    maps = []
    for coder in CODERS:
        for column in COLUMNS:
            target = coder if column == "level" else f"{coder}:{column}"
            maps.append(f"--map coder:{target}={column}_{coder}")
    return f"{name} {' '.join(maps)}", 2, "points_ben"


def files(folder: Path, answers: Answers, draws: np.random.Generator) -> Written:
    names = []
    for coder, (mark, delimiter) in zip(
        CODERS, [(",", ";"), (".", ","), (",", ","), (".", "\t")], strict=True
    ):
        rows = [*rows_of(answers, Pen(draws, mark), coder)]
        names.append(write(folder / f"{coder}.csv", rows, delimiter))
    return " ".join(names), 2, "points"


DOORS: dict[str, Callable[[Path, Answers, np.random.Generator], Written]] = {
    one.__name__: one for one in (long_table, workbook, coder_columns, files)
}


def by_rule(answers: Answers, column: str, rule: str) -> pd.Series:
    """Return the label of each clip, worked out by pandas; NaN where the rule leaves it open."""
    table = answers.of(column)
    if rule.startswith("by:"):
        return table[rule.removeprefix("by:")]
    agreed = table.bfill(axis=1).iloc[:, 0].where(table.nunique(axis=1) == 1)
    if rule == "mean" and column == "points":
        return table.mean(axis=1)
    if rule == "majority":
        modes = table.mode(axis=1)
        is_one = modes.notna().sum(axis=1) == 1
        return modes[0].where(is_one)
    order = {"level": LEVELS, "mood": MOODS}.get(column)
    if rule == "highest" and order:
        ranks = table.apply(lambda one: one.map({w: n for n, w in enumerate(order)}))
        return ranks.max(axis=1).map(dict(enumerate(order)))
    return agreed


def alpha_of(answers: Answers, column: str, *, in_order: bool = False) -> float:
    """Return alpha: of numbers, levels and words in order by squared differences."""
    table = answers.of(column)
    measured = "interval" if in_order or column != "mood" else "nominal"
    place_of = {
        "mood": {word: float(n) for n, word in enumerate(MOODS)},
        "level": PLACES,
    }
    if column in place_of:
        table = table.apply(lambda one: one.map(place_of[column]))
    found = krippendorff.alpha(table.to_numpy(float).T, level_of_measurement=measured)
    return float(found)


def typed(folder: Path, line: str, code: int = 0) -> str:
    done = call_obygaze(*shlex.split(line), cwd=folder)
    assert done.code == code, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def agreement(folder: Path, line: str) -> float:
    found = call_obygaze(*shlex.split(line), "--json", cwd=folder).ok().json()
    value: float = found["rows"][0]["alpha"]
    return value


@pytest.mark.parametrize("seed", range(amount(1, 20)))
@pytest.mark.parametrize("door", DOORS)
def test_labels_and_agreement_are_those_of_the_answers(
    tmp_path: Path, door: str, seed: int
) -> None:
    draws = np.random.default_rng(seed)
    answers = drawn_answers(draws)
    sources, line, column = DOORS[door](tmp_path, answers, draws)
    order = f"--order mood={','.join(MOODS)}"
    refused = typed(tmp_path, f"manifest import {sources} -o m --rule agreed", code=1)
    place = f":{line}: column {column!r}: expected a value, got the error {ERROR}"
    assert place in refused
    assert "likely answer: --word 'NA=?'" in refused
    for rule in RULES:
        typed(
            tmp_path,
            f"manifest import {sources} -o m --rule {rule} {order} --force {CALLED_UNKNOWN}",
        )
        manifest = read_manifest("m", workspace=tmp_path)
        for name in COLUMNS:
            expected = by_rule(answers, name, rule)
            for clip in manifest:
                label = "|".join(clip.values(name))
                if pd.isna(expected[clip.clip_id]):
                    assert label == "", (rule, name, clip.clip_id)
                elif name == "points":
                    assert float(label) == pytest.approx(expected[clip.clip_id])
                else:
                    assert label == expected[clip.clip_id], (rule, name, clip.clip_id)
    for name in COLUMNS:
        found = agreement(tmp_path, f"agree m --column {name}")
        assert found == pytest.approx(alpha_of(answers, name), abs=1e-12)
    found = agreement(tmp_path, f"agree m --column mood {order}")
    expected = alpha_of(answers, "mood", in_order=True)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("form", ["wide.csv", "wide.xlsx"])
def test_agreement_of_raters_is_that_of_the_answers(tmp_path: Path, form: str) -> None:
    draws = np.random.default_rng(7)
    answers = drawn_answers(draws)
    mark = "xlsx" if form == "wide.xlsx" else ","
    write(tmp_path / form, wide_rows(answers, Pen(draws, mark)), ";")
    for column in ("points", "mood"):
        raters = ",".join(f"{column}_{coder}" for coder in CODERS)
        line = f"agree {form} --raters {raters} --cluster movie_id"
        refused = typed(tmp_path, line, code=1)
        assert (
            f":2: column 'points_ben': expected a value, got {'the error'}"
        ) in refused
        found = agreement(tmp_path, f"{line} {CALLED_UNKNOWN}")
        assert found == pytest.approx(alpha_of(answers, column), abs=1e-12)


@pytest.mark.parametrize("form", ["joined.csv", "joined.xlsx"])
def test_joined_columns_are_the_answers(tmp_path: Path, form: str) -> None:
    draws = np.random.default_rng(8)
    answers = drawn_answers(draws)
    clips: list[dict[str, Cell]] = []
    for clip in answers.points.index:
        clips.append({"clip_id": clip, "movie_id": clip[:5]})
    write(tmp_path / "clips.csv", clips)
    typed(tmp_path, "manifest import clips.csv -o m")
    pen = Pen(draws, "xlsx" if form == "joined.xlsx" else ",")
    rows = [*rows_of(answers, pen, CODERS[1])]
    for row in rows:
        del row["level"]
    write(tmp_path / form, rows, ";")
    refused = typed(tmp_path, f"manifest join m {form}", code=1)
    assert f"{form}:2: column 'points': expected a value, got the error" in refused
    typed(tmp_path, f"manifest join m {form} {CALLED_UNKNOWN}")
    for clip in read_manifest("m", workspace=tmp_path):
        points = answers.points.loc[clip.clip_id, CODERS[1]]
        mood = answers.mood.loc[clip.clip_id, CODERS[1]]
        assert clip.extra["mood"] == ("" if pd.isna(mood) else mood)
        if pd.isna(points):
            assert clip.extra["points"] == ""
        else:
            assert float(clip.extra["points"]) == points
