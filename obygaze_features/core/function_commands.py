"""Click commands made from functions.

`make_command` makes the arguments, the options and the help of a command from the signature, the
types and the docstring of its function. The table of commands states what only the command line
needs, as records of `core/options.py`::

    def audit_mediaeval(
        runs: Sequence[str],
        *,
        precision: Literal["float32", "float64"] = "float32",
    ) -> MediaEvalAudit:
        \"\"\"Score runs of MediaEval 2015.

        Args:
            runs: The files of the runs.
            precision: How scores are compared.

        Commands:
            obygaze audit mediaeval --run run1.txt
        \"\"\"

    COMMANDS = {
        "mediaeval": Command("obygaze.audits:audit_mediaeval", {"runs": Option("--run")})
    }

Positional parameters and parameters without a default are arguments; all others are options. An
option for a sequence may be repeated, and a mapping is typed as `NAME=VALUE`. The parameters
`workspace`, `progress` and `note` are not options: the session passes them. `note` prints a note
while the function works.

The result of the function has `to_json()` and a text. The command prints one of them to stdout. For
None it prints nothing, or with --json a document without a result. The result may also have

- `warnings`, sentences for stderr; a warning may be a pair of a sentence and a hint,
- `notes`, and `details` for -v: sentences for stderr, which are not printed with --json,
- `require_ok()`, which raises an error after all is printed,
- `without_details`, a note that is printed without -v if there are `details`,
- `quiet_text`, the text that is printed with -q,
- `parts`, results whose texts and notes are printed instead of the text of the result,
- `exit_code`, the exit code of the command; the default is 0,
- `json_in_one_line`, true for scripts that read the last line of the output.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.types import OptionHelpExtra

from obygaze_features.core import system
from obygaze_features.core.commands import Session, SessionCommand, named_values
from obygaze_features.core.console import Console, count
from obygaze_features.core.declared import NamesOfTypes, import_object, read_declaration
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.options import Bar, Command, Option, Options, PythonOnly
from obygaze_features.core.value_types import (
    ClipWords,
    Items,
    NameOrPath,
    Number,
    OneOf,
    TypedPath,
)
from obygaze_features.core.written_tables import Listing

# The sections that the docstring of a public function may have.
SECTIONS = ("Args", "Commands", "Example", "Examples", "Raises", "Returns")
FROM_SESSION = ("workspace", "progress", "note")


def make_command(entry: Command, name: str) -> SessionCommand:
    """Return the click command for an entry of a table of commands.

    The command prints the result of the function, as JSON of `to_json()` or as text. If the entry
    has a function `then`, this function is called with the result, and the result of `then` is
    printed instead. If `then` returns paths of files, they are named in notes, and the first result
    is printed.
    """
    function = read_declaration(entry.target)
    then = read_declaration(entry.then) if entry.then else None
    check = import_object(entry.check) if entry.check else None
    params = make_parameters(function, entry.options)
    own_names = {param.name for param in params}
    params_of_then = []
    if then is not None:
        params_of_then = make_parameters(then, entry.options, skip_first=True)
    names_of_then = {param.name for param in params_of_then}
    params += [param for param in params_of_then if param.name not in own_names]

    def run(session: Session, /, **values: Any) -> None:
        given = typed_values(values, params)
        chosen = {key: value for key, value in given.items() if key in own_names}
        further = {key: value for key, value in given.items() if key in names_of_then}
        if check is not None:
            check(**further)
        bar = entry.options.get("progress")
        result = call_function(session, function, bar, **chosen)
        if then is not None:
            returned = call_function(session, then, None, result, **further)
            if isinstance(returned, list | tuple):
                rows = ""
                if returned and isinstance(result, Listing):
                    rows = f": {count(result.n_rows, 'row')}"
                for path in returned:
                    session.console.note(f"wrote {path}{rows}")
            else:
                result = returned
        show_result(session.console, result)

    about = parse_docstring(function).help
    return SessionCommand(
        name=name,
        params=params,
        callback=run,
        help=about,
        takes_any_option=entry.takes_any_option,
    )


def typed_values(
    values: Mapping[str, Any], params: Iterable[click.Parameter]
) -> dict[str, Any]:
    """Return the values of parameters, without repeatable parameters that were not typed."""
    repeatable = {param.name for param in params if param.multiple or param.nargs == -1}
    return {
        name: value
        for name, value in values.items()
        if value != () or name not in repeatable
    }


def show_result(console: Console, result: Any) -> None:
    """Print a result, its warnings and its notes, and exit with its exit code.

    For None, nothing is printed, or with --json a document without a result.
    """
    if result is None:
        if console.as_json:
            console.json({})
        return
    for warning in _optional_attribute(result, "warnings", ()):
        sentence, hint = (warning, "") if isinstance(warning, str) else warning
        console.warn(sentence, hint)
    if console.as_json:
        one_line = _optional_attribute(result, "json_in_one_line", False)
        console.json(result.to_json(), one_line=one_line)
    else:
        parts = _optional_attribute(result, "parts", [result])
        for part in parts:
            text = str(part)
            if console.verbosity < 0:
                text = _optional_attribute(part, "quiet_text", text)
            if text:
                console.result(text)
            if part is not result:
                _show_notes(console, part)
    if not console.as_json:
        _show_notes(console, result)
    if hasattr(result, "require_ok"):
        result.require_ok()
    exit_code = _optional_attribute(result, "exit_code", 0)
    if exit_code:
        click.get_current_context().exit(exit_code)


def _optional_attribute(result: Any, name: str, missing: Any) -> Any:
    """Return an optional attribute of a result, or `missing` if the result lacks it.

    An AttributeError that the attribute itself raises is not hidden.
    """
    is_there = inspect.getattr_static(result, name, None) is not None
    return getattr(result, name) if is_there else missing


def _show_notes(console: Console, result: Any) -> None:
    """Print the notes and details of a result to stderr."""
    for note in _optional_attribute(result, "notes", ()):
        console.note(note)
    details = _optional_attribute(result, "details", ())
    for detail in details:
        console.detail(detail)
    instead = _optional_attribute(result, "without_details", "")
    if instead and details and console.verbosity < 1:
        console.note(instead)


def make_parameters(
    function: Callable[..., Any],
    options: Options,
    *,
    skip_first: bool = False,
) -> list[click.Parameter]:
    """Return the arguments and options of click for the parameters of a function."""
    hints = _hints_of_parameters(function)
    texts = parse_docstring(function).parameters
    params: list[click.Parameter] = []
    for index, (name, parameter) in enumerate(
        inspect.signature(function).parameters.items()
    ):
        option = options.get(name, Option())
        if name in FROM_SESSION or (skip_first and index == 0):
            continue
        if not isinstance(option, Option):
            continue
        if name not in texts:
            raise TypeError(f"{function.__qualname__} does not describe {name!r}")
        params.append(_make_parameter(parameter, hints[name], option, texts[name]))
    return params


def _hints_of_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of parameters, without the type of the result.

    Modules may import types for type checkers only, so that commands start fast. Such a type is an
    empty class here.
    """
    annotations = dict(inspect.get_annotations(function))
    annotations.pop("return", None)
    described = types.SimpleNamespace(__annotations__=annotations)
    names = NamesOfTypes(inspect.unwrap(function).__globals__)
    return get_type_hints(described, {}, names)


def _make_parameter(
    parameter: inspect.Parameter, hint: Any, option: Option, text: str
) -> click.Parameter:
    """Return the argument or option of click for one parameter."""
    text = text.replace("`", "")
    settings = _click_settings(hint, option)
    if option.metavar:
        settings["metavar"] = option.metavar
    is_positional = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    is_required = parameter.default is inspect.Parameter.empty
    if not is_required:
        settings["default"] = parameter.default
    if is_positional and not option.flag:
        is_repeated = settings.pop("multiple", False)
        if is_repeated or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            settings["nargs"] = -1
        argument = click.Argument([parameter.name], required=is_required, **settings)
        vars(argument)["description"] = text  # read by SessionCommand
        return argument
    flag = option.flag or f"--{parameter.name.replace('_', '-')}"
    if settings.get("is_flag") and parameter.default is True:
        flag = f"{flag}/--no-{flag.removeprefix('--')}"
    if settings.get("multiple"):
        text = f"{text} Repeatable."
    if parameter.default == "":
        settings["show_default"] = False
    typed = _FunctionOption(
        [parameter.name, *flag.split()], required=is_required, help=text, **settings
    )
    typed.shown_default = option.shown_default
    vars(typed)["group"] = option.group  # read by SessionCommand
    return typed


def _click_settings(hint: Any, option: Option) -> dict[str, Any]:
    """Return the settings of click for values of a type."""
    choices = [inner for inner in _members(hint) if inner is not type(None)]
    if choices == [bool]:
        return {"is_flag": True}
    if choices == [int]:
        return {"type": Number(int, option.minimum, option.maximum)}
    if choices == [float]:
        minimum = option.minimum if option.above is None else option.above
        is_open = option.above is not None
        return {"type": Number(float, minimum, option.maximum, is_above=is_open)}
    if len(choices) == 1 and get_origin(choices[0]) is Literal:
        return {"type": OneOf(get_args(choices[0]))}
    if option.is_clips:
        return {"type": ClipWords(), "multiple": True, "callback": _join_items}
    if option.separator:
        return {"type": Items(option.separator)}
    if option.is_file:
        return {"type": TypedPath(dir_okay=False)}
    collections = [inner for inner in choices if get_origin(inner) is not None]
    if option.is_repeated:
        return _settings_of_items(collections[0], option)
    if option.exists and (str in choices or Path in choices):
        return {"type": _existing_path(option.exists)}
    if str in choices:
        is_path = any(get_origin(inner) is os.PathLike for inner in choices)
        return {"type": NameOrPath() if is_path or Path in choices else str}
    if Path in choices:
        return {"type": TypedPath(path_type=Path)}
    if len(collections) == 1:
        return _settings_of_items(collections[0], option)
    raise TypeError(f"no command line value for {hint!r}")


def _settings_of_items(hint: Any, option: Option) -> dict[str, Any]:
    """Return the settings of click for a sequence or a mapping."""
    item = get_args(hint)[0]
    if issubclass(get_origin(hint), Mapping):
        value_type = get_args(hint)[1]
        if not isinstance(value_type, type):
            value_type = system.typed_path  # a path, or one of several types
        convert = partial(_mapping, value_type, option.may_be_empty)
        return {"type": str, "multiple": True, "callback": convert}
    if get_origin(item) is tuple:
        return {"type": str, "multiple": True, "nargs": len(get_args(item))}
    of_item = _click_settings(item, replace(option, is_repeated=False))
    return {**of_item, "multiple": True}


def _mapping(
    value_type: type,
    may_be_empty: bool,
    ctx: click.Context,
    param: click.Parameter,
    words: Sequence[str],
) -> Mapping[str, Any] | tuple[()]:
    """Return the words NAME=VALUE of an option as a mapping; () if the option was not typed."""
    if not words:
        return ()
    flag = param.opts[0]
    hint = f"{ctx.command_path} --help"
    try:
        pairs = named_values(words, flag, may_be_empty=may_be_empty)
        return {name: value_type(text) for name, text in pairs.items()}
    except FixUsage as error:
        error.hint = hint
        raise
    except ValueError as error:
        raise FixUsage(f"{flag} must be {param.metavar}: {error}", hint=hint) from None


def _join_items(
    ctx: click.Context, param: click.Parameter, lists: Sequence[Sequence[str]]
) -> Sequence[str]:
    """Return the items in all words of a repeatable option; () if the option was not typed."""
    return tuple(chain.from_iterable(lists))


def _existing_path(kind: str) -> click.ParamType[Any]:
    return TypedPath(
        exists=True,
        dir_okay=kind != "file",
        file_okay=kind != "folder",
        path_type=Path,
    )


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or a single type."""
    if get_origin(hint) in {Union, types.UnionType}:
        return get_args(hint)
    return (hint,)


class _FunctionOption(click.Option):
    """An option whose default in the help may differ from the default of the function.

    The help states the range of a number in words.
    """

    shown_default = ""

    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Return the parts of the text in brackets after an option in the help."""
        extra = super().get_help_extra(ctx)
        if isinstance(self.type, Number) and self.type.range:
            extra["range"] = self.type.range
        if self.shown_default:
            extra["default"] = self.shown_default
        return extra


def call_function(
    session: Session,
    function: Callable[..., Any],
    bar: Option | Bar | PythonOnly | None,
    /,
    *args: Any,
    **values: Any,
) -> Any:
    """Call a function, and pass the workspace, a progress bar and `note` if it takes them."""
    hints = _hints_of_parameters(function)
    with ExitStack() as stack:
        if "note" in hints:
            values["note"] = session.console.note
        if "workspace" in hints:
            values["workspace"] = session.workspace.root
        if "progress" in hints:
            if isinstance(bar, Bar):
                shown = session.console.progress(bar.label, unit=bar.unit)
                values["progress"] = stack.enter_context(shown)
            else:
                values["progress"] = partial(session.console.progress, unit="steps")
        listed = _take_listed(function, values)
        # User code may print; stdout has only the result.
        stack.enter_context(redirect_stdout(sys.stderr))
        return function(*args, *listed, **values)


def _take_listed(function: Callable[..., Any], values: dict[str, Any]) -> list[Any]:
    """Remove from `values`, and return, all values up to those of a parameter like `*names`.

    Return no values if the function has no such parameter.
    """
    parameters = list(inspect.signature(function).parameters.values())
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return []
    last = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    before = [values.pop(parameter.name) for parameter in parameters[:last]]
    return [*before, *values.pop(parameters[last].name, ())]


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts: the text before the first section, and the sections."""

    about: str
    parameters: Mapping[str, str]
    commands: str

    @property
    def help(self) -> str:
        """The help of a command, with the text and with the commands as examples."""
        examples = f"\n\nExamples:\n{self.commands}" if self.commands else ""
        return f"{self.about}{examples}"


def parse_docstring(function: Callable[..., Any]) -> Docstring:
    """Return the parts of the docstring of a public function."""
    sections = _sections(function)
    commands = inspect.cleandoc("\n".join(["", *sections.get("Commands", [])]))
    return Docstring(
        about="\n".join(sections[""]).strip(),
        parameters=_described_parameters(sections.get("Args", [])),
        commands=commands,
    )


def _sections(function: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the lines of each section by title; lines before the first title have "" as title."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in lines:
        title = line.removesuffix(":")
        if line.endswith(":") and title in SECTIONS:
            current = title
            sections[current] = []
        else:
            sections[current].append(line)
    return sections


def _described_parameters(lines: Iterable[str]) -> dict[str, str]:
    """Return the text of each parameter of a section `Args:`."""
    texts: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc("\n".join(["", *lines])).splitlines():
        start = re.match(r"(\w+): (.*)", line)
        if start is not None:
            name = start[1]
            texts[name] = start[2]
        elif name and line.strip():
            texts[name] += f" {line.strip()}"
    return texts
