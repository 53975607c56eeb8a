"""What the page shows: a manifest with scores, features, a model and marks, as documents."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from obygaze.films.decisions import (
    Explainer,
    cell_facts,
    run_facts,
    scores_of_table,
    table_facts,
)
from obygaze.films.marks import Mark, read_table_of_marks, require_one_file
from obygaze.films.page.axis import FilmAxis, film_axis
from obygaze.films.page.media import Media
from obygaze.films.page.page_marks import (
    JsonObject,
    RowsOfFilm,
    own_columns_of,
    segments_of,
    watched_of,
    with_pictures,
)
from obygaze.films.pictures import refuse_behind_end
from obygaze.films.predictions import PredictionTable
from obygaze.films.projection import SEEN_SHARE
from obygaze.films.vocabulary import (
    Concept,
    read_vocabulary,
    vocabulary_path,
)
from obygaze.films.writer import ANNOTATOR_NAME, MarkFile
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES
from obygaze_features.core.tables import open_file
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.listing import title_of
from obygaze_features.manifest.model import Clip, Manifest, by_film, own_columns
from obygaze_features.manifest.own_labels import COVERED
from obygaze_features.manifest.times import Span, film_times, spans_in_films
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import RunLabels, labels_since


@dataclass(frozen=True, eq=False)
class Site:
    """The inputs of the page, and the documents made of them.

    Scores are those of a run, or of a table of predictions. `segments` is one more table of marks
    to show. With `blind`, no document has predictions, or what others marked. With a run, levels
    and concepts of clips are those of the run's view.
    """

    workspace: Workspace
    manifest: Manifest
    run: Run | None = None
    predictions: PredictionTable | None = None
    explainer: Explainer | None = None
    segments: Path | None = None
    marks: MarkFile | None = None
    blind: bool = False

    # ---- documents ------------------------------------------------------------------------------

    def overview(self) -> JsonObject:
        """Return what all parts of the page need: films, clips, levels, concepts, whose scores."""
        levels = {}
        for level, name in LEVEL_NAMES.items():
            levels[level] = {"name": name, "color": LEVEL_COLORS[level]}
        films = []
        for film in self.films:
            films.append({"id": film, "title": self._title(film)})
        vocabulary, problem = self._vocabulary()
        concepts = {
            name: concept_meaning(name) for name in self.manifest.header.concepts
        }
        for concept in vocabulary.values():
            concepts[concept.name] = concept.definition
        changed = self._labels.changed if self._labels else ""
        scored_by = None
        if self.run:
            scored_by = run_facts(self.run)
        elif self.predictions:
            scored_by = table_facts(self.predictions)
        annotator = self.marks.annotator if self.marks else None
        marks = str(self.marks.path) if self.marks else None
        return {
            "title": self.manifest.name,
            "dataset": self.manifest.header.dataset,
            "levels": levels,
            "concepts": concepts,
            "vocabulary": self._vocabulary_path.name,
            "problem": problem,
            "films": films,
            "clips": [self._entry(clip) for clip in self.shown.values()],
            "view": self._view,
            "units": self._units,
            "scored_by": scored_by,
            "changed": changed,
            "annotator": annotator,
            "marks": marks,
            "blind": self.blind,
            "seen_percent": float(100 * SEEN_SHARE),
        }

    def film(self, film: str) -> JsonObject:
        """Return a film: its time line, its videos, and what annotators marked in it."""
        axis = self._axis(film)
        times = axis.times
        pieces = []
        for piece in times.pieces:
            pieces.append({**piece._asdict(), **self.media.describe(piece.video)})
        spans = {clip: span for clip, span in times.spans.items() if clip in self.shown}
        return {
            "id": film,
            "title": self._title(film),
            "counts": times.axis,
            "end_s": times.end_s,
            "n_pictures": axis.n_pictures,
            "can_mark": self.marks is not None and axis.boundaries is not None,
            "spans": spans,
            "pieces": pieces,
            **self.marks_of(film),
        }

    def marks_of(self, film: str) -> JsonObject:
        """Return what annotators marked in a film.

        Args:
            film: The film.

        Returns:
            `marks` and `watched`: those of the annotator who uses the page; `segments`: what others
            marked; `own`: the marks of all of them in columns of their own; the `problem` if the
            annotator's table cannot be changed; `notes` on what is not shown.
        """
        axis = self._axis(film)
        notes: list[str] = []
        problem = ""
        own: list[Mark] = []
        marks: list[JsonObject] = []
        watched: list[JsonObject] = []
        boundaries = axis.boundaries
        if self.marks and boundaries is None:
            notes.append(f"This film can be looked at, not marked: {axis.problem}")
        elif self.marks and boundaries is not None:
            try:
                own = self._marks_in(film, self.marks.path, self.marks.read(), notes)
                marks = with_pictures(segments_of(own), boundaries)
                watched = watched_of(own, boundaries)
            except ObygazeError as error:
                problem = _all_of(error)
        others = self._marks_of_others(film, notes)
        return {
            "marks": marks,
            "watched": watched,
            "segments": segments_of(others),
            "own": own_columns_of([*own, *others]),
            "problem": problem,
            "notes": notes,
        }

    @lru_cache(maxsize=16)  # noqa: B019 - there is one site in a program
    def scores(self, cell: int) -> JsonObject:
        """Return the scores of a cell of the run or of the table, and what is said of the model."""
        if self.run:
            return cell_facts(self.run, cell, self._units)
        if self.predictions:
            return scores_of_table(self.predictions, self.manifest)
        raise FixUsage("there are no scores", hint="--run RUN, or --scores TABLE")

    def clip(self, clip_id: str) -> JsonObject:
        """Return a clip: its facts, what was marked in it, and why the model decided as it did."""
        clip = self.shown[clip_id]
        notes: list[str] = []
        start, end = self._places.get(clip_id, (0.0, 0.0))
        document: JsonObject = {**self._entry(clip), "notes": notes}
        try:
            marks = self._marks_of_others(clip.movie_id, notes)
            if self.marks:
                marks += [m for m in self.marks.read() if m.movie_id == clip.movie_id]
            marked = [m for m in marks if m.start_s < end and m.end_s > start]
            document["marked"] = segments_of(marked)
            document["marked_own"] = own_columns_of(marked)
            if self.explainer:
                document["explanation"] = self.explainer.explain(clip_id)
        except ObygazeError as error:
            notes.append(error.message)
        return document

    # ---- changes --------------------------------------------------------------------------------

    def take_turn(self, sent: Mapping[str, Any]) -> JsonObject:
        """Return the turn of a window that marks from now on; the one before it looks."""
        return {"turn": self._own_marks().take_turn()}

    def save_marks(self, sent: Mapping[str, Any]) -> list[JsonObject]:
        """Put marks in the place of others, and return those that are new as they are saved."""
        marks = self._own_marks()
        rows_of_film = self._rows_of_film(sent)
        gone, new = (rows_of_film.rows(sent.get(name)) for name in ("gone", "new"))
        gone = rows_of_film.as_in_table(gone, marks.read_before())
        marks.change(str(sent.get("turn")), gone, new)
        return with_pictures(segments_of(new), rows_of_film.boundaries)

    def save_watched(self, sent: Mapping[str, Any]) -> list[JsonObject]:
        """Add what the annotator watched of a film, and return all that was watched of it."""
        marks = self._own_marks()
        rows_of_film = self._rows_of_film(sent)
        spans = rows_of_film.spans(sent.get("stretches"))
        film = rows_of_film.film
        marks.add_watched(str(sent.get("turn")), film, spans)
        own = [mark for mark in marks.read_before() if mark.movie_id == film]
        return watched_of(own, rows_of_film.boundaries)

    def _own_marks(self) -> MarkFile:
        if self.marks is None:
            raise FixUsage("nobody annotates in this page", hint="--annotate NAME")
        return self.marks

    def _rows_of_film(self, sent: Mapping[str, Any]) -> RowsOfFilm:
        """Return what makes rows of the film that a request names."""
        film = sent.get("movie_id")
        if not isinstance(film, str) or film not in self.films:
            raise FixUsage(f"the manifest has no film {film!r}")
        axis = self._axis(film)
        if axis.boundaries is None:
            raise FixUsage(f"{film} can be looked at, not marked: {axis.problem}")
        return RowsOfFilm(film, self._own_marks().annotator, axis.boundaries)

    # ---- what the documents are made of ---------------------------------------------------------

    @property
    def _vocabulary_path(self) -> Path:
        folder = self.workspace.folder("segments")
        return vocabulary_path(folder, self.manifest.name)

    def _vocabulary(self) -> tuple[dict[str, Concept], str]:
        """Return the vocabulary of the annotators, and why it cannot be read, "" if it can."""
        concepts = self.manifest.header.concepts
        try:
            return read_vocabulary(self._vocabulary_path, concepts), ""
        except ObygazeError as error:
            return {}, _all_of(error)

    @property
    def has_concepts(self) -> bool:
        """Whether marks can have concepts, of the manifest or of its vocabulary."""
        return bool(self.manifest.header.concepts or self._vocabulary()[0])

    @cached_property
    def media(self) -> Media:
        """The videos of the manifest."""
        names = sorted({clip.video for clip in self.manifest if clip.video})
        return Media(self.manifest.header.video_root, names, self.workspace)

    @cached_property
    def films(self) -> dict[str, list[Clip]]:
        """The clips of each film."""
        return by_film(self.manifest)

    @lru_cache(maxsize=256)  # noqa: B019 - there is one site in a program
    def _axis(self, film: str) -> FilmAxis:
        def length_of(video: str) -> float:
            return self.media.facts(video).duration_s

        times = film_times(self.films[film], length_of=length_of)
        return film_axis(times, self.media.boundaries)

    @cached_property
    def _places(self) -> dict[str, Span]:
        """Start and end of clips in their films, where these are known without their videos."""
        return spans_in_films(self.manifest)

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
        if self.blind or name == "raw":
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

    @cached_property
    def shown(self) -> dict[str, Clip]:
        """The clips by id; in the blind arm without labels, and no segments."""
        if not self.blind:
            shown = {}
            for clip in self.manifest:
                in_view = self._seen.by_id.get(clip.clip_id)
                # A view may have fewer clips, which are in the film all the same.
                shown[clip.clip_id] = in_view or replace(clip, level="", concepts=())
            return shown
        if self.manifest.header.unit != "clip":
            return {}
        clips = {}
        for clip in self.manifest:
            clips[clip.clip_id] = replace(clip, level="", concepts=(), extra={})
        return clips

    def _entry(self, clip: Clip) -> JsonObject:
        """Return the facts of a clip; its times are in the film, or else in its video."""
        start, end = self._places.get(clip.clip_id, (None, None))
        return {
            "id": clip.clip_id,
            "film": clip.movie_id,
            "start": start,
            "end": end,
            "scene": clip.scene,
            "level": clip.level,
            "concepts": clip.concepts,
            "annotator": clip.extra.get("annotator", ""),
            "comment": clip.extra.get("comment", ""),
            "own": _own_cells(clip.extra),
            "said": self._said.get(clip.clip_id, []),
        }

    @cached_property
    def _said(self) -> dict[str, list[JsonObject]]:
        """What each annotator said of each clip, in no view; nothing in the blind arm."""
        said: dict[str, list[JsonObject]] = {}
        if self.blind:
            return said
        for one in self.manifest.annotations:
            facts = {
                "annotator": one.annotator,
                "level": one.level,
                "concepts": one.concepts,
                "comment": one.own.get("comment", ""),
                "own": _own_cells(one.own),
            }
            said.setdefault(one.clip_id, []).append(facts)
        return said

    def _title(self, film: str) -> str:
        return title_of(self.films[film][0]) or film

    def _marks_of_others(self, film: str, notes: list[str]) -> list[Mark]:
        """Return what all other annotators marked in a film; notes say what is not shown."""
        found: list[Mark] = []
        table_of: dict[tuple[str, str], Path] = {}
        tables = self._tables_of_others()
        axis = self._axis(film)
        if tables and not axis.is_of_film:
            notes.append(f"Marks have no place: the time line counts {axis.times.axis}")
            return found
        for path in tables:
            try:
                of_film = self._marks_in(film, path, self.table_of_marks(path), notes)
                for mark in of_film:
                    require_one_file(table_of, mark, path)
            except ObygazeError as error:
                notes.append(f"{path.name} is not shown: {error.message}")
                continue
            found += of_film
        return found

    def _marks_in(
        self, film: str, path: Path, marks: Iterable[Mark], notes: list[str]
    ) -> list[Mark]:
        """Return the marks of a film in a table; an error for one behind the end of the film."""
        boundaries = self._axis(film).boundaries
        of_film = [mark for mark in marks if mark.movie_id == film]
        if of_film and boundaries is not None:
            refuse_behind_end(max(of_film, key=lambda mark: mark.end_s), boundaries)
        unknown = sorted({mark.movie_id for mark in marks}.difference(self.films))
        if unknown:
            notes.append(
                f"{path.name} has marks in films that are not here: {few(unknown)}"
            )
        return of_film

    def table_of_marks(self, path: Path) -> tuple[Mark, ...]:
        """Return the marks of a table; it is parsed only if its bytes have changed."""
        with open_file(path) as stream:
            data = stream.read()
        last = self._last_tables.get(path)
        if last is None or last[0] != data:
            last = (data, read_table_of_marks(path, data).marks)
            self._last_tables[path] = last
        return last[1]

    @cached_property
    def _last_tables(self) -> dict[Path, tuple[bytes, tuple[Mark, ...]]]:
        """The tables of others as they were last read, used while they have the same bytes."""
        return {}

    def _tables_of_others(self) -> list[Path]:
        """Return the tables of other annotators that are shown: none in the blind arm."""
        if self.blind:
            return []
        tables = self._tables()
        if self.segments and self.segments.resolve() not in map(Path.resolve, tables):
            tables.append(self.segments)
        own = self.marks.path.resolve() if self.marks else None
        return [table for table in tables if table.resolve() != own]

    def _tables(self) -> list[Path]:
        """Return the tables of marks, one for each annotator: `segments/MANIFEST.NAME.csv`."""
        start = f"{self.manifest.name}."
        folder = self.workspace.folder("segments")
        tables = []
        for path in sorted(folder.glob(f"{glob.escape(start)}*.csv")):
            if ANNOTATOR_NAME.fullmatch(path.stem.removeprefix(start)):
                tables.append(path)
        return tables


def _own_cells(cells: Mapping[str, str]) -> dict[str, str]:
    """Return the cells of own columns that are not empty; how much marks cover is no label."""
    names = [name for name in own_columns(cells) if cells[name] and name != COVERED]
    return {name: cells[name] for name in names}


def _all_of(error: ObygazeError) -> str:
    """Return the message of an error with the places that it lists."""
    return "; ".join([error.message, *error.details])
