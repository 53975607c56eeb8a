"""Read protocols: shipped ones by name, others by path, with the changes of `--set`.

Every violation of a file is listed at once, with its line (see core.schema_check).
"""

import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast

from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage, NotFound, near
from obygaze_features.core.schema_check import Document, read_toml
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.expression import (
    BadExpression,
    compared_names,
    parse,
)
from obygaze_features.manifest.model import LEVELS
from obygaze_models.evaluation.metrics import METRICS
from obygaze_models.models.registry import (
    BANK,
    BASELINES,
    KINDS,
    TEXTS,
    default_settings,
    find_kind,
    is_kind,
)
from obygaze_models.protocols.kinds import (
    GRID,
    candidates,
    for_task,
    problem_of,
)
from obygaze_models.protocols.paper_splits import SHIPPED_SCHEMES
from obygaze_models.protocols.schedule import (
    KEYS_OF_ALL,
    LEAVES_OUT_GROUPS,
    SPLIT_KINDS,
)
from obygaze_models.protocols.schema import (
    NONE,
    PROTOCOL_SCHEMA,
    Model,
    Protocol,
    Splits,
    Task,
)

MAX_BYTES = 1_000_000
BEST_OF_FOLDS = "best_of_folds"
# What says which clips are taken, and as what.
CHOICES_OF_CLIPS = frozenset(("data", "data.where", "data.view"))
# Of a task, what says which clips are positive and which are negative.
CLASSES_OF_TASK = frozenset(("classes", "positive", "negative", "column", "values"))
# What says which tasks are run.
CHOICES_OF_TASKS = ("grid.train", "grid.test", "grid.pairs", "report.contrast")


def protocol_names() -> list[str]:
    """Return the names of the shipped protocols."""
    return sorted(_protocol_files())


def _protocol_files() -> dict[str, Traversable]:
    """Return the file of each shipped protocol, by its name."""
    protocol_files = {}
    for item in files(__package__).joinpath("shipped").iterdir():
        if item.name.endswith(".toml"):
            protocol_files[item.name.removesuffix(".toml")] = item
    return protocol_files


def load_protocol(
    name: str | Path, changes: Sequence[str] = (), asked: Sequence[str] = ()
) -> Protocol:
    """Return the protocol of a name or of a file.

    Args:
        name: The name of a shipped protocol, or the path of a TOML file.
        changes: Keys to change, such as `splits.scheme=none`.
        asked: The tasks that are to be run (`tasks.with_tasks`); by default those of its grid.
    """
    known = _protocol_files()
    hint = f"a file NAME.toml, or one of {', '.join(sorted(known))}"
    text = system.typed_path(str(name))
    path = Path(text)
    if path.suffix == ".toml" or "/" in text:
        if not path.is_file():
            raise NotFound("no such protocol", where=str(path), hint=hint)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return parse_protocol(data, str(path), changes, asked)
    if str(name) not in known:
        message = f"unknown protocol {str(name)!r}{near(str(name), known)}"
        raise NotFound(message, hint=hint)
    data = known[str(name)].read_bytes()
    return parse_protocol(data, f"{name}.toml", changes, asked)


def parse_protocol(
    data: bytes,
    where: str,
    changes: Sequence[str] = (),
    asked: Sequence[str] = (),
) -> Protocol:
    """Return the protocol that a file of these bytes is; see `load_protocol`."""
    parsed_changes = [_parse_change(change) for change in changes]
    document = read_toml(data, where, max_bytes=MAX_BYTES)
    document.require_schema(PROTOCOL_SCHEMA, "protocol")
    in_file = set(_tables_in(document.tree, "tasks"))
    if not CHOICES_OF_CLIPS.isdisjoint(key for key, _ in parsed_changes):
        # The values of a paper are of the clips that its protocol takes.
        document.tree.pop("paper", None)
    overrides = {}
    for key, value in parsed_changes:
        overrides[key] = f"--set {key}"
        _set(document.tree, key, value)
    document.overrides = overrides
    document.tree.setdefault("name", Path(where).stem)
    models = _read_models(document)
    protocol = document.check(Protocol)
    if protocol is not None:
        protocol = _without_words_on_changed_tasks(protocol, overrides)
        protocol = replace(protocol, models=models)
        _check_parts(document, protocol)
        for name, task in protocol.tasks.items():
            _check_task(document, task, f"tasks.{name}")
        if not document.violations:
            _check_references(document, protocol)
            _check_models(document, protocol)
            _check_splits(document, protocol, asked or protocol.used_tasks)
            _check_every_task_is_run(document, protocol, in_file, asked)
    document.raise_if_any("the protocol is not valid")
    return cast(Protocol, protocol)


def _without_words_on_changed_tasks(
    protocol: Protocol, changed_keys: Collection[str]
) -> Protocol:
    """Return a protocol without what it asks and a paper prints of a task that was changed.

    Its title is that of other classes, too, but where it was typed.
    """
    changed: set[str] = set()
    tasks = dict(protocol.tasks)
    for key in changed_keys:
        section, *names = key.split(".")
        if section != "tasks":
            continue
        changed.update(names[:1] or protocol.tasks)
        is_of_classes = len(names) > 1 and names[1] in CLASSES_OF_TASK
        if is_of_classes and f"tasks.{names[0]}.title" not in changed_keys:
            tasks[names[0]] = replace(tasks[names[0]], title="")
    printed = []
    for value in protocol.paper:
        if changed.isdisjoint((value.train, value.test)):
            printed.append(value)
    questions = []
    for question in protocol.report.questions:
        if not changed.isdisjoint((question.train, question.test)):
            question = replace(question, text="")
        questions.append(question)
    report = replace(protocol.report, questions=tuple(questions))
    return replace(protocol, tasks=tasks, paper=tuple(printed), report=report)


def _parse_change(change: str) -> tuple[str, Any]:
    """Return the key and the value, read as TOML, or as a string where it is not valid TOML."""
    key, equals, value = change.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts) or len(parts) > 4:
        raise FixUsage(f"a change must be section.key=value, got {change!r}")
    try:
        return ".".join(parts), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError as error:
        if value.strip()[:1] in ("[", "{"):
            hint = "text in a list needs quotes: --set 'grid.models=[\"ridge\"]'"
            raise FixUsage(
                f"--set {key.strip()}: not valid TOML: {value}", hint=hint
            ) from error
        return ".".join(parts), value.strip()


def _set(tree: dict[str, Any], key_path: str, value: Any) -> None:
    *sections, key = key_path.split(".")
    # A grid in place of the value that a setting has.
    if key == GRID and len(sections) > 2:
        *sections, key = sections
        value = {GRID: value}
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise FixUsage(f"--set {key_path}: {section!r} is a value, not a table")
    tree[key] = value


def _tables_in(tree: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    """Return the tables of the models or tasks of a protocol; none where they are not tables."""
    tables = tree.get(section)
    return tables if isinstance(tables, dict) else {}


def _read_models(document: Document) -> dict[str, Model]:
    """Take the models out of a document, each with all settings of its kind; check them."""
    tables = document.tree.pop("models", {})
    if "models" in document.overrides:
        document.add(
            "models",
            "cannot be replaced as a whole: models.NAME.kind=KIND adds one, and grid.models says"
            " which are trained",
        )
        return {}
    if not isinstance(tables, dict):
        document.add("models", f"must be a table, got {tables!r}")
        return {}
    models = {}
    for name, table in tables.items():
        key_path = f"models.{name}"
        if not isinstance(table, dict):
            document.add(key_path, f"must be a table, got {table!r}")
            continue
        settings = dict(table)
        kind = settings.pop("kind", None)
        if kind is None:
            document.add(f"{key_path}.kind", "required key is missing")
        elif not isinstance(kind, str) or not is_kind(kind):
            document.unknown(f"{key_path}.kind", str(kind), KINDS, "kind of model")
        else:
            _check_settings(document, key_path, kind, settings)
            for key, value in settings.items():
                settings[key] = tuple(value) if isinstance(value, list) else value
            models[name] = Model(kind, {**default_settings(kind), **settings})
    return models


def _check_settings(
    document: Document, key_path: str, kind: str, settings: Mapping[str, Any]
) -> None:
    """Check the names and the values of a model's settings."""
    known = find_kind(kind).types
    for name in known.keys() - default_settings(kind).keys() - settings.keys():
        # A parameter of an own class may have a default that no file can state.
        if known[name] is not Any:
            document.add(f"{key_path}.{name}", "required key is missing")
    for name, value in settings.items():
        if name not in known:
            document.unknown(f"{key_path}.{name}", name, ["kind", *known])
            continue
        problem = problem_of(kind, name, value)
        if problem:
            document.add(f"{key_path}.{name}", f"{problem}, got {value!r}")


def _check_parts(document: Document, protocol: Protocol) -> None:
    """Check names of what comes with obygaze, and lists that must not have a value twice."""
    grid = protocol.grid
    report = protocol.report
    of_models = [name for name, metric in METRICS.items() if metric.direction]
    schemes = (NONE, *SHIPPED_SCHEMES)
    parts: tuple[tuple[str, Iterable[str], Collection[str], str], ...] = (
        ("splits.kind", [protocol.splits.kind], SPLIT_KINDS, "kind of splits"),
        ("grid.baselines", grid.baselines, BASELINES, "baseline"),
        ("report.primary", [report.primary], of_models, "metric"),
        ("report.metrics", report.metrics, METRICS, "metric"),
        ("splits.scheme", [protocol.splits.scheme], schemes, "scheme"),
    )
    for key, names, known, noun in parts:
        _check_known(document, key, names, known, noun)
    lists: dict[str, Sequence[object]] = {
        "data.array": protocol.data.array,
        "grid.train": grid.train,
        "grid.test": grid.test,
        "grid.models": grid.models,
        "grid.baselines": grid.baselines,
        "report.metrics": report.metrics,
        "report.contrast": report.contrast,
    }
    for key, values in lists.items():
        if len(set(values)) < len(values):
            document.add(key, f"must not list a value twice, got {[*values]!r}")


def checked_task(values: Mapping[str, Any]) -> Task:
    """Return the task with these keys of `[tasks.NAME]`, or raise one error of all violations."""
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
        document.add(key_path, "needs one of classes, positive and column")
    if task.negative and not task.positive:
        document.add(f"{key_path}.negative", "needs positive beside it")
    if task.series and not task.row:
        document.add(f"{key_path}.series", "needs row beside it")
    if bool(task.column) != bool(task.values):
        document.add(key_path, "column and values go together")
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
        # What else is a column is known beside the manifest.
        parse(text, columns=compared_names(text))
    except BadExpression as error:
        reason = error.message.removeprefix("label expression, ")
        document.add(key_path, f"{reason}: {text}")


def _check_bars(document: Document, protocol: Protocol) -> None:
    """Check that no two tasks have the same bar: only one of them would be drawn."""
    task_of_bar: dict[tuple[str, str], str] = {}
    for name, task in protocol.tasks.items():
        if not task.row:
            continue
        other = task_of_bar.setdefault((task.row, task.series or name), name)
        if other != name:
            problem = f"the same row and series as tasks.{other}"
            document.add(f"tasks.{name}.series", problem)


def _check_references(document: Document, protocol: Protocol) -> None:
    """Check that the sections fit together."""
    if not protocol.tasks:
        document.add("tasks", "needs at least one task")
    for key, names in (("tasks", protocol.tasks), ("models", protocol.models)):
        if "" in names:  # in results, an empty second side is none
            document.add(key, "has an empty name")
    _check_bars(document, protocol)
    _check_known(document, "grid.train", protocol.grid.train, protocol.tasks, "task")
    _check_known(document, "grid.test", protocol.grid.test, protocol.tasks, "task")
    for name in protocol.grid.models:
        if name in protocol.models:
            continue
        if is_kind(name):
            problem = f"the protocol has no model {name!r}: --set models.{name}.kind={name} adds it"
            document.add("grid.models", problem)
        else:
            document.unknown("grid.models", name, protocol.models, "model")
    _check_known(
        document, "report.contrast", protocol.report.contrast, protocol.tasks, "task"
    )
    for number, question in enumerate(protocol.report.questions):
        key = f"report.questions[{number}]"
        sides = (question.first, question.second)
        _check_sides(document, protocol, key, sides, (question.train, question.test))
    for number, value in enumerate(protocol.paper):
        key = f"paper[{number}]"
        _check_known(document, f"{key}.metric", [value.metric], METRICS, "metric")
        _check_sides(document, protocol, key, [value.model], (value.train, value.test))
    if len(protocol.report.contrast) not in (0, 2):
        document.add("report.contrast", "needs two training tasks, or none")
    if not protocol.model_names and not protocol.grid.baselines:
        document.add("grid", "needs a model or a baseline")
    if not protocol.pairs:
        document.add("grid", "no task both trains and tests")
    _check_expression(document, protocol.data.where, "data.where")


def _check_every_task_is_run(
    document: Document,
    protocol: Protocol,
    in_file: Collection[str],
    asked: Collection[str],
) -> None:
    """Check that a task of --set is run, and each task of a file where nothing chooses some."""
    choices = [key for key in CHOICES_OF_TASKS if key in document.overrides]
    if not protocol.report.contrast and "report.contrast" in choices:
        choices.remove("report.contrast")
    if asked:
        for key in choices:
            document.add(key, "is chosen by --task, which runs each task on itself")
    run = asked or protocol.used_tasks
    for name in protocol.tasks:
        is_chosen_away = name in in_file and (asked or choices)
        if name not in run and not is_chosen_away:
            document.add(
                f"tasks.{name}",
                "is in no pair of grid.train and grid.test, so it would not be run:"
                f" --task {shell_word(name)} runs it",
            )


def _check_sides(
    document: Document,
    protocol: Protocol,
    key: str,
    models: Iterable[str],
    tasks: Iterable[str],
) -> None:
    """Check that a question or a printed value is about models and tasks that are there."""
    known = [*protocol.models, *BASELINES]
    _check_known(document, key, filter(None, models), known, "model or baseline")
    _check_known(document, key, filter(None, tasks), protocol.tasks, "task")


def _check_known(
    document: Document,
    key_path: str,
    names: Iterable[str],
    known: Collection[str],
    noun: str,
) -> None:
    for name in names:
        if name not in known:
            document.unknown(key_path, name, known, noun)


def _check_models(document: Document, protocol: Protocol) -> None:
    """Check the names of models, and that their settings fit the splits."""
    for name, model in protocol.models.items():
        # Results of such a model would be taken for those of the baseline.
        if name in BASELINES:
            document.add(f"models.{name}", "is the name of a baseline; another name")
        kind = find_kind(model.kind)
        if kind.has_epochs:
            _check_epochs(document, protocol, name, model)
        if kind.head and model.settings[TEXTS]:
            _check_nothing_is_found(document, name, model)
    if protocol.splits.follow_scheme:
        return
    for name, model in protocol.models.items():
        if find_kind(model.kind).head:
            _check_concept_vectors(document, protocol, name, model)


def _check_epochs(
    document: Document, protocol: Protocol, name: str, model: Model
) -> None:
    """Check that each combination of settings of a perceptron allows the epochs that it needs."""
    for settings in _offered(protocol, model):
        least = settings["min_epochs"]
        most = settings["max_epochs"]
        if most < least:
            document.add(
                f"models.{name}.max_epochs",
                f"must be at least min_epochs, got {most} and min_epochs {least}",
            )
            return


def _offered(protocol: Protocol, model: Model) -> list[dict[str, Any]]:
    """Return each combination of settings of a model, for each task that it is trained on."""
    offered = []
    for settings in candidates(model):
        for task in protocol.train_tasks:
            offered.append(for_task(settings, task))
    return offered


def _check_nothing_is_found(document: Document, name: str, model: Model) -> None:
    """Check that a bottleneck of sentences has no settings of vectors that are found on clips."""
    default = default_settings(model.kind)
    for key in BANK:
        if model.settings[key] != default[key]:
            problem = "has no meaning with texts, which are the concept vectors"
            document.add(f"models.{name}.{key}", problem)


def _check_concept_vectors(
    document: Document, protocol: Protocol, name: str, model: Model
) -> None:
    """Check the settings of concept vectors outside of published splits with a scheme."""
    offered = _offered(protocol, model)
    needs_scheme = {BEST_OF_FOLDS: True, "tolerance": "folds"}
    for key, value in needs_scheme.items():
        if any(settings[key] == value for settings in offered):
            document.add(f"models.{name}.{key}", "needs published splits and a scheme")
    # Margins of clips on which the vectors were found would choose the widest store.
    has_own_margins = any(settings["cross_fit"] < 2 for settings in offered)
    if protocol.fit.choose_store and has_own_margins:
        document.add(f"models.{name}.cross_fit", "fit.choose_store needs 2 or more")


def _check_splits(document: Document, protocol: Protocol, run: Collection[str]) -> None:
    """Check that the splits have what their kind needs, and no key of another kind.

    Args:
        document: The file.
        protocol: What it says.
        run: The tasks that are run; those of `--task` may be no tasks of the protocol.
    """
    splits = protocol.splits
    kind = SPLIT_KINDS[splits.kind]
    for name in sorted(protocol.tasks.keys() & set(run)):
        if kind.by_task and not protocol.tasks[name].folds:
            document.add(
                f"tasks.{name}",
                f"{splits.kind} splits need the name of a fold column of the manifest: "
                f"--set {shell_word(f'tasks.{name}.folds=NAME')}",
            )
    if not all(getattr(splits, key) for key in kind.needs):
        needed = " and ".join(kind.needs)
        document.add("splits", f"{splits.kind} splits need {needed}")
    if splits.folds == 1:
        or_none = ", or 0 for one of each film" if kind.by_film else ""
        document.add("splits.folds", f"must be at least 2{or_none}, got 1")
    for key in fields(Splits):
        is_read = key.name in (*KEYS_OF_ALL, *kind.keys)
        if not is_read and getattr(splits, key.name) != key.default:
            problem = f"has no meaning in {splits.kind} splits"
            if key.name == "column":
                problem += f"; {LEAVES_OUT_GROUPS}"
            document.add(f"splits.{key.name}", problem)
    if splits.validation == "each" and not kind.pairs:
        problem = f"each has no meaning in {splits.kind} splits"
        document.add("splits.validation", problem)
    if protocol.balancing != "none" and not splits.follow_scheme:
        document.add("balancing", "needs published splits and a scheme")
