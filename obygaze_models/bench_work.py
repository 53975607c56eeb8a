"""The work that `obygaze bench zoo` times: Tables 2 and 4 of the paper on made-up features.

Two ways to train the same perceptrons: ours, and the plain loop, one fit at a time with a PyTorch
DataLoader, a file a clip, as the released code has it. Each runs as a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.extras import need
from obygaze_models.models.mlp_many import Job, MLPSettings
from obygaze_models.protocols.runner.perceptrons import fit_all

SETTINGS = MLPSettings(double_softmax=True, keep="last")  # as the released code trains
N_FILMS, CLIPS_A_FILM = 12, 49  # the film-by-film file has 589 clips


@dataclass(frozen=True)
class Table:
    """One table's fits on one feature matrix."""

    name: str
    X: NDArray[np.float32]
    jobs: list[Job]


def made_up_tables(seed: int = 0) -> list[Table]:
    """Table 2 for two backbones (2 x 8 fits each) and Table 4 (90 fits), of the published sizes."""
    return [
        _table2("table 2, width 512", 512, seed),
        _table2("table 2, width 768", 768, seed + 1),
        _table4("table 4, width 512", 512, seed + 2),
    ]


def ours(n_jobs: int) -> dict[str, float]:
    """Train everything as `obygaze run` does; steps that fits share are counted for each."""
    steps = 0
    for table in made_up_tables():
        fits = fit_all(table.X, [(SETTINGS, job) for job in table.jobs], n_jobs)
        pairs = zip(fits, table.jobs, strict=True)
        steps += sum(fit.n_epochs * _batches(job) for fit, job in pairs)
    return {"steps": steps}


def loop(every: int, source: str, workers: int, max_epochs: int) -> dict[str, float]:
    """Train every n-th fit by the plain loop; `source` is "files" or "memory"."""
    torch = need("torch", "mlp", "the plain loop that is timed")
    torch.set_num_threads(1)
    steps, seconds = 0, 0.0
    with TemporaryDirectory(prefix="obygaze-bench-") as folder:
        for table in made_up_tables():
            place = Path(folder) / table.name if source == "files" else None
            if place is not None:
                place.mkdir()
                for row, values in enumerate(table.X):
                    torch.save(torch.from_numpy(values[None].copy()), place / f"{row}.pth")
            started = time.perf_counter()
            for job in table.jobs[::every]:
                n_epochs = _plain_fit(torch, table.X, job, place, workers, max_epochs)
                steps += n_epochs * _batches(job)
            seconds += time.perf_counter() - started
    return {"steps": steps, "seconds": seconds}


def _table2(name: str, width: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    n = 744
    labels = (rng.random(n) < 0.41).astype(np.int64)
    folds = rng.integers(0, 10, n)
    jobs = []
    for task, fold in np.ndindex(2, 8):
        others = rng.permutation(np.flatnonzero((folds != fold) & (folds != 9)))
        size = int(np.linspace(322, 459, 8)[fold])
        jobs.append(Job(np.sort(others[:size]), labels, np.flatnonzero(folds == fold), seed=task))
    return Table(name, _features(rng, labels, width), jobs)


def _table4(name: str, width: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    film = np.repeat(np.arange(N_FILMS), CLIPS_A_FILM)
    labels = (rng.random(len(film)) < 0.5).astype(np.int64)
    jobs = [
        Job(np.flatnonzero((film != i) & (film != j)), labels, np.flatnonzero(film == j))
        for i, j in permutations(range(10), 2)
    ]
    return Table(name, _features(rng, labels, width), jobs)


def _features(rng: np.random.Generator, labels: NDArray[Any], width: int) -> NDArray[np.float32]:
    X = rng.normal(size=(len(labels), width)).astype(np.float32)
    X[labels == 1, :20] += 0.25
    return X


def _batches(job: Job) -> int:
    return -(-len(job.train) // SETTINGS.batch_size)


def _plain_fit(
    torch: Any, X: NDArray[Any], job: Job, place: Path | None, workers: int, max_epochs: int
) -> int:
    """One fit in the plain way; the number of epochs it took."""

    class Clips(torch.utils.data.Dataset):  # type: ignore[misc]
        def __init__(self, rows: NDArray[Any]) -> None:
            self.rows = rows

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, i: int) -> tuple[Any, Any]:
            row = int(self.rows[i])
            label = torch.nn.functional.one_hot(torch.tensor(int(job.labels[row])), 2).float()
            if place is None:
                return torch.from_numpy(X[row]), label
            file = place / f"{row}.pth"
            if not file.exists():
                raise FileNotFoundError(file)
            return torch.load(file, map_location="cpu", weights_only=True)[0], label

    load = torch.utils.data.DataLoader
    train = load(Clips(job.train), batch_size=16, shuffle=True, num_workers=workers)
    validation = load(Clips(job.validation), batch_size=len(job.validation), num_workers=workers)
    torch.manual_seed(job.seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(X.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    best, waited = float("inf"), 0
    for epoch in range(1, max_epochs + 1):
        for rows, target in train:
            optimiser.zero_grad()
            criterion(torch.softmax(model(rows), dim=1), target).backward()
            optimiser.step()
        with torch.no_grad():
            rows, target = next(iter(validation))
            loss = float(criterion(torch.softmax(model(rows), dim=1), target))
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited >= SETTINGS.patience and epoch >= SETTINGS.min_epochs:
            return epoch
    return max_epochs


def main(argv: list[str]) -> None:
    """`ours N_JOBS OUT` or `loop EVERY SOURCE WORKERS EPOCHS OUT`; OUT takes the result as JSON."""
    if argv[0] == "ours":
        done = ours(n_jobs=int(argv[1]))
    else:
        done = loop(int(argv[1]), argv[2], int(argv[3]), int(argv[4]))
    Path(argv[-1]).write_text(json.dumps(done), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
