"""Story 47: I use zarr: my tools open a store, and this program does not need them to read one."""

import shlex
import subprocess
import sys

from support.cli import ROOT

from stories.made import begin_with_extracted_films
from stories.workspace import Workspace

QUICK = "--set report.replicates=20 --jobs 1"

# Type lines in one process; print which of them exit with 0, and whether zarr was imported.
TYPED = """
import shlex, sys
sys.path.insert(0, sys.argv[1])
from obygaze import cli

for line in sys.argv[2:]:
    code = cli.run_line(shlex.split(line))
    print(f"{line!r} ended with {code}, zarr: {'zarr' in sys.modules}")
"""


def test_what_reads_a_store_never_imports_zarr(ws: Workspace) -> None:
    begin_with_extracted_films(ws)
    ws(
        f"train ridge --store films.descriptors --manifest films -o kept {QUICK}",
    )
    store = "films.descriptors"
    lines = (
        f"store info {store} --clips",
        f"store verify {store}",
        f"run honest --store {store} --manifest films -o honest {QUICK}",
        f"models predict kept {store} -o scores.csv",
        "extract run films -b descriptors --workers 1",
        "extract plan films -b descriptors",
    )
    arguments = [sys.executable, "-c", TYPED, str(ROOT), *lines]
    done = subprocess.run(
        arguments, capture_output=True, text=True, cwd=ws.folder, check=False
    )
    said = [line for line in done.stdout.splitlines() if ", zarr: " in line]
    assert said == [f"{line!r} ended with 0, zarr: False" for line in lines], done
    # What writes one does: the same question has another answer.
    more = [f"store subset {store} --film lake -o lake"]
    done = subprocess.run(
        [*arguments[:4], *more],
        capture_output=True,
        text=True,
        cwd=ws.folder,
        check=False,
    )
    assert (
        f"{shlex.join(shlex.split(more[0]))!r} ended with 0, zarr: True" in done.stdout
    )
