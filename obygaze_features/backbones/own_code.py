"""The code of a user's own backbone: imported in a namespace of its own, and hashed for recipes.

Two backbones may both have a `util.py`, and a file beside the code may have the name of an
installed package. So the files of a folder are imported as modules of a package that is made for
one backbone, and only the imports in these files look into the folder: all other code has the
modules that it would have without the backbone.
"""

import ast
import builtins
import importlib
import importlib.util
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from threading import RLock
from types import CodeType, ModuleType
from typing import Any

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_bytes, sha256_file
from obygaze_features.core.imported_files import files_of_code, imports_of

_PREFIX = "_obygaze_own_"
_OURS = ("obygaze", "obygaze_features", "obygaze_models")
_INSTALLED = ("site-packages", "dist-packages")
_NUMBERS = itertools.count(1)

Code = Mapping[str, Mapping[str, str]]
"""The sha256 of each file of own code, and the versions of the packages that these import."""


class OwnCode:
    """The modules of one backbone: those of a folder, under a package name of their own.

    `files` has the sha256 of each file of the folder as it was when it was imported.
    """

    def __init__(self, folder: Path, main: Path) -> None:
        self.folder = folder
        self.main = main
        self.package = f"{_PREFIX}{next(_NUMBERS)}"
        self.files: dict[Path, str] = {}
        self.recorded: Code | None = None
        self._builtins = {**vars(builtins), "__import__": self._import}
        root = ModuleType(self.package)
        root.__path__ = [str(folder)]
        sys.modules[self.package] = root
        _NAMESPACES[self.package] = self

    def load_main(self) -> ModuleType:
        """Return the module of the main file."""
        names = self.main.relative_to(self.folder).with_suffix("").parts
        with self.visible():
            if "." in names[-1]:  # a file such as net.v2.py, which no import can name
                return self._load_file(f"{self.package}.main", self.main)
            return importlib.import_module(".".join((self.package, *names)))

    def is_current(self) -> bool:
        """Return whether the imported files are still as they were."""
        return all(
            path.is_file() and sha256_file(path) == sha256
            for path, sha256 in self.files.items()
        )

    def has(self, root: str) -> bool:
        """Return whether the folder has a module or a package of this name.

        A folder without `__init__.py` is a package only if none of that name is installed.
        """
        if root in _OURS or self.folder.name in _INSTALLED:
            return False
        path = self.folder / root
        if path.with_name(f"{root}.py").is_file() or (path / "__init__.py").is_file():
            return True
        return path.is_dir() and not _is_installed(root)

    def code(self) -> Code:
        """Return what recipes record: the imported files, and those that can be imported later."""
        files = files_of_code(self.main, self.folder, self.has)
        current = {path: self.files.get(path) or sha256_file(path) for path in files}
        return _recorded(current | self.files, self.main, self.has)

    def fix(self) -> Code:
        """Return what recipes record; from now on, no other file can be imported."""
        self.recorded = self.code()
        return self.recorded

    @contextmanager
    def visible(self) -> Iterator[None]:
        """Let other code find the modules of the folder that are installed nowhere.

        A module that was pickled as a whole, and imports by name, need this.
        """
        with _LOCK:
            finder = _Aliases(self)
            sys.meta_path.insert(0, finder)
            try:
                yield
            finally:
                sys.meta_path.remove(finder)
                for name in finder.aliases:
                    sys.modules.pop(name, None)

    def note(self, path: Path, data: bytes) -> None:
        """Note the sha256 of a file that is imported; it must be the one in the recipe."""
        sha256 = sha256_bytes(data)
        if self.recorded is not None:
            label = _label(path, self.main)
            if label not in self.recorded["files"]:
                problem = f"{label} is imported while clips are computed, so the recipe lacks it"
                raise FixInput(
                    problem,
                    where=str(self.main),
                    hint="import it at the top of the file",
                )
            if self.recorded["files"][label] != sha256:
                problem = f"{label} was changed since the backbone was loaded"
                raise FixInput(
                    problem, where=str(self.main), hint="load the backbone again"
                )
        self.files[path] = sha256

    def spec(self, name: str) -> ModuleSpec | None:
        """Return how a module of the package is imported."""
        path = self.folder.joinpath(*name.split(".")[1:])
        init = path / "__init__.py"
        file = path.with_name(f"{path.name}.py")
        if init.is_file():
            return self._spec_of(name, init, [str(path)])
        if file.is_file():
            return self._spec_of(name, file, None)
        if path.is_dir():
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(path)]
            return spec
        return None

    def prepare(self, module: ModuleType) -> None:
        """Make the imports of a module look into the folder first."""
        module.__dict__["__builtins__"] = self._builtins

    def _spec_of(
        self, name: str, path: Path, inside: list[str] | None
    ) -> ModuleSpec | None:
        loader = _OwnLoader(self, name, str(path))
        return importlib.util.spec_from_file_location(
            name, path, loader=loader, submodule_search_locations=inside
        )

    def _load_file(self, name: str, path: Path) -> ModuleType:
        if name in sys.modules:
            return sys.modules[name]
        spec = self._spec_of(name, path, None)
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        except BaseException:
            del sys.modules[name]
            raise
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Import as the statement does, from the folder if it has the module."""
        root = name.partition(".")[0]
        is_own = level > 0 or self.has(root)
        if not is_own:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        try:
            if level > 0 or fromlist:
                full_name = name if level > 0 else f"{self.package}.{name}"
                return builtins.__import__(
                    full_name, globals, locals, fromlist or (), level
                )
            importlib.import_module(f"{self.package}.{name}")
            return sys.modules[f"{self.package}.{root}"]
        except ModuleNotFoundError as error:
            start = f"{self.package}."
            if not (error.name or "").startswith(start):
                raise
            said = str(error).replace(start, "")
            raise ModuleNotFoundError(said, name=error.name, path=error.path) from None


class _OwnLoader(SourceFileLoader):
    """Load a file of own code from its source, never from cached bytecode."""

    def __init__(self, namespace: OwnCode, name: str, path: str) -> None:
        super().__init__(name, path)
        self.namespace = namespace

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the file."""
        path = Path(self.path)
        data = path.read_bytes()
        self.namespace.note(path, data)
        code: CodeType = self.source_to_code(data, self.path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        """Run the file."""
        self.namespace.prepare(module)
        super().exec_module(module)


class _OwnFinder(MetaPathFinder):
    """Find the modules of the packages of own code."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how a module is imported; None for modules of others."""
        namespace = _NAMESPACES.get(fullname.partition(".")[0])
        return None if namespace is None else namespace.spec(fullname)


class _Aliases(MetaPathFinder, Loader):
    """Find modules of own code under the names that its folder gives them."""

    def __init__(self, namespace: OwnCode) -> None:
        self.namespace = namespace
        self.aliases: set[str] = set()
        self.specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return how a module is imported; None for modules of others."""
        root = fullname.partition(".")[0]
        is_alias = root in self.aliases
        if not is_alias and (
            root in _NAMESPACES or not self.namespace.has(root) or _is_installed(root)
        ):
            return None
        self.aliases.add(fullname)
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that the code itself has."""
        module = importlib.import_module(f"{self.namespace.package}.{spec.name}")
        self.specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore what the import has changed: the module was run before."""
        name = module.__name__.removeprefix(f"{self.namespace.package}.")
        module.__spec__ = self.specs[name]


_NAMESPACES: dict[str, OwnCode] = {}
_LOADED: dict[tuple[Path, str], OwnCode] = {}
_LOCK = RLock()
sys.meta_path.insert(0, _OwnFinder())


def own_code(folder: Path, main: Path, function: str) -> OwnCode:
    """Return the namespace of a backbone; a new one if its files were changed since."""
    key = (main, function)
    namespace = _LOADED.get(key)
    if namespace is None or not namespace.is_current():
        namespace = _LOADED[key] = OwnCode(folder, main)
    return namespace


def code_of_installed(file: Path, module_name: str) -> Code:
    """Return what recipes record of an installed module: the files of its package, or beside it."""
    parts = module_name.split(".")
    depth = len(parts) if file.name == "__init__.py" else len(parts) - 1
    is_placed = file.with_suffix("").parts[-len(parts) :] == tuple(parts)
    if file.name == "__init__.py":
        is_placed = file.parent.parts[-len(parts) :] == tuple(parts)
    folder = file.parents[depth] if is_placed else file.parent

    def is_of_package(root: str) -> bool:
        if root in _OURS:
            return False
        is_own_package = depth > 0 and is_placed and root == parts[0]
        return is_own_package or (folder / f"{root}.py").is_file()

    files = files_of_code(file, folder, is_of_package)
    hashes = {path: sha256_file(path) for path in files}
    return _recorded(hashes, file, lambda root: (folder / f"{root}.py").is_file())


def _recorded(
    hashes: Mapping[Path, str], main: Path, has: Callable[[str], bool]
) -> Code:
    """Return the files by their place relative to the main file, and the versions of packages."""
    distributions = _distributions()
    packages = {"torch": metadata.version("torch")}
    for path in hashes:
        for root in _imported_roots(path):
            if has(root) or root.startswith("obygaze"):
                continue
            for distribution in distributions.get(root, ()):
                packages[distribution] = metadata.version(distribution)
    files = {_label(path, main): sha256 for path, sha256 in hashes.items()}
    return {"files": dict(sorted(files.items())), "packages": packages}


def _imported_roots(path: Path) -> Iterator[str]:
    """Yield the top-level name of each import of a file, without relative ones."""
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif node.level == 0:
            yield (node.module or "").partition(".")[0]


@cache
def _distributions() -> Mapping[str, Sequence[str]]:
    """Return the distributions of each top-level name; finding them takes a second."""
    return metadata.packages_distributions()


def _label(path: Path, main: Path) -> str:
    return Path(os.path.relpath(path, main.parent)).as_posix()


def _is_installed(root: str) -> bool:
    """Return whether other code finds a module of this name."""
    for finder in sys.meta_path:
        if isinstance(finder, _OwnFinder | _Aliases):
            continue
        spec = finder.find_spec(root, None)
        if spec is not None and spec.origin is not None:
            return True
    return False
