"""What an annotator wrote in the form of the page and did not save: it outlives the window.

The file `segments/MANIFEST.NAME.drafts.json` has the latest forms by the ids of their marks. A
draft is no mark: no other program reads it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from obygaze.films.marks import ID, MAX_COMMENT
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import canonical_json, locked, write_atomic

MAX_DRAFTS = 50
Draft = dict[str, Any]


@dataclass(frozen=True)
class DraftTable:
    """The drafts of one annotator."""

    path: Path

    def of_film(self, movie_id: str) -> list[Draft]:
        """Return the drafts of a film, the newest first."""
        drafts = [
            draft for draft in self._read().values() if draft["movie_id"] == movie_id
        ]
        return sorted(drafts, key=lambda draft: str(draft["when"]), reverse=True)

    def save(self, movie_id: str, mark: Any, form: Any) -> None:
        """Keep a form, or forget it if it is None; of many drafts the oldest is forgotten."""
        if not isinstance(mark, str) or not ID.fullmatch(mark):
            raise FixInput("mark: expected an id")
        checked_form = None if form is None else _checked(form)
        with locked(self.path.parent):
            drafts = self._read()
            was_there = drafts.pop(mark, None) is not None
            if checked_form is None and not was_there:
                return
            if checked_form is not None:
                when = datetime.now(UTC).isoformat(timespec="microseconds")
                draft = {"movie_id": movie_id, "mark": mark, "when": when}
                drafts[mark] = {**draft, "form": checked_form}
            newest = sorted(drafts.values(), key=lambda draft: str(draft["when"]))
            write_atomic(self.path, canonical_json(newest[-MAX_DRAFTS:]))

    def _read(self) -> dict[str, Draft]:
        """Return the drafts by mark; none from a file that somebody damaged."""
        try:
            drafts = json.loads(self.path.read_bytes())
            return {draft["mark"]: draft for draft in drafts if _is_draft(draft)}
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return {}


def _is_draft(draft: Any) -> bool:
    """Whether a value of the file is a draft."""
    return {"movie_id", "mark", "when", "form"} == set(draft)


def _checked(form: Any) -> Draft:
    """Return the values of a form; an error where they are of another kind."""
    if not isinstance(form, Mapping):
        raise FixInput("form: expected an object")
    checked: Draft = {}
    for name in ("start_frame", "end_frame", "version"):
        value = form.get(name)
        if value is not None and type(value) is not int:
            raise FixInput(f"{name}: expected a whole number")
        checked[name] = value
    for name in ("level", "comment", "state"):
        value = form.get(name) or ""
        if not isinstance(value, str) or len(value) > MAX_COMMENT:
            raise FixInput(f"{name}: expected a text")
        checked[name] = value
    concepts = form.get("concepts") or []
    if not isinstance(concepts, list) or not all(
        isinstance(name, str) for name in concepts
    ):
        raise FixInput("concepts: expected a list of names")
    checked["concepts"] = concepts
    cells = form.get("more") or {}
    if not isinstance(cells, dict) or not all(
        isinstance(cell, str) for cell in cells.values()
    ):
        raise FixInput("more: expected cells")
    checked["more"] = cells
    return checked
