"""Story 51: every number that is printed of a run is a cell of results.csv, and tables add up."""

import math
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest
from golden import experiments
from golden.doors import Place

import obygaze as og

pytestmark = pytest.mark.check("runs of five golden tables, half a minute")

Row = dict[str, str]
BASELINES = ("random", "all_positive", "prevalence", "film_prior", "neighbour")
SECTIONS = ("results", "differences", "films", "paper")
# A printed number: 12, .87, -.05, 1.00, 1,920 or <.001.
NUMBER = re.compile(r"<?[-−]?(?:\d[\d,]*)?\.?\d+")
P = re.compile(r"p (?:= )?(<?\.\d+)")
VALUE_WITH_INTERVAL = re.compile(
    r"([-−]?\d?\.\d+) \[([-−]?\d?\.\d+), ([-−]?\d?\.\d+)\]"
)
# Each is a run of a golden table: its stores, and what is changed.
RUNS = {
    "one": ("honest", experiments.SEEN, ()),
    "several": ("honest-negatives", experiments.SEEN, ()),
    "joined": ("honest", experiments.SENSES, ("data.view=raw",)),
    "frames": ("honest-frames", {"frames": "frames"}, ()),
    "few": (
        "honest",
        experiments.SEEN,
        ("data.where=movie_id != tt0212338 and movie_id != tt0467406",),
    ),
}


@dataclass
class Cell:
    section: str
    label: str
    row: int
    columns: list[str]
    texts: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """The cells of the tables of a page, its first screen, and the texts of its figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[Cell] = []
        self.header = ""
        self.figures: list[str] = []
        self._section = ""
        self._tags: list[str] = []
        self._cell: Cell | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        found = dict(attrs)
        self._tags.append(tag)
        if tag == "section":
            self._section = (found.get("id") or "").partition("-")[0]
        if tag == "td":
            row = int(found.get("data-row") or 0)
            columns = (found.get("data-columns") or "").split()
            label = found.get("data-label") or ""
            self._cell = Cell(self._section, label, row, columns)
            self.cells.append(self._cell)

    def handle_endtag(self, tag) -> None:
        while self._tags and self._tags.pop() != tag:
            pass
        if tag == "td":
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.texts.append(data)
        if "text" in self._tags:
            self.figures.append(data)
        elif "header" in self._tags:
            self.header += data


def is_of(printed: str, cell: str) -> bool:
    """Return whether a printed number is a cell, rounded to the decimals that are printed."""
    if printed.startswith("<"):
        return 0 <= float(cell) < float(printed[1:])
    text = printed.replace("−", "-").replace(",", "")
    decimals = len(text.partition(".")[2])
    return cell != "" and abs(float(text) - float(cell)) <= 0.501 * 10**-decimals


def looked_up(page: Page, rows: list[Row]) -> tuple[int, list[Cell]]:
    """Return how many printed numbers are their cell of results.csv, and the others."""
    n_found = 0
    missing = []
    for cell in page.cells:
        text = " ".join(cell.texts)
        printed = NUMBER.findall(text)
        if cell.section not in SECTIONS or not printed or cell.label == "id":
            continue
        cells = [rows[cell.row - 1][column] for column in cell.columns if cell.row]
        shown = [one for one in cells if one]
        if cell.columns[:1] == ["films_better"] and len(printed) == 2:
            shown = shown[:2]
        if len(printed) == len(shown) and all(map(is_of, printed, shown)):
            n_found += len(printed)
        # A name with a digit, such as F1, is no number of results.csv.
        elif cell.row or not re.search(r"[^\W\d]", text):
            missing.append(cell)
    return n_found, missing


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Place:
    place = Place(tmp_path_factory.mktemp("adds-up"))
    experiments.make_films(place)
    for name, (protocol, stores, changes) in RUNS.items():
        experiments.run_protocol(
            place, protocol, "films", stores, output=name, tasks=(), changes=changes
        )
        place(f"report {name}")
    return place


@pytest.mark.parametrize("name", RUNS)
def test_every_number_of_a_page_is_its_cell(runs: Place, name: str, capsys) -> None:
    rows = runs.read_table(f"runs/{name}/results.csv")
    page = Page(runs.path(f"runs/{name}/report.html").read_text("utf-8"))
    n_found, missing = looked_up(page, rows)
    print(f"{name}: {n_found} numbers looked up, {len(missing)} missing")
    assert missing == []
    assert n_found > 20
    # The p of the sentences, and the values beside the rows of figures.
    for printed in P.findall(page.header):
        assert any(row["p"] and is_of(printed, row["p"]) for row in rows), printed
    for text in page.figures:
        for three in VALUE_WITH_INTERVAL.findall(text):
            assert any(
                all(map(is_of, three, (row["value"], row["low"], row["high"])))
                for row in rows
                if row["low"]
            ), text


@pytest.mark.parametrize("name", RUNS)
def test_the_terminal_and_latex_have_the_same_numbers(runs: Place, name: str) -> None:
    rows = runs.read_table(f"runs/{name}/results.csv")
    said = str(og.read_run(name, workspace=runs.folder))
    found = VALUE_WITH_INTERVAL.findall(said)
    for three in found:
        assert any(
            all(map(is_of, three, (row["value"], row["low"], row["high"])))
            for row in rows
            if row["low"]
        ), three
    assert found or name == "few"
    for printed in P.findall(said):
        assert any(row["p"] and is_of(printed, row["p"]) for row in rows), printed
    page = Page(runs.path(f"runs/{name}/report.html").read_text("utf-8"))
    for key in ("results", "differences"):
        path = runs.path(f"runs/{name}/tables/{key}.tex")
        of_page = []
        for cell in page.cells:
            if cell.section == key:
                of_page += NUMBER.findall(" ".join(cell.texts))
        of_file: list[str] = []
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                if line.endswith(r"\\") and "multicolumn" not in line:
                    plain = line.replace(r"\textless{}", "<").replace("{[}", "[")
                    of_file += NUMBER.findall(plain.replace("--", "–"))
        # The headers have no numbers, except for names of tasks and metrics such as F1.
        assert [one for one in of_file if one != "1"] == [
            one for one in of_page if one != "1"
        ]


@pytest.mark.parametrize("name", RUNS)
def test_what_looks_like_a_subtraction_is_one(runs: Place, name: str) -> None:
    rows = runs.read_table(f"runs/{name}/results.csv")
    n_differences = 0
    n_of_baselines = 0
    for row in rows:
        if row["first"]:
            n_differences += 1
            apart = float(row["first"]) - float(row["second"])
            assert math.isclose(apart, float(row["value"]), abs_tol=1e-12)
        # What is tested against a baseline is not the difference of two printed values.
        if row["against_model"] in BASELINES:
            n_of_baselines += 1
            assert not any(row[column] for column in ("value", "first", "second"))
    assert n_differences or len({row["model"] for row in rows}) == 1
    assert n_of_baselines
    page = Page(runs.path(f"runs/{name}/report.html").read_text("utf-8"))
    n_printed = 0
    of_table: dict[str, str] = {}
    for cell in page.cells:
        if cell.section == "differences":
            of_table[cell.label] = cell.texts[0] if cell.texts else ""
            if cell.label == "difference" and NUMBER.match(of_table["difference"]):
                first, second, apart = (
                    float(of_table[label].replace("−", "-"))
                    for label in ("of first", "of second", "difference")
                )
                assert abs(first - second - apart) < 0.0101
                n_printed += 1
    assert n_printed or not n_differences
    # A table of models has no column of differences.
    labels = {cell.label for cell in page.cells if cell.section == "results"}
    assert not any("difference" in label for label in labels)


def test_films_that_are_printed_are_those_that_a_reader_counts(runs: Place) -> None:
    n_counted = 0
    for name in RUNS:
        rows = runs.read_table(f"runs/{name}/results.csv")
        whole = [row for row in rows if row["films_compared"] and not row["film"]]
        for row in whole:
            key = ("train", "test", "store", "model", "metric", "against_model")
            films = [
                one
                for one in rows
                if one["film"] and all(one[part] == row[part] for part in key)
            ]
            counted = [one["films_better"] for one in films if one["films_better"]]
            if counted:
                n_counted += 1
                assert counted.count("1") == int(float(row["films_better"]))
    assert n_counted > 5
