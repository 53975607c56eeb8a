"""The commands of `obygaze manifest`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import click

from obygaze.commands.shared import (
    NAME,
    Choice,
    FiniteFloat,
    Group,
    Result,
    Session,
    TypedPath,
    force_option,
    mapping_option,
    table_output_option,
    write_listing,
)


@click.group(
    cls=Group,
    headings={
        "Make": "import windows sample",
        "Look": "ls show stats",
        "Complete (changes the manifest)": "link join folds",
        "Derive (writes a new manifest)": "labels group merge",
        "Take out": "export",
    },
)
def manifest() -> None:
    """Import, look at and change tables of clips.

    A manifest has a row for each clip, manifests/NAME.csv: its film, times, labels and video.
    """


@manifest.command("ls")
@click.pass_obj
def ls(session: Session) -> Result:
    """List the manifests of the workspace.

    Examples:
        obygaze manifest ls
        obygaze -C /data/films manifest ls --json
    """
    from obygaze.contents import list_manifests

    return list_manifests(workspace=session.root)


@manifest.command(
    "import",
    headings={
        "For tables": "map id films sheet film rule order word",
    },
)
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="SOURCE...",
    type=NAME,
    help="A table, or a folder of films; or one table per annotator.",
)
@click.option(
    "-o",
    "--output",
    "name",
    show_default="from SOURCE",
    metavar="NAME",
    help="Name of the manifest.",
)
@click.option(
    "--as",
    "format",
    metavar="NAME",
    help="A data set: liris-accede, mobygaze, moviegraphs, obygaze12.",
)
@force_option
@mapping_option(
    "--map", "columns", metavar="TARGET=COLUMN", help="The column to read as TARGET."
)
@click.option(
    "--id",
    "form",
    default="",
    show_default=False,
    metavar="FORM",
    help="Form of clip ids made of columns: '{film}-{n:03d}'.",
)
@click.option("--films", type=Choice(["none"]), help="none: the table has no films.")
@click.option(
    "--sheet",
    multiple=True,
    show_default="the likely one",
    metavar="NAME",
    help="The sheet of a spreadsheet. Repeatable: one for each annotator.",
)
@mapping_option(
    "--film",
    "film_names",
    metavar="NAME=FILM",
    help="Rename a film: 'Night Train=night_train_1954'.",
)
@click.option(
    "--rule",
    default="",
    show_default=False,
    metavar="RULE",
    help="If annotators differ: agreed, majority, highest, mean or by:NAME.",
)
@mapping_option(
    "--order",
    "orders",
    metavar="COLUMN=WORDS",
    help="Words from the lowest: mood=calm,tense.",
)
@mapping_option(
    "--word",
    "words",
    metavar="OLD=NEW",
    may_be_empty=True,
    help="Replace a word; ? stands for not known.",
)
@click.option(
    "--splits",
    metavar="PATH",
    type=NAME,
    help="Folder of the split files of obygaze12.",
)
@click.pass_obj
def import_(
    session: Session,
    sources: Sequence[str],
    name: str | None,
    format: str | None,
    force: bool,
    columns: Mapping[str, str] | None,
    form: str,
    films: Literal["none"] | None,
    sheet: Sequence[str],
    film_names: Mapping[str, str] | None,
    rule: str,
    orders: Mapping[str, str] | None,
    words: Mapping[str, str] | None,
    splits: str | None,
) -> Result:
    """Read a table, a folder of films, or a known data set.

    docs/guide/data.md describes tables: columns, words, times, annotators. `obygaze marks import`
    reads ELAN files and other marks.

    Examples:
        obygaze manifest import book.xlsx --map clip_id=id --map movie_id=film
        obygaze manifest import t.csv --map coder:a=Ada --map coder:b=Bo --rule agreed
        obygaze manifest import ada.csv ben.csv --rule agreed -o coded
        obygaze manifest import book.xlsx --sheet Ada --sheet Ben --rule agreed
        obygaze manifest import /data/films -o films
        obygaze manifest import thresh_02.csv --as obygaze12 --splits splits/
    """
    from obygaze.films.formats import import_manifest

    return import_manifest(
        sources,
        name=name,
        format=format,
        force=force,
        columns=columns,
        form=form,
        films=films,
        sheet=sheet,
        film_names=film_names,
        rule=rule,
        orders=orders,
        words=words,
        splits=splits,
        workspace=session.root,
    )


@manifest.command("windows", headings={"Grid": "window stride seconds every"})
@click.argument("films", type=NAME, help="The films.")
@click.option(
    "-o",
    "--output",
    "name",
    required=True,
    metavar="NAME",
    help="Name of the new manifest.",
)
@click.option(
    "--window",
    metavar="N",
    type=click.IntRange(min=1),
    help="Length of a window, in pictures.",
)
@click.option(
    "--stride",
    show_default="the window",
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of pictures from the start of a window to the start of the next.",
)
@click.option(
    "--seconds",
    metavar="SECONDS",
    type=FiniteFloat(min=0, min_open=True),
    help="Length of a window, in seconds.",
)
@click.option(
    "--every",
    show_default="the window",
    metavar="SECONDS",
    type=FiniteFloat(min=0, min_open=True),
    help="Seconds from the start of a window to the start of the next.",
)
@force_option
@click.pass_obj
def windows(
    session: Session,
    films: str,
    name: str,
    window: int | None,
    stride: int | None,
    seconds: float | None,
    every: float | None,
    force: bool,
) -> Result:
    """Cut whole films into windows of equal length.

    FILMS is a folder of films, or a manifest whose clips are linked to films. Each film is read
    once. Use --window and --stride, or --seconds and --every. Without --stride or --every, each
    window begins where the window before it ends.

    Examples:
        obygaze manifest windows films/ -o films --window 16 --stride 16
        obygaze manifest windows films/ -o every-second --seconds 2 --every 1
        obygaze manifest windows mobygaze -o overlapping --window 16 --stride 8
    """
    from obygaze_features.extraction.cut_films import write_windows

    return write_windows(
        films,
        name,
        window=window,
        stride=stride,
        seconds=seconds,
        every=every,
        force=force,
        workspace=session.root,
    )


@manifest.command("sample")
@click.argument(
    "manifest", type=NAME, help="The clips or windows of films, which are not changed."
)
@click.option(
    "-n",
    "n_clips",
    required=True,
    metavar="CLIPS",
    type=click.IntRange(min=1),
    help="Number of clips to sample.",
)
@click.option(
    "-o",
    "--output",
    "name",
    required=True,
    metavar="NAME",
    help="Name of the manifest of the sampled clips.",
)
@click.option(
    "--seed", default=0, metavar="N", type=click.IntRange(min=0), help="Random seed."
)
@force_option
@click.pass_obj
def sample(
    session: Session, manifest: str, n_clips: int, name: str, seed: int, force: bool
) -> Result:
    """Draw random clips of each film, for people to label.

    The number of clips is divided among the films as equally as possible. The new manifest has only
    the sampled clips, and the probability with which each clip was sampled. `marks blank`
    writes these clips as ELAN files with an empty annotation for each clip and without labels;
    `audit share` reads them with labels.

    Examples:
        obygaze manifest sample films -n 200 -o drawn
    """
    from obygaze.films.sampling import sample_clips

    return sample_clips(
        manifest, n_clips, name, seed=seed, force=force, workspace=session.root
    )


@manifest.command("show")
@click.argument("manifest", type=NAME, help="The manifest.")
@click.option(
    "--film",
    metavar="FILM",
    help="Only the clips of this film: its id, or its title as it is shown.",
)
@click.option(
    "--where", metavar="EXPRESSION", help="Only the clips for which this holds."
)
@click.option(
    "--limit",
    show_default="20; with --json all",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show at most this many clips; 0 shows all. -o writes all.",
)
@click.option(
    "--command",
    is_flag=True,
    help="Show instead the commands that made and changed the manifest.",
)
@table_output_option
@force_option
@click.pass_obj
def show(
    session: Session,
    manifest: str,
    film: str | None,
    where: str | None,
    limit: int | None,
    command: bool,
    output: str | None,
    force: bool,
) -> Result:
    """Show the clips, or those for which an expression holds.

    An EXPRESSION tests columns, as in protocols: level == S and Body in concept.

    Examples:
        obygaze manifest show obygaze12
        obygaze manifest show obygaze12 --film tt0108160 --limit 0
        obygaze manifest show obygaze12 --where 'level in {HN, S} and Body in concept'
        obygaze manifest show obygaze12 --where 'level in {HN, NS}' -o clips.xlsx
        obygaze manifest show obygaze12 --command
    """
    from obygaze_features.manifest.overview import show_manifest

    listing = show_manifest(
        manifest,
        film=film,
        where=where,
        limit=limit,
        command=command,
        workspace=session.root,
    )
    write_listing(session, listing, output, force=force)
    return listing


@manifest.command("stats")
@click.argument("manifest", type=NAME, help="The manifest.")
@click.option(
    "--view",
    show_default="as stored",
    type=Choice(["raw", "visual", "as_published"]),
    help="View to count.",
)
@click.option(
    "--where",
    metavar="EXPRESSION",
    help="Count the clips for which this holds; manifest show has the same option.",
)
@click.option(
    "--figure",
    metavar="PATH",
    type=NAME,
    help="Draw the counts of levels and concepts as PATH.svg and PATH.png, or only as "
    "PATH if it ends in .svg, .png or .pdf.",
)
@force_option
@click.pass_obj
def stats(
    session: Session,
    manifest: str,
    view: Literal["raw", "visual", "as_published"] | None,
    where: str | None,
    figure: str | None,
    force: bool,
) -> Result:
    """Count clips, films, levels, concepts and folds.

    Examples:
        obygaze manifest stats obygaze12 --view visual
        obygaze manifest stats obygaze12 --view as_published --json
        obygaze manifest stats obygaze12 --where 'level in {HN, S}'
        obygaze manifest stats obygaze12 --view visual --figure figures/concepts
    """
    from obygaze_features.manifest.stats import compute_stats, draw_stats

    stats = compute_stats(manifest, view=view, where=where, workspace=session.root)
    session.note_files(draw_stats(stats, figure=figure, force=force))
    return stats


@manifest.command("link")
@click.argument(
    "manifest", type=NAME, help="The manifest, which is rewritten with the videos."
)
@click.argument(
    "folder",
    type=TypedPath(exists=True, file_okay=False, path_type=Path),
    help="The folder of the videos, which may be in subfolders.",
)
@mapping_option(
    "--film",
    "film_names",
    metavar="FILM=FILE",
    help="The name of a film's file, if it differs from the film: 'Night Train=night_train_1954'.",
)
@click.pass_obj
def link(
    session: Session,
    manifest: str,
    folder: Path,
    film_names: Mapping[str, str] | None,
) -> Result:
    """Find the video of each clip in a folder.

    A file with the name of a clip, and any extension, is the video of this clip. Otherwise the clip
    is a part, by its times, of the file with the name of its film. In names, blanks and other
    characters that ids cannot contain are read as `_`. Case, blanks, `_`, `.` and a year in
    brackets matter only if several films could be meant: `LES YEUX (1959).mov` is the film
    Les_Yeux, which is said. If clips have times, the headers of videos are read, and clips that end
    after their video, and videos that cannot be read, are listed. Clips without a video, and files
    without a clip, are counted; -v lists them all.

    A clip whose table counts frames gets the times of these frames in the file of its film. It is
    an error if the film has a different frame rate, or lacks these frames.

    Examples:
        obygaze manifest link obygaze12 /data/moviegraphs/clips
        obygaze manifest link obygaze12 /data/films --json
        obygaze manifest link films /data/films --film 'Night Train=night_train_1954'
    """
    from obygaze_features.extraction.linking import link_manifest

    return link_manifest(
        manifest, folder, film_names=film_names, workspace=session.root
    )


@manifest.command("join")
@click.argument(
    "manifest",
    type=NAME,
    help="The manifest, which is replaced; a clip without a row gets empty cells.",
)
@click.argument("csv", type=NAME, help="The table: a CSV file or an .xlsx file.")
@mapping_option(
    "--map",
    "columns",
    metavar="TARGET=COLUMN",
    help="Rename a column; times=m:ss or times=h:mm is the format of 1:10, times=ms that of 70000.",
)
@click.option(
    "--sheet",
    default="",
    show_default="the likely one",
    metavar="NAME",
    help="The sheet of a spreadsheet.",
)
@mapping_option(
    "--film",
    "film_names",
    metavar="NAME=FILM",
    help="The film of the manifest that has the name NAME in the table.",
)
@mapping_option(
    "--word",
    "words",
    metavar="OLD=NEW",
    help="NA=? if NA means not known, NA=NA if NA is an answer; with --update also ja=S.",
)
@click.option(
    "--update", is_flag=True, help="Change the cells of the clips of the table only."
)
@click.option("--force", is_flag=True, help="Replace columns of the manifest.")
@click.pass_obj
def join(
    session: Session,
    manifest: str,
    csv: str,
    columns: Mapping[str, str] | None,
    sheet: str,
    film_names: Mapping[str, str] | None,
    words: Mapping[str, str] | None,
    update: bool,
    force: bool,
) -> Result:
    """Add the columns of a table.

    The table needs a column clip_id, or --map clip_id=COLUMN. Several values of a clip, in one cell
    or in several rows, are joined with '|', and 'joy in emotions' tests each of them. If the
    table has films or times, they must equal those of the clip.

    A table of films needs movie_id in place of clip_id, or --map movie_id=COLUMN: all clips of a
    film get the values of its rows. A film that is spelled another way in the table (case, blanks,
    `_`, `.`, a year in brackets) is found if no other film could be meant, which is said; --film
    states other names.

    --update changes the cells of the clips that have a row, in the columns that the manifest has,
    and in level and concepts; all other cells stay. In `differs`, it removes what has a value now.
    No join empties a cell unless the table has ? there.

    Examples:
        obygaze manifest join obygaze12 emotions.csv
        obygaze manifest join films moods.csv --map clip_id=scene --map mood=attribute
        obygaze manifest join obygaze12 book.xlsx --sheet Decades --map movie_id=film
        obygaze manifest join films decades.csv --film 'Night Train=night_train_1954'
        obygaze manifest join coded decided.csv --update
    """
    from obygaze_features.manifest.adapters.join_table import join_columns

    return join_columns(
        manifest,
        csv,
        columns=columns,
        sheet=sheet,
        film_names=film_names,
        words=words,
        update=update,
        force=force,
        workspace=session.root,
    )


@manifest.command("folds")
@click.argument(
    "manifest", type=NAME, help="The manifest, which is replaced by one with the split."
)
@click.option(
    "-k", "--folds", "k", default=5, metavar="N", type=int, help="Number of folds."
)
@click.option(
    "--force", is_flag=True, help="Replace the folds that this command has made before."
)
@click.pass_obj
def folds(session: Session, manifest: str, k: int, force: bool) -> Result:
    """Fix in which fold each film is tested.

    A clip has the same fold in every task, so that no task trains on another's test clips. `obygaze
    manifest join` adds folds of your own: a column fold:NAME of a table of clips.

    Examples:
        obygaze manifest folds obygaze12 -k 6
    """
    from obygaze_features.manifest.folds import assign_folds

    return assign_folds(manifest, k=k, force=force, workspace=session.root)


@manifest.command("labels")
@click.argument(
    "manifest",
    type=NAME,
    help="A manifest with several annotators, which is not changed.",
)
@click.option(
    "-o",
    "--output",
    "name",
    required=True,
    metavar="NAME",
    help="Name of the new manifest.",
)
@click.option(
    "--rule",
    required=True,
    metavar="RULE",
    help="agreed, majority, highest, mean or by:NAME.",
)
@mapping_option(
    "--order",
    "orders",
    metavar="COLUMN=WORDS",
    help="The words of a column from the lowest, for the rule highest: mood=calm,tense.",
)
@force_option
@click.pass_obj
def labels(
    session: Session,
    manifest: str,
    name: str,
    rule: str,
    orders: Mapping[str, str] | None,
    force: bool,
) -> Result:
    """Make one label a clip from several annotators, by a rule.

    The rules are agreed, the value that all annotators give; majority, the most frequent value;
    highest, for levels and columns with an order; mean, for numbers; by:NAME, the values of one
    annotator.

    Examples:
        obygaze manifest labels films --rule majority -o films-majority
        obygaze manifest labels films --rule highest --order mood=calm,tense -o high
        obygaze manifest labels films --rule by:ada -o films-ada
    """
    from obygaze_features.manifest.merging import make_labels

    return make_labels(
        manifest, name, rule=rule, orders=orders, force=force, workspace=session.root
    )


@manifest.command("group")
@click.argument(
    "manifest", required=False, type=NAME, help="The manifest, which is not changed."
)
@click.option(
    "-o", "--output", "name", metavar="NAME", help="Name of the new manifest."
)
@click.option(
    "--groups",
    type=NAME,
    help="A TOML file with the concepts of each group, in a table [groups].",
)
@force_option
@click.pass_obj
def group(
    session: Session,
    manifest: str | None,
    name: str | None,
    groups: str | None,
    force: bool,
) -> Result:
    """Put groups of concepts in place of the concepts.

    Without a manifest: sub-constructs, concepts and their instances, as in Table 1 of the paper of
    ObyGaze12. The paper assigns no instance to a sub-construct; the last column is a reading of
    this program.

    With -o: a manifest in which a clip has a group if it has one of its concepts. Groups may share
    concepts; a concept that is in no group stays. Models, audits and reports then take groups as
    they take concepts. Without --groups, these are the five sub-constructs.

    Examples:
        obygaze manifest group
        obygaze manifest group obygaze12 -o by-subconstruct
        obygaze manifest group obygaze12 -o by-theory --groups groups.toml
    """
    from obygaze_features.manifest.grouping import group

    return group(
        manifest=manifest, name=name, groups=groups, force=force, workspace=session.root
    )


@manifest.command("merge")
@click.argument(
    "manifests",
    nargs=-1,
    required=True,
    type=NAME,
    help="Two manifests or more, which are not changed.",
)
@click.option(
    "-o",
    "--output",
    "name",
    required=True,
    metavar="NAME",
    help="Name of the new manifest.",
)
@force_option
@click.pass_obj
def merge(session: Session, manifests: Sequence[str], name: str, force: bool) -> Result:
    """Put the clips of several manifests in one.

    No clip may be in two of them: tables of several people about the same clips are imported
    together, by `manifest import ada.csv ben.csv`. Folds and links to videos are left out.

    Examples:
        obygaze manifest merge paris nice -o both
        obygaze manifest merge theirs/manifests/clips.toml films -o all-clips
    """
    from obygaze_features.manifest.merging import merge_manifests

    return merge_manifests(manifests, name, force=force, workspace=session.root)


@manifest.command("export")
@click.argument("manifest", type=NAME, help="The clips.")
@click.argument("output", type=NAME, help="A new table: .csv or .xlsx.")
@force_option
@click.pass_obj
def export(session: Session, manifest: str, output: str, force: bool) -> Result:
    """Write a table: .csv or .xlsx.

    `obygaze manifest import` reads the table again. The annotations are a table next to the table
    of clips, such as films.annotators.csv. `obygaze marks` writes ELAN files.

    Examples:
        obygaze manifest export films films.csv
    """
    from obygaze.films.formats import export_manifest

    return export_manifest(manifest, output, force=force, workspace=session.root)
