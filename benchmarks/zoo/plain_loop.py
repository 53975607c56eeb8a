"""The plain PyTorch loop that is timed beside `obygaze run` for Tables 2 and 4.

It trains the same perceptrons on the same rows and features, one fit at a time: with the rows of
each fit in one tensor, or with a PyTorch DataLoader, a file a clip, as the released code has it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.zoo.workspace import NAME, WIDTHS
from obygaze_features.core.lazy import need
from obygaze_features.manifest.io import read_manifest
from obygaze_features.store import open_store
from obygaze_models.models.mlp import Job, MLPProbe
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.runner.records import read_run
from obygaze_models.protocols.runner.run import gather
from obygaze_models.protocols.schedule import schedule

Batches = Callable[[], Iterator[tuple[Any, Any]]]
SETTINGS = MLPProbe(double_softmax=True, keep="last")  # as the released code trains


@dataclass(frozen=True)
class TableFits:
    """The fits of one table on one feature matrix."""

    name: str
    X: NDArray[np.float32]
    jobs: list[Job]


def tables(workspace: Path) -> list[TableFits]:
    """Return the fits of Table 2 for two backbones (16 each) and of Table 4 (90)."""
    return [
        *(_table(workspace, "paper-table2", store) for store in WIDTHS),
        _table(workspace, "paper-table4", "xclip"),
    ]


def count_steps(workspace: Path) -> int:
    """Count the optimisation steps of all fits of the finished runs; shared steps count twice."""
    steps = 0
    for folder in sorted((workspace / "runs").iterdir()):
        steps_of_fit: dict[tuple[str, str, int], int] = {}
        for cell in read_run(folder).cells:
            for fold in cell["folds"]:
                fit = (cell["feature"], cell["train"], fold["fold"])
                n_batches = -(-fold["n_train"] // SETTINGS.batch_size)
                steps_of_fit[fit] = fold["chosen"]["epochs"] * n_batches
        steps += sum(steps_of_fit.values())
    return steps


def _table(workspace: Path, name: str, store: str) -> TableFits:
    """Return the rows of every fit of a protocol; the loop shares no training code with it."""
    manifest = read_manifest(workspace / "manifests" / f"{NAME}.toml")
    inputs = gather(
        load_protocol(name),
        manifest,
        "",
        {store: open_store(workspace / "stores" / store)},
    )
    (features,) = inputs.features
    plan = schedule(inputs.protocol, inputs.table, inputs.labels, features.present)
    jobs = []
    for train in inputs.protocol.train_tasks:
        pair = next(pair for pair in inputs.protocol.pairs if pair[0] == train)
        labels = inputs.labels[train].astype(np.int64)[features.present]
        for seed, split in enumerate(plan.pairs[pair]):
            rows, choose = (
                features.row_of[part] for part in (split.train, split.validation)
            )
            jobs.append(Job(rows, labels, choose, seed))
    return TableFits(f"{name} {store}", features.X, jobs)


def loop(
    workspace: Path, every: int, source: str, workers: int, max_epochs: int
) -> dict[str, float]:
    """Train every n-th fit by the plain loop; return fits, steps and their CPU seconds.

    The first step of a process loads parts of PyTorch, which takes as long as thousands of steps:
    an epoch before is not counted.
    `source` is "matrix" (batches are rows of one tensor), "memory" or "files" (a DataLoader takes
    clip after clip from memory, or from a file of each).
    """
    torch = need("torch", "mlp", "the plain PyTorch loop")
    torch.set_num_threads(1)
    fits = steps = 0
    cpu_s = 0.0
    all_tables = tables(workspace)
    first = all_tables[0]
    job = first.jobs[0]
    _plain_fit(torch, first.X, job, _of_matrix(torch, first.X, job), max_epochs=1)
    with TemporaryDirectory(prefix="obygaze-bench-") as folder:
        for table in all_tables:
            files = Path(folder) / table.name if source == "files" else None
            if files is not None:
                files.mkdir()
                for row, values in enumerate(table.X):
                    torch.save(
                        torch.from_numpy(values[None].copy()), files / f"{row}.pth"
                    )
            started = _cpu_s()
            for job in table.jobs[::every]:
                if source == "matrix":
                    batches = _of_matrix(torch, table.X, job)
                else:
                    batches = _of_loader(torch, table.X, job, files, workers)
                n_epochs = _plain_fit(torch, table.X, job, batches, max_epochs)
                fits += 1
                steps += n_epochs * _batches(job)
            cpu_s += _cpu_s() - started
    return {"fits": fits, "steps": steps, "cpu_s": cpu_s}


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of its workers that have ended."""
    return sum(os.times()[:4])


def _batches(job: Job) -> int:
    return -(-len(job.train) // SETTINGS.batch_size)


def _of_matrix(torch: Any, X: NDArray[Any], job: Job) -> tuple[Batches, Batches]:
    """Return the batches of an epoch, and those of validation, as rows of tensors."""

    def tensors(rows: NDArray[Any]) -> tuple[Any, Any]:
        labels = torch.from_numpy(job.labels[rows])
        targets = torch.nn.functional.one_hot(labels, 2).float()
        return torch.from_numpy(X[rows]), targets

    rows, targets = tensors(job.train)
    validation = tensors(job.validation)

    def batches() -> Iterator[tuple[Any, Any]]:
        for batch in torch.randperm(len(rows)).split(SETTINGS.batch_size):
            yield rows[batch], targets[batch]

    return batches, lambda: iter([validation])


def _of_loader(
    torch: Any, X: NDArray[Any], job: Job, files: Path | None, workers: int
) -> tuple[Batches, Batches]:
    """Return the batches of an epoch, and those of validation, by a DataLoader each."""

    class Clips(torch.utils.data.Dataset):  # type: ignore[misc]
        def __init__(self, rows: NDArray[Any]) -> None:
            self.rows = rows

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, i: int) -> tuple[Any, Any]:
            row = int(self.rows[i])
            label = torch.nn.functional.one_hot(
                torch.tensor(int(job.labels[row])), 2
            ).float()
            if files is None:
                return torch.from_numpy(X[row]), label
            file = files / f"{row}.pth"
            if not file.exists():
                raise FileNotFoundError(file)
            return torch.load(file, map_location="cpu", weights_only=True)[0], label

    load = torch.utils.data.DataLoader
    size = SETTINGS.batch_size
    train = load(Clips(job.train), batch_size=size, shuffle=True, num_workers=workers)
    validation = load(
        Clips(job.validation), batch_size=len(job.validation), num_workers=workers
    )
    return train.__iter__, validation.__iter__


def _plain_fit(
    torch: Any,
    X: NDArray[Any],
    job: Job,
    batches: tuple[Batches, Batches],
    max_epochs: int,
) -> int:
    """Train one perceptron; return the number of epochs it took."""
    train, validation = batches
    torch.manual_seed(job.seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    criterion = torch.nn.CrossEntropyLoss()
    best = float("inf")
    waited = 0
    for epoch in range(1, max_epochs + 1):
        for rows, target in train():
            optimiser.zero_grad()
            criterion(torch.softmax(model(rows), dim=1), target).backward()
            optimiser.step()
        with torch.no_grad():
            rows, target = next(validation())
            loss = float(criterion(torch.softmax(model(rows), dim=1), target))
        waited += 1
        if loss < best:
            best = loss
            waited = 0
        if waited >= SETTINGS.patience and epoch >= SETTINGS.min_epochs:
            return epoch
    return max_epochs


def main(argv: list[str]) -> None:
    """Run with `WORKSPACE EVERY SOURCE WORKERS EPOCHS OUT`; add its costs to OUT as a line."""
    costs = loop(Path(argv[0]), int(argv[1]), argv[2], int(argv[3]), int(argv[4]))
    with Path(argv[-1]).open("a", encoding="utf-8") as out:
        out.write(json.dumps(costs) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
