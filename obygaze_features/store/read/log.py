"""List the versions of a store, and those that changed one clip."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from obygaze_features.core.clip_ids import ClipIds, clip_ids
from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.options import CLIPS
from obygaze_features.core.outside import safe_text
from obygaze_features.store.format.records import Replaced, StoreVersion
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote.versions import (
    earlier_versions,
    read_kept_seal,
    version_of,
)

# What is said of each change; of an unknown one of a later version, its name.
_WORDS = {
    "created": "created",
    "clips": "added",
    "levels": "added",
    "rows": "replaced",
    "withdrawn": "withdrawn",
    "format": "upgraded",
}
_UNITS = {
    "clips": "clip",
    "films": "film",
    "levels": "level",
    "arrays": "array",
    "rows": "row",
}
SHOWN_DIGITS = 12


@dataclass(frozen=True)
class LoggedVersion:
    """A version of a store: what it changed, why, by whom and when.

    `held` is whether this copy of the store has it, and `rows` the runs of rows that it changed.
    """

    number: int
    change: str
    numbers: dict[str, int]
    reason: str
    author: str
    date: str
    seal_sha256: str
    held: bool
    rows: tuple[tuple[int, int], ...]
    made_by: str = ""

    @property
    def change_text(self) -> str:
        """What it changed, in words."""
        words = []
        for key, n in self.numbers.items():
            words.append(count(n, _UNITS.get(key, key)))
        text = f"{_WORDS.get(self.change, self.change)}: {', '.join(words)}"
        return f"{text}, made by {self.made_by}" if self.made_by else text


@dataclass(frozen=True)
class StoreLog:
    """The versions of a store, the newest first."""

    name: str
    versions: tuple[LoggedVersion, ...]
    clip: str = ""
    n_unknown: int = 0
    replaces: tuple[Replaced, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the versions, the newest first."""
        return asdict(self)

    def __str__(self) -> str:
        headers = ("version", "date", "change", "reason", "author", "seal_sha256")
        rows = []
        for version in self.versions:
            row = (
                version.number,
                version.date,
                version.change_text,
                version.reason or "-",
                version.author or "-",
                f"{version.seal_sha256[:SHOWN_DIGITS]}...",
            )
            rows.append(tuple(safe_text(str(cell), "terminal") for cell in row))
        return table(headers, rows)

    @property
    def notes(self) -> list[str]:
        """Which versions are not in this copy, and which ones this store replaces."""
        return [*self._absent_versions(), *self._replaced_versions()]

    def _replaced_versions(self) -> list[str]:
        if not self.replaces:
            return []
        numbers = ", ".join(str(replaced.version) for replaced in self.replaces)
        reason = safe_text(self.replaces[-1].reason, "terminal")
        return [
            f"made by obygaze store purge in place of version {numbers} of a store, without the "
            f"features of clips that were withdrawn: {reason}"
        ]

    def _absent_versions(self) -> list[str]:
        if self.n_unknown:
            versions = count(self.n_unknown, "earlier version")
            return [f"{versions}: not in this copy of the store"]
        absent = [str(version.number) for version in self.versions if not version.held]
        if not absent:
            return []
        return [f"not in this copy: version {', '.join(absent)}"]


def store_log(
    store: str | os.PathLike[str] | Store,
    *,
    clip: Annotated[ClipIds | None, replace(CLIPS, flag="--clip")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> StoreLog:
    """List the versions of a store: what each changed, why, by whom and when.

    NAME@2 is the second version of a store, wherever a store is named.

    Args:
        store: The store.
        clip: Only the versions that made, changed or withdrew the features of these clips (ids with
            commas between them), or of those in a file: one id a line, or a column clip_id.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store log obygaze12-xclip
        obygaze store log obygaze12-xclip --clip tt0108160-012
    """
    opened = open_store(store, workspace=workspace)
    seal = opened.commits.seal
    if seal is None:
        raise FixInput(
            "this store is not sealed, so it has no versions yet",
            where=opened.location,
            hint="obygaze extract run --seal",
        )
    newest = version_of(seal, opened.plan)
    versions = [_logged(newest, opened.seal_sha256, held=True)]
    for entry in earlier_versions(opened.files, seal):
        is_held = read_kept_seal(opened.files, entry) is not None
        versions.append(_logged(entry.store_version, entry.seal.sha256, held=is_held))
    n_unknown = versions[-1].number - 1
    ids: list[str] = []
    if clip is not None:
        ids = clip_ids(clip)
        rows = [_row_of(opened, clip_id) for clip_id in ids]
        versions = [version for version in versions if _has_changed(version, rows)]
    name = opened.location if isinstance(store, Store) else os.fspath(store)
    return StoreLog(
        name, tuple(versions), ",".join(ids), n_unknown, opened.plan.replaced_versions
    )


def _logged(version: StoreVersion, seal_sha256: str, *, held: bool) -> LoggedVersion:
    return LoggedVersion(
        number=version.number,
        change=version.change,
        numbers=dict(version.numbers),
        reason=version.reason,
        author=version.author,
        date=version.date,
        seal_sha256=seal_sha256,
        held=held,
        rows=version.rows,
        made_by=version.made_by,
    )


def _row_of(store: Store, clip: str) -> int:
    row = int(store.select(clips=[clip]).rows[0])
    if row < 0:
        raise NotFound(
            f"no clip {clip!r} in this store",
            where=store.location,
            hint="obygaze store info --clips lists its clips",
        )
    return row


def _has_changed(version: LoggedVersion, rows: Sequence[int]) -> bool:
    """Return whether a version made, changed or withdrew one of the rows."""
    changed = version.rows
    if version.change == "created":
        changed = ((0, version.numbers.get("clips", 0)),)
    runs = [range(first, after) for first, after in changed]
    return any(row in run for run in runs for row in rows)
