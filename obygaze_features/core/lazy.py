"""Lazy imports: of the names that a package exports, and of optional packages."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import FixInput, InstallExtra, first_line


def lazy_exports(
    module: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a module, after PEP 562.

    A module exports the names that it imports in `if TYPE_CHECKING:`. These lines are read, not
    run: each name is imported when it is first used. The module calls this function in the `else`
    branch of that `if`.
    """
    source = Path(sys.modules[module].__file__ or "").read_bytes()
    target_of: dict[str, tuple[str, str]] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING":
            continue
        for line in node.body:
            if isinstance(line, ast.ImportFrom):
                for alias in line.names:
                    origin = line.module or module
                    target_of[alias.asname or alias.name] = (origin, alias.name)

    def get(name: str) -> Any:
        if name not in target_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        origin, original = target_of[name]
        if origin == module:
            return import_module(f"{module}.{original}")
        return getattr(import_module(origin), original)

    return get, lambda: sorted(target_of), [*target_of]


def import_optional(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module. An error names the extra to install, or why the import fails."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # An installed package with a missing dependency is a broken installation, not this case.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InstallExtra(
            f"{purpose} needs the package {error.name!r}, which is not installed",
            hint=f'in the clone of obygaze: pip install -e ".[{extra}]"',
        ) from error
    except (ImportError, OSError) as error:
        raise FixInput(
            f"{purpose} needs the package {module!r}, which is installed but does not work:"
            f" {first_line(error)}",
            hint="obygaze doctor",
        ) from error
