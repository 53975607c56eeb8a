"""The code that computes a run: the packages of obygaze and the plugins of a protocol, as a hash.

Finished tests are taken over only by the same code: after a repair, results of before and after
must not be mixed. The bytes of the files count, not their times.
"""

import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from obygaze_features.core.plugins import (
    BASELINES,
    METRICS,
    SPLITS,
    Plugin,
    find_plugin,
)
from obygaze_models.models.registry import further_baselines
from obygaze_models.protocols.schema import SPLIT_KINDS, Protocol
from obygaze_models.protocols.schemes import plugin_of_scheme

ROOTS = tuple(
    Path(__file__).parents[3] / name for name in ("obygaze_models", "obygaze_features")
)
CODE = (".py", ".pyc", ".so", ".pyd", ".toml", ".json", ".txt", ".md")
INSTALLED = ("site-packages", "dist-packages")


@cache
def own_code() -> str:
    """Return the hash of the files of both packages, code and data."""
    files: list[Path] = []
    for root in ROOTS:
        files.extend(root.rglob("*"))
    return _hash_of(files)


def plugin_code(group: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return what computes for each of some plugins of a group: hashes of code, and versions."""
    code_of: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        plugin = find_plugin(group, name)
        plugin.load()  # its modules are known then
        code_of[name] = [
            _hash_of(_files_of(plugin)),
            *_needed_versions(plugin.point.dist),
        ]
    return code_of


def scheme_code(name: str) -> list[str]:
    """Return what computes the splits of a scheme: the hash of its code, and versions."""
    plugin = plugin_of_scheme(name)
    if plugin is None:
        return []
    if plugin.is_ours:
        # One extension of obygaze, without the rest of the front.
        folder = Path(str(sys.modules[plugin.point.module].__file__)).parent
        return [_hash_of(folder.rglob("*"))]
    return [_hash_of(_files_of(plugin)), *_needed_versions(plugin.point.dist)]


def used_packages(protocol: Protocol) -> dict[str, dict[str, str]]:
    """Return name and version of the package of each plugin that a protocol uses, by kind and name.

    Those of models are settings of the models. What came with obygaze has its version.
    """
    used: dict[str, dict[str, str]] = {}
    names_of_groups: dict[str, Iterable[str]] = {
        METRICS: protocol.further_metrics,
        BASELINES: further_baselines(protocol.grid.baselines),
        SPLITS: [name for name in [protocol.splits.kind] if name not in SPLIT_KINDS],
    }
    for group, names in names_of_groups.items():
        kind = group.removeprefix("obygaze.")
        for name in names:
            used.setdefault(kind, {})[name] = find_plugin(group, name).package
    scheme = plugin_of_scheme(protocol.splits.scheme)
    if scheme is not None and not scheme.is_ours:
        used["schemes"] = {protocol.splits.scheme: scheme.package}
    return used


def _files_of(plugin: Plugin) -> list[Path]:
    """Return the files of the package of a plugin, and those that it imports from beside them."""
    files = set()
    if plugin.point.dist is not None:
        for entry in plugin.point.dist.files or ():
            files.add(Path(str(plugin.point.dist.locate_file(entry))))
    top = sys.modules[plugin.point.module.partition(".")[0]]
    folders = [Path(folder) for folder in getattr(top, "__path__", ())]
    # Modules of one folder that is no place for installed packages are one project.
    file = getattr(top, "__file__", None)
    if file and not folders and Path(file).parent.name not in INSTALLED:
        folders.append(Path(file).parent)
    for module in list(sys.modules.values()):
        module_file = getattr(module, "__file__", None)
        if not module_file:
            continue
        path = Path(module_file)
        if any(path.is_relative_to(folder) for folder in folders):
            files.add(path)
    if file:
        files.add(Path(file))
    for folder in getattr(top, "__path__", ()):
        files.update(Path(folder).rglob("*"))
    return list(files)


def _needed_versions(package: Distribution | None) -> list[str]:
    """Return name and version of each installed package that a package needs itself."""
    requires = package.requires if package is not None else None
    versions = []
    for requirement in requires or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            versions.append(f"{name} {distribution(name).version}")
        except PackageNotFoundError:  # of an extra that is not installed
            continue
    return sorted(set(versions))


def _hash_of(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        # A cache of a source file is no code of its own; without the source it is elsewhere.
        is_code = path.suffix in CODE and path.parent.name != "__pycache__"
        if is_code and path.is_file():
            data = path.read_bytes()
            digest.update(f"{path.name} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()
