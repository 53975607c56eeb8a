"""What the command line needs to know about a function, beside its signature and docstring.

A table of commands has a `Command` for each of its commands. A parameter without an `Option` is
typed as its name and its type say. `core/function_commands.py` reads these records.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Option:
    """The form of a parameter on the command line.

    Attributes:
        flag: The option, if it is not `--name-of-the-parameter`; several have blanks between them.
            A positional parameter becomes an option by it.
        metavar: The word for the value in the help.
        least: Smallest allowed number.
        most: Largest allowed number.
        above: What a number must be larger than, in place of `least`.
        separator: What stands between the items of a sequence that is typed as one word.
        shown_default: The default in the help, where the function has None for it.
        group: The title under which the help lists it.
        exists: What must exist under this path before the function is called.
        is_file: Whether this path must not be a folder; it need not exist.
        is_repeated: Whether several may be typed, where the function takes one or several.
        is_clips: Whether these are ids of clips, or files that list them.
        may_be_empty: Whether of NAME=VALUE one of the two may be empty.
    """

    flag: str = ""
    metavar: str = ""
    least: float | None = None
    most: float | None = None
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
    """One progress bar, which the command opens for a parameter `progress`.

    Attributes:
        label: The word before the bar.
        unit: What it counts until the function says what it counts.
    """

    label: str
    unit: str = "clips"


class PythonOnly:
    """A parameter that no command has."""


PYTHON_ONLY = PythonOnly()

# The clips of a command: `core/clip_ids.py` says what may be typed.
CLIPS = Option("--clips", metavar="IDS|FILE", is_clips=True, is_repeated=True)

Options: TypeAlias = Mapping[str, Option | Bar | PythonOnly]


@dataclass(frozen=True)
class Command:
    """A command: the function that does its work, and the form of its parameters.

    Attributes:
        target: The function, as `module:name`. Its module is imported when the command runs, and
            not for its help.
        options: The form of parameters of `target` and `then`, by name.
        then: A method of the result, as `module:Class.method`, or a function that takes the
            result. Its other parameters are further options; an option of both is given to both.
            It is called after `target`; if it returns the paths of files, these are named; what
            else it returns is printed in place of the result.
        check: A function, as `module:name`, that is called with these options before `target`, and
            raises an error for values that would fail after its work.
        takes_any_option: Whether unknown options, and `--`, are words of its first argument.
    """

    target: str
    options: Options = field(default_factory=dict)
    then: str = ""
    check: str = ""
    takes_any_option: bool = False
