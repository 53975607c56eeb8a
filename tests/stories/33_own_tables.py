"""Story 33: I have a table of my own, as it is (German, French, Excel, ratings, ids of YouTube).

I want a score of my own question in few commands. What the program cannot know of my table, it asks
in a file: I fill in the lines with a `?`, and the next command reads the table.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest
from support.workbooks import write_workbook

from stories.workspace import Workspace

TITLES = ("L'Été à Nice", "Müller & Söhne", "Alba", "Ça ira", "Brug", "Über uns")
IDS = ("L_Ete_a_Nice", "Muller_Sohne", "Alba", "Ca_ira", "Brug", "Uber_uns")
N_CLIPS = 8
N_IN_ALL = len(TITLES) * N_CLIPS
CLIP_S = 7


@dataclass(frozen=True)
class Shot:
    """One clip of a person's table; `n` begins anew in each film."""

    film: int
    n: int

    @property
    def title(self) -> str:
        return TITLES[self.film]

    @property
    def start_s(self) -> int:
        return (self.n - 1) * CLIP_S

    @property
    def end_s(self) -> int:
        return self.n * CLIP_S

    @property
    def rating(self) -> int:
        """From 0 to 3; each film has each of them twice."""
        return (self.n * 3 + self.film) % 4

    def word(self, *words: str) -> str:
        return words[(self.n + self.film) % len(words)]


SHOTS = [Shot(film, n) for film in range(len(TITLES)) for n in range(1, N_CLIPS + 1)]


def clock(seconds: int) -> str:
    """Return a time as a person types it: 1:05."""
    return f"{seconds // 60}:{seconds % 60:02d}"


def comma(seconds: float) -> str:
    """Return a number with a decimal comma."""
    return f"{seconds:.1f}".replace(".", ",")


def excel(seconds: int) -> timedelta:
    """Return what Excel keeps of 0:07, typed for seven seconds: seven minutes."""
    return timedelta(seconds=60 * seconds)


@dataclass(frozen=True)
class OwnTable:
    """A table, what a person writes into the draft, and what must come of it.

    `answers` has the lines of the draft that are filled in. `counts` is said of the columns that
    are kept. `task` is the person's question, of which a clip is positive, or negative, or None:
    its cell is empty. `corrected` is a cell with a typing error, and what was meant.
    """

    name: str
    rows: Sequence[Sequence[Any]]
    answers: dict[str, str]
    counts: str
    task: str
    is_positive: Callable[[Shot], bool | None]
    delimiter: str = ","
    encoding: str = "utf-8"
    clip_id: Callable[[Shot], str] = lambda shot: f"{IDS[shot.film]}-{shot.n:02d}"
    corrected: tuple[str, str] = ("", "")
    titles: Sequence[str] = field(default=TITLES)

    def write(self, path: Path) -> None:
        """Write the table as its person has it."""
        if path.suffix == ".xlsx":
            write_workbook(path, {"Clips": self.rows})
            return
        lines = []
        for cells in self.rows:
            texts = [str(cell) for cell in cells]
            quoted = [f'"{text}"' if self.delimiter in text else text for text in texts]
            lines.append(self.delimiter.join(quoted))
        path.write_bytes("".join(f"{line}\r\n" for line in lines).encode(self.encoding))


GERMAN = [["Film", "Nr", "Anfang (s)", "Ende (s)", "objektifiziert"]] + [
    [s.title, s.n, comma(s.start_s), comma(s.end_s), s.word("ja", "nein")]
    for s in SHOTS
]
FRENCH = [["Titre", "Plan", "Début", "Fin", "Regard", "Remarque"]] + [
    [
        s.title,
        s.n,
        clock(s.start_s),
        clock(s.end_s),
        "" if s.n == 8 else s.word("oui", "non", "peut-être"),
        "à revoir" if s.n == 1 else "",
    ]
    for s in SHOTS
]
TIME_CELLS = [["Film", "Von", "Bis", "Wertung"]] + [
    [s.title, excel(s.start_s), excel(s.end_s), s.rating] for s in SHOTS
]
# The first film is older: its times are texts.
MIXED_CELLS = [["Film", "From", "To", "Score"]] + [
    [
        s.title,
        clock(s.start_s) if s.film == 0 else excel(s.start_s),
        clock(s.end_s) if s.film == 0 else excel(s.end_s),
        s.rating,
    ]
    for s in SHOTS
]
TWO_COLUMNS = [["Film", "Clip", "start_s", "end_s", "Rating Ada", "Rating Ben"]] + [
    [s.title, s.n, s.start_s, s.end_s, s.rating, min(s.rating + s.n % 2, 3)]
    for s in SHOTS
]
TWO_ROWS = [["Film", "Rater", "Start", "End", "Rating"]] + [
    [s.title, rater, clock(s.start_s), clock(s.end_s), s.rating]
    for rater in ("Ada", "Ben")
    for s in SHOTS
]
YOUTUBE = ("-nzD", "-Q_x", "aB-9", "--k2", "Zz_-", "+7uT")
CHANNELS = [["id", "video", "objectified", "comment"]] + [
    [f"{YOUTUBE[s.film]}-{s.n}", YOUTUBE[s.film], s.word("TRUE", "FALSE"), "-"]
    for s in SHOTS
]
OWN_LEVELS = [["clip_id", "movie_id", "level", "concepts"]] + [
    [
        f"{IDS[s.film]}-{s.n:02d}",
        IDS[s.film],
        s.word("yes", "no", "maybe"),
        s.word("Look|lumière", "", "Body"),
    ]
    for s in SHOTS
]
TYPED_WRONG = [["Film", "Nr.", "Beginn", "Schluss", "Urteil"]] + [
    [
        s.title,
        s.n,
        "0:2l" if (s.film, s.n) == (2, 4) else clock(s.start_s),
        clock(s.end_s),
        "nien" if (s.film, s.n) == (4, 3) else s.word("ja", "nein"),
    ]
    for s in SHOTS
]
FRAMES = [["film", "shot", "first", "last", "gaze"]] + [
    [s.title, s.n, 25 * s.start_s, 25 * s.end_s - 1, s.word("yes", "no")] for s in SHOTS
]
NUMBERED = 'id = "{movie_id}-{count:02d}"'
TABLES = [
    OwnTable(
        "ja-nein.csv",
        GERMAN,
        {
            'id = "?"': 'id = "{movie_id}-{Nr:02d}"',
            '? = "Film"': 'movie_id = "Film"',
            '? = "Anfang (s)"': 'start_s = "Anfang (s)"',
            '? = "Ende (s)"': 'end_s = "Ende (s)"',
        },
        "objektifiziert (ja: 24, nein: 24)",
        "objektifiziert=ja",
        lambda shot: shot.word("ja", "nein") == "ja",
        delimiter=";",
        encoding="cp1252",
    ),
    OwnTable(
        "regards.csv",
        FRENCH,
        {
            'id = "?"': 'id = "{movie_id}-{Plan:02d}"',
            'times = "?"': 'times = "m:ss"',
            '? = "Titre"': 'movie_id = "Titre"',
            '? = "Début"': 'start_s = "Début"',
            '? = "Fin"': 'end_s = "Fin"',
        },
        "Regard (non: 14, oui: 14, peut-être: 14, empty: 6)",
        "Regard=oui",
        lambda shot: None if shot.n == 8 else shot.word("oui", "", "") == "oui",
        encoding="utf-8-sig",
        delimiter=";",
    ),
    OwnTable(
        "wertung.xlsx",
        TIME_CELLS,
        {
            'id = "?"': NUMBERED,
            'times = "?"': 'times = "m:ss"',
            '? = "Film"': 'movie_id = "Film"',
            '? = "Von"': 'start_s = "Von"',
            '? = "Bis"': 'end_s = "Bis"',
        },
        "Wertung (0: 12, 1: 12, 2: 12, 3: 12)",
        "'Wertung>=2'",
        lambda shot: shot.rating >= 2,
    ),
    OwnTable(
        "scores.xlsx",
        MIXED_CELLS,
        {
            'id = "?"': NUMBERED,
            'times = "?"': 'times = "m:ss"',
            '? = "Film"': 'movie_id = "Film"',
            '? = "From"': 'start_s = "From"',
            '? = "To"': 'end_s = "To"',
        },
        "Score (0: 12, 1: 12, 2: 12, 3: 12)",
        "'Score>2'",
        lambda shot: shot.rating > 2,
    ),
    OwnTable(
        "two-raters.txt",
        TWO_COLUMNS,
        {
            'id = "?"': 'id = "{movie_id}-{Clip:02d}"',
            '? = "Film"': 'movie_id = "Film"',
        },
        "Rating Ada (0: 12, 1: 12, 2: 12, 3: 12)",
        "'\"Rating Ada\">=2'",
        lambda shot: shot.rating >= 2,
        delimiter="\t",
        encoding="utf-16",
    ),
    OwnTable(
        "rows-of-raters.csv",
        TWO_ROWS,
        {
            'id = "?"': NUMBERED,
            'times = "?"': 'times = "m:ss"',
            '? = "Film"': 'movie_id = "Film"',
            '? = "Rater"': 'annotator = "Rater"',
            '? = "Start"': 'start_s = "Start"',
            '? = "End"': 'end_s = "End"',
        },
        "Rating (0: 12, 1: 12, 2: 12, 3: 12)",
        "'Rating>=2'",
        lambda shot: shot.rating >= 2,
    ),
    OwnTable(
        "channels.csv",
        CHANNELS,
        {'id = "?"': 'id = "{id}"', 'video = "video"': 'movie_id = "video"'},
        "objectified (FALSE: 24, TRUE: 24)",
        "objectified",
        lambda shot: shot.word("TRUE", "FALSE") == "TRUE",
        clip_id=lambda shot: f"{YOUTUBE[shot.film]}-{shot.n}",
        titles=YOUTUBE,
    ),
    OwnTable(
        "own-levels.csv",
        OWN_LEVELS,
        {
            'level = "level"': 'verdict = "level"',
            '"lumière" = "?"': '"lumière" = "visual"',
            '"yes" = "?"': "",
            '"no" = "?"': "",
            '"maybe" = "?"': "",
        },
        "verdict (maybe: 16, no: 16, yes: 16)",
        "verdict=yes",
        lambda shot: shot.word("yes", "no", "maybe") == "yes",
        titles=IDS,
    ),
    OwnTable(
        "tippfehler.csv",
        TYPED_WRONG,
        {
            'id = "?"': 'id = "{movie_id}-{Nr.:02d}"',
            'times = "?"': 'times = "m:ss"',
            '? = "Film"': 'movie_id = "Film"',
            '? = "Beginn"': 'start_s = "Beginn"',
            '? = "Schluss"': 'end_s = "Schluss"',
        },
        "Urteil (ja: 24, nein: 23, nien: 1)",
        "Urteil=ja",
        lambda shot: shot.word("ja", "nein") == "ja",
        delimiter=";",
        corrected=("0:2l", "0:21"),
    ),
    OwnTable(
        "frames.csv",
        FRAMES,
        {
            'id = "?"': 'id = "{movie_id}-{shot:02d}"',
            '? = "film"': 'movie_id = "film"\nframerate = "=25"',
            '? = "first"': 'start_frame = "first"',
            '? = "last"': 'end_frame = "last"',
        },
        "gaze (no: 24, yes: 24)",
        "gaze",
        lambda shot: shot.word("yes", "no") == "yes",
    ),
]


def fill_in(ws: Workspace, name: str, answers: dict[str, str]) -> None:
    """Write the answers of a person into the lines of a draft; each must be asked for."""
    lines = ws.read(name).splitlines()
    for asked, answer in answers.items():
        places = [
            n for n, line in enumerate(lines) if line.partition("  #")[0] == asked
        ]
        assert len(places) == 1, f"{asked} is not asked once in:\n" + "\n".join(lines)
        lines[places[0]] = answer
    ws.write(name, "\n".join([*lines, ""]))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_becomes_a_score_of_its_own_question(
    ws: Workspace, table: OwnTable
) -> None:
    """Five commands, of which the first fails."""
    path = ws.path(table.name)
    table.write(path)
    typed = f"manifest import {shlex.quote(table.name)} -o own"
    failed = ws(f"{typed} --write-mapping own.toml", code=1)
    assert "fill in the lines with ? in own.toml" in failed.err
    assert len(failed.err.splitlines()) < 12
    wrong, right = table.corrected
    if wrong:
        assert f'Line 21 of the table: "{wrong}" is no time.' in ws.read("own.toml")
        text = path.read_bytes().decode(table.encoding)
        path.write_bytes(text.replace(wrong, right).encode(table.encoding))
    fill_in(ws, "own.toml", table.answers)
    done = ws(f"{typed} --mapping own.toml")
    size = f"{N_IN_ALL} clips of {len(TITLES)} films"
    assert f": {size}" in done.out
    assert table.counts in done.err
    check_manifest(ws, table)
    write_features(ws, table)
    ws("store import x.npz --manifest own -o own")
    models = "--set 'grid.models=[\"ridge\"]'"
    run = ws(
        f"run honest --manifest own --store own --task {table.task} {models} -o own"
    )
    assert "On films it has not seen, ridge ranks clips" in run.text
    ws("report own")
    # Planted: each clip is told from the others by one number. Empty cells are in no task.
    n_positive = sum(table.is_positive(shot) is True for shot in SHOTS)
    n_asked = sum(table.is_positive(shot) is not None for shot in SHOTS)
    tested = [
        row
        for row in ws.read_table("runs/own/predictions.csv")
        if row["model"] == "ridge"
    ]
    assert {row["movie_id"] for row in tested} == set(manifest_films(ws))
    assert len(tested) == n_asked
    assert sum(int(row["y"]) for row in tested) == n_positive


def manifest_films(ws: Workspace) -> set[str]:
    """Return the films of the manifest."""
    return {row["movie_id"] for row in ws.read_table("export.csv")}


def write_features(ws: Workspace, table: OwnTable) -> None:
    """Write a vector for each row of the manifest, in which the answer is planted."""
    random = np.random.default_rng(0)
    ids = [row["clip_id"] for row in ws.read_table("export.csv")]
    vectors = random.normal(size=(len(ids), 8)).astype(np.float32)
    for place in range(len(ids)):
        vectors[place, 0] += 4.0 * bool(table.is_positive(SHOTS[place]))
    np.savez(ws.path("x.npz"), clip_id=ids, clip=vectors)


def check_manifest(ws: Workspace, table: OwnTable) -> None:
    """Compare ids, titles and times with those of the table, worked out here."""
    ws("manifest export own export.csv")
    rows = ws.read_table("export.csv")
    has_times = "start_s" in rows[0] and rows[0]["end_s"]
    expected = []
    for shot in SHOTS:
        span = (float(shot.start_s), float(shot.end_s)) if has_times else ("", "")
        expected.append((table.clip_id(shot), table.titles[shot.film], *span))
    found = []
    for row in rows:
        title = row.get("movie_title") or row["movie_id"]
        span = (row.get("start_s", ""), row.get("end_s", ""))
        times = tuple(float(time) if time else "" for time in span)
        found.append((row["clip_id"], title, *times))
    assert found == expected


def test_an_id_of_youtube_stays_itself(ws: Workspace) -> None:
    table = next(table for table in TABLES if table.name == "channels.csv")
    table.write(ws.path("channels.csv"))
    ws("manifest import channels.csv --map clip_id=id --map movie_id=video -o own")
    for line in (
        "manifest show own --clips -nzD-1 --json",
        "manifest show own --clips -nzD-1 --json -- ",
        "manifest show --json --clips=-nzD-1 -- own",
        "manifest show own --film -nzD --where 'clip_id == \"-nzD-1\"' --json",
    ):
        (clip,) = ws(line).json()["clips"]
        assert clip["clip_id"] == "-nzD-1"


ANNA = "Bewertung Anna"
RATED = [["Film", "Nr", "Von", "Bis", ANNA, "Bewertung Ben", "comment"]] + [
    [
        s.title,
        s.n,
        clock(s.start_s),
        clock(s.end_s),
        # The first film has a word that is none, the second one two others.
        {(0, 2): "-", (1, 3): "-", (1, 4): "2?"}.get((s.film, s.n), s.rating),
        s.rating,
        "gut" if s.n < 3 else "naja",
    ]
    for s in SHOTS
]
RATED_MAPPING = """id = "{movie_id}-{Nr:02d}"
times = "m:ss"
[columns]
movie_id = "Film"
start_s = "Von"
end_s = "Bis"
"""


def import_rated(ws: Workspace) -> None:
    """Import two ratings of each clip, in columns with a blank, and features."""
    write_workbook(ws.path("Sichtung.xlsx"), {"Clips": RATED})
    ws.write("own.toml", RATED_MAPPING)
    ws("manifest import Sichtung.xlsx --mapping own.toml -o own")
    ids = [f"{IDS[shot.film]}-{shot.n:02d}" for shot in SHOTS]
    np.savez(ws.path("x.npz"), clip_id=ids, clip=np.ones((N_IN_ALL, 2), np.float32))


def test_cells_that_are_no_numbers_are_said_together(ws: Workspace) -> None:
    import_rated(ws)
    ws("store import x.npz --manifest own -o own")
    for line in (
        f"run honest --store own --task '{ANNA}>=2'",
        f"run honest --store own --task '\"{ANNA}\" >= 2 and comment == gut'",
        f"manifest show own --where '\"{ANNA}\" >= 2'",
    ):
        failed = ws(line, code=1)
        assert f"expected numbers in the column {ANNA}, got '-', '2?'" in failed.text
        assert f"'-' in 2 clips, the first is {IDS[0]}-02" in failed.err
        assert f"'2?' in 1 clip, the first is {IDS[1]}-04" in failed.err
        assert "leave them empty, and import it again" in failed.err


def test_merged_cells_and_empty_cells(ws: Workspace) -> None:
    rows = [["Film", "Nr", "comment"]]
    rows += [[s.title if s.n == 1 else "", s.n, ""] for s in SHOTS]
    write_workbook(ws.path("t.xlsx"), {"Clips": rows})
    typed = "manifest import t.xlsx --map movie_id=Film --id '{Film}-{Nr}' -o own"
    failed = ws(typed, code=1)
    assert "merged cells have a value in the first one only" in failed.err
    assert "(42 times)" in failed.err
    import_rated(ws)
    for where, n_clips in (('video == ""', N_IN_ALL), ('comment != ""', N_IN_ALL)):
        shown = ws(f"manifest show own --where '{where}' --json").json()
        assert len(shown["clips"]) == n_clips
    ws("manifest show own --where 'level != \"\"'", code=1)


def test_words_of_two_people_with_features_alone(ws: Workspace) -> None:
    """Clips are counted, and a model of some words says which clips it was trained on."""
    lines = ["clip_id,movie_id,annotator,réponse"]
    said = {"Amélie": ("oui", "non", "peut-être"), "Benoît": ("oui", "non", "non")}
    for who, words in said.items():
        lines += [f"{s.film}-{s.n},{s.title},{who},{s.word(*words)}" for s in SHOTS]
    ws.write("desir.csv", "\n".join(lines) + "\n")
    ws("manifest import desir.csv --rule by:Amélie -o desir")
    vectors = np.random.default_rng(0).normal(size=(N_IN_ALL, 4)).astype(np.float32)
    vectors[:, 0] += [2 * (s.word("oui", "non", "non") == "oui") for s in SHOTS]
    ids = [f"{s.film}-{s.n}" for s in SHOTS]
    np.savez(ws.path("x.npz"), clip_id=ids, clip=vectors)
    ws("store import x.npz --manifest desir -o x")
    answers = [[s.word(*words) for s in SHOTS] for words in said.values()]
    codes = np.unique(answers, return_inverse=True)[1].reshape(2, -1)
    expected = krippendorff.alpha(codes, level_of_measurement="nominal")
    line = "audit reliability desir --column 'réponse' --cluster movie_id"
    assert "Try: --column 'réponse'" in ws("manifest agree desir", code=1).err
    found = ws(f"{line} --json").json()
    assert found["krippendorff"] == pytest.approx(expected, abs=1e-9)
    assert found["words"]["peut-être"] == [16, 0]
    where = "--set data.where='réponse != peut-être'"
    failed = ws(f"run honest --manifest desir --store x {where}", code=1)
    assert "text in quotes such as 'peut-être'" in failed.text
    asked = "--task 'réponse=oui' --jobs 1"
    ridge = "--set 'grid.models=[\"ridge\"]'"
    run = ws(f"run honest --manifest desir --store x {asked} {ridge} -o all")
    assert f"{N_IN_ALL} clips of {len(TITLES)} films (desir)" in run.out
    ws("report all")
    assert ws.path("runs/all/figures/films-reponse-oui.svg").is_file()
    alone = "réponse in {oui, non}"
    where = f"--set \"data.where='{alone}'\""
    trained = ws(f"train ridge x desir {asked} {where} -o keep")
    assert f"32 clips of {len(TITLES)} films (desir) with {alone}" in trained.out
    card = ws.path("models/keep/README.md").read_text()
    assert f"(non against oui) with {alone}." in card
    assert f"32 clips of {len(TITLES)} films" in card
    predicted = ws("models predict keep x -o p.csv")
    assert f"the model was trained on clips with {alone}" in predicted.err


def ben(shot: Shot) -> int:
    """Ben's rating, which is not always Ada's."""
    return min(shot.rating + shot.n % 2, 3)


def test_how_far_two_people_agree_on_a_rating(ws: Workspace) -> None:
    """A table with a row for each person, and one with a column for each, lead to the audit."""
    rows = [["Film", "Rater", "Start", "End", "Rating"]]
    for rater, rating in (("Ada", lambda shot: shot.rating), ("Ben", ben)):
        for s in SHOTS:
            times = [clock(s.start_s), clock(s.end_s)]
            rows.append([s.title, rater, *times, rating(s)])
    OwnTable("long.csv", rows, {}, "", "", lambda _: None).write(ws.path("long.csv"))
    typed = "manifest import long.csv -o long --map movie_id=Film --map start_s=Start"
    typed += " --map end_s=End --map annotator=Rater --id '{Film}-{count}'"
    failed = ws(typed, code=1)
    assert "s with --map times=m:ss, " in failed.err
    failed = ws(f"{typed} --map times=m:ss", code=1)
    n_differing = sum(s.rating != ben(s) for s in SHOTS)
    assert f"annotators differ in {n_differing} of {N_IN_ALL} clips" in failed.err
    ws(f"{typed} --map times=m:ss --rule by:Ada")
    counts = "Rating 0: 12, 1: 12, 2: 12, 3: 12"
    assert counts in ws("manifest stats long").text
    failed = ws("manifest agree long", code=1)
    line = "audit reliability long --column Rating"
    assert "Try: --column Rating" in failed.err
    ratings = [[s.rating for s in SHOTS], [ben(s) for s in SHOTS]]
    expected = krippendorff.alpha(ratings, level_of_measurement="interval")
    of_rows = ws(f"{line} --cluster movie_id --json").json()
    assert of_rows["krippendorff"] == pytest.approx(expected, abs=1e-9)
    assert [rater["name"] for rater in of_rows["raters"]] == ["Ada", "Ben"]
    table = next(table for table in TABLES if table.name == "two-raters.txt")
    table.write(ws.path("wide.txt"))
    ws("manifest import wide.txt -o wide --map movie_id=Film --id '{Film}-{Clip}'")
    assert "several people annotated" in ws("manifest agree wide", code=2).err
    of_columns = ws("audit reliability wide --raters 'Rating Ada,Rating Ben' --json")
    assert of_columns.json()["krippendorff"] == pytest.approx(expected, abs=1e-9)
