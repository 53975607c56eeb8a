"""`obygaze audit`: measure bias in vectors, captions and other texts, and score MediaEval runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from obygaze_features.core.commands import (
    FiniteRange,
    LazyGroup,
    Session,
    force_option,
    json_option,
    option_group,
    spreadsheet_option,
)

if TYPE_CHECKING:
    from obygaze.extensions.audits.result import Audit

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.Path(dir_okay=False, path_type=Path)
NAMES = "{image}_{face}_{group}_{copy}"

option = click.option
seed_option = option(
    "--seed", type=click.IntRange(0), default=0, help="Seed of random draws."
)
text_options = (
    option(
        "--text", type=FILE, help="Texts in an npz file. [default: the store's own]"
    ),
    option("--level", default="clip", help="The store's feature level."),
    option(
        "--assume-space", is_flag=True, help="Assume one space where a file names none."
    ),
)
view_option = option(
    "--view", type=click.Choice(["raw", "visual", "as_published"]), help="Of MANIFEST."
)

result_options = option_group(
    "Results",
    option("-o", "document", type=FILE, help="Write the JSON document to this file."),
    option("--table", type=FILE, help="Write the table to this CSV file."),
    option("--figure", type=FILE, help="Draw the figure: PATH.svg and PATH.png."),
    option("--report", metavar="RUN", help="Add the audit to the report of a run."),
    spreadsheet_option,
    force_option,
    json_option,
)


@click.group(cls=LazyGroup)
def audit() -> None:
    """Measure bias in vectors and texts, or score MediaEval runs."""


def audit_command(name: str) -> Callable[[F], click.Command]:
    """Make a command of a function that returns an audit: its files are written, it is printed."""

    def decorate(function: F) -> click.Command:
        # The list is in reverse order: the results are last in the help.
        own = vars(function).pop("__click_params__", [])
        vars(result_options(function))["__click_params__"] += own

        @audit.command(name)
        @wraps(function)
        def command(
            session: Session, /, report: str | None, force: bool, **options: Any
        ) -> None:
            files = {
                name: options.pop(name) for name in ("document", "table", "figure")
            }
            for_spreadsheets = options.pop("for_spreadsheets")
            if report is not None:
                runs = session.workspace.folder("runs")
                files["run"] = Path(report) if "/" in report else runs / report
            found: Audit = function(session, **options)
            for path in found.write(
                **files, for_spreadsheets=for_spreadsheets, force=force
            ):
                session.console.note(f"wrote {path}")
            session.console.show(found.to_json(), str(found))

        return command

    return decorate


def _manifest(session: Session, name: str | None) -> Path | None:
    return None if name is None else session.workspace.existing_manifest(name)


def _texts(session: Session, source: str) -> Path:
    """Return the path of a table or folder, or that of a manifest by its name or path."""
    from obygaze.extensions.audits.texts import is_table

    path = Path(source)
    return (
        path
        if is_table(path) or path.is_dir()
        else session.workspace.existing_manifest(source)
    )


@audit_command("eat")
@click.argument("store", required=False)
@click.argument("manifest", required=False)
@option_group(
    "Vectors",
    option(
        "--vectors", type=FILE, help="An npz file with X, Y, A, B (x_block, y_block)."
    ),
    option(
        "--x", metavar="CLIPS", help="First group: an expression, or a CSV of clip_id."
    ),
    option("--y", metavar="CLIPS", help="Second group, likewise."),
    option(
        "--groups",
        nargs=2,
        multiple=True,
        metavar="X Y",
        help="Further groups; repeatable.",
    ),
    option(
        "--store",
        "stores",
        multiple=True,
        metavar="STORE",
        help="Further stores; repeatable.",
    ),
    option(
        "--attributes",
        nargs=2,
        multiple=True,
        metavar="A B",
        help="A pair; repeatable.",
    ),
    *text_options,
    view_option,
    option(
        "--drop-missing",
        is_flag=True,
        help="Leave out clips that the store does not have.",
    ),
)
@option_group(
    "Test",
    option(
        "--single",
        is_flag=True,
        help="Test each item of X alone: closer to A than to B?",
    ),
    option(
        "--tail",
        type=click.Choice(["two-sided", "greater", "less"]),
        default="two-sided",
        help="The p-value to report and correct.",
    ),
    option(
        "--permutations",
        type=click.IntRange(1),
        default=1_000_000,
        help="How many to draw.",
    ),
    seed_option,
)
def eat(
    session: Session, /, store: str | None, manifest: str | None, tail: str, **o: Any
) -> Audit:
    """Test whether one group of clips is closer to some words than another group.

    Permutations are counted exactly if possible. If a film has clips of both groups, the reported
    p-value exchanges clips only within films; the one across films is shown beside it, with a
    sentence that explains the difference.

    Examples:
        obygaze audit eat obygaze12.clip-b16 obygaze12 --x 'level == S' --y 'level == EN' \\
            --attributes happiness sadness --attributes happiness anger --figure figures/eat
        obygaze audit eat obygaze12.clip-b16 --x men.csv --y women.csv --text texts.npz
        obygaze audit eat --vectors vectors.npz --json
    """
    from obygaze.extensions.audits.eat import audit_eat

    place = None if store is None else session.workspace.existing_store(store)
    kind: Any = tail.replace("-", "_")
    o["stores"] = [session.workspace.store(name) for name in o["stores"]]
    return audit_eat(place, _manifest(session, manifest), tail=kind, **o)


@audit_command("annotations")
@click.argument("manifest")
@option("--column", default="concepts", help="The column, with values joined by |.")
@option(
    "--x", metavar="CLIPS", required=True, help="First group: an expression, or a CSV."
)
@option("--y", metavar="CLIPS", required=True, help="Second group, likewise.")
@view_option
@option(
    "--min-count",
    type=click.IntRange(0),
    default=0,
    help="Leave out values of fewer clips.",
)
@seed_option
def annotation_tests(session: Session, /, manifest: str, **options: Any) -> Audit:
    """Test which values of a column go with a level, such as emotions or concepts.

    For each value, the share of the clips that have it is compared between two groups, X and Y:
    expressions over level and concept, or CSV files with a column clip_id. The p-values are exact,
    exchange clips only within films, and are corrected for the number of values.

    Examples:
        obygaze audit annotations obygaze12 --x 'level == S' --y 'level == HN'
        obygaze audit annotations moviegraphs --column emotions --min-count 5 \\
            --x 'level == S' --y 'level == EN' --figure figures/emotions
        obygaze audit annotations moviegraphs --column relationships --x men.csv --y women.csv
    """
    from obygaze.extensions.audits.annotations import audit_annotations

    return audit_annotations(session.workspace.existing_manifest(manifest), **options)


@audit_command("captions")
@click.argument("source")
@option("--text", default="caption", help="The column of the captions.")
@option("--group", default="group", help="Columns to compare: A or A,B.")
@option("--cluster", help="Columns of what is captioned. [default: each caption]")
@option("--words", default="emotions", help="Word lists: a name or TOML.")
@option("--names", default=NAMES, help="File names in a folder.")
@seed_option
def captions(session: Session, /, source: str, **options: Any) -> Audit:
    """Count how often captions use the words of a list, by group.

    SOURCE is a manifest, a CSV table, or a folder of .txt files with one caption per line, whose
    names hold further columns. Intervals are over clusters (images, films). Two groups are also
    tested against each other for each list, by exchanging whole clusters, or the groups within
    each cluster where clusters have both (paired).

    Examples:
        obygaze audit captions captions.csv --group condition --cluster image
        obygaze audit captions captions/ --group group,face --cluster image,face --figure words
        obygaze audit captions captions.csv --words my-words.toml --json
    """
    from obygaze.extensions.audits.captions import audit_captions

    return audit_captions(_texts(session, source), **options)


@audit_command("cooc")
@click.argument("source")
@option("--text", default="caption", help="The column of the texts.")
@option("--things", default="concepts", help="That column, or word lists.")
@option("--words", default="gender", help="Lists of gendered words.")
@option("--cluster", help="Columns, such as movie_id. [default: each text]")
@option(
    "--compare", metavar="SOURCE", help="A model's texts: do they amplify the bias?"
)
@seed_option
def cooc(
    session: Session, /, source: str, compare: str | None, **options: Any
) -> Audit:
    """Count which things are named together with words of which gender.

    SOURCE is a manifest, a CSV table or a folder of .txt files. A text with words of both genders
    counts for both. Shares are printed exactly, and cut after two decimals as in published tables.

    Examples:
        obygaze audit cooc mobygaze --text comment --cluster movie_id --figure figures/company
        obygaze audit cooc captions.csv --things objects.toml --compare predicted.csv
    """
    from obygaze.extensions.audits.cooccurrence import audit_cooc

    compared = None if compare is None else _texts(session, compare)
    return audit_cooc(_texts(session, source), compare=compared, **options)


@audit_command("gender-score")
@click.argument("captions", metavar="TABLE", type=FILE)
@option(
    "--by",
    metavar="COLUMN",
    help="Means of both genders for each object of this column.",
)
@option_group(
    "Visual context",
    option(
        "--store",
        metavar="STORE",
        help="Compute prob from the clips' vectors in this store.",
    ),
    *text_options,
    option(
        "--logit-scale",
        type=FiniteRange(),
        help="Factor of the cosines. [default: 100, for CLIP]",
    ),
)
def gender_score(
    session: Session, /, captions: Path, store: str | None, **options: Any
) -> Audit:
    """Score how strongly captions lean to a gender.

    TABLE has the columns lm, sim, prob (captions as they are: no ratios), or caption, lm_man,
    sim_man, lm_woman, sim_woman, prob (captions in both wordings); `obygaze extract captions` adds
    priors and similarities. With --store it has clip_id and visual in place of prob: the
    probability of the visual word is its softmax over all attributes of the texts.

    Examples:
        obygaze audit gender-score captions.csv
        obygaze audit gender-score captions.csv --store obygaze12.clip-b16 --text objects.npz
        obygaze audit gender-score captions.csv --by visual --json
    """
    from obygaze.extensions.audits.gender import audit_gender_score

    place = None if store is None else session.workspace.existing_store(store)
    return audit_gender_score(captions, store=place, **options)


@audit_command("mediaeval")
@option(
    "--run", "runs", type=FILE, multiple=True, required=True, help="A run; repeatable."
)
@option("--qrels", type=FILE, help="TREC judgements of violence.")
@option("--manifest", metavar="NAME", help="A manifest of LIRIS-ACCEDE.")
@option(
    "--float64", is_flag=True, help="Compare scores as later versions of trec_eval do."
)
def mediaeval(
    session: Session, /, manifest: str | None, float64: bool, **options: Any
) -> Audit:
    """Score runs of MediaEval 2015, and check them against the rules of the task.

    A run is a TREC file for violence, or has lines of name, valence class, arousal class. If the
    official split is known, only its test clips are scored. A JSON file of the same name beside
    each run has the field `external_data`; at most five runs per subtask, one of them without.

    Examples:
        obygaze audit mediaeval --qrels violence.qrels --run run1.txt --json
        obygaze audit mediaeval --manifest liris-accede --run affect.txt --figure figures/mediaeval
    """
    from obygaze.extensions.audits.mediaeval import audit_mediaeval

    precision: Any = "float64" if float64 else "float32"
    found = _manifest(session, manifest)
    return audit_mediaeval(manifest=found, precision=precision, **options)


@audit_command("pixels")
@click.argument("store")
@click.argument("pictures")
@option("--level", "levels", multiple=True, help="Only this level; repeatable.")
def pixels(
    session: Session, /, store: str, pictures: str, levels: tuple[str, ...]
) -> Audit:
    """Measure how much of the pictures of films can be recovered from features.

    PICTURES is the private store of the pictures of the same clips (extract run -b frames:NAME). A
    linear decoder learns small grey pictures, and is tested on films it has not seen, beside the
    mean picture. `store card` and `store publish` take the JSON document as --recovered.

    Examples:
        obygaze audit pixels films.xclip films.frames-32x224-bicubic -o pixels.json
        obygaze store publish films.xclip --to zenodo --creator "Doe, Jane" --recovered pixels.json
    """
    from obygaze.extensions.audits.pixels import audit_pixels

    place = session.workspace.existing_store
    return audit_pixels(place(store), place(pictures), levels or None)
