"""A promise that the program does not keep yet: the test says which assertion fails, and why.

A story that fails today has the mark `fails_today`. Its reason is the number of a known defect with
one sentence ("S5: a part of a large store cannot be verified"), or the name of the planned change
that brings what the story needs. The one assertion that fails is a call of `not_yet`. Every other
failure of the story stays a failure, so that a misspelt option is never taken for the defect. When
the promise is kept, the test fails: take the mark away and make the call a plain `assert`.
"""

from __future__ import annotations

import pytest


class NotYet(AssertionError):
    """The assertion of a story that fails today."""


def fails_today(reason: str, *, always: bool = True) -> pytest.MarkDecorator:
    """Mark a story with the defect or the issue because of which it fails.

    `always` is False where chance decides whether the defect shows.
    """
    return pytest.mark.xfail(raises=NotYet, strict=always, reason=reason)


def not_yet(holds: bool, promise: str) -> None:
    """Assert a promise that is not kept today."""
    if not holds:
        raise NotYet(promise)
