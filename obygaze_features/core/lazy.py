"""Imports that wait: names of packages, so that `--help` is fast, and optional packages."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from obygaze_features.core.errors import FixInput, InstallExtra, first_line


def lazy_exports(
    package: str, names_by_module: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package, after PEP 562.

    A package calls this where type checkers do not look, in the `else` of `if TYPE_CHECKING:`. They
    read the imports above it, so that to them a misspelled name is an error. A test compares the
    two.

    Args:
        package: The name of the package.
        names_by_module: The exported names, by the module that each is imported from when it is
            first used.
    """
    module_of: dict[str, str] = {}
    for module, names in names_by_module.items():
        module_of.update(dict.fromkeys(names, module))

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return get, lambda: sorted(module_of), [*module_of]


def need(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module; an error names its extra, or says why it does not work."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # An installed package with a missing dependency is a broken installation, not this case.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InstallExtra(
            f"{purpose} needs the package {error.name!r}, which is not installed",
            hint=f'pip install "obygaze[{extra}]"',
        ) from error
    except (ImportError, OSError) as error:
        raise FixInput(
            f"{purpose} needs the package {module!r}, which is installed and does not work:"
            f" {first_line(error)}",
            hint="obygaze doctor",
        ) from error
