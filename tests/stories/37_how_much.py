"""Story 37: how much is there in films that nobody annotated, and does it change with the decade?

A sample of their clips is drawn and marked, in ELAN or in a table. A clip that nobody judged has no
label. The share has an interval over films. Counting what a model predicts is refused.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from support.film import rows_of_segments

from stories.workspace import Workspace

RATE = 25
SECONDS = 2  # of a clip
N_FILMS = 24
PER_FILM = 40
MARKS = ("movie_id", "annotator", "start_frame", "end_frame", "level", "framerate")


def write_clips(ws: Workspace, n_films: int = N_FILMS) -> None:
    rows = []
    for film in range(n_films):
        decade = "1980s" if film < n_films // 2 else "2010s"
        for clip in range(PER_FILM):
            start = SECONDS * clip
            times = {"start_s": start, "end_s": start + SECONDS}
            name = f"film{film:02d}"
            ids = {"clip_id": f"{name}-{clip:02d}", "movie_id": name}
            rows.append({**ids, **times, "decade": decade, "level": "", "concepts": ""})
    ws.import_table(rows, "films", "clips")


def world(shares: dict[str, float], seed: int, n_films: int = N_FILMS) -> set[str]:
    draws = np.random.default_rng([37, seed])
    clips = set()
    for film in range(n_films):
        share = shares["1980s" if film < n_films // 2 else "2010s"]
        share_of_film = draws.beta(6 * share, 6 * (1 - share))
        for clip in range(PER_FILM):
            if draws.random() < share_of_film:
                clips.add(f"film{film:02d}-{clip:02d}")
    return clips


def mark(
    ws, in_s: set[str], drawn: str = "drawn", left_out: Iterable[str] = ()
) -> None:
    """Watch the drawn clips and mark those that are S, as a table says it."""
    marks = []
    watched = []
    ws(f"manifest export {drawn} drawn.csv --force")
    for row in ws.read_table("drawn.csv"):
        if row["clip_id"] in left_out:
            continue
        first = round(float(row["start_s"]) * RATE)
        last = round(float(row["end_s"]) * RATE) - 1
        cells = (row["movie_id"], "eva", first, last)
        watched.append(dict(zip(MARKS, (*cells, "watched", RATE), strict=True)))
        if row["clip_id"] in in_s:
            marks.append(dict(zip(MARKS, (*cells, "S", RATE), strict=True)))
    ws.write_table("marks.csv", rows_of_segments([*watched, *marks]))


def audit(ws: Workspace, words: str = "--by decade") -> Any:
    ws("marks clips marks.csv --clips drawn -o judged --force")
    return ws(f"audit share judged {words} --json").json()


def test_the_share_and_the_planted_difference_of_two_decades(ws: Workspace) -> None:
    write_clips(ws)
    ws("manifest sample films -n 120 -o drawn")
    in_s = world({"1980s": 0.15, "2010s": 0.5}, seed=0)
    mark(ws, in_s)
    document = audit(ws)
    shares = {share["group"]: share for share in document["shares"]}
    truth = len(in_s) / (N_FILMS * PER_FILM)
    assert shares["all films"]["low"] < truth < shares["all films"]["high"]
    drawn = {row["clip_id"] for row in ws.read_table("drawn.csv")}
    # All films are of one length, and each has five drawn clips.
    assert shares["all films"]["share"] == pytest.approx(len(drawn & in_s) / 120)
    assert shares["1980s"]["n_judged"] == shares["2010s"]["n_judged"] == 60
    (pair,) = document["differences"]
    assert pair["groups"] == ["1980s", "2010s"]
    assert pair["p"] < 0.05
    text = ws("audit share judged --by decade --report how.html").text
    assert "1980s and 2010s differ: -0." in text
    page = ws.read("how.html")
    for words in (document["answer"], "1980s", "<svg"):
        assert words.replace("'", "&#39;") in page


def test_counting_predictions_is_refused_with_the_reason(ws: Workspace) -> None:
    write_clips(ws)
    text = ws("audit share films --predictions scores.csv", code=1).text
    assert "only a sample shows how often a model is wrong in these films" in text
    assert "manifest sample films -n 120 -o drawn" in text
    ws("manifest sample films -n 120 -o drawn")
    text = ws("audit share drawn", code=1).text
    assert "got labels in 0 films" in text
    assert "marks clips MARKS --clips SAMPLE" in text


# ---- a tier to fill in, in ELAN ------------------------------------------------------------------

# What eva writes into the annotations of each film, one after another; "" is left empty.
WRITTEN = {"one": ["S", "EN", ""], "two": ["", "HN", "S"], "three": ["EN", "", "EN"]}


def drawn_tiers(ws: Workspace) -> None:
    """Draw three clips of each film, and export them as files of ELAN with a tier to fill in."""
    rows = []
    for film in WRITTEN:
        for number in range(6):
            times = {"start_s": 2 * number, "end_s": 2 * number + 2}
            ids = {"clip_id": f"{film}-{number}", "movie_id": film}
            rows.append({**ids, **times, "level": ""})
    ws.import_table(rows, "cut", "clips")
    ws("manifest sample cut -n 9 -o drawn")
    ws("marks blank drawn elan --person eva")


def fill(ws: Workspace, words: dict[str, list[str]]) -> None:
    pympi = pytest.importorskip("pympi")
    for film, of_film in words.items():
        path = str(ws.path(f"elan/{film}.eaf"))
        file = pympi.Eaf(path)
        spans = sorted(file.get_annotation_data_for_tier("level"))
        assert [text for _, _, text, *_ in spans] == ["", "", ""]
        choices = []
        for values, _ in file.controlled_vocabularies["levels"][1].values():
            choices += [word for word, *_ in values]
        for (start, end, *_), word in zip(spans, of_film, strict=True):
            assert not word or word in choices
            file.remove_annotation("level", (start + end) // 2)
            file.add_annotation("level", start, end, word)
        file.to_file(path)


@pytest.mark.parametrize("coded", ["", "--coded level"])
def test_a_clip_that_nobody_judged_has_no_label(ws: Workspace, coded: str) -> None:
    """Half of the empty annotations became easy negatives, and the share was too low."""
    drawn_tiers(ws)
    fill(ws, WRITTEN)
    ws(f"marks import elan {coded} -o eva --force")
    ws("marks clips eva --clips drawn -o labels")
    found: dict[str, list[str]] = {film: [] for film in WRITTEN}
    for row in sorted(
        ws.read_table("manifests/labels.csv"), key=lambda row: row["clip_id"]
    ):
        found[row["movie_id"]].append(row["level"])
    assert found == WRITTEN
    document = ws("audit share labels --json").json()
    # Two of six clips: one of two, one of two, and none of two.
    assert document["shares"][0]["share"] == pytest.approx(1 / 3)
    assert (document["n_drawn"], document["shares"][0]["n_judged"]) == (9, 6)
    assert "9 clips sampled: 6 judged, 3 not judged." in ws("audit share labels").text
    # Nor is anything known of the rest of the films, which nobody looked at.
    ws("marks clips eva --clips cut -o all")
    levels = [row["level"] for row in ws.read_table("manifests/all.csv")]
    assert sorted(levels) == [*[""] * 12, "EN", "EN", "EN", "HN", "S", "S"]


def test_scores_are_not_put_beside_clips_that_nobody_judged(ws: Workspace) -> None:
    drawn_tiers(ws)
    scores = []
    for row in ws.read_table("clips.csv"):
        ids = {name: row[name] for name in ("clip_id", "movie_id")}
        scores.append({**ids, "basis": "unseen", "score:S": 1})
    ws.write_table("scores.csv", scores)
    words = "marks scores cut scores.csv scored.eaf --into elan/one.eaf"
    text = ws(words, code=1).text
    assert "the tier level has 3 sampled clips without a level" in text
    fill(ws, {"one": ["S", "EN", "EN"]})
    ws(words)
    assert "score" in ws.read("scored.eaf")
