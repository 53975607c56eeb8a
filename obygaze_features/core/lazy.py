"""Imports that wait: of names of packages, of what commands do, and of optional packages."""

import ast
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import get_data
from typing import Any, ParamSpec, TypeVar

from obygaze_features.core.errors import FixInput, InstallExtra, first_line

P = ParamSpec("P")
R = TypeVar("R")


def lazy_exports(
    package: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package, after PEP 562.

    What the package exports is what it imports for type checkers under the same name, in
    `if TYPE_CHECKING:` as `from MODULE import NAME as NAME`. These lines are read and not run: a
    name is imported when it is first used. A package calls this in the `else`.
    """
    source = get_data(package, "__init__.py") or b""
    module_of: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if alias.asname == alias.name:
                    module_of[alias.name] = node.module

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return get, lambda: sorted(module_of), [*module_of]


@cache
def docstrings_of(module: str) -> dict[str, str]:
    """Return the docstrings of the functions of a module, which is read and not run.

    A name such as `info_command = command_of(describe_store, "info")` has that of the function.
    """
    spec = find_spec(module)
    source = Path(spec.origin).read_bytes() if spec and spec.origin else b""
    docstring_of: dict[str, str] = {}
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name):
                docstring_of[name] = ast.get_docstring(node) or ""
            case ast.Assign([ast.Name(name)], ast.Call(args=[ast.Name(function), *_])):
                docstring_of[name] = docstring_of.get(function, "")
    return docstring_of


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
