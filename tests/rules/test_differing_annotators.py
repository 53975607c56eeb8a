"""Rule (a): what is counted is the clip, not the rows of annotators, also where they differ."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from support.experiments import VISUAL, films, planted, quick, run_on, store_of
from support.sentences import recipe_of_words, write_sentences
from support.stores import made_store
from support.tables import rows_of

import obygaze as og
from obygaze.audits.annotations import audit_annotations
from obygaze.audits.eat import audit_eat
from obygaze.films.marks import read_marks, rows_of_people
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row
from obygaze_models.protocols.clips import (
    clip_table,
    differing_annotators,
    empty_labels,
    task_labels,
)
from obygaze_models.protocols.schema import Data, Task
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import store_runs

HEADER = Header("made up", {"Look": "visual", "Body": "visual", "Voice": "audio"})
COLUMNS = ("mood", "rating", "differs")
TASKS = {
    "levels": Task(classes={"EN": 0, "S": 1}),
    "words": Task(column="mood", values={"joy": 1, "fear": 0}),
    "one side": Task(positive="Look in concept"),
    "both sides": Task(
        positive="level == S and Look in concept",
        negative="level != S and Body not in concept",
    ),
    "any": Task(positive="concept"),
    "a number": Task(positive="rating >= 2"),
    "not": Task(positive="not (mood == joy or Body in concept)"),
    "columns": Task(positive="mood == joy and rating >= 2"),
    "one of": Task(positive="concept in {Look, Body} or level == HN"),
}
NAMES = ("level", "mood", "rating", "Look", "Body", "Voice")
DRAWN = st.lists(
    st.tuples(
        st.sampled_from(["EN", "HN", "S"]),
        st.sets(st.sampled_from(["Look", "Body", "Voice"])),
        st.sampled_from(["joy", "fear"]),
        st.sampled_from(["1", "2", "3"]),
        st.sets(st.sampled_from(NAMES)),
    ),
    min_size=1,
    max_size=6,
)
# Each task has both classes among these.
CERTAIN = [
    ("S", {"Look", "Body"}, "joy", "3", set()),
    ("EN", set(), "fear", "1", set()),
    ("S", {"Look", "Body"}, "joy", "1", set()),
    ("EN", set(), "fear", "3", set()),
]


Drawn = tuple[str, set[str], str, str, set[str]]


def manifest_of(drawn: Sequence[Drawn]) -> Manifest:
    clips = []
    for number, (level, concepts, mood, rating, left_open) in enumerate(drawn):
        names = tuple(name for name in HEADER.concepts if name in concepts)
        differs = "|".join(name for name in NAMES if name in left_open)
        extra = {"mood": mood, "rating": rating, "differs": differs}
        clips.append(Clip(f"c{number}", "m", level=level, concepts=names, extra=extra))
    return Manifest("made-up", HEADER, tuple(clips), COLUMNS)


def completed(row: Drawn) -> list[Drawn]:
    """A clip with each value that its annotators may agree on, where they differ."""
    level, concepts, mood, rating, left_open = row
    levels = ("EN", "HN", "S") if "level" in left_open else (level,)
    moods = ("joy", "fear") if "mood" in left_open else (mood,)
    ratings = ("1", "2", "3") if "rating" in left_open else (rating,)
    concept_sets = [concepts]
    for name in left_open.intersection(HEADER.concepts):
        concept_sets = [
            more for one in concept_sets for more in (one - {name}, one | {name})
        ]
    return [(*of, set[str]()) for of in product(levels, concept_sets, moods, ratings)]


@given(DRAWN)
def test_a_disputed_clip_has_a_class_where_all_answers_give_it(drawn) -> None:
    """All others have the class that they have where nobody differs."""
    drawn = [*CERTAIN, *drawn]
    disputed = clip_table(manifest_of(drawn), Data(view="raw"))
    answers = [completed(row) for row in drawn]
    agreed = clip_table(
        manifest_of([*CERTAIN, *chain.from_iterable(answers)]), Data(view="raw")
    )
    for name, task in TASKS.items():
        of_agreed = iter(task_labels(name, task, agreed).tolist()[len(CERTAIN) :])
        classes = [{next(of_agreed) for _ in of_clip} for of_clip in answers]
        is_open = [len(of_clip) > 1 for of_clip in classes]
        expected = [of_clip.pop() if len(of_clip) == 1 else -1 for of_clip in classes]
        found = task_labels(name, task, disputed)
        assert found.tolist() == expected
        said = differing_annotators({name: task}, [name], disputed)
        n_disputed = sum(is_open)
        counted = f"{n_disputed} of {len(drawn)} clips have no class in {name}, because"
        assert said.startswith(counted if n_disputed else "")
        assert bool(said) == bool(n_disputed)
        assert empty_labels({name: task}, {name: found}, disputed) == ""


def test_what_can_only_be_heard_decides_nothing_in_the_visual_view() -> None:
    """Annotators differ on Voice: nothing that can be seen is open."""
    rows: list[Drawn] = [
        *CERTAIN,
        ("S", {"Voice"}, "joy", "1", {"Voice"}),
        ("S", {"Look"}, "joy", "1", {"Voice", "mood"}),
    ]
    table = clip_table(manifest_of(rows), Data(view="visual"))
    assert task_labels("any", TASKS["any"], table).tolist() == [1, 0, 1, 0, 0, 1]
    assert [clip.extra["differs"] for clip in table.clips[-2:]] == ["", "mood"]


FILMS = films(4, 16, seed=5, runs_on=0.3)


def with_disputes(manifest: Manifest, *, have_concept: bool) -> Manifest:
    """Annotators differ on the concepts of every third clip, which has all of them or none."""
    clips = []
    for number, clip in enumerate(manifest):
        extra = {"differs": ""}
        if number % 3 == 0:
            names = VISUAL if have_concept else ()
            clip = replace(clip, level="S", concepts=names)
            extra = {"differs": "|".join(VISUAL)}
        clips.append(replace(clip, extra=extra))
    return replace(manifest, clips=tuple(clips), columns=("differs",))


def plain_oracle(manifest: Manifest) -> list[float]:
    """The scores of a regression on concepts; one on which annotators differ counts as half."""
    kept = [clip for clip in manifest if clip.level in ("EN", "S")]
    half = [bool(clip.extra["differs"]) for clip in kept]
    marks = [[float(name in clip.concepts) for name in VISUAL] for clip in kept]
    X = np.where(np.array(half)[:, None], 0.5, marks)
    y = np.array([clip.level == "S" for clip in kept])
    films_of = np.array([clip.movie_id for clip in kept])
    scores = np.empty(len(kept))
    for film in set(films_of.tolist()):
        tested = films_of == film
        model = LogisticRegression(class_weight="balanced", max_iter=1000)
        model.fit(X[~tested], y[~tested])
        scores[tested] = model.predict_proba(X[tested])[:, 1]
    return scores.tolist()


def test_a_disputed_clip_finds_no_concept_vector(tmp_path: Path) -> None:
    """Vectors, and what is said of them, are the same to the bit whether it has the concept.

    So are the scores of the oracle, and the factors of success.
    """
    X = planted(FILMS)
    changes = (
        *("data.view=raw", 'grid.models=["pcbm-lr"]', "models.pcbm-lr.tolerance=0.1"),
        *('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.contrast=[]"),
        *('grid.baselines=["oracle"]', "report.error_analysis=true"),
    )
    store = store_of(tmp_path / "s", FILMS, X)
    protocol = quick("honest", *changes, replicates=2)
    found = []
    for have_concept in (True, False):
        manifest = with_disputes(FILMS, have_concept=have_concept)
        run = run_on(tmp_path, protocol, manifest, {"x": store})
        tests = rows_of(run.predictions, model="pcbm-lr")
        scores = [row["score"] for row in tests]
        tables = [rows_of(run.table(f"{name}.csv")) for name in ("concepts", "success")]
        assert all(tables)
        oracle = rows_of(run.predictions, model="oracle")
        by_clip = {row["clip_id"]: row["score"] for row in oracle}
        in_order = [by_clip[one] for one in manifest.clip_ids if one in by_clip]
        assert in_order == pytest.approx(plain_oracle(manifest), abs=1e-4)
        found.append((scores, in_order, tables))
        inputs = gather(protocol, manifest, "made-up", {"x": store})
        (of_store,) = store_runs(inputs)
        targets = of_store.concepts.targets["absent"]
        assert (targets[::3] == -1).all() and (targets[1::3] >= 0).any()
    assert repr(found[0]) == repr(found[1])


GROUPED = [
    ("S", {"Look"}, "joy", "1", set[str]()),
    ("S", {"Body"}, "joy", "2", {"Look"}),
    ("S", {"Body"}, "fear", "3", set[str]()),
    ("EN", set[str](), "", "1", {"mood"}),
    ("EN", set[str](), "joy", "1", set[str]()),
]


@pytest.mark.parametrize(
    ("expression", "ids", "left_open"),
    [
        ("Look in concept", ["c0"], "Look"),
        ("Look not in concept", ["c2", "c3", "c4"], "Look"),
        ("level == EN and not mood == joy", [], "mood"),
        ("rating >= 2", ["c1", "c2"], ""),
        ("Look in concept and level == EN", [], ""),
        ("Look in concept or mood == joy", ["c0", "c1", "c4"], "mood"),
    ],
)
def test_a_clip_that_annotators_leave_open_is_in_no_selection(
    expression, ids, left_open
) -> None:
    manifest = manifest_of(GROUPED)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        selected = manifest.where(expression)
    assert list(selected.clip_ids) == ids
    said = f"made-up: 1 clip excluded, because annotators differ on {left_open}"
    assert [str(one.message) for one in caught] == [said] * bool(left_open)


@pytest.mark.filterwarnings("ignore:made-up")
def test_shares_of_groups_are_of_undisputed_clips() -> None:
    """By hand: of c0, c1, c2 against c3, c4, c1 has no known concept, and c3 no known mood."""
    manifest = manifest_of(GROUPED)
    groups = {"x": "level == S", "y": "level == EN"}
    for column, n_x, n_y, share_x in (("concepts", 2, 2, 1 / 2), ("mood", 3, 1, 2 / 3)):
        found = og.audit.annotations(manifest, column=column, **groups).to_json()
        assert (found["n_x"], found["n_y"]) == (n_x, n_y)
        estimate_share = {value["value"]: value["share_x"] for value in found["values"]}
        assert estimate_share["Look" if column == "concepts" else "joy"] == share_x


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("brug,,", "'0' is of the film 'brug', not 'alba'"),
        (",7.5,9", "'0' is 7.5 s to 9 s, not 0 s to 2 s"),
        ("alba,0,2", ""),
        (",,", ""),
    ],
)
def test_a_table_chooses_no_other_clip_of_its_ids(tmp_path, cells, problem) -> None:
    clips = []
    for number, level in enumerate(("S", "EN", "S", "EN")):
        times = 2.0 * number, 2.0 * number + 2
        extra = {"mood": level}
        clips.append(Clip(str(number), "alba", None, "", *times, level, (), extra))
    manifest = Manifest("films", Header("made up"), tuple(clips), ("mood",))
    table = tmp_path / "x.csv"
    table.write_text(f"clip_id,movie_id,start_s,end_s\n0,{cells}\n", encoding="utf-8")
    groups: dict[str, Any] = {"column": "mood", "x": table, "y": "level == EN"}
    if not problem:
        assert audit_annotations(manifest, **groups).to_json()["n_x"] == 1
        return
    with pytest.raises(Mismatch, match=f"1 clip of the table x.csv .*{problem}"):
        audit_annotations(manifest, **groups)


def test_an_association_of_clips_without_films_is_refused(tmp_path: Path) -> None:
    ids = ("alba-00", "brug-01")
    manifest = Manifest("films", Header("made up"), [Clip(one, "") for one in ids])
    vectors = np.eye(2, dtype=np.float32)
    rows = [Row(one, "") for one in ids]
    made_store(tmp_path / "s", rows, {"clip": vectors}, recipe=recipe_of_words())
    texts = write_sentences(tmp_path / "t.npz", {"up": vectors[0], "down": vectors[1]})
    with pytest.raises(FixInput, match="the films of the group 'clips' are unknown"):
        audit_eat(tmp_path / "s", manifest, x=ids[:1], y=ids[1:], text=texts)


def test_a_mark_of_several_people_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    lines = ["movie_id,start_s,end_s,column,value,annotator"]
    for number, who in enumerate(("ada|ben", "ada", "ben")):
        lines.append(f"alba,{number},{number + 1},level,S,{who}")
    table.write_text("\n".join(lines), "utf-8")
    with pytest.raises(FixInput, match="cannot be read") as caught:
        read_marks([table])
    assert "expected one name, got 'ada|ben'" in caught.value.details[0]
    clips = [Clip("c", "alba", None, "", 0.0, 1.0, "S", (), {"annotator": "ada|ben"})]
    manifest = Manifest("rows", Header("a test"), tuple(clips), ("annotator",))
    with pytest.raises(FixInput, match=r"one annotator in each row, got: ada\|ben"):
        rows_of_people(manifest)
