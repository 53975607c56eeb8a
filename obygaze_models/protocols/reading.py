"""Read protocols: shipped protocols by name, files by path, with the changes of `--set`.

All violations of a file are listed together, with their lines (see core.schema_check).
"""

import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage, NotFound, near
from obygaze_features.core.schema_check import Document, read_toml
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.expression import (
    BadExpression,
    parse,
)
from obygaze_features.manifest.model import LEVELS
from obygaze_models.models.registry import (
    BANK,
    BASELINES,
    KINDS,
    TEXTS,
    default_settings,
    find_kind,
    has_epochs,
    is_kind,
)
from obygaze_models.protocols.kinds import (
    GRID,
    candidates,
    find_problem,
    for_task,
    named_tasks,
)
from obygaze_models.protocols.schedule import (
    KEYS_OF_ALL,
    LEAVES_OUT_GROUPS,
    SPLIT_KINDS,
)
from obygaze_models.protocols.schema import (
    PROTOCOL_SCHEMA,
    Model,
    Protocol,
    Splits,
    Task,
)

MAX_BYTES = 1_000_000
# Keys that select clips and their labels.
CHOICES_OF_CLIPS = ("data", "data.where", "data.view")
# Keys of a task that define its classes.
CLASSES_OF_TASK = ("classes", "positive", "negative", "column", "values")
# Keys that select the tasks to run.
CHOICES_OF_TASKS = ("grid.train", "grid.test", "grid.pairs", "report.contrast")


def protocol_names() -> list[str]:
    """Return the names of the shipped protocols."""
    return sorted(_protocol_files())


def _protocol_files() -> dict[str, Traversable]:
    """Return the file of each shipped protocol, by name."""
    shipped = files(__package__).joinpath("shipped").iterdir()
    return {
        item.name.removesuffix(".toml"): item
        for item in shipped
        if item.name.endswith(".toml")
    }


def load_protocol(
    name: str | Path, changes: Sequence[str] = (), asked: Sequence[str] = ()
) -> Protocol:
    """Return a protocol by its name or from a file.

    Args:
        name: The name of a shipped protocol, or the path of a TOML file.
        changes: Keys to change, such as `splits.scheme=none`.
        asked: The tasks to run (`tasks.with_tasks`); empty: the tasks of the grid.
    """
    where, data = _read_bytes(name)
    return parse_protocol(data, where, changes, asked)


def text_of_protocol(name: str | Path) -> str:
    """Return the text of the file of a protocol, which may be a shipped one."""
    return _read_bytes(name)[1].decode("utf-8")


def _read_bytes(name: str | Path) -> tuple[str, bytes]:
    """Return the name of the file of a protocol, and its first bytes."""
    known = _protocol_files()
    hint = f"use a file NAME.toml, or one of {', '.join(sorted(known))}"
    text = system.typed_path(str(name))
    path = Path(text)
    if path.suffix == ".toml" or "/" in text:
        if not path.is_file():
            raise NotFound("missing protocol file", where=str(path), hint=hint)
        with path.open("rb") as file:
            return str(path), file.read(MAX_BYTES + 1)
    if text not in known:
        message = f"unknown protocol {text!r}{near(text, known)}"
        raise NotFound(message, hint=hint)
    return f"{text}.toml", known[text].read_bytes()


def parse_protocol(
    data: bytes,
    where: str,
    changes: Sequence[str] = (),
    asked: Sequence[str] = (),
) -> Protocol:
    """Return the protocol from the bytes of a file; see `load_protocol`."""
    changed = dict(map(_parse_change, changes))
    document = read_toml(data, where, max_bytes=MAX_BYTES)
    document.require_schema(PROTOCOL_SCHEMA, "protocol")
    document.overrides = {key: f"--set {key}" for key in changed}
    tasks_of_file = document.tree.get("tasks", {})
    in_file = {*tasks_of_file} if isinstance(tasks_of_file, dict) else set()
    if not {*CHOICES_OF_CLIPS}.isdisjoint(changed):
        # Published values hold only for the clips of the unchanged protocol.
        document.tree.pop("paper", None)
    for key, value in changed.items():
        _set(document.tree, key, value)
    document.tree.setdefault("name", Path(where).stem)
    models = _read_models(document, document.tree.pop("models", {}))
    protocol = document.check(Protocol)
    if protocol is not None:
        protocol = _without_words_on_changed_tasks(protocol, changed)
        protocol = replace(protocol, models=models)
        for name, task in protocol.tasks.items():
            _check_task(document, task, f"tasks.{name}")
        if not document.violations:
            _check_names(document, protocol)
            _check_bars(document, protocol)
            _check_lead(document, protocol)
            _check_models(document, protocol, asked)
            run = {*asked} or protocol.used_tasks
            _check_splits(document, protocol, run)
            _check_every_task_is_run(document, protocol, in_file, asked)
    document.raise_if_any("the protocol is not valid")
    return cast(Protocol, protocol)


def _without_words_on_changed_tasks(
    protocol: Protocol, changed_keys: Collection[str]
) -> Protocol:
    """Return a protocol without texts and published values that hold for unchanged tasks only.

    If the classes of a task were changed, its title is removed, unless the title was also changed.
    """
    tasks = dict(protocol.tasks)
    changed: set[str] = set()
    for name, task in protocol.tasks.items():
        keys = [key for key in changed_keys if f"{key}.".startswith(f"tasks.{name}.")]
        if keys or "tasks" in changed_keys:
            changed.add(name)
        is_of_classes = {f"tasks.{name}.{key}" for key in CLASSES_OF_TASK} & {*keys}
        if is_of_classes and f"tasks.{name}.title" not in keys:
            tasks[name] = replace(task, title="")
    printed = []
    for value in protocol.paper:
        if changed.isdisjoint((value.train, value.test)):
            printed.append(value)
    report = protocol.report
    if protocol.pairs and not changed.isdisjoint(protocol.pairs[0]):
        report = replace(report, ask="")
    return replace(protocol, tasks=tasks, paper=tuple(printed), report=report)


def require_each_once(changes: Sequence[str]) -> None:
    """Raise an error for a key with two values, because one value would be ignored.

    A value of a table, such as `grid`, also counts as a value of its keys, such as `grid.models`.
    """
    if isinstance(changes, str):
        raise FixUsage(
            f"expected a list of changes, got {changes!r}",
            hint=f"use changes=[{changes!r}]",
        )
    keys = sorted((f"{one.partition('=')[0].strip()}.", one) for one in {*changes})
    for (key, first), (next_key, second) in pairwise(keys):
        if next_key.startswith(key):
            hint = "use one of them; to combine two conditions of data.where, write (A) and (B)"
            is_table = first.partition("=")[2].strip().startswith("{")
            if is_table and next_key != key:
                hint = f"use one --set for each key: {key}KEY=VALUE"
            raise FixUsage(
                f"one key has two values: --set {first} and --set {second}", hint=hint
            )


def _parse_change(change: str) -> tuple[str, Any]:
    """Return the key and the value: parsed as TOML, or a string if it is not valid TOML."""
    key, equals, value = change.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) > 4:
        raise FixUsage(f"expected --set SECTION.KEY=VALUE, got {change!r}")
    try:
        return ".".join(parts), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError as error:
        if value.strip()[:1] in ("[", "{"):
            raise FixUsage(
                f"--set {key.strip()}: not valid TOML: {value}",
                hint="put text in a list into quotes: --set 'grid.models=[\"ridge\"]'",
            ) from error
        return ".".join(parts), value.strip()


def _set(tree: dict[str, Any], key_path: str, value: Any) -> None:
    *sections, key = key_path.split(".")
    # `models.x.C.grid=[...]` replaces the value of `models.x.C`.
    if key == GRID and len(sections) > 2:
        *sections, key = sections
        value = {GRID: value}
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise FixUsage(f"--set {key_path}: {section!r} is a value, not a table")
    tree[key] = value


def _read_models(document: Document, tables: Any) -> dict[str, Model]:
    """Return the models of a document, each with all settings of its type; check them."""
    models = {}
    if not isinstance(tables, dict):
        document.add("models", f"must be a table, got {tables!r}")
        return {}
    for name, table in tables.items():
        key_path = f"models.{name}"
        settings = dict(table) if isinstance(table, dict) else {}
        kind = settings.pop("kind", None)
        if kind is None:
            likely = name if is_kind(name) else "MODEL_TYPE"
            needed = f"needs a kind: --set {key_path}.kind={likely} gives it one"
            document.add(key_path, needed)
            continue
        if not isinstance(kind, str) or not is_kind(kind):
            document.unknown(f"{key_path}.kind", str(kind), KINDS, "model type")
            continue
        known = find_kind(kind).types
        defaults = default_settings(kind)
        for key in known.keys() - defaults.keys() - settings.keys():
            # A parameter of user code may have a default that TOML cannot express.
            if known[key] is not Any:
                document.add(f"{key_path}.{key}", "required key is missing")
        for key, value in settings.items():
            if key not in known:
                document.unknown(f"{key_path}.{key}", key, ["kind", *known])
                continue
            problem = find_problem(kind, key, value)
            if problem:
                document.add(f"{key_path}.{key}", f"{problem}, got {value!r}")
            settings[key] = tuple(value) if isinstance(value, list) else value
        models[name] = Model(kind, {**defaults, **settings})
    return models


def parse_task(values: Mapping[str, Any]) -> Task:
    """Return the task with these keys of `[tasks.NAME]`, or raise an error with all violations."""
    document = Document(values, "task")
    task = document.check(Task)
    if task is not None:
        _check_task(document, task, "task")
    document.raise_if_any("the task is not valid")
    return cast(Task, task)


def _check_task(document: Document, task: Task, key_path: str) -> None:
    """Check that a task defines its classes in exactly one way, with valid expressions."""
    ways = [bool(task.classes), bool(task.positive), bool(task.column)]
    if sum(ways) != 1:
        document.add(key_path, "must have exactly one of classes, positive and column")
    if task.negative and not task.positive:
        document.add(f"{key_path}.negative", "requires the key positive")
    if task.series and not task.row:
        document.add(f"{key_path}.series", "requires the key row")
    if bool(task.column) != bool(task.values):
        document.add(key_path, "must have both column and values, or neither")
    for key, values in (("classes", task.classes), ("values", task.values)):
        if values and set(values.values()) != {0, 1}:
            document.add(f"{key_path}.{key}", "must name a class 0 and a class 1")
    _check_known(document, f"{key_path}.classes", task.classes, LEVELS, "level")
    _check_expression(document, task.positive, f"{key_path}.positive")
    _check_expression(document, task.negative, f"{key_path}.negative")


def _check_expression(document: Document, text: str, key_path: str) -> None:
    if not text:
        return
    try:
        parse(text)
    except BadExpression as error:
        reason = error.message.removeprefix("label expression: ")
        document.add(key_path, f"{reason}: {text}")


def _check_known(
    document: Document,
    key_path: str,
    names: Iterable[str],
    known: Collection[str],
    noun: str,
) -> None:
    """Check that each name is known; empty names are allowed."""
    for name in names:
        if name and name not in known:
            document.unknown(key_path, name, known, noun)


def _check_names(document: Document, protocol: Protocol) -> None:
    """Check names of tasks and models, and lists for duplicates."""
    grid = protocol.grid
    report = protocol.report
    tasks = protocol.tasks
    for name in grid.models:
        if name in KINDS and name not in protocol.models:
            defined = f"--set models.{name}.kind={name} defines it"
            document.add("grid.models", f"undefined model {name!r}; {defined}")
        else:
            _check_known(document, "grid.models", [name], protocol.models, "model")
    for key, names in (
        ("grid.train", grid.train),
        ("grid.test", grid.test),
        ("report.contrast", report.contrast),
    ):
        _check_known(document, key, names, tasks, "task")
    parts: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
    for number, value in enumerate(protocol.paper):
        parts.append((f"paper[{number}]", (value.model,), (value.train, value.test)))
    known = [*protocol.models, *BASELINES]
    for key, sides, of_tasks in parts:
        _check_known(document, key, sides, known, "model or baseline")
        _check_known(document, key, of_tasks, tasks, "task")
    for section in ("data", "grid", "report"):
        for key, values in vars(getattr(protocol, section)).items():
            is_list = isinstance(values, tuple) and key != "notes"
            if is_list and len({*values}) < len(values):
                problem = f"must not list a value twice, got {[*values]!r}"
                document.add(f"{section}.{key}", problem)
    for name in protocol.models.keys() & {*BASELINES}:
        document.add(
            f"models.{name}", "is the name of a baseline: use a different name"
        )
    if len(report.contrast) not in (0, 2):
        document.add("report.contrast", "must list two training tasks, or none")
    if not protocol.pairs or not (protocol.model_names or grid.baselines):
        problem = "must have a training task and a test task, and a model or a baseline"
        document.add("grid", problem)
    _check_expression(document, protocol.data.where, "data.where")


def _check_bars(document: Document, protocol: Protocol) -> None:
    """Check that no two tasks have the same bar, because only one would be drawn."""
    task_of_bar: dict[tuple[str, str], str] = {}
    for name, task in protocol.tasks.items():
        other = task_of_bar.setdefault((task.row, task.series or name), name)
        if task.row and other != name:
            problem = f"has the same row and series as tasks.{other}"
            document.add(f"tasks.{name}.series", problem)


def _check_every_task_is_run(
    document: Document,
    protocol: Protocol,
    in_file: Collection[str],
    asked: Collection[str],
) -> None:
    """Check that no task is ignored.

    Tasks that --set defines must be run. If neither --task nor --set selects tasks, all tasks of
    the file must be run.
    """
    choices = {key for key in CHOICES_OF_TASKS if key in document.overrides}
    if not protocol.report.contrast:
        choices.discard("report.contrast")
    for key in choices if asked else ():
        document.add(key, "cannot be used with --task, which tests each task on itself")
    for name in protocol.tasks.keys() - {*(asked or protocol.used_tasks)}:
        if name not in in_file or not (asked or choices):
            document.add(
                f"tasks.{name}",
                "is in no pair of grid.train and grid.test, so it would not be run: use"
                f" --task {shell_word(name)} to run it",
            )


def _check_lead(document: Document, protocol: Protocol) -> None:
    """Check that `report.lead` and `report.against` are models of the protocol.

    A model that --set or --model excludes from the run is accepted from the file: the run is then
    about the models that are left.
    """
    report = protocol.report
    for key, name in (("lead", report.lead), ("against", report.against)):
        place = f"report.{key}"
        is_typed = place in document.overrides
        known = protocol.model_names if is_typed else protocol.models
        if name and name not in known:
            document.add(place, f"unknown model {name!r}{near(name, known)}")
    if "report.against" in document.overrides and report.against and not report.lead:
        document.add("report.against", "needs report.lead, which is compared with it")


def _check_models(
    document: Document, protocol: Protocol, asked: Collection[str]
) -> None:
    """Check settings that depend on other settings, on the tasks or on the splits."""
    overrides = document.overrides
    # A grid of --set may exclude the models for which the file has several seeds.
    starts_at_random = "grid.models" in overrides and "fit.seeds" not in overrides
    for name, model in protocol.models.items():
        starts_at_random |= name in protocol.model_names and has_epochs(model.kind)
        for task in sorted(named_tasks(model) - {*protocol.tasks}):
            # A name of --task is a part of what is typed, or begins with it.
            if not any(task in typed or typed in task for typed in asked):
                document.unknown(f"models.{name}", task, protocol.tasks, "task")
        defaults = default_settings(model.kind)
        offered = []
        for settings in candidates(model):
            offered += [for_task(settings, task) for task in protocol.train_tasks]
        problems: dict[str, str] = {}
        for settings in offered:
            if settings.get("max_epochs", 1) < settings.get("min_epochs", 0):
                problems["max_epochs"] = "must be at least min_epochs"
            for key in BANK:
                if settings.get(TEXTS) and settings.get(key) != defaults.get(key):
                    problems[key] = (
                        "has no effect with texts, which are the concept vectors"
                    )
            if protocol.splits.follow_scheme or not find_kind(model.kind).head:
                continue
            for key, value in (("best_of_folds", True), ("tolerance", "folds")):
                if settings[key] == value:
                    problems[key] = "needs published splits and a scheme"
        for key, problem in problems.items():
            document.add(f"models.{name}.{key}", problem)
    if protocol.fit.seeds > 1 and not starts_at_random:
        document.add("fit.seeds", "has no effect without a model of the kind mlp")


def _check_splits(document: Document, protocol: Protocol, run: Collection[str]) -> None:
    """Check that the splits have all keys that their type requires, and no other keys.

    Args:
        document: The file.
        protocol: The protocol of the file.
        run: The names of the tasks to run; tasks of `--task` can be missing in the protocol.
    """
    splits = protocol.splits
    kind = SPLIT_KINDS[splits.kind]
    for name in sorted(protocol.tasks.keys() & run):
        if kind.by_task and not protocol.tasks[name].folds:
            document.add(
                f"tasks.{name}",
                f"{splits.kind} splits need the name of a fold column of the manifest: use"
                f" --set {shell_word(f'tasks.{name}.folds=NAME')}",
            )
    if not all(getattr(splits, key) for key in kind.needs):
        needed = " and ".join(kind.needs)
        document.add("splits", f"{splits.kind} splits need {needed}")
    if splits.folds == 1:
        or_none = ", or 0 for one fold per film" if kind.by_film else ""
        document.add("splits.folds", f"must be at least 2{or_none}, got 1")
    for key in fields(Splits):
        is_read = key.name in (*KEYS_OF_ALL, *kind.keys)
        if not is_read and getattr(splits, key.name) != key.default:
            problem = f"has no effect in {splits.kind} splits"
            if key.name == "column":
                problem += f"; {LEAVES_OUT_GROUPS}"
            document.add(f"splits.{key.name}", problem)
    if splits.validation == "each" and not kind.pairs:
        problem = f"cannot be 'each' in {splits.kind} splits"
        document.add("splits.validation", problem)
    if protocol.balancing != "none" and not splits.follow_scheme:
        document.add("balancing", "needs published splits and a scheme")
