"""What the pages of films show: a manifest with scores and marks, as documents."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from obygaze.films.decisions import (
    asked_columns,
    cell_facts,
    models_to_show,
    run_facts,
    scores_of_table,
    table_facts,
)
from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    LEVEL,
    WATCHED,
    Mark,
    read_marks,
    refuse_behind_end,
)
from obygaze.films.page.media import Media, PictureTimes
from obygaze.films.predictions import PredictionTable
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.listing import title_of
from obygaze_features.manifest.model import Clip, Manifest, by_film, own_columns
from obygaze_features.manifest.own_labels import COVERED
from obygaze_features.manifest.times import (
    IN_A_ROW,
    FilmTimes,
    Span,
    film_times,
    spans_in_films,
)
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import RunLabels, labels_since

# The columns that are shown with the level of a mark.
_WITH_LEVEL = (LEVEL, CONCEPTS_COLUMN, COMMENT)
JsonObject = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Site:
    """The inputs of the pages, and the documents made of them.

    Scores are those of a run, or of a table of predictions. With a run, levels and concepts of
    clips are those of the run's view.
    """

    workspace: Workspace
    manifest: Manifest
    run: Run | None = None
    predictions: PredictionTable | None = None

    def document(
        self, film: str, folder: Path, page_of_film: Mapping[str, str]
    ) -> JsonObject:
        """Return all that the page of a film shows.

        Args:
            film: The film.
            folder: The folder of the page, from which videos have their addresses.
            page_of_film: The names of the pages beside this one.
        """
        clips = [self._entry(self.shown[clip.clip_id]) for clip in self.films[film]]
        ids = {clip["id"] for clip in clips}
        for clip in clips:
            clip["still"] = self._still(clip["id"])
        scores = []
        for of_cell in self._scores:
            in_film = {
                name: one for name, one in of_cell["scores"].items() if name in ids
            }
            scores.append({**of_cell, "scores": in_film})
        return {
            "page": {
                **self._overview(page_of_film),
                "address": quote(page_of_film[film]),
                "clips": clips,
            },
            "film": self._film(film, folder, clips),
            "scores": scores,
        }

    def _overview(self, page_of_film: Mapping[str, str]) -> JsonObject:
        """Return what all pages have: levels, concepts, the pages of films, whose scores."""
        levels = {}
        for level, name in LEVEL_NAMES.items():
            levels[level] = {"name": name, "color": LEVEL_COLORS[level]}
        pages = []
        for film, name in page_of_film.items():
            pages.append({"title": self._title(film), "address": quote(name)})
        concepts = {
            name: concept_meaning(name) for name in self.manifest.header.concepts
        }
        scored_by = None
        if self.run:
            scored_by = run_facts(self.run)
        elif self.predictions:
            scored_by = table_facts(self.predictions)
        return {
            "title": self.manifest.name,
            "dataset": self.manifest.header.dataset,
            "levels": levels,
            "concepts": concepts,
            "pages": pages,
            "view": self._view,
            "asked": self._asked,
            "units": self._units,
            "scored_by": scored_by,
            "changed": self._labels.changed if self._labels else "",
        }

    def _film(self, film: str, folder: Path, clips: Iterable[JsonObject]) -> JsonObject:
        """Return the time line of a film, its videos, and what annotators marked in it.

        What was marked within clips is added to these.
        """
        times = self._times(film)
        times_of_pictures = {
            piece.video: self.media.times(piece.video) for piece in times.pieces
        }
        videos = {}
        for name, of_pictures in times_of_pictures.items():
            videos[name] = {
                "address": _address(Path(self.media.root, name), folder),
                "refused": self.media.facts(name).refused,
                "times": None if of_pictures is None else _as_text(of_pictures),
            }
        of_film = times_of_pictures.get(times.file)
        notes: list[str] = []
        marks = self._marks_in(film, times, of_film, notes)
        for clip in clips:
            start_s, end_s = self._places.get(clip["id"], (0.0, 0.0))
            touching = [m for m in marks if m.start_s < end_s and m.end_s > start_s]
            clip["marked"] = segments_of(touching)
            clip["marked_own"] = own_columns_of(touching)
        return {
            "id": film,
            "title": self._title(film),
            "counts": times.axis,
            "end_s": times.end_s,
            "n_pictures": 0 if of_film is None else len(of_film.boundaries_s) - 1,
            "spans": times.spans,
            "pieces": [piece._asdict() for piece in times.pieces],
            "videos": videos,
            "segments": segments_of(marks),
            "own": own_columns_of(marks),
            "notes": notes,
        }

    # ---- what the documents are made of ---------------------------------------------------------

    @cached_property
    def media(self) -> Media:
        """The videos of the manifest."""
        return Media(self.manifest.header.video_root, self.workspace)

    @cached_property
    def films(self) -> dict[str, list[Clip]]:
        """The clips of each film."""
        return by_film(self.manifest)

    @cached_property
    def shown(self) -> dict[str, Clip]:
        """The clips by id, in the view of the run."""
        shown = {}
        for clip in self.manifest:
            in_view = self._seen.by_id.get(clip.clip_id)
            # A view may have fewer clips, which are in the film all the same.
            shown[clip.clip_id] = in_view or replace(clip, level="", concepts=())
        return shown

    def _times(self, film: str) -> FilmTimes:
        def length_of(video: str) -> float:
            return self.media.facts(video).duration_s

        return film_times(self.films[film], length_of=length_of)

    @cached_property
    def _places(self) -> dict[str, Span]:
        """Start and end of clips in their films, where these are known without their videos."""
        return spans_in_films(self.manifest)

    @cached_property
    def _scores(self) -> list[JsonObject]:
        """The scores of each model of the run or of the table, and what is said of it."""
        if self.run:
            return [cell_facts(self.run, cell) for cell in models_to_show(self.run)]
        if self.predictions:
            return [scores_of_table(self.predictions, self.manifest)]
        return []

    @cached_property
    def _asked(self) -> list[str]:
        """The columns that the run, or the table of scores, asks about."""
        if self.run:
            return asked_columns(self.run)
        return list(self.predictions.asked_columns) if self.predictions else []

    def _still(self, clip_id: str) -> str:
        """Return a picture of a clip whose video browsers do not play, "" for another one."""
        clip = self.manifest[clip_id]
        if not clip.video or not self.media.facts(clip.video).refused:
            return ""
        return self.media.still(clip.video, clip.start_s, clip.end_s)

    @cached_property
    def _labels(self) -> RunLabels | None:
        """The labels of the run's clips today; None without a run."""
        return labels_since(self.run, self.manifest) if self.run else None

    @property
    def _seen(self) -> Manifest:
        """The manifest in the view of the run; as it is without a run, or where that cannot be."""
        viewed = self._labels.manifest if self._labels else None
        return self.manifest if viewed is None else viewed

    @property
    def _view(self) -> str:
        """The view that the levels are in; "" where they are those of the annotation itself."""
        name = self._seen.header.view
        if name == "raw":
            return ""
        if self._seen is not self.manifest:
            labels = [(clip.level, clip.concepts) for clip in self.manifest]
            if labels == [(clip.level, clip.concepts) for clip in self.shown.values()]:
                return ""
        return name.replace("_", " ")

    @property
    def _units(self) -> str:
        """What the clips of the manifest are called: clips, segments or windows."""
        return f"{self.manifest.header.unit}s"

    def _entry(self, clip: Clip) -> JsonObject:
        """Return the facts of a clip; its times are in the film, or else in its video."""
        start, end = self._places.get(clip.clip_id, (None, None))
        return {
            "id": clip.clip_id,
            "start": start,
            "end": end,
            "scene": clip.scene,
            "level": clip.level,
            "concepts": clip.concepts,
            "annotator": clip.extra.get("annotator", ""),
            "comment": clip.extra.get("comment", ""),
            "own": self._own_cells(clip.extra),
            "said": self._said.get(clip.clip_id, []),
        }

    @cached_property
    def _said(self) -> dict[str, list[JsonObject]]:
        """What each annotator said of each clip, in no view."""
        said: dict[str, list[JsonObject]] = {}
        for one in self.manifest.annotations:
            facts = {
                "annotator": one.annotator,
                "level": one.level,
                "concepts": one.concepts,
                "comment": one.own.get("comment", ""),
                "own": self._own_cells(one.own),
            }
            said.setdefault(one.clip_id, []).append(facts)
        return said

    def _own_cells(self, cells: Mapping[str, str]) -> dict[str, str]:
        """Return the cells of own columns that are not empty, those that were asked about first.

        How much marks cover is no label.
        """
        names = [name for name in own_columns(cells) if cells[name] and name != COVERED]
        names.sort(key=lambda name: name not in self._asked)
        return {name: cells[name] for name in names}

    def _title(self, film: str) -> str:
        return title_of(self.films[film][0]) or film

    def _marks_in(
        self,
        film: str,
        times: FilmTimes,
        of_pictures: PictureTimes | None,
        notes: list[str],
    ) -> list[Mark]:
        """Return what annotators marked in a film; notes say what is not shown."""
        found: list[Mark] = []
        shown: set[str] = set()
        if self._tables and (times.axis == IN_A_ROW or times.unknown):
            notes.append(f"Marks have no place: the time line counts {times.axis}")
            return found
        for path, table in self._tables.items():
            if isinstance(table, ObygazeError):
                notes.append(f"{path.name} is not shown: {table.message}")
                continue
            of_film = [mark for mark in table if mark.movie_id == film]
            people = {mark.annotator.lower() for mark in of_film}
            if people & shown:
                notes.append(
                    f"{path.name} is not shown: another table has marks of its people, too"
                )
                continue
            try:
                for mark in of_film:
                    if of_pictures is not None:
                        refuse_behind_end(mark, of_pictures.boundaries_s.tolist())
            except ObygazeError as error:
                notes.append(f"{path.name} is not shown: {error.message}")
                continue
            shown |= people
            found += of_film
        return found

    @cached_property
    def _tables(self) -> dict[Path, tuple[Mark, ...] | ObygazeError]:
        """The tables of marks of the workspace; an error for what is none."""
        folder = self.workspace.folder("segments")
        tables: dict[Path, tuple[Mark, ...] | ObygazeError] = {}
        for path in sorted(folder.glob("*.csv")):
            try:
                tables[path] = read_marks([path], self.workspace).marks
            except ObygazeError as error:
                tables[path] = error
        return tables


def segments_of(marks: Iterable[Mark]) -> list[JsonObject]:
    """Return what each person says of each span: a level, concepts and a comment."""
    said: dict[tuple[str, float, float], dict[str, list[str]]] = {}
    for mark in sorted(marks):
        if mark.column in _WITH_LEVEL:
            of_span = said.setdefault((mark.annotator, mark.start_s, mark.end_s), {})
            of_span.setdefault(mark.column, []).append(mark.value)
    segments = []
    for (annotator, start_s, end_s), values in said.items():
        segments.append(
            {
                "annotator": annotator,
                "start": start_s,
                "end": end_s,
                "level": "/".join(values.get(LEVEL, ())),
                "concepts": values.get(CONCEPTS_COLUMN, []),
                "comment": "; ".join(values.get(COMMENT, ())),
            }
        )
    return segments


def own_columns_of(marks: Iterable[Mark]) -> list[JsonObject]:
    """Return the marks in columns of the annotators' own."""
    own = []
    for mark in sorted(marks):
        if mark.column not in (*_WITH_LEVEL, WATCHED):
            facts = {"annotator": mark.annotator, "column": mark.column}
            span = {"start": mark.start_s, "end": mark.end_s}
            own.append({**facts, "value": mark.value, **span})
    return own


def _address(video: Path, folder: Path) -> str:
    """Return the address of a video as a page in a folder names it."""
    path = video.absolute()
    try:
        relative = Path(os.path.relpath(path, folder.absolute())).as_posix()
    except ValueError:
        return path.as_uri()  # on another drive of Windows: no path leads there
    return quote(os.fsencode(relative))


def _as_text(times: PictureTimes) -> str:
    """Return the times of pictures, the origin first, as base64 of float64."""
    values = np.append([times.origin_s], times.boundaries_s).astype("<f8")
    return base64.b64encode(values.tobytes()).decode("ascii")
