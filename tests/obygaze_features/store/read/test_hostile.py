"""A corpus of stores and archives from strangers, through every way into the program.

Each gets an error that says what is wrong, or does no harm: nothing is written outside the closed
list of names, no process ends, and none of them takes more than 100 MB or 10 s.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.hostile_stores import ARRAYS, CASES, N_CLIPS, Case

from obygaze_features.store.format.names import StoreNames

pytest.importorskip("obstore")

NAMES = StoreNames({spec.name: len(spec.tail_shape) for spec in ARRAYS}, N_CLIPS, 3)
DOCUMENTS = {"seal.json", "licence.json", "partial.json"}
DRAFT = re.compile(r"parts/[0-9a-f]{64}")
# With these ways a file is written.
COPIES = ("pull", "http", "zip")


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """The answers of one process, which may use 100 MB more than a right store needs."""
    tests = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "support.hostile_run"],
        # The program comes first: tests/ has folders of the same names.
        cwd=tests.parent,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_corpus_is_large_and_each_of_it_is_another(answers) -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 160
    assert answers["cases"].keys() == {"warm", *names}
    assert answers["cases"]["warm"]["answers"].keys() >= {"verify", "read", *COPIES}
    for kind, message, _ in answers["cases"]["warm"]["answers"].values():
        assert (kind, message) == ("", "")


def test_the_corpus_takes_little_memory_and_writes_nothing_beside_its_folders(
    answers,
) -> None:
    assert answers["growth"] < 100_000_000
    assert answers["outside"] == ["blosc", "plain", "www", "zstd"]


@pytest.mark.parametrize("case", CASES, ids=[ascii(case.name) for case in CASES])
def test_a_hostile_store_gets_its_answer(answers, case) -> None:
    found = answers["cases"][case.name]
    for way, (kind, message, seconds) in found["answers"].items():
        if is_refused(case, way):
            assert kind in ("Corrupt", "FixInput", "Mismatch", "NotFound"), (
                way,
                message,
            )
            assert re.search(case.words, message), (way, message)
            assert len(message.splitlines()) <= 3
            assert len(message) < 700
            assert all(line.isprintable() for line in message.splitlines()), message
        else:
            assert (kind, message) == ("", ""), way
        assert seconds < 10, way
    for name in found["written"]:
        file = name.removeprefix("store/")
        assert file in NAMES or file in DOCUMENTS or DRAFT.fullmatch(file), name


def is_refused(case: Any, way: str) -> bool:
    """Whether a way must answer with an error."""
    if not isinstance(case, Case):
        return bool(case.words)
    refused = case.refused.split()
    if way == "verify-hash":
        return "verify" in refused or way in refused
    return way in refused
