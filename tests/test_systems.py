"""One package knows the operating system: no other module imports or asks what only some have."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.windows import ABSENT, MODULES

ROOT = Path(__file__).resolve().parents[1]
SYSTEM = ROOT / "obygaze_features" / "core" / "system"
PACKAGES = ("obygaze", "obygaze_features", "obygaze_models")
# Modules of one system, or that call its library.
OF_ONE_SYSTEM = {*MODULES, "_winapi", "ctypes", "msvcrt", "nt", "winreg", "winsound"}
# What says which system runs. `platform.system` is for a person to read.
WHICH = {("sys", "platform"), ("os", "name"), ("os", "sep"), ("os", "altsep")}


def uses_of_one_system(source: str) -> Iterator[str]:
    """Yield what a module imports or uses that only some systems have."""
    absent = {(module, name) for module, names in ABSENT.items() for name in names}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported = [name.name.partition(".")[0] for name in names]
            case ast.ImportFrom(module=str() as module, names=names):
                imported = [module.partition(".")[0]]
                for name in names:
                    if (module, name.name) in absent | WHICH:
                        yield f"from {module} import {name.name}"
            case ast.Attribute(attr="st_uid" | "st_gid" as name):
                imported = []
                yield name
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                imported = []
                if (module, name) in absent | WHICH:
                    yield f"{module}.{name}"
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"),
                args=[ast.Name(id=module), ast.Constant(value=name), *_],
            ):
                imported = []
                if (module, name) in absent:
                    yield f"{module}.{name}"
            case _:
                imported = []
        for name in imported:
            if name in OF_ONE_SYSTEM:
                yield f"import {name}"


# A module without any of these words uses nothing of one system.
WORDS = OF_ONE_SYSTEM.union(*ABSENT.values(), ("st_uid", "st_gid"))
WORDS |= {name for _, name in WHICH} - {"name"}


def may_use_one_system(source: str) -> bool:
    """Return whether a module is worth its parsing."""
    has_a_name = "os.name" in source or "from os import" in source
    return has_a_name or not WORDS.isdisjoint(re.findall(r"\w+", source))


def sources() -> list[Path]:
    files = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    return sorted(path for path in files if SYSTEM not in path.parents)


def test_only_one_package_knows_the_operating_system() -> None:
    found = {}
    for path in sources():
        source = path.read_text(encoding="utf-8")
        if may_use_one_system(source):
            uses = list(uses_of_one_system(source))
            if uses:
                found[str(path.relative_to(ROOT))] = uses
    assert found == {}
    assert len(sources()) > 250
