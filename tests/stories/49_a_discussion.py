"""Story 49: we discussed where we differ.

Two people coded 1,500 clips, and differ in 400. A workbook with the 400 goes out, and comes back
with decisions. The 1,100 other clips are unchanged, and the experiment uses the decisions.
"""

import numpy as np
import pandas
from support.workbooks import write_workbook

from stories.results import scores_of, the_result
from stories.workspace import Workspace

N_CLIPS = 1500
N_DIFFERING = 400
QUICK = (
    """--set 'grid.models=["ridge"]' --set 'grid.baselines=["random"]' --set splits.folds=3"""
    " --set report.replicates=50 --set report.compare=false --jobs 1"
)


def lines_of(ws: Workspace, *ids: str) -> dict[str, str]:
    lines = ws.read("manifests/coded.csv").splitlines()[1:]
    return {line.partition(",")[0]: line for line in lines}


def test_decisions_come_back_and_change_no_other_clip(ws: Workspace) -> None:
    draws = np.random.default_rng(49)
    ids = [f"film{number % 10}-{number:04d}" for number in range(N_CLIPS)]
    differing = {ids[one] for one in draws.choice(N_CLIPS, N_DIFFERING, replace=False)}
    truth = {clip: str(draws.choice(["sad", "glad"])) for clip in ids}
    rows = []
    for clip in ids:
        other = {"sad": "glad", "glad": "sad"}[truth[clip]]
        said = {"ada": truth[clip], "ben": other if clip in differing else truth[clip]}
        for name, word in said.items():
            facts = {"clip_id": clip, "movie_id": clip[:5], "coder": name}
            rows.append({**facts, "mood": word, "points": "1,5"})
    ws.write_table("coded.csv", rows, separator=";")
    said = ws(
        "manifest import coded.csv --map annotator=coder --rule agreed -o coded"
    ).text
    assert "something is open in 400 of 1500 clips" in said
    before = lines_of(ws)

    ws("manifest show coded --where 'mood in differs' -o discuss.xlsx")
    out = pandas.read_excel(ws.path("discuss.xlsx"), engine="calamine")
    assert {*out["clip_id"]} == differing
    assert out["mood"].isna().all()
    of_both = zip(out["mood:ada"], out["mood:ben"], strict=True)
    assert {frozenset(words) for words in of_both} == {frozenset(("sad", "glad"))}
    # People decide in Excel, which keeps numbers as numbers and empty cells as nothing.
    out["mood"] = out["clip_id"].map(truth)
    assert {*out["points"]} == {1.5}
    cells = out.astype(object).where(out.notna(), None).to_numpy().tolist()
    write_workbook(ws.path("decided.xlsx"), {"Sheet1": [[*out.columns], *cells]})
    refused = ws("manifest join coded decided.xlsx", code=1).text
    assert "replacing them would empty 2,200 cells with a value" in refused
    assert "(points 1,100, mood 1,100)" in refused
    assert lines_of(ws) == before

    said = ws("manifest join coded decided.xlsx --update").text
    assert "1100 of 1500 clips without a row, and unchanged" in said
    assert "changed cells: points 0, mood 400; all other cells are as before" in said
    after = lines_of(ws)
    assert {clip for clip in ids if after[clip] != before[clip]} == differing
    labels = {row["clip_id"]: row for row in ws.read_table("manifests/coded.csv")}
    assert {clip: row["mood"] for clip, row in labels.items()} == truth
    assert {row["differs"] for row in labels.values()} == {""}

    X = draws.normal(size=(N_CLIPS, 3)).astype(np.float32)
    X[:, 0] += [truth[clip] == "sad" for clip in ids]
    np.savez(ws.path("own.npz"), clip_id=ids, X=X)
    ws("store import own.npz --array clip=X --manifest coded -o own")
    ws(f"run honest --manifest coded --store own --task mood=sad -o sad {QUICK}")
    assert the_result(ws, "sad", model="ridge")["clips"] == N_CLIPS
    tested = ws.read_table("runs/sad/predictions.csv")
    of_ridge = [row for row in tested if row["model"] == "ridge"]
    labels_of_run = {row["clip_id"]: row["y"] for row in of_ridge}
    assert labels_of_run == {clip: str(int(truth[clip] == "sad")) for clip in ids}
    assert len(scores_of(ws, "sad", model="ridge")) == N_CLIPS
