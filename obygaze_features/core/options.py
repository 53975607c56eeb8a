"""Records of commands and their options, for all that a signature and docstring do not state.

A table of commands has one `Command` for each command. A parameter without an `Option` gets the
argument or option that its name and type determine. `core/function_commands.py` reads these
records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Option:
    """How a parameter is typed on the command line, and described in the help.

    Attributes:
        flag: The option, if it is not `--name-of-the-parameter`; blanks separate several names.
            A positional parameter with a flag is an option, not an argument.
        metavar: Placeholder for the value in the help.
        minimum: Smallest allowed number.
        maximum: Largest allowed number.
        above: Exclusive lower limit of a number, in place of `minimum`.
        separator: Separator of the items of a sequence that is typed as one word.
        shown_default: Default in the help, if the default of the function is None.
        group: Title of the section of the help that lists the option.
        exists: What must exist before the function is called: a file, a folder, or either ("path").
        is_file: Whether the path must not be a folder; it may be missing.
        is_repeated: Whether the option may be repeated, for a parameter that takes one value or
            several.
        is_clips: Whether the values are clip ids, or files that list clip ids.
        may_be_empty: Whether NAME or VALUE of NAME=VALUE may be empty.
    """

    flag: str = ""
    metavar: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    separator: str = ""
    shown_default: str = ""
    group: str = "Options"
    exists: Literal["", "file", "folder", "path"] = ""
    is_file: bool = False
    is_repeated: bool = False
    is_clips: bool = False
    may_be_empty: bool = False


@dataclass(frozen=True)
class Bar:
    """The progress bar that a command opens for a parameter `progress`.

    Attributes:
        label: Text before the bar.
        unit: Unit of the count, until the function sets its own.
    """

    label: str
    unit: str = "clips"


class PythonOnly:
    """Marks a parameter that only the Python function has, and not the command."""


PYTHON_ONLY = PythonOnly()

# The clips of a command; `core/clip_ids.py` reads the typed words.
CLIPS = Option("--clips", metavar="IDS|FILE", is_clips=True, is_repeated=True)

Options: TypeAlias = Mapping[str, Option | Bar | PythonOnly]


@dataclass(frozen=True)
class Command:
    """A command: the function that does its work, and how its parameters are typed.

    Attributes:
        target: The function, as `module:name`. Its module is imported when the command runs, not
            for the help.
        options: The options of `target` and `then`, by the name of the parameter.
        then: A function that is called with the result of `target`, or a method of this result, as
            `module:Class.method`. Its other parameters are options as well; an option that both
            functions have is passed to both. If `then` returns paths of files, the command names
            them; any other value is printed in place of the result.
        check: A function, as `module:name`, called with the options of `then` before `target`. It
            raises an error for values with which `then` would fail.
        takes_any_option: Whether unknown options, and `--`, are words of the first argument.
    """

    target: str
    options: Options = field(default_factory=dict)
    then: str = ""
    check: str = ""
    takes_any_option: bool = False
