"""The data model of manifests: clips with labels, and a header with the source of the data.

A manifest has three views. `raw` has the annotations as they are. `visual` keeps only visual
concepts, and a clip with a level but without a visual concept becomes an easy negative (EN).
`as_published` keeps only the clips of the released split files, in the visual view. Only
`Manifest.view` computes the levels of a view: code that shows or counts levels calls it, and shows
the name of the view.
"""

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, get_args

from msgspec import Meta, structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    ObygazeWarning,
    UnknownName,
    near,
)
from obygaze_features.core.notebook import (
    data_frame,
    html_repr,
    short_repr,
    unknown_name,
)
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.schema_check import Record, Sha256, one_of, problem_with
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import is_number, number_of_cell
from obygaze_features.core.unknown_words import word_option
from obygaze_features.manifest.expression import (
    CONCEPTS,
    OF_NUMBERS,
    WHOLE,
    Expression,
    parse,
    plain_value,
    typed_value,
)
from obygaze_features.manifest.spelling import Spelling, respell
from obygaze_features.manifest.vocabulary import LEVELS as LEVELS
from obygaze_features.manifest.vocabulary import MODALITIES

View = Literal["raw", "visual", "as_published"]
VIEWS: tuple[str, ...] = get_args(View)
CLIP_COLUMNS = (
    "clip_id",
    "movie_id",
    "scene",
    "video",
    "start_s",
    "end_s",
    "level",
    "concepts",
)
FILM_COLUMN = "movie_id"
FOLD_PREFIX = "fold:"
# The column of the file that the table names for a clip; `video` has the file that `link` found.
NAME_COLUMN = "video_name"
# The column of the file that the table names for the film of a clip, in which frames count.
FILM_FILE = "film_file"
# Columns of `manifest sample`: the probability that the clip was sampled from its film, and the
# number of clips in the film.
DRAW_COLUMNS = ("draw_probability", "draw_clips")
# The column that lists the columns and concepts on which annotators differ, joined with '|'.
DIFFERS = "differs"
# The columns of a manifest that other commands read, in addition to fold:NAME.
TARGETS = (
    *CLIP_COLUMNS,
    *("annotator", DIFFERS, "movie_title", "comment", "framerate"),
    *("start_frame", "end_frame", "film_start_s", "film_end_s"),
)
# A column with this name states which columns were coded in the span of its row.
WATCHED = "watched"
# Names of tiers and columns, in lower case, that likely state what was watched.
LIKELY_WATCHED = (
    *(
        WATCHED,
        "seen",
        "viewed",
        "coded",
        "gesehen",
        "angesehen",
        "gesichtet",
        "kodiert",
    ),
    *("vu", "visionné"),
)
PUBLISHED_SPLIT = "02_EN_HN_S"
# The name that a store states as its manifest if its clips have no manifest.
WITHOUT_MANIFEST = "imported"
# The value of `films` in the header of a manifest without films: every `movie_id` is empty.
NO_FILMS: Final = "none"
# A hint for experiments whose levels the visual view changes.
KEEPS_LEVELS = "pass --set data.view=raw to keep the levels"
# The name of clips without a level in tables of counts.
NO_LEVEL = "no level"


def require_numbers(
    expression: Expression, clips: Sequence["Clip"], manifest: str
) -> None:
    """Raise an error if a column that is compared with a number has cells that are not numbers.

    The error is about the first such column, and lists the words in these cells.
    """
    for column in expression.numbers:
        clips_of_word: dict[str, list[str]] = defaultdict(list)
        for clip in clips:
            for cell in clip.values(column):
                if not is_number(cell):
                    clips_of_word[cell].append(clip.clip_id)
        if clips_of_word:
            words = few([repr(word) for word in clips_of_word])
            raise FixInput(
                f"expected numbers in the column {column}, got {words}",
                where=manifest,
                hint="correct or empty these cells, or import the table again with --force and"
                f" {word_option(next(iter(clips_of_word)))}; to compare words, use ==",
                details=[
                    f"{word!r} in {count(len(ids), 'clip')}, the first is {ids[0]}"
                    for word, ids in clips_of_word.items()
                ],
            )


def words_in(clips: Iterable["Clip"], column: str) -> set[str]:
    """Return the words of clips in a column; a clip may have several."""
    return {word for clip in clips for word in clip.values(column)}


def own_columns(columns: Iterable[str]) -> list[str]:
    """Return the user's own columns of a table: those whose names have no meaning in obygaze."""
    known = (*TARGETS, *DRAW_COLUMNS, NAME_COLUMN, FILM_FILE)
    return [
        name
        for name in columns
        if name not in known and not name.startswith(FOLD_PREFIX)
    ]


# A name has no '|', because the column `concepts` joins names with '|'.
Modality = Annotated[str, one_of((*MODALITIES, "unknown"))]
ConceptName = Annotated[
    str,
    Meta(
        pattern=r"^[^|\s]([^|]*[^|\s])?\Z",
        description="a name without '|', and without blanks at its start or end",
    ),
]


def concept_name(value: Any) -> str | None:
    """Return what is wrong with the name of a concept, or None if it is valid."""
    return problem_with(value, ConceptName)


@dataclass(frozen=True)
class Clip:
    """One annotated piece of film.

    `start_s` and `end_s` are the times of the clip in `video`, in seconds, or in the film if there
    is no video; None: the clip is the whole file. `level` is the annotation level: EN, HN, NS, S,
    or "" for none. `extra` has the cells of the other columns, by column.
    """

    clip_id: str
    movie_id: str
    scene: int | None = None
    video: str = ""
    start_s: float | None = None
    end_s: float | None = None
    level: str = ""
    concepts: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def values(self, column: str) -> tuple[str, ...]:
        """Return the values of the clip in a column: the parts of its cell, split at '|'.

        >>> Clip("lake-1", "lake", extra={"emotions": "joy|fear"}).values("emotions")
        ('joy', 'fear')
        """
        if column in CONCEPTS:
            return self.concepts
        if column in CLIP_COLUMNS:
            value = getattr(self, column)
        elif column in self.extra or column == DIFFERS:
            # A manifest without differing annotators does not have the column DIFFERS.
            value = self.extra.get(column)
        else:
            names = [*own_columns(self.extra), *CLIP_COLUMNS, *self.extra]
            known = [*dict.fromkeys(names)]
            raise unknown_name("column", column, known, where=self.clip_id)
        cell = "" if value is None else str(value)
        if column in TARGETS:
            # Times and rates are written as 2.0, and compared as 2.
            cell = plain_value(cell, column)
        return tuple(part.strip() for part in cell.split("|") if part.strip())

    def fold(self, name: str) -> int | None:
        """Return the fold of the clip in a split, or None if the clip is not in the split."""
        text = self.extra.get(FOLD_PREFIX + name, "")
        return int(text) if text else None


class Annotation(NamedTuple):
    """The annotation of a clip by one annotator.

    `own` has the cells of the extra columns that hold annotations, by column.
    """

    clip_id: str
    annotator: str
    level: str
    concepts: tuple[str, ...]
    own: Mapping[str, str]


def with_equal_numbers(
    clips: Sequence[Clip],
    annotations: Sequence[Annotation],
    numbers: Mapping[str, Mapping[str, str]],
) -> tuple[tuple[Clip, ...], tuple[Annotation, ...]]:
    """Return clips and annotations with the new spelling of numbers, by column."""
    if not numbers:
        return tuple(clips), tuple(annotations)
    respelled_clips = []
    for clip in clips:
        respelled_clips.append(replace(clip, extra=_with_numbers(clip.extra, numbers)))
    respelled = [
        one._replace(own=_with_numbers(one.own, numbers)) for one in annotations
    ]
    return tuple(respelled_clips), tuple(respelled)


def _with_numbers(
    cells: Mapping[str, str], numbers: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    changed = {**cells}
    for column, spelling in numbers.items():
        if column in cells:
            changed[column] = respell(cells[column], spelling)
    return changed


class SourceFile(Record, frozen=True):
    """A file that a manifest was made from."""

    file: str
    sha256: Sha256


class Header(Record, frozen=True):
    """The content of a manifest's TOML file: the data set and the concepts that clips may have.

    `concepts` maps the name of each concept to its modality, or to "unknown". `films` is "none" if
    no clip has a film. `rule` is the rule that made one label from several annotations of a clip;
    "": no rule. `said` lists the extra columns that hold annotations; None: the user's own columns
    and the comments. `video_root` is the folder of the linked videos. `commands` made and changed
    the manifest; see `history`.
    """

    dataset: str
    concepts: Mapping[ConceptName, Modality] = {}
    unit: Literal["clip"] = "clip"
    view: View = "raw"
    films: Literal["", "none"] = ""
    rule: str = ""
    said: tuple[str, ...] | None = None
    licence: str = ""
    citation: str = ""
    notes: tuple[str, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    video_root: str = ""
    commands: tuple[str, ...] = ()
    commands_sha256: str = ""

    @property
    def visual(self) -> tuple[str, ...]:
        """The visual concepts, in the order of the vocabulary."""
        return tuple(name for name, kind in self.concepts.items() if kind == "visual")


@dataclass(frozen=True, repr=False)
class Manifest:
    """The clips of a manifest, in the order of the rows of its file::

        manifest = read_manifest("manifests/obygaze12.toml")
        len(manifest), "tt0108160-001" in manifest
        manifest["tt0108160-001"].level
        manifest.view("visual").to_frame()

    Iterating yields the clips. `columns` are the extra columns of the CSV file. If a clip has
    several annotators, `annotations` has the labels of each annotator, and the clip has the one
    label that a rule made from them.
    """

    name: str
    header: Header
    clips: Sequence[Clip]
    columns: tuple[str, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    def __len__(self) -> int:
        return len(self.clips)

    def __iter__(self) -> Iterator[Clip]:
        return iter(self.clips)

    def __contains__(self, clip: object) -> bool:
        return clip in (self.by_id if isinstance(clip, str) else self.clips)

    def __getitem__(self, clip_id: str) -> Clip:
        """Return the clip with an id; the error for an unknown id is also a KeyError."""
        clip = self.by_id.get(clip_id)
        if clip is None:
            raise unknown_name("clip", clip_id, self.clip_ids, where=self.name)
        return clip

    def __repr__(self) -> str:
        return short_repr(
            "Manifest", repr(self.name), *filter(None, self._facts().values())
        )

    def _repr_html_(self) -> str:
        terms = {"licence": self.header.licence, "cite": self.header.citation}
        facts = {**self._facts(), "columns": ", ".join(self.columns), **terms}
        return html_repr(f"Manifest {self.name}", facts)

    def _facts(self) -> dict[str, str]:
        """Return the facts that the reprs show, by name; "" for missing facts."""
        levels = Counter(clip.level for clip in self.clips)
        counts = ", ".join(f"{levels[one]} {one}" for one in LEVELS if levels[one])
        if counts and levels[""]:
            counts += f", {levels['']} {NO_LEVEL}"
        clips = f"{count(len(self), 'clip')}{film_count_text(len(self.films))}"
        return {
            "clips": clips,
            "view": f"{self.header.view} view",
            "levels": counts,
            "folds": count(len(self.folds), "split") if self.folds else "",
        }

    @cached_property
    def by_id(self) -> Mapping[str, Clip]:
        """The clips by their id."""
        return {clip.clip_id: clip for clip in self.clips}

    @cached_property
    def clip_ids(self) -> tuple[str, ...]:
        """The ids in the order of the clips."""
        return tuple(clip.clip_id for clip in self.clips)

    @cached_property
    def films(self) -> tuple[str, ...]:
        """The sorted ids of the films that have clips or windows."""
        return tuple(sorted({clip.movie_id for clip in self.clips} - {""}))

    @property
    def has_films(self) -> bool:
        """Whether the clips have films: either all clips have a film, or none."""
        return self.header.films != NO_FILMS

    @property
    def folds(self) -> tuple[str, ...]:
        """The names of the splits that have a column of folds."""
        return tuple(
            name.removeprefix(FOLD_PREFIX)
            for name in self.columns
            if name.startswith(FOLD_PREFIX)
        )

    @cached_property
    def annotators(self) -> tuple[str, ...]:
        """The sorted names of the annotators whose annotations the manifest has."""
        return tuple(sorted({one.annotator for one in self.annotations}))

    @cached_property
    def annotations_by_clip(self) -> Mapping[str, tuple[Annotation, ...]]:
        """The annotations of each clip, by its id."""
        said: dict[str, tuple[Annotation, ...]] = {}
        for one in self.annotations:
            said[one.clip_id] = (*said.get(one.clip_id, ()), one)
        return said

    def with_clips(self, clips: Iterable[Clip]) -> Self:
        """Return the manifest with these clips in place of its own, and with their annotations."""
        kept = tuple(clips)
        ids = {clip.clip_id for clip in kept} if self.annotations else ()
        annotations = tuple(one for one in self.annotations if one.clip_id in ids)
        return replace(self, clips=kept, annotations=annotations)

    def where(self, expression: str) -> Self:
        """Return the manifest with only the clips for which an expression holds.

        Clips are excluded if annotators differ on a column or concept that decides whether it
        holds.

        Args:
            expression: A condition on columns: `"level == S and Body in concept"`.
        """
        known = self.header.concepts or None
        try:
            parsed = parse(expression, vocabulary=known, words_of=self.words)
            require_numbers(parsed, self.clips, self.name)
            decided = self.decided(parsed)
            selected = decided.with_clips(
                clip for clip in decided if parsed.holds(clip.values)
            )
        except UnknownName as error:
            # The error names the first clip as its place, but the column is missing in all clips.
            error.where = self.name
            if self.annotations and "annotator" in {*parsed.compared} - {*self.columns}:
                error.hint = (
                    f"obygaze manifest labels {shell_word(self.name)} --rule by:NAME -o OTHER makes"
                    " a manifest with the labels of one annotator"
                )
            raise
        for sentence in self.unknown_values(parsed):
            warnings.warn(sentence, ObygazeWarning, stacklevel=2)
        return selected

    def words(self, column: str) -> set[str]:
        """Return the words of the clips in a column."""
        return words_in(self.clips, column)

    def decided(self, expression: Expression) -> Self:
        """Return the manifest without clips of which differing annotators leave an expression open.

        A warning counts the excluded clips.
        """
        return self._without_open([left_open(expression, clip) for clip in self.clips])

    def undisputed(self, names: Iterable[str]) -> Self:
        """Return the manifest without clips whose annotators differ on these columns or concepts.

        A warning counts the excluded clips.
        """
        asked = frozenset(names)
        return self._without_open([asked & disputed_names(clip) for clip in self.clips])

    def _without_open(self, names_of_clips: Sequence[frozenset[str]]) -> Self:
        """Return the manifest without clips that have open names, and warn about them."""
        open_names = frozenset[str]().union(*names_of_clips)
        if not open_names:
            return self
        kept = []
        for clip, names in zip(self.clips, names_of_clips, strict=True):
            if not names:
                kept.append(clip)
        n_open = count(len(self) - len(kept), "clip")
        listed = few(sorted(open_names))
        if self.header.view == "visual" and "level" in open_names:
            # Without a visual concept, the level of a clip would be EN.
            listed += ", or on visual concepts"
        warnings.warn(
            f"{self.name}: {n_open} excluded, because annotators differ on {listed}",
            ObygazeWarning,
            stacklevel=4,
        )
        return self.with_clips(kept)

    def unknown_values(self, expression: Expression) -> list[str]:
        """Return a sentence for each value that no clip has in the column it is compared with."""
        sentences = []
        for column, values in expression.values.items():
            known: dict[str, None] = {}
            for clip in self.clips:
                known.update(dict.fromkeys(clip.values(column)))
            for value in dict.fromkeys(values):
                if typed_value(value, column, known.keys) not in known:
                    sentences.append(
                        f"{self.name}: no clip has {value!r} in the column {column}"
                        f"{near(value, known)}"
                    )
        return sentences

    @property
    def levels_lost(self) -> str:
        """A sentence about clips with a level but no concepts, which are EN in the visual view.

        The sentence is "" if there are no such clips. They probably have only a level as a label.
        """
        return self._en_in_visual_view(self.header.visual, have_concepts=False)

    @property
    def levels_heard(self) -> str:
        """A sentence about clips with concepts but no visual one, which are EN in the visual view.

        The sentence is "" if there are no such clips.
        """
        return self._en_in_visual_view(self._visible_concepts(), have_concepts=True)

    def _en_in_visual_view(
        self, visual: Collection[str], *, have_concepts: bool
    ) -> str:
        """Return a sentence with the number of clips that become EN in the visual view, or "".

        Args:
            visual: The visual concepts.
            have_concepts: Count only clips with concepts; False: only clips without concepts.
        """
        n_of_level: Counter[str] = Counter()
        names: set[str] = set()
        for clip in self.clips:
            is_of_kind = bool(clip.concepts) == have_concepts
            is_seen = not {*clip.concepts, *disputed_names(clip)}.isdisjoint(visual)
            if is_of_kind and clip.level not in ("", "EN") and not is_seen:
                n_of_level[clip.level] += 1
                names.update(clip.concepts or [clip.movie_id])
        if not n_of_level:
            return ""
        levels = [f"{n_of_level[one]} {one}" for one in LEVELS if n_of_level[one]]
        is_one = n_of_level.total() == 1
        said = f"{count(n_of_level.total(), 'clip')} ({', '.join(levels)})"
        said += " has" if is_one else " have"
        said += " only concepts that cannot be seen" if have_concepts else " no concept"
        named = few(sorted(names - {""}), 3)
        said += f" ({named})" if named else ""
        return f"{said}, so {'it counts' if is_one else 'they count'} as EN in the visual view"

    def with_column(self, column: str, values: Mapping[str, str]) -> Self:
        """Return the manifest with a new or replaced extra column.

        Args:
            column: The name of the column.
            values: The cells of the column by clip id; a clip without a value gets an empty cell.
        """
        if column in CLIP_COLUMNS:
            raise FixUsage(
                f"{column} is a field of each clip, not an extra column",
                where=self.name,
            )
        for clip_id, cell in values.items():
            # For an unknown id, `self[clip_id]` raises an error that lists similar ids.
            require_text(self[clip_id], column, cell)
        spelling = Spelling()
        cells = [
            spelling.cell(values.get(clip.clip_id, ""), column) for clip in self.clips
        ]
        numbers = spelling.equal_numbers().get(column, {})
        clips = []
        for clip, cell in zip(self.clips, cells, strict=True):
            extra = {**clip.extra, column: respell(cell, numbers)}
            if column in disputed_names(clip) and column not in self._concepts_of_clips:
                # The new value replaces the differing values of the annotators.
                others = [name for name in extra[DIFFERS].split("|") if name != column]
                extra[DIFFERS] = "|".join(others)
            clips.append(replace(clip, extra=extra))
        columns = dict.fromkeys((*self.columns, column))
        return replace(self, clips=tuple(clips), columns=tuple(columns))

    @cached_property
    def _concepts_of_clips(self) -> frozenset[str]:
        names: set[str] = set()
        for clip in self.clips:
            names.update(clip.concepts)
            left_open = disputed_names(clip).intersection(self.header.concepts)
            # DIFFERS may list a column that has the name of an unused concept.
            names.update(left_open.difference(self.columns))
        for one in self.annotations:
            names.update(one.concepts)
        return frozenset(names)

    @property
    def without_modality(self) -> list[str]:
        """The sorted concepts of clips for which the header has no modality."""
        modality_of = self.header.concepts
        return [
            name
            for name in sorted(self._concepts_of_clips)
            if modality_of.get(name) not in MODALITIES
        ]

    def _visible_concepts(self) -> frozenset[str]:
        """Return the visual concepts of clips. Raise an error if a concept has no modality."""
        refuse_if(
            self.without_modality,
            FixInput,
            "no modality, so that levels in the visual view are unknown, for the concepts",
            where=self.name,
            hint=f'write CONCEPT = "visual" under [concepts] in {self.name}.toml (or'
            f" {', '.join(MODALITIES[1:])} instead of visual); or use the raw view",
        )
        return self._concepts_of_clips.intersection(self.header.visual)

    @property
    def usual_view(self) -> str:
        """The default view in which labels are learnt and tested.

        For a raw manifest, the default is "visual", as in the paper of ObyGaze12. The default is
        "raw" if no clip has a visual concept. A manifest in a different view keeps its view.
        """
        stored = self.header.view
        return "visual" if stored == "raw" and self._visible_concepts() else stored

    def view(self, name: str | None = None) -> Self:
        """Return the manifest in one of the views `raw`, `visual`, `as_published`.

        Args:
            name: The view, by default `usual_view`. From a manifest that is not raw, no other view
                can be made.
        """
        if name is None:
            name = self.usual_view
        if name not in VIEWS:
            raise FixUsage(
                f"unknown view {name!r}", hint=f"use one of {', '.join(VIEWS)}"
            )
        if name == self.header.view:
            return self
        if self.header.view != "raw":
            raise FixInput(
                f"expected a manifest in the raw view to make the {name!r} view, got the"
                f" {self.header.view!r} view",
                where=self.name,
            )
        visible = self._visible_concepts()
        annotations = tuple(
            one._replace(**_visual_label(one.level, one.concepts, visible))
            for one in self.annotations
        )
        manifest = replace(
            self.with_clips(_visual(self.clips, visible)), annotations=annotations
        )
        if name == "as_published":
            if PUBLISHED_SPLIT not in self.folds:
                problem = f"the as_published view requires the published split {PUBLISHED_SPLIT}"
                hint = "import the data set with --splits FOLDER"
                raise FixInput(problem, where=self.name, hint=hint)
            manifest = manifest.with_clips(
                clip for clip in manifest if clip.fold(PUBLISHED_SPLIT) is not None
            )
        return replace(manifest, header=structs.replace(self.header, view=name))

    def cells_by_column(self) -> dict[str, list[Any]]:
        """Return the values of each column of the CSV file; concepts are joined with '|'."""
        columns: dict[str, list[Any]] = {}
        for name in CLIP_COLUMNS:
            columns[name] = [getattr(clip, name) for clip in self.clips]
        columns["concepts"] = ["|".join(clip.concepts) for clip in self.clips]
        for name in self.columns:
            columns[name] = [clip.extra.get(name, "") for clip in self.clips]
        return columns

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per clip, indexed by `clip_id`.

        The columns are typed: `scene` and folds are integers that may be missing; times, frames,
        rates and your own columns of numbers are floats, NaN where a cell is empty; and `concepts`
        is text, joined with '|'. A column with a cell such as x or 007 is text.
        """
        columns = self.cells_by_column()
        for name in (*OF_NUMBERS, *DRAW_COLUMNS, *own_columns(self.columns)):
            if name in self.columns and (name in OF_NUMBERS or any(columns[name])):
                columns[name] = numbers_or_texts(columns[name])
        for split in self.folds:
            columns[FOLD_PREFIX + split] = [clip.fold(split) for clip in self.clips]
        frame = data_frame(columns)
        whole = ["scene", *(FOLD_PREFIX + split for split in self.folds)]
        return frame.astype(
            {**dict.fromkeys(whole, "Int64"), "start_s": float, "end_s": float}
        )


def numbers_or_texts(cells: list[str]) -> list[Any]:
    """Return the cells of a column as numbers, NaN for an empty cell; other columns as they are.

    >>> numbers_or_texts(["2.5", ""]), numbers_or_texts(["2.5", "x"]), numbers_or_texts(["007"])
    ([2.5, nan], ['2.5', 'x'], ['007'])
    """
    numbers = []
    for cell in cells:
        number = math.nan if cell == "" else number_of_cell(cell)
        if number is None:
            return cells
        # 007 and ids of 20 digits are names: a float would lose digits.
        if WHOLE.fullmatch(cell) and f"{number:.0f}" != cell:
            return cells
        numbers.append(number)
    return numbers


def require_text(clip: Clip, column: str, cell: object) -> None:
    """Raise an error for a cell that is not text: the NaN of pandas would become the word `nan`."""
    if not isinstance(cell, str):
        raise FixInput(
            f"the clip {clip.clip_id!r}: expected text in the column {column!r}, got {cell!r}",
            hint='use str(VALUE), or "" for a missing value',
        )


def film_count_text(n_films: int) -> str:
    """Return the number of films as the end of a phrase: ` of 3 films`, `, films not stated`."""
    return f" of {count(n_films, 'film')}" if n_films else ", films not stated"


def require_films(
    films: Iterable[str],
    where: str,
    so_that: str = "the clips of a film cannot be kept together",
) -> None:
    """Raise an error if the film of a clip is not stated.

    Args:
        films: The film of each clip; "" where it is not stated.
        where: The manifest or the store.
        so_that: What is impossible without films, as the end of the error's sentence.
    """
    n_without = sum(not film for film in films)
    if n_without:
        raise FixInput(
            f"the film of {count(n_without, 'clip')} is missing, so that {so_that}",
            where=where,
            hint="import the table again with --map movie_id=COLUMN",
        )


def view_words(view: str) -> str:
    """Return the name of a view in a sentence: `as published view`."""
    return f"{view.replace('_', ' ')} view"


def _visual(clips: Iterable[Clip], visible: frozenset[str]) -> Iterator[Clip]:
    """Yield the clips with their visible concepts only.

    If a clip has a level but no visible concept, its level becomes EN. But if annotators differ on
    visible concepts of this clip, its level is left open.
    """
    for clip in clips:
        label = _visual_label(clip.level, clip.concepts, visible)
        extra = clip.extra
        open_names = []
        differing = extra.get(DIFFERS, "")
        for name in filter(None, differing.split("|")):
            # A concept that cannot be seen decides nothing here.
            if name == "level" or name in extra or name in visible:
                open_names.append(name)
        is_open = not label["concepts"] and not visible.isdisjoint(open_names)
        if is_open and clip.level not in ("", "EN"):
            label["level"] = ""
            open_names.insert(0, "level")
        if disputed_names(clip):
            extra = {**extra, DIFFERS: "|".join(open_names)}
        yield replace(clip, extra=extra, **label)


def _visual_label(
    level: str, concepts: Iterable[str], visible: frozenset[str]
) -> dict[str, Any]:
    """Return the level and the concepts of a clip in the visual view."""
    kept = tuple(name for name in concepts if name in visible)
    return {"level": level if kept or not level else "EN", "concepts": kept}


def disputed_names(clip: Clip) -> frozenset[str]:
    """Return the columns and concepts on which the annotators of a clip differ."""
    cell = clip.extra.get(DIFFERS, "")
    return frozenset(cell.split("|")) if cell else frozenset()


def left_open(expression: Expression, clip: Clip) -> frozenset[str]:
    """Return the names on which annotators differ, if these leave an expression open."""
    asked = (*expression.compared, *expression.concepts)
    names = disputed_names(clip).intersection(asked)
    if names and expression.holds(clip.values) is None:
        return names
    return frozenset()


def by_film(clips: Iterable[Clip]) -> dict[str, list[Clip]]:
    """Return the clips of each film, in the order of their first clips."""
    clips_of_film: dict[str, list[Clip]] = {}
    for clip in clips:
        clips_of_film.setdefault(clip.movie_id, []).append(clip)
    return clips_of_film


def with_columns_of(clips: Iterable[Clip], columns: Iterable[str]) -> tuple[str, ...]:
    """Return `columns`, followed by the other extra columns of the clips."""
    known = dict.fromkeys(columns)
    for clip in clips:
        known.update(dict.fromkeys(clip.extra))
    return tuple(known)


def sort_key(clip: Clip) -> tuple[str, int, float, str]:
    """Return the key that sorts clips as manifests and stores do: by film, scene, start, id."""
    scene = -1 if clip.scene is None else clip.scene
    start_s = -1.0 if clip.start_s is None else clip.start_s
    return clip.movie_id, scene, start_s, clip.clip_id


def clock(seconds: float, decimals: int = 0) -> str:
    """Return a time as hours, minutes and seconds.

    >>> clock(70.04, decimals=1)
    '0:01:10.0'
    """
    scale = 10**decimals
    minutes, rest = divmod(round(scale * seconds), 60 * scale)
    width = 3 + decimals if decimals else 2
    return f"{minutes // 60}:{minutes % 60:02d}:{rest / scale:0{width}.{decimals}f}"
