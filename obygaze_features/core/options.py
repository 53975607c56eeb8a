"""What the command line needs to know about a parameter of a public function, beside its type.

These stand in the type of the parameter, in `Annotated[...]`. `core/function_commands.py` reads
them; a function that has them imports nothing of the command line.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Option:
    """The form of a parameter on the command line.

    Attributes:
        flag: The option, if it is not `--name-of-the-parameter`; several have blanks between them.
            A positional parameter becomes an option by it.
        metavar: The word for the value in the help.
        least: The least value of a number.
        most: The largest value of a number.
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


# The clips of a command: `core/clip_ids.py` says what may be typed.
CLIPS = Option("--clips", metavar="IDS|FILE", is_clips=True, is_repeated=True)


class PythonOnly:
    """A parameter that no command has."""


PYTHON_ONLY = PythonOnly()
