"""Story 17: I need maximum, mean and one clip's tokens from a store that is larger than memory.

My laptop has no torch.
"""

import subprocess
import sys

import h5py
import numpy as np
import pytest
from support.cli import environment, without_packages

from stories.films import labelled_clips
from stories.workspace import Workspace

N_CLIPS = 240
N_TOKENS = 512
WIDTH = 512

READ_TOKENS = """\
import importlib.util
import resource
from pathlib import Path

import numpy as np
import obygaze as og

assert importlib.util.find_spec("torch") is None
store = og.open_store("tokens")
np.asarray(store.matrix("tokens", clips=["film01-001"]))

# From here on, the process may take half of what the store has.
status = Path("/proc/self/status").read_text()
used = int(status.split("VmData:")[1].split()[0]) * 1024
n_bytes = Path("tokens.npy").stat().st_size
limit = used + n_bytes // 2
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    np.ones(n_bytes, np.uint8)
except MemoryError:
    print("the whole does not fit")

one = np.asarray(store.matrix("tokens", clips=["film07-013"]))
ids = []
largest = []
means = []
for matrix in store.stream("tokens"):
    values = np.asarray(matrix)
    ids += list(matrix.clip_ids)
    largest.append(values.max(axis=1))
    means.append(values.mean(axis=1, dtype=np.float64))
    del values
np.savez(
    "read.npz", ids=ids, one=one, max=np.concatenate(largest), mean=np.concatenate(means)
)
"""


@pytest.mark.check("larger than memory")
@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
def test_tokens_of_a_store_that_is_larger_than_memory(ws: Workspace) -> None:
    rows = labelled_clips()
    ids = [row["clip_id"] for row in rows]
    ws.import_table(rows, "films")
    draws = np.random.default_rng(7)
    noise = draws.normal(size=(N_TOKENS, WIDTH)).astype(np.float16)
    tokens = np.lib.format.open_memmap(
        ws.path("tokens.npy"), "w+", np.float16, (N_CLIPS, N_TOKENS, WIDTH)
    )
    for number in range(N_CLIPS):
        # Noise does not compress, and each clip has its own scale.
        moved = np.roll(noise, draws.integers(N_TOKENS * WIDTH))
        tokens[number] = moved * np.float16(1 + number / 64)
    tokens.flush()
    with h5py.File(ws.path("tokens.h5"), "w") as file:
        file["names"] = ids
        file["tokens"] = tokens
    ws(
        "store import tokens.h5 --id-key names --array tokens=tokens --keep-frames"
        " --manifest films -o tokens"
    )
    ws.write("read.py", READ_TOKENS)
    done = subprocess.run(
        [sys.executable, "read.py"],
        cwd=ws.folder,
        env=environment(without_packages(ws.path("hidden"), "torch")),
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the whole does not fit" in done.stdout
    with np.load(ws.path("read.npz")) as read:
        assert read["ids"].tolist() == ids
        np.testing.assert_array_equal(read["one"], tokens[[ids.index("film07-013")]])
        for number in range(N_CLIPS):
            values = tokens[number]
            np.testing.assert_array_equal(read["max"][number], values.max(axis=0))
            means = values.mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(read["mean"][number], means, rtol=1e-12)
