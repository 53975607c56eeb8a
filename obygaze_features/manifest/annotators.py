"""One label a clip, made by a rule of what several people said of it.

The rules are `agreed`, the value that all who gave one gave; `majority`, the most frequent one;
`highest`, of columns with an order; `mean`, of numbers; `by:NAME`, what one person said; and
`each`, a column for each person and no label. What a rule leaves open stands in the column
`differs` of the clip. Rules act on raw labels; views come after.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.model import (
    DIFFERS,
    LEVELS,
    Annotation,
    Clip,
    Manifest,
    own_columns,
    with_columns_of,
)

AGREED = "agreed"
MAJORITY = "majority"
HIGHEST = "highest"
MEAN = "mean"
EACH = "each"
BY = "by:"
RULES = (AGREED, MAJORITY, HIGHEST, MEAN, f"{BY}NAME", EACH)
COMMENT = "comment"


def said_columns(columns: Collection[str]) -> tuple[str, ...]:
    """Return the columns of a table in which each annotator has a word of their own."""
    comment = [COMMENT] if COMMENT in columns else []
    return (*own_columns(columns), *comment)


def annotations_of(
    manifest: Manifest, annotator: str, columns: Sequence[str]
) -> tuple[Annotation, ...]:
    """Return the labels of a manifest as those of one person; clips without any are left out."""
    annotations = []
    for clip in manifest:
        own = {column: clip.extra.get(column, "") for column in columns}
        if clip.level or clip.concepts or any(own.values()):
            one = Annotation(clip.clip_id, annotator, clip.level, clip.concepts, own)
            annotations.append(one)
    return tuple(annotations)


def labelled(
    manifest: Manifest,
    rule: str | None,
    orders: Mapping[str, Sequence[str]] | None = None,
    *,
    option: str = "--rule",
) -> Manifest:
    """Return a manifest whose clips have the labels that a rule makes of its annotations.

    Args:
        manifest: The manifest; clips of which nobody said anything stay as they are.
        rule: The rule. Without one, people who differ are an error that names the rules.
        orders: The words of columns with an order, from the lowest, for `highest`.
        option: What the hint of this error says to type.
    """
    _check_rule(rule or AGREED, manifest)
    used = _Rule(rule or AGREED, orders or {}, tuple(manifest.header.concepts))
    of_clip: dict[str, list[Annotation]] = {}
    for one in manifest.annotations:
        of_clip.setdefault(one.clip_id, []).append(one)
    clips = []
    differing = []
    for clip in manifest.clips:
        said = of_clip.get(clip.clip_id, [])
        cells = {name: cell for name, cell in clip.extra.items() if name != DIFFERS}
        made = replace(clip, extra=cells)
        if said:
            made = used.label(made, said)
        if DIFFERS in made.extra:
            differing.append(clip.clip_id)
        clips.append(made)
    if differing and rule is None:
        raise FixInput(
            f"annotators differ in {len(differing)} of {count(len(of_clip), 'clip')}:"
            f" {few(differing, 3)}",
            where=manifest.name,
            hint=f"{option} {'|'.join(RULES)} makes one label a clip",
        )
    blank = dict.fromkeys(with_columns_of(clips, ()), "")
    clips = [replace(clip, extra={**blank, **clip.extra}) for clip in clips]
    return replace(manifest, clips=tuple(clips), columns=tuple(blank))


def _check_rule(rule: str, manifest: Manifest) -> None:
    """Raise an error for an unknown rule, or a person who said nothing."""
    people = [BY + name for name in manifest.annotators]
    known = [AGREED, MAJORITY, HIGHEST, MEAN, *people, EACH]
    if rule not in known:
        raise FixUsage(
            f"unknown rule {rule!r}{near(rule, known)}",
            where=manifest.name,
            hint=f"one of {', '.join(known)}",
        )


@dataclass(frozen=True)
class _Rule:
    """A rule that makes one label of what people said of a clip."""

    name: str
    orders: Mapping[str, Sequence[str]]
    concepts: Sequence[str]

    def label(self, clip: Clip, said: Sequence[Annotation]) -> Clip:
        """Return a clip with its label."""
        if self.name == EACH:
            return _with_columns_of_each(clip, said)
        if self.name.startswith(BY):
            said = [one for one in said if BY + one.annotator == self.name]
            if not said:
                return replace(clip, level="", concepts=())
        cells = {"level": [one.level for one in said]}
        for column in said[0].own:
            cells[column] = [one.own[column] for one in said]
        values = {column: self._value(column, cells[column]) for column in cells}
        left_open = [column for column, value in values.items() if value is None]
        label = {column: value or "" for column, value in values.items()}
        level = label.pop("level")
        concepts, disputed = self._concepts(said, level)
        left_open += disputed
        extra = {**clip.extra, **label}
        left_open = [name for name in left_open if name != COMMENT]
        if left_open:
            extra[DIFFERS] = "|".join(left_open)
        return replace(clip, level=level, concepts=concepts, extra=extra)

    def _value(self, column: str, cells: Iterable[str]) -> str | None:
        """Return the value of a column, "" where nobody gave one; None where people differ."""
        given = [cell for cell in cells if cell]
        words = [plain_value(cell, column) for cell in given]
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
        n_of = Counter(concept for one in labels for concept in one.concepts)
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


def _with_columns_of_each(clip: Clip, said: Sequence[Annotation]) -> Clip:
    """Return a clip without a label, and with columns such as `level.ada` for each person."""
    extra = dict(clip.extra)
    for column in said[0].own:
        extra.pop(column, None)
    for one in said:
        cells = {"level": one.level, "concepts": "|".join(one.concepts), **one.own}
        for column, cell in cells.items():
            extra[f"{column}.{one.annotator}"] = cell
    return replace(clip, level="", concepts=(), extra=extra)
