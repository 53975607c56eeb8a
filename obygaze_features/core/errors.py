"""Errors, each named after what the user can do about it, with its exit code."""

import difflib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.untrusted_text import one_line

# The user and password before the host of a URL, and the query, which may contain a signature.
# Either may contain quotes; a quote at the end of the query is of the sentence around the URL.
# Of a URL that was taken for a name, a path has one slash only. One letter is a Windows drive.
_SCHEME = r"\b(?:[A-Za-z]:/|[A-Za-z][A-Za-z0-9+.-]+:/?)/"
_USER = re.compile(rf"({_SCHEME})[^/?#\s]*@")
_QUERY = re.compile(
    rf"({_SCHEME}[^\s?]*)\?\S*?"
    r"(?=['\"]?[.,:;)]*(?:\s|$))"
)


def remove_secrets(text: str) -> str:
    """Return text in which URLs have no user, password or query: these may be secret."""
    if ":/" not in text:
        return text
    return _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", text))


def _line(text: str) -> str:
    """Return text as one line without secrets."""
    return one_line(remove_secrets(text))


# The arguments of Python functions whose options have other names: errors name options.
ARGUMENTS = {
    "--array": "array or arrays",
    "--as": "format",
    "--backbone": "backbone or backbones",
    "--column": "column or columns",
    "--film": "film_names, or film or films",
    "--format": "formats",
    "--hash": "hashes",
    "--id": "form",
    "--jobs": "n_jobs",
    "--map": "columns",
    "--model": "model or models",
    "--order": "orders",
    "--person": "people",
    "--set": "changes, a list",
    "--store": "store or stores",
    "--task": "task or tasks",
    "--tier": "tiers",
    "--with-labels": "labels",
    "--word": "words, or meanings",
}
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

# Clip ids are similar to each other, so an id is suggested for one or two typing errors only.
LIKE_IDS = 0.85


def near(word: str, words: Iterable[str], least: float = 0.6) -> str:
    """Return ` (did you mean 'x'?)` for the most similar known word, or "" if none is similar.

    If imports make a known id from the word, this id is suggested.

    Args:
        word: The word.
        words: The known words.
        least: Smallest similarity, from 0 to 1.
    """
    folded = {item.casefold(): item for item in words}
    similar = [ascii_id(word).casefold()]
    if similar[0] not in folded:
        similar = difflib.get_close_matches(word.casefold(), folded, 1, least)
    return f" (did you mean {folded[similar[0]]!r}?)" if similar else ""


def near_id(name: str, ids: Container[str]) -> str:
    """Return ` (did you mean 'x'?)` if imports make one of `ids` from a name, else ""."""
    made = ascii_id(name)
    return f" (did you mean {made!r}?)" if made != name and made in ids else ""


class ObygazeError(Exception):
    """An error that the user can act on: what happened, where, and what to type next.

    Args:
        message: What is wrong, in one line.
        where: The file, store or option with the problem.
        hint: What to do or type next.
        details: One line for each violation of a file or each failed clip. Commands print these
            lines before the error; a traceback shows them after the error.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        details: Sequence[str] = (),
    ) -> None:
        self.message = _line(message)
        super().__init__(self.message)
        self.where = where and _line(where)
        self.hint = _line(hint) if hint else None
        self.details = tuple(map(_line, details))
        # In Python, a traceback prints them below the text of the error.
        for line in self.details:
            self.add_note(f"  {line}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, since a subclass may have other parameters than this class."""
        return _unpickle, (type(self), self.args, vars(self))

    @property
    def text(self) -> str:
        """The error in at most three lines, as commands print it."""
        lines = [self.message]
        if self.where:
            lines.append(f"  in: {self.where}")
        if self.hint:
            lines.append(f"  Try: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the error for Python: a line names the arguments that options of the text are."""
        named = dict.fromkeys(_OPTION.findall(self.text))
        arguments = [f"{one} is {ARGUMENTS[one]}" for one in named if one in ARGUMENTS]
        if not arguments:
            return self.text
        return f"{self.text}\n  In Python: {'; '.join(arguments)}"


class ObygazeWarning(UserWarning):
    """A warning for the user; the work continues, and commands print it as one line."""


def _unpickle(
    kind: type[ObygazeError], args: tuple[Any, ...], state: Mapping[str, Any]
) -> ObygazeError:
    """Return an error from its pickled parts, such as an error of another process."""
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class FixInput(ObygazeError):
    """A file or value is invalid: correct it and run again."""


class NotFound(ObygazeError):
    """A manifest, store, clip or file does not exist: check the name."""


class UnknownName(NotFound, KeyError):
    """An object has no clip, array or column of this name; the error is also a KeyError."""


class AlreadyThere(ObygazeError):
    """The output exists: choose another name, or replace it with --force."""


class InUse(ObygazeError, PermissionError):
    """Windows cannot change a file that another program has open: close it in that program."""


class FixUsage(ObygazeError):
    """An option or argument is invalid: correct the command."""

    exit_code = 2


class InstallExtra(ObygazeError):
    """A package of an optional extra is not installed: install it."""

    exit_code = 2


class Corrupt(ObygazeError):
    """A file differs from its checksum or its format: fetch or extract it again."""

    exit_code = 4


class Mismatch(ObygazeError):
    """Two recipes, fingerprints or format versions do not match."""

    exit_code = 5


class Stopped(ObygazeError):
    """Stopped cleanly by a signal: run the same command again to continue."""

    exit_code = 75


def first_line(error: BaseException, most: int = 160) -> str:
    """Return the first line of another library's error, or the type of an error without text.

    The line has at most `most` characters.
    """
    lines = str(error).strip().splitlines()
    return (lines or [type(error).__name__])[0][:most]


# Not an error: the exit code of a run that finished although some clips failed.
EXIT_SOME_FAILED = 3
EXIT_INTERRUPTED = 130
