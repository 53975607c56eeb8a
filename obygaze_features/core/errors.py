"""Errors, each named after what the person can do about it, each with its exit code."""

from __future__ import annotations

from collections.abc import Sequence


class ObygazeError(Exception):
    """Something a person can act on: what happened, where, and what to type next.

    `details` are lines for a list that comes before the error: every violation of a file,
    every clip that failed.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint
        self.details = tuple(details)

    def __str__(self) -> str:
        """The three lines a person sees; lines that would be empty are left out."""
        lines = [self.what]
        if self.where:
            lines.append(f"  in: {self.where}")
        if self.hint:
            lines.append(f"  Try: {self.hint}")
        return "\n".join(lines)


class FixInput(ObygazeError):
    """A file or value from outside is not what it should be: correct it and run again."""


class NotFound(ObygazeError):
    """A manifest, store, clip or file that was named does not exist."""


class UnknownName(NotFound, KeyError):
    """An object has no clip, level or other part of this name; it is a KeyError too."""


class AlreadyThere(ObygazeError):
    """The result would replace something that exists: choose another name or say --force."""


class FixUsage(ObygazeError):
    """The command was given words it cannot use."""

    exit_code = 2


class InstallExtra(ObygazeError):
    """A package of an optional extra is not installed."""

    exit_code = 2


class Corrupt(ObygazeError):
    """Bytes are not what was promised: verification failed, fetch or extract them again."""

    exit_code = 4


class Mismatch(ObygazeError):
    """Two recipes, fingerprints or format versions do not go together."""

    exit_code = 5


class Stopped(ObygazeError):
    """Stopped cleanly on a signal: run the same command again to go on."""

    exit_code = 75


# Not an error: a run that reached its end although some clips failed exits with this.
EXIT_SOME_FAILED = 3
EXIT_INTERRUPTED = 130
