"""Click commands made from public functions.

The signature of a function, its types and its docstring are the only description of its
parameters: `command_of` makes the arguments, the options and the help of the command from them.
What only the command line needs to know about a parameter is an `Option` in its type::

    def audit_mediaeval(
        runs: Annotated[Sequence[str], Option("--run")],
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

A parameter without a default, and every positional one, is an argument; all others are options.
`workspace` and `progress` come from the session: they are no options.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import click

from obygaze_features.core.commands import FiniteRange, Session, SessionCommand

FROM_SESSION = ("workspace", "progress")
SECTIONS = ("Args", "Commands", "Example", "Examples", "Raises", "Returns")


@dataclass(frozen=True)
class Option:
    """What the command line needs to know about a parameter beside its type.

    Attributes:
        flag: The option, if it is not `--name-of-the-parameter`. A positional parameter becomes an
            option by it.
        metavar: The word for the value in the help.
        least: The least value of a number.
    """

    flag: str = ""
    metavar: str = ""
    least: float | None = None


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts: the text before the first section, and the sections."""

    about: str
    parameters: Mapping[str, str]
    commands: str


def command_of(
    function: Callable[..., Any],
    name: str,
    *,
    then: Callable[..., Sequence[Path]] | None = None,
    unit: str = "steps",
) -> SessionCommand:
    """Return the command of a public function.

    The result of the function is printed: as JSON with its `to_json()`, else as its text.

    Args:
        function: The function; its result has `to_json()`.
        name: The name of the command.
        then: A method of the result, whose parameters are further options, listed as "Results". It
            is called after the function, and the files that it returns are named.
        unit: What the progress bar counts.
    """
    described = parse_docstring(function)
    params = parameters_of(function)
    own_names = {param.name for param in params}
    if then is not None:
        for param in parameters_of(then, skip_self=True):
            if param.name in own_names:
                raise TypeError(
                    f"{function.__qualname__} and {then.__qualname__} both take {param.name!r}"
                )
            vars(param)["group"] = "Results"
            params.append(param)

    def run(session: Session, /, **values: Any) -> None:
        chosen = {key: value for key, value in values.items() if key in own_names}
        files = {key: value for key, value in values.items() if key not in own_names}
        result = function(**chosen, **_from_session(session, function, unit))
        if then is not None:
            for path in then(result, **files, **_from_session(session, then, unit)):
                session.console.note(f"wrote {path}")
        session.console.show(result.to_json(), str(result))

    text = described.about
    if described.commands:
        text = f"{text}\n\nExamples:\n{described.commands}"
    return SessionCommand(name=name, params=params, callback=run, help=text)


def parameters_of(
    function: Callable[..., Any], *, skip_self: bool = False
) -> list[click.Parameter]:
    """Return the arguments and options of the parameters of a function."""
    hints = get_type_hints(function, include_extras=True)
    texts = parse_docstring(function).parameters
    params: list[click.Parameter] = []
    for index, (name, parameter) in enumerate(
        inspect.signature(function).parameters.items()
    ):
        if name in FROM_SESSION or (skip_self and index == 0):
            continue
        if name not in texts:
            raise TypeError(f"{function.__qualname__} does not describe {name!r}")
        params.append(_param_of(parameter, hints[name], texts[name]))
    return params


def parse_docstring(function: Callable[..., Any]) -> Docstring:
    """Return the parts of a docstring in the form that all public functions have."""
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
    commands = inspect.cleandoc("\n".join(["", *sections.get("Commands", [])]))
    return Docstring(
        about="\n".join(sections[""]).strip(),
        parameters=_described_parameters(sections.get("Args", [])),
        commands=commands,
    )


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


def _param_of(parameter: inspect.Parameter, hint: Any, text: str) -> click.Parameter:
    """Return the argument or option of one parameter."""
    text = text.replace("`", "")
    hint, option = _split_annotated(hint)
    settings = _settings_of(hint, option)
    is_positional = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    is_required = parameter.default is inspect.Parameter.empty
    if is_positional and not option.flag:
        settings.pop("multiple", None)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            settings["nargs"] = -1
        if not is_required:
            settings["default"] = parameter.default
        argument = click.Argument([parameter.name], required=is_required, **settings)
        vars(argument)["description"] = text  # read by SessionCommand
        return argument
    flag = option.flag or f"--{parameter.name.replace('_', '-')}"
    if option.metavar:
        settings["metavar"] = option.metavar
    if not is_required:
        settings["default"] = parameter.default
    repeats = " Repeatable." if settings.get("multiple") else ""
    return click.Option(
        [parameter.name, flag], required=is_required, help=text + repeats, **settings
    )


def _split_annotated(hint: Any) -> tuple[Any, Option]:
    """Return a type without its annotations, and the `Option` among them."""
    if get_origin(hint) is not Annotated:
        return hint, Option()
    inner, *extras = get_args(hint)
    options = [extra for extra in extras if isinstance(extra, Option)]
    return inner, options[0] if options else Option()


def _settings_of(hint: Any, option: Option) -> dict[str, Any]:
    """Return what click must know about values of a type."""
    choices = [inner for inner in _members(hint) if inner is not type(None)]
    if choices == [bool]:
        return {"is_flag": True}
    if choices == [int]:
        return {"type": _whole_numbers(option.least)}
    if choices == [float]:
        return {"type": FiniteRange(min=option.least)}
    if len(choices) == 1 and get_origin(choices[0]) is Literal:
        return {"type": _Words(get_args(choices[0]))}
    if str in choices:
        return {"type": str}
    sequences = [inner for inner in choices if get_origin(inner) is not None]
    if len(sequences) == 1:
        item = get_args(sequences[0])[0]
        if get_origin(item) is tuple:
            return {"type": str, "multiple": True, "nargs": len(get_args(item))}
        return {**_settings_of(item, option), "multiple": True}
    raise TypeError(f"no command line value for {hint!r}")


def _whole_numbers(least: float | None) -> click.ParamType[int]:
    return click.INT if least is None else click.IntRange(min=int(least))


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type alone."""
    if get_origin(hint) in {Union, types.UnionType}:
        return get_args(hint)
    return (hint,)


class _Words(click.Choice[Any]):
    """One of the values of a `Literal`; a person may type `-` where it has `_`."""

    def normalize_choice(self, choice: Any, ctx: click.Context | None) -> str:
        """Return the form in which what was typed is compared with the values."""
        return super().normalize_choice(choice, ctx).replace("-", "_")


def _from_session(
    session: Session, function: Callable[..., Any], unit: str
) -> dict[str, Any]:
    """Return the workspace and the progress bar, as far as a function takes them."""
    values: dict[str, Any] = {
        "workspace": session.workspace.root,
        "progress": partial(session.console.progress, unit=unit),
    }
    names = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in names}
