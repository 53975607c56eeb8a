"""Story 39: two coders, one label.

Two people coded the same clips, in a table with a row or with columns for each. I want to know in
how many clips they differ, and how far they agree. I choose what the label is, and the experiment
has each clip once.
"""

import itertools

import numpy as np

from stories.results import Row, scores_of, the_result
from stories.workspace import Workspace

FILMS = tuple(f"film{number}" for number in range(1, 7))
PER_FILM = 10
CODERS = ("Ada", "Ben")
LEVELS = ("EN", "HN", "NS", "S")
RULES = ("agreed", "majority", "highest", "mean", "by:NAME")
QUICK = (
    """--set 'grid.models=["ridge"]' --set 'grid.baselines=["random"]'"""
    " --set report.replicates=50 --set report.compare=false --jobs 1"
)
MAPPED = "--map clip_id=Shot --map movie_id=Film"
ROWS = f"{MAPPED} --map annotator=Coder"
COLUMNS = (
    f"{MAPPED} --map 'coder:Ada=Level Ada' --map coder:Ada:tense=Ada"
    " --map 'coder:Ben=Level Ben' --map coder:Ben:tense=Ben"
)

Coded = dict[str, dict[str, tuple[str, str]]]


def coded_clips() -> Coded:
    """Return the level of each clip and whether it is tense, as each coder says; Ben skips some."""
    draws = np.random.default_rng(39)
    coded: Coded = {}
    for film, number in itertools.product(FILMS, range(PER_FILM)):
        level = LEVELS[int(draws.integers(4))] if number > 1 else ("EN", "S")[number]
        tense = "yes" if number % 2 else "no"
        ada = (level, tense)
        ben = ada
        if number > 3 and draws.random() < 0.4:
            other = LEVELS[int(draws.integers(4))]
            ben = (other, "no" if tense == "yes" else "yes")
        said = {"Ada": ada, "Ben": ben}
        if number == PER_FILM - 1:
            del said["Ben"]
        coded[f"{film}-{number}"] = said
    return coded


def write_tables(ws: Workspace, coded: Coded) -> None:
    rows: list[Row] = []
    wide: list[Row] = []
    for clip, said in coded.items():
        facts = {"Shot": clip, "Film": clip.partition("-")[0]}
        columns: Row = {}
        for name in CODERS:
            level, tense = said.get(name, ("", ""))
            columns |= {f"Level {name}": level, name: tense}
            if name in said:
                rows.append({**facts, "Coder": name, "level": level, "tense": tense})
        wide.append({**facts, **columns})
    ws.write_table("rows.csv", rows)
    ws.write_table("wide.csv", wide)
    draws = np.random.default_rng(1)
    X = draws.normal(size=(len(coded), 3)).astype(np.float32)
    X[:, 0] += [said["Ada"][1] == "yes" for said in coded.values()]
    np.savez(ws.path("own.npz"), clip_id=list(coded), X=X)


def labels_by_hand(coded: Coded, rule: str) -> dict[str, tuple[str, str]]:
    labels = {}
    for clip, said in coded.items():
        levels = [level for level, _ in said.values()]
        answers = [tense for _, tense in said.values()]
        tense = answers[0] if len(set(answers)) == 1 else ""
        level = levels[0] if len(set(levels)) == 1 else ""
        if rule == "highest":
            level = max(levels, key=LEVELS.index)
        labels[clip] = level, tense
        if rule == "by:Ben":
            labels[clip] = said.get("Ben", ("", ""))
    return labels


def labels_of(ws: Workspace, name: str) -> dict[str, tuple[str, str]]:
    rows = ws.read_table(f"manifests/{name}.csv")
    assert len({row["clip_id"] for row in rows}) == len(rows), "each clip has one row"
    return {row["clip_id"]: (row["level"], row["tense"]) for row in rows}


def test_two_coders_become_one_label(ws: Workspace) -> None:
    coded = coded_clips()
    write_tables(ws, coded)
    agreed = labels_by_hand(coded, "agreed")
    n_differing = sum("" in label for label in agreed.values())
    assert 10 < n_differing < 30

    for table, mapping in {"rows.csv": ROWS, "wide.csv": COLUMNS}.items():
        said = ws(f"manifest import {table} {mapping} -o films", code=1).text
        assert f"annotators differ in {n_differing} of {len(coded)} clips" in said
        assert all(rule in said for rule in RULES)
    assert not ws.path("manifests/films.csv").exists()

    said = ws(f"manifest import rows.csv {ROWS} --rule agreed -o films").text
    assert f"something is open in {n_differing} of {len(coded)} clips" in said
    assert labels_of(ws, "films") == agreed
    ws(f"manifest import wide.csv {COLUMNS} --rule agreed -o wide")
    for ending in (".csv", ".annotators.csv"):
        tables = [ws.read(f"manifests/{name}{ending}") for name in ("films", "wide")]
        assert tables[0] == tables[1], "both tables are read alike"
    for rule in ("majority", "highest", "by:Ben"):
        name = rule.replace(":", "-")
        ws(f"manifest labels films --rule {rule} -o {name}")
        assert labels_of(ws, name) == labels_by_hand(coded, rule)

    said = ws("agree films --column tense=yes").text
    assert "Krippendorff's alpha of 2 annotators (nominal distance): " in said
    ws("store import own.npz --array clip=X --manifest films -o own")
    ws(f"run honest --manifest films --store own --task tense -o tense {QUICK}")
    with_label = [clip for clip, (_, tense) in agreed.items() if tense]
    assert the_result(ws, "tense", model="ridge")["clips"] == len(with_label)
    assert sorted(scores_of(ws, "tense", model="ridge")) == sorted(with_label)
