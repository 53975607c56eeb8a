"""The tests' own tools: what is skipped where, and that CI skips no server."""

import os

import pytest
from support.servers import need_program

# Skipped and Failed are what pytest raises; neither is an Exception.
SKIPPED, FAILED = pytest.skip.Exception, pytest.fail.Exception


@pytest.mark.parametrize("ci, outcome", [("", SKIPPED), ("true", FAILED)])
def test_a_program_that_is_absent_skips_here_and_fails_in_ci(monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-server is not installed"):
        need_program("no-such-server")


def test_no_test_reads_a_persons_home_or_settings(tmp_path_factory):
    assert "obygaze-tests-" in os.environ["HOME"]
    assert os.environ["HF_HOME"].startswith(os.environ["HOME"])
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert "OBYGAZE_WORKSPACE" not in os.environ
