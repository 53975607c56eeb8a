"""One name has one meaning: what other modules import under a name is defined in one module."""

import ast
import re
from collections import defaultdict

from support.cli import ROOT
from support.statements import imports_of

# Names that several modules define, and why.
JUSTIFIED = {
    "Bools": "the same type; evaluation, models and video share no module of types",
    "Floats": "the same type; see Bools",
    "IntArray": "the same type; see Bools",
    "Ints": "the same type; see Bools",
    "Values": "the same type in encoding and in the reader of imports; elsewhere private",
    "open_store": "that of joining is public, and opens joins too; that of reading opens one store",
    "evaluate": "that of experiments is public, and tests estimators; that of metrics is private",
    "main": "where a process begins",
    "read": "each adapter of a data set has it",
    "usable_cores": "each operating system counts them",
}


# At the left edge of a module: a function, a class, or a name that gets a value.
DEFINITION = re.compile(
    r"^(?:(?:async )?def|class) (\w+)|^(\w+)(?:: [^=\n]+)? = ", re.MULTILINE
)

COMMANDS = re.compile(r"obygaze\.commands\.(?!shared)\w+")


def test_a_name_is_defined_in_one_module() -> None:
    defined = defaultdict(set)
    are_defs = set()
    imported = defaultdict(set)
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in (ROOT / package).rglob("*.py"):
            source = path.read_text("utf-8")
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            module = name.removesuffix(".__init__")
            for of_def, of_value in DEFINITION.findall(source):
                defined[of_def or of_value].add(module)
                if of_def:
                    are_defs.add((of_def, module))
            for node in imports_of(source):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        imported[alias.name].add(node.module)
    several = []
    for name, there in defined.items():
        if name.startswith("_"):
            continue
        # What one system has, the others have under the same name.
        there = {module for module in there if ".core.system." not in module}
        # A command has the name that is typed, most often that of the function that it calls.
        there = {module for module in there if not COMMANDS.fullmatch(module)}
        public = {
            module
            for module in there
            if module in imported[name] or (name, module) in are_defs
        }
        if len(public) > 1 and imported[name] & there and name not in JUSTIFIED:
            several.append((name, sorted(public)))
    assert several == []
