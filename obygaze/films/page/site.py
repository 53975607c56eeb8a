"""The documents of film pages: a manifest with scores and marks."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from obygaze.films.decisions import (
    cell_facts,
    models_to_show,
    run_facts,
    table_facts,
    table_scores,
    task_columns,
)
from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    FOLDER,
    LEVEL,
    WATCHED,
    Mark,
    people_of,
    read_marks,
    refuse_behind_end,
)
from obygaze.films.page.media import MediaFacts, media_facts, picture_times, still
from obygaze.films.pictures import Floats
from obygaze.films.predictions import PredictionTable
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.listing import film_title
from obygaze_features.manifest.model import Clip, Manifest, by_film, own_columns
from obygaze_features.manifest.times import (
    IN_A_ROW,
    FilmTimes,
    film_times,
    spans_in_films,
)
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import current_labels

# The columns that are shown with the level of a mark.
_WITH_LEVEL = (LEVEL, CONCEPTS_COLUMN, COMMENT)
JsonObject = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Site:
    """The inputs of film pages, and the documents made of them.

    Scores come from a run or from a table of predictions. With a run, levels and concepts of clips
    are shown in the view of the run.
    """

    workspace: Workspace
    manifest: Manifest
    run: Run | None = None
    predictions: PredictionTable | None = None

    @cached_property
    def films(self) -> dict[str, list[Clip]]:
        """The clips of each film."""
        return by_film(self.manifest)

    def has_video(self, film: str) -> bool:
        """Return whether the video file of any clip of a film exists."""
        return any(
            clip.video and self._file(clip.video).is_file() for clip in self.films[film]
        )

    def document(
        self, film: str, folder: Path, page_of_film: Mapping[str, str]
    ) -> JsonObject:
        """Return the document of the page of a film.

        Args:
            film: The film.
            folder: The folder of the page; addresses of videos are relative to it.
            page_of_film: The file name of the page of each film.
        """
        clips_of_film = self.films[film]
        names = {clip.video for clip in clips_of_film}
        facts = {video: media_facts(self._file(video)) for video in names}
        times = film_times(
            clips_of_film,
            length_of=lambda video: facts.get(video, MediaFacts()).duration_s,
        )
        notes = []
        if times.axis == IN_A_ROW:
            notes.append(f"The time line counts {IN_A_ROW}")
        videos = {}
        boundaries: Floats | None = None
        for piece in times.pieces:
            path = self._file(piece.video)
            pictures = picture_times(path, self.workspace.folder("indexes"))
            text = None
            if pictures is not None:
                text = base64.b64encode(pictures.astype("<f8").tobytes()).decode(
                    "ascii"
                )
                if piece.video == times.file:
                    boundaries = pictures[1:].tolist()
            videos[piece.video] = {
                "address": _address(path, folder),
                "refused": facts[piece.video].refused,
                "times": text,
            }
        marks = self._marks_in(film, times, boundaries, notes)
        clips = []
        for clip in clips_of_film:
            entry = self._entry(clip, marks)
            # Browsers do not play this video, so the page shows a picture of each clip.
            if clip.video and facts[clip.video].refused:
                entry["still"] = still(self.manifest, clip, workspace=self.workspace)
            clips.append(entry)
        titles = {
            name: film_title(self.films[name][0]) or name or self.manifest.name
            for name in page_of_film
        }
        pages = [
            {"title": titles[one], "address": quote(name)}
            for one, name in page_of_film.items()
        ]
        return {
            "page": {
                **self._overview,
                "pages": pages,
                "address": quote(page_of_film[film]),
                "clips": clips,
            },
            "film": {
                "id": film,
                "title": titles[film],
                "counts": times.axis,
                "end_s": times.end_s,
                "n_pictures": len(boundaries or [0]) - 1,
                "spans": times.spans,
                "pieces": [piece._asdict() for piece in times.pieces],
                "videos": videos,
                "segments": segments_of(marks),
                "own": own_columns_of(marks),
                "notes": notes,
            },
            "scores": self._select_scores({clip.clip_id for clip in clips_of_film}),
        }

    @cached_property
    def _overview(self) -> JsonObject:
        """The facts that all pages show: levels, concepts, the view, and the model."""
        levels = {}
        for level, name in LEVEL_NAMES.items():
            levels[level] = {"name": name, "color": LEVEL_COLORS[level]}
        concepts = self.manifest.header.concepts
        scored_by = None
        if self.run:
            scored_by = run_facts(self.run)
        elif self.predictions:
            scored_by = table_facts(self.predictions)
        view = self._viewed.header.view
        labels = [(clip.level, clip.concepts) for clip in self._viewed]
        if self._viewed is not self.manifest:
            # A view that changes no label is not named.
            raw = [(clip.level, clip.concepts) for clip in self.manifest]
            view = "raw" if labels == raw else view
        return {
            "title": self.manifest.name,
            "dataset": self.manifest.header.dataset,
            "levels": levels,
            "concepts": {name: concept_meaning(name) for name in concepts},
            "view": "" if view == "raw" else view.replace("_", " "),
            "asked": self._task_columns,
            "scored_by": scored_by,
            "changed": self._changed,
        }

    @cached_property
    def _viewed(self) -> Manifest:
        """The manifest in the view of the run.

        The manifest is unchanged if there is no run, or if it cannot be shown in the view of the
        run.
        """
        viewed = current_labels(self.run, self.manifest).manifest if self.run else None
        return self.manifest if viewed is None else viewed

    @cached_property
    def _changed(self) -> str:
        """A sentence if the labels have changed since the run, else ""."""
        return current_labels(self.run, self.manifest).changed if self.run else ""

    @cached_property
    def _task_columns(self) -> list[str]:
        """The columns that the tasks of the run, or of the table of scores, use."""
        if self.run:
            return task_columns(self.run)
        return list(self.predictions.task_columns) if self.predictions else []

    @cached_property
    def _scores(self) -> list[JsonObject]:
        """The scores of each model of the run, or of the table, with their facts."""
        if self.run:
            return [cell_facts(self.run, cell) for cell in models_to_show(self.run)]
        if self.predictions:
            return [table_scores(self.predictions, self.manifest)]
        return []

    def _select_scores(self, ids: set[str]) -> list[JsonObject]:
        """Return the scores of some clips."""
        found = []
        for of_model in self._scores:
            scores = of_model["scores"].items()
            kept = {name: score for name, score in scores if name in ids}
            found.append({**of_model, "scores": kept})
        return found

    # ---- clips ----------------------------------------------------------------------------------

    def _file(self, video: str) -> Path:
        root = self.manifest.header.video_root
        return Path(root, video) if root and video else Path()

    @cached_property
    def _places(self) -> dict[str, tuple[float, float]]:
        """Start and end of clips in their films, if they are known without the videos."""
        return spans_in_films(self.manifest)

    def _entry(self, clip: Clip, marks: Iterable[Mark]) -> JsonObject:
        """Return the facts of a clip, and the marks that overlap it."""
        # A view may have fewer clips than the film.
        bare = replace(clip, level="", concepts=())
        shown = self._viewed.by_id.get(clip.clip_id, bare)
        start_s, end_s = self._places.get(clip.clip_id, (None, None))
        touching = []
        if start_s is not None and end_s is not None:
            touching = [m for m in marks if m.start_s < end_s and m.end_s > start_s]
        said = []
        for one in self.manifest.annotations_by_clip.get(clip.clip_id, ()):
            said.append(
                {
                    "annotator": one.annotator,
                    "level": one.level,
                    "concepts": one.concepts,
                    "comment": one.own.get(COMMENT, ""),
                    "own": self._own_cells(one.own),
                }
            )
        return {
            "id": clip.clip_id,
            "start": start_s,
            "end": end_s,
            "scene": clip.scene,
            "level": shown.level,
            "concepts": shown.concepts,
            "annotator": clip.extra.get("annotator", ""),
            "comment": clip.extra.get(COMMENT, ""),
            "own": self._own_cells(clip.extra),
            "said": said,
            "still": "",
            "marked": segments_of(touching),
            "marked_own": own_columns_of(touching),
        }

    def _own_cells(self, cells: Mapping[str, str]) -> dict[str, str]:
        """Return the non-empty cells of own columns, starting with the columns of the tasks."""
        names = [name for name in own_columns(cells) if cells[name]]
        names.sort(key=lambda name: name not in self._task_columns)
        return {name: cells[name] for name in names}

    # ---- marks ----------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> dict[Path, tuple[Mark, ...] | ObygazeError]:
        """The tables of marks of the workspace, or the error of each invalid table."""
        tables: dict[Path, tuple[Mark, ...] | ObygazeError] = {}
        for path in sorted(self.workspace.folder(FOLDER).glob("*.csv")):
            try:
                tables[path] = read_marks([path], self.workspace).marks
            except ObygazeError as error:
                tables[path] = error
        return tables

    def _marks_in(
        self,
        film: str,
        times: FilmTimes,
        boundaries: Floats | None,
        notes: list[str],
    ) -> list[Mark]:
        """Return the marks of a film; `notes` gets the reason for each table that is not shown."""
        found: list[Mark] = []
        if self._tables and (times.axis == IN_A_ROW or times.unknown):
            notes.append("Marks are not shown: the times of clips are unknown")
            return found
        for path, table in self._tables.items():
            try:
                if isinstance(table, ObygazeError):
                    raise table
                of_film = [mark for mark in table if mark.movie_id == film]
                if boundaries is not None:
                    for mark in of_film:
                        refuse_behind_end(mark, boundaries)
            except ObygazeError as error:
                notes.append(f"{path.name} is not shown: {error.message}")
                continue
            people = {name.lower() for name in people_of(of_film)}
            if people & {name.lower() for name in people_of(found)}:
                notes.append(
                    f"{path.name} is not shown: another table has marks of the same annotators"
                )
            else:
                found += of_film
        return found


def segments_of(marks: Iterable[Mark]) -> list[JsonObject]:
    """Return the level, concepts and comment of each annotator for each span."""
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
    """Return the marks in the annotators' own columns."""
    names = ("start", "end", "column", "value", "annotator")
    own = [m for m in sorted(marks) if m.column not in (*_WITH_LEVEL, WATCHED)]
    return [dict(zip(names, mark[1:6], strict=True)) for mark in own]


def _address(video: Path, folder: Path) -> str:
    """Return the address of a video relative to the folder of the page."""
    path = video.absolute()
    try:
        relative = Path(os.path.relpath(path, folder.absolute())).as_posix()
    except ValueError:
        return path.as_uri()  # No relative path leads to another drive of Windows.
    return quote(os.fsencode(relative))
