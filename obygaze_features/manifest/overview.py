"""Show a manifest: its header and some of its clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.outside import safe_text
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.listing import (
    clock_or_none,
    manifest_columns,
    title_of,
    titles_of,
)
from obygaze_features.manifest.model import (
    Clip,
    Manifest,
    of_films,
    own_columns,
)

SHOWN_CLIPS = 20


@dataclass(frozen=True, eq=False, repr=False)
class ManifestPage(Listing):
    """Some clips of a manifest, and its header; `limit` clips are shown, by default a page.

    A file has all of the selection: the limit is that of the screen.
    """

    manifest: Manifest
    selection: Manifest
    limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the manifest and its selected clips, by default all of them."""
        manifest = self.manifest
        header = manifest.header
        videos = [clip.video for clip in manifest if clip.video]
        shown = self.selection.clips[: self.limit or None]
        return {
            "name": manifest.name,
            "dataset": header.dataset,
            "unit": header.unit,
            "view": header.view,
            "films": len(manifest.films),
            "with_video": len(videos),
            "videos_found": _n_found(videos, header.video_root),
            "folds": manifest.folds,
            "licence": header.licence,
            "citation": header.citation,
            "sources": to_builtins(header.sources),
            "sha256": manifest_sha256(manifest),
            "clips": [vars(clip) for clip in shown],
        }

    def __str__(self) -> str:
        clips = self.selection.clips[: self._n_shown]
        return f"{_describe(self.manifest)}\n{_clip_table(clips)}"

    def table(self) -> Columns:
        """Return the selected clips as the columns of a table."""
        return manifest_columns(self.selection)

    @property
    def notes(self) -> list[str]:
        """How many of the selected clips the text leaves out."""
        notes = []
        unit = self.manifest.header.unit
        n_all = len(self.manifest)
        if len(self.selection) < n_all:
            notes.append(f"selected: {len(self.selection)} of {count(n_all, unit)}")
        n_hidden = len(self.selection) - self._n_shown
        if n_hidden > 0:
            notes.append(f"{count(n_hidden, f'more {unit}')}; --limit 0 shows all")
        return notes

    @property
    def _n_shown(self) -> int:
        limit = SHOWN_CLIPS if self.limit is None else self.limit
        return limit or len(self.selection)


def show_manifest(
    manifest: PathLike | Manifest,
    *,
    film: str | None = None,
    where: str | None = None,
    limit: int | None = None,
    workspace: PathLike | None = None,
) -> ManifestPage:
    """Show a manifest's header and clips.

    An EXPRESSION tests columns, as in protocols: level == S and annotator == A1.

    Args:
        manifest: The manifest.
        film: Only the clips of this film: its id, or its title as it is shown.
        where: Only the clips for which this holds.
        limit: Show at most this many clips; 0 shows all. -o writes all. [default: 20; with --json
            all]
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest show obygaze12
        obygaze manifest show obygaze12 --film tt0108160 --where 'level == S' --limit 0
        obygaze manifest show obygaze12 --where 'level in {HN, S} and Body in concept'
        obygaze manifest show obygaze12 --where 'level in {HN, NS}' -o clips.xlsx
    """
    whole = read_manifest(manifest, workspace=workspace)
    typed = manifest if isinstance(manifest, str) else whole.name
    tests = []
    if where is not None:
        tests.append(where)
    selection = whole if where is None else whole.where(where)
    if film is not None:
        tests.append(f"film {film!r}")
        films = _known_films(film, whole)
        selection = selection.with_clips(
            clip for clip in selection if clip.movie_id in films
        )
    if tests and not len(selection):
        raise NotFound(
            f"no clip with {' and '.join(tests)}",
            where=whole.name,
            hint=f"obygaze manifest stats {shell_word(typed)}",
        )
    return ManifestPage(whole, selection, limit)


def _n_found(videos: Sequence[str], root: str) -> int:
    """Return how many clips have a video that is a file on this machine."""
    if not root:
        return 0
    existing = {video for video in set(videos) if (Path(root) / video).is_file()}
    return sum(video in existing for video in videos)


def _known_films(film: str, manifest: Manifest) -> set[str]:
    """Return the films that have this id or title; a film that is not there is an error."""
    if not manifest.has_films:
        raise FixUsage("--film: the manifest states no films", where=manifest.name)
    titles = titles_of(manifest.films, manifest)
    films = {name for name in manifest.films if film in (name, titles.get(name))}
    if not films:
        raise unknown_name("film", film, manifest.films, where=manifest.name)
    return films


def _clip_table(clips: Sequence[Clip]) -> str:
    """Return the clips as a table; a column that no clip has a value for is left out."""
    columns: dict[str, list[Any]] = {
        "clip_id": [clip.clip_id for clip in clips],
        "title": [title_of(clip) for clip in clips],
        "annotator": [clip.extra.get("annotator") for clip in clips],
        "scene": [clip.scene for clip in clips],
        "start": [clock_or_none(clip.start_s, 1) for clip in clips],
        "end": [clock_or_none(clip.end_s, 1) for clip in clips],
        "level": [clip.level for clip in clips],
        "concepts": [", ".join(clip.concepts) for clip in clips],
        "video": [clip.video for clip in clips],
    }
    if not any(columns["level"]) and clips:
        # The labels are columns of the person's own.
        for name in own_columns(clips[0].extra):
            columns[name] = [clip.extra.get(name) for clip in clips]
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    return table(tuple(filled), zip(*filled.values(), strict=True))


def _describe(manifest: Manifest) -> str:
    """Return the header of a manifest as lines, the last one empty."""
    header = manifest.header
    n_clips = count(len(manifest), header.unit)
    lines = [
        f"{manifest.name}: {n_clips}{of_films(len(manifest.films))}"
        f" ({safe_text(header.dataset, 'terminal')}, {header.view} view)"
    ]
    if header.licence:
        lines.append(f"  licence: {safe_text(header.licence, 'terminal')}")
    if header.citation:
        lines.append(f"  cite: {safe_text(header.citation, 'terminal')}")
    lines += [f"  note: {safe_text(note, 'terminal')}" for note in header.notes]
    if manifest.annotators:
        lines.append(f"  annotators: {', '.join(manifest.annotators)}")
    if manifest.folds:
        lines.append(f"  folds: {', '.join(manifest.folds)}")
    return "\n".join([*lines, ""])
