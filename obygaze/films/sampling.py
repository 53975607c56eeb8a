"""`obygaze manifest sample`: draw clips within films, which are marked to know how much there is.

Each clip has a permanent random number, a hash of the seed and its id. Of each film, the clips with
the smallest numbers are drawn: a random sample of the clips of the film, without replacement.
Films get their clips in turns.

The manifest of a draw has two more columns: `draw_probability`, that the clip was drawn from its
film, and `draw_clips`, the number of clips of the film. It is `draw_plan` that says whether a
manifest is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell, whole_number
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.io import (
    facts_of_saved,
    read_manifest,
    write_manifest,
)
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    DRAW_COLUMNS,
    Clip,
    Manifest,
    Windows,
    by_film,
    own_columns,
    require_films,
    with_columns_of,
)
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.windows import Grid

PROBABILITY, CLIPS_OF_FILM = DRAW_COLUMNS


@dataclass(frozen=True)
class DrawnFilm:
    """How many clips of a film were drawn, of how many."""

    n_drawn: int
    n_clips: int


@dataclass(frozen=True)
class DrawnClips:
    """The manifest of the clips that were drawn; `n_clips` is how many there were to draw from."""

    manifest: Manifest
    path: Path
    n_clips: int

    def to_json(self) -> dict[str, Any]:
        """Return where the manifest is, and the numbers of clips."""
        return {
            **facts_of_saved(self.manifest, self.path),
            "drawn": len(self.manifest),
            "clips": self.n_clips,
            "films": {
                film: {"drawn": drawn.n_drawn, "clips": drawn.n_clips}
                for film, drawn in draw_plan(self.manifest).items()
            },
        }

    def __str__(self) -> str:
        films = count(len(self.manifest.films), "film")
        return f"{self.path}: {len(self.manifest)} of {count(self.n_clips, 'clip')} of {films}"

    @property
    def notes(self) -> list[str]:
        """How to go on."""
        name = shell_word(self.manifest.name)
        return [f"next: obygaze manifest export {name} {name}-elan --as elan"]


def sample_clips(
    manifest: PathLike,
    n_clips: int,
    name: str,
    *,
    seed: int = 0,
    force: bool = False,
    workspace: PathLike | None = None,
) -> DrawnClips:
    """Draw clips within films at random, to be marked.

    Each film gets the same number of clips, if it has so many. The new manifest has the drawn clips
    alone, and how probable each draw was. It is for `manifest export`, whose files of ELAN have an
    empty annotation for each of them and no labels, and for `audit share`.

    Args:
        manifest: The clips or windows of films, which are not changed.
        n_clips: How many clips are drawn.
        name: Name of the manifest of the drawn clips.
        seed: The seed of the draw.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest sample films -n 200 -o drawn
    """
    path = Workspace.of(workspace).new_manifest(name)
    source = read_manifest(manifest, workspace=workspace)
    if is_drawn(source):
        raise FixInput(
            "these clips are a sample themselves",
            where=source.name,
            hint="the manifest that they were drawn from",
        )
    if not isinstance(source.clips, Windows):
        require_films([clip.movie_id for clip in source], source.name)
    clips_of_film = by_film(source.clips)
    n_of_film = _allocated(n_clips, clips_of_film, seed, source)
    drawn = []
    for film, clips in clips_of_film.items():
        in_draw = sorted(clips, key=lambda clip: _random_number(seed, clip.clip_id))
        ids = {clip.clip_id for clip in in_draw[: n_of_film[film]]}
        plan = {
            PROBABILITY: repr(n_of_film[film] / len(clips)),
            CLIPS_OF_FILM: str(len(clips)),
        }
        for clip in clips:
            if clip.clip_id in ids:
                drawn.append(replace(clip, extra={**clip.extra, **plan}))
    require_times(drawn, source)
    # Windows become clips, as a grid cannot leave out any.
    header = structs.replace(source.header, unit="clip", grid=Grid())
    columns = with_columns_of(drawn, source.columns)
    made = replace(
        source.with_clips(drawn), name=path.stem, header=header, columns=columns
    )
    write_manifest(made, path, force=force)
    n_all = sum(map(len, clips_of_film.values()))
    return DrawnClips(made, path, n_all)


def is_drawn(manifest: Manifest) -> bool:
    """Return whether the clips of a manifest are a draw, of which each was to be judged."""
    return set(DRAW_COLUMNS).issubset(manifest.columns)


def draw_plan(manifest: Manifest) -> dict[str, DrawnFilm]:
    """Return how many clips of each film were drawn; an error where the columns contradict it."""
    cells_of_film: dict[str, set[tuple[str, str]]] = {}
    for clip in manifest:
        cells = (clip.extra[PROBABILITY], clip.extra[CLIPS_OF_FILM])
        cells_of_film.setdefault(clip.movie_id, set()).add(cells)
    n_rows = Counter(clip.movie_id for clip in manifest)
    films = {}
    for film, all_cells in cells_of_film.items():
        probability, n_clips = next(iter(all_cells))
        of_film = whole_number(n_clips) or 0
        share = number_of_cell(probability) or 0.0
        n_drawn = round(share * of_film) if 0 < share <= 1 else 0
        if len(all_cells) > 1 or not n_rows[film] <= n_drawn <= of_film:
            raise FixInput(
                f"the columns {PROBABILITY} and {CLIPS_OF_FILM} of the film {film} are not those"
                " of a draw",
                where=manifest.name,
                hint="obygaze manifest sample --help",
            )
        films[film] = DrawnFilm(n_drawn, of_film)
    return films


def _allocated(
    n_clips: int,
    clips_of_film: Mapping[str, Sequence[Clip]],
    seed: int,
    source: Manifest,
) -> Counter[str]:
    """Return how many clips of each film are drawn, the same number of each."""
    n_all = sum(map(len, clips_of_film.values()))
    if not len(clips_of_film) <= n_clips <= n_all:
        raise FixUsage(
            f"-n must be from {len(clips_of_film)}, a clip of each film, to {n_all}, all clips,"
            f" got {n_clips}",
            where=source.name,
        )
    # A clip of each film first.
    n_of_film = Counter(dict.fromkeys(clips_of_film, 1))
    in_turns = sorted(clips_of_film, key=lambda film: _random_number(seed, film))
    while n_of_film.total() < n_clips:
        with_more = [f for f in in_turns if n_of_film[f] < len(clips_of_film[f])]
        film = min(with_more, key=lambda film: n_of_film[film])
        n_of_film[film] += 1
    return n_of_film


def require_column(manifest: Manifest, column: str) -> None:
    """Raise an error that names the manifest unless it has a column."""
    known = (*own_columns(manifest.columns), *CLIP_COLUMNS, *CONCEPTS)
    if column not in (*known, *manifest.columns):
        raise unknown_name("column", column, known, where=manifest.name)


def _random_number(seed: int, own_id: str) -> bytes:
    return sha256(f"{seed}\n{own_id}".encode()).digest()


def require_times(drawn: Sequence[Clip], source: Manifest) -> None:
    """Raise an error for clips whose marks could not be found again in their films."""
    known = {clip.clip_id for clip in drawn if clip.start_s is not None}
    if not isinstance(source.clips, Windows):
        known = {*spans_in_films(source)}
    without = [clip.clip_id for clip in drawn if clip.clip_id not in known]
    if without:
        raise FixInput(
            "marks have places in films, and it is not known where these clips are in theirs:"
            f" {few(without)}",
            where=source.name,
            hint="for whole films, obygaze manifest windows; for clips, film_start_s and film_end_s"
            " in their table",
        )
