"""Story 31: whatever the machine: a fresh clone, other Pythons, no POSIX, base packages alone.

Nothing here runs on Windows: what Python lacks there is taken away.
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cli import ROOT, environment, without_packages
from support.seeds import amount
from support.servers import absent

from stories.films import features_of, import_features, labelled_clips
from stories.workspace import Workspace

# What only an extra installs, by the names under which it is imported.
EXTRAS = (
    *("torch", "transformers", "av", "torchcodec", "numba", "xarray"),
    *("pyarrow", "obstore", "huggingface_hub", "python_calamine", "xlsxwriter"),
)
# The oldest Python for which the program is written; the server of the project has it.
OLDEST = "3.11"
VERSIONS = amount([OLDEST], [OLDEST, "3.12", "3.13"])
# A page contains its figures.
FIGURE = "<svg "
SMALL_GRID = """--set 'grid.models=["ridge"]' --set 'grid.train=["EN_S"]'"""
SMALL_GRID += """ --set 'grid.test=["EN_S"]' --set report.replicates=50"""


def typed(*words: str | Path, **where: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, **where)


# ---- a fresh clone ------------------------------------------------------------------------------


def clone_of_the_checkout(folder: Path) -> Path:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    words = ["git", "clone", "--quiet", str(ROOT), str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    return folder


def python_of(version: str) -> Path:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    paths = sorted((home / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    on_the_path = shutil.which(f"python{version}")
    if on_the_path is not None:
        paths.append(Path(on_the_path))
    for path in paths:
        if typed(path, "-c", "import ensurepip, venv").returncode == 0:
            return path
    reason = f"Python {version} is not installed"
    if version == OLDEST:
        absent(reason)
    pytest.skip(reason)


@pytest.mark.check("a clean installation")
@pytest.mark.parametrize("version", VERSIONS)
def test_make_demo_in_a_fresh_clone_ends_with_a_report(tmp_path, version) -> None:
    clone = clone_of_the_checkout(tmp_path / "clone")
    path = python_of(version)
    words = ["make", "demo"]
    # Also where these tests were started by make.
    changes: dict[str, str | None] = {"MAKEFLAGS": None, "MAKELEVEL": None}
    if version == OLDEST:
        # Where this one is installed, make takes it without being told.
        changes["PATH"] = os.pathsep.join([str(path.parent), os.environ["PATH"]])
    else:
        words.append(f"PYTHON={path}")
    done = typed(*words, cwd=clone, env=environment(changes))
    assert done.returncode == 0, done.stdout + done.stderr
    last_line = done.stdout.rstrip().splitlines()[-1]
    assert last_line.startswith("The report is demo/")
    report = clone / last_line.removeprefix("The report is ").split(";")[0]
    page = report.read_text(encoding="utf-8")
    assert FIGURE in page
    assert 'src="http' not in page

    python = clone / ".venv" / "bin" / "python"
    program = (
        "import importlib.util, json, sys\n"
        "names = ('torch', 'transformers', 'av')\n"
        "found = [name for name in names if importlib.util.find_spec(name)]\n"
        "print(json.dumps([list(sys.version_info[:2]), found]))\n"
    )
    used, found = json.loads(typed(python, "-c", program).stdout)
    assert found == ["av"]
    assert used == [int(part) for part in version.split(".")]
    command = clone / ".venv" / "bin" / "obygaze"
    assert "films" in typed(command, "-C", "demo", "ls", cwd=clone).stdout


def test_the_command_starts_in_a_checkout(tmp_path: Path) -> None:
    where: Any = {"cwd": ROOT, "env": environment({"PYTHONPATH": None})}
    shown = typed(sys.executable, "cli.py", "--help", **where)
    assert shown.returncode == 0
    for command in ("demo", "manifest", "extract", "store", "run", "view"):
        assert f"\n  {command} " in shown.stdout
    words = ("cli.py", "-C", tmp_path, "manifest", "show", "films")
    wrong = typed(sys.executable, *words, **where)
    assert wrong.returncode == 1
    assert "films" in wrong.stderr


# ---- the base packages alone --------------------------------------------------------------------


@pytest.mark.check("a process for each command")
def test_a_laptop_with_the_base_packages_alone_runs_and_reports(ws: Workspace) -> None:
    rows = labelled_clips(6, 10)
    import_features(ws, rows, features_of(rows, width=8, level=2.0), "useful")
    alone = without_packages(ws.path("hidden"), *EXTRAS)
    ws.process(
        f"run honest --manifest films --store useful -o first --jobs 1 {SMALL_GRID}",
        env=alone,
    )
    ws.process("report first", env=alone)
    with_extras = f"run honest --manifest films --store useful -o second {SMALL_GRID}"
    ws(f"{with_extras} --jobs 1")
    first, second = (f"runs/{name}/predictions.csv" for name in ("first", "second"))
    assert ws.read(first) == ws.read(second)
    assert FIGURE in ws.read("runs/first/report.html")
