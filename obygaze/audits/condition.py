"""The condition that a share counts: whether it holds for a clip, or whether nobody can tell."""

from __future__ import annotations

from collections.abc import Iterable

from obygaze.audits.annotations import require_column
from obygaze.films.marks import UNKNOWN
from obygaze_features.core.errors import FixInput
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.expression import Expression, is_labelled, parse
from obygaze_features.manifest.model import Clip, Manifest, require_numbers
from obygaze_features.manifest.vocabulary import concepts as concepts_of_papers


def parse_condition(of: str, manifest: Manifest) -> Expression:
    """Return the parsed expression.

    For a clip, the expression is None (unknown) if its truth depends on a missing label.
    """
    concepts = dict.fromkeys(manifest.header.concepts)
    for clip in manifest:
        concepts |= dict.fromkeys(clip.concepts)
    concepts = concepts or dict.fromkeys(concepts_of_papers())
    expression = parse(
        of, vocabulary=concepts, where=of, of_empty=None, words_of=manifest.words
    )
    # Without levels, a clip without the concept cannot be told from a clip that nobody judged.
    has_levels = any(is_labelled("level", clip.values) for clip in manifest)
    if expression.concepts and not has_levels:
        raise FixInput(
            "expected clips with levels, which show whether a concept was judged, got clips"
            " without levels",
            where=of,
        )
    for column in expression.compared:
        require_column(manifest, column)
    require_numbers(expression, manifest.clips, manifest.name)
    unknown = manifest.unknown_values(expression)
    if unknown:
        raise FixInput("; ".join(unknown), where=of)
    return expression


def line_of_sample(manifest: Manifest) -> str:
    """Return the command that draws a sample of a manifest: five clips a film, if it has these."""
    n_drawn = min(5 * len(manifest.films), len(manifest))
    return f"obygaze manifest sample {shell_word(manifest.name)} -n {n_drawn} -o drawn"


def judge(expression: Expression, clips: Iterable[Clip]) -> dict[str, bool]:
    """Return whether an expression holds, for each clip for which this is known."""
    holds = {}
    for clip in clips:

        def values(column: str, clip: Clip = clip) -> list[str]:
            return [value for value in clip.values(column) if value != UNKNOWN]

        is_so = expression.holds(values)
        if is_so is not None:
            holds[clip.clip_id] = is_so
    return holds
