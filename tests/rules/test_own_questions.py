"""Two rules of tasks, searched with random cases.

An empty cell is no label: what is said of a clip must be true whatever the cell would be. And a
task that is defined is run, or is an error.
"""

import itertools
from collections.abc import Mapping, Sequence

from hypothesis import assume, given, reject
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import single_line
from obygaze_features.manifest.expression import parse, plain_value
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.clips import TaskClips, empty_labels, task_labels
from obygaze_models.protocols.reading import load_protocol, parse_protocol
from obygaze_models.protocols.schema import Task
from obygaze_models.protocols.tasks import with_tasks

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
    column, sign, value = {"fear in mood": ("mood", "==", "fear")}.get(
        text
    ) or text.replace("not in", "not-in").split(" ", 2)
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


def whatever_it_would_be(text, tests, cells) -> bool | None:
    """Return what holds with every value in the empty cells; None if that differs."""
    possible = [(cells[c],) if cells[c] else DOMAINS[c] for c in DOMAINS]
    answers = set()
    for filled in itertools.product(*possible):
        answers.add(of_filled(text, tests, dict(zip(DOMAINS, filled, strict=True))))
    return answers.pop() if len(answers) == 1 else None


CELLS = st.fixed_dictionaries(
    {column: st.sampled_from(("", *domain)) for column, domain in DOMAINS.items()}
)


@given(expressions(), CELLS)
def test_what_is_said_of_an_empty_cell_is_true_whatever_it_would_be(drawn, cells):
    text, tests = drawn
    found = parse(text, of_empty=None).holds(
        lambda column: (cells[column],) if cells.get(column) else ()
    )
    assert found is whatever_it_would_be(text, tests, cells)


@given(st.lists(CELLS, min_size=4, max_size=12), expressions())
def test_clips_without_a_label_are_in_no_class_and_counted(drawn_cells, drawn) -> None:
    text, tests = drawn
    clips = []
    for number, cells in enumerate(drawn_cells):
        extra = {"mood": cells["mood"], "rating": cells["rating"]}
        clips.append(Clip(f"c{number}", "film", level=cells["level"], extra=extra))
    table = TaskClips("made-up", clips, ())
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
    assert (f": {n_left_out} excluded from t" in sentence) == bool(n_empty)
    assert (f", and {n_kept} kept" in sentence) == bool(n_kept)


SIGNS = st.text("ab 1'\"=<>!(){}#,?-", min_size=1, max_size=6).map(single_line)
OWN_WORDS = SIGNS.filter(lambda word: word and not {"'", '"'} <= {*word})


@given(
    name=OWN_WORDS,
    words=st.lists(OWN_WORDS, min_size=2, max_size=4, unique_by=str.casefold),
)
def test_a_word_of_a_column_is_asked_for_whatever_signs_it_has(name, words) -> None:
    """COLUMN=VALUE is read as it is written, also in what the program itself offers."""
    cells = [*words, *words, words[0]]
    manifest = with_cells(name, cells)
    clips = manifest.clips
    # Among numbers, ? is an empty cell.
    assume(all(clip.extra[name] for clip in clips))
    table = TaskClips("m", clips, ())
    for word in words:
        if plain_value(word, name) != word:
            continue  # a number in another spelling
        tasks = with_tasks(load_protocol("honest"), [f"{name}={word}"], manifest).tasks
        (task,) = tasks.values()
        found = task_labels("t", task, table).tolist()
        assert found == [int(clip.extra[name] == word) for clip in clips]


NAMES = ("a", "b", "mood")


@given(
    of_file=st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
    of_set=st.lists(st.sampled_from(("c", "d")), unique=True),
    train=st.lists(st.sampled_from(NAMES), unique=True),
    is_grid_set=st.booleans(),
    asked=st.lists(st.sampled_from((*NAMES, "c", "mood=joy", "rating>=2")), max_size=2),
)
def test_a_task_that_is_defined_is_run_or_an_error(
    of_file, of_set, train, is_grid_set, asked
):
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
        if "mood is both a task of the protocol" in str(error):
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
