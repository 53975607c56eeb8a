"""One label a clip, made by a rule of what several people said of it.

The rules are `agreed`, the value that all who gave one gave; `majority`, the most frequent one;
`highest`, of columns with an order; `mean`, of numbers; and `by:NAME`, what one person said. What a
rule leaves open stands in the column `differs` of the clip. Rules act on raw labels; views come
after.

>>> from obygaze_features.manifest.model import Header
>>> said = [Annotation("lake-1", "ada", "S", (), {}), Annotation("lake-1", "ben", "HN", (), {})]
>>> films = Manifest("films", Header("made up"), (Clip("lake-1", "lake"),), (), tuple(said))
>>> labelled(films, "highest")["lake-1"].level
'S'
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.model import (
    DIFFERS,
    LEVELS,
    Annotation,
    Clip,
    Manifest,
    disputed,
    own_columns,
)

AGREED = "agreed"
MAJORITY = "majority"
HIGHEST = "highest"
MEAN = "mean"
BY = "by:"
RULES = (AGREED, MAJORITY, HIGHEST, MEAN, f"{BY}NAME")
WAYS_OF_RULES = (
    "--rule agreed leaves open what they differ on; other rules are"
    f" {', '.join(rule for rule in RULES if rule != AGREED)}"
)
COMMENT = "comment"
# The word of a person who could not tell.
UNKNOWN = "?"
# Begins the note of a manifest that says how its labels were made.
NOTE = "one label a clip by the rule "


def said_columns(columns: Collection[str]) -> tuple[str, ...]:
    """Return the columns of a table in which each annotator has a word of their own."""
    comment = [COMMENT] if COMMENT in columns else []
    return (*own_columns(columns), *comment)


def annotations_of(
    clips: Iterable[Clip], columns: Sequence[str]
) -> tuple[Annotation, ...]:
    """Return the labels of clips as those of the person in the column `annotator` of each.

    Clips without any label are left out.

    Args:
        clips: The clips.
        columns: The columns of their own that people have.
    """
    annotations = []
    for clip in clips:
        own = {column: clip.extra.get(column, "") for column in columns}
        if clip.level or clip.concepts or any(own.values()):
            name = clip.extra["annotator"]
            one = Annotation(clip.clip_id, name, clip.level, clip.concepts, own)
            annotations.append(one)
    return tuple(annotations)


def _of_one(clip: Clip, person: str) -> Clip:
    """Return a clip with the name of the person whose label it has."""
    return replace(clip, extra={**clip.extra, "annotator": person})


def orders_of(typed: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the words of each column with an order, from `weak,strong`."""
    orders = {}
    for column, words in typed.items():
        order = [sorted_words(plain_value(w, column)) for w in words.split(",")]
        if len(set(order)) < max(2, len(order)) or "" in order:
            raise FixUsage(
                f"expected the words of {column} from the lowest to the highest, got {words!r}",
                hint=f"--order {shell_word(f'{column}=weak,strong')}",
            )
        orders[column] = order
    return orders


def labelled(
    manifest: Manifest,
    rule: str | None,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> Manifest:
    """Return a manifest whose clips have the labels that a rule makes of its annotations.

    Args:
        manifest: The manifest; clips of which nobody said anything stay as they are.
        rule: The rule. Without one, people who differ are an error that names the rules.
        orders: The words of columns with an order, from the lowest, for `highest`.
    """
    chosen = rule or AGREED
    _check_rule(chosen, manifest)
    if not manifest.annotations:
        return manifest
    manifest = replace(manifest, annotations=sorted_annotations(manifest.annotations))
    columns = columns_of_people(manifest)
    _check_names(columns, manifest)
    spelled = spelled_orders(orders or {}, manifest)
    made = (*columns, DIFFERS)
    of_clip = manifest.annotations_by_clip
    clips = _clips_by_rule(manifest, chosen, spelled)
    differing = [clip for clip in clips if disputed(clip)]
    if differing and rule is None:
        raise FixInput(
            how_they_differ(manifest, differing),
            where=manifest.name,
            hint=WAYS_OF_RULES,
        )
    kept = [name for name in manifest.columns if name not in made]
    kept += [*columns, DIFFERS] if differing else columns
    with_kept = []
    for clip in clips:
        cells = {name: clip.extra.get(name, "") for name in kept}
        with_kept.append(replace(clip, extra=cells))
    names = manifest.annotators
    annotations = manifest.annotations
    if len(names) == 1:
        # What one person alone says is the label, which is hers.
        annotations = ()
        kept = [*dict.fromkeys((*kept, "annotator"))]
        with_kept = [
            _of_one(clip, names[0] if clip.clip_id in of_clip else "")
            for clip in with_kept
        ]
    note = f"{NOTE}{chosen} of {count(len(names), 'annotator')}: {', '.join(names)}"
    notes = [one for one in manifest.header.notes if not one.startswith(NOTE)]
    return replace(
        manifest,
        header=structs.replace(manifest.header, rule=chosen, notes=(*notes, note)),
        clips=tuple(with_kept),
        columns=tuple(kept),
        annotations=annotations,
    )


def _clips_by_rule(
    manifest: Manifest, rule: str, orders: Mapping[str, Sequence[str]]
) -> list[Clip]:
    """Return the clips with the labels that a rule makes, and with what it leaves open."""
    used = _Rule(rule, orders, tuple(manifest.header.concepts))
    made = (*columns_of_people(manifest), DIFFERS)
    of_clip = manifest.annotations_by_clip
    clips = []
    for clip in manifest.clips:
        own = clip.extra
        said = of_clip.get(clip.clip_id)
        if said:
            clip, own = used.label(clip, said)
        cells = {name: own.get(name, "") for name in made}
        clips.append(replace(clip, extra={**clip.extra, **cells}))
    return clips


def differing_clips(manifest: Manifest) -> list[Clip]:
    """Return the clips on which annotators differ."""
    return [clip for clip in _clips_by_rule(manifest, AGREED, {}) if disputed(clip)]


def how_they_differ(manifest: Manifest, differing: Sequence[Clip]) -> str:
    """Return in how many clips annotators differ, and on what."""
    n_clips = count(len(manifest.annotations_by_clip), "clip")
    return (
        f"annotators differ in {len(differing)} of {n_clips}: {what_differs(differing)}"
    )


def notes_of(manifest: Manifest) -> list[str]:
    """Return how the labels were made, and in how many clips annotators differ."""
    notes = [note for note in manifest.header.notes if note.startswith(NOTE)]
    differing = [clip for clip in manifest if disputed(clip)]
    if differing:
        notes.append(
            f"annotators differ in {len(differing)} of {count(len(manifest), 'clip')}, which have"
            f" no label there: {what_differs(differing)}"
        )
    if manifest.annotations:
        notes.append(f"how far they agree: obygaze agree {shell_word(manifest.name)}")
    return notes


def sorted_annotations(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    """Return annotations as the table beside a manifest has them: sorted, with all columns."""
    said = sorted(annotations, key=lambda one: (one.clip_id, one.annotator))
    blank: dict[str, str] = {}
    for one in said:
        blank.update(dict.fromkeys(one.own, ""))
    return tuple(one._replace(own={**blank, **one.own}) for one in said)


def columns_of_people(manifest: Manifest) -> tuple[str, ...]:
    """Return the columns in which people have words of their own; without people, all labels."""
    for one in manifest.annotations:
        return tuple(one.own)
    said = manifest.header.said
    return said_columns(manifest.columns) if said is None else said


def what_differs(clips: Iterable[Clip]) -> str:
    """Return in how many clips annotators differ on each column and concept: `level 10, Look 3`."""
    n_clips: Counter[str] = Counter()
    for clip in clips:
        n_clips.update(sorted(disputed(clip)))
    return few([f"{name} {n}" for name, n in n_clips.most_common()], 6)


def _check_rule(rule: str, manifest: Manifest) -> None:
    """Raise an error for an unknown rule, or a person who said nothing."""
    people = [BY + name for name in manifest.annotators]
    known = [AGREED, MAJORITY, HIGHEST, MEAN, *people]
    if rule not in known:
        raise FixUsage(
            f"unknown rule {rule!r}{near(rule, known)}",
            where=manifest.name,
            hint=f"one of {', '.join(known)}",
        )


def _check_names(columns: Iterable[str], manifest: Manifest) -> None:
    """Raise an error for columns whose names are not plain in the column `differs`."""
    for column in columns:
        is_concept = any(column in one.concepts for one in manifest.annotations)
        if is_concept or "|" in column:
            raise FixInput(
                f"the column {column!r} of annotators has the name of a concept that they gave, or"
                f" a |, and the column {DIFFERS} could not name it",
                where=manifest.name,
                hint="rename the column in the table",
            )


def spelled_orders(
    orders: Mapping[str, Sequence[str]], manifest: Manifest
) -> dict[str, list[str]]:
    """Return orders in the spelling of the annotators; an error for an order of no column."""
    columns = columns_of_people(manifest)
    spelled = {}
    for column, order in orders.items():
        if column not in columns:
            raise FixUsage(
                f"--order names the column {column!r}, which no annotator has"
                f"{near(column, columns)}",
                where=manifest.name,
                hint="levels have an order; the other columns: "
                + (", ".join(columns) or "none"),
            )
        words = {sorted_words(one.own[column]) for one in manifest.annotations}
        spelled[column] = spelled_order(column, order, words, manifest.name)
    return spelled


def spelled_order(
    column: str, order: Sequence[str], said: Iterable[str], where: str | None = None
) -> list[str]:
    """Return an order in the spelling of the words that people said.

    Raises:
        FixInput: The order does not have a word. `?`, which says that a person could not tell, has
            no place in any order.
    """
    words = {*said} - {"", UNKNOWN}
    said_as = {word.lower(): word for word in words}
    spelled = [said_as.get(word.lower(), word) for word in order]
    others = sorted(words.difference(spelled))
    if others:
        more = shell_word(f"{column}={','.join([*order, others[0]])}")
        refuse_if(
            others,
            FixInput,
            f"the order of {column} does not have these words",
            where=where,
            hint=f"--order {more} if it is the highest; if it says that a person could not tell,"
            f" import the marks with --word {shell_word(f'{others[0]}={UNKNOWN}')}",
        )
    return spelled


@dataclass(frozen=True)
class _Rule:
    """A rule that makes one label of what people said of a clip."""

    name: str
    orders: Mapping[str, Sequence[str]]
    concepts: Sequence[str]

    def label(
        self, clip: Clip, said: Sequence[Annotation]
    ) -> tuple[Clip, dict[str, str]]:
        """Return a clip with its level and concepts, and its cells in the other columns."""
        columns = said[0].own
        if self.name.startswith(BY):
            said = [one for one in said if BY + one.annotator == self.name]
        cells = {"level": [one.level for one in said]}
        for column in columns:
            cells[column] = [one.own[column] for one in said]
        values = {column: self._value(column, cells[column]) for column in cells}
        left_open = [column for column, value in values.items() if value is None]
        own = {column: value or "" for column, value in values.items()}
        level = own.pop("level")
        concepts, disputed_concepts = self._concepts(said, level)
        # People always write different comments.
        left_open = [name for name in left_open if name != COMMENT]
        own[DIFFERS] = "|".join(left_open + disputed_concepts)
        return replace(clip, level=level, concepts=concepts), own

    def _value(self, column: str, cells: Iterable[str]) -> str | None:
        """Return the value of a column, "" where nobody gave one; None where people differ."""
        given = [cell for cell in cells if cell not in ("", UNKNOWN)]
        words = [sorted_words(cell) for cell in given]
        cell_of = dict(zip(reversed(words), reversed(given), strict=True))
        order = LEVELS if column == "level" else self.orders.get(column)
        if len(cell_of) < 2:
            return "".join(cell_of.values())
        if self.name == MAJORITY:
            (word, n), (_, n_of_next), *_ = Counter(words).most_common()
            return cell_of[word] if n > n_of_next else None
        if self.name == HIGHEST and order:
            return cell_of[max(words, key=order.index)]
        numbers = [
            number for number in map(number_of_cell, given) if number is not None
        ]
        if self.name == MEAN and len(numbers) == len(given):
            return plain_value(repr(fmean(numbers)), column)
        return None

    def _concepts(
        self, said: Iterable[Annotation], level: str
    ) -> tuple[tuple[str, ...], list[str]]:
        """Return the concepts of a clip, and those that people left open.

        Each concept is decided alone, by those who gave the clip a level or a concept; for the
        highest level, by those who gave this level.
        """
        labels = [one for one in said if one.level or one.concepts]
        if self.name == HIGHEST and level:
            labels = [one for one in labels if one.level == level]
        n_of: Counter[str] = Counter()
        for one in labels:
            n_of.update(one.concepts)
        kept = []
        left_open = []
        for concept in sorted(n_of, key=self.concepts.index):
            n = n_of[concept]
            n_others = len(labels) - n
            if not n_others or self.name == HIGHEST:
                kept.append(concept)
            elif self.name != MAJORITY or n == n_others:
                left_open.append(concept)
            elif n > n_others:
                kept.append(concept)
        return tuple(kept), left_open


def sorted_words(cell: str) -> str:
    """Return a cell as it is compared: several words have no order."""
    return "|".join(sorted(cell.split("|")))
