"""How often the p-values and intervals of a run reject a true null hypothesis.

    python -m benchmarks.type_one_error
    python -m benchmarks.type_one_error table2 --metric auc --world published --worlds 400
    python -m benchmarks.type_one_error concepts --manifest manifests/obygaze12.toml

In each simulated world (`benchmarks/worlds.py`) the films, with the levels of their clips, and two
stores of features are drawn from one distribution. They are like those of ObyGaze12, or differ from
them in one respect; where `--signal` is above 0, sure clips stand out. (The films of a `--manifest`
are the same in all worlds. Intervals over films allow for other shares of positives, and are then
too wide.) The same model is run on both stores by `run_protocol`, so a comparison of the two tests
a null that is true. For `concepts` the features of one store have nothing to do with the labels. At
a nominal rate of .05 a test should reject in .03 to .07 of the worlds; an interval of 95 % should
leave out the truth in .02 to .08.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from benchmarks.worlds import (
    LIKE_OBYGAZE12,
    WIDTH,
    WORLDS,
    World,
    clips_of,
    features_of,
)
from benchmarks.zoo.workspace import FOLDS, folds_of, with_folds
from obygaze_features.core.console import Console, table
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import FOLD_PREFIX, Clip, Manifest
from obygaze_features.manifest.vocabulary import LEVELS as ALL_LEVELS
from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.evaluation.metrics import RANKING_METRICS
from obygaze_models.protocols.clips import ClipTable, clip_table, task_labels
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.results.cells import CHOSEN
from obygaze_models.protocols.results.record import Record
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.records import Run
from obygaze_models.protocols.runner.run import Inputs, run_protocol
from obygaze_models.protocols.schema import Model, Protocol

NOMINAL = 0.05
RANGE = (0.03, 0.07)
MISS_RANGE = (0.02, 0.08)
WINDOWS = 10  # of a clip, one second each, where segments are to be found
# What a run gives an interval over films, by the kind of its records.
COVERED = {
    "cell": RANKING_METRICS,
    "levels": ("concordance",),
    "localisation": ("map",),
}
N_CONCEPTS = 8
ONE_CELL = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]')
FILMS = ('grid.models=["ridge"]', *ONE_CELL)
MLP = ('grid.models=["mlp"]', *ONE_CELL)
CHOSEN_STORE = ("fit.choose_store=true", "report.compare=false")
LEVELS = ("EN", "HN", "S")
RANKED = (
    'grid.models=["ordinal", "logistic"]',
    "models.logistic.kind=logistic",
    "data.where=annotator == ada",
    'grid.train=["levels"]',
    'grid.test=["levels"]',
)
FACTORS = (
    "report.error_analysis=true",
    'grid.train=["ENHN_S"]',
    'grid.test=["ENHN_S"]',
)
SEGMENTS = ('grid.models=["mean"]', 'report.localise=["mean"]', *ONE_CELL)
BANK = (
    'grid.models=["pcbm-lr"]',
    "models.pcbm-lr.tolerance=published",
    "models.pcbm-lr.cross_fit=0",
    "report.concepts=true",
    *ONE_CELL,
)


@dataclass(frozen=True)
class Design:
    """A shipped protocol with changes, cut down to one cell; `model` replaces its models.

    With `even`, each film has as many EN as HN clips, so that training on either is the same. With
    `by_two`, there are not-sure clips, and a second annotator who differs in a quarter
    of them. With `marked`, clips have eight concepts that depend on the film, but not on what is in
    the clip.
    """

    protocol: str
    changes: tuple[str, ...] = ()
    model: str = ""
    even: bool = False
    by_two: bool = False
    marked: bool = False

    def load(self, metric: str) -> Protocol:
        """The protocol, judged by one metric."""
        common = (f"report.primary={metric}", "grid.baselines=[]")
        protocol = load_protocol(
            self.protocol, ["report.concepts=false", *common, *self.changes]
        )
        if self.model:
            protocol = replace(protocol, models={self.model: Model(self.model, {})})
        return protocol


DESIGNS: Mapping[str, Design] = {
    "table2": Design("paper-table2", ONE_CELL, model="ridge"),
    "table2-mlp": Design("paper-table2", (*ONE_CELL, "models.mlp.max_epochs=10")),
    "table4": Design("paper-table4", model="ridge"),
    "films": Design("honest", FILMS),
    "films-mlp": Design("honest", MLP),
    "films-chosen": Design("honest", (*FILMS, *CHOSEN_STORE)),
    "groups": Design("honest", (*FILMS, "splits.kind=group_kfold", "splits.folds=4")),
    "clips": Design("honest", (*FILMS, "splits.kind=kfold", "splits.folds=10")),
    "levels": Design("honest-levels", RANKED, by_two=True),
    "segments": Design("mobygaze-weak", SEGMENTS),
    "contrast": Design(
        "honest", ('grid.models=["ridge"]', "grid.pairs=all"), even=True
    ),
    "contrast-table2": Design(
        "paper-table2", ('grid.test=["ENHN_S"]',), model="ridge", even=True
    ),
    "factors": Design("honest", (*FILMS, *FACTORS), marked=True),
    "factors-table2": Design(
        "paper-table2",
        (
            'grid.train=["HN_S"]',
            'grid.test=["ENHN_S"]',
            "report.error_analysis=true",
        ),
        model="ridge",
        marked=True,
    ),
    "concepts": Design("honest", BANK),
}


@dataclass(frozen=True)
class Rate:
    """How often one quantity rejected at the nominal rate.

    Of intervals, `above` lay above the truth and `below` below it.
    """

    design: str
    world: str
    metric: str
    signal: float
    quantity: str
    rejected: int
    n: int
    n_worlds: int
    above: int | None = None
    below: int | None = None

    @property
    def rate(self) -> float:
        """The share of all that were rejected."""
        return self.rejected / self.n

    @property
    def is_in_range(self) -> bool:
        """Whether the rate is as near to the nominal one as it should be."""
        low, high = MISS_RANGE if "interval" in self.quantity else RANGE
        return low <= self.rate <= high

    @property
    def error(self) -> float:
        """The standard error of the rate, were what is counted in one world the same."""
        return float((self.rate * (1 - self.rate) / self.n_worlds) ** 0.5)


def simulate(
    design: str,
    manifest: Manifest | None = None,
    *,
    metric: str = "ap",
    signal: float = 0.0,
    world: str = LIKE_OBYGAZE12,
    n_worlds: int = 200,
    seed: int = 0,
) -> list[Rate]:
    """Run a design on worlds in which the null is true; count what rejects it.

    Without a manifest, the films of each world are drawn anew.
    """
    rng = np.random.default_rng(seed)
    chosen_design = DESIGNS[design]
    chosen_world = WORLDS[world]
    counts: dict[str, list[bool]] = defaultdict(list)
    estimates: dict[str, list[Record]] = defaultdict(list)
    n_refused = 0  # worlds that a design does not take, such as one with too few clips of a class
    with TemporaryDirectory(prefix="obygaze-level-") as folder:
        for _ in range(n_worlds):
            clips, protocol = _films(chosen_design, manifest, metric, rng, chosen_world)
            try:
                inputs = _inputs(design, clips, protocol, rng, signal, chosen_world)
                run = run_protocol(inputs, Path(folder) / "run", force=True, n_jobs=1)
            except FixInput:
                n_refused += 1
                continue
            if design != "concepts" or not signal:
                for quantity, is_rejected in _decisions(run, metric):
                    counts[quantity].append(is_rejected)
            if not chosen_design.even:
                for whose, record in _estimates(run):
                    estimates[whose].append(record)
    n_run = n_worlds - n_refused
    named = partial(Rate, design, world, metric, signal)
    rates = []
    for quantity, decisions in counts.items():
        if decisions:
            rates.append(named(quantity, sum(decisions), len(decisions), n_run))
    misses: dict[str, list[int]] = defaultdict(list)
    for whose, records in estimates.items():
        misses[whose.partition(",")[0]] += _sides(records)
    for metric_name, sides in misses.items():
        if sides:
            above = sides.count(1)
            below = sides.count(-1)
            quantity = f"truth outside the interval of {metric_name}"
            n_outside = above + below
            rates.append(named(quantity, n_outside, len(sides), n_run, above, below))
    return rates


def _inputs(
    design: str,
    clips: Manifest,
    protocol: Protocol,
    rng: np.random.Generator,
    signal: float,
    world: World,
) -> Inputs:
    """The labels of the clips of a world, and their features in one or two stores."""
    table = clip_table(clips, protocol.data)
    labels = {}
    for name in set(chain.from_iterable(protocol.pairs)):
        labels[name] = task_labels(name, protocol.tasks[name], table)
    stores = ["a"] if design == "concepts" else ["a", "b"]
    features = [_store(name, table, protocol, rng, signal, world) for name in stores]
    return Inputs(protocol, clips, "", table, labels, features)


def _films(
    design: Design,
    manifest: Manifest | None,
    metric: str,
    rng: np.random.Generator,
    world: World,
) -> tuple[Manifest, Protocol]:
    """The clips of a world, and the protocol that reads their levels."""
    if manifest is None:
        manifest, _ = with_folds(clips_of(world, rng), rng)
    if design.even:
        manifest = _evenly(manifest, rng)
    if design.marked:
        manifest = _marked(manifest, rng)
    if design.by_two:
        manifest = _by_two(manifest, rng)
    protocol = design.load(metric)
    if protocol.report.localise:
        manifest = replace(manifest, clips=tuple(_one_after_another(manifest)))
    if manifest.header.view != "raw":
        protocol = replace(
            protocol, data=replace(protocol.data, view=manifest.header.view)
        )
    return manifest, protocol


def _evenly(manifest: Manifest, rng: np.random.Generator) -> Manifest:
    """Return the clips with EN and HN in turn, and new fold columns."""
    clips = []
    for number, clip in enumerate(clip for clip in manifest if clip.level in LEVELS):
        level = clip.level if clip.level == "S" else LEVELS[number % 2]
        concepts = () if level == "EN" else clip.concepts or ("Body",)
        clips.append(replace(clip, level=level, concepts=concepts))
    with_folds = replace(manifest, clips=tuple(clips))
    for name, levels in FOLDS.items():
        with_folds = with_folds.with_column(
            FOLD_PREFIX + name, folds_of(clips, levels, rng)
        )
    return with_folds


def _by_two(manifest: Manifest, rng: np.random.Generator) -> Manifest:
    """Return a third of the HN clips as NS, and a second annotator who differs in a quarter."""
    clips = []
    for clip in manifest:
        level = "NS" if clip.level == "HN" and rng.random() < 1 / 3 else clip.level
        other = str(rng.choice(ALL_LEVELS)) if rng.random() < 1 / 4 else level
        for name, own_level in (("ada", level), ("ben", other)):
            extra = {"annotator": name, "given_clip_id": clip.clip_id}
            clips.append(
                replace(
                    clip, clip_id=f"{clip.clip_id}.{name}", level=own_level, extra=extra
                )
            )
    return replace(manifest, clips=tuple(clips), columns=("annotator", "given_clip_id"))


def _marked(manifest: Manifest, rng: np.random.Generator) -> Manifest:
    """Return the clips with concepts at random, at rates of their film; EN clips have none."""
    names = list(manifest.header.of_modality("visual"))[:N_CONCEPTS]
    films = sorted({clip.movie_id for clip in manifest})
    rates = {film: rng.beta(1, 2, len(names)) for film in films}
    clips = []
    for clip in manifest:
        concepts = [
            n
            for n, rate in zip(names, rates[clip.movie_id], strict=True)
            if rng.random() < rate
        ]
        clips.append(
            replace(clip, concepts=tuple(concepts) if clip.level != "EN" else ())
        )
    return replace(manifest, clips=tuple(clips))


def _one_after_another(manifest: Manifest) -> Iterator[Clip]:
    """Yield the clips of each film without gaps in time."""
    n_before: dict[str, int] = defaultdict(int)
    for clip in manifest:
        start = float(WINDOWS * n_before[clip.movie_id])
        n_before[clip.movie_id] += 1
        yield replace(clip, start_s=start, end_s=start + WINDOWS)


def _sides(estimates: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return where each interval lies: above the truth (1), below it (-1), or around it (0).

    The truth is the mean over all worlds.
    """
    known = [e["value"] for e in estimates if e["value"] is not None]
    truth = float(np.mean(known)) if known else np.nan
    sides = []
    for estimate in estimates:
        low, high = estimate["ci"]
        if low is not None:
            sides.append(int(low > truth) - int(high < truth))
    return sides


def _store(
    name: str,
    table: ClipTable,
    protocol: Protocol,
    rng: np.random.Generator,
    signal: float,
    world: World,
) -> Features:
    """A store of a world; if segments are to be found, its clips are means of windows of films."""
    sure = np.array([level == "S" for level in table.levels])
    names, codes = np.unique(table.films, return_inverse=True)
    films: dict[str, Any] = {}
    if protocol.report.localise:
        every = np.repeat(np.arange(len(table)), WINDOWS)
        running_on = replace(world, runs_on=True)
        windows = features_of(running_on, codes[every], sure[every], signal, rng)
        X = windows.reshape(len(table), WINDOWS, WIDTH).mean(axis=1)
        seconds = np.array([[clip.start_s, clip.end_s] for clip in table.clips])
        for film in range(len(names)):
            start = (seconds[codes == film, :1] + np.arange(WINDOWS)).ravel()
            films[names[film]] = (
                np.column_stack([start, start + 1]),
                windows[codes[every] == film],
            )
    else:
        # For concepts, scenes next to each other look alike.
        if protocol.report.concepts:
            world = replace(world, runs_on=True)
        X = features_of(world, codes, sure, signal, rng)
    origin = {"sha256": name, "backbone": "made up"}
    return Features(name, X, np.arange(len(table)), {}, origin, films=films)


def _decisions(run: Run, metric: str) -> Iterator[tuple[str, bool]]:
    """What a run says of a null that is true: every p that it gives, and its intervals."""
    for record in run.of("comparison"):
        # Two models can differ.
        if record["first"]["model"] == record["second"]["model"]:
            yield from _of_comparison(record)
    for record in run.of("contrast"):
        # Where one side's training clips are tested, the null is not true.
        is_null = not record["leaked"] or record["test"] == "ENHN_S"
        if record["metric"] == metric and is_null:
            yield from _of_contrast(record)
    for concept in _concepts(run):
        yield "p of a concept", concept["p"] <= NOMINAL
    for record in (item for item in run.of("analysis") if item["film"] == ALL_FILMS):
        for factor in record["factors"]:
            if factor["p"] is not None and not factor["name"].startswith("level"):
                yield "p of a factor", factor["p"] <= NOMINAL


def _of_comparison(record: Record) -> Iterator[tuple[str, bool]]:
    for name in ("p_sign_flip", "p_corrected_t"):
        if record[name] is not None:
            yield name, record[name] <= NOMINAL
    low, high = record["ci"]
    if low is not None:
        yield "0 outside the interval", not low <= 0 <= high


def _of_contrast(record: Record) -> Iterator[tuple[str, bool]]:
    if record["p"] is not None:
        yield "p of a contrast", record["p"] <= NOMINAL
    if record["ci"] is not None:
        low, high = record["ci"]
        yield "0 outside the interval of a contrast", not low <= 0 <= high


def _estimates(run: Run) -> Iterator[tuple[str, Record]]:
    """What has an interval, with a name; what has the same name estimates the same truth."""
    of_cells = {} if run.of("concept-model") else COVERED
    for kind, names in of_cells.items():
        for record in (item for item in run.of(kind) if item["feature"]):
            whose = record["model"]
            of_chosen = " of the chosen store" if record["feature"] == CHOSEN else ""
            for name in (name for name in names if name in record):
                yield f"{name}{of_chosen}, {whose}", record[name]
    for concept in _concepts(run):
        for name in RANKING_METRICS:
            yield f"{name}, {concept['name']}", concept[name]


def _concepts(run: Run) -> Iterator[Record]:
    """The quality of each concept of a run."""
    for record in run.of("concept-model"):
        yield from record.get("concepts", []) if record["part"] == "concepts" else []


def to_text(rates: Sequence[Rate]) -> str:
    """A line for each rate; a star where it is not within the range."""
    headers = (
        *("design", "world", "metric", "signal", "quantity"),
        *("rejected", "of", "rate", "above", "below", ""),
    )
    rows = []
    for rate in rates:
        row = (
            rate.design,
            rate.world,
            rate.metric,
            rate.signal,
            rate.quantity,
            rate.rejected,
            rate.n,
            f"{rate.rate:.3f} +- {rate.error:.3f}",
            rate.above,
            rate.below,
            "" if rate.is_in_range else "*",
        )
        rows.append(row)
    ranges = "{} to {} (p) or {} to {} (intervals)".format(*RANGE, *MISS_RANGE)
    return table(headers, rows) + f"\n* not within {ranges}"


@click.command(epilog=f"DESIGNS: {', '.join(DESIGNS)}.\n\nWORLDS: {', '.join(WORLDS)}.")
@click.argument("designs", nargs=-1, type=click.Choice(list(DESIGNS)))
@click.option("--metric", "metrics", multiple=True, default=("ap",), help="ap or auc.")
@click.option("--signal", "signals", multiple=True, type=float, default=(0.0, 0.6))
@click.option(
    "--world", "worlds", multiple=True, type=click.Choice(list(WORLDS)), default=WORLDS
)
@click.option(
    "--worlds", "n_worlds", type=click.IntRange(1), default=200, show_default=True
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--manifest", type=click.Path(path_type=Path), help="Real clips instead.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON line for each rate."
)
def main(
    designs: tuple[str, ...],
    metrics: tuple[str, ...],
    signals: tuple[float, ...],
    worlds: tuple[str, ...],
    n_worlds: int,
    seed: int,
    manifest: Path | None,
    as_json: bool,
) -> None:
    """Measure how often runs of DESIGNS (default: all) reject a true null hypothesis at .05."""
    console = Console()
    clips = read_manifest(manifest) if manifest else None
    rates = []
    for design, world, metric, signal in product(
        designs or DESIGNS, worlds, metrics, signals
    ):
        console.note(f"{design}, {world}, {metric}, signal {signal:g} ...")
        of_cell = simulate(
            design,
            clips,
            metric=metric,
            signal=signal,
            world=world,
            n_worlds=n_worlds,
            seed=seed,
        )
        if not of_cell:
            console.note("left out: the protocol does not take these worlds")
        rates += of_cell
        if as_json:
            for rate in of_cell:
                console.result(json.dumps(asdict(rate)))
    if not as_json:
        console.result(to_text(rates))


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.type_one_error")
