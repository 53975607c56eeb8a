"""Tasks requested by `--task` of `run` and `train`, and by `dataset(task=...)`.

A column of a manifest is a label. A request becomes one or more tasks of a protocol:

    EN_S, FILE.toml:NAME    a task of the protocol, or of a different protocol
    COLUMN                  yes against no; for other words, one task per word
    COLUMN=VALUE            this value against the other values of the column
    COLUMN>=2               for numbers; also with <=, < and >
    EXPRESSION              clips that match against clips that do not
    NAME=EXPRESSION         the same, with a short name; also NAME=COLUMN>=2 and similar

A clip with an empty cell has no class.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial

from obygaze_features.core.console import count, few, join_names
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import is_number
from obygaze_features.manifest.expression import (
    CONCEPTS,
    Expression,
    parse,
    quote_word,
    typed_value,
)
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    DIFFERS,
    KEEPS_LEVELS,
    Clip,
    Manifest,
    own_columns,
    require_numbers,
)
from obygaze_features.manifest.own_labels import (
    MOST_WORDS,
    YES_AND_NO,
    column_words,
    even_limit,
    has_numbers,
)
from obygaze_models.protocols.clips import with_view
from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.protocols.schedule import SPLIT_KINDS, unit_name
from obygaze_models.protocols.schema import Data, Protocol, Task

# A column, an operator and one value; `parse` reads longer expressions.
COMPARISON = re.compile(
    r"""\s*(.+?)\s*(>=|<=|==|!=|=|>|<)\s*("[^"]*"|'[^']*'|[^"'=<>!(){}]+?)\s*"""
)
# A name and its definition; expressions have no single `=`.
NAMED = re.compile(r"""\s*([^"'=<>!(){}]+?)\s*=(?!=)\s*(.+?)\s*""")
TASK_NAME = re.compile(r"[^\W\d][\w.-]*")
TASK_OPTION = "--task"
HONEST = "honest"
NEGATIVES = "honest-negatives"
ASKED = "Do the features of an unseen {unit} predict {what}?"
IN_WORDS = {
    "==": "is",
    "!=": "is not",
    ">=": "is at least",
    "<=": "is at most",
    ">": "is above",
    "<": "is below",
}


def with_tasks(
    protocol: Protocol, asked: Sequence[str], manifest: Manifest
) -> Protocol:
    """Return a protocol with the requested tasks, each tested on itself.

    Without a request, it is the protocol; for `honest` and clips without levels, it is the protocol
    with the only yes/no column.
    """
    if not asked and protocol.name == HONEST:
        asked = _task_without_levels(protocol, manifest)
    if not asked:
        return protocol
    tasks: dict[str, Task] = {}
    # The question of each task.
    asks: dict[str, str] = {}
    for text in asked:
        of_text = requested_tasks(text, protocol, manifest)
        for name, task in of_text.items():
            asks[name] = f"for which clips {task.in_words(name) or name}"
            if len(of_text) > 1:
                asks[name] = f"which {text} a clip has"
            if tasks.setdefault(name, task) != task:
                raise FixUsage(
                    f"two tasks have the name {name}",
                    hint="use --task 'NAME=EXPRESSION' to give each task its own name",
                )
            if SPLIT_KINDS[protocol.splits.kind].by_task and not task.folds:
                raise FixUsage(
                    f"the published splits of the protocol {protocol.name} have no folds for"
                    f" the task {name}"
                )
    names = tuple(tasks)
    # Questions and published values do not hold for a different task of the same name.
    kept = [name for name in names if tasks[name] == protocol.tasks.get(name)]
    printed = []
    for value in protocol.paper:
        if value.test in kept and value.train in ("", value.test):
            printed.append(value)
    ask = ""
    if not kept:
        unit = unit_name(protocol.splits.kind, protocol.splits.column)
        what = join_names([*dict.fromkeys(asks.values())])
        ask = ASKED.format(unit=unit, what=what)
    elif len(names) == 1 and protocol.pairs[0] == (names[0], names[0]):
        ask = protocol.report.ask
    return replace(
        protocol,
        tasks=tasks,
        grid=replace(protocol.grid, train=names, test=names, pairs="same"),
        report=replace(protocol.report, contrast=(), ask=ask),
        paper=tuple(printed),
    )


@cache
def tasks_of_levels() -> Mapping[str, Task]:
    """Return the tasks of levels, which every protocol knows by name."""
    return load_protocol(NEGATIVES).tasks


def _task_without_levels(protocol: Protocol, manifest: Manifest) -> list[str]:
    """Return the only yes/no column if no clip has a level.

    If there is no such column, or there are several, the error has a line for each column.
    """
    if any(clip.level for clip in manifest):
        return []
    columns = own_columns(manifest.columns)
    if any(clip.concepts for clip in manifest):
        columns.append("concept")
    if not columns:
        return []
    labels = _Labels(protocol.data, manifest, TASK_OPTION)
    of_two_words = []
    lines = []
    for column in columns:
        if labels.yes_and_no(column):
            of_two_words.append(column)
        said = column_words(labels.clips, column)
        lines.append(f"{TASK_OPTION} {shell_word(column)}: {said}")
    if len(of_two_words) == 1:
        return of_two_words
    found = f"{len(of_two_words)} columns have" if of_two_words else "no column has"
    raise FixUsage(
        f"the clips of {manifest.name} have no level, and {found} only the words yes and no",
        hint="use --task with one of the columns above, such as --task 'rating>=2'",
        details=lines,
    )


def require_one_label(task: object) -> None:
    """Raise an error for a list of labels, where there is one."""
    if not isinstance(task, str):
        raise FixUsage(
            f"expected one label to predict, got {task!r}",
            hint="use a text such as task='EN_S'",
        )


def one_task(
    text: str, protocol: Protocol, manifest: Manifest, option: str = TASK_OPTION
) -> tuple[str, Task]:
    """Return the name and the definition of the requested task; refuse several tasks."""
    return _only_one(text, requested_tasks(text, protocol, manifest, option))


def _only_one(text: str, tasks: Mapping[str, Task]) -> tuple[str, Task]:
    """Return the only task of a text, with its name; refuse several tasks."""
    if len(tasks) > 1:
        raise FixUsage(
            f"expected one task, got the column {text} with {len(tasks)} values",
            hint=f"use one of {', '.join(map(shell_word, tasks))}",
        )
    (of_name,) = tasks.items()
    return of_name


def requested_tasks(
    text: str, protocol: Protocol, manifest: Manifest, option: str = TASK_OPTION
) -> dict[str, Task]:
    """Return the requested tasks, by name.

    Args:
        text: The request.
        protocol: The protocol, which selects the clips.
        manifest: The clips.
        option: The option of the command, for errors.
    """
    known_tasks = {**tasks_of_levels(), **protocol.tasks}
    if text in known_tasks:
        if text in manifest.columns and known_tasks[text].column != text:
            named_by = protocol.name if text in protocol.tasks else NEGATIVES
            raise FixUsage(
                f"{text} is both a task of the protocol {named_by} and a column",
                hint=f"use {text}=VALUE for the column, and {NEGATIVES}:{text} or"
                f" FILE.toml:{text} for the task",
            )
        return {text: known_tasks[text]}
    place, _, name = text.rpartition(":")
    if place.endswith(".toml") or place in protocol_names():
        tasks = load_protocol(place, asked=[name]).tasks
        if name not in tasks:
            raise FixUsage(
                f"{place} has no task {name!r}{near(name, tasks)}",
                hint=f"use one of {', '.join(tasks)}",
            )
        return {name: tasks[name]}
    labels = _Labels(protocol.data, manifest, option)
    of_column = labels.find_tasks(text)
    if of_column:
        return of_column
    unknown = text
    named = NAMED.fullmatch(text)
    if named:
        unknown, asked = named.groups()
        is_known = asked in labels.columns or not _is_of_words(asked)
        if is_known and unknown != DIFFERS:
            _check_name(unknown, known_tasks, labels)
            tasks = labels.find_tasks(asked) or labels.task_of_expression(asked)
            return {unknown: _only_one(asked, tasks)[1]}
    if not _is_of_words(unknown):
        return labels.task_of_expression(text)
    columns = [*dict.fromkeys((*manifest.columns, "level", "concept"))]
    hint = (
        f"use one of {', '.join(known_tasks)}; or COLUMN, COLUMN=VALUE or 'COLUMN>=2' with one"
        f" of the columns {few(columns)}"
    )
    if text in manifest.header.concepts:
        hint = f"use {option} {shell_word(f'concept={text}')}"
    known = [*known_tasks, *columns]
    raise FixUsage(
        f"unknown task or column {unknown!r}{near(unknown, known)}", hint=hint
    )


def _is_of_words(text: str) -> bool:
    """Return whether a text contains only words, so that it cannot be an expression."""
    is_plain = re.fullmatch(r"[\w .:+-]+", text)
    return bool(is_plain and not re.search(r"\b(in|not)\b", text))


def _check_name(name: str, known_tasks: Mapping[str, Task], labels: "_Labels") -> None:
    """Raise an error for an invalid name of a task, or one that is in use."""
    problem = ""
    if not TASK_NAME.fullmatch(name):
        problem = (
            "is not valid: expected a letter, then letters, digits, '_', '.' or '-'"
        )
    elif name in labels.columns:
        problem = "is already the name of a column"
    elif name in known_tasks:
        problem = "is already the name of a task"
    if problem:
        raise FixUsage(f"the task name {name!r} {problem}")


class _Labels:
    """The columns of the clips that a protocol selects, as labels."""

    def __init__(self, data: Data, manifest: Manifest, option: str) -> None:
        self.data = data
        self.manifest = manifest
        self.option = option
        own = [column for column in manifest.columns if column != DIFFERS]
        self.columns = [*CLIP_COLUMNS, "concept", *own]

    @cached_property
    def clips(self) -> list[Clip]:
        """The clips that the expression of the protocol selects, in the view of the protocol."""
        viewed = self.manifest.view(with_view(self.data, self.manifest).view)
        if not self.data.where:
            return list(viewed)
        where = parse(self.data.where, words_of=viewed.words)
        return [clip for clip in viewed if where.holds(clip.values)]

    def words(self, column: str) -> list[str]:
        """Return the words of a column."""
        return sorted({*self.cells(column)})

    def cells(self, column: str) -> list[str]:
        """Return the values in a column; a clip may have several."""
        values: list[str] = []
        for clip in self.clips:
            values += clip.values(column)
        return values

    def yes_and_no(self, column: str) -> tuple[str, str] | None:
        """Return the words for yes and for no if a column has exactly these two words."""
        written = {word.lower(): word for word in self.words(column)}
        for yes, no in YES_AND_NO:
            if len(self.words(column)) == 2 and written.keys() == {yes, no}:
                return written[yes], written[no]
        return None

    def unknown_word(self, column: str, word: str) -> FixUsage:
        """Return the error for a word that no selected clip has in a column."""
        values = self.words(column)
        plain = typed_value(word, column, lambda: self.manifest.words(column))
        if any(plain in clip.values(column) for clip in self.manifest):
            hint = "change data.where"
            if column in ("level", *CONCEPTS):
                hint = f"{KEEPS_LEVELS} and concepts, or {hint}"
            return FixUsage(
                f"no selected clip has {word!r} in the column {column}, but other clips of"
                f" {self.manifest.name} have it",
                hint=hint,
            )
        return FixUsage(
            f"the column {column} has no value {word!r}{near(word, values)}",
            hint=f"use one of its values: {few(values)}",
        )

    def find_tasks(self, text: str) -> dict[str, Task]:
        """Return the tasks of a column, or of a column and a value; empty for other texts."""
        if text in self.columns:
            return self.find_tasks_of_column(text)
        for column in self.columns:
            # A word may contain any characters, also operators.
            if text.startswith(f"{column}="):
                word = text.removeprefix(f"{column}=")
                words = self.words(column)
                # An import gives words that differ only in case one spelling.
                alike = [one for one in words if one.casefold() == word.casefold()]
                if alike:
                    spelled = word if word in alike else alike[0]
                    return self.task_of_value(column, "==", spelled)
        comparison = COMPARISON.fullmatch(text)
        if not comparison:
            return {}
        column, sign, value = (part.strip("\"'") for part in comparison.groups())
        if column not in self.columns:
            return {}
        if re.search(r" (and|or) ", value) and value not in self.words(column):
            return {}  # a longer expression
        return self.task_of_value(column, "==" if sign == "=" else sign, value)

    def task_of_expression(self, text: str) -> dict[str, Task]:
        """Return the task of the clips that match an expression, against all other clips."""
        positive: Expression = parse(
            text,
            vocabulary=self.manifest.header.concepts or None,
            where=f"{self.option} {text}",
            of_empty=None,
        )
        for column in positive.compared:
            values = self.words(column)
            for word in positive.values.get(column, ()):
                if typed_value(word, column, partial(self.words, column)) not in values:
                    raise self.unknown_word(column, word)
        return {text: Task(positive=positive.text)}

    def find_tasks_of_column(self, column: str) -> dict[str, Task]:
        """Return the task of a yes/no column, or one task per word."""
        values = self.words(column)
        if not values or (len(values) == 1 and column not in CONCEPTS):
            one = f"has one value, {values[0]!r}" if values else "is empty"
            raise FixInput(
                f"the column {column} {one}: a task needs two values",
                where=self.manifest.name,
                hint="write a second value, such as no, for the other clips: clips with an empty"
                " cell are excluded",
            )
        # "yes" is the positive class; for other words, the positive class is unknown.
        both = self.yes_and_no(column)
        if both:
            yes, no = both
            (task,) = self.task_of_value(column, "==", yes).values()
            # A cell with both words is then in both classes, which is refused.
            negative = f"{quote_word(column)} == {quote_word(no)}"
            return {column: replace(task, negative=negative)}
        problem = (
            f"the column {column} has {count(len(values), 'value')}: {few(values)}"
        )
        examples = [f"{column}={word}" for word in values[:2]]
        cells = self.cells(column)
        if has_numbers(cells):
            # A word among many numbers is an error; the suggested task names it.
            numbers = sorted(filter(is_number, cells), key=float)
            examples = [f"{column}>={even_limit(numbers)}"]
            problem = (
                f"the column {column} has numbers from {numbers[0]} to {numbers[-1]}"
            )
        elif 2 < len(values) <= MOST_WORDS:
            tasks: dict[str, Task] = {}
            for value in values:
                tasks |= self.task_of_value(column, "==", value)
            return tasks
        options = [f"{self.option} {shell_word(example)}" for example in examples]
        raise FixUsage(
            f"{problem}; the positive values are not stated",
            hint=f"use {' or '.join(options)}",
        )

    def task_of_value(self, column: str, sign: str, value: str) -> dict[str, Task]:
        """Return the task of the clips that match a comparison, against all other clips."""
        words = self.words(column)
        is_known = typed_value(value, column, lambda: words) in words
        if not is_known and sign[0] not in "<>":
            raise self.unknown_word(column, value)
        text = f"{quote_word(column)} {sign} {quote_word(value)}"
        require_numbers(parse(text), self.clips, self.manifest.name)
        name = f"{column}{'=' if sign == '==' else sign}{value}"
        return {name: Task(title=f"{column} {IN_WORDS[sign]} {value}", positive=text)}
