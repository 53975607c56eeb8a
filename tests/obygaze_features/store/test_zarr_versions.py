"""A store has one seal, whichever version of zarr and of Python wrote it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zarr

ROOT = Path(__file__).parents[3]
# What a process needs to write a store.
PACKAGES = ("click", "google-crc32c", "msgspec", "numpy", "packaging", "zarr")

# Writes a store at a fixed time, of every kind of array, with failed rows, and prints its seal.
WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import zarr

from obygaze_features.store import making
from obygaze_features.store.layout import DTYPES, Array
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.rows import Row, RowColumns


class Fixed(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime(2026, 1, 2, tzinfo=UTC)


class Source:
    def columns(self):
        return RowColumns.of(ROWS)

    def read(self, array, first, after):
        return VALUES[array.name][first:after]


making.datetime = Fixed
ROWS = [Row(f"clip-{n}", f"film-{n // 4}", n / 2, n / 2 + 1.5) for n in range(21)]
ROWS[5] = Row("clip-5", "film-1", status="failed", reason="café, 日本")
ROWS[6] = ROWS[6]._replace(start_frame=150, end_frame=187, framerate=25.0)
SHAPES = {"float16": (2, 8), "uint8": (2, 3, 3), "bool": (2,), "int32": ()}
ARRAYS = [Array.of(f"of_{dtype}", dtype, SHAPES.get(dtype, (5,))) for dtype in DTYPES]
VALUES = {}
for array in ARRAYS:
    n_values = 21 * max(1, int(np.prod(array.shape)))
    numbers = np.arange(n_values).reshape(21, *array.shape) % 2
    VALUES[array.name] = numbers.astype(array.dtype)
# The chunk of every row but the first is of fill values alone.
VALUES["of_int64"][1:] = 0
written = making.write_store(
    Path(sys.argv[1]),
    Source(),
    arrays=ARRAYS,
    recipe=Recipe.from_json({"unknown": True, "source": "a file", "told": {}}),
    manifest=ManifestMark("films", "0" * 64),
)
print(zarr.__version__, written.seal)
"""


def write_with(python: object, folder: Path) -> tuple[str, str]:
    """Return the version of zarr and the seal of the store that a Python writes."""
    done = subprocess.run(
        [str(python), "-c", WRITER, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    version, seal = done.stdout.split()
    return version, seal


def another_python() -> str:
    """Return the path of Python 3.12."""
    # pyenv has its versions side by side.
    others = Path(sys.base_prefix).parent.glob("3.12.*/bin/python3.12")
    for path in (shutil.which("python3.12"), *map(str, others)):
        if path is None:
            continue
        words = [
            path,
            "-c",
            "import sys, json; print(json.dumps(sys.version_info[:2]))",
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0 and json.loads(done.stdout) == [3, 12]:
            return path
    pytest.skip("Python 3.12 is not installed")


@pytest.mark.check("installs the newest zarr for Python 3.12")
def test_a_newer_zarr_writes_the_same_store(tmp_path: Path) -> None:
    here, seal_here = write_with(sys.executable, tmp_path / "here")
    assert here == zarr.__version__
    subprocess.run([another_python(), "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", *PACKAGES]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip cannot install zarr: {done.stderr.splitlines()[-1]}")
    there, seal_there = write_with(python, tmp_path / "there")
    assert there != here, "expected another version of zarr for Python 3.12"
    assert seal_there == seal_here
    names = {path.relative_to(tmp_path / "here") for path in tmp_path.glob("here/**/*")}
    assert len(names) == 3 + 1 + 2 * (9 + 7) + (9 + 7)
    for name in names:
        path, other = tmp_path / "here" / name, tmp_path / "there" / name
        assert path.is_dir() or path.read_bytes() == other.read_bytes(), name
