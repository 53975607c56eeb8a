"""Show a manifest: its header and some of its clips."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from obygaze_features.core.console import count, table
from obygaze_features.core.errors import NotFound
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.shell import shell_word
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_features.manifest.expression import parse
from obygaze_features.manifest.history import commands_of
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.listing import (
    TITLE,
    film_titles,
    manifest_columns,
)
from obygaze_features.manifest.model import (
    FILM_COLUMN,
    Manifest,
    disputed_names,
    film_count_text,
    own_columns,
)

SHOWN_CLIPS = 20
# The columns that are shown on the screen, if they are not empty.
COLUMNS = (
    *("clip_id", TITLE, "annotator", "scene", "start", "end"),
    *("level", "concepts", "video"),
)


@dataclass(frozen=True, eq=False, repr=False)
class ManifestPage(Listing):
    """The header of a manifest, and a selection of its clips.

    At most `limit` clips are shown on the screen; a file has the whole selection. If it is of
    commands, the commands that made the manifest are shown instead. `named` are the columns in the
    expression that selected the clips; they are shown, too.
    """

    manifest: Manifest
    selection: Manifest
    limit: int | None = None
    is_of_commands: bool = False
    named: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the manifest, and at most `limit` selected clips (None or 0: all)."""
        manifest = self.manifest
        header = manifest.header
        shown = self.selection.clips[: self.limit or None]
        return {
            "name": manifest.name,
            "dataset": header.dataset,
            "view": header.view,
            "films": len(manifest.films),
            "with_video": sum(bool(clip.video) for clip in manifest),
            "folds": manifest.folds,
            "licence": header.licence,
            "citation": header.citation,
            "sources": to_builtins(header.sources),
            "commands": commands_of(manifest),
            "sha256": manifest_sha256(manifest),
            "clips": [vars(clip) for clip in shown],
        }

    def __str__(self) -> str:
        if self.is_of_commands:
            return "\n".join(commands_of(self.manifest))
        shown = self.selection.with_clips(self.selection.clips[: self._n_shown])
        columns = manifest_columns(shown)
        names = [*COLUMNS]
        if self.named:
            # The film in place of its file, because a line has 80 columns.
            names.remove("video")
            if TITLE not in columns:
                names.insert(1, FILM_COLUMN)
            names += [name for name in self.named if name not in names]
        if "level" not in columns:
            # Without levels, the labels are in the user's own columns.
            names += [name for name in own_columns(shown.columns) if name not in names]
        filled = {name: columns[name] for name in names if name in columns}
        clips = table(tuple(filled), zip(*filled.values(), strict=True))
        return f"{_describe(self.manifest)}\n{clips}"

    def table(self) -> Columns:
        """Return the selected clips as the columns of a table, with the labels by annotator."""
        columns = dict(manifest_columns(self.selection))
        # A person fills in what is open, also where no clip has a value yet.
        for clip in self.selection:
            for name in disputed_names(clip) & {"level", *self.manifest.columns}:
                columns.setdefault(name, [""] * len(self.selection))
        said: dict[str, dict[str, str]] = defaultdict(dict)
        for one in self.selection.annotations:
            cells = {"level": one.level, "concepts": "|".join(one.concepts), **one.own}
            for name, cell in cells.items():
                if cell:
                    said[f"{name}:{one.annotator}"][one.clip_id] = cell
        for name, cell_of in sorted(said.items()):
            columns[name] = [cell_of.get(clip.clip_id, "") for clip in self.selection]
        return columns

    @property
    def notes(self) -> list[str]:
        """The numbers of selected clips, and of clips that are not shown."""
        if self.is_of_commands:
            return ["type these lines in the workspace, beside the same files"]
        notes = []
        n_all = len(self.manifest)
        if len(self.selection) < n_all:
            notes.append(f"selected: {len(self.selection)} of {count(n_all, 'clip')}")
        n_hidden = len(self.selection) - self._n_shown
        if n_hidden > 0:
            notes.append(f"{count(n_hidden, 'more clip')}; --limit 0 shows all")
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
    command: bool = False,
    workspace: PathLike | None = None,
) -> ManifestPage:
    """Show a manifest's header and clips.

    An expression tests columns, as in protocols: level == S and Body in concept.

    Args:
        manifest: The manifest.
        film: Only the clips of this film: its id, or its title as it is shown.
        where: Only the clips for which this expression holds.
        limit: Print at most this many clips, by default 20; 0 prints all. The table has all.
        command: Whether to show instead the commands that made and changed the manifest.
        workspace: The workspace, if it is not the current one.
    """
    whole = read_manifest(manifest, workspace=workspace)
    typed = manifest if isinstance(manifest, str) else whole.name
    tests = []
    named: Sequence[str] = ()
    selection = whole
    if where is not None:
        tests.append(where)
        selection = whole.where(where)
        named = [*parse(where).compared]
    if film is not None:
        tests.append(f"film {film!r}")
        titles = film_titles(whole.films, whole)
        films = {name for name in whole.films if film in (name, titles.get(name))}
        if not films:
            raise unknown_name("film", film, whole.films, where=whole.name)
        selection = selection.with_clips(
            clip for clip in selection if clip.movie_id in films
        )
    if tests and not len(selection):
        raise NotFound(
            f"no clip for which this holds: {' and '.join(tests)}",
            where=whole.name,
            hint=f"obygaze manifest stats {shell_word(typed)} counts the values",
        )
    return ManifestPage(whole, selection, limit, command, named)


def _describe(manifest: Manifest) -> str:
    """Return the header of a manifest as lines; the last line is empty."""
    header = manifest.header
    n_clips = count(len(manifest), "clip")
    lines = [
        f"{manifest.name}: {n_clips}{film_count_text(len(manifest.films))}"
        f" ({safe_text(header.dataset, 'terminal')}, {header.view} view)"
    ]
    about = [("licence", header.licence), ("cite", header.citation)]
    about += [("note", note) for note in header.notes]
    about += [("annotators", ", ".join(manifest.annotators))]
    about += [("folds", ", ".join(manifest.folds))]
    for name, text in about:
        if text:
            lines.append(f"  {name}: {safe_text(text, 'terminal')}")
    return "\n".join([*lines, ""])
