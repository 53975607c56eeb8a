"""Imports that wait: names of packages, so that `--help` is fast, and optional packages."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from obygaze_features.core.errors import InstallExtra


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package.

    The exports are the names that the package's source imports under `if TYPE_CHECKING:`, so type
    checkers and the running program read one and the same list.
    """
    modules = _type_checking_imports(package)

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get, lambda: sorted(modules), [*modules]


def _type_checking_imports(package: str) -> dict[str, str]:
    """Map each name that is imported under `if TYPE_CHECKING:` to its module."""
    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package)  # type: ignore[union-attr]
    return {
        alias.name: statement.module or ""
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def need(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module; if it is missing, raise an error that names the extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # An installed package with a missing dependency is a broken installation, not this case.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InstallExtra(
            f"{purpose} needs the package {error.name!r}, which is not installed",
            hint=f"pip install 'obygaze[{extra}]'",
        ) from error
