"""`obygaze manifest sample`: sample clips within films, to estimate how often something is shown.

Each clip has a fixed random number: a hash of the seed and the clip id. In each film, the clips
with the smallest numbers are sampled: a random sample without replacement. The requested number of
clips is divided among the films as equally as possible.

The manifest of sampled clips has two more columns: `draw_probability`, the probability that the
clip is sampled from its film, and `draw_clips`, the number of clips of the film. `draw_plan` checks
these columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from obygaze.films.projection import DEFAULT_THRESHOLD
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell, whole_number
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.history import (
    command_line,
    manifest_word,
    with_command,
)
from obygaze_features.manifest.io import read_manifest, saved_facts, write_manifest
from obygaze_features.manifest.model import (
    DRAW_COLUMNS,
    Manifest,
    by_film,
    require_films,
    with_columns_of,
)
from obygaze_features.manifest.times import spans_in_films

PROBABILITY, CLIPS_OF_FILM = DRAW_COLUMNS
# The interval of a share is over films, so it requires two.
LEAST_FILMS = 2


@dataclass(frozen=True)
class DrawnFilm:
    """The number of sampled clips of a film, and the number of all its clips."""

    n_drawn: int
    n_clips: int


@dataclass(frozen=True)
class DrawnClips:
    """The manifest of the sampled clips; they were sampled from `n_clips` clips."""

    manifest: Manifest
    path: Path
    n_clips: int

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the saved manifest, and the numbers of sampled and of all clips."""
        facts = saved_facts(self.manifest, self.path)
        return {**facts, "drawn": len(self.manifest), "clips": self.n_clips}

    def __str__(self) -> str:
        films = count(len(self.manifest.films), "film")
        return f"{self.path}: {len(self.manifest)} of {count(self.n_clips, 'clip')} of {films}"

    @property
    def warnings(self) -> list[str]:
        """A warning if there are too few films for a share."""
        if len(self.manifest.films) >= LEAST_FILMS:
            return []
        return [
            f"obygaze audit share requires clips of at least {LEAST_FILMS} films, got 1 film"
        ]

    @property
    def notes(self) -> list[str]:
        """The next command."""
        name = shell_word(self.manifest.name)
        return [f"next: obygaze marks blank {name} {name}-elan --person NAME"]


def sample_clips(
    manifest: PathLike,
    n_clips: int,
    name: str,
    *,
    seed: int = 0,
    force: bool = False,
    workspace: PathLike | None = None,
) -> DrawnClips:
    """Sample random clips of each film, for annotators to label.

    The number of clips is divided among the films as equally as possible. The new manifest has only
    the sampled clips, and the probability with which each clip was sampled. `marks blank`
    writes these clips as ELAN files with an empty annotation for each clip and without labels;
    `audit share` reads them with labels.

    Args:
        manifest: The clips or windows of films, which are not changed.
        n_clips: Number of clips to sample.
        name: Name of the manifest of the sampled clips.
        seed: Random seed.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    path = Workspace.of(workspace).new_manifest(name)
    source = read_manifest(manifest, workspace=workspace)
    if is_drawn(source):
        raise FixInput(
            "expected all clips of the films, got a sample", where=source.name
        )
    require_films([clip.movie_id for clip in source], source.name)
    clips_of_film = by_film(source.clips)
    sizes = {film: len(clips) for film, clips in clips_of_film.items()}
    n_all = sum(sizes.values())
    if not len(sizes) <= n_clips <= n_all:
        raise FixUsage(
            f"-n: expected {len(sizes)} (one clip of each film) to {n_all} (all clips),"
            f" got {n_clips}",
            where=source.name,
        )
    # Each film gets one clip first, so that no film is without a sampled clip.
    n_of_film = Counter(dict.fromkeys(sizes, 1))
    in_turns = sorted(sizes, key=lambda film: _random_number(seed, film))
    while n_of_film.total() < n_clips:
        with_more = [film for film in in_turns if n_of_film[film] < sizes[film]]
        n_of_film[min(with_more, key=lambda film: n_of_film[film])] += 1
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
    spans_s = spans_in_films(source)
    refuse_if(
        [clip.clip_id for clip in drawn if clip.clip_id not in spans_s],
        FixInput,
        "no times in the film for the clips",
        where=source.name,
        hint="add the columns film_start_s and film_end_s to the table of the clips; or cut whole"
        " films: obygaze manifest windows FOLDER",
    )
    overlapping = []
    in_order = sorted((clip.movie_id, *spans_s[clip.clip_id]) for clip in drawn)
    for (film, start_s, end_s), (next_film, next_s, last_s) in pairwise(in_order):
        shorter_s = min(end_s - start_s, last_s - next_s)
        if film == next_film and end_s - next_s >= DEFAULT_THRESHOLD * shorter_s:
            overlapping.append(film)
    refuse_if(
        dict.fromkeys(overlapping),
        FixInput,
        "drawn clips overlap, so a mark of one would also count for another, in the films",
        where=source.name,
        hint="cut the films without overlap: obygaze manifest windows FOLDER --seconds 2",
    )
    columns = with_columns_of(drawn, source.columns)
    made = replace(source.with_clips(drawn), name=path.stem, columns=columns)
    word = manifest_word(manifest, workspace)
    options = {"-n": n_clips, "--seed": seed or None, "-o": path.stem}
    command = command_line("manifest sample", [word], options, workspace)
    made = with_command(made, command, source)
    write_manifest(made, path, force=force)
    return DrawnClips(made, path, n_all)


def is_drawn(manifest: Manifest) -> bool:
    """Return whether the clips of a manifest were sampled by `manifest sample`."""
    return set(DRAW_COLUMNS).issubset(manifest.columns)


def sampled_films(manifest: Manifest) -> set[str]:
    """Return the films with sampled clips; other films may be merged with a sample."""
    return {clip.movie_id for clip in manifest if clip.extra.get(PROBABILITY)}


def draw_plan(manifest: Manifest) -> dict[str, DrawnFilm]:
    """Return for each film how many clips were sampled, and how many clips the film has.

    Both numbers come from the columns `draw_probability` and `draw_clips`. Raise an error if these
    columns contradict the clips, or if some clips were not sampled.
    """
    refuse_if(
        [clip.clip_id for clip in manifest if not clip.extra[PROBABILITY]],
        FixInput,
        "the sample was merged with clips that were not sampled",
        where=manifest.name,
        hint="pass a manifest with the sampled clips only",
    )
    films = {}
    for film, clips in by_film(manifest).items():
        cells = {(c.extra[PROBABILITY], c.extra[CLIPS_OF_FILM]) for c in clips}
        probability, size = next(iter(cells))
        n_clips = whole_number(size) or 0
        share = number_of_cell(probability) or 0.0
        n_drawn = round(share * n_clips) if 0 < share <= 1 else 0
        films[film] = DrawnFilm(n_drawn, n_clips)
        if len(cells) > 1 or not len(clips) <= n_drawn <= n_clips:
            raise FixInput(
                f"the columns {PROBABILITY} and {CLIPS_OF_FILM} of the film {film} contradict its"
                " clips",
                where=manifest.name,
            )
    return films


def _random_number(seed: int, own_id: str) -> bytes:
    return sha256(f"{seed}\n{own_id}".encode()).digest()
