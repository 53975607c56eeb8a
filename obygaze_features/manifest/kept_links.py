"""Videos that a manifest keeps when it is imported again: those of clips that did not change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from obygaze_features.manifest.link import (
    LINK_COLUMNS,
    NAME_COLUMN,
    file_name,
    film_span,
    is_linked,
    unlinked,
)
from obygaze_features.manifest.model import Clip, Manifest


@dataclass(frozen=True)
class KeptLinks:
    """A manifest with the videos of the one before it.

    `n_changed` clips were linked before and are not any more, because their film, scene, times or
    file name changed.
    """

    manifest: Manifest
    n_kept: int
    n_changed: int


def keep_links(before: Manifest, manifest: Manifest) -> KeptLinks:
    """Return a manifest in which each clip that did not change has its video of before.

    Args:
        before: The manifest that is replaced.
        manifest: The manifest that replaces it; none of its clips is linked.
    """
    linked_before = {clip.clip_id: clip for clip in before if is_linked(clip)}
    # A data set may have the names of its files, and a column of the same name as `link` writes.
    if not linked_before or not before.header.video_root:
        return KeptLinks(manifest, 0, 0)
    root = before.header.video_root
    if manifest.header.video_root not in ("", root):
        # Names of files mean others below another folder.
        return KeptLinks(manifest, 0, len(linked_before))
    n_kept = 0
    n_changed = 0
    clips = []
    for clip in manifest:
        old = linked_before.get(clip.clip_id)
        if old is not None and _is_same(unlinked(old), clip):
            clip = _with_link_of(old, clip)
            n_kept += 1
        else:
            n_changed += old is not None
            if not manifest.header.video_root:
                clip = _without_file(clip)
        clips.append(clip)
    if not n_kept:
        return KeptLinks(manifest, 0, n_changed)
    columns = list(manifest.columns)
    for name in LINK_COLUMNS:
        if any(name in clip.extra for clip in clips) and name not in columns:
            columns.append(name)
    header = replace(manifest.header, video_root=root)
    linked = replace(_with_columns(manifest, clips, columns), header=header)
    return KeptLinks(linked, n_kept, n_changed)


def _is_same(old: Clip, new: Clip) -> bool:
    """Return whether two clips, neither of them linked, are the same piece of the same film."""
    same_place = (old.movie_id, old.scene) == (new.movie_id, new.scene)
    same_file = old.video == file_name(new)
    return same_place and same_file and _times(old) == _times(new)


def _times(clip: Clip) -> tuple[tuple[float, float] | None, tuple[float | None, ...]]:
    """Return the times of a clip in its film, and those in a file of its own."""
    span = film_span(clip)
    # Without a file of its own, its times are those in the film, wherever they are written.
    in_own_file = (clip.start_s, clip.end_s) if clip.video or span is None else ()
    return span, in_own_file


def _without_file(clip: Clip) -> Clip:
    """Return a clip that is not linked; a file name of its data set waits for `link`."""
    if not clip.video:
        return clip
    return replace(clip, video="", extra={**clip.extra, NAME_COLUMN: file_name(clip)})


def _with_link_of(old: Clip, clip: Clip) -> Clip:
    """Return a clip with the video of the old one, and its times in it."""
    link: Mapping[str, str] = {
        name: old.extra[name] for name in LINK_COLUMNS if name in old.extra
    }
    return replace(
        clip,
        video=old.video,
        start_s=old.start_s,
        end_s=old.end_s,
        extra={**clip.extra, **link},
    )


def _with_columns(
    manifest: Manifest, clips: Iterable[Clip], columns: list[str]
) -> Manifest:
    """Return a manifest of these clips, in which every clip has every column."""
    blank = dict.fromkeys(columns, "")
    filled = tuple(replace(clip, extra={**blank, **clip.extra}) for clip in clips)
    return replace(manifest, clips=filled, columns=tuple(columns))
