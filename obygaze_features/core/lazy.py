"""Imports that wait: of names of packages, of what commands do, and of optional packages."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from obygaze_features.core.errors import FixInput, InstallExtra, first_line

P = ParamSpec("P")
R = TypeVar("R")


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


def done_in(module: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a public function that is only declared: signature and docstring.

    The function of this name and signature in `module` does the work. It is imported when the
    declared one is called, so that the help and the completion of a command import nothing that it
    works with. A test compares the two signatures.
    """

    def decorate(declared: Callable[P, R]) -> Callable[P, R]:
        @wraps(declared)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            work = getattr(import_module(module), declared.__name__)
            result: R = work(*args, **kwargs)
            return result

        vars(call)["done_in"] = module
        return call

    return decorate


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
