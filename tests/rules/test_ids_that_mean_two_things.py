"""Cases in which the same id alone would join what is not one clip, as two labs would meet them."""

from __future__ import annotations

import csv
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, call_obygaze

FILMS = ("alba", "brug", "cruz", "dune")
OTHER_FILMS = ("echt", "faro", "gold", "heim")
N_CLIPS = 30
QUICK = (
    *("--set", 'grid.models=["ridge"]', "--set", 'grid.baselines=["random"]'),
    *("--set", "report.contrast=[]", "--set", "report.concepts=false"),
)


@dataclass(frozen=True)
class Row:
    """A clip of a table, with its vector."""

    clip_id: str
    film: str
    start_s: float
    level: str
    vector: tuple[float, ...]


def rows_of(
    films: Sequence[str], seed: int, form: str = "{film}-{number:03d}"
) -> list[Row]:
    """Clips of some films; the first number of a vector says whether its level is S."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for film in films:
        for number in range(N_CLIPS):
            level = "S" if rng.random() < 0.4 else "EN"
            vector = rng.normal(size=6)
            vector[0] += level == "S"
            clip_id = form.format(film=film, number=number, count=len(rows))
            rows.append(Row(clip_id, film, 10.0 * number, level, (*vector.tolist(),)))
    return rows


@dataclass(frozen=True)
class Lab:
    """A workspace, in which commands are typed."""

    folder: Path

    def __call__(self, *words: str | Path) -> Result:
        return call_obygaze(*words, cwd=self.folder)

    def has_manifest(
        self,
        name: str,
        rows: Sequence[Row],
        later_s: float = 0.0,
        *,
        films: bool = True,
    ) -> None:
        """Import a table of clips."""
        lines = []
        for row in rows:
            times = (row.start_s + later_s, row.start_s + later_s + 10.0)
            lines.append((row.clip_id, row.film if films else "", *times, row.level))
        names = ("clip_id", "movie_id", "start_s", "end_s", "level")
        self.write(f"{name}-clips.csv", names, lines)
        without = () if films else ("--films", "none")
        self("manifest", "import", f"{name}-clips.csv", *without, "-o", name).ok()

    def has_store(
        self,
        name: str,
        rows: Sequence[Row],
        manifest: str = "",
        *,
        backbone: str = "fx",
        films: bool = True,
    ) -> Result:
        """Import the features of some clips."""
        numbers = [f"x{place}" for place in range(len(rows[0].vector))]
        columns = ("clip_id", *(("movie_id",) if films else ()), *numbers)
        lines = []
        for row in rows:
            lines.append((row.clip_id, *((row.film,) if films else ()), *row.vector))
        self.write(f"{name}-features.csv", columns, lines)
        words = ("--manifest", manifest) if manifest else ()
        command = ("store", "import", f"{name}-features.csv", *words)
        return self(*command, "--backbone", backbone, "-o", name).ok()

    def write(
        self, name: str, columns: Sequence[str], lines: Sequence[Sequence[object]]
    ) -> None:
        with (self.folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, *lines])

    def basis_of(self, *words: str) -> Counter[str]:
        """Predict, and count the rows by what the model has seen of them."""
        self("models", "predict", *words, "-o", "scores.csv", "--force").ok()
        with (self.folder / "scores.csv").open(encoding="utf-8") as file:
            return Counter(row["basis"] for row in csv.DictReader(file))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab with a table of numbered clips, its store, and a model of it."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    rows = rows_of(FILMS, 5, "{count}")
    lab.has_manifest("ours", rows)
    lab.has_store("ours", rows, "ours")
    lab("train", "ridge", "ours", "ours", "--task", "EN_S", "-o", "model").ok()
    return lab.folder


@pytest.fixture
def lab(made: Path, tmp_path: Path) -> Lab:
    shutil.copytree(made, tmp_path / "lab")
    return Lab(tmp_path / "lab")


THEIRS = rows_of(OTHER_FILMS, 7, "{count}")


def check_refused(done: Result, *values: str) -> None:
    """Check that both values are named, three clips and how many there are."""
    assert done.code == 5, done.stdout + done.stderr
    assert all(value in done.stderr for value in values), done.stderr
    assert f"{len(THEIRS)} clips" in done.stderr, done.stderr
    assert len(re.findall(r"'[0-9]+' is ", done.stderr)) == 3, done.stderr


def test_a_run_refuses_features_of_other_seconds(lab: Lab) -> None:
    """The films were cut anew, and the ids stayed."""
    with_times = rows_of(FILMS, 5, "{count}")
    lab.has_manifest("recut", with_times, later_s=5.0)
    done = lab("run", "honest", "--manifest", "recut", "--store", "ours", *QUICK)
    check_refused(done, "5 s", "0 s")


def test_a_join_refuses_two_tables_that_are_numbered_alike(lab: Lab) -> None:
    lab.has_store("theirs", THEIRS, backbone="gx")
    check_refused(
        lab("store", "join", "ours", "theirs", "-o", "both"), "'alba'", "'echt'"
    )


def test_a_model_refuses_a_lab_with_its_ids_for_other_films(lab: Lab) -> None:
    lab.has_manifest("theirs", THEIRS)
    lab.has_store("theirs", THEIRS, "theirs")
    check_refused(lab("models", "predict", "model", "theirs"), "'alba'", "'echt'")


def test_a_model_asks_for_the_films_of_features_without_them(lab: Lab) -> None:
    lab.has_store("theirs", THEIRS, films=False)
    done = lab("models", "predict", "model", "theirs")
    assert done.code == 5
    assert "--manifest" in done.stderr


def test_clips_with_equal_features_are_not_one_clip(lab: Lab) -> None:
    """Nothing is heard or seen in some clips of the training, nor in some new ones."""
    silent = (0.0,) * 6
    ours = rows_of(FILMS, 5)
    ours[7] = Row(ours[7].clip_id, ours[7].film, ours[7].start_s, ours[7].level, silent)
    lab.has_manifest("silent", ours)
    lab.has_store("silent", ours, "silent")
    lab("train", "ridge", "silent", "silent", "--task", "EN_S", "-o", "of-silent").ok()
    theirs = []
    for place, row in enumerate(rows_of(OTHER_FILMS, 7)):
        vector = row.vector if place % 4 else silent
        theirs.append(Row(row.clip_id, row.film, row.start_s, row.level, vector))
    lab.has_manifest("theirs", theirs)
    lab.has_store("theirs", theirs, "theirs")
    assert lab.basis_of("of-silent", "theirs") == {"unseen": len(theirs)}


def test_a_withdrawn_clip_is_that_of_its_film(lab: Lab) -> None:
    lab.has_store("theirs", THEIRS)
    lab("store", "subset", "ours", "--without", "5", "--reason", "asked").ok()
    for words in (("store", "verify", "theirs"), ("store", "info", "theirs")):
        said = lab(*words).ok()
        assert "withdrawn" not in said.stdout + said.stderr
    assert "withdrawn" in lab("store", "info", "ours", "--clips").ok().stdout
