"""No module imports itself by way of others, and what is slow or private of others stays out."""

import ast
import graphlib
from pathlib import Path

import grimp
from support.cli import ROOT
from support.statements import imports_of

PACKAGES = ("obygaze", "obygaze_features", "obygaze_models")


def test_there_is_no_import_cycle():
    """Those for types count: who reads a module should not have to read it first."""
    graph = grimp.build_graph(*PACKAGES)
    order = graphlib.TopologicalSorter(
        {
            module: graph.find_modules_directly_imported_by(module)
            for module in graph.modules
        }
    )
    assert len(graph.modules) > 100
    try:
        order.prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def _private_imports(path: Path) -> list[str]:
    """Imports of modules of other packages that these do not offer to others."""
    modules = []
    for node in imports_of(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif node.module and not node.level:
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    private = []
    for module in modules:
        package, *words = module.split(".")
        is_private = any(word.startswith("_") or word == "core" for word in words)
        if package not in PACKAGES and is_private:
            private.append(module)
    return private


def test_no_module_imports_what_is_private_in_another_package(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        "import os\nimport sklearn.tree._tree\n"
        "from zarr.core.chunk_grids import X\nfrom numpy import _core\n"
        "from obygaze_features.core import files\n",
        encoding="utf-8",
    )
    assert _private_imports(sample) == [
        "sklearn.tree._tree",
        "zarr.core.chunk_grids.X",
        "numpy._core",
    ]
    private = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            modules = _private_imports(path)
            if modules:
                private[str(path.relative_to(ROOT))] = modules
    assert private == {}
