"""A folder in which commands are typed, and each command that the recordings type.

How a command is spelt stands here alone, and nothing here names a module of the program: where a
command is renamed, this file changes, and no table.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from stories.workspace import Answer, ExitCode, Workspace, checked
from support.cli import call_obygaze

from golden.tables import Row, number


class Place(Workspace):
    """An empty workspace; calling it types a command, which must end well."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for kind in ("manifests", "stores"):
            (folder / kind).mkdir()

    def __call__(self, line: str, *, code: ExitCode = (0, 3), env=None) -> Answer:
        """Type a command that must end well; clips may lack features."""
        return checked(self.typed(line), code)

    def typed(self, line: str) -> Answer:
        """Type a command, however it ends."""
        done = call_obygaze(*shlex.split(line), cwd=self.folder)
        return Answer(line, done.code, done.stdout, done.stderr)

    def path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def read_manifest(self, name: str) -> list[dict[str, str]]:
        return self.read_table(f"manifests/{name}.csv")


def import_clips(place, rows: Sequence[Row], manifest: str, rule: str = "") -> None:
    place.write_table(f"{manifest}.csv", rows)
    by_rule = f"--rule {rule}" if rule else ""
    place(f"manifest import {manifest}.csv {by_rule} -o {manifest}")


def import_features(
    place: Place,
    rows: Sequence[Row],
    X: npt.NDArray[Any],
    store: str,
    *,
    manifest: str,
    array: str = "clip",
    lacking: Sequence[int] = (),
    model: str = "",
) -> None:
    """Make a store of features of the clips; those at the places `lacking` have none.

    Stores of one `model` have one recipe; by default the model is called as the store.
    """
    kept = [place for place in range(len(rows)) if place not in lacking]
    ids = [rows[number]["clip_id"] for number in kept]
    np.savez(place.path(f"{store}.npz"), clip_id=ids, X=X[kept].astype(np.float32))
    place(
        f"store import {store}.npz --array {array}=X --manifest {manifest}"
        f" --backbone {model or store} --licence CC0-1.0 -o {store}"
    )


def cut_windows(place: Place, films: str, manifest: str, *, pictures: int) -> None:
    place(f"manifest windows {films} -o {manifest} --window {pictures}")


def extract(place: Place, manifest: str, *backbones: str, weights: str = "") -> None:
    words = ["extract", "run", manifest, "--workers", "1"]
    if weights:
        words += ["--weights", weights]
    for backbone in backbones:
        words += ["-b", backbone]
    place(shlex.join(words))


def import_mobygaze(place: Place, rows: Sequence[Row]) -> None:
    place.write_table("mobygaze.csv", rows, separator=";")
    place("manifest import mobygaze.csv --as mobygaze")


def import_accede(place: Place, folder: str) -> None:
    place(f"manifest import {folder} --as liris-accede")


def run_protocol(
    place: Place,
    protocol: str,
    manifest: str,
    stores: Mapping[str, str],
    *,
    output: str,
    tasks: Sequence[str] = (),
    changes: Sequence[str] = (),
) -> None:
    words = ["run", protocol, "--manifest", manifest, "--jobs", "1", "-o", output]
    for name, store in stores.items():
        words += ["--store", f"{name}={store}"]
    for task in tasks:
        words += ["--task", task]
    for change in changes:
        words += ["--set", change]
    place(shlex.join(words))


def project(
    place, marks: str, clips, threshold: str, *, each: bool = False
) -> list[Row]:
    place(f"marks clips {marks} {clips} --threshold {threshold} -o projected --force")
    projected = place.read_manifest("projected")
    clip_of = {row["clip_id"]: row for row in projected}
    rows = []
    for row in place.read_manifest("projected.annotators") if each else projected:
        clip = clip_of[row["clip_id"]]
        label = {
            "film": clip["movie_id"],
            "start": number(clip["start_s"]),
            "end": number(clip["end_s"]),
        }
        if each:
            label["person"] = row["annotator"]
        label |= {"level": row["level"], "concepts": row["concepts"]}
        rows.append(label)
    return rows


def compare(place: Place, runs: Sequence[str]) -> list[dict[str, str]]:
    place(f"compare {' '.join(runs)} -o compared.csv --force")
    return place.read_table("compared.csv")


def train(
    place: Place, kind: str, store: str, manifest: str, settings: str, *, output: str
) -> None:
    place(
        f"train {kind} --store {store} --manifest {manifest} {settings} --jobs 1 -o {output}"
    )


def predict(place: Place, model: str, source: str, words: str = "") -> list[Row]:
    """Return what a saved model says of the clips of a store, with columns of our own names."""
    place(f"models predict {model} {source} {words} -o predicted.csv --force")
    rows = []
    for row in place.read_table("predicted.csv"):
        cells: dict[str, Any] = {"clip": row["clip_id"], "basis": row["basis"]}
        cells["says"] = row.get("decision", "")
        for name, text in row.items():
            kind, colon, of = name.partition(":")
            if colon:
                cells[f"{kind} {of}"] = number(text)
        rows.append(cells)
    return rows
