"""Rule (c): a level is seen through a view, the view is named, and no modality is guessed."""

from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from obygaze.audits.annotations import audit_annotations
from obygaze.audits.levels import audit_levels
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import NO_LEVEL, Clip, Header, Manifest
from obygaze_features.manifest.stats import compute_stats
from obygaze_features.manifest.vocabulary import LEVELS, MODALITIES
from obygaze_models.protocols.clips import (
    clip_table,
    empty_labels,
    labels_sha256,
    task_labels,
)
from obygaze_models.protocols.schema import Data, Task
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import current_labels

pytestmark = pytest.mark.filterwarnings("ignore:.*concepts:UserWarning")

CONCEPTS = ("Look", "Body", "Voice", "Grip", "Glint")
EN_S = Task(classes={"EN": 0, "S": 1})


class Labelled(NamedTuple):
    """A clip of a made-up manifest: film, level, concepts."""

    film: str
    level: str
    concepts: tuple[str, ...]


LABELS = st.builds(
    Labelled,
    st.sampled_from(("alba", "brug", "cima")),
    st.sampled_from(("", *LEVELS)),
    st.lists(st.sampled_from(CONCEPTS), unique=True, max_size=3).map(tuple),
)
ROWS = st.lists(LABELS, min_size=1, max_size=14)
VIEWS = st.sampled_from(("raw", "visual"))


def vocabularies(*words: str) -> st.SearchStrategy[dict[str, str]]:
    """A modality for each concept."""
    return st.fixed_dictionaries(dict.fromkeys(CONCEPTS, st.sampled_from(words)))


def manifest_of(rows: list[Labelled], modality_of: dict[str, str]) -> Manifest:
    clips = [
        Clip(f"c{i:02d}", row.film, i, level=row.level, concepts=row.concepts)
        for i, row in enumerate(rows)
    ]
    header: Any = Header("made up", modality_of)
    return Manifest("films", header, tuple(clips))


def plain_view(rows, modality_of, view) -> list[Labelled]:
    """The rows as the paper's rule says: what cannot be seen is left out, nothing seen is EN."""
    if view == "raw":
        return rows
    seen = []
    for row in rows:
        visible = tuple(name for name in row.concepts if modality_of[name] == "visual")
        level = row.level
        if row.level and not visible:
            level = "EN"
        seen.append(Labelled(row.film, level, visible))
    return seen


def plain_usual(rows: list[Labelled], modality_of: dict[str, str]) -> str:
    used = {name for row in rows for name in row.concepts}
    return "visual" if any(modality_of[name] == "visual" for name in used) else "raw"


@given(ROWS, vocabularies(*MODALITIES), VIEWS)
def test_stats_count_every_clip_once_in_the_view_that_they_name(
    rows, modality_of, view
):
    manifest = manifest_of(rows, modality_of)
    seen = plain_view(rows, modality_of, view)
    stats = compute_stats(manifest, view=view)
    n_of = Counter(row.level for row in seen)
    assert stats.levels == {level: n_of[level] for level in LEVELS}
    assert stats.without_level == n_of[""]
    assert f"{view} view" in str(stats)
    pairs = Counter((row.level, name) for row in seen for name in row.concepts)
    of_levels = {**stats.concepts, "": stats.concepts_without_level}
    counted = {
        (one, name): n for one in of_levels for name, n in of_levels[one].items()
    }
    assert Counter(counted) == pairs
    if n_of[""]:
        assert NO_LEVEL in str(stats)


@pytest.fixture(scope="module")
def no_intervals() -> Iterator[None]:
    """Intervals are bootstrapped, which takes the time, and say nothing of the view."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("annotations", "levels"):
            module = import_module(f"obygaze.audits.{name}")
            patch.setattr(module, "ratio_interval", lambda *_, **__: [None, None])
        yield


@pytest.mark.usefixtures("no_intervals")
@given(ROWS, vocabularies(*MODALITIES), st.sampled_from(("raw", "visual", None)))
def test_audits_and_tasks_have_the_levels_of_their_view(rows, modality_of, view):
    manifest = manifest_of(rows, modality_of)
    used = view or plain_usual(rows, modality_of)
    seen = plain_view(rows, modality_of, used)
    of_clips = [row.level for row in seen]
    rated = [level for level in of_clips if level in LEVELS[1:]]
    if rated:
        audit = audit_levels(manifest, view=view)
        levels = audit["annotators"][0]["levels"]
        n_of = {level["level"]: level["n_clips"] for level in levels}
        assert n_of == {level: rated.count(level) for level in LEVELS[1:]}
        assert f"{used} view" in str(audit)
        assert ("the level is missing" in str(audit)) == ("" in of_clips)
    if view is None and {"S", "EN"} <= set(of_clips):
        groups = {"x": "level == S", "y": "level == EN"}
        # Every value is tested; without any there is nothing to test.
        has_any = any(row.concepts for row in seen if row.level in ("EN", "S"))
        if has_any:
            tested = audit_annotations(manifest, **groups).to_json()
            assert tested["view"] == used
            assert tested["n_x"] == of_clips.count("S")
            of_value = {value["value"]: value for value in tested["values"]}
            for name, value in of_value.items():
                with_name = [row.level for row in seen if name in row.concepts]
                assert value["count_x"] == with_name.count("S")
                assert value["count_y"] == with_name.count("EN")
    has_no_concept = not any(row.concepts for row in rows)
    if {"S", "EN"} <= set(of_clips) and not (view == "visual" and has_no_concept):
        table = clip_table(manifest, Data(view=view or "auto"))
        assert table.view == used
        classes = [{"EN": 0, "S": 1}.get(level, -1) for level in of_clips]
        labels = task_labels("EN_S", EN_S, table)
        assert labels.tolist() == classes
        left_out = empty_labels({"EN_S": EN_S}, {"EN_S": labels}, table)
        n_without = of_clips.count("")
        assert left_out.startswith(f"{n_without} of ") == (n_without > 0)


@given(
    ROWS,
    vocabularies(*MODALITIES),
    st.lists(LABELS, min_size=14, max_size=14),
    vocabularies(*MODALITIES),
    VIEWS,
    st.integers(0, 14),
)
def test_a_change_of_labels_in_the_view_of_a_run_is_noticed_and_no_other(
    rows, modality_of, other_labels, other_modalities, view, first_changed
):
    if not any(row.concepts for row in rows):
        rows = [*rows, Labelled("alba", "S", ("Look",))]
    after = rows[:first_changed]
    for row, other in zip(rows[first_changed:], other_labels, strict=False):
        after.append(other._replace(film=row.film))
    after += rows[len(after) :]
    # Labels without any concept cannot be seen in the visual view.
    assume(any(row.concepts for row in after))
    before = manifest_of(rows, modality_of)
    table = clip_table(before, Data(view=view))
    recorded = labels_sha256(table, {"any": np.zeros(0, dtype=np.int8)})
    recorded["classes"] = {}
    about = {"name": "films", "view": view, "sha256": "", "labels": recorded}
    described = {"manifest": about, "protocol": {"data": {"view": view}, "tasks": {}}}
    run = Run(Path("runs/first"), described)
    seen_before = plain_view(rows, modality_of, view)
    seen_after = plain_view(after, other_modalities, view)
    found = current_labels(run, manifest_of(after, other_modalities))
    assert bool(found.changed) == (seen_before != seen_after)
    assert found.manifest is not None and found.manifest.header.view == view


ASKING: tuple[Callable[[Manifest], Any], ...] = (
    lambda manifest: manifest.view(),
    lambda manifest: manifest.view("visual"),
    lambda manifest: manifest.usual_view,
    lambda manifest: compute_stats(manifest, view="visual"),
    audit_levels,
    lambda manifest: audit_annotations(manifest, x="level == S", y="level == EN"),
    lambda manifest: clip_table(manifest, Data()),
    lambda manifest: clip_table(manifest, Data(view="visual")),
)


@given(
    ROWS,
    vocabularies(*MODALITIES),
    st.sampled_from(CONCEPTS),
    st.sampled_from(("unknown", "Visual", "", None)),
    st.sampled_from(ASKING),
)
def test_a_concept_without_a_modality_is_asked_for_and_never_guessed(
    rows, modality_of, name, word, ask
):
    with_it = [*rows, Labelled("alba", "S", (name,))]
    known = {concept: kind for concept, kind in modality_of.items() if concept != name}
    if word is not None:
        known[name] = word
    with pytest.raises(FixInput) as caught:
        ask(manifest_of(with_it, known))
    assert name in caught.value.message
    assert 'write CONCEPT = "visual"' in str(caught.value.hint)
    # Said once, it is answered; and what no clip has is not asked for.
    ask_again = manifest_of(with_it, {**known, name: "visual"})
    assert ask_again.view("visual")[f"c{len(rows):02d}"].level == "S"
    unused = [row for row in rows if name not in row.concepts]
    assert len(manifest_of(unused, known).view()) == len(unused)
