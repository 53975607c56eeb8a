"""Parts of one's own: the function or class that `FILE.py:NAME` or `package.module:NAME` names.

Such a name may stand wherever a backbone or a model is named. The code is imported as Python does
it: the folder of the file (for a module the working folder) comes first in `sys.path` while it is
imported or called, and the module has its own name.

Commands call `trust` with what a person types, which may run. A name that only stands in a protocol
is refused until a person trusts it. Classes of scikit-learn, by names such as `sklearn.svm.SVC`,
need no trust. Own code is one file, of which records have the hash: what it imports is installed.
"""

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Lock, get_ident
from types import ModuleType
from typing import Any, TypeVar

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, near
from obygaze_features.core.files import sha256_file
from obygaze_features.core.foreign import INSTALLED, OURS, call_foreign, short_value
from obygaze_features.core.shell import shell_word

T = TypeVar("T")
_FILE = r"(?P<file>[^\s'\"\[\]{},=]+\.py)"
_MODULE = r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
_OWN_NAME = re.compile(rf"(?:{_FILE}|{_MODULE}):(?P<attribute>[A-Za-z_]\w*)")
# A name alone may have a folder with blanks; within a text, a blank ends the name.
_WHOLE_NAME = re.compile(r"(?P<file>[^'\"\[\]{}=]+\.py):(?P<attribute>[A-Za-z_]\w*)")
_OF_SKLEARN = re.compile(r"sklearn(?:\.[a-z_]\w*)+\.[A-Z]\w*")
# The names of own code that was trusted in this process, with the file of `FILE.py:NAME`.
_TRUSTED: dict[str, Path | None] = {}
# The modules that were imported from folders of own code: their files, and the hashes of these.
_IMPORTED: dict[str, tuple[Path, str]] = {}
# Backbones are called in threads.
_LOCK = Lock()


@dataclass(frozen=True)
class Part:
    """What a name of own code stands for; nothing is imported before `load`.

    Args:
        name: The name as records have it, without the folder of a file.
        package: The file with the start of its hash, or the name and version of an installed
            package.
        module: The name of the module.
        attribute: The name of the function or class in it.
        folder: The folder that `sys.path` needs; None for a module of an installed package.
        file: The file of the module; None for a module of an installed package.
    """

    name: str
    package: str
    module: str
    attribute: str
    folder: Path | None = None
    file: Path | None = None

    @property
    def where(self) -> str:
        """The place of the code, for an error."""
        return f"{self.file or self.module} ({self.package})"

    def load(self) -> Any:
        """Return the function or class."""
        module = self.call(self._import, "cannot be imported")
        if not hasattr(module, self.attribute):
            source = self.name.removesuffix(self.attribute).rstrip(".:")
            meant = near(self.attribute, dir(module))
            raise NotFound(f"{source} has no {self.attribute}{meant}", where=self.where)
        return getattr(module, self.attribute)

    def load_function(self) -> Callable[..., Any]:
        """Return what can be called; an error for anything else."""
        function = self.load()
        if not callable(function):
            raise self.refuse(f"must be a function, got {short_value(function)}")
        return function  # type: ignore[no-any-return]

    def call(self, function: Callable[[], T], failure: str) -> T:
        """Return the result of the part's code; errors name the part, and `failure`."""
        with self._visible():
            return call_foreign(function, f"{self.name} {failure}")

    def refuse(self, reason: str) -> FixInput:
        """Return the error that the part, or what it returned, is not as it must be."""
        return FixInput(f"{self.name} {reason}", where=self.where)

    def _import(self) -> ModuleType:
        if self.folder is not None and self.file is not None:
            _require_free(self.file, self.module)
            importlib.invalidate_caches()
        return importlib.import_module(self.module)

    @contextmanager
    def _visible(self) -> Iterator[None]:
        """Let imports look into the folder first, also those in a function that is called."""
        if self.folder is None:
            yield
            return
        with _LOCK:
            _forget_others(self.folder)
            before = set(sys.modules)
            writes_no_bytecode = sys.dont_write_bytecode
            # Python compares bytecode by second and size: a quick change would go unseen.
            sys.dont_write_bytecode = True
            sys.path.insert(0, str(self.folder))
            call = _begin_call(self.file)
        imported: dict[str, Path] = {}
        try:
            yield
        finally:
            with _LOCK:
                _CALLS.remove(call)
                sys.path.remove(str(self.folder))
                sys.dont_write_bytecode = writes_no_bytecode
                for name in set(sys.modules) - before:
                    file = getattr(sys.modules[name], "__file__", None)
                    if file and _has(self.folder, name.partition(".")[0]):
                        imported[name] = Path(file)
                        _IMPORTED[name] = (Path(file), sha256_file(Path(file)))
        self._require_recorded(set(imported.values()) - call.files_of_others)

    def _require_recorded(self, imported: Iterable[Path]) -> None:
        """Raise an error if code that was imported is in no hash, as that of a pickled model."""
        for file in sorted(set(imported) - {self.file}):
            if file.suffix == ".py" and {*INSTALLED}.isdisjoint(file.parts):
                # What was imported with it is imported again, and refused again.
                _forget_all()
                raise self.refuse(f"needs {file.name}, and own code is one file")


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of own code: its thread, and the files of parts that others called meanwhile."""

    thread: int
    file: Path | None
    files_of_others: set[Path | None]


# The calls that have not ended.
_CALLS: list[_Call] = []


def _begin_call(file: Path | None) -> _Call:
    """Return a call of own code of a file; calls in other threads know of each other."""
    call = _Call(get_ident(), file, set())
    for other in _CALLS:
        if other.thread != call.thread:
            other.files_of_others.add(file)
            call.files_of_others.add(other.file)
    _CALLS.append(call)
    return call


def is_own_code(name: object) -> bool:
    """Return whether a name is one of own code: `FILE.py:NAME` or `package.module:NAME`."""
    if not isinstance(name, str):
        return False
    return bool(_OWN_NAME.fullmatch(name) or _WHOLE_NAME.fullmatch(name))


def is_of_sklearn(name: object) -> bool:
    """Return whether a name is that of a class of scikit-learn: `sklearn.svm.SVC`."""
    return isinstance(name, str) and _OF_SKLEARN.fullmatch(name) is not None


def trust(texts: Iterable[str]) -> None:
    """Allow the own code that is named in some texts to run in this process.

    The folder of a file does not matter later: a record names the file only.
    """
    trusted: dict[str, Path | None] = {}
    for text in texts:
        matches = list(_OWN_NAME.finditer(text))
        whole_name = _WHOLE_NAME.fullmatch(text)
        if whole_name is not None:
            matches = [whole_name]
        for match in matches:
            path = Path(match["file"]).expanduser().resolve() if match["file"] else None
            name = _name_in_records(match.group())
            other = trusted.get(name)
            if other is not None and other != path:
                raise FixUsage(
                    f"two files are called {other.name}: {other} and {path}",
                    hint="rename one of them",
                )
            trusted[name] = path
    _TRUSTED.update(trusted)


def find_part(name: str) -> Part:
    """Return the part of a name; an error where its code is not trusted, or is not there."""
    if is_of_sklearn(name):
        module, _, attribute = name.rpartition(".")
        package = f"scikit-learn {metadata.version('scikit-learn')}"
        return Part(name, package, module, attribute)
    source, _, attribute = name.rpartition(":")
    name_in_records = _name_in_records(name)
    if name_in_records not in _TRUSTED:
        # A record has the name of a file without its folder.
        is_elsewhere = source.endswith(".py") and not Path(source).is_file()
        typed = f"FOLDER/{name}" if is_elsewhere else name
        raise FixUsage(
            f"{name} would run own code, and is not trusted",
            hint=f"read the code, then --trust {shell_word(typed)} (in Python trust=[{typed!r}])",
        )
    path = _TRUSTED[name_in_records]
    if path is None:
        return _part_of_module(name, source, attribute)
    asked = [
        part for part in Path(source).expanduser().parts if part not in (".", "..")
    ]
    if list(path.parts[-len(asked) :]) != asked:
        raise FixUsage(
            f"{name} is not the file {path}, which is trusted",
            hint=f"--trust {shell_word(name)}",
        )
    if not path.is_file():
        raise NotFound(
            "no such file",
            where=str(path),
            hint="name the file with its path from this folder",
        )
    package = _name_with_hash(path, path.parent)
    return Part(name_in_records, package, path.stem, attribute, path.parent, path)


def _name_in_records(name: str) -> str:
    """Return a name without the folder of a file."""
    source, _, attribute = name.rpartition(":")
    return f"{Path(source).name}:{attribute}" if source.endswith(".py") else name


def _part_of_module(name: str, module: str, attribute: str) -> Part:
    """Return the part of a module: of the working folder, or else where Python finds it."""
    root = module.partition(".")[0]
    if root == "__main__":
        raise FixUsage("own code must be in a file or a module", where=name)
    folder = Path.cwd().resolve()
    if not _has(folder, root):
        spec = importlib.util.find_spec(root)
        if spec is None:
            raise NotFound(f"no module called {root!r}", where=name)
        places = [*(spec.submodule_search_locations or [spec.origin or root])]
        folder = Path(places[0]).resolve().parent
    is_installed = folder.name in INSTALLED
    packages = packages_of_modules().get(root, []) if is_installed else []
    if packages:
        package = f"{packages[0]} {metadata.version(packages[0])}"
        return Part(name, package, module, attribute)
    path = folder.joinpath(*module.split("."))
    for main in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if main.is_file():
            if "." in module:
                raise FixInput(
                    "own code is one file, and this one is of a package",
                    where=str(main),
                    hint=f"{main}:{attribute}",
                )
            package = _name_with_hash(main, folder)
            return Part(name, package, module, attribute, folder, main)
    raise NotFound(f"no module called {module!r}", where=str(folder))


@cache
def packages_of_modules() -> Mapping[str, Sequence[str]]:
    """Return the installed packages of each module; finding them takes a second."""
    return metadata.packages_distributions()


def _name_with_hash(main: Path, folder: Path) -> str:
    """Return the name of a file with the start of its hash; an error if it imports own files."""
    for root in imported_roots(main):
        if not root or _has(folder, root):
            raise FixInput(
                f"own code is one file, and this one imports {root or 'from its package'}",
                where=str(main),
                hint="put both into one file, or install what is imported as a package",
            )
    return f"{main.name} {sha256_file(main)[:16]}"


def _has(folder: Path, root: str) -> bool:
    """Return whether a folder of own code has the module or package of a name.

    A folder without `__init__.py` is a package only where Python finds no other one.
    """
    if root in OURS or folder.name in INSTALLED:
        return False
    path = folder / root
    if path.with_name(f"{root}.py").is_file() or (path / "__init__.py").is_file():
        return True
    if not path.is_dir():
        return False
    others = [place for place in sys.path if place not in ("", str(folder))]
    spec = PathFinder.find_spec(root, others)
    return spec is None or spec.origin is None


def _forget_others(folder: Path) -> None:
    """Forget all own modules if one is of another folder, or was changed since it was imported."""
    for file, sha256 in _IMPORTED.values():
        is_here = file.is_relative_to(folder) and file.is_file()
        if not is_here or sha256_file(file) != sha256:
            break
    else:
        return
    _forget_all()


def _forget_all() -> None:
    for name in _IMPORTED:
        sys.modules.pop(name, None)
    _IMPORTED.clear()


def _require_free(file: Path, name: str) -> None:
    """Raise an error where another file has the name of a module; forget an unrecorded import."""
    module = sys.modules.get(name)
    if module is None or name in _IMPORTED:
        return
    origin = getattr(module, "__file__", None)
    if origin is None or Path(origin).resolve() != file.resolve():
        problem = f"the module {name} is another one: {origin or 'of Python'}"
        raise FixInput(problem, where=str(file), hint=f"rename {file.name}")
    del sys.modules[name]


def imported_roots(file: Path) -> Iterator[str]:
    """Yield the top-level name of each import of a file; "" for an import of its own package."""
    for node in _imports_in(file.read_bytes()):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        else:
            yield "" if node.level else (node.module or "").partition(".")[0]


# A run asks for its own code at each fit.
@lru_cache
def _imports_in(code: bytes) -> Sequence[ast.Import | ast.ImportFrom]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        # The import of the file says what is wrong with it.
        return ()
    return tuple(
        node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    )
