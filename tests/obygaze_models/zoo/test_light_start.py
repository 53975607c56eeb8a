"""What `models predict` imports for a saved model of arrays: nothing that fits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, write_workspace

from obygaze_models.models.registry import trainable

pytestmark = pytest.mark.check("trains a model of every kind")

MANIFEST = films(4, 10)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("workspace")
    write_workspace(root, MANIFEST, planted(MANIFEST))
    return root


@pytest.mark.parametrize("kind", trainable())
def test_predicting_imports_nothing_that_fits_and_no_pandas(
    workspace: Path, kind: str
) -> None:
    words = [
        "train",
        kind,
        "sig",
        "made-up",
        "-o",
        kind,
        "--set",
        "report.replicates=20",
    ]
    done = call_obygaze(*words, cwd=workspace)
    assert done.code == 0, done.stderr
    table = workspace / f"{kind}.csv"
    words = ["-C", str(workspace), "models", "predict", kind, "sig", "-o", str(table)]
    program = (
        "import sys\nfrom obygaze import cli\n"
        f"code = cli.run_line({words!r})\n"
        "print(code, {'sklearn', 'scipy', 'pandas', 'torch', 'skops'} & sys.modules.keys())\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines()[-1] == "0 set()"
    assert len(table.read_text().splitlines()) > len(MANIFEST) // 2
