"""Data sets of one's own: what an own function returns is checked at the door."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from obygaze_features.core.foreign import short_value
from obygaze_features.core.parts import Part
from obygaze_features.manifest.adapters import ImportedManifest
from obygaze_features.manifest.io import check_manifest
from obygaze_features.manifest.model import Header, with_columns_of

READ_BY = "read by "  # begins the note of a manifest that own code read


def read_own(part: Part, files: Sequence[Path], name: str) -> ImportedManifest:
    """Return the manifest that an own function reads from files, with its version as a note.

    Args:
        part: The function.
        files: The files to read.
        name: The name of the manifest.
    """
    function = part.load_function()
    returned = part.call(lambda: function([*files], name=name), "failed")
    if not isinstance(returned, ImportedManifest):
        raise part.refuse(
            f"must return an ImportedManifest, got {short_value(returned)}"
        )
    return part.call(
        lambda: _checked(returned, f"{READ_BY}{part.package}", name),
        "returned a manifest that is not valid",
    )


def packages_that_read(header: Header) -> list[str]:
    """Return the versions of own code that read the clips of a manifest."""
    return [
        note.removeprefix(READ_BY) for note in header.notes if note.startswith(READ_BY)
    ]


def _checked(returned: ImportedManifest, note: str, name: str) -> ImportedManifest:
    """Return a manifest with a note; an error where its files could not be read back."""
    header = returned.manifest.header
    noted = structs.replace(header, notes=(*header.notes, note))
    columns = with_columns_of(returned.manifest.clips, returned.manifest.columns)
    # A clip may be without a column that others have.
    blank = dict.fromkeys(columns, "")
    clips = []
    for clip in returned.manifest.clips:
        clips.append(replace(clip, extra={**blank, **clip.extra}))
    manifest = replace(
        returned.manifest, name=name, header=noted, clips=tuple(clips), columns=columns
    )
    check_manifest(manifest)
    return returned._replace(
        manifest=manifest,
        warnings=_sentences(returned.warnings),
        notes=_sentences(returned.notes),
    )


def _sentences(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
