"""The tasks that are asked for by name: `--task` of `run` and `train`, and `dataset(task=...)`.

A column of a manifest is a label. What is asked becomes ordinary tasks of a protocol:

    EN_S, FILE.toml:NAME    a task of the protocol, or of another one
    COLUMN                  of yes and no: yes; of other words: a task for each word
    COLUMN=VALUE            this value against the other values of the column
    COLUMN>=2               for numbers, and with <=, < and >
    EXPRESSION              where it holds, against where it does not
    NAME=EXPRESSION         the same, under a short name; also NAME=COLUMN>=2 and the others

A clip whose cell is empty is in no class.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.expression import (
    CONCEPTS,
    NUMBER,
    Expression,
    parse,
    plain_value,
    quoted_word,
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
    has_numbers,
    limit_of,
)
from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.clips import with_view
from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.protocols.schedule import SPLIT_KINDS, unit_of
from obygaze_models.protocols.schema import Data, Protocol, Question, Task

# A column, a sign and one value; a longer expression is read by `parse`.
COMPARISON = re.compile(
    r"""\s*(.+?)\s*(>=|<=|==|!=|=|>|<)\s*("[^"]*"|'[^']*'|[^"'=<>!(){}]+?)\s*"""
)
# A name and what it stands for: no expression has a single `=`.
NAMED = re.compile(r"""\s*([^"'=<>!(){}]+?)\s*=(?!=)\s*(.+?)\s*""")
TASK_NAME = re.compile(r"[^\W\d][\w.-]*")
TASK_OPTION = "--task"
ASKED = "Do the features of an unseen {unit} say {what}?"
IN_WORDS = {
    "==": "is",
    "!=": "is not",
    ">=": "is at least",
    "<=": "is at most",
    ">": "is above",
    "<": "is below",
}
MOST_IN_TITLE = 6


@dataclass(frozen=True)
class AskedTask:
    """A task, and what it asks features; "" for a task of a protocol."""

    task: Task
    asks: str = ""


def with_tasks(
    protocol: Protocol, asked: Sequence[str], manifest: Manifest
) -> Protocol:
    """Return a protocol whose tasks are those that are asked for, each tested on itself."""
    if not asked:
        return protocol
    of_name: dict[str, AskedTask] = {}
    for text in asked:
        for name, asked_task in asked_tasks(text, protocol, manifest).items():
            if of_name.setdefault(name, asked_task).task != asked_task.task:
                raise FixUsage(
                    f"two tasks have the name {name}", hint="a run for each of them"
                )
    names = tuple(of_name)
    for name, asked_task in of_name.items():
        if SPLIT_KINDS[protocol.splits.kind].by_task and not asked_task.task.folds:
            raise FixUsage(
                f"the published splits of the protocol {protocol.name} have no folds for"
                f" the task {name}",
                hint="without splits.kind=published, honest leaves out each film",
            )
    # What the protocol asks and a paper prints is not about another task of the same name.
    kept = [name for name in names if of_name[name].task == protocol.tasks.get(name)]
    printed = [value for value in protocol.paper if value.test in kept]
    return replace(
        protocol,
        tasks={name: asked_task.task for name, asked_task in of_name.items()},
        grid=replace(protocol.grid, train=names, test=names, pairs="same"),
        report=replace(
            protocol.report,
            contrast=(),
            questions=_questions(protocol, of_name, kept),
        ),
        paper=tuple(value for value in printed if value.train in ("", value.test)),
    )


def _questions(
    protocol: Protocol, of_name: Mapping[str, AskedTask], kept: Sequence[str]
) -> tuple[Question, ...]:
    """Return the questions of a protocol, asked of other tasks; `kept` are those of the protocol.

    A question that compares a model with a baseline is about one task, and has its words.
    """
    asked = []
    unit = unit_of(protocol.splits.kind, protocol.splits.column)
    for question in protocol.report.questions:
        if not {question.first, question.second} & set(BASELINES):
            asked.append(replace(question, train="", test=""))
            continue
        for name, task in of_name.items():
            is_of_protocol = name in kept and name == question.test
            text = question.text
            if not is_of_protocol:
                text = ASKED.format(unit=unit, what=task.asks) if task.asks else ""
            asked.append(replace(question, text=text, train=name, test=name))
    return tuple(asked)


def one_task(
    text: str, protocol: Protocol, manifest: Manifest, option: str = TASK_OPTION
) -> tuple[str, AskedTask]:
    """Return the name and the task that is asked for; an error where there are several."""
    return _only_one(text, asked_tasks(text, protocol, manifest, option))


def _only_one(text: str, of_name: Mapping[str, AskedTask]) -> tuple[str, AskedTask]:
    """Return the only task that a text asks for, and its name; an error for several."""
    if len(of_name) > 1:
        raise FixUsage(
            f"expected one task, but the column {text} has one for each of its"
            f" {len(of_name)} words",
            hint=f"one of {', '.join(map(shell_word, of_name))}",
        )
    ((name, task),) = of_name.items()
    return name, task


def asked_tasks(
    text: str, protocol: Protocol, manifest: Manifest, option: str = TASK_OPTION
) -> dict[str, AskedTask]:
    """Return the tasks that are asked for, by name.

    Args:
        text: What is asked for.
        protocol: The protocol, which selects the clips.
        manifest: The clips.
        option: The option of the command that asks, which errors name.
    """
    if text in protocol.tasks:
        if text in manifest.columns and protocol.tasks[text].column != text:
            raise FixUsage(
                f"{text} is a task of the protocol {protocol.name}, and a column",
                hint=f"{text}=VALUE for the column, honest:{text} or FILE.toml:{text} for the task",
            )
        return {text: AskedTask(protocol.tasks[text])}
    place, colon, name = text.rpartition(":")
    if colon and (place.endswith(".toml") or place in protocol_names()):
        return {name: AskedTask(_task_of_protocol(place, name))}
    labels = _Labels(protocol.data, manifest, option)
    of_column = labels.tasks_of(text)
    if of_column:
        return of_column
    named = NAMED.fullmatch(text)
    unknown = named[1] if named else text
    is_task = named and (named[2] in labels.columns or not _is_of_words(named[2]))
    if named and is_task and unknown != DIFFERS:
        name, asked = named.groups()
        _check_name(name, protocol, labels)
        of_name = labels.tasks_of(asked) or labels.task_of_expression(asked)
        return {name: _only_one(asked, of_name)[1]}
    if _is_of_words(unknown):
        own = own_columns(manifest.columns)
        others = [name for name in labels.columns if name in manifest.columns]
        columns = [*dict.fromkeys((*own, *others, "level", "concept"))]
        known = [*protocol.tasks, *columns]
        hint = (
            f"one of {', '.join(protocol.tasks)}; or COLUMN, COLUMN=VALUE or 'COLUMN>=2', of the"
            f" columns {few(columns)}"
        )
        if text in manifest.header.concepts:
            hint = f"{option} {shell_word(f'concept={text}')}"
        elif named and named[2] in manifest.header.concepts:
            expression = f"{named[1]}={quoted_word(named[2])} in concept"
            hint = f"{option} {shell_word(expression)}"
        raise FixUsage(
            f"unknown task or column {unknown!r}{near(unknown, known)}", hint=hint
        )
    return labels.task_of_expression(text)


def _is_of_words(text: str) -> bool:
    """Return whether a text has words alone, so that it cannot be an expression."""
    is_plain = re.fullmatch(r"[\w .:+-]+", text)
    return bool(is_plain and not re.search(r"\b(in|not)\b", text))


def _check_name(name: str, protocol: Protocol, labels: "_Labels") -> None:
    """Raise an error for the name of a task that is no name, or means something else."""
    problem = ""
    if not TASK_NAME.fullmatch(name):
        problem = (
            "cannot be the name of a task: it has other signs than letters and digits"
        )
    elif name in labels.columns:
        problem = "is taken: it is a column"
    elif name in protocol.tasks:
        problem = "is taken: it is a task of the protocol"
    if problem:
        raise FixUsage(
            f"the name {name!r} {problem}",
            hint=f"{labels.option} NAME=EXPRESSION, with another NAME, such as violent",
        )


def _task_of_protocol(place: str, name: str) -> Task:
    """Return a task of the protocol that is named before a colon."""
    tasks = load_protocol(place, asked=[name]).tasks
    if name not in tasks:
        raise FixUsage(
            f"{place} has no task {name!r}{near(name, tasks)}",
            hint=f"one of {', '.join(tasks)}",
        )
    return tasks[name]


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
        """The clips in the view of the protocol for which its expression holds."""
        viewed = self.manifest.view(with_view(self.data, self.manifest).view)
        if not self.data.where:
            return list(viewed)
        where = parse(self.data.where, columns=self.manifest.columns)
        return [clip for clip in viewed if where.holds(clip.values)]

    def cells(self, column: str) -> list[str]:
        """Return the values in a column; of a clip with several, each of them."""
        values: list[str] = []
        for clip in self.clips:
            values += clip.values(column)
        return values

    def words(self, column: str) -> list[str]:
        """Return the words of a column."""
        return sorted(set(self.cells(column)))

    def require_known(self, expression: Expression) -> None:
        """Raise an error for an unknown column, or a word that a column does not have."""
        for column in expression.compared:
            values = self.words(column)
            for word in expression.values.get(column, ()):
                if plain_value(word, column) not in values:
                    raise self.unknown_word(column, word)

    def unknown_word(self, column: str, word: str) -> FixUsage:
        """Return the error of a word that no selected clip has in a column."""
        values = self.words(column)
        plain = plain_value(word, column)
        if any(plain in clip.values(column) for clip in self.manifest):
            hint = "change data.where"
            if column in ("level", *CONCEPTS):
                hint = f"--set {KEEPS_LEVELS} and concepts, or {hint}"
            return FixUsage(
                f"no selected clip has {word!r} in the column {column}, though others of"
                f" {self.manifest.name} have",
                hint=hint,
            )
        return FixUsage(
            f"the column {column} has no {word!r}{near(word, values)}",
            hint=f"one of its values: {few(values)}",
        )

    def tasks_of(self, text: str) -> dict[str, AskedTask]:
        """Return the tasks of a column, or of a column and a value; none of another text."""
        if text in self.columns:
            return self.tasks_of_column(text)
        for column in self.columns:
            # A word may have any signs, also those of an expression.
            if text.startswith(f"{column}="):
                word = text.removeprefix(f"{column}=")
                if word in self.cells(column):
                    return self.task_of_value(column, "==", word)
                # An import gives words that differ by capitals alone one spelling.
                for spelled in self.words(column):
                    if spelled.casefold() == word.casefold():
                        return self.task_of_value(column, "==", spelled)
        comparison = COMPARISON.fullmatch(text)
        if not comparison:
            return {}
        column, sign, value = (part.strip("\"'") for part in comparison.groups())
        if column not in self.columns:
            return {}
        if re.search(r" (and|or) ", value) and value not in self.cells(column):
            return {}  # a longer expression
        return self.task_of_value(column, "==" if sign == "=" else sign, value)

    def task_of_expression(self, text: str) -> dict[str, AskedTask]:
        """Return the task of the clips for which an expression holds, against the others."""
        positive = parse(
            text,
            columns=self.manifest.columns,
            vocabulary=self.manifest.header.concepts or None,
            where=f"{self.option} {text}",
        )
        self.require_known(positive)
        title = ""
        compared = [*positive.compared]
        if len(compared) == 1 and compared[0] in self.manifest.columns:
            title = text + self.against(compared[0], positive)
        task = Task(title=title, positive=positive.text)
        return {text: AskedTask(task, f"for which clips {text}")}

    def tasks_of_column(self, column: str) -> dict[str, AskedTask]:
        """Return the task of yes and no, or a task for each word."""
        values = self.words(column)
        if not values or (len(values) == 1 and column not in CONCEPTS):
            one = f"has one value, {values[0]!r}" if values else "is empty"
            raise FixInput(
                f"the column {column} {one}: a task needs two",
                where=self.manifest.name,
                hint="write another word, such as no, where it does not hold: clips with an"
                " empty cell are left out",
            )
        # Of yes and no, yes is positive; of other words, nobody said which.
        written = {value.lower(): value for value in values}
        for yes, no in YES_AND_NO:
            if len(values) == 2 and written.keys() == {yes, no}:
                (asked,) = self.task_of_value(column, "==", written[yes]).values()
                # A cell with both words is in both classes, which is an error.
                negative = f"{quoted_word(column)} == {quoted_word(written[no])}"
                task = replace(asked.task, negative=negative)
                return {column: replace(asked, task=task)}
        option = f"{self.option} {shell_word(f'{column}={values[0]}')}, or another word"
        if len(values) == 2:
            options = [
                f"{self.option} {shell_word(f'{column}={word}')}" for word in values
            ]
            option = " or ".join(options)
        problem = f"the column {column} has {count(len(values), 'word')}: {few(values)}"
        if has_numbers(self.cells(column)):
            # A word among many numbers is an error, which the task with a limit names.
            cells = filter(NUMBER.fullmatch, self.cells(column))
            numbers = sorted(cells, key=float)
            with_limit = shell_word(f"{column}>={limit_of(numbers)}")
            option = f"{self.option} {with_limit}"
            problem = (
                f"the column {column} has numbers from {numbers[0]} to {numbers[-1]}"
            )
        elif 2 < len(values) <= MOST_WORDS:
            tasks: dict[str, AskedTask] = {}
            for value in values:
                tasks |= self.task_of_value(column, "==", value)
            asks = f"which {column} a clip has"
            return {name: replace(asked, asks=asks) for name, asked in tasks.items()}
        raise FixUsage(f"{problem}; which are positive?", hint=option)

    def against(self, column: str, positive: Expression) -> str:
        """Return the other words of a column for the title of a task; not many numbers.

        Most clips without a concept have no other one either.
        """
        if column in CONCEPTS:
            return ""
        others = [
            word
            for word in self.words(column)
            if not positive.holds({column: [word]}.__getitem__)
        ]
        is_long = len(others) > MOST_IN_TITLE
        if not others or (is_long and has_numbers(others)):
            return ""
        shown = few(others, MOST_IN_TITLE) if is_long else " or ".join(others)
        return f", against {shown}"

    def task_of_value(self, column: str, sign: str, value: str) -> dict[str, AskedTask]:
        """Return the task of the clips that compare so with a value, against the other ones."""
        values = self.words(column)
        is_known = plain_value(value, column) in values
        if not is_known and sign[0] not in "<>":
            raise self.unknown_word(column, value)
        text = f"{quoted_word(column)} {sign} {quoted_word(value)}"
        require_numbers(parse(text), self.clips, self.manifest.name)
        name = f"{column}{'=' if sign == '==' else sign}{value}"
        words = f"{column} {IN_WORDS[sign]} {value}"
        title = words + self.against(column, parse(text))
        task = Task(title=title, positive=text)
        return {name: AskedTask(task, f"for which clips {words}")}
