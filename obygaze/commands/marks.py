"""The commands of `obygaze marks`: marks in films, and ELAN files."""

from collections.abc import Callable, Mapping, Sequence

import click

from obygaze.commands.shared import (
    NAME,
    F,
    Group,
    Result,
    Session,
    force_option,
    mapping_option,
)


@click.group(cls=Group)
def marks() -> None:
    """Read and write marks in films: ELAN files.

    A mark is what one annotator wrote for a span of a film. Tables of marks are in segments/.
    """


output_argument = click.argument(
    "output",
    type=NAME,
    help="A new file that ends with .eaf; for several films a new folder.",
)


def into_option(text: str) -> Callable[[F], F]:
    """Return the option that names files to copy."""
    return click.option("--into", type=NAME, metavar="PATH", help=text)


@marks.command("import")
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    type=NAME,
    metavar="FILE...",
    help="ELAN files, a folder of them, or tables of marks.",
)
@click.option(
    "-o",
    "--output",
    "name",
    metavar="NAME",
    show_default="from FILE",
    help="Name of the table of marks.",
)
@mapping_option(
    "--tier",
    "tiers",
    metavar="OLD=COLUMN",
    may_be_empty=True,
    help="The column of the tier OLD, such as level; level@anna also names its annotator.",
)
@mapping_option(
    "--word",
    "words",
    metavar="OLD=NEW",
    may_be_empty=True,
    help="Replace a word; ? stands for not known.",
)
@mapping_option(
    "--film",
    "film_names",
    metavar="NAME=FILM",
    help="Rename a film: 'Night Train=night_train_1954'.",
)
@click.option(
    "--coded",
    multiple=True,
    metavar="COLUMN",
    help="Column that was coded in the whole film. Repeatable.",
)
@force_option
@click.pass_obj
def import_(
    session: Session,
    sources: Sequence[str],
    name: str | None,
    tiers: Mapping[str, str] | None,
    words: Mapping[str, str] | None,
    film_names: Mapping[str, str] | None,
    coded: Sequence[str],
    force: bool,
) -> Result:
    """Read ELAN files, or tables of marks.

    The marks become segments/NAME.csv. A table of marks has the columns movie_id, start_s, end_s,
    column, value and annotator. docs/guide/films.md describes marks.

    Examples:
        obygaze marks import anna.eaf ben.eaf -o coded --tier Gewalt_MK=Gewalt
        obygaze marks import elan/ -o coded --word 'stark (?)=stark'
    """
    from obygaze.films.importing import import_files_of_marks

    return import_files_of_marks(
        sources,
        name=name,
        tiers=tiers,
        words=words,
        film_names=film_names,
        coded=coded,
        force=force,
        workspace=session.root,
    )


@marks.command("clips")
@click.argument(
    "marks",
    nargs=-1,
    required=True,
    help="One or more tables of marks, or manifests taken as marks.",
)
@click.option(
    "-o",
    "--output",
    "name",
    required=True,
    metavar="NAME",
    help="Name of the manifest to write.",
)
@click.option(
    "--clips", type=NAME, help="Manifest or table of clips with times in their films."
)
@click.option(
    "--every",
    metavar="SECONDS",
    help="Length of equal clips in seconds, instead of --clips.",
)
@click.option(
    "--threshold",
    default="0.2",
    metavar="SHARE",
    help="The smallest share of a clip that a value must cover to count: 0.2, 1/3.",
)
@mapping_option(
    "--order",
    "orders",
    metavar="COLUMN=WORDS",
    help="The words of a column from the lowest: Gewalt=schwach,stark.",
)
@click.option(
    "--rule",
    default="highest",
    metavar="RULE",
    help="Rule for one label from several annotators: highest, agreed, majority, mean or"
    " by:NAME. A second table has the labels of each annotator.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="COLUMN",
    help="A column of a manifest whose cells are marks. Repeatable.",
)
@force_option
@click.pass_obj
def clips(
    session: Session,
    marks: Sequence[str],
    name: str,
    clips: str | None,
    every: str | None,
    threshold: str,
    orders: Mapping[str, str] | None,
    rule: str,
    columns: Sequence[str],
    force: bool,
) -> Result:
    """Turn marks into labels of clips.

    MARKS is a table that `obygaze marks import` has written, a file with the columns movie_id,
    start_s, end_s, column, value and annotator, or a manifest, such as that of a spreadsheet with a
    row for each mark. Then --column names the columns that are marks. Without annotators, all rows
    are one person's. An empty cell, or ?, says nothing of its span: a clip there gets no label,
    unless another mark gives it one.

    A value counts for a clip if the share of the clip that it covers is at least the threshold. The
    clip gets the highest level that counts, and the concepts of its marks. In a column with
    --order, the clip gets the highest value that counts; in a column without it, the value that
    covers most of the clip. A clip for which no value counts has the level EN, and `none` in each
    further column, if the annotator has seen at least four fifths of it; otherwise it has no label.
    In a column of several numbers without --order, it has no value.
    Marks in the column `watched` state what was seen. Without such marks, the whole film counts as
    seen, and a warning says so; but a clip of `manifest sample` without a mark has no label.

    Examples:
        obygaze marks clips coded --clips films -o labels
        obygaze marks clips coded --clips films --order Gewalt=schwach,stark -o labels
        obygaze marks clips mobygaze --every 30 -o mobygaze-30
        obygaze marks clips sheet --column mood --every 30 -o labels
    """
    from obygaze.films.labels import project_marks

    return project_marks(
        marks,
        name,
        clips=clips,
        every=every,
        threshold=threshold,
        orders=orders,
        rule=rule,
        columns=columns,
        force=force,
        workspace=session.root,
    )


@marks.command("export")
@click.argument("marks", type=NAME, help="A table of marks, or a manifest with labels.")
@output_argument
@into_option("ELAN file or folder to copy to OUTPUT, with the marks as new tiers.")
@force_option
@click.pass_obj
def export(
    session: Session, marks: str, output: str, into: str | None, force: bool
) -> Result:
    """Write marks, or the labels of clips, as ELAN files.

    Each label of a clip becomes a mark with its annotator; an unknown label becomes `?`. --into
    changes nothing else in the files.

    Examples:
        obygaze marks export coded lake.eaf
        obygaze marks export films elan
    """
    from obygaze.films.elan_files import export_marks

    return export_marks(marks, output, into=into, force=force, workspace=session.root)


@marks.command("blank")
@click.argument(
    "manifest", type=NAME, help="Clips that `obygaze manifest sample` has drawn."
)
@output_argument
@click.option(
    "--person",
    "people",
    multiple=True,
    metavar="NAME",
    help="Who gets an empty tier to fill in. Repeatable.",
)
@force_option
@click.pass_obj
def blank(
    session: Session, manifest: str, output: str, people: Sequence[str], force: bool
) -> Result:
    """Write ELAN files for people to fill in.

    A tier has an empty annotation for each sampled clip, with the levels to choose from, and no
    labels. `obygaze marks import` reads the files again.

    Examples:
        obygaze marks blank drawn to-fill --person anna --person ben
    """
    from obygaze.films.elan_files import write_blank_files

    return write_blank_files(
        manifest, output, people=people, force=force, workspace=session.root
    )


@marks.command("scores")
@click.argument("manifest", type=NAME, help="The clips.")
@click.argument(
    "predictions",
    type=NAME,
    help="A table of `models predict -o` or `search -o`, or predictions.csv of a run.",
)
@output_argument
@click.option(
    "--model",
    type=NAME,
    metavar="NAME",
    show_default="all models",
    help="The only model whose scores are written, as the table names it.",
)
@into_option("ELAN file or folder to copy to OUTPUT, with the scores as new tiers.")
@force_option
@click.pass_obj
def scores(
    session: Session,
    manifest: str,
    predictions: str,
    output: str,
    model: str | None,
    into: str | None,
    force: bool,
) -> Result:
    """Write scores of models as tiers of ELAN files.

    Each model becomes a tier of scores, or several tiers if clips overlap; the tiers are sorted by
    model. Baselines are excluded if the run has models. --into changes nothing else in the files.

    Examples:
        obygaze marks scores films scores.csv scored.eaf --into anna.eaf
        obygaze marks scores films predicted.csv scores
        obygaze marks scores films runs/q/predictions.csv scores --model ridge
    """
    from obygaze.films.elan_files import write_scores

    return write_scores(
        manifest,
        predictions,
        output,
        model=model,
        into=into,
        force=force,
        workspace=session.root,
    )
