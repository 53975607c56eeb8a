"""Queues of clips: their orders, their arms, what the page sends of them, and what they show."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze
from support.film_pages import ask, film_clips, manifest, mark, served, site
from support.run_tables import Clips, MadeCell, made_run
from support.stores import made_store

from obygaze.films.arms import (
    Judgement,
    anchoring,
    first_judgements,
    labels_by_arm,
)
from obygaze.films.queue import (
    ASSISTED,
    BLIND,
    Suggestion,
    disagreed_order,
    diverse_order,
    draw_queue,
    random_order,
    read_queue,
    uncertain_order,
)
from obygaze.films.site import Site
from obygaze.films.site_queue import queue_of
from obygaze.films.view import open_site
from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.io import write_manifest
from obygaze_features.store import Row

N_CLIPS = 12


def test_orders_are_those_of_the_words() -> None:
    clips = [f"c{n}" for n in range(9)]
    mixed = random_order(clips, np.random.default_rng(1))
    assert sorted(mixed) == clips and mixed != clips
    assert uncertain_order({"a": 0.1, "b": 0.55, "c": 0.4, "d": 0.9}, 0.5) == [
        *("b", "c"),
        *("a", "d"),
    ]
    decisions = {
        "sure": [True] * 4,
        "half": [True, False] * 2,
        "one": [True, True, True, False],
    }
    assert disagreed_order(decisions) == ["half", "one", "sure"]


def test_diverse_clips_are_least_like_those_before() -> None:
    angles = np.radians([0, 3, 50, 89, 93])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # 50 is next to the mean; 0 is 50 away from it, 93 only 43. Then 93 has its next one 43 away,
    # 89 has it 39 away and 3 has it 3 away.
    assert list(diverse_order(["0", "3", "50", "89", "93"], vectors)) == [
        *("50", "0", "93"),
        *("89", "3"),
    ]
    assert list(diverse_order([], np.empty((0, 2)))) == []


def test_arms_are_balanced_in_each_order_and_each_clip_comes_once() -> None:
    clips = [f"c{n:03d}" for n in range(200)]
    suggestions = {clip: Suggestion("m", 0.5, "S", "EN") for clip in clips[:180]}
    rankings = {"random": clips, "uncertain": clips[::-1][:100]}
    queue = draw_queue(
        rankings, dict.fromkeys(clips, "lake"), suggestions, np.random.default_rng(3)
    )
    assert sorted(clip.clip_id for clip in queue) == clips
    counts = Counter((clip.order, clip.arm) for clip in queue if clip.suggested)
    for order in rankings:
        assert abs(counts[order, BLIND] - counts[order, ASSISTED]) <= 1
    assert all(clip.arm == BLIND for clip in queue if not clip.suggested)
    again = draw_queue(
        rankings, dict.fromkeys(clips, "lake"), suggestions, np.random.default_rng(3)
    )
    assert again == queue


TEXT = "ridge (x): easy negatives against sure"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with a manifest and a run of two models for its twelve clips."""
    clips = [
        replace(clip, extra={"framerate": "25"})
        for clip in film_clips("lake", "", N_CLIPS)
    ]
    films = manifest(tmp_path, clips, "framerate")
    write_manifest(films, tmp_path / "manifests" / "films.toml")
    y = np.arange(N_CLIPS) % 2 == 1
    tested = Clips(tuple(clip.clip_id for clip in clips), ("lake",) * N_CLIPS, y)
    cells = []
    for model in ("ridge", "knn"):
        # Scores of ridge rise; knn contradicts it in the clips 3 and 9.
        scores = (np.arange(N_CLIPS) + 0.4) / N_CLIPS - 0.5
        if model == "knn":
            scores[[3, 9]] *= -1
        cells.append(MadeCell(model, tested, scores))
    made_run(tmp_path / "runs" / "one", cells)
    return tmp_path


def begun(place: Path, *orders: str, **more: Any) -> Site:
    asked = {"annotate": "eva", "run": "one", "suggest": "ridge", **more}
    return open_site("films", queue=orders or ("random",), workspace=place, **asked)


def judged(page: Site, level: str, **changes: Any) -> dict[str, Any]:
    """Judge the next clip of the queue, and return what the page sent of it."""
    facts = page.queued()
    sent = {"position": facts["position"], "level": level, "concepts": [], "seconds": 4}
    page.judge({**sent, "comment": "", "version": 0, **changes})
    return facts


def test_only_clips_of_the_assisted_arm_have_a_suggestion(place: Path) -> None:
    page = begun(place)
    by_id = {clip.clip_id: clip for clip in page.queue}
    assert {clip.arm for clip in page.queue} == {BLIND, ASSISTED}
    with served(page) as server:
        for number in range(N_CLIPS):
            facts = ask(server, "/api/queue").json()
            assert (facts["position"], facts["judged"]) == (number, number)
            clip = by_id[facts["clip_id"]]
            expected = None
            if clip.arm == ASSISTED:
                k = int(clip.clip_id[-3:])
                levels = ["S"] if k >= 6 else ["EN"]
                expected = {"levels": levels, "score": round((k + 0.4) / 12 - 0.5, 4)}
                expected["model"] = TEXT
            assert facts["suggestion"] == expected
            sent = {
                "position": number,
                "level": "S",
                "concepts": ["Look"],
                "version": 0,
            }
            answer = ask(
                server, "/api/judge", method="POST", sent={**sent, "seconds": 2.5}
            )
            assert answer.status == 200
        assert ask(server, "/api/queue").json()["position"] is None
        assert ask(server, "/api/overview").json()["run"] is None
        assert ask(server, "/api/scores?cell=0").status == 400
        assert ask(server, "/api/mark", method="POST", sent=mark(1)).status == 400
    with page.marks.path.open(newline="", encoding="utf-8") as stream:  # type: ignore[union-attr]
        rows = list(csv.DictReader(stream))
    assert [row["clip_id"] for row in rows] == sorted(by_id)
    for row in rows:
        clip = by_id[row["clip_id"]]
        k = int(clip.clip_id[-3:])
        frames = (row["start_frame"], row["end_frame"])
        assert frames == (str(25 * k), str(25 * k + 24))
        assert (row["arm"], row["order"], row["suggested"]) == (
            clip.arm,
            clip.order,
            clip.suggested,
        )
        assert row["seconds"] == "2.5"


def test_a_model_is_named_as_the_page_lists_it(place: Path) -> None:
    for name in ("ridge (x)", TEXT):
        assert begun(place, suggest=name).queue == begun(place).queue
    with pytest.raises(
        FixUsage, match=r"--suggest names 'rid'; the run has 'ridge \(x\): easy"
    ):
        begun(place, suggest="rid")


def test_a_clip_cannot_be_looked_at_before_its_turn(place: Path) -> None:
    page = begun(place)
    with served(page) as server:
        assert ask(server, "/api/queue?position=0").status == 200
        answer = ask(server, "/api/queue?position=1")
        assert answer.status == 400 and "number 0, not 1" in answer.json()["error"]
        for bad in (
            {"position": 5},
            {"position": True},
            {"seconds": -1},
            {"level": "T"},
        ):
            sent = {"position": 0, "level": "S", "seconds": 1, "version": 0, **bad}
            assert ask(server, "/api/judge", method="POST", sent=sent).status == 400
        for bad_seconds in (None, "4", True, 1e9):
            sent = {"position": 0, "level": "S", "version": 0, "seconds": bad_seconds}
            assert ask(server, "/api/judge", method="POST", sent=sent).status == 400
    assert page.queued()["judged"] == 0


def test_a_label_can_be_corrected_and_the_first_one_counts(place: Path) -> None:
    page = begun(place)
    first = judged(page, "HN")
    corrected = page.queued(0)["mark"]
    assert corrected["level"] == "HN"
    facts = {name: corrected[name] for name in ("version", "state", "concepts")}
    page.judge({"position": 0, "level": "S", "seconds": 9, **facts})
    assert page.queued(0)["mark"]["level"] == "S"
    (judgement,) = first_judgements(page.marks.path)  # type: ignore[union-attr]
    assert (judgement.clip_id, judgement.level) == (first["clip_id"], "HN")
    assert judgement.seconds == 4


def test_a_queue_that_was_begun_goes_on_and_is_not_drawn_again(place: Path) -> None:
    page = begun(place, "random", "uncertain")
    judged(page, "S")
    path = place / "segments" / "films.eva.queue.csv"
    again = begun(place, "uncertain", "random")
    assert again.queue == page.queue == read_queue(path)
    assert again.queued()["position"] == 1
    assert begun(place, annotate="ben").queue != page.queue
    with pytest.raises(FixUsage, match="not random"):
        begun(place, "random")
    with pytest.raises(FixUsage, match="not of knn"):
        begun(place, "random", "uncertain", suggest="knn")
    with pytest.raises(FixUsage, match="half of its clips have suggestions"):
        begun(place, "random", "uncertain", blind=True)


def test_orders_of_a_run_are_those_of_its_scores(place: Path) -> None:
    uncertain = begun(place, "uncertain", annotate="ada").queue
    numbers = [int(clip.clip_id[-3:]) for clip in uncertain]
    assert numbers[:4] == [6, 5, 7, 4] and numbers[-2:] == [11, 0]
    disagreed = begun(place, "disagreed", annotate="ben").queue
    assert [int(clip.clip_id[-3:]) for clip in disagreed][:2] == [3, 9]
    blind = begun(place, "uncertain", annotate="cem", blind=True).queue
    assert {clip.arm for clip in blind} == {BLIND}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--queue", "random"], "--queue needs --annotate"),
        (["--annotate", "eva", "--suggest", "ridge"], "--suggest needs --queue"),
        (["--annotate", "eva", "--queue", "best"], "must be one of random, uncertain"),
        (["--annotate", "eva", "--queue", "uncertain"], "needs the scores of a run"),
        (["--annotate", "eva", "--queue", "diverse"], "--queue diverse needs features"),
        (
            ["--annotate", "eva", "--queue", "random", "--run", "one"],
            "which model is to suggest levels? The run has",
        ),
        (
            ["--annotate", "eva", "--queue", "random", "--suggest", "ridge"],
            "--suggest needs --run",
        ),
    ],
)
def test_what_is_missing_is_said(place: Path, words: list[str], message: str) -> None:
    done = call_obygaze("view", "films", *words, "--no-browser", cwd=place)
    assert done.code == 2 and message in done.stderr
    assert not (place / "segments" / "films.eva.queue.csv").exists()


def test_films_without_videos_have_no_queue(tmp_path: Path) -> None:
    """The message said that no clip had what the order needs, and no command that helps."""
    page = site(tmp_path, film_clips("lake", ""), "eva")
    with pytest.raises(FixUsage, match="no video is linked") as caught:
        queue_of(page, ["random"], None)
    assert "obygaze manifest link films FOLDER" in (caught.value.hint or "")


def test_agreement_prints_labels_times_and_the_shift_by_arm(place: Path) -> None:
    page = begun(place)
    for number, clip in enumerate(page.queue):
        # Without the suggestion EN, with it what it says; so slow as its number.
        level = clip.suggested if clip.arm == ASSISTED else "EN"
        judged(page, level, seconds=number)
    assisted = [clip for clip in page.queue if clip.arm == ASSISTED]
    blind = [clip for clip in page.queue if clip.arm == BLIND]
    words = ("view", "films", "--agreement", "--json")
    arms = call_obygaze(*words, cwd=place).ok().json()["arms"]
    shown = {row["arm"]: row for row in arms["labels"]}
    n_positive = sum(clip.suggested == "S" for clip in assisted)
    assert shown[ASSISTED]["levels"]["S"]["value"] == pytest.approx(n_positive / 6)
    assert shown[BLIND]["levels"]["EN"]["value"] == 1.0
    numbers = [page.queue.index(clip) for clip in blind]
    assert shown[BLIND]["seconds"]["value"] == np.median(numbers)
    (first, *_) = arms["anchoring"]
    share = sum(clip.suggested == "EN" for clip in blind) / 6
    assert (first["annotator"], first["suggestions"]) == ("eva", "all")
    assert (first["assisted"], first["blind"]) == (1.0, pytest.approx(share))
    assert first["shift"]["value"] == pytest.approx(1 - share)
    assert first["followed"]["value"] == pytest.approx(1.0)
    text = call_obygaze("view", "films", "--agreement", cwd=place).ok().stdout
    assert "followed" in text and f"{1 - share:.2f} [" in text
    # Films with clips of a queue are in no arm as a whole.
    whole = call_obygaze(*words, "--run", "one", cwd=place).ok().json()
    assert whole["agreement"] == []


def simulated(
    adopts: float, seed: int, *, n_films: int = 12, per_film: int = 20
) -> list[Judgement]:
    """Labels of an annotator who takes the suggestion over with a known probability.

    Without it, a clip gets its true level with the probability .8; suggestions are right in .7.
    Films differ in the share of S.
    """
    chance = np.random.default_rng(seed)
    judgements = []
    for film in range(n_films):
        share = chance.uniform(0.1, 0.6)
        for clip in range(per_film):
            true = chance.random() < share
            suggested = true if chance.random() < 0.7 else not true
            answer = true if chance.random() < 0.8 else not true
            arm = (BLIND, ASSISTED)[int(chance.integers(2))]
            if arm == ASSISTED and chance.random() < adopts:
                answer = suggested
            sides = (("S",), ("EN",)) if suggested else (("EN",), ("S",))
            judgements.append(
                Judgement(
                    "eva",
                    f"{film}-{clip}",
                    str(film),
                    "random",
                    arm,
                    "S" if answer else "EN",
                    1.0,
                    *sides,
                )
            )
    return judgements


@pytest.mark.parametrize("adopts", [0.0, 0.3])
def test_the_shift_of_annotators_of_known_bias_is_right(adopts: float) -> None:
    # Both right or both wrong: .7 .8 + .3 .2 = .62 agree without seeing the suggestion.
    shift = adopts * (1 - 0.62)
    values = []
    followed = []
    n_covered = 0
    n_runs = 100
    for seed in range(n_runs):
        row = anchoring(simulated(adopts, seed))[0]
        values.append(row["shift"]["value"])
        followed.append(row["followed"]["value"])
        n_covered += row["shift"]["low"] <= shift <= row["shift"]["high"]
    error = np.std(values) / n_runs**0.5
    assert abs(np.mean(values) - shift) < 2.5 * error
    assert abs(np.median(followed) - adopts) < 0.05
    assert n_covered >= 90


def test_clips_without_a_score_are_in_no_arm() -> None:
    """All of them were blind: the arm `blind` had levels that `assisted` could not have."""

    def judgement(number: int, arm: str, level: str, *suggested: str) -> Judgement:
        name = f"c{number}"
        return Judgement("eva", name, "lake", "random", arm, level, 1.0, suggested)

    judgements = [
        judgement(1, BLIND, "EN", "S"),
        judgement(2, ASSISTED, "S", "S"),
        judgement(3, BLIND, "HN"),
        judgement(4, BLIND, "HN"),
    ]
    rows = {row["arm"]: row for row in labels_by_arm(judgements)}
    assert {arm: row["clips"] for arm, row in rows.items()} == {
        BLIND: 1,
        ASSISTED: 1,
        "no score": 2,
    }
    assert rows[BLIND]["levels"]["HN"]["value"] == 0.0
    assert rows["no score"]["levels"]["HN"]["value"] == 1.0
    # Without suggestions in the whole queue, all clips are blind.
    (row,) = labels_by_arm(judgements[2:])
    assert (row["arm"], row["clips"]) == (BLIND, 2)


def test_intervals_end_where_no_value_can_be() -> None:
    for seed in range(20):
        judgements = simulated(0.8, seed, n_films=3, per_film=4)
        for row in anchoring(judgements):
            low, high = row["shift"]["low"], row["shift"]["high"]
            assert low is None or -1 <= low <= high <= 1
            high = row["followed"]["high"]
            assert high is None or high <= 1
        for row in labels_by_arm(judgements):
            low = row["seconds"]["low"]
            assert low is None or low >= 0


def test_help_and_harm_are_told_apart_and_ns_does_not_follow() -> None:
    def judgement(number: int, arm: str, level: str) -> Judgement:
        sides = (("S",), ("EN",))
        return Judgement("eva", f"c{number}", "lake", "random", arm, level, 1.0, *sides)

    answers = [(BLIND, "EN"), (BLIND, "NS"), (ASSISTED, "S"), (ASSISTED, "S")]
    answers += [(BLIND, "S"), (BLIND, "EN"), (ASSISTED, "S"), (ASSISTED, "EN")]
    judgements = [judgement(n, *answer) for n, answer in enumerate(answers)]
    annotated = {f"c{n}": "EN" if n < 4 else "S" for n in range(8)}
    rows = {row["suggestions"]: row for row in anchoring(judgements, annotated)}
    assert {name: row["shift"]["value"] for name, row in rows.items()} == {
        "all": pytest.approx(3 / 4 - 1 / 4),
        "S": pytest.approx(3 / 4 - 1 / 4),
        "not as annotated": 1.0,
        "as annotated": 0.0,
    }
    (blind, assisted) = labels_by_arm(judgements)
    assert (blind["clips"], assisted["clips"]) == (4, 4)
    assert blind["levels"]["NS"]["value"] == 0.25
    # Of one film, the interval is over clips.
    assert rows["all"]["films"] == 1 and rows["all"]["shift"]["low"] is not None
    only_blind = [one for one in judgements if one.arm == BLIND]
    assert anchoring(only_blind) == []


def test_a_queue_of_diverse_clips_is_by_features(place: Path) -> None:
    angles = np.radians(np.r_[0, 3, 50, 89, 93, np.full(N_CLIPS - 5, 51)])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    rows = [Row(f"lake-{k:03d}", "lake") for k in range(N_CLIPS)]
    made_store(place / "stores" / "s", rows, {"pooled": vectors})
    queue = begun(place, "diverse", run=None, suggest=None, store="s").queue
    # 50 is next to the mean. 0 and 93 are least like what was before, then 89 and 3.
    assert [int(clip.clip_id[-3:]) for clip in queue[:5]] == [2, 0, 4, 3, 1]
    assert {clip.arm for clip in queue} == {BLIND}
