"""Data sets of other installed packages: what their functions return is checked at the door."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.plugins import Plugin, short_value
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest, SourceFile, Windows
from obygaze_features.manifest.windows import Grid

READ_BY = "read by "  # begins the note of a manifest that a plugin read


class _Form(NamedTuple):
    """What a field must be, and the types of which it is an instance then."""

    words: str
    types: tuple[type, ...]
    items: tuple[type, ...] = ()

    def holds(self, value: object) -> bool:
        """Return whether a value, with the items in it, is of these types."""
        if not isinstance(value, self.types) or isinstance(value, bool):
            return False
        if not self.items:
            return True
        parts: Any = value
        if isinstance(value, Mapping):
            parts = [*value.keys(), *value.values()]
        return all(isinstance(part, self.items) for part in parts)


_TEXT = _Form("a string", (str,))
_TEXTS = _Form("a tuple of strings", (tuple, list), (str,))
_TEXT_BY_TEXT = _Form("a mapping of strings to strings", (Mapping,), (str,))
_SECONDS = _Form("a number of seconds, or None", (Real, type(None)))
_IMPORTED = {"manifest": _Form("a Manifest", (Manifest,)), "warnings": _TEXTS}
_MANIFEST = {
    "header": _Form("a Header", (Header,)),
    "clips": _Form("a sequence of Clip", (tuple, list, Windows)),
    "columns": _TEXTS,
}
_HEADER = {
    "dataset": _TEXT,
    "concepts": _Form("a mapping of each concept to its modality", (Mapping,), (str,)),
    "unit": _TEXT,
    "view": _TEXT,
    "licence": _TEXT,
    "citation": _TEXT,
    "notes": _TEXTS,
    "sources": _Form("a tuple of SourceFile", (tuple, list), (SourceFile,)),
    "video_root": _TEXT,
    "grid": _Form("a Grid", (Grid,)),
}
_SOURCE = {"file": _TEXT, "sha256": _TEXT}
_CLIP = {
    "clip_id": _TEXT,
    "movie_id": _TEXT,
    "scene": _Form("a whole number, or None", (Integral, type(None))),
    "video": _TEXT,
    "start_s": _SECONDS,
    "end_s": _SECONDS,
    "level": _TEXT,
    "concepts": _TEXTS,
    "extra": _TEXT_BY_TEXT,
}


def read_installed(
    plugin: Plugin, files: Sequence[Path], name: str
) -> ImportedManifest:
    """Return the manifest that a plugin reads from files, with its package as a note.

    Args:
        plugin: A plugin of the group `obygaze.datasets`.
        files: The files to read.
        name: The name of the manifest.
    """
    check_plugin(plugin)
    function: Any = plugin.load()
    returned = plugin.call(lambda: function([*files], name=name), "failed")
    if not isinstance(returned, ImportedManifest):
        raise plugin.refuse(
            f"must return an ImportedManifest, got {short_value(returned)}"
        )
    _check(plugin, returned, _IMPORTED, "the ImportedManifest")
    _check(plugin, returned.manifest, _MANIFEST, "the Manifest")
    header = returned.manifest.header
    _check(plugin, header, _HEADER, "the Header")
    for source in header.sources:
        _check(plugin, source, _SOURCE, "a SourceFile")
    notes = (*header.notes, f"{READ_BY}{plugin.package}")
    header = replace(header, notes=notes, sources=tuple(header.sources))
    clips = returned.manifest.clips
    if not isinstance(clips, Windows):
        clips = tuple(_plain_clip(plugin, clip) for clip in clips)
    columns = tuple(returned.manifest.columns)
    manifest = Manifest(name, header, clips, columns)
    plugin.call(
        lambda: check_manifest(manifest), "returned a manifest that is not valid"
    )
    return ImportedManifest(manifest, tuple(returned.warnings))


def packages_that_read(header: Header) -> list[str]:
    """Return name and version of the packages of plugins that read the clips of a manifest."""
    return [
        note.removeprefix(READ_BY) for note in header.notes if note.startswith(READ_BY)
    ]


def check_plugin(plugin: Plugin) -> None:
    """Raise an error, which names the plugin, unless it is a function."""
    function = plugin.load()
    if not callable(function):
        raise plugin.refuse(f"must be a function, got {short_value(function)}")


def _plain_clip(plugin: Plugin, clip: object) -> Clip:
    """Return a clip with numbers of Python; an error where a field has another type."""
    if not isinstance(clip, Clip):
        raise plugin.refuse(
            f"must return clips that are a Clip, got {short_value(clip)}"
        )
    _check(plugin, clip, _CLIP, f"the clip {clip.clip_id!r}")
    return replace(
        clip,
        scene=None if clip.scene is None else int(clip.scene),
        start_s=None if clip.start_s is None else float(clip.start_s),
        end_s=None if clip.end_s is None else float(clip.end_s),
        concepts=tuple(clip.concepts),
    )


def _check(
    plugin: Plugin, value: object, forms: Mapping[str, _Form], owner: str
) -> None:
    for field, form in forms.items():
        field_value = getattr(value, field)
        if not form.holds(field_value):
            raise plugin.refuse(
                f"returned what cannot be a manifest: {field} of {owner} must be {form.words},"
                f" got {short_value(field_value)}"
            )
