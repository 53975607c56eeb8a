"""Views of objects in a notebook: a repr of one line, a table of facts, a data frame."""

from collections.abc import Mapping, Sequence
from typing import Any

from obygaze_features.core.errors import UnknownName, near
from obygaze_features.core.untrusted_text import visible

MAX_REPR = 120


def short_repr(kind: str, *facts: object) -> str:
    """Return `Kind(fact, fact)` on one line of at most 120 characters.

    >>> short_repr("Manifest", "'films'", "80 clips", "6 films")
    "Manifest('films', 80 clips, 6 films)"
    """
    text = " ".join(f"{kind}({', '.join(map(str, facts))})".split())
    text = visible(text)
    return text if len(text) <= MAX_REPR else f"{text[: MAX_REPR - 5]} ...)"


def html_repr(
    title: str, facts: Mapping[str, object], sentences: Sequence[str] = ()
) -> str:
    """Return the HTML of an object in a notebook: title, sentences, and facts that have a value."""
    # Imported late: no --help needs it.
    from obygaze_features.core.rendering import render

    known = {name: value for name, value in facts.items() if value}
    return render("notebook.html", title=title, facts=known, sentences=sentences)


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a pandas data frame with the clip ids as index."""
    # Imported late: no --help needs it.
    import pandas as pd

    return pd.DataFrame(dict(columns)).set_index("clip_id")


def unknown_name(
    noun: str, name: object, names: Sequence[str], where: str
) -> UnknownName:
    """Return the error that an object has no such `noun`; it suggests the most similar name."""
    shown = f"use one of {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    hint = shown if names else f"it has no {noun}"
    return UnknownName(
        f"no {noun} {name!r}{near(str(name), names)}", where=where, hint=hint
    )
