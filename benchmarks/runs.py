"""`obygaze run` of the yardstick `honest-44ba54322.toml`: CPU seconds and equal tables.

With `--before` and the path of another checkout, which has its environment in `.venv`, both
programs take turns on the same made-up features, each with a workspace of its own.
"""

from __future__ import annotations

import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.sweeps import ROOT, Program, programs
from benchmarks.timing import Contestant, compare
from obygaze_features.core.console import table

YARDSTICK = ROOT / "benchmarks" / "honest-44ba54322.toml"
WIDTH = 512
LEVELS = ("EN", "HN", "S")
CONCEPTS = ("Look", "Body", "Posture")
ROUNDS = 5
LOOK = 0.3  # how far films differ, in standard deviations of their clips
# The name of a made-up data set, its films, and its clips.
SIZES = (("small", 12, 1_920), ("large", 20, 6_072))
TABLES = ("predictions.csv", "results.csv")


def measure(quick: bool) -> str:
    """Return the CPU seconds of runs, and how many values of their tables differ."""
    parts = []
    with TemporaryDirectory() as folder:
        for name, n_films, n_clips in SIZES[:1] if quick else SIZES:
            n_used = 240 if quick else n_clips
            here = Path(folder, name)
            parts.append(measure_runs(here, n_films, n_used, 1 if quick else ROUNDS))
    return "\n\n".join(parts)


def measure_runs(folder: Path, n_films: int, n_clips: int, rounds: int) -> str:
    """Compare the programs on films of equal length."""
    write_sources(folder, n_films, n_clips)
    contestants = []
    known = programs()
    for program in known.values():
        (folder / program.name).mkdir()
        for words in (
            ("manifest", "import", str(folder / "clips.csv"), "-o", "films"),
            (
                "store",
                "import",
                str(folder / "made.npz"),
                "--manifest",
                "films",
                "-o",
                "made",
            ),
        ):
            program.run(*start(program, folder), *words)
        # The other checkout has this protocol in the form that it reads.
        protocol = str(YARDSTICK) if program.root == ROOT else "honest"
        words = ("run", protocol, "--store", "made", "-o", "timed", "--force")
        run = (*start(program, folder), *words, "--jobs", "1", "-q")
        contestants.append(Contestant(program.name, program.command(*run)))
    title = (
        f"the yardstick on {n_clips:,} clips of {n_films} films, {WIDTH} numbers each"
    )
    timed = compare(title, contestants, reference="now", rounds=rounds)
    lines = [timed.to_text()]
    if len(known) == 2:
        lines.append(differences(*(folder / name / "runs/timed" for name in known)))
    return "\n".join(lines)


def start(program: Program, folder: Path) -> tuple[str, ...]:
    """Return the first words of each command of a program in its workspace."""
    return "-m", "obygaze", "-C", str(folder / program.name)


def write_sources(folder: Path, n_films: int, n_clips: int) -> None:
    """Write a table of clips and their features, where sure clips and concepts stand out."""
    rng = np.random.default_rng(n_clips)
    folder.mkdir(parents=True)
    film_of_clip = np.sort(np.arange(n_clips) % n_films)
    level_of_clip = rng.choice(len(LEVELS), n_clips, p=(0.5, 0.25, 0.25))
    concept_of_clip = rng.choice(len(CONCEPTS), n_clips)
    look_of_film = LOOK * rng.normal(size=(n_films, WIDTH))
    X = rng.normal(size=(n_clips, WIDTH)) + look_of_film[film_of_clip]
    X[level_of_clip == 2, :20] += 0.25
    ids = []
    with Path(folder / "clips.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["clip_id", "movie_id", "level", "concepts"])
        for number, film in enumerate(film_of_clip):
            level = LEVELS[level_of_clip[number]]
            concept = CONCEPTS[concept_of_clip[number]] if level != "EN" else ""
            if concept:
                X[number, 20 + concept_of_clip[number]] += 1.0
            ids.append(f"film{film:02d}-{number:05d}")
            rows.writerow([ids[-1], f"film{film:02d}", level, concept])
    np.savez(folder / "made.npz", clip_id=ids, clip=X.astype(np.float32))


def differences(now: Path, before: Path) -> str:
    """Return a table of the values that two runs share, and how many of them differ."""
    found = []
    for name in TABLES:
        tables = [read_rows(folder / name) for folder in (now, before)]
        shared = [column for column in tables[0][0] if column in tables[1][0]]
        equal_rows = len(tables[0]) == len(tables[1])
        pairs = zip(*tables, strict=True) if equal_rows else []
        n_different = sum(a[one] != b[one] for a, b in pairs for one in shared)
        rows = f"{len(tables[0]):,}" + ("" if equal_rows else f", {len(tables[1]):,}")
        others = sorted(set(tables[0][0]) ^ set(tables[1][0]))
        found.append((name, rows, len(shared), n_different, ", ".join(others)))
    return table(("table", "rows", "columns", "different", "columns of one"), found)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table of a run."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
