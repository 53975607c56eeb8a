"""The files that a file of Python imports from its folder, found without running any of them."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path


def files_of_code(main: Path, folder: Path, has: Callable[[str], bool]) -> list[Path]:
    """Return a file and all files of a folder that it imports anywhere, directly or not."""
    files = [main]
    to_read = [main]
    while to_read:
        path = to_read.pop()
        for name in _imported_names(path, folder, has):
            parts = name.split(".")
            for n_parts in range(1, len(parts) + 1):
                module_path = folder.joinpath(*parts[:n_parts])
                for file in (
                    module_path.with_name(f"{module_path.name}.py"),
                    module_path / "__init__.py",
                ):
                    if file not in files and file.is_file():
                        files.append(file)
                        to_read.append(file)
    return files


def _imported_names(
    path: Path, folder: Path, has: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the names of modules of the folder that a file may import, with their dots."""
    package = path.relative_to(folder).parts[:-1]
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            yield from (
                alias.name for alias in node.names if has(alias.name.partition(".")[0])
            )
            continue
        module = node.module or ""
        if node.level == 0:
            if has(module.partition(".")[0]):
                yield from (f"{module}.{alias.name}" for alias in node.names)
            continue
        above = package[: len(package) - node.level + 1]
        start = ".".join((*above, *filter(None, [module])))
        yield from (f"{start}.{alias.name}".lstrip(".") for alias in node.names)


def imports_of(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return the import statements of a file; none if it is not valid Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (
        SyntaxError,
        ValueError,
    ):  # the import of the file says what is wrong with it
        return []
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
