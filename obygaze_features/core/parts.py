"""Parts of one's own: the function or class that `FILE.py:NAME` or `package.module:NAME` names.

Such a name may stand wherever a backbone or a model is named. Own code is one file, of which
records have the hash. It is run from its bytes, with its folder not in `sys.path`: what it imports
is installed.

Commands call `trust` with what a person types, which may run. A name that only stands in a protocol
is refused until a person trusts it. Classes of scikit-learn, by names such as `sklearn.svm.SVC`,
need no trust.
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
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from obygaze_features.core.errors import FixInput, FixUsage, NotFound, near
from obygaze_features.core.files import sha256_bytes
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
# The modules of own code that were run, by their file and its hash.
_LOADED: dict[tuple[Path, str], ModuleType] = {}


@dataclass(frozen=True)
class Part:
    """What a name of own code stands for; nothing is imported before `load`.

    Args:
        name: The name as records have it, without the folder of a file.
        package: The file with the start of its hash, or the name and version of an installed
            package.
        module: The name of the module.
        attribute: The name of the function or class in it.
        file: The file of the module; None for a module of an installed package.
    """

    name: str
    package: str
    module: str
    attribute: str
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
        return call_foreign(function, f"{self.name} {failure}")

    def refuse(self, reason: str) -> FixInput:
        """Return the error that the part, or what it returned, is not as it must be."""
        return FixInput(f"{self.name} {reason}", where=self.where)

    def _import(self) -> ModuleType:
        if self.file is None:
            return importlib.import_module(self.module)
        code = self.file.read_bytes()
        key = (self.file, sha256_bytes(code))
        before = sys.modules.get(self.module)
        if before is not None and before not in _LOADED.values():
            origin = getattr(before, "__file__", None) or "of Python"
            raise FixInput(
                f"the module {self.module} is another one: {origin}",
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
    return _part_of_file(name_in_records, path, path.stem, attribute)


def _name_in_records(name: str) -> str:
    """Return a name without the folder of a file."""
    source, _, attribute = name.rpartition(":")
    return f"{Path(source).name}:{attribute}" if source.endswith(".py") else name


def _part_of_module(name: str, module: str, attribute: str) -> Part:
    """Return the part of a module: of the working folder, or else where Python finds it."""
    root = module.partition(".")[0]
    if root == "__main__":
        raise FixUsage("own code must be in a file or a module", where=name)
    here = Path.cwd().resolve()
    place = _place_of(here, root)
    if place is None:
        spec = importlib.util.find_spec(root)
        if spec is None:
            raise NotFound(f"no module called {root!r}", where=name)
        packages = packages_of_modules().get(root, [])
        if packages:
            package = f"{packages[0]} {metadata.version(packages[0])}"
            return Part(name, package, module, attribute)
        place = Path(spec.origin or root)
    if "." in module:
        if _place_of(place.parent, module.rpartition(".")[2]) is None:
            raise NotFound(f"no module called {module!r}", where=str(place.parent))
        raise FixInput(
            "own code is one file, and this one is of a package",
            where=str(place),
            hint=f"FILE.py:{attribute}",
        )
    return _part_of_file(name, place, module, attribute)


@cache
def packages_of_modules() -> Mapping[str, Sequence[str]]:
    """Return the installed packages of each module; finding them takes a second."""
    return metadata.packages_distributions()


def _part_of_file(name: str, file: Path, module: str, attribute: str) -> Part:
    """Return the part of a file, with the start of its hash; an error if it imports own files."""
    for root in imported_roots(file):
        if not root or _place_of(file.parent, root) is not None:
            raise FixInput(
                f"own code is one file, and this one imports {root or 'from its package'}",
                where=str(file),
                hint="put both into one file, or install what is imported as a package",
            )
    package = f"{file.name} {sha256_bytes(file.read_bytes())[:16]}"
    return Part(name, package, module, attribute, file)


def _place_of(folder: Path, root: str) -> Path | None:
    """Return the file that a folder of own code has for a module or a package of a name."""
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
        # Running the file says what is wrong with it.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").partition(".")[0]
