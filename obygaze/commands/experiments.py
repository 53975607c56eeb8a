"""The commands that train, test, report and compare."""

from collections.abc import Sequence
from typing import Literal

import click

from obygaze.commands.shared import (
    NAME,
    Choice,
    Command,
    Result,
    Session,
    force_option,
    write_listing,
)


@click.command("train", cls=Command)
@click.argument("model", help="The model type: see `obygaze models kinds`.")
@click.option(
    "--store",
    multiple=True,
    required=True,
    metavar="[NAME=]STORE",
    help="Features of the clips; NAME stands for them in tables. Repeatable.",
)
@click.option(
    "--manifest",
    type=NAME,
    metavar="MANIFEST",
    show_default="the only one of the workspace",
    help="Clips and labels.",
)
@click.option(
    "--task",
    default="EN_S",
    metavar="TASK",
    help="What to predict, as in `run`, or PROTOCOL.toml:NAME.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a setting: KEY of the protocol honest-negatives, or model.KEY of the model. "
    "Repeatable.",
)
@click.option(
    "-o",
    "--output",
    show_default="made from the inputs",
    metavar="NAME",
    type=NAME,
    help="The name of the run and of the model in the workspace.",
)
@click.option(
    "--jobs",
    "n_jobs",
    default=0,
    show_default="one per core",
    metavar="N",
    type=click.IntRange(min=0),
    help="Number of training processes.",
)
@force_option
@click.pass_obj
def train(
    session: Session,
    model: str,
    store: Sequence[str],
    manifest: str | None,
    task: str,
    changes: Sequence[str],
    output: str | None,
    n_jobs: int,
    force: bool,
) -> Result:
    """Train, test and save one model.

    The metrics come from other fits with the same settings, tested on unseen films. The saved
    model is then trained on all clips. `obygaze models kinds` lists the settings of model types,
    `obygaze protocols show honest-negatives --all` the keys of the protocol. MODEL may also be a
    class of scikit-learn that keeps only arrays and numbers, such as
    sklearn.naive_bayes.GaussianNB. Others can be tested with `run`, but not saved.

    Examples:
        obygaze train ridge --store films.xclip --manifest films --task 'rating>=2'
        obygaze train pcbm-lr --store films.xclip --task HN_S -o my-bottleneck
        obygaze train mlp --store films.xclip --set model.hidden=[64] --set fit.seed=1
        obygaze train logistic --store films.xclip --set 'model.C.grid=[0.1, 1.0]'
    """
    from obygaze_models.runner.experiments import train

    return train(
        model,
        store,
        manifest=manifest,
        task=task,
        changes=changes,
        output=output,
        n_jobs=n_jobs,
        force=force,
        progress=session.bars,
        workspace=session.root,
    )


@click.command(
    "run",
    cls=Command,
    headings={
        "Inputs": "store manifest task",
        "Settings": "set trust jobs",
        "Output": "output force",
    },
)
@click.argument(
    "protocol",
    default="honest",
    type=NAME,
    help="See `obygaze protocols ls`.",
)
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="[NAME=]STORE",
    help="Features of the clips. Repeatable: each store is tested, under its NAME.",
)
@click.option(
    "--manifest",
    type=NAME,
    metavar="MANIFEST",
    show_default="the only one of the workspace",
    help="Clips and labels.",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="TASK",
    show_default="the tasks of the protocol",
    help="What to predict. Repeatable.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the protocol. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    show_default="made from the inputs",
    metavar="NAME",
    type=NAME,
    help="Name of the run.",
)
@click.option(
    "--jobs",
    "n_jobs",
    default=0,
    show_default="one per core",
    metavar="N",
    type=click.IntRange(min=0),
    help="Processes that train.",
)
@click.option(
    "--trust",
    multiple=True,
    metavar="FILE.py:NAME",
    help="Let this code, which a protocol file names, run. Repeatable.",
)
@force_option
@click.pass_obj
def run(
    session: Session,
    protocol: str,
    stores: Sequence[str],
    manifest: str | None,
    tasks: Sequence[str],
    changes: Sequence[str],
    output: str | None,
    n_jobs: int,
    trust: Sequence[str],
    force: bool,
) -> Result:
    """Train and test the models of a protocol.

    PROTOCOL is honest, another one of `obygaze protocols ls`, or your own TOML file. `obygaze
    protocols show honest --all` prints the keys that --set changes.

    \b
    A TASK is
      EN_S                                  a task of the protocol,
      violent                               a column of yes and no,
      mood=sad                              a value of a column,
      'rating>=2'                           a limit, or
      'harsh=violent == yes and rating>=2'  an expression with a name.

    All other labelled clips are the negatives; to leave some out: --set 'data.where=mood !=
    unknown'.

    Examples:
        obygaze run --store films.xclip --manifest films
        obygaze run --store a=films.clip --store b=films.xclip --task 'rating>=2'
        obygaze run paper-table2 --store films.xclip --set splits.scheme=none
        obygaze run mine.toml --store films.xclip --trust mine.py:Probe
    """
    from obygaze_models.runner.experiments import run

    return run(
        protocol=protocol,
        stores=stores or None,
        manifest=manifest,
        tasks=tasks,
        changes=changes,
        output=output,
        n_jobs=n_jobs,
        trust=trust,
        force=force,
        progress=session.bars,
        workspace=session.root,
    )


@click.command("report", cls=Command)
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    type=NAME,
    help="Names of runs of the workspace, or their folders.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    show_default="html, csv, latex and svg",
    type=Choice(["html", "csv", "latex", "svg", "png", "pdf"]),
    help="Write only this format. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    show_default="report.html for one run, reports.html for several",
    metavar="PATH",
    type=NAME,
    help="File of the page, with .html.",
)
@click.option(
    "--pictures",
    is_flag=True,
    help="Show a picture of each clip below the errors to look at. The page then "
    "contains pictures of films.",
)
@click.pass_obj
def report(
    session: Session,
    runs: Sequence[str],
    formats: Sequence[Literal["html", "csv", "latex", "svg", "png", "pdf"]],
    output: str | None,
    pictures: bool,
) -> Result:
    """Write the page, tables and figures of runs.

    The page contains all its figures and loads nothing from the network. Tables are written as CSV
    and LaTeX, figures as SVG, PNG or PDF, into the folder of each run.

    Examples:
        obygaze report honest-desc
        obygaze report runs/paper-table2 runs/paper-table4 -o paper.html
        obygaze report honest-desc --format latex --format pdf
        obygaze report honest-desc --pictures
    """
    from obygaze.films.reporting import report

    return report(
        *runs,
        formats=formats or None,
        output=output,
        pictures=pictures,
        workspace=session.root,
    )


@click.command("compare", cls=Command)
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    type=NAME,
    help="Names of runs of the workspace, or their folders. The first run is the "
    "reference.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    show_default="models of the same name",
    metavar="NAME",
    help="The model to compare. Repeat the option to name a model for each run. "
    "Repeatable.",
)
@click.option(
    "--metric",
    show_default="the primary metric of the first run",
    metavar="METRIC",
    help="The metric, such as ap or auc.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    type=NAME,
    help="Write the table to this file: .csv, .xlsx or .tex.",
)
@force_option
@click.pass_obj
def compare(
    session: Session,
    runs: Sequence[str],
    models: Sequence[str],
    metric: str | None,
    output: str | None,
    force: bool,
) -> Result:
    """Compare runs on the clips they share.

    The table has the value of each model in each run and its difference from the first run, on the
    clips that all runs with this model tested. Runs of other folds have no difference: their values
    are of another kind, and the table says so. A difference of AP or AUC has an interval over films
    and a p that is corrected for all differences of the table. Runs must hold out the same units:
    films, or groups of one column. Models are matched by store only if a run has several stores,
    and by name only if a run has several models. -o writes CSV, .xlsx or LaTeX (.tex).

    Examples:
        obygaze compare honest-xclip honest-vivit
        obygaze compare honest-xclip honest-vivit --model ridge --metric auc
        obygaze compare honest-xclip honest-vivit -o compared.tex
    """
    from obygaze_models.report.comparison import check_compared, compare

    check_compared(output)
    compared = compare(*runs, models=models, metric=metric, workspace=session.root)
    write_listing(session, compared, output, force=force)
    return compared
