"""How the costs of a manifest and of a plan grow with the number of clips."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.growth.costs import MEMORY, Growth, costs_apart, counted
from benchmarks.growth.store import QUICK_SIZES, SIZES
from benchmarks.store.layouts import ids
from benchmarks.timing import Settings
from obygaze_features.core.console import human
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import Runs, duration, this_machine, time_runs
from obygaze_features.extraction.estimate import estimate
from obygaze_features.extraction.plan import (
    Target,
    make_plan,
    read_plan_file,
    write_plan,
)
from obygaze_features.extraction.run import Resources
from obygaze_features.manifest import folds
from obygaze_features.manifest.io import header_to_toml, read_manifest
from obygaze_features.manifest.model import COLUMNS, Header
from obygaze_features.manifest.stats import compute_stats

ROUNDS = 3
K = 5
LEVELS = ("EN", "HN", "S")
READING = "reading the manifest"
FILE = "bytes of the plan's file"


def measure_plans(settings: Settings) -> Growth:
    """Time what `extract plan` does with a manifest, each size in a process of its own."""
    need("av", "video", "the growth of plans")
    sizes = QUICK_SIZES if settings.quick else SIZES
    rounds = settings.rounds_or(ROUNDS)
    costs = costs_apart(f"{__name__}:measure_one", sizes, rounds, {FILE: "B"})
    last = {cost.name: cost.medians[-1] for cost in costs}
    facts = {
        "manifest": "clips of made-up films, 160 a film, whose videos are not there",
        f"a clip of {sizes[-1]:,}": f"{duration(last[READING] / sizes[-1])} to read it,"
        f" {human(last[MEMORY] / sizes[-1])} of memory",
    }
    machine = this_machine(("numpy",))
    return Growth(
        "Clips in a manifest and its plan", "clips", sizes, tuple(costs), machine, facts
    )


def measure_one(n_clips: int, rounds: int) -> dict[str, Runs]:
    """Return the costs at one size."""
    costs: dict[str, Runs] = {}

    def take(name: str, work: Callable[[], object]) -> None:
        costs[name] = time_runs(work, rounds)

    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        root = Path(folder)
        path = _manifest(root, n_clips)
        plan_file = root / "plan.json"
        take(READING, lambda: read_manifest(path))
        manifest = read_manifest(path)
        dealt: dict[str, Callable[[], object]] = {
            f"{K} even folds": partial(folds.stratified, manifest, K),
            f"{K} folds of films": partial(folds.grouped, manifest, K),
            "counting levels and films": partial(compute_stats, manifest),
        }
        for name, work in dealt.items():
            take(name, work)
        targets = [Target(str(root / "store"), "descriptors")]
        take("planning", partial(make_plan, manifest, targets, workspace=root))
        plan = make_plan(manifest, targets, workspace=root)
        del manifest, dealt, work  # the plan does not need it
        take("estimating the plan", lambda: estimate(plan, [Resources()], n_probed=0))
        take("writing the plan", lambda: write_plan(plan, plan_file, force=True))
        take("reading the plan", lambda: read_plan_file(plan_file))
        return {**costs, FILE: counted(plan_file.stat().st_size)}


def _manifest(root: Path, n_clips: int) -> Path:
    """Write a manifest line by line: objects would count as memory of what reads it."""
    header = Header(
        "Made-up films", {"Body": "visual"}, video_root=str(root / "videos")
    )
    (root / "films.toml").write_text(header_to_toml(header), encoding="utf-8")
    with (root / "films.csv").open("w", encoding="utf-8") as out:
        out.write(",".join(COLUMNS) + "\n")
        for row, (clip, film) in enumerate(zip(*ids(n_clips), strict=True)):
            level = LEVELS[row % len(LEVELS)]
            scene = int(clip.rpartition("-")[2])
            times = f"{5 * scene}.0,{5 * scene + 4}.5"
            concept = "Body" if level == "S" else ""
            out.write(f"{clip},{film},{scene},{film}.mkv,{times},{level},{concept}\n")
    return root / "films.toml"
