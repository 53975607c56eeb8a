"""The page: its first screen, its numbers, no external content, safe whatever names a run holds."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from support.run_tables import (
    FILMS,
    MadeCell,
    clips_of,
    difference_row,
    made_run,
    scores_for,
    write_run_json,
)

from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage
from obygaze_features.core.figures import COLORS
from obygaze_models.report.page import write_report
from obygaze_models.runner.files import Run

VOID = {"meta", "link", "img", "br", "hr"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>&\"' $_^$"
CLIPS = clips_of()
RIDGE = MadeCell("ridge", CLIPS, scores_for(CLIPS, 2.0, 1))
WEAK = MadeCell("mlp", CLIPS, scores_for(CLIPS, 0.0, 2))
GUESS = MadeCell(
    "neighbour", CLIPS, scores_for(CLIPS, 0.3, 3), is_model=False, store=""
)
DIFFERENCES = (
    difference_row(RIDGE, GUESS, 0.1, 0.4, 0.01),
    difference_row(WEAK, GUESS, -0.2, 0.1, 0.8),
)


class Page(HTMLParser):
    """Reads a page strictly: every tag closed in its order, every address noted."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append(tag)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name in ("src", "href", "action", "srcset", "data", "poster"):
                self.links.append(str(value))
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page_of(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return made_run(folder, [RIDGE, WEAK, GUESS], DIFFERENCES)


@pytest.fixture(scope="module")
def written(run: Run) -> list[Path]:
    return write_report([run.folder])


def test_a_report_computes_nothing_again(run: Run, written, tmp_path) -> None:
    computing = ("cells.py", "bootstrap.py", "film_tests.py", "group_tests.py")
    called = []

    def note(frame: Any, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if (
            event == "call"
            and path.parent.name == "evaluation"
            and path.name in computing
        ):
            called.append(frame.f_code.co_name)

    # `note` returns nothing, so that no line is traced.
    sys.settrace(note)
    try:
        write_report([run.folder], tmp_path / "again.html")
    finally:
        sys.settrace(None)
    assert called == []


def short(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def test_the_first_screen_has_question_answer_figure_and_limits(written) -> None:
    text = written[0].read_text("utf-8")
    first_screen = text[text.index("<header>") : text.index("</header>") + 9]
    words = Page(first_screen).words
    guess = "the classes of the nearest clips in the same film"
    assert f"ridge ranks clips better than {guess} (p = .010)." in words
    assert f"mlp is not shown to rank clips better than {guess} (p = .800)." in words
    assert f"{short(RIDGE.ap)} [" in words
    assert f"best baseline (neighbour) {short(GUESS.ap)} [" in words
    assert "better than neighbour, p = .010" in words
    assert "EN_S: easy negatives against sure" in words
    assert "96 clips of 8 films, manifest made-up, visual view" in words
    assert first_screen.count("<figure>") == 1
    assert "Before you cite this" in words


def test_each_film_is_a_dot_at_its_value_filled_where_it_beats_the_guess(written):
    (path,) = [path for path in written if path.name == "films-EN-S.svg"]
    root = ElementTree.parse(path).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    ticks = {}
    for item in root.iter(f"{svg}text"):
        if re.fullmatch(r"0|1|\.\d", item.text or ""):
            ticks[float(str(item.text))] = float(item.attrib["x"])
    slope = (ticks[1.0] - ticks[0.0]) / 1.0
    places: dict[str, list[float]] = {}
    for group in root.iter(f"{svg}g"):
        for dot in group.findall(f"{svg}use"):
            about = dot.findtext(f"{svg}title")
            if about is None:  # of the legend
                continue
            kind = kind_of_dot(group.attrib["style"], is_film="film" in about)
            place = (float(dot.attrib["x"]) - ticks[0.0]) / slope
            places.setdefault(kind, []).append(place)
    above = []
    below = []
    for film in FILMS:
        for cell in (RIDGE, WEAK):
            is_better = cell.ap_of(film) > GUESS.ap_of(film)
            (above if is_better else below).append(cell.ap_of(film))
    expected = {
        "film": above,
        "open film": below,
        "model": [RIDGE.ap, WEAK.ap],
        "guess": [GUESS.ap],
        "film of the guess": [GUESS.ap_of(film) for film in FILMS],
    }
    assert set(places) == set(expected)
    for kind, values in expected.items():
        np.testing.assert_allclose(sorted(places[kind]), sorted(values), atol=1e-4)


def kind_of_dot(style: str, *, is_film: bool) -> str:
    """Return what a dot is by how it looks."""
    if f"fill: {COLORS['baseline']}" in style:
        return "film of the guess" if is_film else "guess"
    if not is_film:
        return "model"
    return "open film" if "fill-opacity: 0;" in style else "film"


def test_page_is_well_formed_and_loads_nothing(written: list[Path]) -> None:
    page = page_of(written[0])
    assert not {"script", "iframe", "object", "form", "img"} & set(page.tags)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    # A figure may name an element of its own.
    assert not re.search(r"url\((?!#)|@import", written[0].read_text("utf-8"))
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("svg") == page.tags.count("figure") >= 1


def test_only_the_formats_that_are_asked_for_are_written(tmp_path: Path) -> None:
    made = made_run(tmp_path / "run", [RIDGE, GUESS])
    suffixes = {path.suffix for path in write_report([made.folder], formats=["csv"])}
    assert suffixes == {".csv"}
    suffixes = {
        path.suffix for path in write_report([made.folder], formats=["svg", "latex"])
    }
    assert suffixes == {".svg", ".tex"}
    (path,) = write_report([made.folder], formats=["png"])
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FixUsage, match="unknown format 'md'"):
        write_report([made.folder], formats=["md"])


def hostile_run(folder: Path) -> Run:
    clips = clips_of(films=(*FILMS[:5], HOSTILE))
    names = {"store": HOSTILE, "train": HOSTILE, "test": HOSTILE}
    cells = [
        MadeCell(HOSTILE, clips, scores_for(clips, 1.0, 1), **names),
        MadeCell("/../../..", clips, scores_for(clips, 1.0, 2), **names),
        MadeCell("..-..-..", clips, scores_for(clips, 1.0, 3), test="/../../evil"),
    ]
    vectors = {"store": HOSTILE, "train": HOSTILE, "concept": HOSTILE, "clips": 9}
    vectors |= {
        "films": 6,
        "positive": 3,
        "ap": 0.5,
        "low": 0.1,
        "high": 0.9,
        "p_holm": 0.01,
    }
    node = {"store": HOSTILE, "model": HOSTILE, "train": HOSTILE, "concept": HOSTILE}
    tree = [
        {
            **node,
            "node": 0,
            "left": 1,
            "right": 2,
            "threshold": 0.5,
            "clips": 9,
            "share": 0.5,
        },
        {**node, "node": 1, "clips": 4, "share": 0.1},
        {**node, "node": 2, "clips": 5, "share": 0.9},
    ]
    factor = {"task": HOSTILE, **names, "model": HOSTILE, "film": "all films"}
    factor |= {"factor": HOSTILE, "log_odds": 1.0, "clips": 9, "note": HOSTILE}
    tables = {
        "concepts.csv": [{**vectors, "model": HOSTILE, "weight": 1.0}],
        "trees.csv": tree,
        "success.csv": [{**factor, "all_clips": 9, "successes": 5}],
    }
    made = made_run(folder, cells, tables=tables)
    store = {"location": HOSTILE, "backbone": HOSTILE, "array": HOSTILE, "width": 4}
    store |= {"seal": HOSTILE, "licence": HOSTILE, "citation": HOSTILE}
    store |= {"missing": {HOSTILE: HOSTILE}}
    report = {**made.protocol["report"], "title": HOSTILE, "notes": [HOSTILE]}
    tasks = {HOSTILE: {**made.protocol["tasks"]["EN_S"], "title": HOSTILE}}
    tasks["/../../evil"] = {**tasks[HOSTILE], "row": HOSTILE, "series": HOSTILE}
    about = json.loads((folder / "run.json").read_bytes())
    about["protocol"] |= {"report": report, "tasks": tasks, "name": HOSTILE}
    about |= {"stores": {HOSTILE: store}, "remarks": {HOSTILE: HOSTILE}}
    write_run_json(folder, about)
    return made


def test_names_cannot_become_markup_or_paths(tmp_path: Path) -> None:
    made = hostile_run(tmp_path / "runs" / "hostile")
    files = write_report([made.folder])
    page = page_of(files[0])
    assert page.handlers == []
    assert not {"script", "img"} & set(page.tags)
    assert page.words.count("<script>alert(1)</script>") > 10
    for path in files:
        assert path.resolve().is_relative_to(made.folder.resolve())
        if path.suffix == ".svg":
            tags = {element.tag for element in ElementTree.parse(path).iter()}
            assert not any(tag.endswith("script") for tag in tags)
        if path.suffix == ".tex":
            assert "_^$" not in path.read_text("utf-8")
    assert len(set(files)) == len(files)
    assert len({path.name.casefold() for path in files}) == len(files)


def test_tables_are_not_written_through_a_link(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [RIDGE, GUESS])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run.folder / "tables").symlink_to(elsewhere)
    with pytest.raises(AlreadyThere, match="expected a folder, got a link"):
        write_report([run.folder])
    assert not [*elsewhere.iterdir()]


def test_a_run_of_baselines_stands_on_a_page_of_several_runs(run, tmp_path) -> None:
    baselines = made_run(tmp_path / "baselines", [GUESS])
    page = page_of(write_report([baselines.folder, run.folder])[0])
    assert "baselines: ridge" not in page.words
    assert "#run-1" in page.links and "run: ridge ranks clips" in page.words


def test_a_run_that_was_edited_is_reported_as_corrupt(tmp_path: Path) -> None:
    made = made_run(tmp_path / "run", [RIDGE, GUESS])
    document = json.loads((made.folder / "run.json").read_bytes())
    write_run_json(made.folder, {**document, "fits": [{"model": "ridge"}]})
    with pytest.raises(Corrupt, match="missing or invalid value"):
        write_report([made.folder])


def test_a_page_replaces_an_earlier_page_and_no_other_file(run, tmp_path) -> None:
    page = tmp_path / "page.html"
    write_report([run.folder], page)
    write_report([run.folder], page)
    page.write_text("<p>mine</p>", encoding="utf-8")
    with pytest.raises(AlreadyThere):
        write_report([run.folder], page)
    assert page.read_text("utf-8") == "<p>mine</p>"
    with pytest.raises(FixUsage, match="writes no page"):
        write_report([run.folder], tmp_path / "other.html", formats=["csv"])


def test_the_branches_of_a_tree_are_indented(tmp_path: Path) -> None:
    """By their places, because a browser ignores the blanks at the beginning of a text."""
    files = write_report([hostile_run(tmp_path / "runs" / "hostile").folder])
    (tree,) = [p for p in files if p.suffix == ".svg" and p.name.startswith("tree")]
    texts = [e for e in ElementTree.parse(tree).iter() if e.tag.endswith("text")]
    root, no, yes = [float(text.attrib["x"]) for text in texts]
    assert root + 20 < no == yes
