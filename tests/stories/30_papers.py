"""Story 30: every row of the page of the papers, on the real files where they are, on golden cases
elsewhere; a row without data is listed with the reason, and no row disappears."""

import csv
import functools
import html
import itertools
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.metrics import f1_score
from support.cli import ROOT
from support.closed_form import blind_f1, cronbach
from support.data import golden, real_data
from support.film import rows_of_segments
from support.once import made_once
from support.published import CONCEPTS, SplitFile, split_file

import obygaze as og
from obygaze_features.manifest.vocabulary import canonical_concept
from stories.films import import_films
from stories.workspace import Answer, Workspace

PAGE = ROOT / "docs" / "papers.md"
PRINTED = ROOT / "tests" / "data" / "papers" / "printed.csv"
LEFT_OUT = "left out: "
# Rows whose values are computed from what the papers print: no command is typed.
FROM_PRINTED = "from the printed values"
# A row that is deleted, or its check, fails a test.
N_ROWS, N_CHECKED = 86, 52


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

    def names_a_command_of(self, typed: str) -> bool:
        commands = re.findall(r"`obygaze ([a-z0-9 -]+)`", self.commands)
        return any(re.search(rf"(?m)^{name}( |$)", typed) for name in commands)


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
    return printed_table(paper, place)[row][column]


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
    """A workspace that keeps the lines that were typed in it, and in the one it began with."""

    def __call__(self, line: str, *, code: int = 0, env=None) -> Answer:
        with self.path("typed.txt").open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")
        return super().__call__(line, code=code, env=env)


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
    published_tables()
    if not ws.path("splits").exists():
        begin_with(ws, import_annotations)


def stats_of(ws: TypingWorkspace, words: str = "obygaze12") -> str:
    begin_with_annotations(ws)
    return ws(f"manifest stats {words}").text


def counted(ws: TypingWorkspace, words: str = "obygaze12 --view visual") -> Any:
    begin_with_annotations(ws)
    return ws(f"manifest stats {words} --json").json()


def published_tables() -> tuple[Path, Path]:
    segments = real_data("mobygaze", "mobygaze_dataframe.no_subtitles.csv")
    return real_data("obygaze12", "ObyGaze12_thresh_02.csv"), segments


def import_annotations(ws: TypingWorkspace) -> None:
    table, segments = published_tables()
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
WITHOUT_BASELINES = f"{QUICK_MLP} --set grid.baselines=[]"


def begin_with_features(ws: TypingWorkspace) -> None:
    begin_with_annotations(ws)
    manifest = og.read_manifest("obygaze12", workspace=ws.folder)
    clips = [clip for clip in manifest if clip.video]
    X = np.random.default_rng(5).normal(size=(len(clips), 8)).astype(np.float32)
    X[[clip.level == "S" for clip in clips], :2] += 1.1
    X[[bool(clip.concepts) for clip in clips], 2:4] += 0.5
    np.savez(ws.path("made_up.npz"), clip_id=[clip.clip_id for clip in clips], X=X)
    for name, backbone in BACKBONES.items():
        line = "store import made_up.npz --array clip=X --manifest obygaze12"
        # Clips without a video have no features: exit code 3.
        ws(f"{line} --backbone {backbone} -o {name}", code=3)


def begin_with_run(ws, protocol: str, stores: str, options: str) -> None:
    published_tables()
    begin_with(ws, run_protocol, protocol, stores, options)


def run_protocol(ws: TypingWorkspace, protocol: str, stores: str, options: str) -> None:
    begin_with(ws, begin_with_features)
    of_stores = " ".join(f"--store {name}={name}" for name in stores.split())
    ws(f"run {protocol} --manifest obygaze12 {of_stores} -o run {options}")


def begin_with_table_2(ws: TypingWorkspace) -> None:
    names = '["random", "all_positive", "neighbour"]'
    baselines = f"--set 'grid.baselines={names}'"
    options = f"{QUICK_MLP} {baselines}"
    begin_with_run(ws, "paper-table2", "X-CLIP ViViT", options)


def report_text(ws: TypingWorkspace) -> str:
    ws("report run -o page.html")
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", " ", ws.read("page.html"))
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


POSITIVE_LEVELS = ("HN", "NS", "S")


# ---- the test of all rows ----------------------------------------------------------------------


def test_no_row_disappears() -> None:
    rows = {row.name: row for row in rows_of_page()}
    assert len(rows) == len(rows_of_page()) == N_ROWS
    assert CHECKS.keys() <= rows.keys()
    # The page says why a row that no function checks has no value of this program.
    without_check = [row for name, row in rows.items() if name not in CHECKS]
    assert len(without_check) == N_ROWS - N_CHECKED
    assert all(row.here.startswith(FROM_PRINTED) or row.reason for row in without_check)


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
def test_row(found: Row, tmp_path: Path) -> None:
    print(f"{found.name}: {found.here}; in the paper: {found.paper}")
    if found.name in CHECKS:
        papers = TypingWorkspace(tmp_path / "papers")
        CHECKS[found.name](papers, found)
        assert found.names_a_command_of(papers.read("typed.txt"))
        assert not found.here.startswith(FROM_PRINTED)
    if found.is_left_out:
        pytest.skip(found.reason)
    if found.here.startswith(FROM_PRINTED):
        pytest.skip(f"{FROM_PRINTED}, without this program")


# ---- ObyGaze12 ---------------------------------------------------------------------------------


@checks_row("Clips and films")
def check_clips_and_films(ws: TypingWorkspace, row: Row) -> None:
    found = counted(ws)
    assert_written(numbers(row.here), [found["clips"], found["n_films"]])
    assert row.here == row.paper


@checks_row("Share of MovieGraphs")
def check_share_of_movie_graphs(ws: TypingWorkspace, row: Row) -> None:
    found = counted(ws)
    of_clips, n_clips, of_films, n_films = map(float, numbers_of_cell(row.here))
    of_paper = printed_table("obygaze12", "section 3.2")["MovieGraphs"]
    assert [n_clips, n_films] == [
        float(number_of(of_paper[name])) for name in ("clips", "films")
    ]
    shares = [100 * found["clips"] / n_clips, 100 * found["n_films"] / n_films]
    assert_written([str(of_clips), str(of_films)], shares)
    # One of the two shares of the text is that of the clips, the other that of the films.
    of_text = [
        printed(place, "data set", "share of MovieGraphs").strip("%")
        for place in ("section 3.2", "section 7.1")
    ]
    assert [int(of_clips), int(of_films)] == [int(share) for share in of_text]


@checks_row("Lengths of clips")
def check_lengths_of_clips(ws: TypingWorkspace, row: Row) -> None:
    counts = counted(ws)["clips_by_film"].values()
    assert_written(numbers(row.here), [min(counts), max(counts)])
    least = number_of(printed("section 3.2", "MovieGraphs", "clips a film"))
    assert min(counts) > least


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
    levels = counted(ws)["levels"]
    ws(f"run paper-baselines --manifest obygaze12 -o baselines {QUICK}")
    negatives = {"EN_S": levels["EN"], "ENHN_S": levels["EN"] + levels["HN"]}
    shares = {task: levels["S"] / (levels["S"] + n) for task, n in negatives.items()}
    here = numbers(row.here)
    cells = itertools.product(shares, ("random", "all_positive"))
    for place, (task, model) in enumerate(cells):
        by_closed_form = blind_f1(shares[task], 0.5 if model == "random" else 1.0)[:2]
        values = values_of_cell(ws, "baselines", task, task, model)
        both = (values["f1_binary"], values["f1_weighted"])
        shown = [two_digits(one["value"]) for one in both]
        assert shown == [here[place], here[4 + place]]
        assert_written(shown, by_closed_form)
        of_paper = [two_digits(one["paper"]) for one in both]
        assert of_paper == [numbers(row.paper)[n] for n in (place, 4 + place)]
        # The paper's shares of positive clips are a little smaller.
        assert (
            np.abs(np.subtract([*map(float, of_paper)], by_closed_form)).max() < 0.013
        )
    assert_written(here[8:], [100 * share for share in shares.values()])


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
    return values


def two_digits(number: str) -> str:
    """Return a number as the papers print it, such as .71."""
    return f"{float(number):.2f}".removeprefix("0")


def clips_of(table: SplitFile, *folds: int) -> set[str]:
    with_video = itertools.compress(table.ids, table.has_video)
    return set(with_video) & set(table.in_folds(*folds))


@checks_row("Table 2, hard negatives")
def check_hard_negatives(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    tested = clips_of(split_file("02_ENHN_S.csv"), 9)
    of_sure, of_tested, of_easy, *of_common = numbers(row.here)
    assert int(of_tested) == len(tested)
    # On common folds nothing leaks.
    common = ""
    for task in ("EN_S", "HN_S", "ENHN_S"):
        common += f""" --set 'tasks.{task}.folds="02_EN_HN_S"'"""
    ws(
        "run paper-table2 --manifest obygaze12 --store X-CLIP=X-CLIP -o common"
        f"{common} {QUICK_MLP} --set grid.baselines=[]"
    )
    shown = zip(("HN_S", "EN_S"), (of_sure, of_easy), of_common, strict=True)
    for train, n_by_page, n_common in shown:
        used = clips_of(split_file(f"02_{train}.csv"), *range(9))
        assert len(tested & used) == int(n_by_page)
        values = values_of_cell(ws, "run", train, "ENHN_S", "mlp", "X-CLIP")
        assert values["f1_weighted"]["leaked"] == n_by_page
        values = values_of_cell(ws, "common", train, "ENHN_S", "mlp")
        assert values["f1_weighted"]["leaked"] == n_common == "0"
    # The printed values of the claim are those of the rows of the models.
    of_model = {row.name: row for row in rows_of_page()}["Table 2, X-CLIP"].paper
    means = numbers(re.sub(r"\(.*?\)", "", of_model))
    easy_easy, hard_easy, easy_all, hard_all = means[:4]
    assert numbers(row.paper)[:4] == [hard_all, easy_all, hard_easy, easy_easy]


# How many runs the released code has for each cell.
N_RUNS = 8


@checks_row("Table 2, positive clips")
def check_positive_clips(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    written = numbers(row.here)
    shares = []
    of_metrics: dict[str, list[float]] = {"f1_binary": [], "f1_weighted": []}
    for task in ("EN_S", "ENHN_S"):
        table = split_file(f"02_{task}.csv")
        shares.append(table.y[table.has_video & (table.folds == 9)].mean())
        for model, called in (("random", 0.5), ("all_positive", 1.0)):
            values = values_of_cell(ws, "run", "EN_S", task, model)
            expected = blind_f1(shares[-1], called)
            for metric, value in zip(of_metrics, expected, strict=False):
                assert float(values[metric]["value"]) == pytest.approx(value)
                of_metrics[metric].append(value)
    values_of_page = [*of_metrics["f1_binary"], *of_metrics["f1_weighted"]]
    assert_written(written, [*(100 * np.array(shares)), *values_of_page])


@checks_row("Table 2, without video")
def check_without_video(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    rows = pd.read_csv(ws.path("runs/run/predictions.csv"))
    tested = rows["train"].eq("EN_S") & rows["test"].eq("EN_S")
    runs = rows[tested & rows["model"].eq("neighbour")].groupby("fold")
    values = [
        f1_score(run["y"], run["decision"], average="weighted") for _, run in runs
    ]
    assert len(values) == N_RUNS
    (shown,) = numbers(row.here)
    assert_written([shown], [np.mean(values)])
    leaked = []
    for train, test in CELLS:
        of_cell = values_of_cell(ws, "run", train, test, "neighbour")
        leaked.append(of_cell["f1_weighted"]["leaked"] != "0")
    assert leaked == [False, True, True, True]


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
    n_folds, n_runs = numbers(row.here)
    assert int(n_runs) == N_RUNS
    assert n_folds == printed("section 8.1", "protocol", "folds")
    for name in ("02_EN_S", "02_HN_S", "02_ENHN_S"):
        assert len({*split_file(f"{name}.csv").folds.tolist()}) == int(n_folds)
    for train, test in CELLS:
        values = values_of_cell(ws, "run", train, test, "mlp", "X-CLIP")
        assert values["f1_weighted"]["fits"] == n_runs


@checks_row("Table 2, standard deviations")
def check_standard_deviations(ws: TypingWorkspace, row: Row) -> None:
    begin_with_table_2(ws)
    table = report_text(ws).partition("F1 weighted of this run and of the paper ")[2]
    of_model = table.partition("mlp (X-CLIP) ")[2].partition("mlp (ViViT)")[0]
    rows = pd.read_csv(ws.path("runs/run/predictions.csv"))
    rows = rows[(rows["model"] == "mlp") & (rows["store"] == "X-CLIP")]
    n_runs, *n_tested = [int(number) for number in numbers(row.here)]
    counts = {}
    for (train, test), of_cell in rows.groupby(["train", "test"]):
        runs = of_cell.groupby("fold")
        values = [
            f1_score(one["y"], one["decision"], average="weighted") for _, one in runs
        ]
        counts[test] = of_cell["clip_id"].nunique()
        assert len(values) == n_runs
        assert len(of_cell) == n_runs * counts[test]
        shown = re.search(rf"{train} {test} (\d?\.\d\d) \((\d?\.\d\d)\)", of_model)
        assert shown is not None, of_model
        assert_written(shown.groups(), [np.mean(values), np.std(values, ddof=1)])
    assert n_tested == [counts["ENHN_S"], counts["EN_S"]]
    deviations = []
    for one in rows_of_page():
        if one.name in ("Table 2, ViViT", "Table 2, X-CLIP"):
            deviations += re.findall(r"\((\.\d\d)\)", one.paper)
    assert numbers(row.paper)[:2] == [min(deviations), max(deviations)]


@checks_row("Table 3")
def check_table_3(ws: TypingWorkspace, row: Row) -> None:
    films = counted(ws)["by_film"]
    done = ws("manifest stats obygaze12")
    (ours,) = re.findall(r"Pulp Fiction: ([\w, ]+) in the list", row.here)
    (theirs,) = re.findall(r"Pulp Fiction: ([\w, ]+)$", row.paper)
    path = real_data("mobygaze", "mobygaze_movielist.csv")
    listed = pd.read_csv(path, sep=";", encoding="utf-8-sig").set_index("imdb_key")
    genres = listed["genre"].to_dict()
    for film in films:
        # One film is not in the list of MObyGaze.
        genre = genres.get(film, "Comedy, Romantic")
        assert re.search(rf"(?m)^{film} .+{genre}$", done.out)
    assert films.keys() - genres.keys() == {"tt0212338"}
    assert genres["tt0110912"] == ours
    source = "genres of Pulp Fiction in Table 3 of the paper of ObyGaze12"
    assert f"{source}: {theirs} " in done.text
    assert numbers(row.here) == numbers(row.paper) == [str(len(films))]


@checks_row("Table 3, years")
def check_years(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws)
    films = re.findall(r"([A-Z][^;]+?) (\d{4})(?:, |;)", row.here)
    of_table = printed_table("obygaze12", "Table 3").values()
    years = [year for _, year in films]
    assert years == numbers(row.paper) == [cells["year"] for cells in of_table]
    assert all(f"{title} {year} " in text for title, year in films)


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
    begin_with_run(ws, "paper-table4", "X-CLIP", WITHOUT_BASELINES)
    table = pd.read_csv(ws.path("runs/run/results.csv"), keep_default_na=False)
    of_films = table["film"].ne("") & table["against_model"].eq("")
    fits = table[of_films & table["metric"].eq("f1_weighted")].groupby("film")["fits"]
    n_films, n_runs = numbers(row.here)
    assert len(fits) == int(n_films)
    assert {*fits.last()} == {int(n_runs)}
    assert printed("section 8.3", "unseen films", "validation films") == n_runs
    of_paper = printed_table("obygaze12", "Table 4")
    mean = of_paper.pop("Average")["F1"]
    assert_written([mean], [np.mean([float(one["F1"]) for one in of_paper.values()])])


@checks_row("Figure 2")
def check_figure_2(ws: TypingWorkspace, row: Row) -> None:
    found = counted(ws, "obygaze12 --view visual --figure figure2")
    assert ws.path("figure2.png").exists()
    drawn = " ".join(re.findall(r"<text[^>]*>([^<]*)", ws.read("figure2.svg")))
    levels, concepts = found["levels"], found["concepts"]
    of_levels, of_concepts = row.here.split("; ")
    for level, share in re.findall(r"(EN|HN|NS|S) (\d+) %", of_levels):
        assert_written([share], [100 * found["share"][level]])
        assert f"{level} {levels[level]} {share} %" in drawn
    text = stats_of(ws, "obygaze12 --view visual")
    for concept in CONCEPTS:
        (shares,) = re.findall(rf"{concept} ([\d. ]+\d)", of_concepts)
        counts = [concepts[level][concept] for level in POSITIVE_LEVELS]
        n_clips = [levels[level] for level in POSITIVE_LEVELS]
        assert_written(shares.split(), 100 * np.divide(counts, n_clips))
        assert f"{concept} 0 {' '.join(map(str, counts))} " in text
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
    begin_with_run(ws, "paper-fig6", "X-CLIP", WITHOUT_BASELINES)
    factors = pd.read_csv(ws.path("runs/run/success.csv")).set_index("factor")
    table = split_file("by_movie/ENHN_S.csv")
    counts = []
    # As Good as It Gets, Marley & Me, and Up in the Air.
    for film in ("tt0119822", "tt0822832", "tt1193138"):
        counts.append((table.has_video & (np.array(table.films) == film)).sum())
        of_film = factors[factors["film"] == film]
        assert {*of_film["all_clips"]} == {counts[-1]}
        # The factors of the paper: eight concepts and three levels.
        assert str(len(of_film)) == printed("section 9.2", "errors", "factors")
    assert_written(numbers(row.here), counts)
    of_all = factors[factors["film"] == "all films"].loc[[*CONCEPTS]]
    assert (of_all["clips"] > 0).all() and np.isfinite(of_all["log_odds"]).all()


@checks_row("Levels", "Levels without NS")
def check_levels(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws, "obygaze12 --view visual")
    counts = counted(ws)["levels"]
    place, column, of_paper = "section 3.4", "share", ["EN", "S"]
    if row.name == "Levels without NS":
        del counts["NS"]
        place, column, of_paper = "section 4.1", "share without NS", [*counts]
    written = numbers(row.here)
    shares = [100 * count / sum(counts.values()) for count in counts.values()]
    assert_written(written, shares)
    for (level, count), share in zip(counts.items(), written, strict=True):
        shown = f"{level} {count} {share} %"
        assert (shown if "NS" in counts else f"{level} {count} ") in text
        if level in of_paper:
            of_text = printed(place, f"level {level}", column)
            assert agrees(of_text.strip("%"), float(share))


@checks_row("Levels, the least frequent")
def check_least_frequent_level(ws: TypingWorkspace, row: Row) -> None:
    least, hard, sure, raw, share = numbers(row.here)
    levels = counted(ws)["levels"]
    assert_written([least, hard, sure], [levels[name] for name in ("NS", "HN", "S")])
    assert min(levels, key=levels.get) == "NS"
    levels = counted(ws, "obygaze12 --view raw")["levels"]
    assert_written(
        [raw, share], [levels["S"], 100 * levels["S"] / sum(levels.values())]
    )
    assert min(levels, key=levels.get) == "S"
    of_text = printed("section 3.4", "level S", "share")
    assert row.paper == f"S, with {of_text.strip('%')} %"
    assert not agrees(of_text.strip("%"), float(share))


@checks_row("Concepts a clip")
def check_concepts_a_clip(ws: TypingWorkspace, row: Row) -> None:
    found = counted(ws)
    text = ws("audit levels obygaze12").text
    for level, mean in zip(POSITIVE_LEVELS, numbers(row.here), strict=True):
        assert f"all annotators {level} {found['levels'][level]} {mean} " in text
        of_text = printed("section 3.4", f"level {level}", "concepts a clip")
        assert_written([mean, of_text], [found["concepts_per_clip"][level]] * 2)


@checks_row("Concepts rise with the level")
def check_rise(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    words = "audit levels mobygaze --view visual"
    n_rising, n_annotators, *means, largest_p = numbers(row.here)
    found = ws(f"{words} --json").json()
    _, *people = found["annotators"]
    assert_written(means, [one["mean"] for each in people for one in each["levels"]])
    assert_written([largest_p], [found["p"]])
    text = ws(words).text
    assert f"from HN to NS to S for {n_rising} of {n_annotators} annotators" in text
    assert f"this is not shown (p = 0{largest_p}, the largest p of a step)" in text


@checks_row("Concepts at the same rate")
def check_same_rate(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    text = ws("audit annotations obygaze12 'level == S' 'level == HN'").text
    sure, hard = numbers(row.here)
    assert f"Type of shot: {sure} % of X, {hard} % of Y, two-sided p < .0001" in text
    assert "clips are exchanged within films" in row.here
    assert "clips are exchanged as independent of each other: the times" in text


def golden_case(*parts: str) -> Any:
    return json.loads(golden(*parts).read_text(encoding="utf-8"))


def project_by_command(ws: TypingWorkspace, case: Any) -> Any:
    marks = []
    for annotator, marked in case["annotators"].items():
        for start, end, level, concepts in marked:
            said = {"level": level, "concepts": "|".join(concepts)}
            frames = frames_of_film(start, end)
            marks.append({"annotator": annotator, **said, **frames})
    ws.write_table("segments.csv", rows_of_segments(marks))
    ws.write_table("clips.csv", clips_of_film(case["clips"]))
    words = "marks clips segments.csv --clips clips.csv -o projected --force"
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
    ws.write_table("segments.csv", rows_of_segments(marks))
    ws.write_table("clips.csv", clips)
    ws("marks clips segments.csv --clips clips.csv -o agreed --force")
    rows: list[dict[str, Any]] = ws("agree agreed --json").json()["rows"]
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
    counts = []
    for threshold in ("0.1", "0.4"):
        words = "marks clips mobygaze --every 30 -o labels --force"
        ws(f"{words} --threshold {threshold}")
        counts.append(
            Counter(o["level"] for o in ws.read_table("manifests/labels.csv"))
        )
        assert counts[-1].total() == int(n_clips)
    change = {level: counts[1][level] - counts[0][level] for level in counts[0]}
    assert_written(changes, [change["S"], change["NS"], change["HN"]])
    # Sure clips and unsure ones become fewer in the paper too.
    of_paper = dict(re.findall(r"(S|NS|EN) ([+-])\d+", row.paper))
    assert of_paper == {"S": "-", "NS": "-", "EN": "+"}
    assert change["S"] < 0 and change["NS"] < 0 < change["EN"]


@checks_row("Agreement")
def check_agreement(ws: TypingWorkspace, row: Row) -> None:
    case = golden_case("projection", "g12_gamma_by_hand.json")
    spans = [(100 * number, 100 * number + 99) for number in range(len(case["u"]))]
    marks = []
    for annotator in ("u", "v"):
        for span, level in zip(spans, case[annotator], strict=True):
            mark = {"annotator": annotator, "level": level, "concepts": ""}
            marks.append(mark | frames_of_film(*span))
    means = means_of_films(agreed(ws, marks, clips_of_film(spans)))
    expected = case["expect"]
    for null, of_null in expected["all"].items():
        assert means["all"][f"gamma_{null}"] == pytest.approx(
            of_null["gamma"], abs=1e-9
        )
    without_ns = expected["without_NS"]["uniform"]["gamma"]
    ours = means["without NS"]["gamma_uniform"]
    assert ours == pytest.approx(without_ns, abs=1e-9)
    begin_with(ws, agree_on_mobygaze)
    means = means_of_films(json.loads(ws.read("agreed.json"))["rows"])
    gammas = [means[words]["gamma_uniform"] for words in ("all", "without NS")]
    assert_written(numbers(row.here)[:2], gammas)


def agree_on_mobygaze(ws: TypingWorkspace) -> None:
    begin_with_annotations(ws)
    ws("marks clips mobygaze --every 30 -o mobygaze-30")
    ws.write("agreed.json", ws("agree mobygaze-30 --json").out)


def means_of_films(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["words"]: row for row in rows if row["film"] == "mean of films"}


@checks_row("Agreement, random sequences")
def check_random_sequences(ws: TypingWorkspace, row: Row) -> None:
    begin_with(ws, agree_on_mobygaze)
    found = means_of_films(json.loads(ws.read("agreed.json"))["rows"])["all"]
    n_clips, _, of_all, without_ns = numbers(row.here)
    assert_written([n_clips], [found["items"]])
    # The disorder by chance is the mean over all pairs of levels, as random sequences approach it.
    distances = np.array(distances_of_paper())
    of_kept = distances[np.ix_([0, 1, 3], [0, 1, 3])]
    assert_written([of_all, without_ns], [distances.mean(), of_kept.mean()])
    by_chance = (1 - found["equal"]) / (1 - found["gamma_uniform"])
    assert by_chance > 0


def distances_of_paper() -> list[list[float]]:
    cells = printed_table("obygaze12", "equation 2")
    levels = ("EN", *POSITIVE_LEVELS)
    return [[float(cells[one][other]) for other in levels] for one in levels]


@checks_row("Agreement, distances")
def check_distances(ws: TypingWorkspace, row: Row) -> None:
    marks = []
    clips = []
    for first, second in itertools.product(("EN", *POSITIVE_LEVELS), repeat=2):
        film = frames_of_film(0, 99) | {"movie_id": f"{first}-{second}"}
        clips.append(film | {"clip_id": film["movie_id"]})
        for annotator, level in (("u", first), ("v", second)):
            said = {"annotator": annotator, "level": level, "concepts": ""}
            marks.append(film | said)
    rows = [one for one in agreed(ws, marks, clips) if one["words"] == "all"]
    by_film = {one["film"]: (1 - one["gamma_uniform"]) * 0.425 for one in rows}
    ours = [by_film[clip["movie_id"]] for clip in clips]
    assert ours == pytest.approx(np.ravel(distances_of_paper()))
    assert_written(numbers(row.here), ours)


@checks_row("Agreement, pairs")
def check_pairs(ws: TypingWorkspace, row: Row) -> None:
    facts = printed_table("obygaze12", "section 3.3")["annotation"]
    n_common, n_others, n_annotators = (
        int(number_of(facts[name]))
        for name in ("common films", "other films", "annotators")
    )
    marks = []
    clips = []
    for number in range(n_common + n_others):
        film = frames_of_film(0, 99) | {"movie_id": f"film{number}"}
        clips.append(film | {"clip_id": f"film{number}-001"})
        for annotator in range(n_annotators if number < n_common else 2):
            said = {"annotator": f"coder{annotator}", "level": "S", "concepts": "Look"}
            marks.append(film | said)
    films = {clip["movie_id"] for clip in clips}
    pairs = [one for one in agreed(ws, marks, clips) if one["film"] in films]
    written = list(map(int, numbers(row.here)))
    assert written == [len(pairs), math.comb(n_annotators, 2), n_common, 4, 1, n_others]


@checks_row("Published splits")
def check_published_splits(ws: TypingWorkspace, row: Row) -> None:
    text = stats_of(ws)
    names = ["02_EN_S", "02_HN_S", "02_ENHN_S", "02_EN_HN_S"]
    names += ["by_movie/HN_S", "by_movie/ENHN_S"]
    for name, size in zip(names, numbers(row.here), strict=True):
        table = split_file(f"{name}.csv")
        assert len(table.ids) == int(size)
        n_folds = 12 if "/" in name else 10
        assert len({*table.folds.tolist()}) == n_folds
        assert f"{name.replace('/', '_')} {n_folds} {size} " in text


@checks_row("Groups of concepts")
def check_groups(ws: TypingWorkspace, row: Row) -> None:
    begin_with_annotations(ws)
    ws("manifest group obygaze12 -o by-subconstruct")
    of_level = counted(ws, "by-subconstruct --view visual")["concepts"]
    counts = [of_level[level]["male gaze"] for level in POSITIVE_LEVELS]
    assert_written(numbers(row.here), [sum(counts), counts[-1]])


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
    words = {"anger": "an angry", "sadness": "a sad", "happiness": "a happy"}
    expected = {one: [f"a photo of {words[one]} person"] for one in words}
    assert embedded_texts(ws, "wolfe2023-maps") == expected
    assert len(expected) == int(n_texts)
    import_films(ws, "harbour", "lake")
    ws(
        "extract run films -b tiny-xclip --weights tiny-xclip=weights"
        " --arrays pooled,tokens --store tiny-xclip=tokens --workers 1"
    )
    ws("explain concepts tokens films -o maps")
    conditions = []
    heads = []
    for place in range(8):
        clip = {"clip_id": f"harbour-{place + 1:03d}"}
        conditions.append({**clip, "condition": "ab"[place % 2], "pair": place // 2})
        heads.append({**clip, "x0": 0.5, "y0": 0, "x1": 1, "y1": 0.5})
    ws.write_table("conditions.csv", conditions)
    ws.write_table("heads.csv", heads)
    line = "audit maps maps conditions.csv --boxes heads.csv --figure means"
    document = ws(f"{line} --json").json()
    assert ws.path("means.png").exists()
    assert document["exchanged"] == "the clips of each pair"
    of_direction = document["directions"][0]
    assert of_direction["method"] == "exact"
    # A share of all exchanges, of which the opposite one is as far.
    n_as_far = of_direction["p"] * int(n_exchanges)
    assert n_as_far == pytest.approx(round(n_as_far)) and round(n_as_far) % 2 == 0


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
    lists = golden_case("audits", "captions.json")["word_lists"].values()
    totals: Counter[str] = Counter()
    for path in folder.glob("*.txt"):
        text = path.read_text(encoding="utf-8").lower()
        totals.update(re.sub(r"[.,]", "", text).split())
    counts = [totals[word] for word in {*itertools.chain(*lists)}]
    n_frequent = sum(count >= 100 for count in totals.values())
    assert_written(numbers(row.here), [len(counts), min(counts), n_frequent, 100])
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
    prompts, pairs = "emotion", [(emotion, "person") for emotion in OF_TABLE_1]
    if place == "Table 2":
        prompts, pairs = "profession", [("sexual", one) for one in OF_TABLE_2]
    words = f"audit eat clips --x x.csv --y y.csv --text {prompts}.npz"
    for a, b in pairs:
        words += f" --attributes {a} {b}"
    text = ws(words).text
    assert "paper, CLIP ViT-B16" in text
    cells = printed_table("clip", place)
    for test in ws(f"{words} --json").json()["tests"]:
        columns = [OF_TABLE_2.get(test["b"], "")]
        if place == "Table 1":
            columns = [f"{OF_TABLE_1[test['a']]}, {how}" for how in ("high", "low")]
        expected = {model: [cells[model][one] for one in columns] for model in cells}
        found = test["paper"]["models"]
        assert {model: [*values] for model, values in found.items()} == expected
        ours = expected["CLIP ViT-B16"]
        shown = ours[0] if place == "Table 2" else f"{ours[0]} high, {ours[1]} low"
        assert f" {shown} " in text
    n_effects = sum(len(of_model) for of_model in cells.values())
    assert numbers(row.paper)[0] == str(n_effects)
    assert row.is_left_out


@checks_row("CLIP 5.4, two p")
def check_two_p(ws: TypingWorkspace, row: Row) -> None:
    of_models = printed_table("clip", "section 5.4")
    cells = [of_models[f"science, {name}"] for name in ("RN50", "RN50x4")]
    n_pictures = int(printed("section 4.4", "profession EAT", "X, pictures", "clip"))
    *written, first, second, n_vectors = numbers(row.here)
    effects = [float(cell["d"]) for cell in cells]
    assert effects == [float(first), float(second)]
    assert n_vectors == str(n_pictures)
    for effect, of_page in zip(effects, written, strict=True):
        p = 0.5 * math.erfc(effect * math.sqrt(n_pictures / 2) / math.sqrt(2))
        np.savez(ws.path("vectors.npz"), **vectors_of_effect(effect, n_pictures))
        text = ws("audit eat --vectors vectors.npz --tail greater").text
        assert f"d = +{effect:.2f}" in text
        (shown,) = re.findall(r"approximation of the greater p: (0\.\d+)\.", text)
        assert agrees(shown, p) and agrees(of_page, p)
    # The smaller effect has the larger p here, and the smaller one in the paper.
    assert written[0] < written[1] and cells[0]["p"] > cells[1]["p"]


def vectors_of_effect(effect: float, n: int) -> dict[str, npt.NDArray[np.float64]]:
    """Return vectors whose associations have this effect size: two groups of n, one shifted."""
    spread = np.linspace(-0.3, 0.3, n)
    # Of both groups the variance is that within them, and a quarter of the square of the shift.
    within = 2 * (spread**2).sum() / (2 * n - 1)
    shift = effect * math.sqrt(within / (1 - effect**2 * n / 2 / (2 * n - 1)))
    groups = {}
    for name, values in (("X", spread + shift), ("Y", spread)):
        # The cosine with A minus that with B is cos t - sin t.
        angles = np.arccos(values / np.sqrt(2)) - np.pi / 4
        groups[name] = np.column_stack([np.cos(angles), np.sin(angles)])
    return groups | {"A": np.eye(2)[:1], "B": np.eye(2)[1:]}


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
    man, woman, share = numbers(row.here)
    assert_written([man, woman, share], [*map(float, numbers(row.paper)[:3])])
    assert f"Mean score of 'man' 0{man}, of 'woman' 0{woman}" in text
    assert f"{share} % to man" in text


@checks_row("Gender Score, motivation")
def check_motivation(ws: TypingWorkspace, row: Row) -> None:
    distances = printed_table("gender_score", "motivation table")
    rows = []
    for thing, of_thing in distances.items():
        prior = {"lm_man": 0.1, "lm_woman": 0.1, "prob": 0}
        similarities = {"sim_man": of_thing["man"], "sim_woman": of_thing["woman"]}
        rows.append({"caption": f"a [MASK] with a {thing}"} | prior | similarities)
    ws.write_table("captions.csv", rows)
    document = ws("audit gender-score captions.csv --json").json()
    ours = []
    for one in document["rows"]:
        if one["gender"] == "woman":
            ours.append(one["caption"].removeprefix("a woman with a "))
    assert ours == [one for one in distances if nearer_to_woman(distances[one])]
    assert row.here.endswith(f"{len(ours)} objects: {', '.join(ours)}")


def nearer_to_woman(of_thing: dict[str, str]) -> bool:
    return float(of_thing["woman"]) > float(of_thing["man"])


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
    assert printed_shares(ws, captions) == of_paper
    n_ratios, man, woman = numbers(row.here)
    assert int(n_ratios) == 2 * len(of_paper)
    assert_written([man, woman], of_paper["Object Gender Co-Occ, AoANet"])
    assert numbers(row.paper) == [man, woman]
    # The ranges beside a user's own score are those of the Gender Score.
    write_file_of_page(ws, "motorcycle.csv")
    text = ws("audit gender-score motorcycle.csv").text
    scores = [of_paper[name] for name in of_paper if name.startswith("Gender Score, ")]
    men, women = map(shown_range, zip(*scores, strict=True))
    assert f"(Sabir and Padró): {men} and {women}." in text


def shown_range(shares: Sequence[float]) -> str:
    return f"{min(shares):.2f} to {max(shares):.2f}"


def printed_shares(ws: TypingWorkspace, captions: list[dict[str, str]]) -> Any:
    ws.write_table("captions.csv", captions)
    document = ws("audit cooc captions.csv objects --json").json()
    return {thing["thing"]: thing["printed"] for thing in document["things"]}


@checks_row("Objects and gender, things")
def check_shares_beside_things(ws: TypingWorkspace, row: Row) -> None:
    captions = []
    of_paper = {}
    impossible = {}
    beside: dict[str, list[list[float]]] = {}
    for name, cells in printed_table("gender_score", "object bias ratio table").items():
        for thing in ("skateboard", "kitchen", "motorcycle", "baseball"):
            both = [float(cells[f"{thing}, toward {who}"]) for who in ("men", "women")]
            if name.startswith("Object Gender Co-Occ, "):
                beside.setdefault(thing, []).append(both)
            if sum(both) > 1.005:
                impossible[f"{name}, {thing}"] = both
                continue
            of_paper[f"{name}, {thing}"] = both
            counts = counts_of_cut_shares(*(round(100 * share) for share in both))
            for gender, count in zip(("man", "woman"), counts, strict=True):
                caption = {"caption": f"a {gender}", "objects": f"{name}, {thing}"}
                captions += [caption] * count
    of_things = [{"caption": "a man", "objects": thing} for thing in beside]
    ours = printed_shares(ws, captions + of_things)
    assert {name: ours[name] for name in of_paper} == of_paper
    n_possible, n_pairs = map(int, numbers(row.here))
    assert (n_possible, n_pairs) == (len(of_paper), len(of_paper) + len(impossible))
    assert list(impossible) == ["Object Gender Co-Occ, Transformer, skateboard"]
    n_shares, *of_impossible = numbers(row.paper)
    assert int(n_shares) == 2 * n_pairs
    assert_written(of_impossible[:2], *impossible.values())
    # The ranges beside a user's own thing are those of the co-occurrences.
    text = ws("audit cooc captions.csv objects").text
    for shares in beside.values():
        assert " ".join(map(shown_range, zip(*shares, strict=True))) in text


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
    counts = Counter((o["objects"], o["gender"]) for o in ws.read_table("things.csv"))
    for thing in ("baseball bat", "cellular telephone", "wine bottle"):
        shown = f"{thing} {counts[thing, 'man']} {counts[thing, 'woman']}"
        assert shown in row.here
        assert f"{shown} " in text


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
    theirs = []
    for case in golden_case("audits", "mediaeval.json")["ap_cases"]:
        qrels, run = case["qrels"].items(), case["run"].items()
        judged = [f"violence 0 {name} {grade}\n" for name, grade in qrels]
        returned = [f"violence Q0 {name} 1 {score!r} t\n" for name, score in run]
        ws.write("violence.qrels", "".join(judged))
        ws.write("run.txt", "".join(returned))
        words = "audit mediaeval run.txt --qrels violence.qrels"
        document = ws(f"{words} --json").json()
        theirs.append(case["expected"]["ap_float32"])
        assert document["violence"]["ap_trec"] == pytest.approx(theirs[-1], abs=1e-12)
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
    rows = []
    for number, value in enumerate(affect["y_true"]):
        facts = {"id": number, "name": f"ACCEDE{number:05d}.mp4"}
        rows.append({**facts, "valenceClass": value, "arousalClass": value})
    ws.write_table("annotations/ACCEDEaffect.txt", rows, separator="\t")
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
