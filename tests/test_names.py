"""One name has one meaning: what other modules import under a name is defined in one module."""

from __future__ import annotations

import ast
from collections import defaultdict

from support.cli import ROOT
from support.statements import statements

# Names that several modules define, and why.
JUSTIFIED = {
    "Bools": "the same type; evaluation, models and video share no module of types",
    "Floats": "the same type; see Bools",
    "IntArray": "the same type; see Bools",
    "Ints": "the same type; see Bools",
    "Values": "the same type in encoding and in the reader of imports; elsewhere private",
    "command": "what click runs; one a module",
    "main": "where a process begins",
    "origin_text": "each format of an import says where its arrays come from",
    "read": "each adapter of a data set has it",
    "usable_cores": "each operating system counts them",
}


def test_a_name_is_defined_in_one_module() -> None:
    modules = {}
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            modules[name.removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"))
    defined = defaultdict(set)
    are_defs = set()
    imported = defaultdict(set)
    for module, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined[node.name].add(module)
                are_defs.add((node.name, module))
            targets = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    defined[target.id].add(module)
        for node in statements(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    imported[alias.name].add(node.module)
    several = []
    for name, there in defined.items():
        if name.startswith("_"):
            continue
        # A function of `functions.py` is done in another module, under its name.
        there = {module for module in there if not module.endswith(".functions")}
        # What one system has, the others have under the same name.
        there = {module for module in there if ".core.system." not in module}
        public = {
            module
            for module in there
            if module in imported[name] or (name, module) in are_defs
        }
        if len(public) > 1 and imported[name] & there and name not in JUSTIFIED:
            several.append((name, sorted(public)))
    assert several == []
