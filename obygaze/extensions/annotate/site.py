"""What the page shows: a manifest with a run, features, a model and marks, as documents."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import nlargest
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from obygaze.extensions.annotate.decisions import (
    Explainer,
    Score,
    agreement,
    cells_of,
    run_facts,
    scores_of,
)
from obygaze.extensions.annotate.marks import NAME, SHOTS, MarkTable, first_marks
from obygaze.extensions.annotate.media import Media
from obygaze.extensions.annotate.projection import (
    WATCHED,
    ClipSpan,
    Segment,
    project,
    read_segments,
    watched_path,
)
from obygaze.extensions.annotate.watched import WatchedTable, checked_stretches
from obygaze.features import PathLike, workspace_of
from obygaze.models import load_model, named_manifest, read_run
from obygaze_features.backbones.text import TextTower, load_text_tower
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.figures import LEVEL_COLORS, LEVEL_NAMES
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.search import search
from obygaze_features.manifest.frame_rate import known_frame_rate
from obygaze_features.manifest.link import film_span
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.tables import read_table
from obygaze_features.manifest.vocabulary import concept_meaning, film_title
from obygaze_features.store import Store, open_store
from obygaze_features.store.maps import map_names
from obygaze_models.models.bottleneck import Bottleneck
from obygaze_models.report.lookup import ReportRun, grouped

N_NEAREST = 12
NOMINAL_S = 10.0  # the length of a clip on the axis, if it is unknown
# What an axis counts.
FILM, VIDEO = "time in the film", "time in the video"
ORDER = "clips in a row: their times in the film are unknown"
Document = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Site:
    """The inputs of the page, and the documents made of them.

    With `blind`, no document has predictions, or what others marked.
    """

    workspace: Workspace
    manifest: Manifest
    run: ReportRun | None = None
    store: Store | None = None
    explainer: Explainer | None = None
    maps: Store | None = None
    weights: str | None = None
    segments: Sequence[Segment] = ()
    marks: MarkTable | None = None
    blind: bool = False

    def overview(self, cell: int = 0) -> Document:
        """Return what all parts of the page need: films, clips, levels, concepts, the run."""
        scores, header = self._scores(cell), self.manifest.header
        levels = {
            n: {"name": LEVEL_NAMES[n], "color": LEVEL_COLORS[n]} for n in LEVEL_NAMES
        }
        return {
            "title": self.manifest.name,
            "dataset": header.dataset,
            "levels": levels,
            "concepts": {name: concept_meaning(name) for name in header.concepts},
            "films": [{"id": film, "title": self._title(film)} for film in self.films],
            "clips": [self._entry(clip, scores) for clip in self.shown.values()],
            "run": run_facts(self.run, cell, scores) if self.run else None,
            "annotator": self.marks.annotator if self.marks else None,
            "marks": str(self.marks.path) if self.marks else None,
            "blind": self.blind,
        }

    def film(self, film: str) -> Document:
        """Return a film: its axis, its videos, and what annotators marked in it."""
        notes: list[str] = []
        rate = self.rate(film)
        found = lay_out(self.films[film], self._length, float(rate or 0))
        if found["unknown"]:
            missing = ", ".join(found["unknown"])
            notes.append(
                f"The lengths of videos are not known, so marks have no place: {missing}."
            )
        pieces = [
            {**piece, **self.media.describe(piece["video"])}
            for piece in found["pieces"]
        ]
        marked = [asdict(one) for one in self._segments(notes) if one.movie_id == film]
        own = self.marks.read().values() if self.marks else ()
        return {
            **{
                "id": film,
                "title": self._title(film),
                "rate": float(rate or 0),
                "notes": notes,
            },
            **{
                **found,
                "pieces": pieces,
                "segments": marked,
                "shots": self._shots(film),
            },
            "marks": [mark for mark in own if mark["movie_id"] == film],
            "watched": self.watched.stretches(film) if self.watched else [],
        }

    def save_mark(self, sent: Mapping[str, Any]) -> Document:
        """Add, change or delete a mark of the annotator, as `MarkTable.save` does."""
        marks = self._own_marks()
        film = sent.get("movie_id")
        first, last = sent.get("start_frame"), sent.get("end_frame")
        if not isinstance(film, str) or film not in self.films:
            return marks.save(sent)  # which says what is wrong
        if type(first) is not int or type(last) is not int:
            return marks.save(sent)
        rate = self._rate_for_marks(film)
        return marks.save(sent, rate, (float(first / rate), float((last + 1) / rate)))

    def save_watched(self, sent: Mapping[str, Any]) -> list[tuple[int, int]]:
        """Add what the annotator watched of a film, and return all that was watched of it."""
        self._own_marks()
        film = sent.get("movie_id")
        if not isinstance(film, str) or film not in self.films or self.watched is None:
            raise FixUsage(f"the manifest has no film {film!r}")
        rate = self._rate_for_marks(film)
        end_s = lay_out(self.films[film], self._length, float(rate))["end"]
        stretches = checked_stretches(sent, max(1, round(end_s * rate)))
        return self.watched.add(film, stretches, rate)

    def _own_marks(self) -> MarkTable:
        if self.marks is None:
            raise FixUsage("nobody annotates in this page", hint="--annotate NAME")
        return self.marks

    def _rate_for_marks(self, film: str) -> Fraction:
        """Return the rate of a film in which marks have a place; else an error says why not."""
        rate = self.rate(film)
        if rate is None:
            raise FixUsage(f"the pictures per second of {film} are not known")
        unknown = lay_out(self.films[film], self._length, float(rate))["unknown"]
        if unknown:
            what = f"marks in {film} have no place: the length of {unknown[0]} is not known"
            raise FixUsage(
                what, hint="obygaze manifest link, with all videos of the film"
            )
        return rate

    @cached_property
    def watched(self) -> WatchedTable | None:
        """What the annotator has watched."""
        if self.marks is None:
            return None
        return WatchedTable(watched_path(self.marks.path), self.marks.annotator)

    def clip(
        self, clip_id: str, cell: int = 0, on: str = "", off: str = ""
    ) -> Document:
        """Return a clip: its facts, why the model decided as it did, and similar clips.

        Args:
            clip_id: The clip.
            cell: The cell of the run whose score is shown.
            on: Concepts, joined with '|', that are switched on in the bottleneck.
            off: Concepts that are switched off.
        """
        entry = self._entry(self.shown[clip_id], self._scores(cell))
        document = {**entry, "notes": [], "maps": self.media.directions(clip_id)}
        switched = dict.fromkeys(on.split("|"), True) | dict.fromkeys(
            off.split("|"), False
        )
        try:
            if self.explainer:
                document["explanation"] = self.explainer.explain(clip_id, switched)
            document["nearest"] = self._nearest(clip_id)
        except ObygazeError as error:
            document["notes"].append(error.what)
        return document

    def agreement(self, cell: int = 0) -> list[Document]:
        """Return how far each annotator agrees with the out-of-fold decisions of the run's model.

        A film is in the arm in which its first mark was made. `marks` is "first" for the marks as
        they were first saved in that arm, "last" for the table as it is.
        """
        run = self.run
        task = run.protocol["tasks"][cells_of(run)[cell]["test"]] if run else {}
        if not task.get("classes"):
            raise FixUsage(
                "agreement needs a run whose classes are levels", hint="--run RUN"
            )
        rows, spans, scores = list[Document](), self._spans(), self._scores(cell)
        for path in self._tables():
            arms, first = first_marks(path)
            states = {"first": first, "last": read_segments(path)}
            for arm, marks in product(sorted(set(arms.values())), states):
                own = [one for one in states[marks] if arms.get(one.movie_id) == arm]
                names = {one.annotator for one in own}
                films = {one.movie_id for one in own}
                watched = [
                    replace(stretch, annotator=name)
                    for stretch in WatchedTable(watched_path(path), "").segments()
                    for name in names
                    if stretch.movie_id in films
                ]
                projected = project([*own, *watched], spans)
                for name, found in projected.by_annotator.items():
                    levels = {row.clip_id: row.level for row in found if row.labelled}
                    is_assumed = any(who == name for _, who in projected.assumed)
                    facts = {"annotator": name, "arm": arm, "marks": marks}
                    facts["watched"] = "assumed" if is_assumed else "known"
                    rows.append(facts | agreement(levels, task["classes"], scores))
        return rows

    def _spans(self) -> list[ClipSpan]:
        """Return the pictures of the film that each clip has."""
        found = []
        for film, clips in self.films.items():
            rate = self.rate(film)
            axis = lay_out(clips, self._length, float(rate or 0))
            if rate is None or axis["unknown"]:
                continue  # its marks cannot be placed on clips
            for clip, (start, end) in axis["spans"].items():
                found.append(
                    ClipSpan(clip, film, round(start * rate), round(end * rate) - 1)
                )
        return found

    def where(self, expression: str) -> list[str]:
        """Return the clips for which an expression holds."""
        shown = self.manifest.with_clips(self.shown.values())
        return [clip.clip_id for clip in shown.where(expression)]

    def search(self, text: str) -> list[tuple[str, float]]:
        """Return the clips with features, the most like a text first, each with its cosine."""
        if self.store is None:
            raise FixUsage("a search needs features", hint="--store STORE")
        hits = search(self.store, text=text, top=self.store.n_clips, load=self._tower)
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
        of_clips = (
            self.manifest.header.unit == "clip"
            and "annotator" not in self.manifest.columns
        )
        clips = self.manifest if of_clips else ()
        return {c.clip_id: replace(c, level="", concepts=(), extra={}) for c in clips}

    @lru_cache(maxsize=16)  # noqa: B019 - there is one site in a program
    def _scores(self, cell: int) -> dict[str, Score]:
        return scores_of(self.run, cells_of(self.run)[cell]) if self.run else {}

    @cached_property
    def missing(self) -> dict[str, str]:
        """Why a clip has no features, by clip."""
        if self.store is None:
            return {}
        ids, noted = self.store.clip_ids.tolist(), self.store.status().noted
        absent = dict.fromkeys(
            self.manifest.by_id.keys() - set(ids), "not in the store"
        )
        return absent | {
            ids[row]: str(one) for row, one in noted.items() if not one.is_ok
        }

    @cached_property
    def _features(self) -> tuple[list[str], NDArray[np.float64]]:
        """The clips with features, and a row of length 1 for each."""
        if self.store is None:
            return [], np.empty((0, 0))
        levels: Sequence[str] = self.store.levels
        level = next((name for name in ("pooled", "clip") if name in levels), levels[0])
        found = self.store.matrix(level, missing="drop")
        values, real = found.values, self.store.real_frames(level, found.rows)
        if real is not None:
            values[~real] = 0  # padding is like nothing
        return found.clip_ids.tolist(), normalize(values.reshape(len(found), -1))

    def _nearest(self, clip_id: str) -> list[tuple[str, Any]]:
        """Return the other clips whose features have the largest cosine to those of a clip."""
        clips, rows = self._features
        if clip_id not in clips:
            return []
        cosines = rows @ rows[clips.index(clip_id)]
        others = (one for one in zip(clips, cosines, strict=True) if one[0] != clip_id)
        return nlargest(N_NEAREST, others, key=lambda one: float(one[1]))

    def _entry(self, clip: Clip, scores: Mapping[str, Score]) -> Document:
        """Return the facts of a clip; its times are in the film, or else in its video."""
        start, end = film_span(clip) or span_in_video(clip) or (None, None)
        facts = {name: getattr(clip, name) for name in ("scene", "level", "concepts")}
        facts |= {name: clip.extra.get(name, "") for name in ("annotator", "comment")}
        ids = {"id": clip.clip_id, "film": clip.movie_id, "start": start, "end": end}
        reason = {"missing": self.missing.get(clip.clip_id)}
        return {**ids, **facts, **reason, **scores.get(clip.clip_id, {})}

    def _title(self, film: str) -> str:
        extra = self.films[film][0].extra
        return extra.get("movie_title") or extra.get("title") or film_title(film)

    def _length(self, video: str) -> float:
        """Return the length of a video in seconds; 0 if it is not known."""
        return self.media.facts(video).duration_s if video else 0.0

    def rate(self, film: str) -> Fraction | None:
        """Return the pictures per second of a film: of the manifest, else of a video of it."""
        for clip in self.films[film]:
            rate = known_frame_rate(clip.extra.get("framerate", ""))
            if rate is not None:
                return rate
        for video in dict.fromkeys(
            clip.video for clip in self.films[film] if clip.video
        ):
            rate = known_frame_rate(self.media.facts(video).rate)
            if rate is not None:
                return rate
        return None

    def _segments(self, notes: list[str]) -> Iterator[Segment]:
        """Yield the segments of all annotators: those given, those of `segments/MANIFEST.*.csv`."""
        yield from (segment for segment in self.segments if segment.level != WATCHED)
        own = self.marks.path if self.marks else None
        for path in () if self.blind else self._tables():
            if path != own:
                try:
                    segments = read_segments(path)
                    yield from (
                        segment for segment in segments if segment.level != WATCHED
                    )
                except ObygazeError as error:
                    notes.append(f"{path.name} is not shown: {error.what}")

    def _tables(self) -> list[Path]:
        """Return the tables of marks, one for each annotator: `segments/MANIFEST.NAME.csv`."""
        start, folder = f"{self.manifest.name}.", self.workspace.folder("segments")
        found = (
            (path, path.stem.removeprefix(start))
            for path in sorted(folder.glob(f"{glob.escape(start)}*.csv"))
        )
        return [path for path, name in found if NAME.fullmatch(name) and name != SHOTS]

    def _shots(self, film: str) -> list[tuple[int, int]]:
        """Return the shots of a film, first and last frame: `segments/MANIFEST.shots.csv`."""
        path = self.workspace.folder("segments") / f"{self.manifest.name}.{SHOTS}.csv"
        if not path.is_file():
            return []
        rows = read_table(path, required=("movie_id", "start_frame", "end_frame")).rows
        return [
            span for row in rows if row["movie_id"] == film and (span := row.frames())
        ]


def open_site(
    manifest: PathLike | None = None,
    *,
    run: PathLike | None = None,
    store: PathLike | None = None,
    model: PathLike | None = None,
    maps: PathLike | None = None,
    weights: str | None = None,
    segments: Path | None = None,
    annotate: str | None = None,
    blind: bool = False,
    workspace: PathLike | None = None,
) -> Site:
    """Return the page of a manifest, for `server_of` or `export`.

    Args:
        manifest: The clips. The default is those of the run, or the only manifest of the workspace.
        run: Show the out-of-fold scores of this run.
        store: The features. The default is those of the run, if the workspace has them.
        model: Explain the decisions of this saved bottleneck.
        maps: Show the maps of this store, which `obygaze explain` made.
        weights: The weights of the text model that searches, if not the backbone's own.
        segments: Show the segments of this table, as `obygaze manifest project` reads it.
        annotate: Let this annotator mark segments; they are saved in `segments/`.
        blind: Show neither predictions nor what others marked.
        workspace: The workspace, if it is not the current one.
    """
    place, marks = workspace_of(workspace), None
    scored = ReportRun.of_run(read_run(run, workspace=workspace)) if run else None
    if manifest is None and scored:
        used = scored.about["manifest"]
        manifest = (
            used["name"] if used["name"] in place.names("manifests") else used["path"]
        )
    clips = named_manifest(manifest, workspace)[0]
    if annotate is not None:
        path = place.folder("segments") / f"{clips.name}.{annotate}.csv"
        arm = "blind" if blind else "assisted"
        marks = MarkTable(
            path, annotate, arm, clips.movies, tuple(clips.header.concepts)
        )
    site: dict[str, Any] = {"workspace": place, "manifest": clips, "marks": marks}
    if blind:
        return Site(**site, blind=True)
    saved = load_model(model, workspace=workspace) if model else None
    if store is None and scored:
        used = scored.about["stores"].get(cells_of(scored)[0]["feature"], {})
        name = Path(used.get("location", "")).name
        store = name if name in place.names("stores") else None
    found = open_store(store, workspace=workspace) if store else None
    if saved and not (found and isinstance(saved.estimator, Bottleneck)):
        what = f"--model {saved.info.name} ({saved.info.kind}) must be a bottleneck, with --store"
        raise FixUsage(
            what, hint="a model of obygaze train pcbm-lr, and the store of its features"
        )
    opened = open_store(maps, workspace=workspace) if maps else None
    if opened:
        map_names(opened)  # raises an error for another kind of store
    return Site(
        **site,
        run=scored,
        store=found,
        explainer=Explainer(saved, found, clips) if saved and found else None,
        maps=opened,
        weights=weights,
        segments=read_segments(segments) if segments else (),
    )


def lay_out(
    clips: Sequence[Clip], length_of: Callable[[str], float], rate: float
) -> Document:
    """Return the axis of a film, in seconds: the time in the film, or that in the video.

    Clips with files of their own and without times in the film follow each other by their scenes.

    Args:
        clips: The clips of one film.
        length_of: The length of a video in seconds; 0 if it is not known.
        rate: Pictures per second, which numbers the pictures of the film.

    Returns:
        `axis`: what it counts; `end`; `spans`: start and end by clip; `pieces`: stretches that a
        video shows, from its second `offset` on, where the film has its picture `frame`; `unknown`:
        videos without a known length, after which the places of clips in a row are not known.
    """
    unknown: list[str] = []
    in_film = {clip.clip_id: span for clip in clips if (span := film_span(clip))}
    in_video = {clip.clip_id: span for clip in clips if (span := span_in_video(clip))}
    videos = {clip.video for clip in clips if clip.video}
    if len(videos) == 1 and in_video and in_film in ({}, in_video):
        (video,) = videos
        spans, end = (
            in_video,
            max(length_of(video), *(end for _, end in in_video.values())),
        )
        pieces = [Document(start=0.0, end=end, video=video, offset=0.0, frame=0)]
    else:
        spans, end = (
            dict(in_film),
            max((end for _, end in in_film.values()), default=0.0),
        )
        for clip in () if in_film else sorted(clips, key=lambda clip: clip.scene or 0):
            first, last = span_in_video(clip) or (0.0, length_of(clip.video))
            if last <= first:
                unknown.append(clip.video or clip.clip_id)
                last = first + NOMINAL_S
            spans[clip.clip_id] = (end, end := end + last - first)
        pieces = [
            {
                **{"start": span[0], "end": span[1], "frame": round(span[0] * rate)},
                **{"video": clip.video, "offset": clip.start_s or 0.0},
            }
            for clip in clips
            if clip.video and (span := spans.get(clip.clip_id))
        ]
    axis = FILM if in_film else VIDEO if spans is in_video else ORDER
    pieces.sort(key=lambda piece: piece["start"])
    axis_facts = {"axis": axis, "end": end, "spans": spans, "pieces": pieces}
    return {**axis_facts, "unknown": unknown}


def span_in_video(clip: Clip) -> tuple[float, float] | None:
    """Return start and end of a clip in its video; None if it is all of it."""
    return (
        None
        if clip.start_s is None or clip.end_s is None
        else (clip.start_s, clip.end_s)
    )
