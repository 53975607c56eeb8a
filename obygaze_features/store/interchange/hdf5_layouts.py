"""Finds out how an HDF5 file about which nothing was told keeps its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py

from obygaze_features.core.errors import FixInput
from obygaze_features.store.interchange.source import level_name

ID = "{id}"
LEVELS_ATTRIBUTE = "obygaze_levels"  # written by export: which levels a file holds


def found_levels(handle: Any, path: Path) -> dict[str, str]:
    """The layout of a file about which nothing was told, if there is one that fits."""
    kinds = kinds_of(handle)
    groups = [name for name, kind in kinds.items() if kind is h5py.Group]
    if len(groups) < len(kinds):
        return {_flat_level(handle, kinds): ID}
    experts = [name for name in groups if name.startswith("features.")]
    if experts:
        return {level_name(name): f"{name}/{ID}" for name in experts}
    return _levels_within(handle, groups, path)


def kinds_of(group: Any) -> dict[str, Any]:
    """Whether it is a group or a dataset, for each name in a group that is no link."""
    return {
        name: group.get(name, getclass=True)
        for name in group
        if isinstance(group.get(name, getlink=True), h5py.HardLink)
    }


def _flat_level(handle: Any, kinds: Mapping[str, Any]) -> str:
    told = _told_levels(handle)
    if len(told) == 1:
        return told[0]
    first = next(name for name, kind in kinds.items() if kind is h5py.Dataset)
    return "frames" if handle[first].ndim > 1 else "clip"


def _told_levels(handle: Any) -> list[str]:
    """The levels that `export` notes in the files it writes."""
    told = handle.attrs.get(LEVELS_ATTRIBUTE)
    return [str(name) for name in told] if told is not None else []


def _levels_within(handle: Any, groups: Sequence[str], path: Path) -> dict[str, str]:
    if not groups:
        raise FixInput("nothing is in this file", where=str(path))
    first = handle[groups[0]]
    arrays = [
        name
        for name, kind in kinds_of(first).items()
        if kind is h5py.Dataset and first[name].dtype.kind == "f" and first[name].ndim
    ]
    prefix = "v_" if all(name.startswith("v_") for name in groups) else ""
    named = [name for name in arrays if name == "features" or name.endswith("_features")]
    chosen = named if len(named) == 1 else arrays
    told = _told_levels(handle)
    if told:
        return {name: f"{ID}/{name}" for name in told}
    if len(chosen) != 1:
        raise FixInput(
            f"each clip has {', '.join(arrays) or 'no array of numbers'}",
            where=str(path),
            hint=f"--level NAME='{prefix}{ID}/KEY' for each of those that are wanted",
        )
    return {level_name(chosen[0]): f"{prefix}{ID}/{chosen[0]}"}
