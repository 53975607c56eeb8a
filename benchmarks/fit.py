"""Table 4 of the paper, from a store to a table: `obygaze run` beside a plain PyTorch loop.

The loop trains the same 90 perceptrons on the same rows, which it has in tensors, as a careful user
would write it. It does nothing else: no baselines, no intervals, no files.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.formats import CLIP_ID, FORMATS, MOVIE_ID
from benchmarks.timing import OBYGAZE, Contestant, compare
from obygaze_features.core.lazy import import_optional
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import FOLD_PREFIX, Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_features.store import open_store
from obygaze_models.models.mlp import MLPProbe
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.runner.files import read_folder
from obygaze_models.runner.heldout import make_folds
from obygaze_models.runner.inputs import gather

NAME = "bench"
PROTOCOL = "paper-table4"
SETTINGS = MLPProbe(double_softmax=True, keep="last")  # as the released code trains
OURS = "obygaze run, store to table"
LOOP = "plain loop of PyTorch"
COSTS = "costs-of-loop.json"
# Clips of each level with features, and the films, as published.
N_OF_LEVEL = {"EN": 415, "HN": 289, "S": 293}
FILMS = (
    *("tt0108160", "tt0110912", "tt0119822", "tt0212338", "tt0467406", "tt0822832"),
    *("tt1045658", "tt1142988", "tt1193138", "tt1454029", "tt1570728", "tt2267998"),
)
WIDTH = 512


@dataclass(frozen=True)
class PerceptronJob:
    """One fit: numbers of training and validation rows, a class of each row, a seed."""

    train: NDArray[np.intp]
    labels: NDArray[np.int64]
    validation: NDArray[np.intp]
    seed: int


def write_workspace(root: Path) -> None:
    """Write a manifest with folds by film of the published sizes, and a store."""
    rng = np.random.default_rng(0)
    levels = rng.permutation(np.repeat(list(N_OF_LEVEL), list(N_OF_LEVEL.values())))
    films = np.sort(rng.choice(FILMS, len(levels))).tolist()
    clips = []
    for row, (film, level) in enumerate(zip(films, levels.tolist(), strict=True)):
        clip = Clip(f"{film}-{row:03d}", film, row, level=level)
        clips.append(clip if level == "EN" else replace(clip, concepts=("Body",)))
    header = Header(NAME, concepts(), view="as_published")
    manifest = Manifest(NAME, header, tuple(clips))
    for name, of_file in (("HN_S", "HN S"), ("ENHN_S", "EN HN S")):
        chosen = [clip for clip in clips if clip.level in of_file.split()]
        folds = {clip.clip_id: str(FILMS.index(clip.movie_id)) for clip in chosen}
        manifest = manifest.with_column(f"{FOLD_PREFIX}by_movie_{name}", folds)
    write_manifest(manifest, root / "manifests" / f"{NAME}.toml")
    X = rng.normal(size=(len(clips), WIDTH)).astype(np.float32)
    X[levels == "S", :20] += 0.25
    clip_ids = np.array([clip.clip_id for clip in clips])
    arrays = {CLIP_ID: clip_ids, MOVIE_ID: np.array(films), "clip": X}
    (root / "stores").mkdir()
    FORMATS["obygaze"].write(root / "stores" / "xclip", arrays)


def measure(quick: bool) -> str:
    """Time `obygaze run` from process start to table, and the loop."""
    import_optional("torch", "mlp", "the plain PyTorch loop")
    with TemporaryDirectory(prefix="obygaze-bench-") as name:
        workspace = Path(name)
        write_workspace(workspace)
        start = [*OBYGAZE, "-C", name, "run", PROTOCOL, "--store", "xclip=xclip"]
        ours = [*start, "--manifest", NAME, "--jobs", "1", "-o", "run"]
        remove = f"rm -rf {shlex.quote(name)}/runs; {shlex.join(ours)}"
        every_nth = "30" if quick else "1"
        theirs = [sys.executable, "-m", "benchmarks.fit", name, every_nth]
        result = compare(
            "Table 4: 90 perceptrons, baselines and intervals",
            [Contestant(OURS, ["sh", "-c", remove]), Contestant(LOOP, theirs)],
            reference=OURS,
            rounds=1 if quick else 3,
            packages=("numpy", "scikit-learn", "torch"),
        )
        costs = json.loads((workspace / COSTS).read_text("utf-8"))
        facts = {
            "optimisation steps of obygaze": f"{count_steps(workspace):,}",
            "of the loop": f"{costs['steps']:,} in {costs['fits']} fits",
        }
    return replace(result, facts=facts).to_text()


def count_steps(workspace: Path) -> int:
    """Count the optimisation steps of all fits of the finished run."""
    steps_of_fit = {}
    for cell in read_folder(workspace / "runs" / "run").about["fits"]:
        for fold in cell["folds"]:
            if "epochs" not in fold["chosen"]:
                continue  # a baseline
            n_batches = -(-fold["n_train"] // SETTINGS.batch_size)
            fit = (cell["train"], fold["fold"])
            steps_of_fit[fit] = fold["chosen"]["epochs"] * n_batches
    return sum(steps_of_fit.values())


def fits_of(workspace: Path) -> tuple[NDArray[np.float32], list[PerceptronJob]]:
    """Return the features, and the rows of every fit of the protocol."""
    manifest = read_manifest(workspace / "manifests" / f"{NAME}.toml")
    stores = {"xclip": open_store(workspace / "stores" / "xclip")}
    inputs = gather(load_protocol(PROTOCOL), manifest, "", stores)
    (features,) = inputs.stores
    usable = features.present
    folds = make_folds(inputs.protocol, inputs.table, inputs.labels, usable)
    jobs = []
    for train in inputs.protocol.train_tasks:
        pair = next(pair for pair in inputs.protocol.pairs if pair[0] == train)
        labels = inputs.labels[train].astype(np.int64)[features.present]
        for seed, held in enumerate(folds[pair]):
            rows = features.row_of[held.train]
            validation = features.row_of[held.validation]
            jobs.append(PerceptronJob(rows, labels, validation, seed))
    return features.X, jobs


def loop(workspace: Path, every_nth: int) -> dict[str, int]:
    """Train every n-th fit by the plain loop; return how many, and their steps."""
    torch = import_optional("torch", "mlp", "the plain PyTorch loop")
    torch.set_num_threads(1)
    X, jobs = fits_of(workspace)
    steps = []
    for job in jobs[::every_nth]:
        n_batches = -(-len(job.train) // SETTINGS.batch_size)
        steps.append(fit(torch, X, job) * n_batches)
    return {"fits": len(steps), "steps": sum(steps)}


def _tensors(
    torch: Any, X: NDArray[Any], job: PerceptronJob, rows: NDArray[Any]
) -> tuple[Any, Any]:
    labels = torch.from_numpy(job.labels[rows])
    targets = torch.nn.functional.one_hot(labels, 2).float()
    return torch.from_numpy(X[rows]), targets


def fit(torch: Any, X: NDArray[Any], job: PerceptronJob) -> int:
    """Train one perceptron; return the number of epochs it took."""
    torch.manual_seed(job.seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    criterion = torch.nn.CrossEntropyLoss()
    rows, targets = _tensors(torch, X, job, job.train)
    held_out, truth = _tensors(torch, X, job, job.validation)
    best = float("inf")
    waited = 0
    for epoch in range(1, SETTINGS.max_epochs + 1):
        for batch in torch.randperm(len(rows)).split(SETTINGS.batch_size):
            optimiser.zero_grad()
            criterion(
                torch.softmax(model(rows[batch]), dim=1), targets[batch]
            ).backward()
            optimiser.step()
        with torch.no_grad():
            loss = float(criterion(torch.softmax(model(held_out), dim=1), truth))
        waited += 1
        if loss < best:
            best = loss
            waited = 0
        if waited >= SETTINGS.patience and epoch >= SETTINGS.min_epochs:
            return epoch
    return SETTINGS.max_epochs


if __name__ == "__main__":
    costs_of_loop = loop(Path(sys.argv[1]), int(sys.argv[2]))
    Path(sys.argv[1], COSTS).write_text(json.dumps(costs_of_loop), encoding="utf-8")
