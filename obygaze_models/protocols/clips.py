"""Columns of the clips of a manifest, and their classes in a task."""

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import (
    FixInput,
    NotFound,
    ObygazeWarning,
    UnknownName,
    near,
)
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.tables import is_number
from obygaze_features.manifest.expression import (
    CONCEPTS,
    Expression,
    is_labelled,
    parse,
    typed_value,
)
from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_features.manifest.model import (
    FILM_COLUMN,
    FOLD_PREFIX,
    KEEPS_LEVELS,
    LEVELS,
    Clip,
    Manifest,
    disputed_names,
    left_open,
    own_columns,
    require_numbers,
    words_in,
)
from obygaze_features.manifest.own_labels import column_words
from obygaze_features.manifest.spans import span_in_film
from obygaze_features.manifest.times import Span, spans_in_films
from obygaze_models.evaluation.leakage import number_names
from obygaze_models.protocols.schema import AUTO, Data, Task

if TYPE_CHECKING:
    from obygaze_features.store import Store

Words = NDArray[np.str_]
LabelArray = NDArray[np.int8]
LEFT_OUT = -1


@dataclass(frozen=True, eq=False)
class TaskClips:
    """Clips in the order of the manifest, under one view."""

    name: str
    clips: Sequence[Clip]
    concept_names: tuple[str, ...]
    # All clips of the manifest, because times are interpreted for all clips together.
    of_manifest: Sequence[Clip] = ()
    # Remarks on possible errors, by their name in a run.
    remarks: Mapping[str, str] = field(default_factory=dict)
    # The view of the annotations, such as `visual`.
    view: str = ""
    # All concepts that a clip of the manifest may have.
    vocabulary: Collection[str] = ()
    # The column of the groups that are held out and resampled as a whole.
    group_column: str = FILM_COLUMN
    # For groups that share a video file, the name of the group that they count as.
    group_of_file: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.clips)

    @cached_property
    def ids(self) -> list[str]:
        """The clip ids."""
        return [clip.clip_id for clip in self.clips]

    @cached_property
    def id_array(self) -> Words:
        """The clip ids as an array."""
        return np.array(self.ids, dtype=np.str_)

    @cached_property
    def spans(self) -> Mapping[str, Span]:
        """Start and end of the clips in their films, by clip id, if known."""
        return spans_in_films(self.of_manifest or self.clips)

    @cached_property
    def group_numbers(self) -> IntArray:
        """The number of the group of each clip."""
        return number_names(self.groups.tolist())

    @cached_property
    def films(self) -> Words:
        """The film of each clip."""
        return self.column(FILM_COLUMN)

    @cached_property
    def has_films(self) -> bool:
        """Whether the manifest states films; it does for all clips or for none."""
        return bool(np.any(self.films != ""))

    @cached_property
    def groups(self) -> Words:
        """The group of each clip that is held out as a whole: its film, or a group of a column.

        "" if the manifest has no films, so that single clips are held out.
        """
        names = self.column(self.group_column).tolist()
        return np.array([self.group_of_file.get(name, name) for name in names], np.str_)

    @cached_property
    def levels(self) -> Words:
        """The annotation level of each clip; "" without a level."""
        return self.column("level")

    @property
    def has_labels(self) -> bool:
        """Whether any clip has a level or a concept."""
        return any(clip.level or clip.concepts for clip in self.clips)

    @cached_property
    def has_video(self) -> NDArray[np.bool_]:
        """Whether each clip has a video."""
        return np.array([clip.video != "" for clip in self.clips], dtype=np.bool_)

    @cached_property
    def has_concept(self) -> NDArray[np.bool_]:
        """Whether each clip (row) has each of `concept_names` (column)."""
        return self._has_names([clip.concepts for clip in self.clips])

    @cached_property
    def is_open_concept(self) -> NDArray[np.bool_]:
        """Whether the annotators of each clip (row) differ on each of `concept_names` (column)."""
        return self._has_names([disputed_names(clip) for clip in self.clips])

    def _has_names(
        self, names_of_clips: Sequence[Collection[str]]
    ) -> NDArray[np.bool_]:
        """Return a boolean matrix [clips, concept_names]: whether the name is one of the clip."""
        has_name = np.zeros((len(self), len(self.concept_names)), dtype=np.bool_)
        for row, names in enumerate(names_of_clips):
            has_name[row] = [name in names for name in self.concept_names]
        return has_name

    @cached_property
    def scenes(self) -> IntArray | None:
        """The position of each clip in its film, or None if a position is unknown.

        The position is the scene if all clips have one. If not, it is the rank of the clip by start
        time. The result is also None if there is only one film.
        """
        scenes = [clip.scene for clip in self.clips]
        if len(set(self.films.tolist())) < 2:
            return None
        if None not in scenes:
            return np.array(scenes, dtype=np.intp)
        if any(clip not in self.spans for clip in self.ids):
            return None
        starts = np.array([self.spans[clip][0] for clip in self.ids], dtype=np.float64)
        order = np.lexsort((starts, self.films))
        ranks = np.empty(len(order), dtype=np.intp)
        ranks[order] = np.arange(len(order))
        return ranks

    @cached_property
    def film_and_scene(self) -> NDArray[np.float64]:
        """The film and the scene of each clip as numbers; without positions, all scenes are 0."""
        # Imported here, because only baselines of films and scenes need it.
        from obygaze_models.models.baselines import film_and_scene

        if self.scenes is None:
            return film_and_scene(self.films, np.zeros(len(self)))
        return film_and_scene(self.films, self.scenes)

    def has(self, needed: str) -> bool:
        """Return whether the clips have what a baseline needs (`registry.Baseline`)."""
        is_there = {
            "": True,
            "concepts": self.has_concept.any(),
            "scenes": self.scenes is not None,
            "films": self.has_films,
        }
        return bool(is_there[needed])

    def column(self, name: str) -> Words:
        """Return the text of each clip in a column; several values are joined by "|"."""
        try:
            cells = ["|".join(clip.values(name)) for clip in self.clips]
        except NotFound as error:
            error.where = self.name  # no clip has it
            raise
        return np.array(cells, dtype=np.str_)

    def fold(self, name: str) -> IntArray:
        """Return a published fold column as numbers; -1 for a clip without a fold."""
        if FOLD_PREFIX + name not in self.clips[0].extra:
            raise FixInput(
                f"the manifest has no published folds {name!r}",
                where=self.name,
                hint="import the folds: obygaze manifest folds --help",
            )
        folds = [clip.fold(name) for clip in self.clips]
        return np.array(
            [OUTSIDE if fold is None else fold for fold in folds], dtype=np.intp
        )


def with_view(
    data: Data, manifest: Manifest, stores: Mapping[str, "Store"] | None = None
) -> Data:
    """Return the data of a protocol with the view "auto" replaced.

    The view "auto" becomes the usual view of the manifest. If a store has features of sound or of
    words, "auto" becomes the view that the manifest already has. The usual view can be the visual
    view, which excludes concepts that are not visible in pictures.
    """
    if data.view != AUTO:
        return data
    view: Any = manifest.header.view
    if not without_pictures(stores):
        view = manifest.usual_view
    return replace(data, view=view)


def without_pictures(stores: Mapping[str, "Store"] | None) -> list[str]:
    """Return the names of the stores whose features were not computed from pictures."""
    found = []
    for name, store in (stores or {}).items():
        if store.recipe.medium not in ("", "pictures"):
            found.append(name)
    return found


def clip_table(manifest: Manifest, data: Data) -> TaskClips:
    """Return the clips of a manifest that a protocol uses."""
    data = with_view(data, manifest)
    for clip in manifest:
        # Files are checked when they are read, a manifest in memory is not.
        if clip.level not in ("", *LEVELS):
            raise FixInput(
                f"clip {clip.clip_id!r} has the unknown level {clip.level!r}, expected"
                f" {', '.join(LEVELS)}",
                where=manifest.name,
            )
    is_rated = any(clip.level not in ("", "EN") for clip in manifest)
    has_concepts = any(clip.concepts for clip in manifest)
    if data.view == "visual" and is_rated and not has_concepts:
        raise FixInput(
            "no clip has a concept, so every clip would be EN in the visual view",
            where=manifest.name,
            hint="use --set data.view=raw, or og.dataset(..., view='raw')",
        )
    viewed = manifest.view(data.view)
    selected = viewed.where(data.where) if data.where else viewed
    table = TaskClips(
        manifest.name,
        selected.clips,
        viewed.header.visual,
        of_manifest=manifest.clips,
        remarks=_remarks(manifest, viewed, selected, data),
        view=data.view,
        vocabulary=tuple(viewed.header.concepts),
    )
    if not len(table):
        raise FixInput(
            f"no clip matches data.view = {data.view!r} and data.where = {data.where!r}",
            where=manifest.name,
        )
    lost = table.remarks.get("levels lost")
    if lost:
        warnings.warn(lost, ObygazeWarning, stacklevel=3)
    return table


def _remarks(
    manifest: Manifest, viewed: Manifest, selected: Manifest, data: Data
) -> dict[str, str]:
    """Return remarks on the selected clips.

    `Manifest.where` has already warned about the unknown values among them.
    """
    remarks = {}
    expression = None
    if data.where:
        known = viewed.header.concepts or None
        expression = parse(data.where, vocabulary=known, words_of=viewed.words)
        unknown = viewed.unknown_values(expression)
        if unknown:
            remarks["unknown values"] = "; ".join(unknown) + "."
        n_open = sum(bool(left_open(expression, clip)) for clip in viewed)
        if n_open:
            clips = count(n_open, "clip")
            remarks["disputed"] = (
                f"{clips} excluded by data.where, because annotators differ on its columns or"
                " concepts."
            )
    if data.view != manifest.header.view:
        # Compare clips that `where` selects in the view or in the raw annotations.
        in_view_or_raw = []
        for clip in manifest:
            if clip.clip_id in selected or (
                expression and clip.clip_id in viewed and expression.holds(clip.values)
            ):
                in_view_or_raw.append(clip)
        raw = manifest.with_clips(in_view_or_raw)
        changes = {"levels lost": raw.levels_lost, "levels changed": raw.levels_heard}
        for name, sentence in changes.items():
            if sentence:
                remarks[name] = f"{sentence}; {KEEPS_LEVELS}."
    return remarks


def task_labels(name: str, task: Task, table: TaskClips) -> LabelArray:
    """Return the class of each clip: 1, 0, or -1 for clips outside the task.

    A clip has no class if annotators differ on a column or concept that decides its class.
    """
    labels = _classes(name, task, table)
    is_open = np.array([bool(names) for names in _left_open(name, task, table)])
    labels[is_open] = LEFT_OUT
    if task.folds:
        is_outside = table.fold(task.folds) == OUTSIDE
        labels = np.where(is_outside, LEFT_OUT, labels).astype(np.int8)
    missing = sorted({0, 1} - {*labels.tolist()})
    if missing:
        classes = " and no clip of ".join(
            f"class {n}{_meaning(task, n)}" for n in missing
        )
        folds = f" in the split {task.folds}" if task.folds else ""
        columns = columns_of_task(name, task, table)
        has = [
            f"the column {column} has {column_words(table.clips, column)}"
            for column in columns
        ]
        view = ", in the visual view" if table.view == "visual" else ""
        if columns == ["level"] and not any(table.levels):
            own = few(own_columns(table.clips[0].extra)) or "there is none"
            has = [f"no clip has a level; use --task with one of your columns: {own}"]
        raise FixInput(
            f"the task {name} has no clip of {classes}{folds}",
            where=table.name,
            hint=f"{'; '.join(has)}{view}",
        )
    return labels


def labels_sha256(table: TaskClips, labels: Mapping[str, LabelArray]) -> dict[str, Any]:
    """Return hashes of the labels of a run: of clips, of levels and concepts, and of each task.

    The hash of clips covers ids, films and spans. The hash of levels and concepts also covers the
    columns and concepts on which annotators differ. The hash of a task covers the classes of clips.
    """
    places = []
    levels: list[list[Any]] = []
    for clip in table.clips:
        span = span_in_film(clip) or (clip.start_s, clip.end_s)
        places.append([clip.clip_id, clip.movie_id, *span])
        levels.append([clip.clip_id, clip.level, *clip.concepts])
        if disputed_names(clip):
            levels[-1].append(sorted(disputed_names(clip)))
    return {
        "clips": sha256_bytes(canonical_json(places)),
        "levels": sha256_bytes(canonical_json(levels)),
        "classes": {name: sha256_bytes(of.tobytes()) for name, of in labels.items()},
    }


def _classes(name: str, task: Task, table: TaskClips) -> LabelArray:
    """Return the class of each clip, by level, by column or by the expressions of the task."""
    if task.positive:
        return _by_expressions(name, task, table)
    column = task.column or "level"
    cells = table.column(column).tolist()
    words = {*cells} - {""}
    values = {}
    for word, number in (task.values or task.classes).items():
        values[typed_value(word, column, lambda: words)] = number
    unknown = sorted({cell for cell in cells if cell and cell not in values})
    if unknown and task.column:
        word = unknown[0]
        raise FixInput(
            f"tasks.{name}.values has no class for {word!r} of the column {column}"
            f"{near(word, values)}: {count(cells.count(word), 'clip')}",
            where=table.name,
            hint="add it to values of the task, or correct these cells in the table",
        )
    return np.array([values.get(cell, LEFT_OUT) for cell in cells], dtype=np.int8)


def _by_expressions(name: str, task: Task, table: TaskClips) -> LabelArray:
    """Return the class of each clip of a task that is defined by expressions.

    If the task has no `negative`, clips that do not match `positive` have the class 0. If it
    depends on an empty cell whether a clip matches, the clip is neither positive nor negative.
    """
    positive, *negative = _expressions(name, task, table)
    for expression in (positive, *negative):
        require_numbers(expression, table.clips, table.name)
    holds = [positive.holds(clip.values) for clip in table.clips]
    fails = [value is False for value in holds]
    if negative:
        fails = [bool(negative[0].holds(clip.values)) for clip in table.clips]
    ones = np.array([value is True for value in holds], dtype=np.bool_)
    zeros = np.array(fails, dtype=np.bool_)
    n_in_both = int(np.sum(ones & zeros))
    if n_in_both:
        raise FixInput(
            f"{n_in_both} clips are in both classes",
            where=f"{task.positive} / {task.negative}",
            hint="change these cells or one of the expressions: a clip has one class",
        )
    return np.where(ones, 1, np.where(zeros, 0, LEFT_OUT)).astype(np.int8)


def _expressions(name: str, task: Task, table: TaskClips) -> list[Expression]:
    """Return the expression of the positive clips, and of the negative clips if stated."""
    parsed = []
    for key in ("positive", "negative"):
        text = getattr(task, key)
        if not text:
            continue
        where = f"tasks.{name}.{key}"
        expression = parse(
            text,
            vocabulary=table.vocabulary or None,
            where=where,
            of_empty=None,
            words_of=partial(words_in, table.clips),
        )
        for column in expression.compared:
            try:
                table.clips[0].values(column)
            except UnknownName as error:
                error.where = where
                raise
        parsed.append(expression)
    return parsed


def columns_of_task(name: str, task: Task, table: TaskClips) -> list[str]:
    """Return the columns that define the classes of a task."""
    if not task.positive:
        return [task.column or "level"]
    columns: dict[str, None] = {}
    for expression in _expressions(name, task, table):
        columns.update(dict.fromkeys(expression.compared))
    return [*columns]


def _left_open(name: str, task: Task, table: TaskClips) -> list[frozenset[str]]:
    """Return for each clip the columns and concepts on which its annotators differ.

    If the clip has a class in the task without these, none are returned.
    """
    if not task.positive:
        asked = {*columns_of_task(name, task, table)}
        return [disputed_names(clip) & asked for clip in table.clips]
    expressions = _expressions(name, task, table)
    of_clips = []
    for clip in table.clips:
        names = frozenset[str]()
        if not any(one.holds(clip.values) for one in expressions):
            names = names.union(*(left_open(one, clip) for one in expressions))
        of_clips.append(names)
    return of_clips


def differing_annotators(
    tasks: Mapping[str, Task], names: Iterable[str], table: TaskClips
) -> str:
    """Return a sentence about clips without a class because annotators differ, or ""."""
    sentences = []
    for name in names:
        of_clips = [*filter(None, _left_open(name, tasks[name], table))]
        if not of_clips:
            continue
        differs_on = frozenset.union(*of_clips)
        listed = few(sorted(differs_on))
        if table.view == "visual" and "level" in differs_on:
            # Without a visual concept, the level of a clip would be EN.
            listed += ", or on visual concepts"
        clips = f"{len(of_clips)} of {count(len(table), 'clip')}"
        after = f", because annotators differ on {listed}."
        sentences.append((f"{clips} have no class in ", name, after))
    return _joined(sentences)


def empty_labels(
    tasks: Mapping[str, Task], labels: Mapping[str, LabelArray], table: TaskClips
) -> str:
    """Return a sentence about clips with an empty cell in the columns of a task, or "".

    Tasks exclude such a clip, unless other values decide its class. A cell on which annotators
    differ does not count as empty.
    """
    sentences = []
    for name, of_task in labels.items():
        columns = columns_of_task(name, tasks[name], table)
        n_left_out = n_kept = 0
        is_open = _left_open(name, tasks[name], table)
        for clip, open_names, label in zip(table.clips, is_open, of_task, strict=True):
            asked = [one for one in columns if one not in disputed_names(clip)]
            if not open_names and not all(
                is_labelled(one, clip.values) for one in asked
            ):
                n_left_out += label == LEFT_OUT
                n_kept += label != LEFT_OUT
        if n_left_out or n_kept:
            clips = f"{n_left_out + n_kept} of {count(len(table), 'clip')}"
            before = f"{clips} have no value in the column {' or '.join(columns)}:"
            kept = f", and {n_kept} kept, because other values decide" if n_kept else ""
            sentences.append(
                (f"{before} {n_left_out} excluded from ", name, f"{kept}.")
            )
    return _joined(sentences)


def unknown_words(
    tasks: Mapping[str, Task],
    names: Iterable[str],
    table: TaskClips,
    manifest: Manifest,
) -> str:
    """Return a sentence about unknown words in the expressions of tasks, or "" if there are none.

    `--task` refuses an unknown word. A protocol may contain unknown words, because it is used for
    several manifests.
    """
    sentences = []
    for name in names:
        for expression in _expressions(name, tasks[name], table):
            for words in manifest.unknown_values(expression):
                sentences.append(("In the expression of ", name, f": {words}."))
    return _joined(sentences)


def _joined(sentences: Iterable[tuple[str, str, str]]) -> str:
    """Return sentences about tasks as one text.

    An item contains the text before the name of a task, the name, and the text after the name.
    Tasks with the same two texts share a sentence.
    """
    names_of: dict[tuple[str, str], dict[str, None]] = {}
    for before, name, after in sentences:
        names_of.setdefault((before, after), {})[name] = None
    return " ".join(
        f"{before}{few([*names])}{after}" for (before, after), names in names_of.items()
    )


def class_names(
    name: str, task: Task, labels: LabelArray, table: TaskClips
) -> list[str]:
    """Return the names of the negative and the positive class of a user-defined task.

    They are the words in the column of the task if each class has one word, and the words are not
    numbers. If not, they are the name of the task, and "not" with this name.
    """
    # Without brackets, `not` would apply to the first part of an expression only, and
    # `not level!=EN` would be a double negation.
    is_expression = not {*" =<>"}.isdisjoint(name)
    negative = f"not ({name})" if is_expression else f"not {name}"
    names = [negative, name]
    columns = columns_of_task(name, task, table)
    if len(columns) > 1:
        return names
    (column,) = columns
    if column in CONCEPTS:
        # A clip without the concept may have other concepts or none.
        return names
    words: list[set[str]] = [set(), set()]
    for clip, label in zip(table.clips, labels.tolist(), strict=True):
        if label != LEFT_OUT:
            words[label].update(clip.values(column))
    # A number is not a good name of a class.
    is_named = all(len(of_class) == 1 for of_class in words)
    if is_named and not any(map(is_number, set.union(*words))):
        return [*chain.from_iterable(words)]
    return names


def _meaning(task: Task, value: int) -> str:
    """Return the definition of a class of a task, in parentheses."""
    class_of_word = task.classes or task.values or {}
    words = [word for word, n in class_of_word.items() if n == value]
    if words:
        meaning = " or ".join(words)
    elif not task.positive:
        meaning = ""
    elif value:
        meaning = task.positive
    else:
        meaning = task.negative or f"not ({task.positive})"
    return f" ({meaning})" if meaning else ""
