"""What the page shows: a manifest with scores, features, a model and marks, as documents."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.films.decisions import (
    Explainer,
    cell_facts,
    run_facts,
    scores_of_table,
    table_facts,
)
from obygaze.films.film_rates import check_rate
from obygaze.films.mark_tables import (
    Marks,
    Segment,
    SourceFiles,
    read_mark_table,
    watched_path,
)
from obygaze.films.marks import (
    ANNOTATOR_NAME,
    NO_MARKS,
    MarkTable,
    WatchedTable,
    check_rates,
    checked_stretches,
)
from obygaze.films.page.axis import FilmAxis, film_axis
from obygaze.films.page.media import Media
from obygaze.films.predictions import PredictionTable
from obygaze.films.projection import SEEN_SHARE
from obygaze.films.vocabulary import (
    Vocabulary,
    read_vocabulary,
    vocabulary_path,
)
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES
from obygaze_features.core.tables import open_file
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.listing import title_of
from obygaze_features.manifest.model import (
    Clip,
    Manifest,
    by_film,
    is_only_watched,
    own_columns,
)
from obygaze_features.manifest.own_labels import OF_PROJECTION
from obygaze_features.manifest.times import (
    IN_A_ROW,
    Span,
    film_rate,
    film_times,
    spans_in_films,
)
from obygaze_features.manifest.vocabulary import concept_meaning
from obygaze_features.store import Store
from obygaze_features.store.joining import joined_parts
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import RunLabels, labels_since

N_NEAREST = 12
N_IN_STRIP = 24  # pictures at even steps, above the time line
JsonObject = dict[str, Any]


@dataclass(frozen=True, eq=False)
class _TableRead:
    """The bytes of a table of marks, the marks in it, and a name for this state of it."""

    data: bytes
    marks: Marks
    tag: str


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
    store: Store | None = None
    explainer: Explainer | None = None
    segments: Path | None = None
    marks: MarkTable | None = None
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
        above = {}
        for concept in vocabulary.concepts.values():
            concepts[concept.name] = concept.definition
            if concept.above:
                above[concept.name] = concept.above
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
            "above": above,
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
        for piece in axis.pieces():
            pieces.append({**piece, **self.media.describe(piece["video"])})
        marks = self.marks_of(film)
        watched: list[JsonObject] = []
        if self.watched and not marks["problem"]:
            try:
                stretches = self.watched.stretches(film)
                if axis.has_places:
                    watched = _placed_stretches(stretches, axis)
            except ObygazeError as error:
                marks["problem"] = _all_of(error)
        return {
            "id": film,
            "title": self._title(film),
            "rate": float(times.rate or 0),
            "counts": times.axis,
            "end_s": times.end_s,
            "n_pictures": axis.n_pictures,
            "can_mark": self.marks is not None and axis.has_places,
            "spans": {
                clip: span for clip, span in times.spans.items() if clip in self.shown
            },
            "pieces": pieces,
            "n_in_strip": N_IN_STRIP,
            "watched": watched,
            **marks,
        }

    def marks_of(self, film: str, known: str = "") -> JsonObject:
        """Return what annotators marked in a film.

        Args:
            film: The film.
            known: The `state` that was returned before; while it is the same, `marks` and
                `segments` are null.

        Returns:
            `marks`: those of the annotator who uses the page; `segments`: what others marked; the
            `problem` if the annotator's table cannot be read; `notes` on what is not shown.
        """
        axis = self._axis(film)
        notes = []
        if axis.problem and (self.marks or self._tables_of_others()):
            notes.append(f"Marks have no place: {axis.problem}")
        elif self.marks and axis.times.axis == IN_A_ROW:
            notes.append(
                "Your marks count the pictures of these clips in a row: they are those of the film"
                " only if the clips are all of it"
            )
        document: JsonObject = {
            "marks": None,
            "segments": None,
            "problem": "",
            "notes": notes,
        }
        state = NO_MARKS
        if self.marks and axis.has_places:
            try:
                state = self.marks.read()
                marks = state.marks.values()
                check_rates(marks, film, axis.times.rate)
                pictures = [(mark["movie_id"], mark["end_frame"]) for mark in marks]
                notes += self._checked_places(self.marks.path.name, pictures, film)
            except ObygazeError as error:
                document["problem"] = _all_of(error)
                state = NO_MARKS
        segments, tag_of_others = self._marks_of_others(film, notes)
        document["state"] = f"{state.tag}/{tag_of_others}"
        if document["state"] == known:
            return document
        document["marks"] = []
        for mark in state.marks.values():
            if mark["movie_id"] == film:
                document["marks"].append(_placed(mark, axis))
        document["segments"] = []
        for segment in segments:
            if axis.has_places:
                document["segments"].append(_placed(asdict(segment), axis))
        return document

    @lru_cache(maxsize=16)  # noqa: B019 - there is one site in a program
    def scores(self, cell: int) -> JsonObject:
        """Return the scores of a cell of the run or of the table, and what is said of the model."""
        if self.run:
            return cell_facts(self.run, cell, self._units)
        if self.predictions:
            return scores_of_table(self.predictions, self.manifest)
        raise FixUsage("there are no scores", hint="--run RUN, or --scores TABLE")

    def clip(self, clip_id: str) -> JsonObject:
        """Return a clip: its facts, why the model decided as it did, and similar clips."""
        document = {**self._entry(self.shown[clip_id]), "notes": []}
        try:
            if self.explainer:
                document["explanation"] = self.explainer.explain(clip_id)
            document["nearest"] = self._nearest(clip_id)
        except ObygazeError as error:
            document["notes"].append(error.message)
        return document

    @lru_cache(maxsize=8)  # noqa: B019 - there is one site in a program
    def strip(self, film: str) -> bytes:
        """Return pictures of a film at even steps, in a row, as JPEG."""
        return self.media.strip(self._axis(film).even_places(N_IN_STRIP))

    # ---- changes --------------------------------------------------------------------------------

    def save_mark(self, sent: Mapping[str, Any]) -> JsonObject:
        """Add, change or delete a mark, and return it with its place on the time line."""
        marks = self._own_marks()
        film = sent.get("movie_id")
        first = sent.get("start_frame")
        last = sent.get("end_frame")
        # `MarkTable` says what is wrong with these.
        if not isinstance(film, str) or film not in self.films:
            return marks.save(sent)
        if type(first) is not int or type(last) is not int:
            return marks.save(sent)
        axis, rate = self._axis_for_marks(film)
        if sent.get("deleted") is not True:
            axis.refuse_behind_end(film, last)
        # From the first mark on it is known what was watched: nothing, until it was. A table of
        # marks alone would say that the whole film was watched.
        if self.watched is not None and not self.watched.path.exists():
            self.watched.add(film, [], rate)
        saved = marks.save(sent, rate, self._vocabulary()[0])
        return _placed(saved, axis)

    def save_watched(self, sent: Mapping[str, Any]) -> list[JsonObject]:
        """Add what the annotator watched of a film, and return all that was watched of it."""
        marks = self._own_marks()
        film = sent.get("movie_id")
        if not isinstance(film, str) or film not in self.films or self.watched is None:
            raise FixUsage(f"the manifest has no film {film!r}")
        axis, rate = self._axis_for_marks(film)
        stretches = []
        for first, last in checked_stretches(sent, axis.n_pictures):
            # With the first picture, all before it was seen: there is none.
            is_from_beginning = first <= axis.first_picture
            stretches.append((0 if is_from_beginning else first, last))
        marks.create()
        return _placed_stretches(self.watched.add(film, stretches, rate), axis)

    def _own_marks(self) -> MarkTable:
        if self.marks is None:
            raise FixUsage("nobody annotates in this page", hint="--annotate NAME")
        return self.marks

    def _axis_for_marks(self, film: str) -> tuple[FilmAxis, Fraction]:
        """Return the time line of a film in which marks have a place, and its rate."""
        axis = self._axis(film)
        rate = axis.times.rate
        if rate is None or axis.problem:
            raise FixUsage(
                f"marks in {film} have no place: {axis.problem}",
            )
        return axis, rate

    @cached_property
    def watched(self) -> WatchedTable | None:
        """What the annotator has watched."""
        if self.marks is None:
            return None
        return WatchedTable(watched_path(self.marks.path), self.marks.annotator)

    # ---- what the documents are made of ---------------------------------------------------------

    @property
    def _vocabulary_path(self) -> Path:
        folder = self.workspace.folder("segments")
        return vocabulary_path(folder, self.manifest.name)

    def _vocabulary(self) -> tuple[Vocabulary, str]:
        """Return the vocabulary of the annotators, and why it cannot be read, "" if it can."""
        concepts = self.manifest.header.concepts
        try:
            return read_vocabulary(self._vocabulary_path, concepts), ""
        except ObygazeError as error:
            return Vocabulary(), _all_of(error)

    @property
    def has_concepts(self) -> bool:
        """Whether marks can have concepts, of the manifest or of its vocabulary."""
        return bool(self.manifest.header.concepts or self._vocabulary()[0].concepts)

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
        def rate_of(video: str) -> Fraction | None:
            return self.media.facts(video).rate

        def length_of(video: str) -> float:
            return self.media.facts(video).duration_s

        def boundaries_of(video: str) -> NDArray[np.float64] | None:
            with suppress(ObygazeError):
                return self.media.boundaries(video)
            return None

        clips = self.films[film]
        rate = film_rate(clips, rate_of)
        times = film_times(clips, rate=rate, length_of=length_of)
        return film_axis(times, boundaries_of, rate_of)

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
        """What each annotator said of each clip; nothing in the blind arm."""
        said: dict[str, list[JsonObject]] = {}
        if self.blind:
            return said
        for one in self._seen.annotations:
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

    @cached_property
    def features(self) -> tuple[list[str], NDArray[np.floating[Any]]]:
        """The clips with features, of words those with words, and a row of length 1 for each.

        None for joined features: the part with the largest numbers would decide what is alike. What
        an annotator has watched is no clip.
        """
        if self.store is None or joined_parts(self.store.recipe):
            return [], np.empty((0, 0))
        array = self.store.default_array
        if not self.store.array(array).is_float:
            # Pictures that were kept are no features, for a search neither.
            return [], np.empty((0, 0))
        matrix = self.store.matrix(array, missing="drop")
        # The length of a vector may be too large for float16.
        values = matrix.values.astype(np.float32)
        is_real = self.store.real_frames(array, matrix.rows)
        if is_real is not None:
            values[~is_real] = 0  # padding is like nothing
        vectors = values.reshape(len(matrix), -1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        # A vector of zeros, such as that of speech in silence, is like nothing.
        has_direction = lengths[:, 0] > 0
        lengths[~has_direction] = 1
        watched = [clip.clip_id for clip in self.manifest if is_only_watched(clip)]
        is_clip = ~np.isin(matrix.clip_ids, np.array(watched, str))
        has_words = self.store.has_words(array, matrix.rows)
        is_shown = is_clip & has_direction & has_words
        vectors /= lengths
        return matrix.clip_ids[is_shown].tolist(), vectors[is_shown]

    def _nearest(self, clip_id: str) -> list[tuple[str, Any]]:
        """Return the other clips whose features have the largest cosine to those of a clip."""
        clips, vectors = self.features
        if clip_id not in clips:
            return []
        cosines = vectors @ vectors[clips.index(clip_id)]
        nearest: list[tuple[str, Any]] = []
        for place in np.argsort(-cosines, kind="stable").tolist():
            other = clips[place]
            if other != clip_id:
                nearest.append((other, cosines[place]))
        return nearest[:N_NEAREST]

    def _marks_of_others(
        self, film: str, notes: list[str]
    ) -> tuple[list[Segment], str]:
        """Return what all other annotators marked in a film, and a tag that changes when they do.

        Notes say which tables are not shown, and which marks have no place.
        """
        segments: list[Segment] = []
        sources = SourceFiles()
        tags = []
        axis = self._axis(film)
        for path in self._tables_of_others():
            try:
                table = self.table_of_marks(path)
                check_rate(film, table.marks.rates.get(film), axis.times.rate)
                marks = [mark for mark in table.marks.segments if not mark.is_watched]
                of_film = [mark for mark in marks if mark.movie_id == film]
                for mark in of_film:
                    sources.add(film, mark.annotator, path)
                pictures = [(mark.movie_id, mark.end_frame) for mark in marks]
                notes_on_places = self._checked_places(path.name, pictures, film)
            except ObygazeError as error:
                notes.append(f"{path.name} is not shown: {error.message}")
                continue
            tags.append(table.tag)
            segments += of_film
            notes += notes_on_places
        return segments, "-".join(tags)

    def _checked_places(
        self, table: str, pictures: Sequence[tuple[str, int]], film: str
    ) -> list[str]:
        """Return notes on marks of a table; an error for one behind the end of a film.

        Args:
            table: The name of the table.
            pictures: The film and the last picture of each mark.
            film: The film that is shown.
        """
        last = max(
            (picture for marked, picture in pictures if marked == film), default=0
        )
        self._axis(film).refuse_behind_end(film, last)
        unknown = sorted({marked for marked, _ in pictures}.difference(self.films))
        if not unknown:
            return []
        return [f"{table} has marks in films that are not here: {few(unknown)}"]

    def table_of_marks(self, path: Path) -> _TableRead:
        """Return the marks of a table; it is parsed only if its bytes have changed."""
        with open_file(path) as stream:
            data = stream.read()
        last = self._last_tables.get(path)
        if last is None or last.data != data:
            last = _TableRead(data, read_mark_table(path, data), token_hex(8))
            self._last_tables[path] = last
        return last

    @cached_property
    def _last_tables(self) -> dict[Path, _TableRead]:
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
    """Return the cells of own columns that are not empty."""
    own = [name for name in own_columns(cells) if name not in OF_PROJECTION]
    return {name: cells[name] for name in own if cells[name]}


def _all_of(error: ObygazeError) -> str:
    """Return the message of an error with the places that it lists."""
    return "; ".join([error.message, *error.details])


def _placed(marked: Mapping[str, Any], axis: FilmAxis) -> JsonObject:
    """Return pictures of a film with their place on the time line."""
    start_s, end_s = axis.span(marked["start_frame"], marked["end_frame"])
    return {**marked, "start": start_s, "end": end_s}


def _placed_stretches(
    stretches: Iterable[tuple[int, int]], axis: FilmAxis
) -> list[JsonObject]:
    """Return what was watched with its place on the time line."""
    placed = []
    for first, last in stretches:
        placed.append(_placed({"start_frame": first, "end_frame": last}, axis))
    return placed
