"""What every test stands on: one thread, no colour, nobody's home, and the same draws in CI."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

# A home of the tests' own, so that no cache, token or setting of a person decides a result.
# All of this is set before any test imports numpy, torch, matplotlib or huggingface_hub.
_HOME = tempfile.TemporaryDirectory(prefix="obygaze-tests-", ignore_cleanup_errors=True)
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_SETTINGS = {
    "HOME": _HOME.name,
    "XDG_CACHE_HOME": f"{_HOME.name}/cache",
    "XDG_CONFIG_HOME": f"{_HOME.name}/config",
    "HF_HOME": f"{_HOME.name}/huggingface",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": f"{_HOME.name}/matplotlib",
    "NO_COLOR": "1",
    "PYTHONUTF8": "1",
    **dict.fromkeys(_ONE_THREAD, "1"),
    # Tests share the cores. To fork a process that holds all that they import takes longer than
    # most of their runs; those that are about several processes ask for them.
    "SLURM_CPUS_PER_TASK": "1",
    # They compute on the CPU, also where a GPU is idle.
    "CUDA_VISIBLE_DEVICES": "",
}
# The first process makes it; those that it starts for tests have it from there (support/once.py).
_SHARED = os.environ.get("OBYGAZE_TESTS_SHARED", f"{_HOME.name}/shared")
_FROM_OUTSIDE = (
    *("OBYGAZE_WORKSPACE", "OBYGAZE_DEBUG", "FORCE_COLOR", "HF_TOKEN", "HF_HUB_CACHE"),
    "AWS_PROFILE",
    # Without bytecode, every process that a test starts would compile the program anew.
    "PYTHONDONTWRITEBYTECODE",
)

# A shell that starts tests in the background has them ignore Ctrl-C, and all their children too.
signal.signal(signal.SIGINT, signal.default_int_handler)

for _name in _FROM_OUTSIDE:
    os.environ.pop(_name, None)
os.environ.update(_SETTINGS, OBYGAZE_TESTS_SHARED=_SHARED)
# Each process that collects the tests would rewrite the asserts of them all anew.
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws the same examples everywhere; time is never part of a verdict."""
    from hypothesis import HealthCheck, settings

    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    common = {"deadline": None, "max_examples": 24, "suppress_health_check": slow}
    settings.register_profile("ci", derandomize=True, database=None, **common)
    settings.register_profile("here", **common)
    settings.load_profile("ci" if os.environ.get("CI") else "here")
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        _begin_elsewhere_than_other_workers(config)


def _begin_elsewhere_than_other_workers(config: pytest.Config) -> None:
    """Have each worker collect its own share first: it finds the bytecode of the other ones."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if worker:
        tests = Path(__file__).parent
        patterns = config.getini("python_files")
        files = sorted({file for name in patterns for file in tests.rglob(name)})
        number = int(worker["workerid"].removeprefix("gw"))
        begin = len(files) * number // worker["workercount"]
        config.args = [str(file) for file in files[begin:] + files[:begin]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of all workers in one order."""
    items.sort(key=lambda item: item.path)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Search for no garbage in what is imported, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a `check` mark that does not say why its test is not in `make test`."""
    for mark in item.iter_markers("check"):
        if len(mark.args) != 1 or not isinstance(mark.args[0], str):
            raise pytest.UsageError(f'{item.nodeid}: write pytest.mark.check("reason")')


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the groups of `make check` together."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from support.groups import GroupScheduling

    return GroupScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Only processes that are killed, and are not forks of this one, need the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_decode_workers() -> Iterator[None]:
    """Start decode workers quickly."""
    # Imported late: NumPy reads the variables above.
    from support.decode_workers import forked_decode_workers

    with forked_decode_workers():
        yield


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    _HOME.cleanup()


@pytest.fixture(scope="session")
def slurm() -> Iterator[Any]:
    """A real Slurm; its tests are one group, so that it is started once."""
    from support.slurm import running_slurm

    with running_slurm() as running:
        yield running


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty workspace."""
    for kind in ("manifests", "stores"):
        (tmp_path / "workspace" / kind).mkdir(parents=True)
    return tmp_path / "workspace"
