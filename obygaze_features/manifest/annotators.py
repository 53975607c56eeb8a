"""Make one label per clip from the annotations of several annotators, by a rule.

The rules are `agreed`, the value that all annotators give; `majority`, the most frequent value;
`highest`, for columns with an order; `mean`, for numbers; and `by:NAME`, the values of one
annotator. Empty values do not count. The column `differs` of a clip lists the columns and concepts
that a rule leaves open. Rules are applied to raw labels, before a view is computed.

>>> from obygaze_features.manifest.model import Header
>>> said = [Annotation("lake-1", "ada", "S", (), {}), Annotation("lake-1", "ben", "HN", (), {})]
>>> films = Manifest("films", Header("made up"), (Clip("lake-1", "lake"),), (), tuple(said))
>>> apply_rule(films, "highest")["lake-1"].level
'S'
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell
from obygaze_features.core.unknown_words import UNKNOWN
from obygaze_features.manifest.expression import (
    plain_number,
    plain_value,
    typed_value,
)
from obygaze_features.manifest.model import (
    DIFFERS,
    LEVELS,
    WATCHED,
    Annotation,
    Clip,
    Manifest,
    disputed_names,
    own_columns,
)
from obygaze_features.manifest.own_labels import MOST_WORDS

AGREED = "agreed"
MAJORITY = "majority"
HIGHEST = "highest"
MEAN = "mean"
BY = "by:"
RULES = (AGREED, MAJORITY, HIGHEST, MEAN, f"{BY}NAME")
WAYS_OF_RULES = (
    "pass --rule agreed to leave these labels empty, or another rule:"
    f" {', '.join(rule for rule in RULES if rule != AGREED)}"
)
UNJUDGED = (
    "expected annotations with levels, which show whether a concept was judged, got concepts"
    " without levels"
)
WAYS_OF_UNJUDGED = (
    f"add levels, EN for no concepts; or pass --rule {HIGHEST} for the concepts of all annotators"
    " together"
)
COMMENT = "comment"
# Usual names of columns with free text, without capitals. Notes may be ratings, as in French.
FREE_TEXT = (
    *(COMMENT, "comments", "remark", "remarks", "bemerkung", "bemerkungen"),
    *("kommentar", "kommentare", "anmerkung", "anmerkungen"),
    *("commentaire", "commentaires", "remarque", "remarques"),
)
# The beginning of the note of a manifest about its rule.
NOTE = "labels made by the rule "


def annotator_columns(columns: Collection[str]) -> tuple[str, ...]:
    """Return the columns of a table that hold annotations: the user's own columns and comments."""
    comment = [COMMENT] if COMMENT in columns else []
    return (*own_columns(columns), *comment)


def make_annotations(
    clips: Iterable[Clip], columns: Sequence[str]
) -> tuple[Annotation, ...]:
    """Return the labels of clips as annotations by the annotator in the column `annotator`.

    Clips without a label or without an annotator are excluded.

    Args:
        clips: The clips.
        columns: The extra columns that hold annotations.
    """
    annotations = []
    for clip in clips:
        own = {column: clip.extra.get(column, "") for column in columns}
        name = clip.extra.get("annotator")
        if name and (clip.level or clip.concepts or any(own.values())):
            one = Annotation(clip.clip_id, name, clip.level, clip.concepts, own)
            annotations.append(one)
    return tuple(annotations)


def parse_orders(typed: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the words of each column, from the lowest, of typed lists such as `weak,strong`."""
    orders = {}
    for column, words in typed.items():
        order = [sort_words(plain_value(w, column)) for w in words.split(",")]
        if len(set(order)) < max(2, len(order)) or "" in order:
            raise FixUsage(
                f"--order {column}: expected two words or more, from the lowest, got {words!r}",
                hint=f"pass a list such as --order {shell_word(f'{column}=weak,strong')}",
            )
        orders[column] = order
    return orders


def apply_rule(
    manifest: Manifest,
    rule: str | None,
    orders: Mapping[str, Sequence[str]] | None = None,
) -> Manifest:
    """Return the manifest with the labels that a rule makes from its annotations.

    Args:
        manifest: The manifest; clips without annotations stay as they are.
        rule: The rule. None: `agreed`, and a difference between annotators is an error, which lists
            the rules.
        orders: For the rule `highest`, the words of each column with a sort order, from the lowest.
    """
    people = manifest.annotators
    known = [AGREED, MAJORITY, HIGHEST, MEAN, *(BY + name for name in people)]
    chosen = rule or AGREED
    if chosen not in known:
        raise FixUsage(
            f"unknown rule {chosen!r}{near(chosen, known)}",
            where=manifest.name,
            hint=f"use one of {', '.join(known)}",
        )
    if not people:
        return manifest
    manifest = replace(manifest, annotations=sort_annotations(manifest.annotations))
    columns = annotated_columns(manifest)
    given = {name for one in manifest.annotations for name in one.concepts}
    refuse_if(
        [name for name in columns if name in given or "|" in name],
        FixInput,
        "the name of a column of annotations contains |, or is the name of an annotated concept",
        where=manifest.name,
        hint="rename the column in the table",
    )
    if chosen == HIGHEST:
        _require_levels(manifest)
    elif not chosen.startswith(BY) and has_unjudged_concepts(manifest):
        raise FixInput(UNJUDGED, where=manifest.name, hint=WAYS_OF_UNJUDGED)
    clips = _by_rule(manifest, chosen, match_orders(orders or {}, manifest))
    differing = [clip for clip in clips if disputed_names(clip)]
    if differing and rule is None:
        raise FixInput(
            differences_text(manifest, differing),
            where=manifest.name,
            hint=WAYS_OF_RULES,
        )
    made = [*columns, DIFFERS] if differing else [*columns]
    others = (*columns, DIFFERS)
    kept = [name for name in manifest.columns if name not in others] + made
    annotations = manifest.annotations
    if len(people) == 1:
        # With a single annotator, the labels are kept without a table of annotations.
        annotations = ()
        kept = [*dict.fromkeys((*kept, "annotator"))]
        of_clip = manifest.annotations_by_clip
        clips = [
            _with_cells(
                clip, {"annotator": people[0] if clip.clip_id in of_clip else ""}
            )
            for clip in clips
        ]
    note = f"{NOTE}{chosen} from {count(len(people), 'annotator')}: {', '.join(people)}"
    notes = [one for one in manifest.header.notes if not one.startswith(NOTE)]
    return replace(
        manifest,
        header=structs.replace(manifest.header, rule=chosen, notes=(*notes, note)),
        clips=with_only(kept, clips),
        columns=tuple(kept),
        annotations=annotations,
    )


def _require_levels(manifest: Manifest) -> None:
    """Raise an error if the rule `highest` would drop all concepts of an annotator.

    This rule takes the concepts of those who gave the highest level. Without the concepts of an
    annotator who gave no level at all, clips would be negative for these concepts.
    """
    annotators = {one.annotator for one in manifest.annotations if one.level}
    clips = {one.clip_id for one in manifest.annotations if one.level}
    dropped = set()
    for one in manifest.annotations:
        if one.concepts and one.clip_id in clips and one.annotator not in annotators:
            dropped.add(one.annotator)
    refuse_if(
        sorted(dropped),
        FixInput,
        f"the rule {HIGHEST} takes concepts from annotators with levels, and some gave none",
        where=manifest.name,
        hint="give the levels and the concepts of a clip the name of one annotator, or pass --rule"
        f" {AGREED}",
    )


def has_unjudged_concepts(manifest: Manifest) -> bool:
    """Return whether several annotators gave concepts in one film, and nobody gave a level.

    These concepts cannot be compared: an annotator who found no concept in a clip cannot be told
    from an annotator who did not look.
    """
    people = set()
    for one in manifest.annotations:
        if one.level:
            return False
        if one.concepts:
            people.add((manifest[one.clip_id].movie_id, one.annotator))
    films = {film for film, _ in people}
    return len(people) > len(films)


def with_only(columns: Collection[str], clips: Iterable[Clip]) -> tuple[Clip, ...]:
    """Return clips with these extra columns only; a missing cell is empty."""
    filled = []
    for clip in clips:
        cells = {name: clip.extra.get(name, "") for name in columns}
        filled.append(replace(clip, extra=cells))
    return tuple(filled)


def _with_cells(clip: Clip, cells: Mapping[str, str]) -> Clip:
    return replace(clip, extra={**clip.extra, **cells})


def _by_rule(
    manifest: Manifest, name: str, orders: Mapping[str, Sequence[str]]
) -> list[Clip]:
    """Return the clips with the labels that a rule makes, and with the column DIFFERS."""
    rule = Rule(name, tuple(manifest.header.concepts), orders)
    clips = []
    for clip in manifest.clips:
        said = manifest.annotations_by_clip.get(clip.clip_id)
        clips.append(rule.label(clip, said) if said else clip)
    return clips


def person_labels(manifest: Manifest, person: str) -> list[Clip]:
    """Return the clips that one annotator labelled, with the labels of this annotator."""
    rule = Rule(BY + person, tuple(manifest.header.concepts))
    said = [one for one in manifest.annotations if one.annotator == person]
    return [rule.label(manifest[one.clip_id], [one]) for one in said]


def differing_clips(manifest: Manifest) -> list[Clip]:
    """Return the clips on which annotators differ."""
    said = replace(manifest, annotations=sort_annotations(manifest.annotations))
    # Other clips may have a column DIFFERS of the table.
    clips = [clip for clip in said if clip.clip_id in said.annotations_by_clip]
    clips = _by_rule(said.with_clips(clips), AGREED, {})
    return [clip for clip in clips if disputed_names(clip)]


def differences_text(manifest: Manifest, differing: Sequence[Clip]) -> str:
    """Return the sentence that counts the clips on which annotators differ, by column."""
    n_clips = count(len(manifest.annotations_by_clip), "clip")
    return f"annotators differ in {len(differing)} of {n_clips}: {count_differences(differing)}"


def label_notes(manifest: Manifest) -> list[str]:
    """Return notes about the rule of the labels, and about clips on which annotators differ."""
    notes = [note for note in manifest.header.notes if note.startswith(NOTE)]
    differing = [clip for clip in manifest if disputed_names(clip)]
    if differing:
        notes.append(
            f"something is open in {len(differing)} of {count(len(manifest), 'clip')}, because"
            f" annotators differ: {count_differences(differing)}"
        )
    if manifest.annotations:
        if len(manifest.annotators) > 1:
            alone = _labelled_by_one(manifest)
            if alone:
                notes.append(f"labelled by one annotator only: {alone}")
        command = f"obygaze agree {shell_word(manifest.name)}"
        if not any(one.level for one in manifest.annotations):
            likely = [name for name in likely_labels(manifest) if name != WATCHED]
            command += f" --column {shell_word(likely[0]) if likely else 'COLUMN'}"
        notes.append(f"to measure their agreement: {command}")
    return notes


def _labelled_by_one(manifest: Manifest) -> str:
    """Return how many clips have the answer of one annotator only, for each column of labels."""
    labels = likely_labels(manifest)
    if any(one.level for one in manifest.annotations):
        labels = ["level", *labels]
    of_clips = manifest.annotations_by_clip.values()
    if not labels:
        n_clips = sum(len(of_clip) == 1 for of_clip in of_clips)
        return count(n_clips, "clip") if n_clips else ""
    n_alone = dict.fromkeys(labels, 0)
    for of_clip in of_clips:
        for column in labels:
            cells = [{"level": one.level, **one.own}.get(column) for one in of_clip]
            n_alone[column] += (
                sum(cell not in (None, "", UNKNOWN) for cell in cells) == 1
            )
    if len(labels) == 1:
        n_of_column = n_alone[labels[0]]
        return count(n_of_column, "clip") if n_of_column else ""
    alone = [f"{name} {count(n, 'clip')}" for name, n in n_alone.items() if n]
    return ", ".join(alone)


def likely_labels(manifest: Manifest) -> list[str]:
    """Return the columns of annotations that annotators probably judged, to propose them.

    If annotators differ in some columns, only these columns are returned: a scene number and the
    decade of the film are the same in the tables of all annotators.
    """
    likely = []
    differing = []
    of_clips = manifest.annotations_by_clip.values()
    for own in filter(_is_label, annotated_columns(manifest)):
        words = {one.own.get(own, "") for one in manifest.annotations}
        # A column with more words, such as a number for each shot, is not a label.
        if not 1 < len(words) <= MOST_WORDS:
            continue
        likely.append(own)
        for of_clip in of_clips:
            if len({one.own.get(own, "") for one in of_clip} - {""}) > 1:
                differing.append(own)
                break
    return differing or likely


def sort_annotations(annotations: Iterable[Annotation]) -> tuple[Annotation, ...]:
    """Return annotations sorted by clip and annotator, each with a cell in every column."""
    said = sorted(annotations, key=lambda one: (one.clip_id, one.annotator))
    blank: dict[str, str] = {}
    for one in said:
        blank.update(dict.fromkeys(one.own, ""))
    return tuple(one._replace(own={**blank, **one.own}) for one in said)


def annotated_columns(manifest: Manifest) -> tuple[str, ...]:
    """Return the extra columns that hold annotations.

    Without a table of annotators, these are the columns that the header lists, or by default the
    user's own columns and the comments.
    """
    for one in manifest.annotations:
        return tuple(one.own)
    said = manifest.header.said
    return annotator_columns(manifest.columns) if said is None else said


def _is_label(column: str) -> bool:
    """Return whether a column has labels, and not free text."""
    return column.casefold() not in FREE_TEXT


def count_differences(clips: Iterable[Clip]) -> str:
    """Return the number of clips on which annotators differ, by name: `level 10, Look 3`."""
    n_clips: Counter[str] = Counter()
    for clip in clips:
        n_clips.update(sorted(disputed_names(clip)))
    return few([f"{name} {n}" for name, n in n_clips.most_common()], 6)


def match_orders(
    orders: Mapping[str, Sequence[str]], manifest: Manifest
) -> dict[str, list[str]]:
    """Return the order of the values of each column, spelled as the annotators spell them.

    Raise an error for an unknown column.
    """
    columns = annotated_columns(manifest)
    spelled = {}
    for column, order in orders.items():
        if column not in columns:
            raise FixUsage(
                f"--order: expected a column with annotations, got {column!r}"
                f"{near(column, columns)}",
                where=manifest.name,
                hint="levels need no --order; columns with annotations: "
                + (", ".join(columns) or "none"),
            )
        words = {sort_words(one.own[column]) for one in manifest.annotations}
        spelled[column] = match_order(column, order, words, manifest.name)
    return spelled


def match_order(
    column: str, order: Sequence[str], said: Iterable[str], where: str | None = None
) -> list[str]:
    """Return the words of `order` in the same order, spelled as the annotators spell them.

    Raises:
        FixInput: A word of an annotator is missing in `order`. The word `?`, for an annotator who
            could not tell, need not be in `order`.
    """
    words = {*said} - {"", UNKNOWN}
    said_as = {word.lower(): word for word in words}
    spelled = []
    for word in order:
        typed = typed_value(word, column, lambda: words)
        spelled.append(said_as.get(typed.lower(), word))
    others = sorted({*said_as.values()}.difference(spelled))
    refuse_if(
        others,
        FixInput,
        f"--order {column}: words of the annotations are missing",
        where=where,
        hint="add the words to --order; if a word means not known, import again with --word WORD=?",
    )
    return spelled


@dataclass(frozen=True)
class Rule:
    """A rule that makes one label from the annotations of a clip.

    Attributes:
        name: The rule.
        vocabulary: All concepts, in the order in which a clip lists its concepts.
        orders: The words of each column that has a sort order, from the lowest.
    """

    name: str
    vocabulary: Sequence[str]
    orders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def label(self, clip: Clip, said: Sequence[Annotation]) -> Clip:
        """Return a clip with its label, and with the column DIFFERS."""
        used = self._used_by_rule(said)
        values = {"level": self._value("level", [one.level for one in used])}
        for column in said[0].own:
            values[column] = self._value(column, [one.own[column] for one in used])
        left_open = [column for column, value in values.items() if value is None]
        own = {column: value or "" for column, value in values.items()}
        level = own.pop("level")
        concepts, disputed_concepts = self.concepts(said, level)
        # Comments always differ, and are not labels that need a decision.
        left_open = [*filter(_is_label, left_open), *disputed_concepts]
        labelled_clip = replace(clip, level=level, concepts=concepts)
        return _with_cells(labelled_clip, {**own, DIFFERS: "|".join(left_open)})

    def _used_by_rule(self, said: Sequence[Annotation]) -> Sequence[Annotation]:
        """Return the annotations that the rule uses: all, or for by:NAME only those by NAME."""
        if not self.name.startswith(BY):
            return said
        return [one for one in said if BY + one.annotator == self.name]

    def _value(self, column: str, cells: Iterable[str]) -> str | None:
        """Return the value of a column: "" if nobody gave one, None if the rule leaves it open."""
        given = [cell for cell in cells if cell not in ("", UNKNOWN)]
        words = [sort_words(cell) for cell in given]
        cell_of = dict(zip(reversed(words), reversed(given), strict=True))
        order = LEVELS if column == "level" else self.orders.get(column)
        if len(cell_of) < 2:
            return "".join(cell_of.values())
        if self.name == MAJORITY:
            (word, n), (_, n_of_next), *_ = Counter(words).most_common()
            return cell_of[word] if n > n_of_next else None
        if self.name == HIGHEST and order:
            return cell_of[max(words, key=order.index)]
        numbers = [n for n in map(number_of_cell, given) if n is not None]
        if self.name == MEAN and len(numbers) == len(given):
            return plain_number(repr(fmean(numbers)))
        return None

    def concepts(
        self, said: Sequence[Annotation], level: str
    ) -> tuple[tuple[str, ...], list[str]]:
        """Return the concepts of a clip, and the concepts that are left open.

        Each concept is decided separately, by the annotators who gave a level or a concept; with
        the rule `highest`, by the annotators who gave the highest level.
        """
        labels = [one for one in self._used_by_rule(said) if one.level or one.concepts]
        if self.name == HIGHEST and level:
            labels = [one for one in labels if one.level == level]
        n_of = Counter(name for one in labels for name in one.concepts)
        kept = []
        left_open = []
        for concept in sorted(n_of, key=self.vocabulary.index):
            lead = 2 * n_of[concept] - len(labels)
            is_decided = self.name == HIGHEST or n_of[concept] == len(labels)
            if is_decided or (self.name == MAJORITY and lead > 0):
                kept.append(concept)
            elif self.name != MAJORITY or lead == 0:
                left_open.append(concept)
        return tuple(kept), left_open


def sort_words(cell: str) -> str:
    """Return a cell with its words sorted, so that their order does not count."""
    return "|".join(sorted(cell.split("|")))
