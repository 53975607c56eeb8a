"""Make this process like one on Windows: what only POSIX systems have is gone, and names behave.

`become_windows()` is called before the first import of obygaze. Modules of others are imported
first: they have their own code for Windows, which asks for the name of the system.

- Modules and names of modules that Windows lacks are gone; `msvcrt` has locks.
- A folder cannot be opened, and no time set through an open file.
- A rename fails where a file has the new name. A file that this process has open can neither be
  replaced nor renamed nor removed, and its folders cannot be renamed.
- A name is found whatever its capitals.
- Text that is written without `newline` has `\\r\\n`, and without `encoding` is in cp1252.
"""

import ast
import builtins
import ctypes
import errno
import fcntl
import importlib
import io
import multiprocessing.context
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import mypy

# What each system has, as the type checker knows it.
STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"


@cache
def stub_of(module: str) -> ast.Module:
    stub = STUBS / module / "__init__.pyi"
    if not stub.exists():
        stub = STUBS / f"{module}.pyi"
    return ast.parse(stub.read_text(encoding="utf-8"))


def names_on(system: str, module: str, *, imported: bool = True) -> set[str]:
    """Return the names of a module of Python on a system: those of its stub."""
    facts = SimpleNamespace(platform=system, version_info=sys.version_info)
    names: set[str] = set()

    def collect(statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            match statement:
                case ast.If(test=test, body=body, orelse=orelse):
                    condition = compile(ast.Expression(test), module, "eval")
                    is_true = eval(condition, {"sys": facts})  # noqa: S307
                    collect(body if is_true else orelse)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names.add(name)
                case ast.Assign(targets=[ast.Name(id=name)]):
                    names.add(name)
                case ast.ImportFrom(names=aliases) if imported:
                    names.update(alias.asname or alias.name for alias in aliases)

    collect(stub_of(module).body)
    return {name for name in names if not name.startswith("_")}


def absent_names(module: str) -> set[str]:
    """Return the names of a module that Linux has and Windows lacks."""
    return names_on("linux", module) - names_on("win32", module)


MODULES = sorted(
    stub.stem
    for stub in STUBS.glob("*.pyi")
    if 'platform != "win32"' in stub.read_text(encoding="utf-8")
    and absent_names(stub.stem)
    and not names_on("win32", stub.stem, imported=False)
)
ABSENT = {
    module: absent_names(module)
    for module in ("errno", "mmap", "os", "select", "signal", "socket", "time")
}
# They use what this process will lack, and a laptop has neither.
HIDDEN = ("torch", "transformers")
# The event loop of this system, in which zarr works, needs it.
USED_BY_PYTHON = {"AF_UNIX", "EPOLLIN", "EPOLLOUT"}
# They import modules of the system at their own start, for which they have other code.
FIRST = ("asyncio", "concurrent.futures", "ctypes.util", "getpass", "http.server")
FIRST += ("logging", "multiprocessing.pool", "subprocess", "tempfile", "uuid")
FIRST += ("webbrowser", "zipfile", "click.testing", "h5py", "jinja2", "joblib")
FIRST += ("matplotlib.pyplot", "numpy", "PIL.Image", "safetensors.numpy", "scipy.stats")
FIRST += ("sklearn.linear_model", "sklearn.svm", "tqdm", "zarr", "numcodecs")
Call = Callable[..., Any]
_real_listdir = os.listdir
_real_lstat = os.lstat


def become_windows() -> None:
    """Change this process for good."""
    for name in FIRST:
        importlib.import_module(name)
    # The standard library decides at its import which of two ways it takes.
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    shutil._copyxattr = lambda *paths, **options: None  # type: ignore[attr-defined]
    shutil.disk_usage = _disk_usage(os.statvfs)
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]
    for name in HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment]
    sys.modules["msvcrt"] = _msvcrt(fcntl.flock)
    _take_away()
    for name in ("listdir", "lstat", "scandir", "stat"):
        setattr(os, name, _of_any_case(getattr(os, name)))
    os.mkdir = _of_any_case(os.mkdir)
    os.utime = _of_any_case(_utime(os.utime))
    os.rmdir = _of_any_case(_not_while_open(os.rmdir))
    os.remove = _of_any_case(_not_while_open(os.remove))
    os.unlink = os.remove
    os.rename = _rename(os.rename, replaces=False)
    os.replace = _rename(os.replace, replaces=True)
    os.link = _rename(os.link, replaces=False, moves=False)
    os.open = _of_any_case(_no_folder(os.open))
    builtins.open = io.open = _of_any_case(_no_folder(_text(io.open)))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="cp1252", newline="\r\n")  # type: ignore[union-attr]


def _disk_usage(statvfs: Call) -> Call:
    def usage(path: Any) -> Any:
        status = statvfs(path)
        free = status.f_bavail * status.f_frsize
        return SimpleNamespace(free=free)

    return usage


def _take_away() -> None:
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    # Other processes are started anew.
    multiprocessing.context._concrete_contexts = {  # type: ignore[attr-defined]
        "spawn": multiprocessing.get_context("spawn")
    }
    for module_name, names in ABSENT.items():
        module = importlib.import_module(module_name)
        for name in names - USED_BY_PYTHON:
            if hasattr(module, name):
                delattr(module, name)
    signal.SIGBREAK = signal.SIGTERM  # type: ignore[attr-defined]
    load = ctypes.CDLL

    def loaded(name: str | None, *arguments: Any, **options: Any) -> Any:
        if name is None:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        return load(name, *arguments, **options)

    def fill(status: Any) -> int:
        status._obj.total_physical = 16 * 2**30
        return 1

    ctypes.CDLL = loaded  # type: ignore[assignment,misc]
    kernel = SimpleNamespace(
        GlobalMemoryStatusEx=fill,
        # A process is its own handle here; 258 says that it still runs.
        OpenProcess=lambda rights, inherit, process: (
            process if _lexists_as_it_is(f"/proc/{process}") else 0
        ),
        GetLastError=lambda: 87,
        WaitForSingleObject=lambda handle, wait: 258,
        CloseHandle=lambda handle: 1,
    )
    ctypes.windll = SimpleNamespace(kernel32=kernel)  # type: ignore[attr-defined]


def _msvcrt(flock: Call) -> ModuleType:
    """Return a module with a lock as Windows has it: two open files of one process exclude it."""

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        try:
            flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    module = ModuleType("msvcrt")
    module.LK_NBLCK = 2  # type: ignore[attr-defined]
    module.locking = locking  # type: ignore[attr-defined]
    return module


def found(path: str) -> str:
    """Return the path of a file or folder with the capitals that its names have."""
    path = path.replace("\\", "/")
    if _lexists_as_it_is(path):
        return path
    parent, name = os.path.split(path)
    if not name or parent == path:
        return path
    folder = found(parent) if parent else "."
    try:
        names = _real_listdir(folder)
    except OSError:
        return path
    same = [other for other in names if other.casefold() == name.casefold()]
    spelled = same[0] if same else name
    return f"{folder}/{spelled}" if parent else spelled


def _lexists_as_it_is(path: str) -> bool:
    try:
        _real_lstat(path)
    except (OSError, ValueError):
        return False
    return True


def _of_any_case(call: Call) -> Call:
    def called(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str | os.PathLike):
            path = found(os.fspath(path))
        return call(path, *arguments, **options)

    return called


def is_open(path: str) -> bool:
    """Return whether this process has a file open, or mapped, or one in a folder."""
    real = os.path.realpath(path)
    opened = []
    for descriptor in _real_listdir("/proc/self/fd"):
        try:
            opened.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        except OSError:
            continue
    with _open("/proc/self/maps", encoding="utf-8") as stream:
        opened += [line.split(maxsplit=5)[-1].rstrip() for line in stream]
    return any(name == real or name.startswith(f"{real}/") for name in opened)


_open = io.open


def _denied(path: str) -> PermissionError:
    return PermissionError(errno.EACCES, "Permission denied", path)


def _not_while_open(call: Call) -> Call:
    def called(path: Any, *arguments: Any, **options: Any) -> Any:
        if is_open(path):
            raise _denied(path)
        return call(path, *arguments, **options)

    return called


def _rename(call: Call, *, replaces: bool, moves: bool = True) -> Call:
    def called(source: Any, target: Any, **options: Any) -> Any:
        old = found(os.fspath(source))
        new = found(os.fspath(target))
        is_same = _lexists_as_it_is(new) and Path(old).samefile(new)
        if moves and is_open(old):
            raise _denied(old)
        if _lexists_as_it_is(new) and not is_same:
            if not replaces:
                raise FileExistsError(errno.EEXIST, "File exists", new)
            if is_open(new) or Path(new).is_dir():
                raise _denied(new)
        if is_same and moves:
            new = os.fspath(target)
        return call(old, new, **options)

    return called


def _no_folder(call: Call) -> Call:
    def called(path: Any, *arguments: Any, **options: Any) -> Any:
        has_opener = options.get("opener") is not None
        if isinstance(path, str) and not has_opener and Path(path).is_dir():
            raise _denied(path)
        return call(path, *arguments, **options)

    return called


def _text(call: Call) -> Call:
    def opened(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **options: Any,
    ) -> Any:
        if "b" not in mode:
            encoding = encoding or "cp1252"
            if newline is None and not mode.startswith("r"):
                newline = "\r\n"
        return call(file, mode, buffering, encoding, errors, newline, **options)

    return opened


def _utime(call: Call) -> Call:
    def called(path: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(path, int):
            raise TypeError(
                "utime: path should be string, bytes or os.PathLike, not int"
            )
        call(path, *arguments, **options)

    return called
