"""Read signatures and docstrings of functions from the source, without importing modules."""

import __future__

import ast
import builtins
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from obygaze_features.core.workspace import PathLike

# The pattern of a formatted function: its signature, and its docstring up to the closing quotes.
HEAD = r'^{indent}def {name}\(.*?\n{indent}    """.*?"""$'
# Names of types that commands support in signatures.
KNOWN_TYPES: Mapping[str, Any] = {
    "Callable": Callable,
    "Iterable": Iterable,
    "Literal": Literal,
    "Mapping": Mapping,
    "Path": Path,
    "PathLike": PathLike,
    "Sequence": Sequence,
}


class NamesOfTypes(dict[str, Any]):
    """The names of a module; a missing name that is not a builtin becomes a new class.

    A name is missing if the module imports it for type checkers only.
    """

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return type(name, (), {})


class _Head(NamedTuple):
    """The start of a function, up to the end of its docstring, and the source of its module."""

    function: ast.FunctionDef
    file: str
    source: str


@cache
def read_declaration(target: str) -> Callable[..., Any]:
    """Return a function with the signature and docstring of `module:name` or `module:Class.name`.

    The module is imported only when the returned function is called. Defaults of parameters must
    be literals, or constants of the module.
    """
    function, file, source = _find_head(target)
    names = NamesOfTypes()
    for default in [*function.args.defaults, *function.args.kw_defaults]:
        if isinstance(default, ast.Name):
            value = re.search(rf"^{default.id} = (.+)$", source, re.MULTILINE)
            if value is not None:
                names[default.id] = ast.literal_eval(value[1])
    flags = __future__.annotations.compiler_flag
    code = compile(ast.Module([function], []), file, "exec", flags, dont_inherit=True)
    exec(code, {**KNOWN_TYPES, "__name__": target.partition(":")[0]}, names)

    @wraps(names[function.name])
    def call(*args: Any, **values: Any) -> Any:
        return import_object(target)(*args, **values)

    return call


def read_docstring(target: str) -> str:
    """Return the docstring of the function `module:name`."""
    return ast.get_docstring(_find_head(target).function) or ""


def import_object(target: str) -> Any:
    """Import a module, and return an object of it, named `module:name` or `module:Class.name`."""
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


@cache
def _find_head(target: str) -> _Head:
    module, _, path = target.partition(":")
    owner, _, name = path.rpartition(".")
    spec = find_spec(module)
    file = spec.origin if spec and spec.origin else ""
    source = Path(file).read_text("utf-8") if file else ""
    pattern = HEAD.format(indent="    " if owner else "", name=name)
    if owner:
        pattern = rf"^class {owner}\b.*?({pattern})"
    found = re.search(pattern, source, re.MULTILINE | re.DOTALL)
    head = textwrap.dedent(found[found.lastindex or 0]) if found else ""
    match ast.parse(head).body:
        case [ast.FunctionDef() as function]:
            return _Head(function, file, source)
    raise TypeError(f"{target} is not a function with a docstring")
