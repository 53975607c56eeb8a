"""User code: the function or class that `FILE.py:NAME` or `package.module:NAME` names.

The name of a backbone or of a model may be such a name. User code is one file, and recipes and runs
record the hash of the file. The file is run from its bytes, and its folder is not in `sys.path`, so
that it can import installed packages only.

Commands call `trust` with the names that the user types: this code may run. A name that only a
protocol contains is refused until the user trusts it. Classes of scikit-learn, such as
`sklearn.svm.SVC`, need no trust.
"""

import ast
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, near
from obygaze_features.core.external_calls import (
    INSTALLED,
    OURS,
    call_user_code,
    short_value,
)
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.shell import shell_word

T = TypeVar("T")
_FILE = r"(?P<file>[^\s'\"\[\]{},=]+\.py)"
_MODULE = r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
_OWN_NAME = re.compile(rf"(?:{_FILE}|{_MODULE}):(?P<attribute>[A-Za-z_]\w*)")
# A whole text may be a path with blanks; within a longer text, a blank ends the name.
_WHOLE_NAME = re.compile(r"(?P<file>[^'\"\[\]{}=]+\.py):(?P<attribute>[A-Za-z_]\w*)")
_OF_SKLEARN = re.compile(r"sklearn(?:\.[a-z_]\w*)+\.[A-Z]\w*")
# Names that are trusted in this process, with the file of `FILE.py:NAME`.
_TRUSTED: dict[str, Path | None] = {}
# Modules of user code that were run, by their file and its hash.
_LOADED: dict[tuple[Path, str], ModuleType] = {}


@dataclass(frozen=True)
class UserCode:
    """A function or class of user code; nothing is imported before `load`.

    Args:
        name: The name in recipes and runs; a file is named without its folder.
        package: The file name and the start of its hash, or the name and version of an installed
            package.
        module: The name of the module.
        attribute: The name of the function or class in the module.
        file: The file of the module; None for a module of an installed package.
    """

    name: str
    package: str
    module: str
    attribute: str
    file: Path | None = None

    @property
    def where(self) -> str:
        """The file or module and its version, for an error."""
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
        """Return the function; raise an error if it cannot be called."""
        function = self.load()
        if not callable(function):
            raise self.refuse(f"must be a function, got {short_value(function)}")
        return function  # type: ignore[no-any-return]

    def call(self, function: Callable[[], T], failure: str) -> T:
        """Call user code and return its result; errors start with the name and `failure`."""
        return call_user_code(function, f"{self.name} {failure}")

    def refuse(self, reason: str) -> FixInput:
        """Return the error for user code, or a result of it, that is invalid for this reason."""
        return FixInput(f"{self.name} {reason}", where=self.where)

    def _import(self) -> ModuleType:
        if self.file is None:
            return importlib.import_module(self.module)
        code = self.file.read_bytes()
        key = (self.file, sha256_bytes(code))
        before = sys.modules.get(self.module)
        if before is not None and before not in _LOADED.values():
            origin = getattr(before, "__file__", None) or "Python"
            raise FixInput(
                f"the module name {self.module!r} is already used by {origin}",
                where=str(self.file),
                hint=f"rename {self.file.name}",
            )
        module = _LOADED.get(key)
        if module is None:
            module = ModuleType(self.module)
            module.__file__ = str(self.file)
            _LOADED[key] = module
            sys.modules[self.module] = module
            try:
                exec(compile(code, str(self.file), "exec"), vars(module))
            except BaseException:
                del _LOADED[key], sys.modules[self.module]
                raise
        sys.modules[self.module] = module
        return module


def is_user_code(name: object) -> bool:
    """Return whether a name has the form `FILE.py:NAME` or `package.module:NAME`."""
    if not isinstance(name, str):
        return False
    return bool(_OWN_NAME.fullmatch(name) or _WHOLE_NAME.fullmatch(name))


def is_of_sklearn(name: object) -> bool:
    """Return whether a name is a class of scikit-learn, such as `sklearn.svm.SVC`."""
    return isinstance(name, str) and _OF_SKLEARN.fullmatch(name) is not None


def trust(texts: Iterable[str]) -> None:
    """Allow user code that these texts name to run in this process.

    The path of each file is remembered, because protocols and runs record the file name without its
    folder.
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


def find_user_code(name: str) -> UserCode:
    """Return the user code of a name; raise an error if it is missing or not trusted."""
    if is_of_sklearn(name):
        module, _, attribute = name.rpartition(".")
        package = f"scikit-learn {metadata.version('scikit-learn')}"
        return UserCode(name, package, module, attribute)
    source, _, attribute = name.rpartition(":")
    name_in_records = _name_in_records(name)
    if name_in_records not in _TRUSTED:
        # Protocols and runs record a file name without its folder.
        is_elsewhere = source.endswith(".py") and not Path(source).is_file()
        typed = f"FOLDER/{name}" if is_elsewhere else name
        raise FixUsage(
            f"{name} is user code that is not trusted",
            hint=f"read the code, then add --trust {shell_word(typed)} (in Python"
            f" trust=[{typed!r}])",
        )
    path = _TRUSTED[name_in_records]
    if path is None:
        return _code_of_module(name, source, attribute)
    asked = [
        part for part in Path(source).expanduser().parts if part not in (".", "..")
    ]
    if list(path.parts[-len(asked) :]) != asked:
        raise FixUsage(
            f"{name} is not trusted: the trusted file of this name is {path}",
            hint=f"read the code, then add --trust {shell_word(name)}",
        )
    if not path.is_file():
        raise NotFound(
            "no such file",
            where=str(path),
            hint="use the path of the file, relative to the current folder",
        )
    return _code_of_file(name_in_records, path, path.stem, attribute)


def _name_in_records(name: str) -> str:
    """Return a name without the folder of its file."""
    source, _, attribute = name.rpartition(":")
    return f"{Path(source).name}:{attribute}" if source.endswith(".py") else name


def _code_of_module(name: str, module: str, attribute: str) -> UserCode:
    """Return user code of a module in the working folder, or of a module that Python finds."""
    root = module.partition(".")[0]
    if root == "__main__":
        raise FixUsage(
            "expected user code in a file or a module, got code of __main__", where=name
        )
    here = Path.cwd().resolve()
    place = _find_file(here, root)
    if place is None:
        spec = importlib.util.find_spec(root)
        if spec is None:
            raise NotFound(f"no module called {root!r}", where=name)
        packages = packages_of_modules().get(root, [])
        if packages:
            package = f"{packages[0]} {metadata.version(packages[0])}"
            return UserCode(name, package, module, attribute)
        place = Path(spec.origin or root)
    if "." in module:
        if _find_file(place.parent, module.rpartition(".")[2]) is None:
            raise NotFound(f"no module called {module!r}", where=str(place.parent))
        raise FixInput(
            "expected user code of one file, got a module of a package",
            where=str(place),
            hint=f"use FILE.py:{attribute}",
        )
    return _code_of_file(name, place, module, attribute)


@cache
def packages_of_modules() -> Mapping[str, Sequence[str]]:
    """Return the installed packages of each module; this takes about a second."""
    return metadata.packages_distributions()


def _code_of_file(name: str, file: Path, module: str, attribute: str) -> UserCode:
    """Return user code of a file; raise an error if the file imports other files of the user."""
    for root in imported_roots(file):
        is_beside = not root or _find_file(file.parent, root) is not None
        if is_beside or _is_of_no_package(root):
            raise FixInput(
                f"expected user code of one file, but it imports {root or 'its package'}",
                where=str(file),
                hint="put both into one file, or install the imported code as a package",
            )
    package = f"{file.name} {sha256_bytes(file.read_bytes())[:16]}"
    return UserCode(name, package, module, attribute, file)


def _is_of_no_package(root: str) -> bool:
    """Return whether Python finds a module outside installed packages, such as in PYTHONPATH."""
    spec = PathFinder.find_spec(root)
    if spec is None or root in OURS or root in sys.stdlib_module_names:
        return False
    is_installed = not set(INSTALLED).isdisjoint(Path(spec.origin or "").parts)
    return not is_installed and root not in packages_of_modules()


def _find_file(folder: Path, root: str) -> Path | None:
    """Return the file of a module or package of user code in a folder, or None."""
    if root in OURS or folder.name in INSTALLED:
        return None
    for file in (folder / f"{root}.py", folder / root / "__init__.py"):
        if file.is_file():
            return file
    return None


def imported_roots(file: Path) -> Iterator[str]:
    """Yield the top-level name of each import of a file; "" for an import of its own package."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        # Running the file raises an error with the line.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").partition(".")[0]
