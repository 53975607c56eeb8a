"""Story 35: I have what is seen, heard and said in my films, and read it side by side.

The gain over each single sense has an interval and one corrected p. A sense that is shuffled
within its films gains nothing, clips that lack a sense are counted, and another lab predicts from a
join of its own.
"""

import numpy as np
import numpy.typing as npt
import pytest
from support.words import real_encoder

import obygaze as og
from stories.films import Row, features_of, labelled_clips
from stories.results import the_result
from stories.workspace import Workspace

# Two parts that experiments know by their backbones.
HEARD, SEEN = "my-sound-model", "my-video-model"
LACKING = 7
UNREAD = 3
AT_SEA = ("Raise the sails!", "We saw the harbour.", "The anchor is lost.")
IN_THE_KITCHEN = ("The soup needs salt.", "Cut the onions.", "Dinner is ready.")
TASK = """--set 'grid.train=["EN_S"]' --set 'grid.test=["EN_S"]' --set 'grid.models=["ridge"]'"""
QUICK = "--set report.concepts=false --set report.replicates=200 --jobs 1"
FUSION = f"run honest --manifest films --set data.view=raw --store seen {TASK} {QUICK}"


def import_sense(
    ws: Workspace,
    rows: list[Row],
    X: npt.NDArray[np.float32],
    store: str,
    backbone: str,
) -> None:
    np.savez(ws.path(f"{store}.npz"), clip_id=[row["clip_id"] for row in rows], X=X)
    ws(
        f"store import {store}.npz --array clip=X --manifest films -o {store}"
        f" --backbone {backbone} --licence CC0-1.0",
        code=(0, 3),
    )


def begin(ws: Workspace, n_films: int = 12) -> list[Row]:
    """Begin with clips of which each sense says something else about the same level.

    Some clips have no sound.
    """
    rows = labelled_clips(n_films=n_films)
    ws.import_table(rows, "films")
    import_sense(ws, rows, features_of(rows, level=1.2, seed=1), "seen", SEEN)
    heard = features_of(rows, level=1.2, width=9, seed=2)
    with_sound = [row for row in rows if row["clip_id"] not in without_sound(rows)]
    of_sound = [row["clip_id"] not in without_sound(rows) for row in rows]
    import_sense(ws, with_sound, 100 * heard[of_sound], "heard", HEARD)
    return rows


def without_sound(rows: list[Row]) -> list[str]:
    """Return the clips that have no sound: the last ones of each film but one."""
    return [row["clip_id"] for row in rows[19::20]][:LACKING]


def without_text(rows: list[Row]) -> list[str]:
    """Return the clips of which nobody wrote down what is said: the sixth ones of some films."""
    return [row["clip_id"] for row in rows[5::20]][:UNREAD]


def extract_words(ws: Workspace, rows: list[Row]) -> None:
    real_encoder()
    draws = np.random.default_rng(4)
    table = []
    for number, row in enumerate(rows):
        is_at_sea = (row["level"] == "S") == (draws.random() < 0.75)
        said = str(draws.choice(AT_SEA if is_at_sea else IN_THE_KITCHEN))
        if row["clip_id"] not in without_text(rows):
            text = "" if number % 20 == 3 else said
            table.append({"clip_id": row["clip_id"], "text": text})
    ws.write_table("texts.csv", table)
    ws("extract words films -b minilm --subtitles texts.csv -o said", code=(0, 3))


def test_stores_are_read_side_by_side(ws: Workspace) -> None:
    rows = begin(ws, n_films=8)
    lacking = without_sound(rows)
    both = og.open_store("seen+heard", workspace=ws.folder)
    all_clips = [row["clip_id"] for row in rows]
    clips = [clip for clip in all_clips if clip not in lacking]
    matrix = both.matrix("clip", clips=all_clips, missing="drop")
    assert matrix.clip_ids.tolist() == clips
    assert str(matrix.reasons[lacking[0]]) == "missing: heard: not in the files"
    parts = []
    for name in ("seen", "heard"):
        part = og.open_store(name, workspace=ws.folder)
        parts.append(part.matrix("clip", clips=clips).values)
    assert matrix.values.tobytes() == np.concatenate(parts, axis=1).tobytes()
    # The columns are in the order that is typed.
    turned = og.open_store("heard+seen:clip", workspace=ws.folder)
    expected = np.concatenate(parts[::-1], axis=1)
    assert turned.matrix(clips=clips).values.tobytes() == expected.tobytes()


def gains_in(ws: Workspace, run: str) -> dict[str, dict[str, float]]:
    """Return the difference of the join from each part: value, ends, sides and p."""
    found = {}
    for row in ws.read_table(f"runs/{run}/results.csv"):
        if row["store"] == "joined" and row["against_store"]:
            names = ("value", "low", "high", "first", "second", "p", "comparisons")
            found[row["against_store"]] = {name: float(row[name]) for name in names}
    return found


@pytest.mark.check("two experiments")
def test_both_senses_gain_and_a_shuffled_one_does_not(ws: Workspace) -> None:
    rows = begin(ws)
    extract_words(ws, rows)
    said = ws(
        f"{FUSION} --store heard --store said --store joined=seen+heard+said -o fused"
    ).text
    gains = gains_in(ws, "fused")
    assert {*gains} == {"seen", "heard", "said"}
    joined = the_result(ws, "fused", model="ridge", store="joined")["ap"]
    for part, gain in gains.items():
        alone = the_result(ws, "fused", model="ridge", store=part)["ap"]
        # Each film has clips of both classes, so a mean over films is that of the folds.
        assert gain["first"] == pytest.approx(joined)
        assert gain["second"] == pytest.approx(alone)
        assert gain["value"] == pytest.approx(joined - alone)
        assert gain["low"] <= gain["value"] <= gain["high"]
        assert gain["value"] > 0.01
        # Three gains, and three differences of single senses.
        assert gain["comparisons"] == 6
    # Twelve films do not show that these gains hold for other films.
    together = "seen, heard and said together: they are not shown to be better than seen (p = ."
    assert together in said
    ws("report fused -o page.html")
    page = ws.read("page.html")
    assert together in page
    # The clips that lack a sense are counted, once, with what they are.
    for n_lacking, store in ((LACKING, "heard"), (UNREAD, "said")):
        sentence = f"{n_lacking} of {len(rows)} clips have no features in {store}"
        assert sentence in page
    assert f"12 of {len(rows)} clips have no words in said" in page
    lacking = {*without_sound(rows), *without_text(rows)}
    shares = []
    for is_lacking in (True, False):
        levels = []
        for row in rows:
            if (row["clip_id"] in lacking) == is_lacking:
                levels.append(row["level"])
        n_clips = levels.count("EN") + levels.count("S")
        shares.append(f"{100 * levels.count('S') / n_clips:.0f} % of the {n_clips}")
    share = f"{shares[0]} excluded clips and {shares[1]} others in EN_S"
    assert f"Share of positive clips: {share}" in page

    # What is heard, given to other clips of the same film.
    draws = np.random.default_rng(7)
    heard = features_of(rows, level=1.2, width=9, seed=2)
    for first in range(0, len(rows), 20):
        heard[first : first + 20] = draws.permutation(heard[first : first + 20])
    import_sense(ws, rows, heard, "shuffled", "shuffled-sound-model")
    said = ws(f"{FUSION} --store shuffled --store joined=seen+shuffled -o nothing").text
    gains = gains_in(ws, "nothing")
    assert gains["shuffled"]["low"] > 0
    assert gains["shuffled"]["p"] < 0.05
    assert "seen and shuffled together are better than shuffled (p " in said
    gain = gains["seen"]
    assert gain["low"] < 0 < gain["high"]
    assert abs(gain["value"]) < 0.03
    assert "they are not shown to be better than seen (p =" in said


def test_a_kept_model_predicts_in_another_lab_from_its_own_join(ws: Workspace) -> None:
    begin(ws, n_films=8)
    ws(f"train ridge --store seen+heard --manifest films -o kept {QUICK}")
    ws("models push kept ../disk/kept")
    # The other lab has other films, and joins its stores in its own order.
    lab = Workspace(ws.path("../lab"))
    later = labelled_clips(n_films=3, seed=5)
    for row in later:
        for column in ("clip_id", "movie_id"):
            row[column] = row[column].replace("film", "reel")
    lab.import_table(later, "films")
    seen = features_of(later, level=1.2, seed=6)
    heard = 100 * features_of(later, level=1.2, width=9, seed=7)
    import_sense(lab, later, heard, "sound", HEARD)
    import_sense(lab, later, seen, "pictures", SEEN)
    lab("models pull ../disk/kept -o theirs")
    # The model has the titles of its parts, and not what made them.
    told = lab("models predict theirs sound", code=5).err
    assert f"one store of these clips for each of {SEEN} (imported) and {HEARD}" in told
    lab("models predict theirs pictures+sound -o same-order.csv")
    lab("models predict theirs sound+pictures -o scores.csv")
    same_order = lab.read_table("same-order.csv")
    assert lab.read_table("scores.csv") == same_order
    scores = {
        row["clip_id"]: float(row["score:positive"])
        for row in lab.read_table("scores.csv")
    }
    assert list(scores) == [row["clip_id"] for row in later]
    of_s = [scores[row["clip_id"]] for row in later if row["level"] == "S"]
    of_en = [scores[row["clip_id"]] for row in later if row["level"] == "EN"]
    assert np.mean(of_s) > np.mean(of_en) + 0.2
    # One sense alone is not what the model reads.
    refused = lab("models predict theirs sound -o no.csv", code=5).text
    assert f"expects features of {SEEN} (imported) + {HEARD}" in refused
    # Nothing is fitted in a test: decisions are those of the prediction.
    lab("models test theirs --store pictures+sound --manifest films -o tested")
    for row in lab.read_table("runs/tested/predictions.csv"):
        if row["model"] == "theirs":
            assert float(row["score"]) == pytest.approx(scores[row["clip_id"]])
