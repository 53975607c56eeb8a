"""Two rules of tasks, searched with random cases.

An empty cell is no label: what is said of a clip must be true whatever the cell would be. And a
task that is defined is run, or is an error.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from support.annotated import annotated
from support.experiments import store_of

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.reliability import audit_reliability
from obygaze.films.sampling import values_of_films
from obygaze_features.core.errors import FixInput, FixUsage, NotFound, UnknownName
from obygaze_features.core.file_names import single_line
from obygaze_features.core.parts import Part
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.expression import parse, plain_value
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import CLIP_COLUMNS, Clip, Header, Manifest
from obygaze_features.manifest.own import read_own
from obygaze_features.manifest.own_labels import column_words, counted_words
from obygaze_features.manifest.spelling import Spelling
from obygaze_models.protocols.clips import (
    ClipTable,
    class_names,
    clip_table,
    empty_labels,
    task_labels,
)
from obygaze_models.protocols.reading import (
    load_protocol,
    parse_protocol,
    protocol_names,
)
from obygaze_models.protocols.schedule import splits_of_task
from obygaze_models.protocols.schema import Data, Splits, Task
from obygaze_models.protocols.tasks import with_tasks
from obygaze_models.runner.datasets import dataset
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.training import training_protocol

# The values that a cell of each column may have.
DOMAINS: Mapping[str, tuple[str, ...]] = {
    "mood": ("joy", "fear", "no"),
    "rating": ("0", "1", "2", "3"),
    "level": ("EN", "HN", "S"),
}
TESTS = {
    "mood": ("mood == joy", "mood != fear", "mood in {joy, no}", "fear in mood"),
    "rating": ("rating >= 2", "rating < 1", "rating == 1", "rating not in {0, 3.0}"),
    "level": ("level == S", "level in {EN, HN}"),
}


def with_cells(column: str, cells: Sequence[str]) -> Manifest:
    """Return clips with the cells of a column, as a table has them."""
    clips = [Clip(f"c{number}", "f") for number in range(len(cells))]
    manifest = Manifest("m", Header("m"), tuple(clips))
    return manifest.with_column(
        column, dict(zip(manifest.clip_ids, cells, strict=True))
    )


def plain(text: str, cells: Mapping[str, str]) -> bool:
    """Evaluate a test of TESTS on a cell that is filled in."""
    column, sign, value = {
        "fear in mood": ("mood", "==", "fear"),
    }.get(text) or text.replace("not in", "not-in").split(" ", 2)
    words = [word.strip() for word in value.strip("{}").split(",")]
    if column == "rating":
        number = float(cells[column])
        numbers = [float(word) for word in words]
        return {
            ">=": number >= numbers[0],
            "<": number < numbers[0],
            "==": number in numbers,
            "not-in": number not in numbers,
        }[sign]
    return (cells[column] in words) != (sign == "!=")


@st.composite
def expressions(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draw an expression that tests each column at most once, and its tests."""
    columns = draw(st.lists(st.sampled_from(list(TESTS)), min_size=1, unique=True))
    tests = [draw(st.sampled_from(TESTS[column])) for column in columns]
    text = ""
    for test in tests:
        part = f"not {test}" if draw(st.booleans()) else test
        joint = draw(st.sampled_from((" and ", " or "))) if text else ""
        text = f"({text}){joint}({part})" if text else part
    return text, tests


def of_filled(text: str, tests: list[str], cells: Mapping[str, str]) -> bool:
    """Evaluate an expression on filled cells as Python does, from the plain truth of its tests."""
    for test in sorted(tests, key=len, reverse=True):
        text = text.replace(test, str(plain(test, cells)))
    return bool(eval(text))  # noqa: S307


def whatever_it_would_be(
    text: str, tests: list[str], cells: Mapping[str, str]
) -> bool | None:
    """Return what holds with every value in the empty cells; None if that differs."""
    possible = [(cells[c],) if cells[c] else DOMAINS[c] for c in DOMAINS]
    answers = set()
    for filled in itertools.product(*possible):
        answers.add(of_filled(text, tests, dict(zip(DOMAINS, filled, strict=True))))
    return answers.pop() if len(answers) == 1 else None


CELLS = st.fixed_dictionaries(
    {column: st.sampled_from(("", *domain)) for column, domain in DOMAINS.items()}
)


@settings(max_examples=150, deadline=None)
@given(expressions(), CELLS)
def test_what_is_said_of_an_empty_cell_is_true_whatever_it_would_be(
    drawn: tuple[str, list[str]], cells: dict[str, str]
) -> None:
    text, tests = drawn
    found = parse(text, of_empty=None).holds(
        lambda column: (cells[column],) if cells[column] else ()
    )
    assert found is whatever_it_would_be(text, tests, cells)


@settings(max_examples=60, deadline=None)
@given(st.lists(CELLS, min_size=4, max_size=12), expressions())
def test_clips_without_a_label_are_in_no_class_and_counted(
    drawn_cells: list[dict[str, str]], drawn: tuple[str, list[str]]
) -> None:
    text, tests = drawn
    clips = []
    for number, cells in enumerate(drawn_cells):
        extra = {"mood": cells["mood"], "rating": cells["rating"]}
        clips.append(Clip(f"c{number}", "film", level=cells["level"], extra=extra))
    table = ClipTable("made-up", clips, ())
    task = Task(positive=text)
    try:
        labels = task_labels("t", task, table)
    except FixInput:
        reject()  # one class has no clip
    asked = {column for column in DOMAINS if column in text}
    n_left_out = 0
    n_kept = 0
    for cells, label in zip(drawn_cells, labels.tolist(), strict=True):
        holds = whatever_it_would_be(text, tests, cells)
        assert label == {True: 1, False: 0, None: -1}[holds]
        n_left_out += label == -1
        n_kept += label != -1 and not all(cells[column] for column in asked)
    sentence = empty_labels({"t": task}, {"t": labels}, table)
    # Each clip with an empty cell is counted once.
    n_empty = n_left_out + n_kept
    assert sentence.startswith(f"{n_empty} of {len(clips)} clips") == bool(n_empty)
    assert sentence.count(f" of {len(clips)} clips") == bool(n_empty)
    assert (f": {n_left_out} left out of t" in sentence) == bool(n_empty)
    assert (f", and {n_kept} kept" in sentence) == bool(n_kept)


WORDS = st.text("abÄß09 ?-/.#+:", min_size=1, max_size=6).map(str.strip).filter(bool)


@settings(max_examples=100, deadline=None)
@given(name=WORDS, other=WORDS, is_and=st.booleans())
def test_a_column_is_read_as_it_is_printed(name: str, other: str, is_and: bool) -> None:
    text = f"{name} >= 2" + is_and * f" and {name} < 3"
    ratings = ("1", "2", "2.5", "4")
    clips = []
    for number, rating in enumerate(ratings):
        cells = {other: "9", name: rating}
        clips.append(Clip(f"c{number}", "m", extra=cells))
    manifest = Manifest("films", Header("Films"), tuple(clips), (other, name))
    expected = ("c1", "c2") if is_and else ("c1", "c2", "c3")
    assert manifest.where(text).clip_ids == expected


SIGNS = st.text("ab 1'\"=<>!(){}#,?-", min_size=1, max_size=6).map(single_line)
OWN_WORDS = SIGNS.filter(lambda word: word and not {"'", '"'} <= {*word})


@settings(max_examples=100, deadline=None)
@given(
    name=OWN_WORDS,
    words=st.lists(OWN_WORDS, min_size=2, max_size=4, unique_by=str.casefold),
)
def test_a_word_of_a_column_is_asked_for_whatever_signs_it_has(
    name: str, words: list[str]
) -> None:
    """COLUMN=VALUE is read as it is written, also in what the program itself offers."""
    cells = [*words, *words, words[0]]
    manifest = with_cells(name, cells)
    clips = manifest.clips
    table = ClipTable("m", clips, ())
    for word in words:
        if plain_value(word, name) != word:
            continue  # a number in another spelling
        tasks = with_tasks(load_protocol("honest"), [f"{name}={word}"], manifest).tasks
        (task,) = tasks.values()
        found = task_labels("t", task, table).tolist()
        assert found == [int(clip.extra[name] == word) for clip in clips]


SPELLED = (("absent", "absent ", " absent"), ("4", "4.0", "4 "), ("a|b", "a | b"))


@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(st.sampled_from(sum(SPELLED, ())), min_size=2, max_size=9),
    asked=st.sampled_from(("absent", "4")),
)
def test_a_word_is_counted_in_what_is_printed_as_it_is_asked_for(
    cells: list[str], asked: str
) -> None:
    cells = [*cells, *cells]
    manifest = with_cells("gaze", cells)
    clips = manifest.clips
    n_asked = len(manifest.where(f"gaze == {asked}"))
    counts = dict(part.split(": ") for part in column_words(clips, "gaze").split(", "))
    assert counts.get(asked, "0") == str(n_asked)
    assert sum(map(int, counts.values())) == len(cells)


@settings(max_examples=30, deadline=None)
@given(names=st.lists(OWN_WORDS, min_size=1, max_size=3, unique=True))
def test_a_concept_is_a_task_of_vectors_whatever_signs_its_name_has(
    names: list[str],
) -> None:
    header = Header("m", dict.fromkeys(names, "visual"))
    clips = [Clip(f"e{n}", f"m{n % 2}", level="EN") for n in range(4)]
    for number, name in enumerate(names):
        for n in range(4):
            clip = Clip(f"{number}-{n}", f"m{n % 2}", level="S", concepts=(name,))
            clips.append(clip)
    manifest = Manifest("m", header, tuple(clips))
    protocol = training_protocol("cav", "EN_S", manifest)
    table = clip_table(manifest, protocol.data)
    assert list(protocol.tasks) == names
    for name, task in protocol.tasks.items():
        found = task_labels(name, task, table).tolist()
        assert found == [int(name in clip.concepts) for clip in clips]


NAMES = ("a", "b", "mood")


@settings(max_examples=60, deadline=None)
@given(
    of_file=st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
    of_set=st.lists(st.sampled_from(("c", "d")), unique=True),
    train=st.lists(st.sampled_from(NAMES), unique=True),
    is_grid_set=st.booleans(),
    asked=st.lists(st.sampled_from((*NAMES, "c", "mood=joy", "rating>=2")), max_size=2),
)
def test_a_task_that_is_defined_is_run_or_an_error(
    of_file: list[str],
    of_set: list[str],
    train: list[str],
    is_grid_set: bool,
    asked: list[str],
) -> None:
    train = [name for name in train if name in of_file]
    listed = f"[{', '.join(map(repr, train))}]"
    lines = ['schema = "obygaze-protocol/1"']
    for name in of_file:
        lines += [f"[tasks.{name}]", "positive = 'mood == joy'"]
    lines += ["[models.ridge]", 'kind = "ridge"', "[grid]"]
    if not is_grid_set:
        lines += [f"train = {listed}", f"test = {listed}"]
    changes = [f"tasks.{name}.positive=mood == fear" for name in of_set]
    if is_grid_set:
        changes += [f"grid.train={listed}", f"grid.test={listed}"]
    in_grid = set(train or (*of_file, *of_set))
    rows = [("joy", "3"), ("fear", "0"), ("no", "2")]
    clips = tuple(
        Clip(f"c{n}", "film", extra={"mood": mood, "rating": rating})
        for n, (mood, rating) in enumerate(rows)
    )
    manifest = Manifest("m", Header("m"), clips, ("mood", "rating"))
    must_run = {*of_set, *(() if asked or is_grid_set else of_file)}
    may_run = set(asked) or in_grid
    try:
        protocol = parse_protocol("\n".join(lines).encode(), "p.toml", changes, asked)
        protocol = with_tasks(protocol, asked, manifest)
    except FixInput as error:
        assert not must_run <= may_run or (asked and is_grid_set)
        assert all("--task" in line for line in error.details)
        return
    except FixUsage as error:
        if "mood is a task of the protocol" in str(error):
            assert "mood" in asked and "mood" in {*of_file, *of_set}
            return
        # "c" that no change defines; "a" or "b" that the file has not.
        unknown = set(asked) - {*of_file, *of_set, "mood", "mood=joy", "rating>=2"}
        assert unknown and "unknown task or column" in str(error)
        return
    assert must_run <= may_run and not (asked and is_grid_set)
    run = {name for pair in protocol.pairs for name in pair}
    words = {"mood=fear", "mood=joy", "mood=no"}
    asks_for_words = "mood" in asked and "mood" not in of_file
    expected = (set(asked) - {"mood"} | words) if asks_for_words else may_run
    assert run == expected


def test_each_task_of_each_shipped_protocol_is_run() -> None:
    for name in protocol_names():
        protocol = load_protocol(name)
        assert protocol.tasks.keys() == set(itertools.chain(*protocol.pairs)), name


def test_what_is_printed_and_asked_of_a_task_is_not_said_of_another_of_its_name(
    tmp_path: Path,
) -> None:
    """`FILE.toml:a` may be another task than the `a` of the protocol that is run.

    So may be the `a` that `--set` changes.
    """
    lines = [
        'schema = "obygaze-protocol/1"',
        "[tasks.a]",
        "positive = 'mood == joy'",
        "title = 'happy against sad'",
        "[models.ridge]",
        'kind = "ridge"',
        "[grid]",
        'baselines = ["random"]',
        "[[report.questions]]",
        'text = "Are they happy?"',
        'first = "ridge"',
        'second = "random"',
        'train = "a"',
        'test = "a"',
        "[[paper]]",
        'metric = "ap"',
        "mean = 0.5",
        'test = "a"',
    ]
    ours = tmp_path / "ours.toml"
    ours.write_text("\n".join(lines))
    same = tmp_path / "same.toml"
    same.write_text("\n".join(lines[:7]))
    other = tmp_path / "other.toml"
    other.write_text(same.read_text().replace("joy", "fear"))
    moods = ("joy", "fear")
    clips = tuple(Clip(f"c-{mood}", "m", extra={"mood": mood}) for mood in moods)
    manifest = Manifest("m", Header("m"), clips, ("mood",))
    for asked, is_same in (("a", True), (f"{same}:a", True), (f"{other}:a", False)):
        protocol = load_protocol(ours, asked=[asked])
        found = with_tasks(protocol, [asked], manifest)
        (question,) = found.report.questions
        assert (question.text == "Are they happy?") is is_same
        assert bool(found.paper) is is_same
    for change in (
        "tasks.a.positive=mood == fear",
        "tasks={a={positive='mood==fear'}}",
    ):
        for words in ([], ["a"]):
            protocol = load_protocol(ours, [change], words)
            found = with_tasks(protocol, words, manifest)
            assert "happy" not in str(found.report.questions)
            assert not found.paper
            # The title stood in tables, and on the card of a kept model.
            assert found.tasks["a"].title == ""
            # In its place stands what is asked now.
            asked_now = found.tasks["a"].in_words("a")
            assert asked_now.replace(" ", "") == "mood==fear"
    typed = load_protocol(ours, ["tasks.a.title=afraid", "tasks.a.positive=mood==fear"])
    assert typed.tasks["a"].in_words("a") == "afraid"
    in_folds = load_protocol(ours, ["tasks.a.folds=by-film", "splits.kind=published"])
    assert in_folds.tasks["a"].title == "happy against sad"
    assert load_protocol(ours, ["tasks.b.positive=mood == fear"], ["a", "b"]).paper


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["", ".0", ".00"])),
        min_size=6,
        max_size=12,
    )
)
def test_a_number_is_one_value_however_it_is_written(
    drawn: list[tuple[int, str]],
) -> None:
    """pandas writes 4.0 where a column has empty cells, and a merged manifest has both."""
    manifests = []
    for is_plain in (True, False):
        cells = {}
        clips = []
        for number, (value, ending) in enumerate(drawn):
            written = f"{value}" if is_plain else f"{value}{ending}"
            film = f"f{value}"
            level = ("S", "EN")[number % 2]
            cells[f"c{number}"] = written
            clips.append(Clip(f"c{number}", film, level=level))
        manifest = Manifest("m", Header("m"), tuple(clips))
        manifests.append(manifest.with_column("rating", cells))
    found = []
    for manifest in manifests:
        audit = audit_annotations(
            manifest, column="rating", x="level == S", y="level == EN"
        )
        counts = [
            (value["value"], value["count_x"], value["count_y"])
            for value in audit.to_json()["values"]
        ]
        words = counted_words(manifest.clips, "rating")
        said = column_words(manifest.clips, "rating")
        groups = values_of_films(manifest, "rating")
        found.append((counts, words, said, groups))
    assert found[0] == found[1]


# What looks the same in a spreadsheet: a line break in a cell, the blank that French has before
# `?`, accents as a Mac has them in names of files, and numbers as pandas writes them.
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "très bien ?": (
        "très bien\xa0?",
        "très  bien ?",
        "très\nbien ?",
        "tre\u0300s bien ?",
    ),
    "4": ("4.0", "4.00"),
    "a|4": ("a | 4.0", "a|4\n"),
    "sad": ("sad",),
}


@settings(max_examples=15, deadline=None)
@given(
    drawn=st.lists(st.sampled_from([*SPELLINGS]), min_size=8, max_size=12),
    data=st.data(),
)
def test_a_value_is_one_in_tasks_splits_and_reliability_however_it_is_written(
    drawn: list[str], data: st.DataObject
) -> None:
    drawn = [*SPELLINGS, *drawn]
    written = [data.draw(st.sampled_from((word, *SPELLINGS[word]))) for word in drawn]
    found = []
    spelling = Spelling()
    for cells in (drawn, written):
        rated: dict[str, dict[str, dict[str, str]]] = {"ada": {}, "ben": {}}
        for number, cell in enumerate(cells):
            # Numbers and words together are no answers of raters.
            is_number = plain_value(cell, "said") == "4"
            word = "sad" if is_number else spelling.cell(cell, "rated")
            answer = {"rated": word}
            rated[("ada", "ben")[number % 2]][f"f-{number // 2}"] = answer
        manifest = with_cells("said", cells)
        honest = load_protocol("honest")
        asked = ["said", "said!=4.0", 'said in {"très bien ?", 4}']
        protocol = with_tasks(honest, asked, manifest)
        values = {"très bien ?": 1, "4.0": 0, "a|4": 0, "sad": 0}
        tasks = {**protocol.tasks, "of values": Task(column="said", values=values)}
        table = clip_table(manifest, protocol.data)
        labels = {name: task_labels(name, task, table) for name, task in tasks.items()}
        splits = Splits("fixed", column="said", test=("4.0",), choose=("très bien ?",))
        fixed = replace(protocol, splits=splits)
        usable = np.ones(len(table), dtype=np.bool_)
        (parts,) = splits_of_task(fixed, table, labels, usable, "said=sad")
        audit = audit_reliability(annotated(rated), column="rated")
        shown = {name: of.tolist() for name, of in labels.items()}
        rows = [
            of.tolist() for of in vars(parts).values() if isinstance(of, np.ndarray)
        ]
        names = class_names("said=4", tasks["said=4"], labels["said=4"], table)
        found.append((shown, rows, names, audit["words"], audit["krippendorff"]))
    assert found[0] == found[1]
    is_asked = [int(word != "sad") for word in drawn]
    assert found[1][0][asked[-1]] == is_asked


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.sampled_from(("sad", "calm", "joy")), min_size=3, max_size=9),
    asked=st.lists(st.sampled_from(("sad", "calm", "clam", "joy")), min_size=1),
    sign=st.sampled_from(("in", "not in")),
)
def test_a_word_that_a_column_does_not_have_is_refused_in_an_expression(
    values: list[str], asked: list[str], sign: str
) -> None:
    clips = [Clip(f"c{n}", "f", extra={"mood": v}) for n, v in enumerate(values)]
    manifest = Manifest("m", Header("m"), tuple(clips), ("mood",))
    text = f"mood {sign} {{{', '.join(asked)}}} or mood == {values[0]}"
    unknown = [word for word in asked if word not in values]
    try:
        with_tasks(load_protocol("honest"), [text], manifest)
    except FixUsage as error:
        assert unknown
        assert f"no {unknown[0]!r}" in str(error)
    else:
        assert not unknown


@settings(max_examples=40, deadline=None)
@given(
    name=OWN_WORDS,
    words=st.lists(OWN_WORDS, min_size=3, max_size=5, unique_by=str.casefold),
    n_positive=st.integers(1, 4),
    n_left_out=st.integers(1, 3),
)
def test_a_word_without_a_class_is_refused(
    name: str, words: list[str], n_positive: int, n_left_out: int
) -> None:
    words = sorted(words, key=lambda word: plain_value(word, name))
    given_words = words[:-n_left_out]
    values = {word: int(number < n_positive) for number, word in enumerate(given_words)}
    if set(values.values()) != {0, 1}:
        reject()
    clips = [Clip(f"c{n}", "m", extra={name: word}) for n, word in enumerate(words)]
    table = ClipTable("m", clips, ())
    with pytest.raises(FixInput, match="no class for") as refused:
        task_labels("t", Task(column=name, values=values), table)
    shown = " ".join(words[len(values)].split())
    assert f"{shown!r} of the column" in refused.value.message


@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(st.sampled_from(("Sad", "calm", "joy")), min_size=1, max_size=9),
    asked=st.sampled_from(("sad", "clam", "joyy")),
    level=st.sampled_from(("", "EN", "S")),
)
def test_a_class_without_clips_is_a_matter_of_the_columns_that_it_asks(
    cells: list[str], asked: str, level: str
) -> None:
    """Levels were counted for a task of moods, and another view was advised."""
    clips = [
        Clip(f"c{n}", "m", level=level, extra={"mood": cell})
        for n, cell in enumerate(cells)
    ]
    table = ClipTable("m", clips, (), view="visual")
    with pytest.raises(FixInput, match="no clip of class 1") as refused:
        task_labels("t", Task(positive=f"mood == {asked}"), table)
    hint = refused.value.hint or ""
    assert hint.startswith("the column mood has ")
    assert "level" not in hint
    meant = {"sad": "Sad", "clam": "calm", "joyy": "joy"}[asked]
    assert (f"did you mean {meant!r}?" in hint) == (meant in cells)


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 5), min_size=9, max_size=12),
    words=st.lists(st.sampled_from(("2?", "-", "NA")), max_size=2),
)
def test_a_column_of_numbers_needs_a_limit_also_where_a_cell_is_none(
    numbers: list[int], words: list[str]
) -> None:
    """What is a number with a typing error is no word with a task of its own."""
    numbers = [0, 3, 5, *numbers]
    cells = [*map(str, numbers), *words]
    clips = [Clip(f"c{n}", "f", extra={"rating": cell}) for n, cell in enumerate(cells)]
    manifest = Manifest("m", Header("m"), tuple(clips), ("rating",))
    honest = load_protocol("honest")
    with pytest.raises(FixUsage, match="numbers from 0 to 5; which are positive"):
        with_tasks(honest, ["rating"], manifest)
    if words:
        with pytest.raises(FixInput, match="expected numbers in the column rating"):
            with_tasks(honest, ["rating>=3"], manifest)
    else:
        assert with_tasks(honest, ["rating>=3"], manifest).tasks
    # The reason was "the column rating has no '2,5'", as if >= needed such a cell.
    with pytest.raises(FixInput, match=r"expected a number, got '2,5': write 2\.5"):
        with_tasks(honest, ["rating>=2,5"], manifest)


@settings(max_examples=40, deadline=None)
@given(
    asked=st.sampled_from(("concept=Speech", "concept=Body", "mood=sad", "mood=joy")),
    view=st.sampled_from(("visual", "raw")),
    where=st.sampled_from(("", "mood != sad", "mood == sad")),
)
def test_a_word_that_only_other_clips_have_is_said_so(
    asked: str, view: str, where: str
) -> None:
    """A view leaves out what is only heard, and `data.where` leaves out clips."""
    said = {"concept": ("Look", "Speech"), "mood": ("sad", "calm")}
    pairs = itertools.product(said["concept"], said["mood"])
    clips = []
    for number, (concept, mood) in enumerate([*pairs] * 2):
        extra = {"mood": mood}
        clips.append(
            Clip(f"c{number}", "f", level="S", concepts=(concept,), extra=extra)
        )
    header = Header("m", {"Look": "visual", "Speech": "speech", "Body": "visual"})
    manifest = Manifest("m", header, tuple(clips), ("mood",))
    honest = load_protocol("honest")
    protocol = replace(honest, data=replace(honest.data, view=view, where=where))
    column, word = asked.split("=")
    is_hidden = (word == "Speech" and view == "visual") or (
        word == "sad" and where == "mood != sad"
    )
    try:
        with_tasks(protocol, [asked], manifest)
        found = ""
    except FixUsage as error:
        found = str(error)
    assert ("no selected clip has" in found) == is_hidden
    assert (f"the column {column} has no" in found) == (word not in said[column])


@settings(max_examples=25, deadline=None)
@given(
    positive=st.lists(st.sampled_from(("sad", "clam", "4.0")), min_size=1),
    negative=st.lists(st.sampled_from(("calm", "joyy")), max_size=2),
)
def test_a_run_and_a_dataset_say_what_is_known_of_no_clip(
    tmp_path_factory: pytest.TempPathFactory,
    positive: list[str],
    negative: list[str],
) -> None:
    """A misspelt word made its clips negative."""
    clips = []
    for number, cell in enumerate(["sad", "calm", "4"] * 2):
        clips.append(Clip(f"c{number}", f"f{number}", extra={"mood": cell}))
    header = Header("m", {"Look": "visual"})
    manifest = Manifest("m", header, tuple(clips), ("mood",))
    task = Task(
        positive=f"mood in {{{', '.join(['sad', *positive])}}} or Look in concept",
        negative=f"mood in {{{', '.join(['calm', *negative])}}}",
    )
    ridge = replace(load_protocol("honest"), tasks={"t": task})
    grid = replace(ridge.grid, train=("t",), test=("t",), models=("ridge",))
    report = replace(ridge.report, contrast=(), questions=())
    protocol = replace(ridge, grid=grid, report=report)
    folder = tmp_path_factory.mktemp("stores")
    store = store_of(folder / "s", manifest, np.eye(6, dtype=np.float32))
    remarks = gather(protocol, manifest, "m.toml", {"s": store}).table.remarks
    described = {"positive": task.positive, "negative": task.negative}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset(store, manifest, described)
    by_dataset = " ".join(str(warning.message) for warning in caught)
    for said in (" ".join(remarks.values()), by_dataset):
        for word in ("clam", "joyy"):
            assert (f"no clip has '{word}'" in said) == (word in [*positive, *negative])
        assert "4.0" not in said
        assert "Look" not in said


# What pandas has where a cell is empty, and numbers.
NO_TEXTS = (float("nan"), None, pd.NA, pd.NaT, 4, 2.5, True)


@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(st.sampled_from(("sad", "calm", "", *NO_TEXTS)), min_size=2),
    data=st.data(),
)
def test_a_cell_is_a_text_on_every_way_into_a_manifest(
    tmp_path_factory: pytest.TempPathFactory, cells: list[Any], data: st.DataObject
) -> None:
    """The NaN of pandas was the word `nan`: its clips were negatives."""
    clips = [Clip(f"c{number}", "film") for number in range(len(cells))]
    manifest = Manifest("m", Header("m"), tuple(clips))
    given_cells = {f"c{number}": cell for number, cell in enumerate(cells)}
    as_clips = []
    for clip in clips:
        cell = given_cells[clip.clip_id]
        # A reader may leave out an empty cell.
        is_left_out = cell == "" if isinstance(cell, str) else False
        extra = {} if is_left_out and data.draw(st.booleans()) else {"mood": cell}
        as_clips.append(replace(clip, extra=extra))
    reader = own_reader(Manifest("m", Header("m"), tuple(as_clips), ("mood",)))
    ways = {
        "with_column": lambda: manifest.with_column("mood", given_cells),
        "own reader": lambda: read_own(reader, [], "m").manifest,
    }
    for way, call in ways.items():
        if all(isinstance(cell, str) for cell in cells):
            path = tmp_path_factory.mktemp("m") / "m.toml"
            made = call()
            write_manifest(made, path)
            for found in (made, read_manifest(path)):
                moods = [found[clip_id].extra["mood"] for clip_id in given_cells]
                assert moods == cells, way
        else:
            with pytest.raises(FixInput, match="in the column 'mood', expected text"):
                call()


@settings(max_examples=40, deadline=None)
@given(
    levels=st.lists(
        st.sampled_from(("EN", "S", "", "s", "sure", float("nan"))), min_size=2
    )
)
def test_no_clip_is_left_out_for_a_level_that_is_unknown(levels: list[Any]) -> None:
    """A clip of the level `s` of a manifest in memory was in no class."""
    clips = [Clip(f"c{n}", "film", level=level) for n, level in enumerate(levels)]
    manifest = Manifest("m", Header("m"), tuple(clips))
    try:
        table = clip_table(manifest, Data(view="raw"))
        found = task_labels("t", Task(classes={"EN": 0, "S": 1}), table).tolist()
    except FixInput as error:
        is_unknown = not {*levels} <= {"EN", "S", ""}
        assert ("unknown level" in error.message) == is_unknown
        assert is_unknown or not {"EN", "S"} <= {*levels}
        return
    assert found == [{"EN": 0, "S": 1, "": -1}[level] for level in levels]


def own_reader(manifest: Manifest) -> Part:
    """A part of own code that reads this manifest."""

    class Reader(Part):
        def load_function(self) -> Any:
            return lambda files, *, name: ImportedManifest(manifest)

    return Reader("mine.py:read", "mine.py 0123", "mine", "read")


@settings(max_examples=30, deadline=None)
@given(column=st.sampled_from((*CLIP_COLUMNS, "mood")), clip_id=st.sampled_from("abx"))
def test_a_value_of_a_new_column_is_lost_by_an_error_only(
    column: str, clip_id: str
) -> None:
    """`level` is a field of a clip, which a column of this name did not change."""
    clips = (Clip("a", "film", level="EN"), Clip("b", "film", level="EN"))
    manifest = Manifest("m", Header("m"), clips)
    try:
        made = manifest.with_column(column, {clip_id: "S"})
    except (FixUsage, NotFound):
        assert column in CLIP_COLUMNS or clip_id == "x"
        return
    assert made[clip_id].values(column) == ("S",)


@given(
    side=st.sampled_from(("positive", "negative")),
    column=st.sampled_from(("gene", "Gêne", "how much", "mod")),
)
def test_a_column_of_a_task_that_clips_do_not_have_is_named_with_its_task(
    side: str, column: str
) -> None:
    expressions = {"positive": "mood == joy", "negative": "mood == fear"}
    expressions[side] = f'mood == no or "{column}" >= 3.5'
    clips = tuple(
        Clip(f"c-{mood}", "m", extra={"mood": mood}) for mood in ("joy", "fear")
    )
    manifest = Manifest("m", Header("m"), clips, ("mood",))
    with pytest.raises(UnknownName) as caught:
        task_labels("mine", Task(**expressions), clip_table(manifest, Data()))
    assert caught.value.message.startswith(f"no column {column!r}")
    assert caught.value.where == f"tasks.mine.{side}"
    assert f"--set tasks.mine.{side}=EXPRESSION, with one of " in caught.value.hint
