"""Several annotators of the same clips: each alone, and the others as a predictor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import baselines, differences, the_cell

from obygaze_features.manifest.model import LEVELS, Clip, Header, Manifest
from obygaze_features.manifest.vocabulary import concepts
from obygaze_models.protocols.clips import ClipTable, clip_table, other_annotators
from obygaze_models.protocols.schema import Data, Task

EN_S = Task(classes={"EN": 0, "S": 1})


def clip(
    annotator: str, number: int, level: str, start: float | None, end: float | None
) -> Clip:
    extra = {"annotator": annotator}
    return Clip(
        f"{annotator}-{number}", "film", None, "", start, end, level, extra=extra
    )


def test_of_several_rows_the_highest_that_covers_a_fifth_counts() -> None:
    mine = [
        clip("ada", 0, "S", 0, 10),
        clip("ada", 1, "EN", 10, 20),
        clip("ada", 2, "S", 20, 30),
    ]
    theirs = [
        clip("ben", 0, "EN", 0, 8),
        # A fifth of the first clip, a little less of the second.
        clip("ben", 1, "S", 8, 11.9),
        clip("ben", 2, "HN", 11.9, 20),
    ]
    table = ClipTable("m", mine, (), of_any_annotator=[*mine, *theirs])
    assert [[o.clip_id for o in own] for own in table.others] == [
        ["ben-1"],
        ["ben-2"],
        [],
    ]
    found = other_annotators("EN_S", EN_S, table)
    assert found.tolist()[:2] == [1.0, 0.5]  # HN is in neither class
    assert np.isnan(found[2])


def test_two_others_are_averaged_and_ids_are_enough_without_times() -> None:
    rows = [
        replace(
            clip(name, 0, level, None, None),
            extra={"annotator": name, "given_clip_id": "c"},
        )
        for name, level in (("ada", "S"), ("ben", "S"), ("cid", "EN"))
    ]
    found = other_annotators("EN_S", EN_S, ClipTable("m", rows, ()))
    assert found.tolist() == [0.5, 0.5, 1.0]


def test_other_annotators_are_read_only_where_their_rows_are_not_left_out() -> None:
    """By hand: of four clips, ben marked one in the dark and one is of a film that is left out."""
    clips = []
    for number, (film, light) in enumerate(
        [("a", "day"), ("a", "dark"), ("b", "day"), ("a", "")]
    ):
        for name, level in (("ada", "EN"), ("ben", "S")):
            extra = {"annotator": name, "given_clip_id": f"c{number}", "light": "day"}
            if name == "ben":
                extra["light"] = light
            id = f"c{number}.{name}"
            clips.append(Clip(id, film, None, "", None, None, level, extra=extra))
    columns = ("annotator", "given_clip_id", "light")
    manifest = Manifest("m", Header("m", concepts()), tuple(clips), columns)

    def marked_by_others(where: str) -> dict[str, list[str]]:
        table = clip_table(manifest, Data(view="raw", where=where))
        pairs = zip(table.ids, table.others, strict=True)
        return {clip: [other.clip_id for other in others] for clip, others in pairs}

    of_ada = marked_by_others("annotator == ada")
    assert of_ada == {f"c{n}.ada": [f"c{n}.ben"] for n in range(4)}
    lit = marked_by_others("annotator == ada and light == day and movie_id == a")
    assert lit == {"c0.ada": ["c0.ben"], "c1.ada": [], "c3.ada": []}
    plain = marked_by_others("light == day")
    assert plain["c0.ada"] == ["c0.ben"] and plain["c1.ada"] == []


@pytest.fixture(scope="module")
def two() -> tuple[Manifest, Manifest]:
    """Clips of one annotator, and those with a second one who differs in a quarter of them."""
    manifest = films(6, 40, seed=3)
    rng = np.random.default_rng(0)
    rows = []
    for one in manifest:
        other = str(rng.choice(LEVELS)) if rng.random() < 0.25 else one.level
        for name, level in (("ada", one.level), ("ben", other)):
            extra = {"annotator": name, "given_clip_id": one.clip_id}
            concepts = one.concepts if level != "EN" else ()
            rows.append(
                replace(
                    one,
                    clip_id=f"{one.clip_id}.{name}",
                    level=level,
                    concepts=concepts,
                    extra=extra,
                )
            )
    both = replace(manifest, clips=tuple(rows), columns=("annotator", "given_clip_id"))
    return manifest, both


def test_each_annotator_alone_has_the_other_one_beside_the_models(
    two: tuple[Manifest, Manifest], tmp_path: Path
) -> None:
    manifest, both = two
    # One row for each clip.
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    one_cell = 'grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]'
    changes = ('grid.models=["ridge"]', "data.view=raw", *one_cell)
    alone = run_on(tmp_path, quick("honest", *changes), manifest, {"x": store})
    ada, ben = (
        run_on(
            tmp_path,
            quick("honest", *changes, f"data.where=annotator == {name}"),
            both,
            {"x": store},
        )
        for name in ("ada", "ben")
    )
    assert not baselines(alone, model="annotator")
    # Ada's labels are those of the manifest without a second annotator.
    auc = [the_cell(run, model="ridge").value("auc") for run in (ada, alone, ben)]
    assert auc[0] == auc[1] != auc[2]

    found = the_cell(ada, model="annotator")
    mine = [
        c
        for c in both
        if c.extra["annotator"] == "ada" and c.level in ("EN", "HN", "S")
    ]
    theirs = {
        c.extra["given_clip_id"]: c.level for c in both if c.extra["annotator"] == "ben"
    }
    y = np.array([c.level == "S" for c in mine])
    score = np.array(
        [{"S": 1.0, "NS": 0.5}.get(theirs[c.extra["given_clip_id"]], 0.0) for c in mine]
    )
    films = np.array([c.movie_id for c in mine])
    assert (found.n_clips, found.n_positive) == (len(y), y.sum())
    assert found.value("f1_binary") == pytest.approx(f1_score(y, score > 0.5))
    # Each film is a fold of the honest design: precision is averaged over them.
    parts = [films == film for film in np.unique(films)]
    by_film = [average_precision_score(y[p], score[p]) for p in parts]
    assert found.value("ap") == pytest.approx(np.mean(by_film))
    first, row = next(iter(found.by_film["auc"].items()))
    assert row["value"] == pytest.approx(
        roc_auc_score(y[films == first], score[films == first])
    )
    low, high = found.ends("f1_binary")
    assert low < found.value("f1_binary") < high
    assert found.leaked == 0 and "f1_binary_tuned" not in found.of_metric
    against = differences(ada, against_model="annotator")
    assert [row["model"] for row in against] == ["ridge"]
