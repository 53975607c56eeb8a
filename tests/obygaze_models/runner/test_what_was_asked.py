"""What a run says of itself is of what was asked: settings, classes, folds, arrays, backbones."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import ONE_PAIR, films, planted, quick, run_on, store_of
from support.joined_stores import joined_stores
from support.stores import made_store
from support.tables import rows_of

from obygaze_features.manifest.folds import OUTSIDE
from obygaze_features.store import Recipe, Row
from obygaze_models.evaluation.results import is_backbone
from obygaze_models.protocols.clips import class_names, clip_table
from obygaze_models.protocols.schema import Data, PaperValue, Task
from obygaze_models.protocols.splits import film_pairs, rotate_folds
from obygaze_models.runner.files import Run
from obygaze_models.runner.text import result_text

BOTTLENECK = (
    *('grid.models=["pcbm-lr"]', 'grid.train=["EN_S"]', 'grid.test=["EN_S"]'),
    *("grid.baselines=[]", "report.compare=false", "report.replicates=2"),
    *("models.pcbm-lr.tolerance=0.1", "models.pcbm-lr.cross_fit=2"),
    "report.contrast=[]",
)


def concepts_of(found: Run) -> dict[str, float]:
    """Return the weight of each concept."""
    table = found.table("concepts.csv")
    return dict(zip(table["concept"], table["weight"], strict=True))


def test_the_table_of_concepts_is_of_the_settings_that_folds_chose(tmp_path) -> None:
    manifest = films(5, 30)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    stores = {"x": store}

    def found(*changes: str) -> Run:
        return run_on(
            tmp_path, quick("honest-negatives", *BOTTLENECK, *changes), manifest, stores
        )

    chosen = found("models.pcbm-lr.C={ grid = [1.0, 0.000001] }")
    (fit,) = [fit for fit in chosen.about["fits"] if fit["model"] == "pcbm-lr"]
    (most, _), *_ = Counter(fold["chosen"]["C"] for fold in fit["folds"]).most_common()
    # Neither the first of the grid nor the default.
    assert most == 0.000001
    alone = found("models.pcbm-lr.C=0.000001")
    assert concepts_of(chosen) == pytest.approx(concepts_of(alone))


def test_concepts_have_no_p_where_the_order_of_clips_is_unknown(tmp_path: Path) -> None:
    """Their p shifts labels in time; the order of a table is no time."""
    manifest = films(5, 30)
    nowhere = {"scene": None, "start_s": None, "end_s": None}
    unordered = manifest.with_clips(replace(clip, **nowhere) for clip in manifest)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    protocol = quick("honest-negatives", *BOTTLENECK)
    known, unknown = (
        run_on(tmp_path, protocol, clips, {"x": store}).table("concepts.csv")
        for clips in (manifest, unordered)
    )
    assert known["p"].notna().any()
    assert unknown["p"].isna().all() and unknown["p_holm"].isna().all()
    assert unknown["ap"].tolist() == pytest.approx(known["ap"].tolist(), nan_ok=True)


def test_a_clip_without_a_concept_is_not_one_of_another() -> None:
    manifest = films(2, 40)
    clips = [clip for clip in manifest if clip.concepts in ((), ("Look",), ("Body",))]
    some = manifest.with_clips(clips)
    task = Task(positive="Look in concept")
    labels = np.array(["Look" in clip.concepts for clip in some]).astype(np.intp)
    names = class_names("concept=Look", task, labels, clip_table(some, Data()))
    assert names == ["not (concept=Look)", "concept=Look"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("calm", "tense"), ["calm", "tense"]),
        (("calm", "tense|sad"), ["not mood", "mood"]),
        (("1", "2"), ["not mood", "mood"]),
    ],
)
def test_classes_of_one_word_each_have_its_name(words, expected) -> None:
    manifest = films(2, 4)
    labels = np.arange(len(manifest)) % 2
    cells = {clip.clip_id: words[n % 2] for n, clip in enumerate(manifest)}
    some = manifest.with_column("mood", cells)
    task = Task(positive=f"mood == {words[1].split('|')[0]}")
    assert class_names("mood", task, labels, clip_table(some, Data())) == expected


def test_nothing_learns_from_a_clip_in_no_fold() -> None:
    folds = np.array([0, 1, OUTSIDE, 2, OUTSIDE, 0])
    labels = np.array([0, 1, 0, 1, 1, 1])
    usable = np.ones(6, dtype=np.bool_)
    for splits in (rotate_folds(folds, labels, usable), film_pairs(folds, usable)):
        assert [split.outside.tolist() for split in splits] == [[2, 4]] * len(splits)


RIDGE = ('grid.models=["ridge"]', "report.concepts=false")


def test_the_first_array_answers_unless_another_is_asked_for(tmp_path: Path) -> None:
    manifest = films(3, 12)
    rows = [Row(clip.clip_id, clip.movie_id) for clip in manifest]
    signal = planted(manifest, strength=2.0)
    noise = np.random.default_rng(5).standard_normal(signal.shape).astype(np.float32)
    seen = made_store(tmp_path / "seen", rows, {"pooled": signal, "clip": noise})
    said = made_store(tmp_path / "said", rows, {"words": noise})
    aps = []
    for stores, asked, shown in (
        ({"seen": seen}, (), "array pooled"),
        ({"seen": seen}, ('data.array=["clip"]',), "array clip"),
        ({"seen": seen, "said": said}, (), "array pooled of seen, array words of said"),
    ):
        protocol = quick("honest-negatives", *ONE_PAIR, *RIDGE, *asked, replicates=2)
        run = run_on(tmp_path, protocol, manifest, stores)
        assert f"visual view, {shown};" in result_text(run).splitlines()[1]
        aps.append(run.models[0].value("ap"))
    assert aps[0] == aps[2] > aps[1]


def test_no_pattern_matches_a_join(tmp_path: Path) -> None:
    assert is_backbone("X-CLIP (imported)", "x-clip")
    manifest = films(3, 12, seed=1)
    X = planted(manifest, width=14)
    stores = joined_stores(tmp_path, manifest, {"xclip-b16": X, "xclip-b32": -X})
    # What an importer calls a backbone joins nothing.
    recipe = Recipe.unknown("the importer", {"backbone": "a + b"})
    stores["import"] = store_of(tmp_path / "import", manifest, X, recipe=recipe)
    printed = [PaperValue("ap", 0.5, backbone=one) for one in ("*", "* + *")]
    protocol = quick(
        "honest-negatives", *ONE_PAIR, 'grid.models=["ridge"]', replicates=2
    )
    protocol = replace(protocol, paper=tuple(printed))
    run = run_on(tmp_path, protocol, manifest, stores)
    is_beside_paper = {}
    for row in rows_of(run.results, metric="ap", film="", against_model=""):
        is_beside_paper[row["store"]] = bool(np.isfinite(row["paper"]))
    assert is_beside_paper == {
        "xclip-b16": True,
        "xclip-b32": True,
        "joined": False,
        "import": True,
    }
