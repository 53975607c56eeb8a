"""What the page shows: a manifest with a run, features, a model and marks, as documents."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import nlargest
from itertools import product
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from obygaze.films.arms import (
    anchoring,
    first_judgements,
    labels_by_arm,
)
from obygaze.films.decisions import (
    Explainer,
    Score,
    agreement,
    cell_facts,
    cells_of,
    run_facts,
    scores_of,
)
from obygaze.films.drafts import DraftTable
from obygaze.films.lanes import NumberLane, read_lanes
from obygaze.films.links import data_of, link_base
from obygaze.films.mark_tables import WATCHED, Segment, read_segments, watched_path
from obygaze.films.marks import (
    NAME,
    SHOTS,
    MarkChange,
    MarkTable,
    TableState,
    films_of_history,
    first_marks,
    read_good_segments,
)
from obygaze.films.media import Media
from obygaze.films.notes import (
    checked_note,
    notes_path,
    read_notes,
    save_note,
)
from obygaze.films.projection import ClipSpan, project
from obygaze.films.queue import ASSISTED, QueuedClip
from obygaze.films.vocabulary import (
    Vocabulary,
    VocabularyFile,
    paper_vocabulary,
)
from obygaze.films.watched import WatchedTable, checked_stretches
from obygaze_features.backbones.text import TextTower, load_text_tower
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeError
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.search import search
from obygaze_features.manifest.film_choice import title_of_clip
from obygaze_features.manifest.frame_rate import known_frame_rate
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.tables import open_file, read_table
from obygaze_features.manifest.times import (
    film_rate,
    film_times,
    span_in_file,
    span_in_film,
)
from obygaze_features.manifest.vocabulary import concept_meaning, film_title
from obygaze_features.store import Store
from obygaze_models.report.lookup import ReportRun, grouped

N_NEAREST = 12
MAX_CHANGES = 200
MOST_SECONDS = 86_400  # nobody looks at a clip for longer than a day
# The arm of films whose marks are in no history: they were added by hand, or copied without it.
UNKNOWN_ARM = "unknown"
Document = dict[str, Any]


@dataclass(frozen=True)
class ModelOfLevels:
    """A model of a run: its name, the class of each level that it tells apart, and its scores."""

    text: str
    classes: Mapping[str, int]
    scores: Mapping[str, Score]


@dataclass(frozen=True, eq=False)
class _SegmentsRead:
    """The bytes of a table of segments, the segments in it, and a name for this state of it."""

    data: bytes
    segments: Sequence[Segment]
    tag: str


@dataclass(frozen=True, eq=False)
class Site:
    """The inputs of the page, and the documents made of them.

    With `blind`, no document has predictions, or what others marked. With a `queue`, its clips are
    judged one after another, and only the documents of its clips in the arm `assisted` have what
    the model suggests.
    """

    workspace: Workspace
    manifest: Manifest
    run: ReportRun | None = None
    store: Store | None = None
    explainer: Explainer | None = None
    maps: Store | None = None
    weights: str | None = None
    segments: Sequence[Segment] = ()
    lanes: Sequence[NumberLane] = ()
    marks: MarkTable | None = None
    blind: bool = False
    queue: Sequence[QueuedClip] = ()

    def overview(self) -> Document:
        """Return what all parts of the page need: films, clips, levels, concepts, the run."""
        header = self.manifest.header
        levels = {
            level: {"name": name, "color": LEVEL_COLORS[level]}
            for level, name in LEVEL_NAMES.items()
        }
        run = None
        if self.run:
            run = run_facts(self.run)
        annotator = None
        marks = None
        if self.marks:
            annotator = self.marks.annotator
            marks = str(self.marks.path)
        return {
            "title": self.manifest.name,
            "dataset": header.dataset,
            "citation": header.citation,
            "licence": header.licence,
            "levels": levels,
            **self._vocabulary_facts(),
            "films": [
                {"id": film, "title": self._title(film), "year": self._year(film)}
                for film in self.films
            ],
            "link": link_base(self.manifest),
            "data": data_of(self.manifest),
            "clips": [self._entry(clip) for clip in self.shown.values()],
            "run": run,
            "annotator": annotator,
            "marks": marks,
            "blind": self.blind,
            "queue": len(self.queue),
        }

    def film(self, film: str) -> Document:
        """Return a film: its axis, its videos, and what annotators marked in it."""
        notes: list[str] = []
        rate = self.rate(film)
        axis = lay_out(self.films[film], self._length, float(rate or 0))
        if axis["unknown"]:
            missing = ", ".join(axis["unknown"])
            notes.append(
                f"The lengths of videos are not known, so marks have no place: {missing}."
            )
        pieces = [
            {**piece, **self.media.describe(piece["video"])} for piece in axis["pieces"]
        ]
        marks = self.marks_of(film)
        notes += marks.pop("notes")
        cannot_mark = marks["cannot_mark"]
        watched: list[tuple[int, int]] = []
        if self.watched and not cannot_mark:
            try:
                watched = self.watched.stretches(film)
            except ObygazeError as error:
                cannot_mark = _all_of(error)
        shots: list[tuple[int, int]] = []
        try:
            shots = self._shots(film)
        except ObygazeError as error:
            notes.append(f"The shots are not shown: {_all_of(error)}.")
        return {
            "id": film,
            "title": self._title(film),
            "rate": float(rate or 0),
            "notes": notes,
            **axis,
            **marks,
            "pieces": pieces,
            "shots": shots,
            "subtitles": self._subtitles(axis["pieces"]),
            "numbers": [
                {
                    "name": lane.name,
                    "low": lane.low,
                    "high": lane.high,
                    "bars": lane.bars[film],
                }
                for lane in self.lanes
                if film in lane.bars
            ],
            "cannot_mark": cannot_mark,
            "watched": watched,
            "picture_notes": self._picture_notes(film, notes),
            "drafts": self.drafts.of_film(film) if self.drafts else [],
        }

    def marks_of(self, film: str, known: str = "") -> Document:
        """Return what annotators marked in a film; with `known`, what changed since it.

        Args:
            film: The film.
            known: The `marks_state` that was returned before.

        Returns:
            `marks`: those of the annotator who uses the page; `only_changed`: whether these are
            only the marks that were saved since, with those that were `deleted`; `segments`: what
            others marked, null if it is as it was; rows of the table that are no marks, and why it
            cannot be read.
        """
        notes: list[str] = []
        known_marks, _, known_segments = known.partition("/")
        document: Document = {
            "marks": [],
            "only_changed": False,
            "segments": None,
            "bad_rows": [],
            "cannot_mark": "",
            "notes": notes,
        }
        marks_tag = ""
        if self.marks:
            try:
                state = self.marks.read()
            except ObygazeError as error:
                document["cannot_mark"] = _all_of(error)
            else:
                marks_tag = state.tag
                saved_ids = state.saved_since(known_marks)
                document["only_changed"] = saved_ids is not None
                if saved_ids is None:
                    saved = state.marks.values()
                    of_film = [mark for mark in saved if mark["movie_id"] == film]
                    document["marks"] = of_film
                else:
                    document["marks"] = _marks_by_now(state, saved_ids, film)
                for row in state.bad_rows:
                    bad_row = {"text": row.text, "problem": row.problem}
                    document["bad_rows"].append(bad_row)
        segments, segments_tag = self._segments(notes)
        if segments_tag != known_segments or not known:
            of_film = [asdict(one) for one in segments if one.movie_id == film]
            document["segments"] = of_film
        document["marks_state"] = f"{marks_tag}/{segments_tag}"
        return document

    def save_mark(self, sent: Mapping[str, Any]) -> Document:
        """Add, change or delete a mark of the annotator, as `MarkTable.save_all` does."""
        changes = [self._mark_change(sent)]
        (saved,) = self._own_marks().save_all(changes, self.vocabulary.read()[0])
        return saved

    def save_marks(self, sent: Mapping[str, Any]) -> list[Document]:
        """Make several changes of marks in one step, all or none of them."""
        marks = self._own_marks()
        changes = sent.get("changes")
        if not isinstance(changes, list) or not 0 < len(changes) <= MAX_CHANGES:
            raise FixInput(f"changes: expected a list of 1 to {MAX_CHANGES} marks")
        if not all(isinstance(change, dict) for change in changes):
            raise FixInput("changes: expected marks")
        checked = [self._mark_change(change) for change in changes]
        return marks.save_all(checked, self.vocabulary.read()[0])

    def _mark_change(self, sent: Mapping[str, Any]) -> MarkChange:
        """Return a change that the page sent, with the rate and the times of its mark."""
        if self.queue:
            raise FixUsage(
                "clips of a queue are judged whole", hint="--annotate without --queue"
            )
        film = sent.get("movie_id")
        first = sent.get("start_frame")
        last = sent.get("end_frame")
        # `MarkTable` says what is wrong with these.
        if not isinstance(film, str) or film not in self.films:
            return MarkChange(sent)
        if type(first) is not int or type(last) is not int:
            return MarkChange(sent)
        rate = self._rate_for_marks(film)
        n_frames = self._n_frames(film, rate)
        # What a file says of its length may be a few pictures less than it shows.
        if last >= n_frames + rate and sent.get("deleted") is not True:
            raise FixInput(f"the last picture of {film} is {n_frames - 1}, not {last}")
        start_s = float(first / rate)
        end_s = float((last + 1) / rate)
        return MarkChange(sent, rate, (start_s, end_s))

    def queued(self, position: int | None = None) -> Document:
        """Return a clip of the queue with its state; without a position, the first not judged yet.

        A position counts from 0. Clips after the first that is not judged cannot be looked at.
        """
        if not self.queue:
            raise FixUsage("there is no queue", hint="--queue random")
        saved = self._own_marks().read().marks
        judged = [_id_of_judgement(clip) in saved for clip in self.queue]
        n_judged = sum(judged)
        next_one = len(judged)
        if n_judged < len(judged):
            next_one = judged.index(False)
        state: Document = {"clips": len(judged), "judged": n_judged, "position": None}
        at = next_one if position is None else position
        if not 0 <= at <= next_one:
            raise FixUsage(f"the next clip of the queue is number {next_one}, not {at}")
        if at == len(judged):
            return state
        clip = self.queue[at]
        span = self.spans_by_id.get(clip.clip_id)
        if span is None:
            raise FixUsage(f"{clip.clip_id} has no place in its film any more")
        mark = saved.get(_id_of_judgement(clip))
        suggestion = None
        if clip.arm == ASSISTED:
            suggestion = {
                "levels": clip.suggested.split("|"),
                "model": clip.model,
                "score": float(clip.score),
            }
        rate = self._rate_for_marks(clip.movie_id)
        return {
            **state,
            "position": at,
            "clip_id": clip.clip_id,
            "film": clip.movie_id,
            "start": float(span.start_frame / rate),
            "end": float((span.end_frame + 1) / rate),
            "suggestion": suggestion,
            "mark": mark,
        }

    def judge(self, sent: Mapping[str, Any]) -> Document:
        """Save the label of a clip of the queue as a mark over all of it; return the next clip."""
        position = sent.get("position")
        seconds = sent.get("seconds")
        if type(position) is not int:
            raise FixInput("position: expected a whole number")
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= float(seconds or 0) <= MOST_SECONDS:
            raise FixInput("seconds: expected the time that it took")
        facts = self.queued(position)
        clip = self.queue[position]
        span = self.spans_by_id[clip.clip_id]
        rate = self._rate_for_marks(clip.movie_id)
        wanted = {
            "mark": _id_of_judgement(clip),
            "movie_id": clip.movie_id,
            "start_frame": span.start_frame,
            "end_frame": span.end_frame,
        }
        for name in ("version", "state", "level", "concepts", "comment"):
            wanted[name] = sent.get(name)
        more = {
            "clip_id": clip.clip_id,
            "order": clip.order,
            "suggested": clip.suggested,
            "otherwise": clip.otherwise,
            "seconds": f"{seconds:.1f}",
        }
        span_s = (facts["start"], facts["end"])
        change = MarkChange(wanted, rate, span_s, more, clip.arm)
        self._own_marks().save_all([change], self.vocabulary.read()[0])
        if self.watched is not None:
            stretch = (span.start_frame, span.end_frame)
            self.watched.add(clip.movie_id, [stretch], rate)
        return self.queued()

    def require_places(self) -> None:
        """Raise an error that says what is missing if no clip has a place in its film."""
        if not self.spans_by_id:
            raise FixUsage(
                "no clip has a place in its film: no video is linked, or its length is unknown",
                hint=self._link_hint,
            )

    @cached_property
    def spans_by_id(self) -> dict[str, ClipSpan]:
        """The pictures of the film that each clip has."""
        return {span.clip_id: span for span in self._spans()}

    def save_note(self, sent: Mapping[str, Any]) -> list[Document]:
        """Save a note at a picture, and return the notes of its film."""
        marks = self._own_marks()
        film = sent.get("movie_id")
        if not isinstance(film, str) or film not in self.films:
            raise FixUsage(f"the manifest has no film {film!r}")
        rate = self._rate_for_marks(film)
        n_frames = self._n_frames(film, rate)
        note, before = checked_note(sent, marks.annotator, n_frames)
        save_note(notes_path(marks.path), note, before, rate)
        return self._picture_notes(film, [])

    def _picture_notes(self, film: str, notes: list[str]) -> list[Document]:
        """Return the notes at pictures of a film: of all annotators, if the page is not blind.

        Why a table of notes is not shown is added to `notes`.
        """
        paths = [] if self.blind else [notes_path(path) for path in self._tables()]
        if self.marks and notes_path(self.marks.path) not in paths:
            paths.append(notes_path(self.marks.path))
        found = []
        for path in paths:
            try:
                found += [note for note in read_notes(path) if note.movie_id == film]
            except ObygazeError as error:
                notes.append(f"{path.name} is not shown: {_all_of(error)}.")
        found.sort(key=lambda note: (note.frame, note.annotator))
        return [
            {"annotator": note.annotator, "frame": note.frame, "text": note.text}
            for note in found
        ]

    def set_aside(self, sent: Mapping[str, Any]) -> Document:
        """Move the rows of the annotator's table that are no marks into a table of their own.

        With `rows`, only these; with `back`, they are moved into the table of marks again.
        """
        marks = self._own_marks()
        rows = sent.get("rows")
        is_list = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
        if rows is not None and not is_list:
            raise FixInput("rows: expected a list of rows")
        if sent.get("back") is True:
            marks.take_back(rows or [])
        else:
            rows = marks.set_aside(rows)
        return {"path": str(marks.aside_path), "rows": rows}

    def _n_frames(self, film: str, rate: Fraction) -> int:
        """Return the number of pictures of a film."""
        end_s: float = lay_out(self.films[film], self._length, float(rate))["end"]
        return max(1, round(end_s * rate))

    def save_watched(self, sent: Mapping[str, Any]) -> list[tuple[int, int]]:
        """Add what the annotator watched of a film, and return all that was watched of it.

        With `removed`, the stretches count as watched no more: they were added by mistake.
        """
        self._own_marks()
        if self.queue:
            raise FixUsage("of a queue, what is judged counts as watched")
        film = sent.get("movie_id")
        if not isinstance(film, str) or film not in self.films or self.watched is None:
            raise FixUsage(f"the manifest has no film {film!r}")
        rate = self._rate_for_marks(film)
        stretches = checked_stretches(sent, self._n_frames(film, rate))
        if sent.get("removed") is True:
            return self.watched.remove(film, stretches)
        return self.watched.add(film, stretches, rate)

    def _own_marks(self) -> MarkTable:
        if self.marks is None:
            raise FixUsage("nobody annotates in this page", hint="--annotate NAME")
        return self.marks

    def _rate_for_marks(self, film: str) -> Fraction:
        """Return the rate of a film in which marks have a place; else an error says why not."""
        rate = self.rate(film)
        if rate is None:
            raise FixUsage(
                f"the pictures per second of {film} are not known", hint=self._link_hint
            )
        unknown = lay_out(self.films[film], self._length, float(rate))["unknown"]
        if unknown:
            problem = f"marks in {film} have no place: the length of {unknown[0]} is not known"
            raise FixUsage(problem, hint=self._link_hint)
        return rate

    @property
    def _link_hint(self) -> str:
        """The command after which pictures of films have numbers, and marks a place."""
        return f"obygaze manifest link {self.manifest.name} FOLDER, with all videos of the film"

    @cached_property
    def watched(self) -> WatchedTable | None:
        """What the annotator has watched."""
        if self.marks is None:
            return None
        return WatchedTable(watched_path(self.marks.path), self.marks.annotator)

    @cached_property
    def vocabulary(self) -> VocabularyFile:
        """The concepts and tiers that the annotators of this manifest added."""
        folder = self.workspace.folder("segments")
        return VocabularyFile(folder / f"{self.manifest.name}.vocabulary.toml")

    def save_vocabulary(self, sent: Mapping[str, Any]) -> Document:
        """Write the vocabulary, and return the parts of the overview that it changes."""
        self._own_marks()
        try:
            self.vocabulary.save(sent.get("vocabulary"), sent.get("state"))
        except ObygazeError as error:
            raise FixInput(_all_of(error), hint=error.hint) from None
        return self._vocabulary_facts()

    def _vocabulary_facts(self) -> Document:
        """Return the vocabulary, and the concepts and tiers that marks may have."""
        problem = ""
        try:
            vocabulary, state = self.vocabulary.read()
        except ObygazeError as error:
            vocabulary = Vocabulary()
            state = ""
            problem = _all_of(error)
        known = {name: concept_meaning(name) for name in self.manifest.header.concepts}
        defined = {name: text for name, text in vocabulary.concepts.items() if text}
        names = [*vocabulary.concepts, *known]
        return {
            "concepts": {name: (known | defined).get(name, "") for name in names},
            "tiers": vocabulary.tiers,
            "vocabulary": {
                **vocabulary.to_json(),
                "state": state,
                "problem": problem,
                "path": str(self.vocabulary.path) if self.marks else "",
            },
        }

    @property
    def has_concepts(self) -> bool:
        """Whether marks can have concepts, of the manifest or of its vocabulary."""
        return bool(self._vocabulary_facts()["concepts"])

    def paper_terms(self) -> list[Document]:
        """Return the terms of the papers for the concepts of this manifest; all if it has none."""
        vocabulary = paper_vocabulary(self.manifest.header.concepts or None)
        terms: list[Document] = vocabulary.to_json()["terms"]
        return terms

    @cached_property
    def drafts(self) -> DraftTable | None:
        """What the annotator wrote in the form and did not save yet."""
        if self.marks is None:
            return None
        return DraftTable(self.marks.path.with_suffix(".drafts.json"))

    def save_draft(self, sent: Mapping[str, Any]) -> Document:
        """Keep what is in the form of a mark, or forget it if `form` is null."""
        self._own_marks()
        film = sent.get("movie_id")
        if not isinstance(film, str) or film not in self.films or self.drafts is None:
            raise FixUsage(f"the manifest has no film {film!r}")
        self.drafts.save(film, sent.get("mark"), sent.get("form"))
        return {}

    @lru_cache(maxsize=16)  # noqa: B019 - there is one site in a program
    def scores(self, cell: int) -> Document:
        """Return the scores of a cell of the run, and what the run says of the model."""
        if self.run is None:
            raise FixUsage("there are no scores without a run", hint="--run RUN")
        return cell_facts(self.run, cell)

    def clip(self, clip_id: str, on: str = "", off: str = "") -> Document:
        """Return a clip: its facts, why the model decided as it did, and similar clips.

        Args:
            clip_id: The clip.
            on: Concepts, joined with '|', that are switched on in the bottleneck.
            off: Concepts that are switched off.
        """
        entry = self._entry(self.shown[clip_id])
        document = {**entry, "notes": [], "maps": self.media.directions(clip_id)}
        switched_on = dict.fromkeys(on.split("|"), True)
        switched_off = dict.fromkeys(off.split("|"), False)
        switched = switched_on | switched_off
        try:
            if self.explainer:
                document["explanation"] = self.explainer.explain(clip_id, switched)
            document["nearest"] = self._nearest(clip_id)
        except ObygazeError as error:
            document["notes"].append(error.message)
        return document

    def agreement(self, notes: list[str]) -> list[Document]:
        """Return how far each annotator agrees with the out-of-fold decisions of the run's models.

        A film is in the arm in which its first mark was made; that of a film whose marks are in no
        history is unknown. `marks` is "first" for the marks as they were first saved in that arm,
        "last" for the table as it is. Rows and tables that
        cannot be read are left out, and are added to `notes`.
        """
        models = self._models_of_levels()
        if not models:
            raise FixUsage(
                "agreement needs a run with a model of levels that was tested on its training task,"
                " or clips that were judged in a queue",
                hint="--run RUN; or obygaze view --annotate NAME --queue random",
            )
        spans = self._spans()
        rows = []
        for path in self._tables():
            try:
                last = read_good_segments(path, notes)
                watched = WatchedTable(watched_path(path), "").segments()
            except ObygazeError as error:
                notes.append(f"{path.name} is left out: {_all_of(error)}")
                continue
            arm_of, first = first_marks(path)
            with_history = films_of_history(path)
            for mark in last:
                if mark.movie_id not in with_history:
                    arm_of[mark.movie_id] = UNKNOWN_ARM
            states = {"first": first, "last": last}
            arms = sorted(set(arm_of.values()))
            for arm, state in product(arms, states):
                marks = [
                    mark for mark in states[state] if arm_of.get(mark.movie_id) == arm
                ]
                seen = _watched_by_annotators(watched, marks)
                projected = project([*marks, *seen], spans)
                assumed = {annotator for _, annotator in projected.assumed}
                for annotator, labels in projected.by_annotator.items():
                    levels = {row.clip_id: row.level for row in labels if row.labelled}
                    row = {"annotator": annotator, "arm": arm, "marks": state}
                    row["watched"] = "assumed" if annotator in assumed else "known"
                    for model in models:
                        agreed = agreement(levels, model.classes, model.scores)
                        rows.append({**row, "model": model.text, **agreed})
        return rows

    def arms(self) -> Document:
        """Return labels, times and the shift towards suggestions, by the arms of the queues."""
        judgements = []
        for path in self._tables():
            judgements += first_judgements(path)
        annotated = {clip.clip_id: clip.level for clip in self.manifest}
        return {
            "labels": labels_by_arm(judgements),
            "anchoring": anchoring(judgements, annotated),
        }

    def _models_of_levels(self) -> list[ModelOfLevels]:
        """Return the models of the run that tell levels apart and are tested on their own task."""
        if self.run is None:
            return []
        texts = run_facts(self.run)["cells"]
        models = []
        for cell, text in zip(cells_of(self.run), texts, strict=True):
            task = self.run.protocol["tasks"][cell.test]
            classes = task.get("classes") or {}
            if classes and cell.train == cell.test:
                scores = scores_of(self.run, cell)
                models.append(ModelOfLevels(text, classes, scores))
        return models

    def _spans(self) -> list[ClipSpan]:
        """Return the pictures of the film that each clip has."""
        spans = []
        for film, clips in self.films.items():
            rate = self.rate(film)
            axis = lay_out(clips, self._length, float(rate or 0))
            if rate is None or axis["unknown"]:
                continue  # its marks cannot be placed on clips
            for clip_id, (start_s, end_s) in axis["spans"].items():
                first = round(start_s * rate)
                last = round(end_s * rate) - 1
                spans.append(ClipSpan(clip_id, film, first, last))
        return spans

    def where(self, expression: str) -> list[str]:
        """Return the clips for which an expression holds."""
        shown = self.manifest.with_clips(self.shown.values())
        return [clip.clip_id for clip in shown.where(expression)]

    def search(self, text: str) -> list[tuple[str, float]]:
        """Return the clips with features, the most like a text first, each with its cosine."""
        if self.store is None:
            raise FixUsage("a search needs features", hint="--store STORE")
        hits = search(self.store, text=text, top=len(self.store), load=self._tower)
        return [(hit.clip_id, hit.cosine) for hit in hits]

    @lru_cache(maxsize=1)  # noqa: B019 - there is one site in a program
    def _tower(self, card: str) -> TextTower:
        return load_text_tower(
            card, self.weights, workspace=self.workspace, download=False
        )

    @cached_property
    def media(self) -> Media:
        """The videos of the manifest."""
        names = sorted({clip.video for clip in self.manifest if clip.video})
        return Media(self.manifest.header.video_root, names, self.workspace, self.maps)

    @cached_property
    def films(self) -> dict[str, list[Clip]]:
        """The clips of each film."""
        return grouped(self.manifest, lambda clip: clip.movie_id)

    @cached_property
    def shown(self) -> dict[str, Clip]:
        """The clips by id; in the blind arm without labels, and no segments of annotators."""
        if not self.blind:
            return dict(self.manifest.by_id)
        is_of_clips = self.manifest.header.unit == "clip"
        if not is_of_clips or "annotator" in self.manifest.columns:
            return {}
        return {
            clip.clip_id: replace(clip, level="", concepts=(), extra={})
            for clip in self.manifest
        }

    @cached_property
    def missing(self) -> dict[str, str]:
        """Why a clip has no features, by clip."""
        if self.store is None:
            return {}
        ids = self.store.clip_ids.tolist()
        absent = self.manifest.by_id.keys() - set(ids)
        reasons = dict.fromkeys(absent, "not in the store")
        for row, reason in self.store.status().reasons.items():
            reasons[ids[row]] = str(reason)
        return reasons

    @cached_property
    def features(self) -> tuple[list[str], NDArray[np.float64]]:
        """The clips with features, and a row of length 1 for each."""
        if self.store is None:
            return [], np.empty((0, 0))
        arrays: Sequence[str] = self.store.feature_arrays
        array = arrays[0]
        if "pooled" in arrays:
            array = "pooled"
        elif "clip" in arrays:
            array = "clip"
        matrix = self.store.matrix(array, missing="drop")
        values = matrix.values
        is_real = self.store.real_frames(array, matrix.rows)
        if is_real is not None:
            values[~is_real] = 0  # padding is like nothing
        vectors = normalize(values.reshape(len(matrix), -1))
        return matrix.clip_ids.tolist(), vectors

    def _nearest(self, clip_id: str) -> list[tuple[str, Any]]:
        """Return the other clips whose features have the largest cosine to those of a clip."""
        clips, vectors = self.features
        if clip_id not in clips:
            return []
        cosines = vectors @ vectors[clips.index(clip_id)]
        others = [
            (other, cosine)
            for other, cosine in zip(clips, cosines, strict=True)
            if other != clip_id
        ]
        return nlargest(N_NEAREST, others, key=lambda pair: float(pair[1]))

    def _entry(self, clip: Clip) -> Document:
        """Return the facts of a clip; its times are in the film, or else in its video."""
        start, end = span_in_film(clip) or span_in_file(clip) or (None, None)
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
            "missing": self.missing.get(clip.clip_id),
        }

    def _title(self, film: str) -> str:
        return title_of_clip(self.films[film][0]) or film_title(film)

    def _year(self, film: str) -> str:
        return self.films[film][0].extra.get("year", "")

    def _length(self, video: str) -> float:
        """Return the length of a video in seconds; 0 if it is not known."""
        return self.media.facts(video).duration_s if video else 0.0

    def problem_of_place(self, place: Mapping[str, str]) -> str:
        """Return why the film or the time of a link is not in the manifest, "" where it is."""
        film = place.get("film")
        if film is None:
            return ""
        if film not in self.films:
            return f"the manifest has no film {film!r}{near(film, self.films)}"
        end_s: float = lay_out(self.films[film], self._length, 0.0)["end"]
        try:
            time_s = float(place.get("t", "0"))
        except ValueError:
            return f"t={place['t']} is not a time in seconds"
        if end_s and time_s > end_s:
            return f"t={place['t']} is after the end of {film}, {end_s:g} s"
        return ""

    def rate(self, film: str) -> Fraction | None:
        """Return the pictures per second of a film: of the manifest, else of a video of it."""
        return film_rate(self.films[film], lambda video: self.media.facts(video).rate)

    def _segments(self, notes: list[str]) -> tuple[list[Segment], str]:
        """Return the segments of all other annotators, and a tag that changes when they do.

        They are those given, and those of `segments/MANIFEST.*.csv`.
        """
        segments = list(_marked(self.segments))
        tags = []
        for path in [] if self.blind else self._tables():
            if self.marks and path == self.marks.path:
                continue
            try:
                table = self._segments_in(path)
            except ObygazeError as error:
                notes.append(f"{path.name} is not shown: {error.message}")
                continue
            segments += table.segments
            tags.append(table.tag)
        return segments, "-".join(tags)

    def _segments_in(self, path: Path) -> _SegmentsRead:
        """Return the segments of a table; it is parsed only if its bytes have changed."""
        with open_file(path) as stream:
            data = stream.read()
        last = self._last_segments.get(path)
        if last is None or last.data != data:
            segments = list(_marked(read_segments(path, data)))
            last = _SegmentsRead(data, segments, token_hex(8))
            self._last_segments[path] = last
        return last

    @cached_property
    def _last_segments(self) -> dict[Path, _SegmentsRead]:
        """The tables of others as they were last read, used while they have the same bytes."""
        return {}

    def _tables(self) -> list[Path]:
        """Return the tables of marks, one for each annotator: `segments/MANIFEST.NAME.csv`."""
        start = f"{self.manifest.name}."
        folder = self.workspace.folder("segments")
        tables = []
        for path in sorted(folder.glob(f"{glob.escape(start)}*.csv")):
            name = path.stem.removeprefix(start)
            if NAME.fullmatch(name) and name != SHOTS:
                tables.append(path)
        return tables

    def _subtitles(self, pieces: Sequence[Document]) -> list[Document]:
        """Return the subtitles of a film in order, on its axis and within its pieces."""
        subtitles = []
        for piece in pieces:
            shift_s = piece["start"] - piece["offset"]
            for cue in self.media.cues(piece["video"]):
                start_s = max(cue["start"] + shift_s, piece["start"])
                end_s = min(cue["end"] + shift_s, piece["end"])
                if start_s < end_s:
                    text = cue["text"]
                    subtitles.append({"start": start_s, "end": end_s, "text": text})
        return sorted(subtitles, key=lambda cue: (cue["start"], cue["end"]))

    def with_lanes(self, paths: Iterable[Path]) -> Site:
        """Return the page with a lane for each column of numbers of these tables."""
        rates = {film: float(self.rate(film) or 0) for film in self.films}
        spans_of_clips = {}
        for film, clips in self.films.items():
            axis = lay_out(clips, self._length, rates[film])
            for clip_id, span in axis["spans"].items():
                spans_of_clips[clip_id] = (film, span)
        lanes: list[NumberLane] = []
        for path in paths:
            lanes += read_lanes(path, rates, spans_of_clips)
        return replace(self, lanes=lanes)

    def _shots(self, film: str) -> list[tuple[int, int]]:
        """Return the shots of a film, first and last frame: `segments/MANIFEST.shots.csv`."""
        path = self.workspace.folder("segments") / f"{self.manifest.name}.{SHOTS}.csv"
        if not path.is_file():
            return []
        rows = read_table(path, required=("movie_id", "start_frame", "end_frame")).rows
        shots = []
        for row in rows:
            if row["movie_id"] != film:
                continue
            frames = row.frames()
            if frames is not None:
                shots.append(frames)
        return shots


def _all_of(error: ObygazeError) -> str:
    """Return the message of an error with the places that it lists."""
    return "; ".join([error.message, *error.details])


def _marks_by_now(
    state: TableState, mark_ids: Iterable[str], film: str
) -> list[Document]:
    """Return marks as they are now; of those that are deleted, only that they are."""
    marks = []
    for mark_id in dict.fromkeys(mark_ids):
        mark = state.marks.get(mark_id)
        if mark is None:
            marks.append({"mark": mark_id, "movie_id": film, "deleted": True})
        elif mark["movie_id"] == film:
            marks.append(mark)
    return marks


def _id_of_judgement(clip: QueuedClip) -> str:
    """Return the id of the mark of a clip of a queue, which is always the same."""
    return sha256_bytes(f"queue {clip.clip_id}".encode())[:32]


def _marked(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the segments that are marks, and not only watched."""
    for segment in segments:
        if segment.level != WATCHED:
            yield segment


def _watched_by_annotators(
    stretches: Sequence[Segment], marks: Sequence[Segment]
) -> list[Segment]:
    """Return what was watched of the films with marks, for each annotator who made them."""
    annotators = {mark.annotator for mark in marks}
    films = {mark.movie_id for mark in marks}
    watched = []
    for stretch in stretches:
        if stretch.movie_id in films:
            watched += [replace(stretch, annotator=name) for name in annotators]
    return watched


def lay_out(
    clips: Sequence[Clip], length_of: Callable[[str], float], rate: float
) -> Document:
    """Return where the clips of a film are, as a document; see `film_times`."""
    times = film_times(clips, rate=known_frame_rate(rate), length_of=length_of)
    pieces = [
        {
            "start": piece.start_s,
            "end": piece.end_s,
            "frame": times.frame_at(piece.start_s),
            "video": piece.video,
            "offset": piece.offset_s,
        }
        for piece in times.pieces
    ]
    return {
        "axis": times.axis,
        "end": times.end_s,
        "spans": times.spans,
        "pieces": pieces,
        "unknown": times.unknown,
    }
