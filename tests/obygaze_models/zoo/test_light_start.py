"""What `models predict` imports for a saved model of arrays: nothing that fits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.experiments import films, planted, write_workspace

import obygaze as og
from obygaze_models.models.registry import KINDS, trainable

pytestmark = pytest.mark.check("trains a model of every kind")

MANIFEST = films(4, 10)


PROGRAM = """
import sys
from pathlib import Path
from obygaze import cli
for kind in sys.argv[1:]:
    code = cli.run_line(["models", "predict", kind, "sig", "-o", f"{kind}.csv"])
    heavy = {"sklearn", "scipy", "pandas", "torch"} & sys.modules.keys()
    print(kind, code, heavy or "", len(Path(f"{kind}.csv").read_text().splitlines()))
"""


def test_predicting_imports_nothing_that_fits_and_no_pandas(tmp_path: Path) -> None:
    write_workspace(tmp_path, MANIFEST, planted(MANIFEST))
    kinds = trainable()
    options: dict[str, Any] = {"workspace": tmp_path, "n_jobs": 1}
    for kind in kinds:
        changes = ["report.replicates=2", "report.compare=false"]
        if kind in KINDS and KINDS[kind].head:
            changes += ["model.tolerance=0.01", "model.cross_fit=2"]
        og.train(kind, "sig", "made-up", changes=changes, output=kind, **options)
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM, *kinds],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in shown.stdout.splitlines() if line.split()[0] in kinds]
    for kind, line in zip(kinds, lines, strict=True):
        name, code, n_rows = line.split()
        assert (name, code) == (kind, "0")
        assert int(n_rows) > len(MANIFEST) // 2
