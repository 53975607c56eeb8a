"""Story 30: every row of the page of the papers, on the real files where they are, on golden cases
elsewhere; a row without data is listed with the reason, and no row disappears."""

import ast
import csv
import functools
import html
import itertools
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import f1_score
from support.cli import ROOT
from support.closed_form import blind_f1, cronbach
from support.data import golden, real_data
from support.once import made_once
from support.published import CONCEPTS, SplitFile, split_file

from obygaze_features.manifest.vocabulary import canonical_concept
from stories.films import import_films
from stories.workspace import Answer, Workspace

PAGE = ROOT / "docs" / "papers.md"
PRINTED = ROOT / "tests" / "data" / "papers" / "printed.csv"
LEFT_OUT = "left out: "
# Rows whose values are computed from what the papers print: no command is typed.
FROM_PRINTED = "from the printed values"
# A row that is deleted, or its check, fails a test.
N_ROWS, N_CHECKED = 81, 49


# ---- the page ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    name: str
    commands: str
    here: str
    paper: str

    @property
    def is_left_out(self) -> bool:
        return self.here == "-"

    @property
    def reason(self) -> str:
        _, found, why = self.paper.partition(LEFT_OUT)
        assert found, f"{self.name}: the page has no value and no reason"
        return LEFT_OUT + why

    def names_a_command_of(self, typed: Sequence[str]) -> bool:
        commands = re.findall(r"`obygaze ([a-z0-9 -]+)`", self.commands)
        beginnings = tuple(f"{command} " for command in commands)
        return any(f"{line} ".startswith(beginnings) for line in typed)


def rows_of_page() -> list[Row]:
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| **"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        first, commands, here, paper = cells
        name = re.match(r"\*\*(.+?)\*\*", first)
        assert name is not None, line
        rows.append(Row(name[1], commands, here, paper))
    return rows


def numbers(text: str) -> list[str]:
    """Return the numbers of a cell as they are written; EN_S, 4.1.2 and X12 are none."""
    return re.findall(r"(?<![\w.])[+-]?(?:\d+\.?\d*|\.\d+)(?!\w)", text)


def agrees(written: str, value: float) -> bool:
    decimals = len(written.partition(".")[2])
    return abs(float(written) - value) <= 0.5 * 10**-decimals + 1e-9


def assert_written(written: Sequence[str], values: Sequence[float]) -> None:
    assert len(written) == len(values), (written, values)
    for of_page, value in zip(written, values, strict=True):
        assert agrees(of_page, value), f"the page has {of_page}, not {value}"


# ---- every printed number ----------------------------------------------------------------------


@functools.cache
def printed_rows() -> list[dict[str, str]]:
    with PRINTED.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def printed(place: str, row: str, column: str, paper: str = "obygaze12") -> str:
    found = set()
    for one in printed_rows():
        if (one["paper"], one["place"]) != (paper, place):
            continue
        if (one["row"], one["column"]) == (row, column):
            found.add(one["value"])
    assert len(found) == 1, (place, row, column, found)
    return found.pop()


def printed_table(paper: str, place: str) -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = {}
    for one in printed_rows():
        if (one["paper"], one["place"]) == (paper, place):
            table.setdefault(one["row"], {})[one["column"]] = one["value"]
    assert table, place
    return table


# Numbers that the papers write as words.
WORDS = {"single": 1, "once": 1, "fifth": 5, "twenty": 20}
WORDS |= {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
WORDS |= {"eight": 8, "nine": 9, "ten": 10}


def number_of(text: str) -> Decimal:
    """Return the number of a printed value such as 10,900, 73%, 1.09* or four."""
    if text.casefold() in WORDS:
        return Decimal(WORDS[text.casefold()])
    (number,) = re.findall(r"[+-]?(?:\d+\.?\d*|\.\d+)", text.replace(",", ""))
    return Decimal(number)


def numbers_of_cell(text: str) -> list[Decimal]:
    """Return the numbers of a cell; those of sections, tables and figures are none."""
    without_places = re.sub(
        r"\b(sections?|Tables?|Figures?) [\d.]+( and [\d.]+)?", " ", text
    )
    without_commas = re.sub(r"(?<=\d),(?=\d{3}\b)", "", without_places)
    return [Decimal(number) for number in numbers(without_commas)]


def test_every_printed_number_is_in_a_row_of_the_page() -> None:
    """Numbers of a table are below a heading of its own; the program ships those of CLIP."""
    of_page = {row.name: row.paper for row in rows_of_page()}
    sections = re.split(r"(?m)^#+ (.+)$", PAGE.read_text(encoding="utf-8"))
    lines_of = dict(zip(sections[1::2], sections[2::2], strict=True))
    shipped = ROOT / "obygaze" / "audits" / "printed.toml"
    effects = tomllib.loads(shipped.read_text(encoding="utf-8"))["eat"]
    missing = []
    for one in printed_rows():
        cell = of_page[one["page"]]
        if one["page"] in lines_of and "caption" not in one["place"]:
            lines = lines_of[one["page"]].splitlines()
            (cell,) = (line for line in lines if line.startswith(f"| {one['row']} |"))
        elif one["page"].startswith("CLIP, Table") and "caption" not in one["place"]:
            name = one["column"].partition(",")[0]
            (table,) = (each for each in effects if each["table"].endswith(f", {name}"))
            cell = " ".join(table["models"][one["row"]])
        if number_of(one["value"]) not in numbers_of_cell(cell):
            missing.append(one)
    assert missing == []


# ---- workspaces --------------------------------------------------------------------------------


class TypingWorkspace(Workspace):
    """A workspace that keeps the lines that were typed in it."""

    def __call__(self, line: str, *, code: int = 0, env=None) -> Answer:
        with self.path("typed.txt").open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")
        return super().__call__(line, code=code, env=env)

    @property
    def typed(self) -> list[str]:
        """The lines, also those that were typed in the workspace that this one began with."""
        path = self.path("typed.txt")
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


Check = Callable[[TypingWorkspace, Row], None]
CHECKS: dict[str, Check] = {}


def checks_row(*names: str) -> Callable[[Check], Check]:
    def keep(check: Check) -> Check:
        for name in names:
            CHECKS[name] = check
        return check

    return keep


def begin_with(ws: TypingWorkspace, make: Callable[..., None], *words: str) -> None:
    def fill(folder: Path) -> None:
        make(TypingWorkspace(folder), *words)

    ws.copy_of(made_once("papers", fill, make.__name__, *words))


def begin_with_annotations(ws: TypingWorkspace) -> None:
    real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    begin_with(ws, import_annotations)


def stats_of(ws: TypingWorkspace, words: str = "obygaze12") -> str:
    begin_with_annotations(ws)
    return ws(f"manifest stats {words}").text


def import_annotations(ws: TypingWorkspace) -> None:
    table = real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    segments = real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    ws.path("ObyGaze12_thresh_02.csv").symlink_to(table)
    ws.path("splits").symlink_to(table.parent)
    ws.path("mobygaze_dataframe.csv").symlink_to(segments)
    ws("manifest import ObyGaze12_thresh_02.csv --as obygaze12 --splits splits")
    ws("manifest import mobygaze_dataframe.csv --as mobygaze")


# The models whose values the paper prints, with their names in tables.
BACKBONES = {
    "X-CLIP": "xclip-b16-k600-zs",
    "ViViT": "vivit-b16x2-k400",
    "LSMDC": "xclip-lsmdc-b32",
}
QUICK = "--set report.replicates=20 --jobs 1"
QUICK_MLP = f"{QUICK} --set models.mlp.max_epochs=5"


def begin_with_features(ws: TypingWorkspace) -> None:
    begin_with_annotations(ws)
    clips = [clip for clip in published_clips() if clip.has_video]
    X = np.random.default_rng(5).normal(size=(len(clips), 8)).astype(np.float32)
    X[[clip.raw_level == "S" for clip in clips], :2] += 1.1
    X[[bool(clip.concepts) for clip in clips], 2:4] += 0.5
    np.savez(ws.path("made_up.npz"), clip_id=[clip.clip_id for clip in clips], X=X)
    for name, backbone in BACKBONES.items():
        # Clips without a video have no features: exit code 3.
        ws(
            "store import made_up.npz --array clip=X --manifest obygaze12"
            f" --backbone {backbone} -o {name}",
            code=3,
        )


def begin_with_run(ws, protocol: str, stores: str, options: str) -> None:
    real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    begin_with(ws, run_protocol, protocol, stores, options)


def run_protocol(ws: TypingWorkspace, protocol: str, stores: str, options: str) -> None:
    begin_with(ws, begin_with_features)
    of_stores = " ".join(f"--store {name}={name}" for name in stores.split())
    ws(f"run {protocol} --manifest obygaze12 {of_stores} -o run {options}")


def begin_with_table_2(ws: TypingWorkspace) -> None:
    baselines = """--set 'grid.baselines=["random", "all_positive"]'"""
    options = f"{QUICK_MLP} {baselines}"
    begin_with_run(ws, "paper-table2", "X-CLIP ViViT", options)


def report_text(ws: TypingWorkspace) -> str:
    ws("report run -o page.html")
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", " ", ws.read("page.html"))
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


# ---- the published files, read without this program --------------------------------------------

LEVEL_OF = {
    "Easy Neg": "EN",
    "Hard Neg": "HN",
    "Not Sure": "NS",
    "Sure": "S",
    "Easy Negative": "EN",
    "Hard Negative": "HN",
}
POSITIVE_LEVELS = ("HN", "NS", "S")
NAME_OF = {
    "Type of plan": "Type of shot",
    "Clothes": "Clothing",
    "Exp of emotion": "Expression of emotion",
}


@dataclass(frozen=True)
class PublishedClip:
    """A clip or segment of the published files; level and concepts are those of the visual view."""

    clip_id: str
    film: str
    annotator: str
    raw_level: str
    level: str
    concepts: frozenset[str]
    has_video: bool


def of_visual_view(cells: Mapping[str, str], **names: str) -> PublishedClip:
    """Return a clip with its visual concepts; one that is left with none is an easy negative."""
    raw_level = LEVEL_OF[cells["label"]]
    listed = [" ".join(text.split()) for text in ast.literal_eval(cells["concepts"])]
    named = {NAME_OF.get(text, text) for text in listed}
    concepts = frozenset(named & set(CONCEPTS))
    # The one easy negative with a concept, in MObyGaze, stays an easy negative.
    is_negative = raw_level == "EN" or not concepts
    return PublishedClip(
        clip_id=names["clip_id"],
        film=names["film"],
        annotator=names.get("annotator", ""),
        raw_level=raw_level,
        level="EN" if is_negative else raw_level,
        concepts=frozenset() if is_negative else concepts,
        has_video=cells.get("video_name", "") != "",
    )


@functools.cache
def published_clips() -> list[PublishedClip]:
    path = real_data("obygaze12", "ObyGaze12_thresh_02.csv")
    clips = []
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for cells in csv.DictReader(stream, delimiter=";"):
            if cells["id"]:
                names = {"clip_id": cells["id"], "film": cells["movie"]}
                clips.append(of_visual_view(cells, **names))
    return clips


def of_level(level: str) -> list[PublishedClip]:
    return [clip for clip in published_clips() if clip.level == level]


def counts_with(*concepts: str) -> list[int]:
    counts = []
    for level in POSITIVE_LEVELS:
        with_concept = [
            clip for clip in of_level(level) if clip.concepts & set(concepts)
        ]
        counts.append(len(with_concept))
    return counts


def shares_with(concept: str) -> list[float]:
    shares = []
    for level, count in zip(POSITIVE_LEVELS, counts_with(concept), strict=True):
        shares.append(100 * count / len(of_level(level)))
    return shares


@functools.cache
def segment_rows() -> list[dict[str, str]]:
    path = real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter=";"))


def published_segments() -> list[PublishedClip]:
    segments = []
    for cells in segment_rows():
        names = {
            "clip_id": cells["clip_index"],
            "film": cells["imdb_key"],
            "annotator": cells["annotator"],
        }
        segments.append(of_visual_view(cells, **names))
    return segments


NTSC = Fraction(24000, 1001)
RATE_OF = {"23.976": NTSC, "23.9759": NTSC, "24.0": Fraction(24)}


@functools.cache
def projected(threshold: Fraction) -> dict[str, list[list[int]]]:
    """Return the levels, from 0 to 3, of clips of 30 s of MObyGaze: by film, for two annotators.

    A clip has the highest level of the segments that each cover the share `threshold` of it.
    """
    order = ["EN", "HN", "NS", "S"]
    segments: dict[str, dict[str, list[tuple[int, int, int]]]] = {}
    rates = {}
    for cells in segment_rows():
        film = cells["imdb_key"]
        rates[film] = RATE_OF[cells["framerate"]]
        marked = segments.setdefault(film, {}).setdefault(cells["annotator"], [])
        level = order.index(LEVEL_OF[cells["label"]])
        marked.append((int(cells["start_frame"]), int(cells["end_frame"]), level))
    levels: dict[str, list[list[int]]] = {}
    for film, by_annotator in segments.items():
        everything = list(itertools.chain(*by_annotator.values()))
        first = min(start for start, _, _ in everything)
        after_last = max(end for _, end, _ in everything) + 1
        edges = list(edges_of_clips(first, after_last, 30 * rates[film]))
        levels[film] = []
        for marked in by_annotator.values():
            of_annotator = []
            for start, after in itertools.pairwise(edges):
                of_annotator.append(highest_level(marked, start, after, threshold))
            levels[film].append(of_annotator)
    return levels


def edges_of_clips(first: int, after_last: int, length: Fraction) -> Iterator[int]:
    for number in itertools.count():
        edge = first + round(number * length)
        if edge > after_last:
            return
        yield edge


def highest_level(
    marked: list[tuple[int, int, int]], start: int, after: int, threshold: Fraction
) -> int:
    highest = 0
    for first, last, level in marked:
        overlap = min(last + 1, after) - max(first, start)
        if overlap > 0 and Fraction(overlap, after - start) >= threshold:
            highest = max(highest, level)
    return highest


# ---- the test of all rows ----------------------------------------------------------------------


@pytest.fixture
def papers(tmp_path: Path) -> TypingWorkspace:
    return TypingWorkspace(tmp_path / "papers")


def test_no_row_disappears() -> None:
    rows = {row.name: row for row in rows_of_page()}
    assert len(rows) == len(rows_of_page()) == N_ROWS
    assert CHECKS.keys() <= rows.keys()
    # The page says why a row that no function checks has no value of this program.
    without_check = [row for name, row in rows.items() if name not in CHECKS]
    assert len(without_check) == N_ROWS - N_CHECKED
    for row in without_check:
        assert row.here.startswith(FROM_PRINTED) or row.reason


# Rows whose commands fit models on made-up features of all published clips, or take as long.
LONG = (
    *("Table 2, hard negatives", "Table 2, standard deviations"),
    *("Table 2, perceptron", "Table 2, folds", "Table 4, folds", "Figure 6"),
    *("Other thresholds", "CLIP 4.1, emotion", "CLIP 4.1, prompts", "CLIP 4.2"),
    *("Agreement", "Agreement, random sequences"),
)
TAKES_LONG = pytest.mark.check("fits models on two thousand clips, or takes as long")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "found",
    [
        pytest.param(row, marks=[TAKES_LONG] * (row.name in LONG), id=row.name)
        for row in rows_of_page()
    ],
)
def test_row(found: Row, papers: TypingWorkspace) -> None:
    name = found.name
    print(f"{found.name}: {found.here}; in the paper: {found.paper}")
    if name in CHECKS:
        try:
            CHECKS[name](papers, found)
        except pytest.skip.Exception as missing:
            pytest.skip(f"{name}: {missing.msg}")
        assert found.names_a_command_of(papers.typed), papers.typed
        assert not found.here.startswith(FROM_PRINTED)
    if found.is_left_out:
        pytest.skip(f"{name}: {found.reason}")
    if found.here.startswith(FROM_PRINTED):
        pytest.skip(f"{name}: {FROM_PRINTED}, without this program")


# ---- ObyGaze12 ---------------------------------------------------------------------------------


@checks_row("Clips and films")
def check_clips_and_films(ws: TypingWorkspace, row: Row) -> None:
    assert "1914 clips of 12 films" in stats_of(ws)
    films = {clip.film for clip in published_clips()}
    assert_written(numbers(row.here), [len(published_clips()), len(films)])
    assert row.here == row.paper


@checks_row("Share of MovieGraphs")
def check_share_of_movie_graphs(ws: TypingWorkspace, row: Row) -> None:
    assert "1914 clips of 12 films" in stats_of(ws)
    of_clips, n_clips, of_films, n_films = map(float, numbers_of_cell(row.here))
    films = {clip.film for clip in published_clips()}
    assert n_clips == float(number_of(printed("section 3.2", "MovieGraphs", "clips")))
    assert n_films == float(number_of(printed("section 3.2", "MovieGraphs", "films")))
    clips = 100 * len(published_clips()) / n_clips
    assert_written([str(of_clips), str(of_films)], [clips, 100 * len(films) / n_films])
    # One of the two shares of the text is that of the clips, the other that of the films.
    of_text = [
        printed(place, "data set", "share of MovieGraphs").strip("%")
        for place in ("section 3.2", "section 7.1")
    ]
    assert [int(of_clips), int(of_films)] == [int(share) for share in of_text]


@checks_row("Lengths of clips")
def check_lengths_of_clips(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws)
    films = [clip.film for clip in published_clips()]
    counts = {film: films.count(film) for film in films}
    for film, count in counts.items():
        assert f"{film} {count} " in text
    assert_written(numbers(row.here), [min(counts.values()), max(counts.values())])
    least = number_of(printed("section 3.2", "MovieGraphs", "clips a film"))
    assert min(counts.values()) > least


@checks_row("Table 1")
def check_table_1(ws: TypingWorkspace, row: Row) -> None:
    document = ws("manifest group --json").json()
    text = ws("manifest group").text
    of_concepts = []
    for concept in CONCEPTS:
        instance = rf"{concept} (?:(?!ObyGaze12).)+ ObyGaze12, Table 1 "
        of_concepts.append(len(re.findall(instance, text)))
    ours = [len(document["subconstructs"]), len(CONCEPTS), sum(of_concepts)]
    printed = [int(number) for number in numbers(row.paper)]
    assert [*ours, *of_concepts] == printed
    assert [int(number) for number in numbers(row.here)] == printed
    in_order = [re.escape(concept) for concept in CONCEPTS]
    assert re.search(r" \d+, ".join(in_order), row.here)


@checks_row("Table 2, trivial baselines")
def check_trivial_baselines(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    ws(f"run paper-baselines --manifest obygaze12 -o baselines {QUICK}")
    negatives = {
        "EN_S": len(of_level("EN")),
        "ENHN_S": len(of_level("EN") + of_level("HN")),
    }
    n_sure = len(of_level("S"))
    here = numbers(row.here)
    printed = numbers(row.paper)
    cells = itertools.product(negatives, ("random", "all_positive"))
    for place, (task, model) in enumerate(cells):
        share = n_sure / (n_sure + negatives[task])
        called = 0.5 if model == "random" else 1.0
        by_closed_form = blind_f1(share, called)[:2]
        values = values_of_cell(ws, "baselines", task, task, model)
        both = (values["f1_binary"], values["f1_weighted"])
        shown = [two_digits(one["value"]) for one in both]
        assert shown == [here[place], here[4 + place]]
        assert_written(shown, by_closed_form)
        of_paper = [two_digits(one["paper"]) for one in both]
        assert of_paper == [printed[place], printed[4 + place]]
        # The paper's shares of positive clips are a little smaller.
        for theirs, ours in zip(of_paper, by_closed_form, strict=True):
            assert abs(float(theirs) - ours) < 0.013
    shares = [100 * n_sure / (n_sure + number) for number in negatives.values()]
    assert_written(here[8:], shares)


CELLS = (("EN_S", "EN_S"), ("HN_S", "EN_S"), ("EN_S", "ENHN_S"), ("HN_S", "ENHN_S"))


def values_of_cell(
    ws: TypingWorkspace, run: str, train: str, test: str, model: str, store: str = ""
) -> dict[str, dict[str, str]]:
    values = {}
    for one in ws.read_table(f"runs/{run}/results.csv"):
        is_value = not one["film"] and not one["against_model"]
        cell = (one["train"], one["test"], one["model"])
        if is_value and cell == (train, test, model) and store in ("", one["store"]):
            values[one["metric"]] = one
    assert values, (
        f"{run} has no {model} that trains on {train} and is tested on {test}"
    )
    return values


def two_digits(number: str) -> str:
    """Return a number as the papers print it, such as .71."""
    return f"{float(number):.2f}".removeprefix("0")


def clips_of(table: SplitFile, *folds: int) -> set[str]:
    clips = set()
    for row in range(len(table.ids)):
        if table.has_video[row] and table.folds[row] in folds:
            clips.add(table.ids[row])
    return clips


@checks_row("Table 2, hard negatives")
def check_hard_negatives(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    tested = clips_of(split_file("02_ENHN_S.csv"), 9)
    by_hand = []
    by_command = []
    for train in ("HN_S", "EN_S"):
        used = clips_of(split_file(f"02_{train}.csv"), *range(9))
        by_hand.append(len(tested & used))
        values = values_of_cell(ws, "run", train, "ENHN_S", "mlp", "X-CLIP")
        by_command.append(int(values["f1_weighted"]["leaked"]))
    assert by_hand == by_command
    of_sure, of_tested, of_easy, *of_common = numbers(row.here)
    assert_written([of_sure, of_easy, of_tested], [*by_hand, len(tested)])
    # The printed values of the claim are those of the rows of the models.
    of_model = {row.name: row for row in rows_of_page()}["Table 2, X-CLIP"].paper
    means = numbers(re.sub(r"\(.*?\)", "", of_model))
    easy_easy, hard_easy, easy_all, hard_all = means[:4]
    assert numbers(row.paper)[:4] == [hard_all, easy_all, hard_easy, easy_easy]
    # On common folds nothing leaks.
    common = ""
    for task in ("EN_S", "HN_S", "ENHN_S"):
        common += f""" --set 'tasks.{task}.folds="02_EN_HN_S"'"""
    ws(
        "run paper-table2 --manifest obygaze12 --store X-CLIP=X-CLIP -o common"
        f"{common} {QUICK_MLP} --set grid.baselines=[]"
    )
    for train, n_leaked in zip(("HN_S", "EN_S"), of_common, strict=True):
        values = values_of_cell(ws, "common", train, "ENHN_S", "mlp")
        assert values["f1_weighted"]["leaked"] == n_leaked == "0"


# How many runs the released code has for each cell.
N_RUNS = 8


@checks_row("Table 2, perceptron")
def check_perceptron(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    protocol = json.loads(ws.read("runs/run/run.json"))["protocol"]
    n_hidden, n_classes = numbers(row.here)
    assert protocol["models"]["mlp"]["settings"]["hidden"] == [int(n_hidden)]
    assert printed("section 4.1", "MLP", "hidden neurons") == n_hidden
    assert printed("section 4.1", "MLP", "softmax neurons") == n_classes
    labels = {one["y"] for one in ws.read_table("runs/run/predictions.csv")}
    assert len(labels) == int(n_classes)


@checks_row("Table 2, folds")
def check_folds(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    n_folds, n_runs = map(int, numbers(row.here))
    for name in ("02_EN_S", "02_HN_S", "02_ENHN_S"):
        assert len(set(split_file(f"{name}.csv").folds.tolist())) == n_folds
    for train, test in CELLS:
        values = values_of_cell(ws, "run", train, test, "mlp", "X-CLIP")
        assert int(values["f1_weighted"]["fits"]) == n_runs == N_RUNS
    assert printed("section 8.1", "protocol", "folds") == str(n_folds)


def rows_of_cell(
    predictions: list[dict[str, str]], model: str, train: str, test: str
) -> list[dict[str, str]]:
    found = []
    for one in predictions:
        cell = (one["model"], one["store"], one["train"], one["test"])
        if cell == (model, "X-CLIP", train, test):
            found.append(one)
    return found


def weighted_f1(predictions: list[dict[str, str]]) -> float:
    truth = [one["y"] for one in predictions]
    decided = [one["decision"] for one in predictions]
    return float(f1_score(truth, decided, average="weighted"))


@checks_row("Table 2, standard deviations")
def check_standard_deviations(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    text = report_text(ws)
    (table,) = re.findall(
        r"F1 weighted of this run and of the paper (.+?) F1 binary of", text
    )
    (of_model,) = re.findall(r"mlp \(X-CLIP\) (.+?) mlp \(ViViT\)", table)
    predictions = ws.read_table("runs/run/predictions.csv")
    n_runs, *n_tested = [int(number) for number in numbers(row.here)]
    counted = {}
    for train, test in CELLS:
        runs: dict[str, list[dict[str, str]]] = {}
        for one in rows_of_cell(predictions, "mlp", train, test):
            runs.setdefault(one["fold"], []).append(one)
        values = []
        test_sets = set()
        for of_run in runs.values():
            values.append(weighted_f1(of_run))
            test_sets.add(frozenset(one["clip_id"] for one in of_run))
        (tested,) = test_sets
        counted[test] = len(tested)
        assert len(runs) == n_runs
        shown = re.search(rf"{train} {test} (\d?\.\d\d) \((\d?\.\d\d)\)", of_model)
        assert shown is not None, of_model
        assert_written(shown.groups(), [np.mean(values), np.std(values, ddof=1)])
    assert n_tested == [counted["ENHN_S"], counted["EN_S"]]
    deviations = []
    for one in rows_of_page():
        if one.name in ("Table 2, ViViT", "Table 2, X-CLIP"):
            deviations += re.findall(r"\((\.\d\d)\)", one.paper)
    assert numbers(row.paper)[:2] == [min(deviations), max(deviations)]


@checks_row("Table 3")
def check_table_3(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    done = ws("manifest stats obygaze12")
    (ours,) = re.findall(r"Pulp Fiction: ([\w, ]+) in the list", row.here)
    (theirs,) = re.findall(r"Pulp Fiction: ([\w, ]+)$", row.paper)
    path = real_data("mobygaze", "mobygaze_movielist.csv")
    genres = {}
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for one in csv.DictReader(stream, delimiter=";"):
            genres[one["imdb_key"]] = one["genre"]
    films = {clip.film for clip in published_clips()}
    for film in films:
        line = re.search(rf"(?m)^{film} .+$", done.out)
        assert line is not None
        # One film is not in the list of MObyGaze.
        assert line[0].endswith(genres.get(film, "Comedy, Romantic")), line[0]
    assert films - set(genres) == {"tt0212338"}
    assert genres["tt0110912"] == ours
    source = "genres of Pulp Fiction in Table 3 of the paper of ObyGaze12"
    assert f"{source}: {theirs} " in done.text
    assert numbers(row.here) == numbers(row.paper) == [str(len(films))]


@checks_row("Table 3, years")
def check_years(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws)
    films = re.findall(r"([A-Z][^;]+?) (\d{4})(?:, |;)", row.here)
    assert [year for _, year in films] == numbers(row.paper)
    of_paper = [
        cells["year"] for cells in printed_table("obygaze12", "Table 3").values()
    ]
    assert [year for _, year in films] == of_paper
    for title, year in films:
        assert f"{title} {year} " in text


@checks_row("Figure 1")
def check_figure_1(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws)
    years = numbers(row.here)
    titles = ("Pulp Fiction", "Pulp Fiction", "Marley & Me", "Gone Girl")
    for title, year, panel in zip(titles, years, "ABCD", strict=True):
        assert f"{title} {year} " in text
        assert printed("Figure 1 caption", f"panel {panel}", "year") == year


@checks_row("Table 4, folds")
def check_folds_of_table_4(ws: TypingWorkspace, row: Row) -> None:
    options = f"{QUICK_MLP} --set grid.baselines=[]"
    begin_with_run(ws, "paper-table4", "X-CLIP", options)
    fits = {}
    for one in ws.read_table("runs/run/results.csv"):
        if one["film"] and one["metric"] == "f1_weighted" and not one["against_model"]:
            fits[one["film"]] = one["fits"]
    n_films, n_runs = numbers(row.here)
    assert len(fits) == int(n_films)
    assert set(fits.values()) == {n_runs}
    assert printed("section 8.3", "unseen films", "validation films") == n_runs
    of_films = printed_table("obygaze12", "Table 4")
    mean = of_films.pop("Average")["F1"]
    assert_written([mean], [np.mean([float(one["F1"]) for one in of_films.values()])])


@checks_row("Figure 2")
def check_figure_2(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    done = ws("manifest stats obygaze12 --view visual --figure figure2")
    assert ws.path("figure2.png").exists()
    drawn = " ".join(re.findall(r"<text[^>]*>([^<]*)", ws.read("figure2.svg")))
    of_levels, of_concepts = row.here.split("; ")
    for level, share in re.findall(r"(EN|HN|NS|S) (\d+) %", of_levels):
        assert_written([share], [100 * len(of_level(level)) / len(published_clips())])
        assert f"{level} {len(of_level(level))} {share} %" in drawn
    for concept in CONCEPTS:
        (shares,) = re.findall(rf"{concept} ([\d. ]+\d)", of_concepts)
        assert_written(shares.split(), shares_with(concept))
        hard, unsure, sure = counts_with(concept)
        assert f"{concept} 0 {hard} {unsure} {sure} " in done.text
        assert concept in drawn


@checks_row("Figure 4")
def check_figure_4(ws: TypingWorkspace, row: Row) -> None:
    case = golden_case("projection", "g10_figure4_like_timeline.json")
    document = project_by_command(ws, case)
    merged = [level for level, _ in document["merged"]]
    assert merged == [clip["level"] for clip in case["expect"]["merged"]]
    assert row.here.startswith(", ".join(merged) + ":")


@checks_row("Figure 6")
def check_figure_6(ws: TypingWorkspace, row: Row) -> None:
    options = f"{QUICK_MLP} --set grid.baselines=[]"
    begin_with_run(ws, "paper-fig6", "X-CLIP", options)
    factors = ws.read_table("runs/run/success.csv")
    table = split_file("by_movie/ENHN_S.csv")
    panels = {
        "As Good as It Gets": "tt0119822",
        "Marley & Me": "tt0822832",
        "Up in the Air": "tt1193138",
    }
    counts = []
    for title, film in panels.items():
        of_film = np.array(table.films) == film
        counts.append(int((of_film & table.has_video).sum()))
        shown = {one["all_clips"] for one in factors if one["film"] == film}
        assert shown == {str(counts[-1])}, title
    assert_written(numbers(row.here), counts)
    # The factors of the paper: eight concepts and three levels.
    (n_factors,) = {
        len([one for one in factors if one["film"] == film]) for film in panels.values()
    }
    assert str(n_factors) == printed("section 9.2", "errors", "factors")
    for concept in CONCEPTS:
        (of_all,) = [
            one
            for one in factors
            if (one["film"], one["factor"]) == ("all films", concept)
        ]
        assert int(of_all["clips"]) > 0
        assert math.isfinite(float(of_all["log_odds"]))


@checks_row("Levels", "Levels without NS")
def check_levels(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws, "obygaze12 --view visual")
    levels = ["EN", *POSITIVE_LEVELS]
    place, column, of_paper = "section 3.4", "share", ["EN", "S"]
    if row.name == "Levels without NS":
        levels.remove("NS")
        place, column, of_paper = "section 4.1", "share without NS", levels
    counts = [len(of_level(level)) for level in levels]
    shares = [100 * count / sum(counts) for count in counts]
    written = numbers(row.here)
    assert_written(written, shares)
    for level, count, share in zip(levels, counts, written, strict=True):
        shown = f"{level} {count} {share} %"
        assert (shown if "NS" in levels else f"{level} {count} ") in text
        if level in of_paper:
            of_text = printed(place, f"level {level}", column)
            assert agrees(of_text.strip("%"), float(share))


@checks_row("Concepts a clip")
def check_concepts_a_clip(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    text = ws("audit levels obygaze12").text
    written = numbers(row.here)
    means = [mean_concepts(of_level(level)) for level in POSITIVE_LEVELS]
    assert_written(written, means)
    of_text = []
    for level, mean in zip(POSITIVE_LEVELS, written, strict=True):
        assert f"all annotators {level} {len(of_level(level))} {mean} " in text
        of_text.append(printed("section 3.4", f"level {level}", "concepts a clip"))
    assert_written(of_text, means)


def mean_concepts(clips: Sequence[PublishedClip]) -> float:
    return float(np.mean([len(clip.concepts) for clip in clips]))


@checks_row("Concepts rise with the level")
def check_rise(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    text = ws("audit levels mobygaze --view visual").text
    n_rising, n_annotators, *means, largest_p = numbers(row.here)
    segments = published_segments()
    ours = []
    p_values = []
    for annotator in ("annotator1", "annotator2"):
        of_annotator = [one for one in segments if one.annotator == annotator]
        by_level = {}
        for level in POSITIVE_LEVELS:
            by_level[level] = [one for one in of_annotator if one.level == level]
            ours.append(mean_concepts(by_level[level]))
        for lower, higher in itertools.pairwise(POSITIVE_LEVELS):
            p_values.append(p_of_rise(by_level[lower], by_level[higher]))
    assert_written(means, ours)
    assert_written([largest_p], [max(p_values)])
    assert f"from HN to NS to S for {n_rising} of {n_annotators} annotators" in text
    assert f"this is not shown (p = 0{largest_p}, the largest p of a step)" in text
    for mean in means:
        assert f" {mean} " in text
    rises = [ours[0] < ours[1] < ours[2], ours[3] < ours[4] < ours[5]]
    assert sum(rises) == int(n_rising)


def p_of_rise(lower: list[PublishedClip], higher: list[PublishedClip]) -> float:
    """Return p of a rise within films, from all flips of the signs of the films."""
    films = sorted({one.film for one in lower} & {one.film for one in higher})
    rises = []
    for film in films:
        above = mean_concepts([one for one in higher if one.film == film])
        below = mean_concepts([one for one in lower if one.film == film])
        rises.append(above - below)
    signs = np.array(list(itertools.product((1, -1), repeat=len(films))))
    flipped = signs @ np.array(rises)
    return float(np.mean(flipped >= sum(rises) - 1e-9))


@checks_row("Concepts at the same rate")
def check_same_rate(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    text = ws("audit annotations obygaze12 'level == S' 'level == HN'").text
    sure, hard = numbers(row.here)
    of_hard, _, of_sure = shares_with("Type of shot")
    assert_written([sure, hard], [of_sure, of_hard])
    assert f"Type of shot: {sure} % of X, {hard} % of Y, two-sided p < .0001" in text


def golden_case(*parts: str) -> Any:
    return json.loads(golden(*parts).read_text(encoding="utf-8"))


def project_by_command(ws: TypingWorkspace, case: Any) -> Any:
    marks = []
    for annotator, marked in case["annotators"].items():
        for start, end, level, concepts in marked:
            mark = {
                "annotator": annotator,
                "level": level,
                "concepts": "|".join(concepts),
            }
            marks.append(mark | frames_of_film(start, end))
    ws.write_table("segments.csv", marks)
    ws.write_table("clips.csv", clips_of_film(case["clips"]))
    words = "manifest project segments.csv --clips clips.csv -o projected --force"
    ws(f"{words} --threshold {case['threshold']}")
    merged = ws.read_table("manifests/projected.csv")
    names = [*case["annotators"]]
    said = [{**row, "annotator": names[0]} for row in merged]
    if len(names) > 1:
        said = ws.read_table("manifests/projected.annotators.csv")
    projections = {}
    for name in names:
        label_of = {row["clip_id"]: row for row in said if row["annotator"] == name}
        rows = [label_of.get(row["clip_id"], {}) for row in merged]
        projections[name] = [label_in(row) for row in rows]
    return {"projections": projections, "merged": [label_in(row) for row in merged]}


def label_in(row: dict[str, str]) -> tuple[str, list[str]]:
    return row.get("level", ""), [*filter(None, row.get("concepts", "").split("|"))]


def frames_of_film(start: int, end: int) -> dict[str, Any]:
    frames = {"start_frame": start, "end_frame": end, "framerate": 25}
    return {"movie_id": "film", **frames}


def clips_of_film(spans: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    clips = []
    for number, (start, end) in enumerate(spans, start=1):
        clips.append({"clip_id": f"film-{number:03d}"} | frames_of_film(start, end))
    return clips


def agreed(ws: TypingWorkspace, marks: Any, clips: Any) -> list[dict[str, Any]]:
    ws.write_table("segments.csv", marks)
    ws.write_table("clips.csv", clips)
    rows: list[dict[str, Any]] = ws(
        "agree segments.csv --clips clips.csv --json"
    ).json()["rows"]
    return rows


def assert_as_by_hand(
    ours: list[tuple[str, list[str]]], by_hand: list[dict[str, Any]]
) -> None:
    assert len(ours) == len(by_hand)
    for label, expected in zip(ours, by_hand, strict=True):
        concepts = [canonical_concept(name) or name for name in expected["concepts"]]
        assert label == (expected["level"], sorted(concepts))


@checks_row("Labels of clips from segments")
def check_projection(ws: TypingWorkspace, row: Row) -> None:
    n_cases = 0
    for path in sorted(golden("projection").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if "clips" not in case:
            continue
        n_cases += 1
        document = project_by_command(ws, case)
        expected = case["expect"]
        for annotator, clips in expected["projection"].items():
            assert_as_by_hand(document["projections"][annotator], clips)
        if "merged" in expected:
            assert_as_by_hand(document["merged"], expected["merged"])
    assert_written(numbers(row.here), [n_cases])


@checks_row("Other thresholds")
def check_other_thresholds(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    n_clips, _, *changes = numbers(row.here)
    by_hand: dict[str, list[int]] = {}
    for threshold in ("0.1", "0.4"):
        words = "manifest project mobygaze --every 30 -o labels --force"
        text = ws(f"{words} --threshold {threshold}").text
        by_hand[threshold] = merged_counts(Fraction(threshold))
        assert sum(by_hand[threshold]) == int(n_clips)
        _, hard, unsure, sure = by_hand[threshold]
        assert f"HN {hard}, NS {unsure}, S {sure}, " in text
    levels = ["EN", "HN", "NS", "S"]
    change = dict(zip(levels, np.subtract(by_hand["0.4"], by_hand["0.1"]), strict=True))
    assert_written(changes, [change["S"], change["NS"], change["HN"]])
    # Sure clips and unsure ones become fewer in the paper too.
    of_paper = dict(re.findall(r"(S|NS|EN|HN) ([+-]\d+)", row.paper))
    assert int(of_paper["S"]) < 0 and change["S"] < 0
    assert int(of_paper["NS"]) < 0 and change["NS"] < 0
    assert int(of_paper["EN"]) > 0 and change["EN"] > 0


def merged_counts(threshold: Fraction) -> list[int]:
    """Return how many clips of 30 s of MObyGaze are EN, HN, NS and S: the higher level of two."""
    counts = [0, 0, 0, 0]
    for first, second in projected(threshold).values():
        for pair in zip(first, second, strict=True):
            counts[max(pair)] += 1
    return counts


@checks_row("Agreement")
def check_agreement(ws: TypingWorkspace, row: Row) -> None:
    case = golden_case("projection", "g12_gamma_by_hand.json")
    spans = [(100 * number, 100 * number + 99) for number in range(len(case["u"]))]
    marks = []
    for annotator in ("u", "v"):
        for (start, end), level in zip(spans, case[annotator], strict=True):
            mark = {"annotator": annotator, "level": level, "concepts": ""}
            marks.append(mark | frames_of_film(start, end))
    means = means_of_films(agreed(ws, marks, clips_of_film(spans)))
    expected = case["expect"]
    for null, of_null in expected["all"].items():
        gamma = pytest.approx(of_null["gamma"], abs=1e-9)
        assert means["all"][f"gamma_{null}"] == gamma
    without_ns = expected["without_NS"]["uniform"]["gamma"]
    ours = means["without NS"]["gamma_uniform"]
    assert ours == pytest.approx(without_ns, abs=1e-9)
    begin_with(ws, agree_on_mobygaze)
    gammas = []
    gammas_without_ns = []
    positions = np.array([0.0, 0.3, 0.7, 1.0])
    for first, second in projected(Fraction(1, 5)).values():
        levels = np.array([first, second])
        distances = np.abs(positions[levels[0]] - positions[levels[1]])
        kept = (levels != 2).all(axis=0)
        # The mean distance of two levels that are drawn uniformly: of four levels, and of three.
        gammas.append(1 - distances.mean() / 0.425)
        gammas_without_ns.append(1 - distances[kept].mean() / (4 / 9))
    written = numbers(row.here)[:2]
    assert_written(written, [np.mean(gammas), np.mean(gammas_without_ns)])
    means = means_of_films(json.loads(ws.read("agreed.json"))["rows"])
    for words, gamma in zip(("all", "without NS"), written, strict=True):
        assert_written([gamma], [means[words]["gamma_uniform"]])


def agree_on_mobygaze(ws: TypingWorkspace) -> None:
    begin_with_annotations(ws)
    ws.write("agreed.json", ws("agree mobygaze --every 30 --json").out)


def means_of_films(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["words"]: row for row in rows if row["film"] == "mean of films"}


@checks_row("Agreement, random sequences")
def check_random_sequences(ws: TypingWorkspace, row: Row) -> None:
    begin_with(ws, agree_on_mobygaze)
    rows = json.loads(ws.read("agreed.json"))["rows"]
    of_films = {row["film"]: row["items"] for row in rows if row["words"] == "all"}
    clips = {film: len(first) for film, (first, _) in projected(Fraction(1, 5)).items()}
    assert {film: of_films[film] for film in clips} == clips
    n_clips, _, of_all, without_ns = numbers(row.here)
    assert_written([n_clips], [sum(clips.values())])
    # The disorder by chance is the mean over all pairs of levels, as random sequences approach it.
    distances = np.array(distances_of_paper())
    kept = [0, 1, 3]
    of_kept = distances[np.ix_(kept, kept)]
    assert_written([of_all, without_ns], [distances.mean(), of_kept.mean()])
    n_sequences = int(printed("section 7.3", "gamma", "N"))
    levels = np.random.default_rng(0).integers(4, size=(n_sequences, 2, 160))
    drawn = distances[levels[:, 0], levels[:, 1]].mean()
    assert abs(drawn - distances.mean()) < 0.01


def distances_of_paper() -> list[list[float]]:
    cells = printed_table("obygaze12", "equation 2")
    rows = []
    for first in ("EN", *POSITIVE_LEVELS):
        rows.append([float(cells[first][second]) for second in cells])
    return rows


@checks_row("Agreement, distances")
def check_distances(ws: TypingWorkspace, row: Row) -> None:
    levels = ("EN", *POSITIVE_LEVELS)
    marks = []
    clips = []
    for first, second in itertools.product(levels, repeat=2):
        film = frames_of_film(0, 99) | {"movie_id": f"{first}-{second}"}
        clips.append(film | {"clip_id": f"{first}-{second}"})
        for annotator, level in (("u", first), ("v", second)):
            marks.append(
                film | {"annotator": annotator, "level": level, "concepts": ""}
            )
    by_film = {}
    for found in agreed(ws, marks, clips):
        if found["words"] == "all":
            by_film[found["film"]] = (1 - found["gamma_uniform"]) * 0.425
    ours = [by_film[clip["movie_id"]] for clip in clips]
    assert ours == pytest.approx(np.ravel(distances_of_paper()))
    assert_written(numbers(row.here), ours)


@checks_row("Agreement, pairs")
def check_pairs(ws: TypingWorkspace, row: Row) -> None:
    n_common = int(number_of(printed("section 3.3", "annotation", "common films")))
    n_others = int(printed("section 3.3", "annotation", "other films"))
    n_annotators = int(number_of(printed("section 3.3", "annotation", "annotators")))
    marks = []
    clips = []
    for number in range(n_common + n_others):
        film = frames_of_film(0, 99) | {"movie_id": f"film{number}"}
        clips.append(film | {"clip_id": f"film{number}-001"})
        for annotator in range(n_annotators if number < n_common else 2):
            name = f"annotator{annotator}"
            marks.append(film | {"annotator": name, "level": "S", "concepts": "Look"})
    films = {clip["movie_id"] for clip in clips}
    pairs = [one for one in agreed(ws, marks, clips) if one["film"] in films]
    written = list(map(int, numbers(row.here)))
    assert written == [len(pairs), math.comb(n_annotators, 2), n_common, 4, 1, n_others]


@checks_row("Published splits")
def check_published_splits(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws)
    names = (
        "02_EN_S",
        "02_HN_S",
        "02_ENHN_S",
        "02_EN_HN_S",
        "by_movie/HN_S",
        "by_movie/ENHN_S",
    )
    sizes = []
    for name in names:
        table = split_file(f"{name}.csv")
        sizes.append(len(table.ids))
        n_folds = len(set(table.folds.tolist()))
        assert f"{name.replace('/', '_')} {n_folds} {len(table.ids)} " in text
        assert n_folds == (12 if "/" in name else 10)
    assert_written(numbers(row.here), sizes)


@checks_row("Groups of concepts")
def check_groups(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    ws("manifest group obygaze12 -o by-subconstruct")
    text = ws("manifest stats by-subconstruct --view visual").text
    hard, unsure, sure = counts_with("Type of shot", "Look")
    assert f"male gaze 0 {hard} {unsure} {sure} " in text
    assert_written(numbers(row.here), [hard + unsure + sure, sure])


# ---- CLIP --------------------------------------------------------------------------------------


def write_tiny_model(ws: TypingWorkspace) -> None:
    from support.checkpoints import write_tiny_card
    from support.words import save_text_model

    save_text_model("xclip", ws.path("weights"), positions=32)
    write_tiny_card("xclip", ws.path("backbones"))


def begin_with_tiny_model(ws: TypingWorkspace) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    begin_with(ws, write_tiny_model)


def embedded_texts(ws: TypingWorkspace, prompts: str) -> dict[str, list[str]]:
    words = f"extract text -b tiny-xclip --prompts {prompts} --weights weights"
    ws(f"{words} -o texts.npz")
    texts: dict[str, list[str]] = {}
    with np.load(ws.path("texts.npz")) as arrays:
        assert len(arrays["embeddings"]) == len(arrays["prompt"])
        for attribute, text in zip(arrays["attribute"], arrays["prompt"], strict=True):
            texts.setdefault(str(attribute), []).append(str(text))
    return texts


def in_templates(words: Sequence[str], article: str = "a") -> list[str]:
    """Return the five texts of each word: bare, with an article, and in three sentences."""
    texts = list(words)
    for start in ("", "a photo of ", "an image of ", "a picture of "):
        texts += [f"{start}{article} {word}" for word in words]
    return sorted(texts)


@checks_row("CLIP 4.1, emotion")
def check_emotion(ws: TypingWorkspace, row: Row) -> None:
    cases = golden_case("audits", "eat.json")["cases"]
    *written, n_texts = numbers(row.here)
    effects = []
    for case in cases:
        np.savez(ws.path("vectors.npz"), **{name: case[name] for name in "XYAB"})
        document = ws("audit eat --vectors vectors.npz --json").json()
        expected = case["expected"]
        effect = document["effect_size"]
        assert effect == pytest.approx(expected["effect_size"], abs=1e-9)
        assert document["p"]["greater"] == pytest.approx(expected["exact"]["p_ge"])
        effects.append(expected["effect_size"])
    assert_written(written, effects)
    begin_with_tiny_model(ws)
    texts = embedded_texts(ws, "wolfe2023-emotion")
    nouns = ["person", "woman", "human", "human being", "individual", "adult"]
    assert sorted(texts.pop("person")) == in_templates(nouns)
    words = {"anger": "an angry", "sadness": "a sad", "happiness": "a happy"}
    for attribute, article_and_word in words.items():
        article, word = article_and_word.split()
        with_emotion = [f"{word} {noun}" for noun in nouns]
        assert sorted(texts.pop(attribute)) == in_templates(with_emotion, article)
    assert not texts
    assert int(n_texts) == 4 * 5 * len(nouns)


def reliability_text(ws: TypingWorkspace, ratings: npt.NDArray[np.float64]) -> str:
    raters = [f"rater{number}" for number in range(ratings.shape[1])]
    rows = [dict(zip(raters, one, strict=True)) for one in ratings.tolist()]
    ws.write_table("ratings.csv", rows)
    return ws(f"agree ratings.csv --raters {','.join(raters)}").text


@checks_row("CLIP 4.1, prompts")
def check_prompts(ws: TypingWorkspace, row: Row) -> None:
    case = golden_case("audits", "eat.json")["cases"][-1]
    np.savez(ws.path("vectors.npz"), **{name: case[name] for name in "XYAB"})
    text = ws("audit eat --vectors vectors.npz").text
    items = np.array(case["X"] + case["Y"])
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    written = numbers(row.here)
    alphas = []
    for name, alpha in zip("AB", written, strict=True):
        texts = np.array(case[name])
        texts /= np.linalg.norm(texts, axis=1, keepdims=True)
        cosines = items @ texts.T
        alphas.append(cronbach(cosines))
        of_texts = f"the {len(texts)} texts of {name}"
        assert f"{of_texts}, by their cosines to {len(items)} items: 0{alpha}" in text
        # The other command of the row has the same alpha of the same numbers.
        again = reliability_text(ws, cosines)
        assert f"Cronbach's alpha of {len(texts)} raters: 0{alpha} " in again
    assert_written(written, alphas)


@checks_row("CLIP 4.2")
def check_where_the_model_looks(ws: TypingWorkspace, row: Row) -> None:
    n_exchanges, n_texts = numbers(row.here)
    begin_with_tiny_model(ws)
    texts = embedded_texts(ws, "wolfe2023-maps")
    assert texts == {
        "anger": ["a photo of an angry person"],
        "sadness": ["a photo of a sad person"],
        "happiness": ["a photo of a happy person"],
    }
    assert len(texts) == int(n_texts)
    import_films(ws, "harbour", "lake")
    ws(
        "extract run films -b tiny-xclip --weights tiny-xclip=weights"
        " --arrays pooled,tokens --store tiny-xclip=tokens --workers 1"
    )
    ws("explain concepts tokens films -o maps")
    clips = [f"harbour-{number:03d}" for number in range(1, 9)]
    conditions = []
    heads = []
    for place, clip in enumerate(clips):
        condition = "objectified" if place % 2 == 0 else "not objectified"
        conditions.append({"clip_id": clip, "condition": condition, "pair": place // 2})
        heads.append({"clip_id": clip, "x0": 0.5, "y0": 0, "x1": 1, "y1": 0.5})
    ws.write_table("conditions.csv", conditions)
    ws.write_table("heads.csv", heads)
    words = "explain conditions maps conditions.csv --boxes heads.csv --figure means"
    document = ws(f"{words} --json").json()
    assert ws.path("means.png").exists()
    assert document["exchanged"] == "the clips of each pair"
    of_direction = document["directions"][0]
    shares = np.array([share_in_the_box(ws, clip) for clip in clips])
    of_first = shares[::2]
    of_second = shares[1::2]
    means = [of_first.mean(), of_second.mean()]
    assert of_direction["shares"] == pytest.approx(means)
    differences = of_first - of_second
    signs = np.array(list(itertools.product((1, -1), repeat=len(differences))))
    assert len(signs) == int(n_exchanges)
    exchanged = np.abs(signs @ differences)
    p = np.mean(exchanged >= abs(differences.sum()) - 1e-9)
    assert (of_direction["p"], of_direction["method"]) == (pytest.approx(p), "exact")


def share_in_the_box(ws: TypingWorkspace, clip: str) -> float:
    """Return how much of what lies above the mean of a map is in its upper right quarter."""
    import obygaze as og

    maps = og.open_store("maps", workspace=ws.folder).matrix("maps", clips=[clip])
    of_concept = np.asarray(maps.values[0, 0], dtype=np.float64)
    above = np.maximum(of_concept - of_concept.mean(), 0)
    return float(above[:, 0, 1].sum() / above.sum())


FACES = ("AN1", "AN2", "SA1", "SA2", "HA1", "HA2")


def rates_of_captions(ws: TypingWorkspace, options: str = "") -> dict[str, Any]:
    words = "audit captions captions --group group,face --cluster image,face"
    words += f" --tokens authors {options}"
    document = ws(f"{words} --json").json()
    rates = {}
    for rate in document["rates"]:
        group, face = rate["group"].split()
        if face in FACES and face[:2] == rate["words"]:
            rates[f"{group} {face}"] = rate
    return rates


@checks_row("CLIP 4.3, words of emotion")
def check_words_of_emotion(ws: TypingWorkspace, row: Row) -> None:
    folder = real_data("clip-gender-bias", "Data", "clip_32_captions")
    ws.path("captions").symlink_to(folder)
    rates = rates_of_captions(ws)
    counted = golden_case("audits", "captions.json")["real_data"]["expected"]
    theirs = {}
    for one in counted:
        group = "NO" if one["condition"] == "Nonobjectified" else "O"
        theirs[f"{group} {one['emotion']}"] = one["per_1000"]
    assert len(theirs) == 12
    for key, per_1000 in theirs.items():
        assert rates[key]["occurrences_per_1000"] == pytest.approx(per_1000), key
    _, shown, not_shown, *ratios = numbers(row.here)
    ours = [theirs[f"O {face}"] / theirs[f"NO {face}"] for face in FACES]
    assert_written([shown, not_shown], [theirs["NO SA2"], theirs["O SA2"]])
    assert_written(ratios, ours)
    assert max(ours) < 0.5


@checks_row("CLIP 4.3, the authors' counter")
def check_counter(ws: TypingWorkspace, row: Row) -> None:
    case = golden_case("audits", "captions.json")["synthetic"]
    for name, text in case["files"].items():
        ws.write(f"captions/{name}", text)
    rates = rates_of_captions(ws)
    counts = []
    for one in case["expected"]:
        group = "NO" if one["condition"] == "Nonobjectified" else "O"
        ours = rates[f"{group} {one['emotion']}"]
        assert ours["count"] == one["count"]
        assert ours["n_captions"] == one["n_captions"]
        per_1000 = ours["occurrences_per_1000"]
        assert per_1000 == pytest.approx(one["occurrences_per_1000"])
        counts.append(one["count"])
    assert_written(numbers(row.here), counts)


@checks_row("CLIP 4.3, rare words")
def check_rare_words(ws: TypingWorkspace, row: Row) -> None:
    folder = real_data("clip-gender-bias", "Data", "clip_32_captions")
    ws.path("captions").symlink_to(folder)
    case = golden_case("audits", "captions.json")
    lists = case["word_lists"].values()
    words = set(itertools.chain(*lists))
    totals = dict.fromkeys(words, 0)
    for path in folder.glob("*.txt"):
        text = path.read_text(encoding="utf-8").lower()
        for word in re.sub(r"[.,]", "", text).split():
            if word in totals:
                totals[word] += 1
    n_words, rarest = numbers(row.here)
    assert_written([n_words, rarest], [len(words), min(totals.values())])
    assert rates_of_captions(ws, "--min-occurrences 100") == rates_of_captions(ws)


def ratings_with_printed_shares() -> npt.NDArray[np.float64]:
    """Return ratings of 100 girls and 100 boys by two researchers and the CNN.

    The printed shares leave open which pictures two raters both call sexualised. Their alphas with
    the CNN leave one possibility for each of them, 49 and 50 pictures; the alpha of all three
    leaves 80 or 81 pictures for both researchers.
    """
    of_girls = {(1, 1, 1): 47, (1, 1, 0): 26, (1, 0, 0): 2, (0, 1, 0): 15}
    of_boys = {(1, 1, 1): 2, (0, 1, 1): 1, (1, 1, 0): 5, (1, 0, 0): 2, (0, 1, 0): 4}
    pictures = []
    for counts in (of_girls, of_boys):
        of_gender = []
        for ratings, count in counts.items():
            of_gender += [ratings] * count
        of_gender += [(0, 0, 0)] * (100 - len(of_gender))
        pictures += of_gender
    return np.array(pictures, dtype=np.float64)


@checks_row("CLIP, alpha of the raters")
def check_alpha_of_raters(ws: TypingWorkspace, row: Row) -> None:
    ratings = ratings_with_printed_shares()
    shares = printed_table("clip", "section 5.5")
    raters = ("first rater", "second rater", "CNN")
    for gender, pictures in (("girls", ratings[:100]), ("boys", ratings[100:])):
        of_gender = [shares[f"{gender} of 18"][rater].strip("%") for rater in raters]
        assert [int(share) for share in of_gender] == pictures.sum(axis=0).tolist()
    *alphas, n_pictures = numbers(row.here)
    assert int(n_pictures) == len(ratings)
    names = ("alpha, all three", "alpha, first and CNN", "alpha, second and CNN")
    assert alphas == [printed("section 5.5", "raters", name, "clip") for name in names]
    for alpha, columns in zip(alphas, ([0, 1, 2], [0, 2], [1, 2]), strict=True):
        of_columns = ratings[:, columns]
        assert_written([alpha], [cronbach(of_columns)])
        shown = f"{cronbach(of_columns):.3f}"
        text = reliability_text(ws, of_columns)
        assert f"Cronbach's alpha of {len(columns)} raters: {shown} " in text


def write_tiny_clip(ws: TypingWorkspace) -> None:
    from support.checkpoints import write_tiny_card
    from support.words import save_text_model

    save_text_model("clip", ws.path("weights"), positions=32)
    write_tiny_card("clip", ws.path("backbones"), "openai/clip-vit-base-patch16")
    import_films(ws, "harbour", "lake")
    ws(
        "extract run films -b tiny-clip --weights tiny-clip=weights --arrays clip"
        " --store tiny-clip=clips --workers 1"
    )
    for name, film in (("x", "harbour"), ("y", "lake")):
        ids = [{"clip_id": f"{film}-{number:03d}"} for number in range(1, 11)]
        ws.write_table(f"{name}.csv", ids)
    for prompts in ("emotion", "profession"):
        ws(
            f"extract text -b tiny-clip --prompts wolfe2023-{prompts} --weights weights"
            f" -o {prompts}.npz"
        )


# The attributes of the prompts, and what the tables of the paper call them.
OF_TABLE_1 = {"anger": "Angry", "sadness": "Sad", "happiness": "Happy"}
OF_TABLE_2 = {"scientist": "Science", "doctor": "Medicine", "executive": "Business"}


@checks_row("CLIP, Table 1", "CLIP, Table 2")
def check_printed_effects(ws: TypingWorkspace, row: Row) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    begin_with(ws, write_tiny_clip)
    place = row.name.removeprefix("CLIP, ")
    prompts = "emotion" if place == "Table 1" else "profession"
    pairs = [(emotion, "person") for emotion in OF_TABLE_1]
    if place == "Table 2":
        pairs = [("sexual", profession) for profession in OF_TABLE_2]
    words = f"audit eat clips --x x.csv --y y.csv --text {prompts}.npz"
    for a, b in pairs:
        words += f" --attributes {a} {b}"
    text = ws(words).text
    assert "paper, CLIP ViT-B16" in text
    cells = printed_table("clip", place)
    for test in ws(f"{words} --json").json()["tests"]:
        of_models = {}
        for model, values in test["paper"]["models"].items():
            of_models[model] = list(values)
        expected = {}
        for model, of_model in cells.items():
            if place == "Table 2":
                expected[model] = [of_model[OF_TABLE_2[test["b"]]]]
            else:
                emotion = OF_TABLE_1[test["a"]]
                expected[model] = [
                    of_model[f"{emotion}, {how}"] for how in ("high", "low")
                ]
        assert of_models == expected
        ours = expected["CLIP ViT-B16"]
        shown = ours[0] if place == "Table 2" else f"{ours[0]} high, {ours[1]} low"
        assert f" {shown} " in text
    n_effects = sum(len(of_model) for of_model in cells.values())
    assert numbers(row.paper)[0] == str(n_effects)
    assert row.is_left_out


@checks_row("CLIP 5.4, two p")
def check_two_p(ws: TypingWorkspace, row: Row) -> None:
    models = ("RN50", "RN50x4")
    effects = [
        printed("section 5.4", f"science, {name}", "d", "clip") for name in models
    ]
    n_pictures = int(printed("section 4.4", "profession EAT", "X, pictures", "clip"))
    first, second, *of_effects, n_vectors = numbers(row.here)
    assert [float(effect) for effect in of_effects] == [float(one) for one in effects]
    assert n_vectors == str(n_pictures)
    p_values = []
    for effect in map(float, effects):
        p = 0.5 * math.erfc(effect * math.sqrt(n_pictures / 2) / math.sqrt(2))
        p_values.append(p)
        np.savez(ws.path("vectors.npz"), **vectors_of_effect(effect, n_pictures))
        text = ws("audit eat --vectors vectors.npz --tail greater").text
        assert f"d = +{effect:.2f}" in text
        (shown,) = re.findall(r"approximation of the greater p: (0\.\d+)\.", text)
        assert agrees(shown, p)
    assert_written([first, second], p_values)
    # The smaller effect has the larger p here, and the smaller one in the paper.
    of_paper = [
        printed("section 5.4", f"science, {name}", "p", "clip") for name in models
    ]
    assert p_values[0] < p_values[1]
    assert of_paper[0] > of_paper[1]


def vectors_of_effect(effect: float, n: int) -> dict[str, list[list[float]]]:
    """Return vectors whose associations have this effect size: two groups of n, one shifted."""
    spread = np.linspace(-0.3, 0.3, n)
    low, high = 0.0, 1.0
    for _ in range(60):
        shift = (low + high) / 2
        both = np.concatenate([spread + shift, spread])
        if shift / both.std(ddof=1) < effect:
            low = shift
        else:
            high = shift
    groups = {}
    for name, values in (("X", spread + shift), ("Y", spread)):
        # The cosine with A minus that with B is cos t - sin t.
        angles = np.arccos(values / np.sqrt(2)) - np.pi / 4
        groups[name] = np.column_stack([np.cos(angles), np.sin(angles)]).tolist()
    return groups | {"A": [[1.0, 0.0]], "B": [[0.0, 1.0]]}


# ---- captions ----------------------------------------------------------------------------------


def write_file_of_page(ws: TypingWorkspace, name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    block = rf"(?s)<!-- file: {re.escape(name)} -->\n```csv\n(.+?)```"
    (shown,) = re.findall(block, text)
    ws.write(name, shown)


@checks_row("Gender Score, motorcycle")
def check_gender_score(ws: TypingWorkspace, row: Row) -> None:
    write_file_of_page(ws, "motorcycle.csv")
    text = ws("audit gender-score motorcycle.csv").text
    cells = ws.read_table("motorcycle.csv")[0]
    scores = []
    for gender in ("man", "woman"):
        prior = float(cells[f"lm_{gender}"])
        similarity = float(cells[f"sim_{gender}"])
        power = ((1 - similarity) / (1 + similarity)) ** (1 - float(cells["prob"]))
        scores.append(prior**power)
    values = [*scores, 100 * scores[0] / sum(scores)]
    man, woman, share = numbers(row.here)
    assert_written([man, woman, share], values)
    assert_written(numbers(row.paper)[:3], values)
    assert f"Mean score of 'man' 0{man}, of 'woman' 0{woman}" in text
    assert f"{share} % to man" in text


@checks_row("Gender Score, motivation")
def check_motivation(ws: TypingWorkspace, row: Row) -> None:
    distances = printed_table("gender_score", "motivation table")
    rows = []
    nearer_to_woman = []
    for thing, of_thing in distances.items():
        prior = {"lm_man": 0.1, "lm_woman": 0.1, "prob": 0}
        similarities = {"sim_man": of_thing["man"], "sim_woman": of_thing["woman"]}
        rows.append({"caption": f"a [MASK] with a {thing}"} | prior | similarities)
        if float(of_thing["woman"]) > float(of_thing["man"]):
            nearer_to_woman.append(thing)
    ws.write_table("captions.csv", rows)
    document = ws("audit gender-score captions.csv --json").json()
    ours = []
    for one in document["rows"]:
        if one["gender"] == "woman":
            ours.append(one["caption"].removeprefix("a woman with a "))
    assert ours == nearer_to_woman
    assert row.here.endswith(f"{numbers(row.here)[0]} objects: {', '.join(ours)}")
    assert numbers(row.here)[0] == str(len(ours))


@checks_row("Gender Score, pictures")
def check_pictures(ws: TypingWorkspace, row: Row) -> None:
    rows = []
    shares = []
    for thing, cells in printed_table("gender_score", "picture examples").items():
        caption: dict[str, Any] = {"caption": f"a [MASK] with a {thing}", "prob": 0}
        scores = {}
        for gender in ("man", "woman"):
            similarity = float(cells[f"distance, {gender}"])
            scores[gender] = float(cells[f"score, {gender}"])
            # The prior that makes the printed score out of the printed distance.
            power = (1 - similarity) / (1 + similarity)
            caption[f"sim_{gender}"] = similarity
            caption[f"lm_{gender}"] = scores[gender] ** (1 / power)
        rows.append(caption)
        shares.append(100 * scores["man"] / sum(scores.values()))
    ws.write_table("captions.csv", rows)
    document = ws("audit gender-score captions.csv --json").json()
    assert [one["ratio_to_man"] for one in document["rows"]] == pytest.approx(shares)
    assert_written(numbers(row.here), shares)


@checks_row("Objects and gender")
def check_ratios(ws: TypingWorkspace, row: Row) -> None:
    captions = []
    of_paper = {}
    for name, cells in printed_table("gender_score", "gender bias ratio table").items():
        of_paper[name] = [float(cells["to-m"]), float(cells["to-w"])]
        for gender in ("man", "woman"):
            caption = {"caption": f"a {gender}", "objects": name}
            captions += [caption] * int(cells[gender])
    ws.write_table("captions.csv", captions)
    document = ws("audit cooc captions.csv objects --json").json()
    ours = {thing["thing"]: thing["printed"] for thing in document["things"]}
    assert ours == of_paper
    n_ratios, man, woman = numbers(row.here)
    assert int(n_ratios) == 2 * len(of_paper)
    assert_written([man, woman], of_paper["Object Gender Co-Occ, AoANet"])
    assert numbers(row.paper) == [man, woman]
    # The ranges beside a user's own score are those of the Gender Score.
    write_file_of_page(ws, "motorcycle.csv")
    text = ws("audit gender-score motorcycle.csv").text
    ranges = []
    for place in (0, 1):
        shares = []
        for name, both in of_paper.items():
            if name.startswith("Gender Score, "):
                shares.append(both[place])
        ranges.append(f"{min(shares):.2f} to {max(shares):.2f}")
    assert f"(Sabir and Padró): {ranges[0]} and {ranges[1]}." in text


@checks_row("Objects and gender, things")
def check_shares_beside_things(ws: TypingWorkspace, row: Row) -> None:
    captions = []
    of_paper = {}
    impossible = {}
    beside: dict[str, list[tuple[float, float]]] = {}
    for name, cells in printed_table("gender_score", "object bias ratio table").items():
        for thing in ("skateboard", "kitchen", "motorcycle", "baseball"):
            man = float(cells[f"{thing}, toward men"])
            woman = float(cells[f"{thing}, toward women"])
            if name.startswith("Object Gender Co-Occ, "):
                beside.setdefault(thing, []).append((man, woman))
            if man + woman > 1.005:
                impossible[f"{name}, {thing}"] = (man, woman)
                continue
            of_paper[f"{name}, {thing}"] = [man, woman]
            counts = counts_of_cut_shares(round(100 * man), round(100 * woman))
            for gender, count in zip(("man", "woman"), counts, strict=True):
                caption = {"caption": f"a {gender}", "objects": f"{name}, {thing}"}
                captions += [caption] * count
    of_things = [{"caption": "a man", "objects": thing} for thing in beside]
    ws.write_table("captions.csv", captions + of_things)
    words = "audit cooc captions.csv objects"
    document = ws(f"{words} --json").json()
    ours = {thing["thing"]: thing["printed"] for thing in document["things"]}
    assert {name: ours[name] for name in of_paper} == of_paper
    n_possible, n_pairs = map(int, numbers(row.here))
    assert (n_possible, n_pairs) == (len(of_paper), len(of_paper) + len(impossible))
    assert list(impossible) == ["Object Gender Co-Occ, Transformer, skateboard"]
    n_shares, *of_impossible = numbers(row.paper)
    assert int(n_shares) == 2 * n_pairs
    assert_written(of_impossible[:2], *impossible.values())
    # The ranges beside a user's own thing are those of the co-occurrences.
    text = ws(words).text
    for shares in beside.values():
        men, women = zip(*shares, strict=True)
        ranges = (
            f"{min(men):.2f} to {max(men):.2f} {min(women):.2f} to {max(women):.2f}"
        )
        assert ranges in text


def counts_of_cut_shares(man: int, woman: int) -> tuple[int, int]:
    """Return the smallest counts whose shares, in whole percents, are cut to these."""
    for total in range(1, 201):
        for n_men in range(total + 1):
            cut = (100 * n_men // total, 100 * (total - n_men) // total)
            if cut == (man, woman):
                return n_men, total - n_men
    raise AssertionError(f"no counts have the shares {man} and {woman}")


@checks_row("Objects of several words")
def check_objects_of_several_words(ws: TypingWorkspace, row: Row) -> None:
    write_file_of_page(ws, "things.csv")
    text = ws("audit cooc things.csv objects --cluster image").text
    for thing in ("baseball bat", "cellular telephone", "wine bottle"):
        ((man, woman),) = re.findall(rf"{thing} (\d) (\d)", row.here)
        genders = []
        for one in ws.read_table("things.csv"):
            if one["objects"] == thing:
                genders.append(one["gender"])
        assert [genders.count("man"), genders.count("woman")] == [int(man), int(woman)]
        assert f"{thing} {man} {woman} " in text


@checks_row("Crossed groups")
def check_crossed_groups(ws: TypingWorkspace, row: Row) -> None:
    write_file_of_page(ws, "things.csv")
    words = "audit captions things.csv --group race,gender,class"
    text = ws(f"{words} --cluster image").text
    sad = {}
    for one in ws.read_table("things.csv"):
        sad[one["image"]] = one["caption"].split().count("sad")
    # A man and a woman of the same race and class may change places: images 2 and 6, and 5 and 3.
    # Images 1 and 4 are alone, so the man of image 1 stays one.
    of_men = []
    for rich_black, rich_white in itertools.product("26", "53"):
        of_men.append(sad["1"] + sad[rich_black] + sad[rich_white])
    distances = np.abs(np.array(of_men) - np.mean(of_men))
    p, n_exchanges = numbers(row.here)
    assert int(n_exchanges) == len(of_men)
    assert_written([p], [np.mean(distances >= distances[0] - 1e-9)])
    assert f"SA, gender man against woman: two-sided p = 0{p} (exact)" in text


# ---- MediaEval ---------------------------------------------------------------------------------


@checks_row("MediaEval, violence")
def check_violence(ws: TypingWorkspace, row: Row) -> None:
    cases = golden_case("audits", "mediaeval.json")["ap_cases"]
    theirs = []
    for case in cases:
        judged = ""
        for name, grade in case["qrels"].items():
            judged += f"violence 0 {name} {grade}\n"
        returned = ""
        for name, score in case["run"].items():
            returned += f"violence Q0 {name} 1 {score!r} t\n"
        ws.write("violence.qrels", judged)
        ws.write("run.txt", returned)
        words = "audit mediaeval run.txt --qrels violence.qrels"
        document = ws(f"{words} --json").json()
        expected = case["expected"]["ap_float32"]
        assert document["violence"]["ap_trec"] == pytest.approx(expected, abs=1e-12)
        theirs.append(expected)
    assert_written(numbers(row.here), theirs)


@checks_row("MediaEval, valence and arousal")
def check_valence_and_arousal(ws: TypingWorkspace, row: Row) -> None:
    case = golden_case("audits", "mediaeval.json")
    low, high, accuracy, n_clips = numbers(row.here)
    of_scores = case["thresholds"]["cases"]
    classes = write_affect_run(ws, [score for score, _ in of_scores])
    assert classes == [expected for _, expected in of_scores]
    for score, expected in of_scores:
        assert expected == (score > float(high)) - (score < float(low))
    affect = case["affect_accuracy"]
    write_affect_run(ws, affect["y_pred"])
    lines = ["id\tname\tvalenceClass\tarousalClass"]
    for number, value in enumerate(affect["y_true"]):
        lines.append(f"{number}\tACCEDE{number:05d}.mp4\t{value}\t{value}")
    ws.write("annotations/ACCEDEaffect.txt", "\n".join(lines) + "\n")
    ws("manifest import annotations --as liris-accede -o accede")
    document = ws("audit mediaeval affect.txt --manifest accede --json").json()
    for measure in ("valence", "arousal"):
        assert document[measure]["accuracy"] == affect["accuracy"]
        assert document[measure]["confusion"] == affect["confusion_rows_true"]
    assert_written([accuracy, n_clips], [affect["accuracy"], len(affect["y_true"])])


@checks_row("MediaEval, runs")
def check_runs(ws: TypingWorkspace, row: Row) -> None:
    most = int(printed("section 5", "runs", "most a subtask", "mediaeval"))
    (too_many,) = map(int, numbers(row.here))
    assert too_many == most + 1
    ws.write("violence.qrels", "violence 0 ACCEDE00001.mp4 1\n")
    runs = ""
    for number in range(too_many):
        ws.write(f"run{number}.txt", "violence Q0 ACCEDE00001.mp4 1 0.5 t\n")
        runs += f" run{number}.txt"
    words = "audit mediaeval --qrels violence.qrels"
    text = ws(f"{words}{runs}").text
    assert f"expected at most {most} runs, got {too_many}" in text
    without_first = runs.removeprefix(" run0.txt")
    text = ws(f"{words}{without_first}").text
    assert "at most" not in text
    assert "must be made without external data" in text


def write_affect_run(ws: TypingWorkspace, scores: Sequence[float]) -> list[int]:
    rows = []
    for number, score in enumerate(scores):
        name = f"ACCEDE{number:05d}.mp4"
        rows.append({"clip_id": name, "valence": score, "arousal": score})
    ws.write_table("scores.csv", rows)
    ws("audit mediaeval --write affect.txt --affect scores.csv --force")
    classes = []
    for line in ws.read("affect.txt").splitlines():
        _, valence, arousal = line.split()
        assert valence == arousal
        classes.append(int(valence))
    return classes
