"""The commands of `obygaze audit`, and `obygaze agree`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import click

from obygaze.commands.shared import (
    FILE,
    NAME,
    Choice,
    Command,
    F,
    Group,
    Result,
    Session,
    TypedPath,
    force_option,
    mapping_option,
)


@click.group(
    cls=Group,
    headings={
        "Labels": "annotations levels share",
        "Features and maps": "eat maps",
        "Captions": "captions cooc caption-scores gender-score",
        "MediaEval": "mediaeval",
    },
)
def audit() -> None:
    """Test labels, captions and features for bias."""


def audit_files(function: F) -> F:
    """Add the options that write an audit to files."""
    options = (
        click.option(
            "--table",
            type=NAME,
            metavar="PATH",
            help="The file for the table: .csv at full precision, or .tex for LaTeX.",
        ),
        click.option(
            "--figure",
            type=NAME,
            metavar="PATH",
            help="Draw PATH.svg and PATH.png, or only PATH if it ends in .svg, .png or .pdf.",
        ),
        click.option(
            "--report",
            type=NAME,
            metavar="PATH",
            help="The HTML file for a page with the answers, the figure and the table.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def audit_outputs(function: F) -> F:
    """Add the options that write an audit to files, and --force."""
    replace = click.option(
        "--force", is_flag=True, help="Replace files that have other contents."
    )
    return audit_files(replace(function))


@audit.command("annotations")
@click.argument("manifest", type=NAME, help="The manifest, or its name or path.")
@click.argument(
    "x",
    type=NAME,
    help='The first group: an expression such as "level == S", a CSV file of clip_id, or'
    " ids.",
)
@click.argument("y", type=NAME, help="The second group, likewise.")
@click.option(
    "--column",
    default="concepts",
    metavar="COLUMN",
    help="The column, with values joined by |.",
)
@audit_outputs
@click.pass_obj
def annotations(
    session: Session,
    manifest: str,
    x: str,
    y: str,
    column: str,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Test which values of a column go with a level.

    For each value, the share of the clips that have it is compared between two groups, X and Y. All
    p-values are exact. If a film has clips of both groups, the reported p-value exchanges clips
    only within films. If clips of a film overlap, or lie less than their own length apart, the
    groups are moved along the clips of each film instead. Holm's correction covers all values.
    Levels and concepts are in the default view of protocols; the title names this view.

    Examples:
        obygaze audit annotations obygaze12 'level == S' 'level == HN'
        obygaze audit annotations films 'level == S' 'level == EN' --column emotions
        obygaze audit annotations moviegraphs men.csv women.csv --column relationships
    """
    from obygaze.audits.annotations import audit_annotations

    audit = audit_annotations(manifest, x, y, column=column, workspace=session.root)
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("levels")
@click.argument("manifest", type=NAME, help="The manifest, or its name or path.")
@click.option(
    "--view",
    type=Choice(["raw", "visual", "as_published"]),
    help="The view of the manifest, by default that of protocols.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    help="Group clips by this column instead of by annotators.",
)
@audit_outputs
@click.pass_obj
def levels(
    session: Session,
    manifest: str,
    view: Literal["raw", "visual", "as_published"] | None,
    by: str | None,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Test whether clips of a higher level have more concepts.

    The mean number of concepts of HN, NS and S clips has an interval over films. A step from one
    level to the next is tested within films. The p of the claim that the number rises with each
    step for each annotator is the largest p of these steps. The annotations come from the table
    next to the manifest. Without this table, the column annotator names the annotator of a clip;
    without this column, all clips are one group.

    Examples:
        obygaze audit levels obygaze12
        obygaze audit levels mobygaze --view visual
    """
    from obygaze.audits.levels import audit_levels

    audit = audit_levels(manifest, view=view, by=by, workspace=session.root)
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("share")
@click.argument(
    "source", type=NAME, help="A manifest with labels, or a table of marks."
)
@click.option(
    "--of",
    default="level == S",
    metavar="EXPRESSION",
    help='The expression to count, such as "level == S", "Look in concept" or "mood == '
    'sad".',
)
@click.option(
    "--predictions",
    metavar="PATH",
    type=NAME,
    help="For a sample: CSV of clips with scores, as models predict writes it.",
)
@click.option(
    "--by", metavar="COLUMN", help="A column of films whose values are the groups."
)
@audit_outputs
@click.pass_obj
def share(
    session: Session,
    source: str,
    of: str,
    predictions: str | None,
    by: str | None,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Count or estimate how much of films shows something.

    SOURCE is a manifest whose clips cover its films, or a table of marks. All that was coded
    counts: the share of the time and of the clips, of each film, of each coder, and of all. A part
    of a film without a label counts nowhere. Marks have a share of the time only; where an
    annotator has marks in the column `watched`, only what was watched or marked
    counts.

    If the manifest has only clips that `manifest sample` has sampled, the share of all clips of the
    films is estimated. A clip without a label, or with `?`, was not judged and does not count. The
    interval is over films: it holds for the films of which these films are a random sample.
    Predictions for all clips of the films can make it narrower. The share is then the mean
    prediction of all clips plus the mean error on the judged clips; predictions never count as
    labels.

    Groups of films are compared by exchanging whole films, with Holm's correction. A word that no
    label has is an error.

    Examples:
        obygaze audit share coded --of 'violence == strong' --table share.tex
        obygaze audit share judged --predictions scores.csv --report share.html
        obygaze audit share judged --of 'Look in concept' --by decade
    """
    from obygaze.audits.share import audit_share

    audit = audit_share(
        source, of=of, predictions=predictions, by=by, workspace=session.root
    )
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("eat")
@click.argument("store", required=False, type=NAME, help="The vectors of the clips.")
@click.argument(
    "manifest",
    required=False,
    type=NAME,
    help="The clips that the expressions x and y select from.",
)
@click.option(
    "--vectors",
    type=NAME,
    help="Arrays X, Y, A, B (and x_block, y_block), or their npz file, instead of a "
    "store.",
)
@click.option(
    "--x",
    metavar="CLIPS",
    type=NAME,
    help='The first group: an expression such as "level == S", a CSV file of clip_id, or'
    " ids.",
)
@click.option(
    "--y", metavar="CLIPS", type=NAME, help="The second group, in the same form."
)
@click.option(
    "--attributes",
    multiple=True,
    nargs=2,
    metavar="A B",
    help="Two attributes of the texts to compare, A and B; by default the only two. "
    "Repeatable.",
)
@click.option(
    "--text", type=NAME, help="The npz file of text vectors that extract text wrote."
)
@click.option(
    "--tail",
    default="two_sided",
    type=Choice(["two_sided", "greater", "less"]),
    help="The p-value to report and correct.",
)
@click.option(
    "--permutations",
    default=1000000,
    metavar="N",
    type=click.IntRange(min=1),
    help="Number of random permutations, if there are too many to enumerate.",
)
@audit_outputs
@click.pass_obj
def eat(
    session: Session,
    store: str | None,
    manifest: str | None,
    vectors: str | None,
    x: str | None,
    y: str | None,
    attributes: Sequence[tuple[str, str]],
    text: str | None,
    tail: Literal["two_sided", "greater", "less"],
    permutations: int,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Test which of two groups of clips is closer to some words.

    The p-value is exact if all permutations can be tried. If a film has clips of both groups, the
    reported p-value exchanges clips only within films. The p-value across films is shown next to
    it, with a sentence that explains the difference. If clips of a film overlap, or lie less than
    their own length apart in the manifest, the groups are moved along the clips of each film
    instead.

    Examples:
        obygaze audit eat films.clip-b16 films --x 'level == S' --y 'level == EN' \\
            --text texts.npz --attributes happiness sadness
        obygaze audit eat films.clip-b16 --x men.csv --y women.csv --text texts.npz
        obygaze audit eat --vectors vectors.npz --json
    """
    from obygaze.audits.eat import audit_eat

    audit = audit_eat(
        store=store,
        manifest=manifest,
        vectors=vectors,
        x=x,
        y=y,
        attributes=attributes,
        text=text,
        tail=tail,
        permutations=permutations,
        workspace=session.root,
    )
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("maps")
@click.argument("maps", type=NAME, help="A store of maps.")
@click.argument("conditions", type=NAME, help="The conditions of the clips.")
@click.option(
    "--boxes",
    type=NAME,
    help="A CSV file with clip_id, x0, y0, x1, y1 (shares of the picture that the model "
    "sees) and perhaps frame, a number from 0. A box without a frame is on all "
    "frames.",
)
@audit_outputs
@click.pass_obj
def maps(
    session: Session,
    maps: str,
    conditions: str,
    boxes: str | None,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Compare the maps of two conditions.

    CONDITIONS is a CSV file with clip_id, condition (two names; the first is X) and pair; the two
    clips of a pair have different conditions. With boxes, the shares of the maps in the boxes are
    compared between conditions, by exchanging the clips of each pair.

    Examples:
        obygaze audit maps emotion-maps conditions.csv --figure figures/means
        obygaze audit maps emotion-maps conditions.csv --boxes heads.csv
    """
    from obygaze.audits.maps.conditions import compare_conditions

    audit = compare_conditions(maps, conditions, boxes=boxes, workspace=session.root)
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("captions")
@click.argument(
    "source",
    type=NAME,
    help="A table, or a folder of .txt files with one caption per line and with file "
    "names as in Wolfe et al. (2023).",
)
@click.option(
    "--text", default="caption", metavar="COLUMN", help="The column of the captions."
)
@click.option(
    "--group",
    default="group",
    metavar="COLUMNS",
    help="The columns whose values are the groups.",
)
@click.option(
    "--cluster",
    metavar="COLUMNS",
    help="The columns of the film or image; by default each caption is its own cluster.",
)
@click.option(
    "--tokens",
    default="words",
    type=Choice(["words", "authors"]),
    help="How captions are cut into words: words ignores all punctuation, as in sad! and"
    " (sad); authors cuts at blanks and ignores only . and , as Wolfe et al. (2023)"
    " do.",
)
@click.option(
    "--min-occurrences",
    default=0,
    metavar="N",
    type=click.IntRange(min=0),
    help="Smallest number of occurrences of a word in all captions together; Wolfe et "
    "al. (2023) use 100.",
)
@mapping_option(
    "--word",
    "meanings",
    metavar="OLD=NEW",
    help="Write NA=? if NA means not known, NA=NA if it is an answer.",
)
@audit_outputs
@click.pass_obj
def captions(
    session: Session,
    source: str,
    text: str,
    group: str,
    cluster: str | None,
    tokens: Literal["words", "authors"],
    min_occurrences: int,
    meanings: Mapping[str, str] | None,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Count how often captions use the words of a list, by group.

    Two groups are also tested against each other, by exchanging whole clusters. With several
    columns, such as race, gender and class, groups are crossed: each column is tested by
    exchanging clusters with the same values in the other columns.

    Examples:
        obygaze audit captions captions.csv --group condition --cluster image
        obygaze audit captions captions/ --group group,face --cluster image,face
        obygaze audit captions captions/ --cluster image,face --tokens authors \\
            --min-occurrences 100
        obygaze audit captions captions.csv --group race,gender,class --cluster image
    """
    from obygaze.audits.captions import audit_captions

    audit = audit_captions(
        source,
        text=text,
        group=group,
        cluster=cluster,
        tokens=tokens,
        min_occurrences=min_occurrences,
        meanings=meanings,
    )
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("cooc")
@click.argument(
    "source",
    type=NAME,
    help="A table with a column caption, or a folder of .txt files.",
)
@click.argument(
    "things",
    help='The column whose values, joined by |, are the things, such as "objects".',
)
@click.option(
    "--cluster",
    metavar="COLUMNS",
    help="The columns of the film or image; by default each text is its own cluster.",
)
@mapping_option(
    "--word",
    "words",
    metavar="OLD=NEW",
    help="Write NA=? if NA means not known, NA=NA if it is an answer.",
)
@audit_outputs
@click.pass_obj
def cooc(
    session: Session,
    source: str,
    things: str,
    cluster: str | None,
    words: Mapping[str, str] | None,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Count things that are named with words of each gender.

    A text with words of both genders counts for both. Each share is shown exactly, and cut after
    two decimals as in published tables.

    Examples:
        obygaze audit cooc captions.csv objects --cluster image
    """
    from obygaze.audits.cooccurrence import audit_cooc

    audit = audit_cooc(source, things, cluster=cluster, words=words)
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("caption-scores")
@click.argument(
    "table",
    type=NAME,
    help="Table with the columns caption and visual (the visual word).",
)
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    type=FILE,
    help="New CSV file with the columns of TABLE and the scores.",
)
@click.option(
    "--lm",
    required=True,
    metavar="MODEL",
    help="Causal language model: a folder, or a name on the hub.",
)
@click.option(
    "--sim",
    required=True,
    metavar="MODEL",
    help="Sentence encoder: a folder, or a name on the hub.",
)
@force_option
def caption_scores(table: str, out: str, lm: str, sim: str, force: bool) -> Result:
    """Score captions by language models, for gender-score.

    The scores are the prior of each caption and its similarity to the visual word, a word for the
    content of the picture. `obygaze audit gender-score` needs both. A caption with [MASK] has
    scores with "man" and with "woman" in its place. The columns lm_model and sim_model have the
    name of each model, and the start of a hash of its weights and settings.

    Examples:
        obygaze audit caption-scores captions.csv -o filled.csv --lm gpt2 \\
            --sim sentence-transformers/all-mpnet-base-v2
        obygaze audit caption-scores captions.csv --lm gpt2 --sim my/sbert -o t.csv
    """
    from obygaze_features.extraction.text import score_captions

    return score_captions(table, out, lm, sim, force=force)


@audit.command("gender-score")
@click.argument(
    "captions",
    type=NAME,
    help="A CSV table with the columns caption, lm_man, sim_man, lm_woman, sim_woman, "
    "prob, as caption-scores writes it.",
)
@audit_outputs
@click.pass_obj
def gender_score(
    session: Session,
    captions: str,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Score how far each caption leans to a gender.

    Examples:
        obygaze audit gender-score captions.csv
    """
    from obygaze.audits.gender import audit_gender_score

    audit = audit_gender_score(captions)
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@audit.command("mediaeval")
@click.argument(
    "runs",
    nargs=-1,
    type=TypedPath(exists=True, dir_okay=False, path_type=Path),
    help="The files: TREC lines for violence, or lines of name, valence class, arousal "
    "class.",
)
@click.option(
    "--qrels",
    type=TypedPath(exists=True, dir_okay=False, path_type=Path),
    help="TREC judgements of violence.",
)
@click.option(
    "--manifest", type=NAME, help="A manifest of LIRIS-ACCEDE, or its TOML file."
)
@click.option(
    "--write",
    metavar="RUN",
    type=NAME,
    help="Write a run: of violence from --predictions, of affect from --affect.",
)
@click.option(
    "--affect",
    metavar="TABLE",
    type=NAME,
    help="A table of scores of valence and arousal (clip_id, valence, arousal; from -1 "
    "to 1), which become classes: below -0.15 negative, above 0.15 positive, else "
    "neutral.",
)
@click.option(
    "--predictions",
    metavar="PATH",
    type=NAME,
    help="The scores of a model of two classes, as models predict -o writes them.",
)
@click.option("--force", is_flag=True, help="Replace a run that exists.")
@audit_files
@click.pass_obj
def mediaeval(
    session: Session,
    runs: Sequence[Path],
    qrels: Path | None,
    manifest: str | None,
    write: str | None,
    affect: str | None,
    predictions: str | None,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Score predictions for MediaEval 2015.

    A run is a file of predictions. Runs for violence rank clips, and are scored by average
    precision; runs for affect give each clip a class of valence (pleasant or not) and of arousal
    (calm or excited), and are scored by accuracy.

    Runs are scored against either --qrels or --manifest. If the official split is known, only its
    test clips are scored. Runs name clips as the official files do: ACCEDE00001.mp4. At most five
    runs per subtask are allowed, one of them without external data.

    --write makes a run from a table of scores; this run is scored, too, if there are judgements.

    Examples:
        obygaze audit mediaeval run1.txt --qrels violence.qrels --json
        obygaze audit mediaeval affect.txt --manifest liris-accede
        obygaze audit mediaeval --write violence.txt --predictions scores.csv
        obygaze audit mediaeval --write a.txt --affect a.csv --manifest liris-accede
    """
    from obygaze.audits.mediaeval import audit_mediaeval

    audit = audit_mediaeval(
        runs=runs,
        qrels=qrels,
        manifest=manifest,
        write=write,
        affect=affect,
        predictions=predictions,
        force=force,
        workspace=session.root,
    )
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit


@click.command(
    "agree",
    cls=Command,
    headings={"For a table of ratings": "raters cluster word"},
)
@click.argument("source", help="The manifest, or the table of ratings.")
@click.option(
    "--column",
    default="level",
    metavar="COLUMN",
    help="The column to compare: level, concepts or another; or COLUMN=WORD, one word "
    "against all others.",
)
@mapping_option(
    "--order",
    "orders",
    metavar="COLUMN=WORDS",
    help="The words of a column from the lowest: mood=low,high.",
)
@click.option(
    "--distance",
    type=Choice(["interval", "ordinal", "nominal"]),
    show_default="interval; nominal for words without an order",
    help="The distance of alpha: squared differences, answers between, or equal or not.",
)
@click.option(
    "--raters", metavar="COLUMNS", help="The columns of the raters, or of the prompts."
)
@click.option(
    "--cluster",
    metavar="COLUMNS",
    help="The columns of the film or image, by default the row.",
)
@mapping_option(
    "--word",
    "words",
    metavar="OLD=NEW",
    help="Write NA=? if NA means not known, NA=NA if it is an answer.",
)
@audit_outputs
@click.pass_obj
def agree(
    session: Session,
    source: str,
    column: str,
    orders: Mapping[str, str] | None,
    distance: Literal["interval", "ordinal", "nominal"] | None,
    raters: str | None,
    cluster: str | None,
    words: Mapping[str, str] | None,
    force: bool,
    table: str | None,
    figure: str | None,
    report: str | None,
) -> Result:
    """Measure how far annotators agree.

    SOURCE is a manifest with annotators, such as `obygaze marks clips` makes of marks; or,
    with --raters, a table with a row for each item.

    The table has the share of equal answers, Cohen's kappa of two annotators, Krippendorff's alpha
    with its interval over films, gamma of two annotators (1 - observed / expected distance, by
    three definitions of chance), and Cronbach's alpha of ratings. `?` counts as a missing answer.

    Examples:
        obygaze agree films --column mood=sad
        obygaze agree coded --column mood --order mood=low,high
        obygaze agree mobygaze-30 --distance ordinal --table agreement.tex
        obygaze agree ratings.csv --raters ada,ben,cleo --cluster film
    """
    from obygaze.audits.agreement import agree

    audit = agree(
        source,
        column=column,
        orders=orders,
        distance=distance,
        raters=raters,
        cluster=cluster,
        words=words,
        workspace=session.root,
    )
    session.note_files(
        audit.write(table=table, figure=figure, report=report, force=force)
    )
    return audit
