"""Make the tables of a part in this process; `recording.py` starts it as it must be."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from golden import experiments, files, labels, refused, saved
from golden.doors import Place
from golden.tables import Table, write_table

FUNCTIONS: dict[str, Callable[[Place], dict[str, Table]]] = {
    "honest": experiments.record_honest,
    "papers": experiments.record_papers,
    "other-data": experiments.record_other_data,
    "abilities": experiments.record_abilities,
    "models": saved.record_models,
    "labels": labels.record_labels,
    "files": files.record_files,
    "refused": refused.record_refused,
}


def record(part: str, into: Path) -> tuple[int, int]:
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        tables = FUNCTIONS[part](Place(Path(folder) / "workspace"))
    shutil.rmtree(into / part, ignore_errors=True)
    n_values = 0
    n_bytes = 0
    for name, table in tables.items():
        path = into / part / f"{name}.csv"
        n_values += write_table(path, table)
        n_bytes += path.stat().st_size
    return n_values, n_bytes
