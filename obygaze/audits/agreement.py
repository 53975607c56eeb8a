"""`obygaze agree`: agreement of people on clips of a manifest, on marks, or in a table of ratings.

All three become one table of answers: a row for each item, a column for each person.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from obygaze.audits.agreement_measures import (
    DISTANCES,
    IN_ORDER,
    INTERVAL,
    LEVELS_ON_LINE,
    NOMINAL,
    NUMBERS,
    ORDINAL,
    PLACES,
    PLAIN_WORDS,
    Answers,
    Scale,
    cohen_kappa,
    cronbach_over_films,
    equal_share,
    gammas,
    krippendorff_alpha,
)
from obygaze.audits.result import Audit, Plot, Point
from obygaze.audits.texts import column_names, read_records
from obygaze.films.marks import CONCEPTS_COLUMN, LEVEL, UNKNOWN
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell
from obygaze_features.core.unknown_words import UnknownWords
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.annotators import (
    UNJUDGED,
    has_unjudged_concepts,
    likely_labels,
    match_orders,
    parse_orders,
    sort_words,
)
from obygaze_features.manifest.expression import typed_value
from obygaze_features.manifest.model import Annotation, view_words
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.times import spans_in_films
from obygaze_models.evaluation.bootstrap import MADE_OVER_CLUSTERS

Row = dict[str, Any]
# The answer of each person, by film and item.
Said = dict[tuple[str, str], dict[str, str]]

ALL_FILMS = "all films"
ALL_WORDS = "all"
NOT_SURE = "NS"
GAMMAS = ("gamma_uniform", "gamma_own", "gamma_pooled")
MEASURES = ("equal", "kappa", "alpha", *GAMMAS, "cronbach")
COLUMNS = (
    *("film", "people", "words", "items", "equal", "kappa", "alpha", "low", "high"),
    *(*GAMMAS, "cronbach", "cronbach_low", "cronbach_high"),
)
# The answer of a person who gave a clip a level and no concept.
NO_CONCEPT = "no concept"
CAPTION = (
    "A dot is Krippendorff's alpha of the annotators in its row, the bar its 95 % interval; 1 is"
    " complete agreement, 0 chance. Left of the vertical line, at .667, labels depend on the"
    " annotator."
)
# Krippendorff's limits of alpha: tentative conclusions from .667, reliable labels from .8.
TENTATIVE, RELIABLE = 0.667, 0.8
# What answers are for alpha and gamma, by scale.
OF_SCALE = {
    LEVELS_ON_LINE: "Levels are points on a line ("
    + ", ".join(f"{level} {place:g}" for level, place in PLACES.items())
    + ")",
    IN_ORDER: "Words in order are the numbers 0, 1, 2 and so on",
    NUMBERS: "Numbers are themselves",
    PLAIN_WORDS: "Words have no order",
}
# How alpha compares two answers.
OF_DISTANCE = {
    INTERVAL: "alpha compares answers by their squared difference (Krippendorff's interval"
    " distance)",
    ORDINAL: "alpha compares answers by how many answers lie between them, squared (Krippendorff's"
    " ordinal distance)",
    NOMINAL: "alpha asks only whether answers are equal (Krippendorff's nominal distance)",
}
# How the other measures do.
OF_GAMMA = {
    LEVELS_ON_LINE: "gamma compares them by their difference, as the paper on ObyGaze12 does",
    IN_ORDER: "gamma compares them by their difference",
    NUMBERS: "kappa asks only whether they are equal",
    PLAIN_WORDS: "so does gamma",
}
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")


@dataclass(frozen=True)
class Agreement:
    """The agreement of people who answered the same items.

    Attributes:
        people: The names of the people.
        scale: The kind of answers: levels, words with an order, words without an order, or numbers.
        distance: The name of the distance in alpha: interval, ordinal or nominal.
        rows: The measures, in this sequence: of all people in all films; of each pair of people in
            all films, if there are more than two people; means over films and over pairs; of each
            pair of people in each film. A measure that is undefined is None.
        has_films: Whether items have films; else each item is its own film.
        n_films: Number of films with items that two people answered.
        n_single: Number of items that only one person answered.
        n_complete: Number of items that all people answered.
        n_undefined: Number of rows (of means, and of pairs in one film) with an undefined measure.
            A measure is undefined if people would always agree by chance alone.
        films_of_one: The films in which people answered, but no item has the answers of two people.
        n_answers: Number of items that each person answered.
    """

    people: Sequence[str]
    scale: str
    distance: str
    rows: Sequence[Row]
    has_films: bool
    n_films: int
    n_single: int
    n_complete: int
    n_undefined: int
    films_of_one: Sequence[str]
    n_answers: Mapping[str, int]


def agree(
    source: PathLike,
    *,
    column: str = "level",
    orders: Mapping[str, str] | None = None,
    distance: Literal["interval", "ordinal", "nominal"] | None = None,
    raters: str | Sequence[str] | None = None,
    cluster: str | Sequence[str] | None = None,
    words: Mapping[str, str] | None = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Measure how far annotators agree: on clips, or in a table of ratings.

    The source is a manifest with annotators, such as `og.marks.clips` makes of marks; or, with
    `raters`, a table with a row for each item.

    The table has the share of equal answers, Cohen's kappa of two annotators, Krippendorff's alpha
    with its interval over films, gamma of two annotators (1 - observed / expected distance, by
    three definitions of chance), and Cronbach's alpha of ratings. `?` counts as a missing answer.

    Alpha squares the differences of numbers, of levels, and of words with an order, which are 0, 1,
    2 and so on (the distance "interval"); other words are equal or not ("nominal"). The distance
    "ordinal" counts the answers between two answers instead.

    Args:
        source: The manifest, or the table of ratings.
        column: The column to compare: level, concepts or another; or COLUMN=WORD, one word against
            all others.
        orders: The words of a column from the lowest: mood=low,high.
        distance: The distance of Krippendorff's alpha; by default interval for numbers, levels and
            words with an order, and nominal for other words.
        raters: The columns of the raters, or of the prompts.
        cluster: The columns of the film or image, by default the row.
        words: NA=? for not known, NA=NA for an answer.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = agree("ratings.csv", raters="ada,ben,cleo", cluster="film")
    """
    if isinstance(source, Manifest):
        raise FixUsage(
            "expected the name of a manifest, got a Manifest",
            hint=f"save the manifest, and pass its name: og.agree({source.name!r})",
        )
    typed = parse_orders(orders or {})
    names = column_names(raters)
    if names and (typed or column != LEVEL):
        raise FixUsage(
            "--raters is for a table of ratings; --column and --order are for manifests"
        )
    for option, value in (("--cluster", cluster), ("--word", words)):
        if value and not names:
            raise FixUsage(
                f"{option} is for a table of ratings", hint="pass --raters ada,ben"
            )
    if names:
        answers = answers_of_table(source, names, column_names(cluster), words)
        found = compute(answers, distance=distance)
        return present(found, f"Agreement: {Path(source).name}")
    manifest = _read_annotated(source, workspace)
    order = match_orders(typed, manifest).get(column, ())
    answers = answers_of_manifest(manifest, column)
    title = f"Agreement: {source}, {column}"
    if manifest.header.view != "raw":
        title += f", {view_words(manifest.header.view)}"
    found = compute(answers, column, order, distance)
    notes = []
    is_of_marks = any(" marks clips " in line for line in manifest.header.commands)
    if found.films_of_one and is_of_marks:
        notes.append(
            "if an annotator coded a whole film and found nothing, import the marks with --coded"
            " COLUMN, so that this film is compared"
        )
    return present(found, title, _warnings(manifest), notes)


def _warnings(manifest: Manifest) -> list[str]:
    """Return a warning if clips have the same span of a film, because each of them counts."""
    films = {clip.clip_id: clip.movie_id for clip in manifest}
    n_of_span = Counter(
        (films[clip_id], *span_s)
        for clip_id, span_s in spans_in_films(manifest).items()
    )
    n_again = n_of_span.total() - len(n_of_span)
    if not n_again:
        return []
    return [
        f"{count(n_again, 'clip')} with the same span of a film as another clip; each is compared"
    ]


# ---- answers -------------------------------------------------------------------------------------


def answers_of_table(
    table: PathLike,
    raters: Sequence[str],
    cluster: Sequence[str],
    words: Mapping[str, str] | None = None,
) -> Answers:
    """Return the ratings of a table with a column for each rater.

    `words` has `?` for words that mean not known, and NA for NA if that is an answer.
    """
    # A rater who is named twice would agree with themselves.
    names = tuple(dict.fromkeys(raters))
    if len(names) < 2:
        raise FixInput(
            f"expected at least two raters, got {len(names)}: {', '.join(names)}"
        )
    said: Said = {}
    # A word has one spelling in the columns of all raters.
    spelling = Spelling()
    needed = (*names, *cluster)
    stated = UnknownWords.of(words or {})
    command = ["obygaze", "agree", os.fspath(table), "--raters", ",".join(names)]
    command += ["--cluster", ",".join(cluster)] if cluster else []
    for word, meaning in (words or {}).items():
        command += ["--word", f"{word}={meaning}"]
    records = read_records(
        os.fspath(table),
        needed,
        hint="--raters, --cluster",
        answers=names,
        words=stated,
        command=command,
    )
    for record in records:
        given = [spelling.cell(record.cells[name].strip(), "answer") for name in names]
        film = record.cluster(cluster)
        said[film, record.where] = dict(zip(names, map(sort_words, given), strict=True))
    return _answers(names, said, has_films=bool(cluster))


def answers_of_manifest(manifest: Manifest, column: str) -> Answers:
    """Return the answers of each annotator in a column.

    If `column` is COLUMN=WORD, an answer is yes or no: whether the annotator gave this word.
    """
    known: dict[str, None] = {}
    for one in manifest.annotations:
        columns = (LEVEL, CONCEPTS_COLUMN, *one.own)
        known |= dict.fromkeys(name for name in columns if cell_of(one, name))
    name, sign, typed = (column, "", "") if column in known else column.partition("=")
    refused = [CONCEPTS_COLUMN] if has_unjudged_concepts(manifest) else []
    if name not in known:
        judged = (LEVEL, CONCEPTS_COLUMN, *likely_labels(manifest))
        all_known = [own for own in known if own not in refused]
        likely = [own for own in all_known if own in judged] or all_known
        raise FixInput(
            f"no annotator has a value in the column {name!r}{near(name, known)}",
            where=manifest.name,
            hint=" or ".join(f"pass --column {shell_word(own)}" for own in likely)
            or None,
        )
    if name in refused:
        raise FixInput(
            UNJUDGED,
            where=manifest.name,
            hint="add levels to the annotations, EN for no concepts",
        )
    words: dict[str, None] = {}
    for one in manifest.annotations:
        words |= dict.fromkeys(cell_of(one, name).split("|"))
    words.pop("", None)
    word = typed_value(typed, name, lambda: words)
    said: Said = {}
    for one in manifest.annotations:
        cell = cell_of(one, name)
        if sign and cell not in ("", UNKNOWN):
            cell = "yes" if word in cell.split("|") else "no"
        film = manifest[one.clip_id].movie_id if manifest.has_films else one.clip_id
        said.setdefault((film, one.clip_id), {})[one.annotator] = cell
    if sign and word not in words:
        raise FixInput(
            f"no annotator has the word {word!r} in the column {name}{near(word, words)}",
            where=manifest.name,
        )
    return _answers(manifest.annotators, said, has_films=manifest.has_films)


def cell_of(annotation: Annotation, column: str) -> str:
    """Return the answer of a person for a clip in a column, or "" if there is no answer.

    If an answer has several words, they are sorted.
    """
    if column == LEVEL:
        return annotation.level
    if column == CONCEPTS_COLUMN:
        # A level without a concept means that the person found no concept.
        nothing = NO_CONCEPT if annotation.level else ""
        return "|".join(sorted(annotation.concepts)) or nothing
    return sort_words(annotation.own.get(column, ""))


def _answers(people: Sequence[str], said: Said, *, has_films: bool) -> Answers:
    """Return answers as a table; `?` becomes a missing answer."""
    rows = []
    for words in said.values():
        rows.append([words.get(name, "") for name in people])
    table = np.array(rows, dtype=np.str_).reshape(len(rows), len(people))
    table[table == UNKNOWN] = ""
    films, items = np.array([*said], dtype=np.str_).reshape(len(rows), 2).T
    return Answers(tuple(people), items, films, table, has_films)


def _read_annotated(name: PathLike, workspace: PathLike | None) -> Manifest:
    """Return a manifest with annotators; raise an error for any other source."""
    if Workspace.of(workspace).manifest(str(name)).is_file():
        manifest = read_manifest(name, workspace=workspace)
        if manifest.annotations:
            return manifest
    raise FixUsage(
        "expected a manifest with annotators; or a table of ratings, with --raters",
        where=str(name),
        hint="of marks, make one: obygaze marks clips MARKS --every 30 -o NAME; of a table,"
        " pass --raters ada,ben",
    )


# ---- numbers -------------------------------------------------------------------------------------


def compute(
    answers: Answers,
    column: str = "",
    order: Sequence[str] = (),
    distance: str | None = None,
) -> Agreement:
    """Return the agreement of people in their answers.

    Args:
        answers: The answers.
        column: The name of the column. Only the words of `level` have places on a line, which
            state their distances.
        order: The words from the lowest; empty: the words have no order.
        distance: The distance of alpha; None: that of the scale.
    """
    compared = answers.answered_by(2)
    if not len(compared):
        raise FixInput(
            "expected items with the answers of two annotators, got none; the annotators are"
            f" {few(answers.people, 5)}",
            where=column or None,
        )
    # Who has no answer in this column is not one of its annotators.
    has_answers = (answers.words != "").any(axis=0)
    answers = answers.of_people(np.flatnonzero(has_answers).tolist())
    compared = answers.answered_by(2)
    if column == LEVEL:
        scale = Scale.of_levels()
    else:
        if not order:
            _require_one_kind(answers, column)
            answers = _with_equal_numbers(answers)
            compared = answers.answered_by(2)
        scale = Scale.of(answers.words.ravel().tolist(), order)
    if distance is not None:
        scale = _with_distance(scale, distance, column)
    rows = [measure_row(compared, scale)]
    if len(answers.people) > 2:
        rows += [measure_row(pair, scale) for pair in compared.pairs()]
    of_films = film_rows(compared, scale) if answers.has_films else []
    answered = answers.answered_by(1)
    films = {*compared.films.tolist()}
    of_one = {*answered.films.tolist()} - films if answers.has_films else ()
    defined = ["kappa", "alpha", *(GAMMAS if scale.name != NUMBERS else ())]
    return Agreement(
        people=answers.people,
        scale=scale.name,
        distance=scale.distance,
        rows=[*rows, *of_films],
        has_films=answers.has_films,
        n_films=len(films),
        n_single=len(answered) - len(compared),
        n_complete=len(answers.answered_by(len(answers.people))),
        n_undefined=sum(None in [row[name] for name in defined] for row in of_films),
        films_of_one=sorted(of_one),
        n_answers=dict(
            zip(answers.people, (answers.words != "").sum(axis=0).tolist(), strict=True)
        ),
    )


def _with_distance(scale: Scale, distance: str, column: str) -> Scale:
    """Return a scale with a distance of alpha; raise an error if its words do not have it."""
    if distance not in DISTANCES:
        raise unknown_name("distance", distance, DISTANCES, where="agree")
    if scale.name == PLAIN_WORDS and distance != NOMINAL:
        raise FixUsage(
            f"--distance {distance} is for numbers, levels and words with an order",
            where=column or None,
            hint=f"pass --order {column}=WORDS, all words, the lowest first, or --distance nominal"
            if column
            else f"pass --distance {NOMINAL}",
        )
    return replace(scale, distance=distance)


def _require_one_kind(answers: Answers, column: str) -> None:
    """Raise an error if answers mix numbers and words, or if numbers have a decimal comma."""
    said = sorted({*answers.words.ravel().tolist()} - {""})
    words = [word for word in said if number_of_cell(word) is None]
    is_mixed = 0 < len(words) < len(said)
    if is_mixed or (words and all(map(_DECIMAL_COMMA.fullmatch, words))):
        item, person = np.argwhere(answers.words == words[0])[0]
        raise FixInput(
            f"expected only numbers such as 2.5, or only words, got {words[0]!r}"
            f" ({answers.people[person]}, {answers.items[item]})",
            where=column or None,
            hint="correct or empty such cells; of marks and manifests also pass --column"
            " COLUMN=WORD, one word against all others, or --order with all words",
        )


def _with_equal_numbers(answers: Answers) -> Answers:
    """Return answers in which equal numbers have one spelling, if all answers are numbers."""
    words = answers.words.ravel().tolist()
    numbers = [number_of_cell(word) for word in words]
    if any(
        word and number is None for word, number in zip(words, numbers, strict=True)
    ):
        return answers
    # Adding 0 makes 0 of -0.
    spelled = ["" if number is None else repr(number + 0.0) for number in numbers]
    table = np.array(spelled, dtype=np.str_).reshape(answers.words.shape)
    return replace(answers, words=table)


def measure_row(answers: Answers, scale: Scale, film: str = ALL_FILMS) -> Row:
    """Return a row with all measures of these answers; `film` is the text in its column film.

    Kappa and gamma are measured between exactly two people. Gamma needs words, and Cronbach's alpha
    needs numbers.
    """
    alpha, low, high = krippendorff_alpha(answers, scale)
    row: Row = {
        **dict.fromkeys(COLUMNS),
        "film": film,
        "people": " / ".join(answers.people),
        "words": ALL_WORDS,
        "items": len(answers),
        "equal": equal_share(answers),
        "alpha": alpha,
        "low": low,
        "high": high,
    }
    if len(answers.people) == 2:
        row["kappa"] = cohen_kappa(answers)
    if scale.name == NUMBERS:
        ends = ("cronbach", "cronbach_low", "cronbach_high")
        row |= zip(ends, cronbach_over_films(answers, scale), strict=True)
    elif len(answers.people) == 2:
        row |= zip(GAMMAS, gammas(answers, scale).values(), strict=True)
    return row


def film_rows(answers: Answers, scale: Scale) -> list[Row]:
    """Return the rows of means over films and over pairs, then a row for each pair in each film.

    If an answer is the level NS, each pair has a second row in each film, made without the items
    that one of the two people answered with NS. If no item is left, there is no second row.
    """
    rows = []
    sure = []
    without = replace(Scale.of_levels(NOT_SURE), distance=scale.distance)
    for film in sorted({*answers.films.tolist()}):
        # The cells of several columns are joined by NUL, so that different films stay different.
        name = film.replace("\0", " ")
        for pair in answers.where(answers.films == film).pairs():
            rows.append(measure_row(pair, scale, name))
            if scale.name == LEVELS_ON_LINE and (answers.words == NOT_SURE).any():
                # The paper also states the measures without items that a person answered with NS.
                of_sure = pair.where((pair.words != NOT_SURE).all(axis=1))
                if len(of_sure):
                    row = measure_row(of_sure, without, name)
                    sure.append({**row, "words": f"without {NOT_SURE}"})
    means = [*_means(rows), *_means(sure)]
    in_order = sorted([*rows, *sure], key=lambda row: (row["film"], row["people"]))
    return [*means, *in_order]


def _means(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield two rows of means of `rows`, each of which is about a pair of people in a film.

    The first row is the mean over films, where the value of a film is the mean over its pairs. The
    second row is the mean over the pairs of all films.
    """
    of_film: dict[str, list[Row]] = {}
    for row in rows:
        of_film.setdefault(row["film"], []).append(row)
    groups_of = {
        "mean of films": [*of_film.values()],
        "mean of pairs": [[row] for row in rows],
    }
    for title, groups in groups_of.items() if rows else ():
        mean: Row = {**dict.fromkeys(COLUMNS), "film": title, "people": "each two"}
        mean |= {"words": rows[0]["words"], "items": sum(row["items"] for row in rows)}
        for name in MEASURES:
            of_groups = [_mean([row[name] for row in group]) for group in groups]
            mean[name] = _mean(of_groups)
        yield mean


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values, or None if there are none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


# ---- the page ------------------------------------------------------------------------------------


def present(
    found: Agreement,
    title: str,
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Audit:
    """Return the audit of agreement: its table, sentences and figure."""
    names = [
        name
        for name in found.rows[0]
        if any(row[name] is not None for row in found.rows)
    ]
    if all(row["words"] == ALL_WORDS for row in found.rows):
        names.remove("words")
    points = []
    for row in found.rows:
        label = f"{row['film']}, {row['people']}"
        if row["words"] != ALL_WORDS:
            label += f", {row['words']}"
        points.append(Point(label, row["alpha"], (row["low"], row["high"])))
    if found.films_of_one:
        named = few(found.films_of_one, 5)
        sentence = f"films without an item of two annotators, not compared: {named}"
        warnings = (*warnings, sentence)
    rows = []
    for row in found.rows:
        rows.append(tuple(row[name] for name in names))
    over = "films" if found.has_films else "items"
    return Audit(
        title=title,
        headers=[name.replace("_", " ") for name in names],
        rows=rows,
        answers=list(_answers_in_words(found)),
        limits=list(_limits(found)),
        values={
            "scale": found.scale,
            "distance": found.distance,
            "rows": found.rows,
            "n_films": found.n_films if found.has_films else None,
            "n_single": found.n_single,
            "n_complete": found.n_complete,
            "answers": found.n_answers,
        },
        figure=Plot(
            title,
            points,
            f"Krippendorff's alpha ({found.distance} distance), with 95 % interval over {over}",
            TENTATIVE,
        ),
        warnings=warnings,
        notes=notes,
        caption=CAPTION,
    )


def _answers_in_words(found: Agreement) -> Iterator[str]:
    """Yield the sentences about the row of all people."""
    row = found.rows[0]
    items = count(row["items"], "item")
    equal = f"{100 * row['equal']:.0f} %"
    yield f"Two annotators give the same answer in {equal} of cases ({items})."
    sentence = (
        f"Krippendorff's alpha of {len(found.people)} annotators ({found.distance} distance):"
        f" {_with_ends(row, 'alpha', '')}"
    )
    if row["alpha"] is None:
        sentence += ", because all answers are equal"
    elif row["alpha"] >= RELIABLE:
        sentence += "; from .80, labels are reliable"
    elif row["alpha"] >= TENTATIVE:
        sentence += "; from .667 to .80, labels allow only tentative conclusions"
    else:
        sentence += "; below .667, labels depend on the annotator"
    yield f"{sentence}."
    if found.scale == NUMBERS:
        alpha = _with_ends(row, "cronbach", "cronbach_")
        yield f"Cronbach's alpha of {len(found.people)} raters: {alpha}."


def _with_ends(row: Row, name: str, of_ends: str) -> str:
    """Return the alpha called `name` of a row, with the ends of its interval, as a text."""
    alpha = row[name]
    low = row[f"{of_ends}low"]
    high = row[f"{of_ends}high"]
    if alpha is None:
        return "not defined"
    return f"{alpha:.3f}" if low is None else f"{alpha:.3f} ({low:.3f} to {high:.3f})"


def _limits(found: Agreement) -> Iterator[str]:
    """Yield what the measures mean, and which items are excluded."""
    yield (
        f"{OF_SCALE[found.scale]}: {OF_DISTANCE[found.distance]}, and {OF_GAMMA[found.scale]}."
        " Kappa, alpha and gamma are 1 for complete agreement, and 0 for agreement by chance."
    )
    if found.scale == NUMBERS:
        yield "Chance samples the answers of each annotator (kappa), or of all annotators (alpha)."
    else:
        yield (
            "Chance samples all words equally often (gamma uniform), the answers of each annotator"
            " (kappa and gamma own), or of all annotators (alpha and gamma pooled)."
        )
    clusters = f"the {count(found.n_films, 'film')}"
    if not found.has_films:
        clusters = "the items, as if all were independent; pass --cluster COLUMN for whole films"
    yield f"Intervals (95 %) are {MADE_OVER_CLUSTERS}. Clusters are {clusters}."
    answered = [f"{name} {number}" for name, number in found.n_answers.items()]
    yield f"Items with an answer: {few(answered, 10)}."
    if found.n_single:
        items = count(found.n_single, "item")
        yield f"Excluded, because only one annotator answered: {items}."
    if found.scale == NUMBERS and found.n_complete < found.rows[0]["items"]:
        items = count(found.n_complete, "item")
        yield f"Cronbach's alpha is computed from the {items} that all raters rated."
    if found.n_undefined:
        rows = count(found.n_undefined, "row")
        yield (
            "Means exclude undefined measures (by chance only, annotators would always agree):"
            f" {rows} of films."
        )
