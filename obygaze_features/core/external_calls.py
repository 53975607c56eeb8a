"""Calls of user code: each error names what failed, and the line of user code."""

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
# Folders of installed packages.
INSTALLED = ("site-packages", "dist-packages")
# Errors that NumPy, h5py, torch and PyAV raise for damaged files.
ERRORS_OF_DAMAGE = (
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
# The hint for an error in user code.
TRACEBACK = "run the same command with OBYGAZE_DEBUG=1 to see the traceback"


def call_user_code(function: Callable[[], T], subject: str) -> T:
    """Call user code and return its result; the message of its errors starts with `subject`.

    Errors of obygaze and errors of too little memory are raised unchanged.
    """
    try:
        return function()
    except (ObygazeError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        message = (
            f"{subject}: {type(error).__name__}: {first_line(error)}{_find_line(error)}"
        )
        raise FixInput(message, hint=TRACEBACK) from error


def short_value(value: object) -> str:
    """Return a value and its type for a message, in a few words."""
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def _find_line(error: BaseException) -> str:
    """Return the file and line of user code that an error came from, in brackets, or "".

    Code of installed packages, of obygaze and of Python is not user code.
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
