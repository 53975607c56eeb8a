"""Plugins: what other installed packages add, found by their entry points, and calls of their code.

Nothing is imported before a plugin is used. Only code that somebody installed is ever found, or a
file that somebody named: `FILE.py:NAME` stands for the function or class of that name in that file
wherever the name of a plugin does, once `trust` was called with it. A name that was typed is
trusted by that; a protocol or a saved model that names a file is not. A plugin that does not work
never stops what does not need it: `skip` warns once, and the caller goes on without it.
"""

import importlib.util
import re
import reprlib
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import (
    Distribution,
    EntryPoint,
    distributions,
    entry_points,
    version,
)
from pathlib import Path
from typing import TypeVar

from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
    ObygazeWarning,
    first_line,
)
from obygaze_features.core.files import sha256_file
from obygaze_features.core.machine import is_out_of_memory
from obygaze_features.core.schema_rules import near

T = TypeVar("T")
ANALYSES = "obygaze.analyses"
BASELINES = "obygaze.baselines"
BACKBONES = "obygaze.backbones"
COMMANDS = "obygaze.commands"
DATASETS = "obygaze.datasets"
METRICS = "obygaze.metrics"
MODELS = "obygaze.models"
PROTOCOLS = "obygaze.protocols"
SCHEMES = "obygaze.schemes"
SPLITS = "obygaze.splits"


OWN_CODE = "FILE.py:NAME"  # what a name of own code looks like
_OWN_NAME = re.compile(r"(?P<file>[^\s'\"\[\]{},=]+\.py):(?P<name>[A-Za-z_]\w*)")
_OF_SKLEARN = re.compile(r"(?P<module>sklearn(?:\.[a-z_]\w*)+)\.(?P<name>[A-Z]\w*)")
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9._-]+) (?P<version>[A-Za-z0-9.!+_-]+)")
# What to do about an error of code that is not ours, where nothing better is known.
TRACEBACK = "the same command with OBYGAZE_DEBUG=1 shows the traceback"
_TRUSTED: dict[str, Path] = {}
_TRUSTED_NAMES: set[str] = set()


@dataclass(frozen=True)
class Plugin:
    """One entry point of an installed package.

    `package` is its name and version, `where` the entry point as in its pyproject.toml.
    """

    point: EntryPoint
    name: str
    package: str
    where: str

    @property
    def is_ours(self) -> bool:
        """Whether the plugin came with obygaze."""
        return self.package.partition(" ")[0] == "obygaze"

    def load(self) -> object:
        """Return what the entry point names."""
        return self.call(self.point.load, "cannot be loaded")

    def call(self, function: Callable[[], T], failure: str, hint: str = "") -> T:
        """Return the result of the plugin's code; every error names the plugin and `failure`.

        Args:
            function: Calls the code.
            failure: What it is that failed.
            hint: What to do, where the error itself does not say it.
        """
        try:
            return call_foreign(function, f"{self.where} {failure}", hint)
        except ObygazeError as error:
            if self.where in str(error):
                error.hint = error.hint or hint or None
                raise
            raise FixInput(
                f"{self.where} {failure}: {error.message}",
                where=error.where,
                hint=error.hint or hint or None,
                details=error.details,
            ) from error
        except RuntimeError as error:  # too little memory, by its words
            problem = f"{self.where} {failure}: {first_line(error)}"
            raise FixInput(problem, hint=hint or None) from error

    def refuse(self, reason: str) -> FixInput:
        """Return the error that the plugin, or what it returned, is not as it must be."""
        return FixInput(f"the plugin {reason}", where=self.where)


@dataclass(frozen=True)
class OwnCode(Plugin):
    """The function or class of a file, under a name such as `mine.py:Mine`.

    `package` is the name of the file and the start of its hash: another version of the file is
    another package.
    """

    file: Path

    def load(self) -> object:
        """Return the function or class; the file is imported once."""
        module_name = self.point.module
        module = sys.modules.get(module_name)
        if module is None:
            spec = importlib.util.spec_from_file_location(module_name, self.file)
            if spec is None or spec.loader is None:
                raise self.refuse("is no file that can be imported")
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            run = spec.loader.exec_module
            loaded = module
            try:
                self.call(lambda: run(loaded), "cannot be loaded")
            except BaseException:
                del sys.modules[module_name]
                raise
        if not hasattr(module, self.point.attr):
            raise NotFound(
                f"{self.file.name} has no {self.point.attr}", where=self.where
            )
        return getattr(module, self.point.attr)


def function_of_clips(
    plugin: Plugin, own_names: Container[str], noun: str
) -> Callable[..., object]:
    """Return the function of a plugin that adds to what obygaze has of its own under a name."""
    function = plugin.load()
    if plugin.name in own_names:
        raise plugin.refuse(
            f"is never used: obygaze has {noun} {plugin.name!r} of its own"
        )
    if not callable(function):
        raise plugin.refuse(f"must be a function of clips, got {short_value(function)}")
    return function


def is_own_code(name: object) -> bool:
    """Return whether a name is one of a file: `FILE.py:NAME`."""
    return isinstance(name, str) and _OWN_NAME.fullmatch(name) is not None


def is_of_sklearn(name: object) -> bool:
    """Return whether a name is that of a class of scikit-learn: `sklearn.svm.SVC`."""
    return isinstance(name, str) and _OF_SKLEARN.fullmatch(name) is not None


def label_of(name: str) -> str:
    """Return the name of a plugin without its file or module."""
    if is_of_sklearn(name):
        return name.rpartition(".")[2]
    return name.rpartition(":")[2] if is_own_code(name) else name


def _sklearn_plugin(group: str, name: str) -> Plugin:
    """Return a class of scikit-learn as a plugin."""
    module, _, attribute = name.rpartition(".")
    try:
        known_names = dir(import_module(module))
    except ImportError:
        known_names = [attribute]  # the error of loading it says why
    if attribute not in known_names:
        meant = near(attribute, known_names)
        raise NotFound(f"{module} has no {attribute}{meant}", where=name)
    point = EntryPoint(name, f"{module}:{attribute}", group)
    package = f"scikit-learn {version('scikit-learn')}"
    return Plugin(point, name, package, f"{name} ({package})")


def trust(names: Iterable[str]) -> None:
    """Allow the code of files that are named `FILE.py:NAME` to run in this process.

    Other texts, which may hold such names, are trusted as the names of types. The folder of the
    file does not matter later: a saved model names the file only.
    """
    for text in names:
        _TRUSTED_NAMES.add(text)
        for match in _OWN_NAME.finditer(text):
            path = Path(match["file"]).expanduser().resolve()
            _TRUSTED[f"{path.name}:{match['name']}"] = path


def is_trusted(name: str) -> bool:
    """Return whether the code of a file, named `FILE.py:NAME`, may run in this process."""
    file, _, attribute = name.rpartition(":")
    return f"{Path(file).name}:{attribute}" in _TRUSTED


def require_trust_of_all(names: Iterable[str]) -> None:
    """Raise an error that names all own code (`FILE.py:NAME`) among some names that is not trusted.

    Otherwise each would be found when the one before it was trusted.
    """
    untrusted = [
        name
        for name in dict.fromkeys(names)
        if is_own_code(name) and not is_trusted(name)
    ]
    if len(untrusted) > 1:
        options = " ".join(f"--trust {name}" for name in untrusted)
        raise FixUsage(
            f"{', '.join(untrusted)} would run the code of files, and are not trusted",
            hint=f"read the files, then {options} (in Python trust={untrusted!r})",
        )


def trusted_names() -> frozenset[str]:
    """Return the names that were trusted in this process."""
    return frozenset(_TRUSTED_NAMES)


def _own_plugin(group: str, name: str) -> OwnCode:
    """Return the plugin of a file; an error where its code was not trusted."""
    file, _, attribute = name.rpartition(":")
    key = f"{Path(file).name}:{attribute}"
    path = _TRUSTED.get(key)
    if path is None:
        raise FixUsage(
            f"{name} would run the code of a file, and is not trusted",
            hint=f"read the file, then --trust {name} (in Python trust=[{name!r}])",
        )
    if not path.is_file():
        raise NotFound("no such file", where=str(path))
    sha256 = sha256_file(path)
    module = f"_obygaze_{path.stem}_{sha256[:16]}".replace(".", "_").replace("-", "_")
    point = EntryPoint(key, f"{module}:{attribute}", group)
    return OwnCode(
        point, key, f"{path.name} {sha256[:16]}", f"{path}:{attribute}", path
    )


def plugins(group: str) -> list[Plugin]:
    """Return the plugins of a group, in the order of their names."""
    return [*_plugins(group, _installation())]


def _installation() -> tuple[tuple[str, int], ...]:
    """Return the folders of installed packages, with the time at which each was last changed."""
    folders = []
    for folder in sys.path:
        try:
            changed_ns = Path(folder).stat().st_mtime_ns  # "" is the working folder
        except (OSError, ValueError):
            changed_ns = -1
        folders.append((folder, changed_ns))
    return tuple(folders)


@lru_cache(maxsize=8)
def _plugins(
    group: str, installation: tuple[tuple[str, int], ...]
) -> tuple[Plugin, ...]:
    """Return the plugins of a group; the lists of all packages are read once.

    `installation` is only a key: they are read again once a package was installed or removed.
    """
    group_plugins = []
    for point in sorted(_points(group), key=lambda point: (point.name, point.value)):
        package = _package(point.dist)
        where = f"{group}: {point.name} = {point.value} ({package})"
        group_plugins.append(Plugin(point, point.name, package, where))
    return tuple(group_plugins)


def _points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group; a package whose list cannot be read is skipped."""
    try:
        return [*entry_points(group=group)]
    except (TypeError, ValueError, OSError):
        # One damaged list hides those of all packages.
        points: dict[EntryPoint, None] = {}
    for distribution in distributions():
        read = _reader(distribution, group)
        try:
            of_package = call_foreign(
                read, f"the entry points of {_package(distribution)}"
            )
        except ObygazeError as error:
            warn_once(f"a package is skipped: {error.message}")
            continue
        points.update(dict.fromkeys(of_package))
    return [*points]


def _reader(distribution: Distribution, group: str) -> Callable[[], list[EntryPoint]]:
    return lambda: [*distribution.entry_points.select(group=group)]


def _package(distribution: Distribution | None) -> str:
    """Return the name and version of a package, as far as its metadata has them."""
    try:
        facts = (distribution.name, distribution.version) if distribution else ()
    except (KeyError, TypeError, ValueError, OSError):
        facts = ()
    return " ".join(fact for fact in facts if fact) or "an unknown package"


def short_value(value: object) -> str:
    """Return a value and its type for a message, in a few words."""
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def skip(error: ObygazeError) -> None:
    """Warn that a plugin is skipped, once in a process; the error names it."""
    where = f" ({error.where})" if error.where else ""
    warn_once(f"a plugin is skipped: {error.message}{where}")


@cache
def warn_once(text: str) -> None:
    """Warn with a text, unless this process has done so before."""
    warnings.warn(text, ObygazeWarning, stacklevel=2)


def find_plugin(group: str, name: str) -> Plugin:
    """Return the plugin of a name; an error where there is none, or where two packages have it.

    A name of own code, `FILE.py:NAME`, is that file's, and a model may be `sklearn.MODULE.CLASS`.
    """
    if is_own_code(name):
        return _own_plugin(group, name)
    if group == MODELS and is_of_sklearn(name):
        return _sklearn_plugin(group, name)
    installed = plugins(group)
    with_name = [plugin for plugin in installed if plugin.name == name]
    if not with_name:
        names = [plugin.name for plugin in installed]
        hint = f"install its package; installed are {', '.join(names) or 'none'}"
        raise NotFound(f"no plugin {name!r}{near(name, names)}", where=group, hint=hint)
    if len(with_name) > 1:
        packages = " and ".join(plugin.where for plugin in with_name)
        raise FixInput(
            f"two packages add {name!r}", where=packages, hint="uninstall one of them"
        )
    return with_name[0]


def install_hint(package: str) -> str:
    """Return what installs a package, from its name and version in a file."""
    parts = _PACKAGE.fullmatch(package)
    if parts is None:
        return "install its package"
    return f"pip install '{parts['name']}=={parts['version']}'"


def call_foreign(function: Callable[[], T], subject: str, hint: str = "") -> T:
    """Return the result of code that is not ours; errors, but for memory, name the `subject`."""
    try:
        return function()
    except (ObygazeError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        message = (
            f"{subject}: {type(error).__name__}: {first_line(error)}{_line_of(error)}"
        )
        raise FixInput(message, hint=hint or TRACEBACK) from error


def _line_of(error: BaseException) -> str:
    """Return the last line of somebody's own code before an error, in brackets; or "".

    Own code is what is neither installed nor part of obygaze or Python.
    """
    packages = Path(__file__).parents[2]
    not_own = [
        *(
            packages / name
            for name in ("obygaze", "obygaze_features", "obygaze_models")
        ),
        Path(sysconfig.get_path("stdlib")),
    ]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        is_installed = {"site-packages", "dist-packages"} & set(file.parts)
        if file.suffix != ".py" or is_installed:
            continue
        if not any(map(file.is_relative_to, not_own)):
            return f" ({file.name}, line {frame.lineno})"
    return ""
