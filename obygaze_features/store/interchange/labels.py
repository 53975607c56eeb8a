"""The labels that leave with features: of which manifest they are, and under which terms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Manifest, Windows


@dataclass(frozen=True)
class LabelTerms:
    """The manifest that labels are from, and its licence and citation, "" where not stated."""

    manifest: str
    sha256: str
    licence: str
    citation: str

    @classmethod
    def of(cls, manifest: Manifest) -> "LabelTerms":
        """Return the terms of the labels of a manifest."""
        header = manifest.header
        return cls(
            manifest.name, manifest_sha256(manifest), header.licence, header.citation
        )

    def to_json(self) -> dict[str, Any]:
        """Return the terms as plain JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        """Return the terms as sentences."""
        text = (
            f"Titles, times and labels are those of the manifest {self.manifest}, sha256"
            f" {self.sha256}. Their licence: {self.licence or 'not stated'}."
        )
        if self.citation:
            text += f" Cite for them: {self.citation}"
        return text


def check_labels(labels: Manifest, clip_ids: Sequence[str], where: str) -> str:
    """Return a sentence on clips that a manifest does not have; an error if it has none of them.

    Windows have no labels, and their titles go by film.

    Args:
        labels: The manifest.
        clip_ids: The clips that get its labels.
        where: The store of these clips.
    """
    if isinstance(labels.clips, Windows):
        return ""
    missing = [clip for clip in clip_ids if clip not in labels.by_id]
    if not missing:
        return ""
    if len(missing) == len(clip_ids):
        raise FixInput(
            f"the manifest {labels.name} has none of the clips of this store: the first clip here"
            f" is {clip_ids[0]!r}, there {next(iter(labels.clip_ids), '')!r}",
            where=where,
            hint="--with-labels with the manifest of this store; obygaze store info names it",
        )
    return (
        f"{count(len(missing), 'clip')} of {len(clip_ids)} without labels: the manifest"
        f" {labels.name} does not have them"
    )
