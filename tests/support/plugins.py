"""Packages with plugins, as an installation leaves them in a folder of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install_package(
    site: Path,
    package: str,
    modules: Mapping[str, str],
    entry_points: Mapping[str, Mapping[str, str]],
    version: str = "1.0",
) -> Path:
    """Write a package into a folder and return the folder.

    Args:
        site: The folder of installed packages.
        package: The name of the package.
        modules: The source of each of its modules.
        entry_points: By group, the name and the value of each entry point.
        version: The version of the package.
    """
    site.mkdir(parents=True, exist_ok=True)
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, encoding="utf-8")
    info = site / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    lines = []
    for group, points in entry_points.items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {value}" for name, value in points.items()]
    text = "\n".join(lines) + "\n"
    (info / "entry_points.txt").write_text(text, encoding="utf-8")
    return site
