"""Calls of code that is not ours: every error says what failed, and the line of it."""

import reprlib
import struct
import sysconfig
import tokenize
import traceback
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from obygaze_features.core.errors import FixInput, ObygazeError, first_line
from obygaze_features.core.machine import is_out_of_memory

T = TypeVar("T")
OURS = ("obygaze", "obygaze_features", "obygaze_models")
# The names of folders of installed packages.
INSTALLED = ("site-packages", "dist-packages")
# What NumPy, h5py, torch and PyAV raise over damaged bytes.
FOREIGN_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    RuntimeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    SyntaxError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
# What to do about an error of code that is not ours.
TRACEBACK = "the same command with OBYGAZE_DEBUG=1 shows the traceback"


def call_foreign(function: Callable[[], T], subject: str) -> T:
    """Return the result of code that is not ours; errors, but for memory, name the `subject`."""
    try:
        return function()
    except (ObygazeError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        message = (
            f"{subject}: {type(error).__name__}: {first_line(error)}{_line_of(error)}"
        )
        raise FixInput(message, hint=TRACEBACK) from error


def short_value(value: object) -> str:
    """Return a value and its type for a message, in a few words."""
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def _line_of(error: BaseException) -> str:
    """Return the last line of somebody's own code before an error, in brackets; or "".

    Own code is what is neither installed nor part of obygaze or Python.
    """
    packages = Path(__file__).parents[2]
    not_own = [packages / name for name in OURS]
    not_own.append(Path(sysconfig.get_path("stdlib")))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.suffix != ".py" or {*INSTALLED} & set(file.parts):
            continue
        if not any(map(file.is_relative_to, not_own)):
            return f" ({file.name}, line {frame.lineno})"
    return ""
