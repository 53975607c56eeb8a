import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from obygaze_features.core import system
from obygaze_features.core.signals import on_signals
from obygaze_features.core.system import posix

TESTS = Path(__file__).resolve().parents[2]


SCRIPTS = {
    "facts": """
print(system.replace_file is windows.replace_file, system.CAN_FORK, system.memory_bytes() == 2**34)
print(system.typed_path('my films\\\\2024/x'), system.STOP_SIGNALS)
""",
    "locks": """
folder = here / 'store'
folder.mkdir()
first, second = system.open_lock(folder), system.open_lock(folder)
print(system.take_lock(first), system.take_lock(second))
folder.rename(here / 'moved')
third = system.open_lock(here / 'moved')
print(system.take_lock(third))
os.close(first)
print(system.take_lock(third), os.listdir(here / 'moved'))
""",
    "open files": """
windows.RETRY_S = 0.2
for name in ('old', 'new'):
    (here / name).write_bytes(name.encode())
stream = (here / 'old').open('rb')
try:
    system.replace_file(here / 'new', here / 'old')
except PermissionError as error:
    print(error)
pauses = []
def sleep(seconds):
    pauses.append(seconds)
    if len(pauses) == 2:
        stream.close()
windows.time.sleep = sleep
windows.RETRY_S = 60
system.replace_file(here / 'new', here / 'old')
print((here / 'old').read_bytes(), len(pauses))
""",
    "folders": """
for name in ('first', 'second', 'empty', 'full/inner'):
    (here / name).mkdir(parents=True)
system.rename_folder(here / 'first', here / 'empty')
try:
    system.rename_folder(here / 'second', here / 'full')
except OSError as error:
    print(error.errno in (17, 39))
print(sorted(os.listdir(here)))
""",
    "links": """
for name in ('file', 'link', 'folder'):
    try:
        with open(here / name, 'rb', opener=system.open_without_links) as stream:
            print(stream.read())
    except OSError as error:
        print(type(error).__name__, error.errno)
""",
}


def test_windows_is_known_and_does_these_in_its_own_way(tmp_path: Path) -> None:
    """A lock follows the folder, not its name, and leaves no file beside it."""
    for name in SCRIPTS:
        (tmp_path / name).mkdir()
    (tmp_path / "links" / "file").write_bytes(b"x")
    (tmp_path / "links" / "link").symlink_to("file")
    (tmp_path / "links" / "folder").mkdir()
    program = (
        "from support import windows as like_windows\n"
        # The scripts use nothing of other packages, whose import takes seconds.
        "like_windows.FIRST = ('asyncio', 'logging', 'subprocess', 'tempfile')\n"
        "like_windows.become_windows()\n"
        "import os\nfrom pathlib import Path\nfrom obygaze_features.core import system\n"
        "windows = __import__('sys').modules['obygaze_features.core.system.windows']\n"
    )
    for name, script in SCRIPTS.items():
        here = f"here = Path({str(tmp_path / name)!r})"
        program += f"{here}\n{script}\nprint('end of a script')\n"
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    local = {"LOCALAPPDATA": str(tmp_path / "local"), "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | local,
        cwd=tmp_path,
        capture_output=True,
        encoding="cp1252",
    )
    assert done.returncode == 0, done.stderr
    parts = [part.splitlines() for part in done.stdout.split("end of a script\n")]
    assert dict(zip(SCRIPTS, parts, strict=False)) == {
        "facts": ["True False True", "my films/2024/x ('SIGTERM', 'SIGINT')"],
        "locks": ["True False", "False", "True []"],
        # One that is open elsewhere is tried again, then named.
        "open files": [
            "another program has this file open, so it cannot be changed",
            f"  in: {tmp_path / 'open files' / 'old'}",
            "  Try: close it in programs such as Excel, a video player or obygaze, or"
            " pause OneDrive, Dropbox or the virus scanner for this folder",
            "b'new' 2",
        ],
        "folders": ["True", "['empty', 'full', 'second']"],
        "links": [
            *("b'x'", f"OSError {errno.ELOOP}", f"IsADirectoryError {errno.EISDIR}")
        ],
    }


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.EINVAL, errno.EIO])
def test_a_disk_that_cannot_sync_as_macos_is_synced_so(tmp_path, monkeypatch, code):
    plain: list[int] = []

    def refuse(descriptor: int, command: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(os, "fsync", plain.append)
    (tmp_path / "file").write_bytes(b"x")
    if code == errno.EIO:
        with pytest.raises(OSError, match="Input/output"):
            posix.sync_path(tmp_path / "file")
    else:
        posix.sync_path(tmp_path / "file")
        assert len(plain) == 1


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_handler_is_called_within_the_block_alone(name: str) -> None:
    number = signal.Signals[name]
    before = signal.getsignal(number)
    heard: list[int] = []
    with on_signals(system.STOP_SIGNALS, lambda number, _: heard.append(number)):
        signal.raise_signal(number)
    assert heard == [number]
    assert signal.getsignal(number) == before


def test_what_nohup_started_goes_on() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    heard: list[int] = []
    try:
        with on_signals(system.STOP_SIGNALS, lambda number, _: heard.append(number)):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == []


def test_another_thread_handles_no_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with on_signals(["SIGTERM"], lambda number, _: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
