"""Agreement: by hand, by definition, against krippendorff, scikit-learn and pygamma-agreement."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score
from support.annotated import annotated
from support.cli import call_obygaze
from support.film import clips, marks, write_marks, write_spans
from support.seeds import amount

from obygaze.audits.agreement import agree, answers_of_manifest, compute, present
from obygaze.audits.agreement_measures import PLACES, Answers, Scale, gammas
from obygaze.films.labels import project_marks
from obygaze.films.marks import Mark
from obygaze.films.projection import ClipSpan
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import LEVELS, Header, Manifest

krippendorff = pytest.importorskip("krippendorff")
TENSION = ("calm", "low", "mid", "high")
DISTANCES = {("EN", "HN"): 0.3, ("EN", "NS"): 0.7, ("EN", "S"): 1.0}
DISTANCES |= {("HN", "NS"): 0.4, ("HN", "S"): 0.7, ("NS", "S"): 0.3}


def close(value: float | None) -> Any:
    return pytest.approx(value, abs=1e-12)


def answers_of(*said: Sequence[object], films: Sequence[str] = ()) -> Answers:
    """Return the answers of people a, b and so on to the same items, in the same order."""
    words = np.array([[str(word) for word in person] for person in said]).T
    items = np.array([f"item{number}" for number in range(len(words))])
    people = tuple("abcdefgh"[: len(said)])
    return Answers(people, items, np.array([*films] or items), words, bool(films))


def found_in(rows: Any, film: str, words: str = "all", people: str = "") -> Any:
    """Return the only row of a film, or of a mean."""
    found = [row for row in rows if (row["film"], row["words"]) == (film, words)]
    (row,) = [row for row in found if people in ("", row["people"])]
    return row


# ---- measures ------------------------------------------------------------------------------------

labelings = st.lists(
    st.tuples(st.sampled_from(LEVELS), st.sampled_from(LEVELS)), min_size=1, max_size=60
)


@settings(max_examples=50)
@given(labelings)
def test_expected_disorder_is_the_mean_over_every_way_to_answer(labels) -> None:
    first, second = zip(*labels, strict=True)

    def apart(one: str, other: str) -> float:
        return DISTANCES.get((one, other), DISTANCES.get((other, one), 0.0))

    def mean(ones: Any, others: Any) -> float:
        distances = [apart(one, other) for one, other in product(ones, others)]
        return math.fsum(distances) / len(distances)

    found = gammas(answers_of(first, second), Scale.of_levels())
    observed = math.fsum(apart(*both) for both in labels) / len(labels)
    chances = {
        "uniform": mean(LEVELS, LEVELS),
        "own": mean(first, second),
        "pooled": mean(first + second, first + second),
    }
    for null, expected in chances.items():
        assert found[null] == (close(1 - observed / expected) if expected else None)


def test_cronbach_is_that_of_its_definition() -> None:
    random = np.random.default_rng(1)
    table = random.normal(size=(30, 1)) + random.normal(size=(30, 4)) + 1000
    # The mean covariance of two raters over the mean of all cells of the covariance matrix.
    covariance = np.cov(table, rowvar=False)
    between = (covariance.sum() - np.trace(covariance)) / (4 * 3)
    found = compute(answers_of(*table.T)).rows[0]
    assert found["cronbach"] == pytest.approx(between / covariance.mean(), abs=1e-9)
    assert found["cronbach_low"] < found["cronbach"] < found["cronbach_high"]
    assert found["low"] < found["alpha"] < found["high"]


class Replayed:
    """A sampler for pygamma-agreement that replays given labelings on the clips' grid."""

    def __init__(self, continua: list[Any]) -> None:
        self.continua = iter(continua)

    def init_sampling(self, *_: Any) -> None:
        """Nothing is learnt from the reference."""

    @property
    def sample_from_continuum(self) -> Any:
        """The next labeling."""
        return next(self.continua)


@pytest.mark.check("takes seconds to be compiled")
@pytest.mark.filterwarnings("ignore")
def test_pygamma_agreement_with_a_large_alpha_on_the_same_grid() -> None:
    """Where moving in time is ruled out, its alignment is clip by clip and gamma is ours."""
    pygamma = pytest.importorskip("pygamma_agreement")
    segment = pytest.importorskip("pyannote.core").Segment
    labels = (["EN", "HN", "S"], ["EN", "S", "NS"])

    def continuum(*tracks: Any) -> Any:
        made = pygamma.Continuum()
        for name, track in zip("AB", tracks, strict=True):
            for clip, label in enumerate(track):
                made.add(name, segment(10 * clip, 10 * clip + 10), label)
        return made

    levels = pytest.importorskip("sortedcontainers").SortedSet(LEVELS)
    scale = Scale.of_levels()
    matrix = pygamma.PrecomputedCategoricalDissimilarity(levels, scale.distances)
    samples = [continuum(labels[0], order) for order in permutations(labels[1])]
    result = continuum(*labels).compute_gamma(
        pygamma.CombinedCategoricalDissimilarity(alpha=1000, cat_dissim=matrix),
        n_samples=len(samples),
        sampler=Replayed(samples),
    )
    # It computes in single precision.
    found = gammas(answers_of(*labels), scale)
    assert result.gamma == pytest.approx(found["own"], abs=1e-5)


def krippendorff_of_levels(places: NDArray[np.float64]) -> float:
    """Krippendorff's alpha of the package, of places on a line."""
    found = krippendorff.alpha(
        reliability_data=places,
        value_domain=sorted(PLACES.values()),
        level_of_measurement="interval",
    )
    return float(found)


@pytest.mark.parametrize("seed", range(amount(6, 100)))
def test_agreement_of_drawn_annotations_is_that_of_the_packages(seed: int) -> None:
    """Of 2 to 4 people, some of whom did not see some clips, items that two answered count."""
    random = np.random.default_rng(seed)
    names = ["ada", "ben", "cleo", "dora"][: random.integers(2, 5)]
    shape = (len(names), random.integers(12, 40))
    drawn = {
        "rating": random.integers(1, 5, shape).astype(str),
        "mood": random.choice(["joy", "fear", "calm"], shape),
        "level": random.choice(LEVELS, shape, p=[0.4, 0.2, 0.2, 0.2]),
        "tension": random.choice(TENSION, shape, p=[0.4, 0.2, 0.2, 0.2]),
    }
    is_seen = random.random(shape) < 0.9
    said: dict[str, dict[str, dict[str, str]]] = {name: {} for name in names}
    for person, clip in np.argwhere(is_seen).tolist():
        cells = {column: str(cell[person, clip]) for column, cell in drawn.items()}
        said[names[person]][f"film{clip % 3}-{clip:02d}"] = cells
    manifest = annotated(said)
    by_two = is_seen.sum(axis=0) >= 2
    for column, cells in drawn.items():
        if column == "mood":
            values = np.where(
                is_seen, np.searchsorted(["calm", "fear", "joy"], cells), np.nan
            )
            expected = krippendorff.alpha(values, level_of_measurement="nominal")
        elif column == "rating":
            values = np.where(is_seen, cells.astype(float), np.nan)
            expected = krippendorff.alpha(values, level_of_measurement="interval")
        elif column == "tension":
            values = np.where(is_seen, np.vectorize(TENSION.index)(cells), np.nan)
            expected = krippendorff.alpha(
                values, value_domain=range(4), level_of_measurement="interval"
            )
        else:
            values = np.where(is_seen, np.vectorize(PLACES.get)(cells), np.nan)
            expected = krippendorff_of_levels(values)
        order = TENSION if column == "tension" else ()
        measured = compute(answers_of_manifest(manifest, column), column, order)
        is_nominal = column == "mood"
        assert measured.distance == ("nominal" if is_nominal else "interval")
        found = measured.rows
        everyone = found_in(found, "all films", people=" / ".join(names))
        assert everyone["alpha"] == close(expected)
        assert everyone["items"] == by_two.sum()
        of_two = cells[:2, is_seen[:2].all(axis=0)]
        pair = found_in(found, "all films", people=" / ".join(names[:2]))
        assert pair["equal"] == pytest.approx((of_two[0] == of_two[1]).mean())
        assert pair["kappa"] == pytest.approx(cohen_kappa_score(*of_two), abs=1e-9)
    levels = compute(answers_of_manifest(manifest, "level"), "level").rows
    alphas: dict[str, list[float]] = {}
    for film, both in product(range(3), [(0, 1)]):
        in_film = is_seen[list(both)].all(axis=0) & (np.arange(shape[1]) % 3 == film)
        places = np.vectorize(PLACES.get)(drawn["level"][list(both)][:, in_film])
        people = " / ".join(names[person] for person in both)
        found_pair = found_in(levels, f"film{film}", people=people)
        assert found_pair["items"] == in_film.sum()
        # Kappa with these distances: both keep how often they gave each level.
        observed = np.abs(places[0] - places[1]).mean()
        by_chance = np.abs(places[0][:, None] - places[1]).mean()
        if not by_chance:
            assert found_pair["gamma_own"] is found_pair["alpha"] is None
            continue
        assert found_pair["gamma_own"] == pytest.approx(1 - observed / by_chance)
        alphas[f"film{film}"] = [krippendorff_of_levels(places)]
        assert found_pair["alpha"] == close(alphas[f"film{film}"][0])
    if len(names) == 2:
        mean = found_in(levels, "mean of films")
        assert mean["alpha"] == close(float(np.mean([*alphas.values()])))


@pytest.mark.parametrize("distance", ["interval", "ordinal", "nominal"])
@pytest.mark.parametrize("seed", range(amount(6, 100)))
def test_each_distance_is_that_of_the_package(seed: int, distance: str) -> None:
    """Two to five people, missing answers, films; of numbers, levels, and words in order."""
    random = np.random.default_rng([7, seed])
    shape = (random.integers(2, 6), random.integers(15, 60))
    drawn = {
        "rating": np.round(random.normal(3, 1, shape) * 2) / 2,
        "level": np.array([*PLACES.values()])[random.integers(0, 4, shape)],
        "tension": random.binomial(3, 0.4, shape).astype(float),
    }
    level_at = {place: level for level, place in PLACES.items()}
    is_given = random.random(shape) < 0.7
    films = np.array([f"film{n % 4}" for n in range(shape[1])])
    for column, values in drawn.items():
        words = values.astype(str).tolist()
        if column != "rating":
            names = level_at if column == "level" else dict(enumerate(TENSION))
            words = [[names[value] for value in person] for person in values.tolist()]
        said = np.where(is_given, words, "")
        order = TENSION if column == "tension" else ()
        answers = answers_of(*said.tolist(), films=films.tolist())
        found = compute(answers, column, order, distance)
        assert found.distance == distance
        of_places = np.where(is_given, values, np.nan)
        domain = sorted({*values[is_given].tolist()})
        if column != "rating":
            domain = [*range(4)] if column == "tension" else sorted(PLACES.values())
        for row in found.rows:
            names = row["people"].split(" / ")
            if names == ["each two"] or row["words"] != "all":
                continue
            of_people = of_places[["abcde".index(name) for name in names]]
            is_in_film = (films == row["film"]) | (row["film"] == "all films")
            is_compared = (~np.isnan(of_people)).sum(axis=0) > 1
            part = of_people[:, is_in_film & is_compared]
            if len({*part[~np.isnan(part)].tolist()}) < 2:
                assert row["alpha"] is None
                continue
            expected = krippendorff.alpha(
                part, value_domain=domain, level_of_measurement=distance
            )
            assert row["alpha"] == close(float(expected)), (column, row)
        assert f"annotators ({distance} distance): " in str(present(found, "t"))
    assert f"({distance} distance)" in present(found, "t").page()


def test_words_without_an_order_have_only_the_nominal_distance(tmp_path: Path) -> None:
    said = answers_of("xyzx", "xyyx")
    assert compute(said, "mood", distance="nominal").distance == "nominal"
    for distance in ("interval", "ordinal"):
        with pytest.raises(
            FixUsage, match=f"--distance {distance} is for numbers"
        ) as refused:
            compute(said, "mood", distance=distance)
        assert "--order mood=WORDS" in str(refused.value.hint)
    with pytest.raises(NotFound, match="ordinl"):
        compute(said, "mood", distance="ordinl")


def test_the_mean_is_over_films_and_a_film_counts_once() -> None:
    good, bad = ["EN", "S", "HN"], ["S", "EN", "HN"]
    # In film a two agree; in film b one of three differs from the two others.
    words = [[*good, *good], [*good, *bad], ["", "", "", *good]]
    found = compute(answers_of(*words, films="aaabbb"), "level").rows
    low = 1 - (2 / 3) / 0.425
    expected = (1 + (low + 1 + low) / 3) / 2
    assert found_in(found, "mean of films")["gamma_uniform"] == close(expected)
    # As in the paper, every pair of annotators counts once: two that agree, two that do not.
    over_pairs = found_in(found, "mean of pairs")
    assert over_pairs["gamma_uniform"] == close((2 + 2 * low) / 4)
    assert over_pairs["items"] == 12


def test_a_film_without_a_measure_is_left_out_of_means() -> None:
    """Where both say one word throughout, they would always agree by chance."""
    found = compute(answers_of("xxxyxy", "xxxyyy", films="aaabbb"), "mood")
    mean = found_in(found.rows, "mean of films")
    assert found_in(found.rows, "a")["kappa"] is None
    assert mean["kappa"] == found_in(found.rows, "b")["kappa"]
    assert mean["equal"] == close((1 + 2 / 3) / 2)
    assert found.n_undefined == 1
    assert "would always agree): 1 row" in " ".join(present(found, "t").limits)


def test_chance_draws_no_word_that_nobody_can_say() -> None:
    """With low, mid and high, two draws are 8 / 9 apart on average."""
    said = answers_of(["low", "high", "mid"], ["high", "low", "mid"], films="aaa")
    found = compute(said, "mood", ["low", "mid", "high"]).rows[0]
    assert found["gamma_uniform"] == pytest.approx(1 - (4 / 3) / (8 / 9))


def test_levels_have_a_row_without_not_sure_and_own_words_have_none() -> None:
    """Without NS, two draws of three levels are 4 / 9 apart on average."""
    said = answers_of(["EN", "NS", "S", "HN"], ["EN", "S", "HN", "HN"], films="aaaa")
    found = compute(said, "level")
    without = found_in(found.rows, "a", "without NS")
    assert without["gamma_uniform"] == close(1 - (0.7 / 3) / (4 / 9))
    assert {row["words"] for row in found.rows} == {"all", "without NS"}
    assert "without NS" in str(present(found, "t"))
    assert {row["words"] for row in compute(said, "mood").rows} == {"all"}


def test_items_that_one_person_answered_are_counted_and_left_out() -> None:
    """Two persons answered in the film b, but none of its items has two answers.

    The fourth person answered nothing, and is not one of the raters.
    """
    said = answers_of(
        [1, 2, "", 3], [1, 3, 2, ""], [1, "", "", ""], [""] * 4, films="aabb"
    )
    found = compute(said)
    assert (found.n_single, found.n_complete, found.n_films) == (2, 1, 1)
    assert found.films_of_one == ["b"]
    warning = "films without an item of two annotators, not compared: b"
    assert [*present(found, "t").warnings] == [warning]
    # Pairs of answers: three of the first item, one of the second.
    assert found.rows[0]["equal"] == pytest.approx(3 / 4)
    assert found.rows[0]["cronbach"] is None
    sentence = "Cronbach's alpha of 3 raters: not defined."
    assert sentence in present(found, "t").answers


# ---- marks, manifests and tables -----------------------------------------------------------------


def rows_of(folder: Path, *line: object) -> Any:
    return call_obygaze("agree", *line, "--json", cwd=folder).ok().json()["rows"]


def labelled(folder: Path, segments: list[Mark], spans: list[ClipSpan]) -> str:
    """Return the name of a manifest with the labels that marks give clips."""
    write_marks(folder / "s.csv", segments)
    write_spans(folder / "c.csv", spans)
    words = ("marks", "clips", "s.csv", "--clips", "c.csv", "-o", "labels")
    call_obygaze(*words, cwd=folder).ok()
    return "labels"


@pytest.mark.parametrize("is_ordered", [False, True])
def test_agreement_on_a_column_of_ones_own(is_ordered: bool, tmp_path: Path) -> None:
    """Words with an order are 0, 1 and 2, others are the same or not."""
    words = ("none", "schwach", "stark")
    said = np.random.default_rng(5).integers(0, 3, (2, 40))
    spans = [f"{10 * n}-{10 * n + 9}" for n in range(40)]
    marked = []
    for name, numbers in zip("AB", said, strict=True):
        parts = [
            f"{span} Gewalt={words[k]}" for span, k in zip(spans, numbers, strict=True)
        ]
        marked += marks(", ".join(parts), annotator=name)
    line = [labelled(tmp_path, marked, clips(" ".join(spans))), "--column"]
    # An order is one whatever capitals it is typed with.
    options = ["--order", "Gewalt=none,Schwach,STARK"] if is_ordered else []
    found = rows_of(tmp_path, *line, "Gewalt", *options)[0]
    if is_ordered:
        expected = krippendorff.alpha(
            said.astype(float),
            value_domain=[0.0, 1.0, 2.0],
            level_of_measurement="interval",
        )
    else:
        expected = krippendorff.alpha(said, level_of_measurement="nominal")
    assert found["alpha"] == close(float(expected))
    of_word = rows_of(tmp_path, *line, "Gewalt=stark")[0]
    expected = krippendorff.alpha(1 * (said == 2), level_of_measurement="nominal")
    assert of_word["alpha"] == close(float(expected))
    for typed, meant in (("Gewalr", "Gewalt"), ("Gewalt=strak", "stark")):
        refused = call_obygaze("agree", *line, typed, cwd=tmp_path)
        assert refused.code == 1 and f"did you mean '{meant}'?" in refused.stderr


def test_a_clip_that_stands_twice_is_said_to_count_twice(tmp_path: Path) -> None:
    marked = [
        *marks("0-9 S, 10-19 EN", annotator="A"),
        *marks("0-9 S, 10-19 S", annotator="B"),
    ]
    once = clips("0-9 10-19")
    twice = [*once, once[0]._replace(clip_id="again")]
    labels = labelled(tmp_path, marked, twice)
    done = call_obygaze("agree", labels, "--json", cwd=tmp_path).ok()
    assert done.json()["rows"][0]["items"] == 3
    assert "1 clip with the same span of a film as another clip; each" in done.stderr


def test_a_film_in_which_only_one_person_marked_leads_to_coded(tmp_path: Path) -> None:
    marked = marks("0-9 S, 10-19 EN", annotator="A")
    marked += marks("0-9 S, 10-19 S", annotator="B")
    marked += [mark._replace(movie_id="n") for mark in marks("0-9 S", annotator="A")]
    spans = clips("0-9 10-19")
    spans += [span._replace(movie_id="n", clip_id=f"n{span.clip_id}") for span in spans]
    done = call_obygaze("agree", labelled(tmp_path, marked, spans), cwd=tmp_path).ok()
    assert "without an item of two annotators, not compared: n" in done.stderr
    assert "import the marks with --coded COLUMN" in done.stderr


def said_of_clips(ada: str, ben: str) -> Manifest:
    """Return clips of one film whose mood two people said, a word or several for each clip."""
    said = {}
    for name, words in (("ada", ada), ("ben", ben)):
        said[name] = {
            f"lake-{n}": {"mood": word} for n, word in enumerate(words.split())
        }
    return annotated(said)


def alpha_of_mood(ada: str, ben: str) -> float | None:
    answers = answers_of_manifest(said_of_clips(ada, ben), "mood")
    alpha: float | None = compute(answers, "mood").rows[0]["alpha"]
    return alpha


def test_several_words_have_no_order_and_who_could_not_tell_has_not_answered() -> None:
    several = alpha_of_mood("sad|calm odd tense", "calm|sad odd odd")
    assert several == alpha_of_mood("both odd tense", "both odd odd")
    without = alpha_of_mood("odd calm odd calm", "odd calm calm calm")
    assert without == alpha_of_mood("odd ? calm ? odd calm", "odd ? calm odd calm calm")


def test_words_of_a_table_have_no_order_and_one_spelling(tmp_path: Path) -> None:
    rows = [["joy|fear", "fear|joy"], ["joy", "JOY "], ["joy", "fear"]]
    table = write_table(tmp_path / "ratings.csv", rows)
    (row,) = agree(table, raters="a,b")["rows"]
    assert row["equal"] == close(2 / 3)
    write_table(table, [["1e3", "1000"], ["2", "2.0"], ["5", "4"], ["", "4.00"]])
    found = agree(table, raters="a,b")
    assert found["rows"][0]["equal"] == close(2 / 3)
    assert found["rows"][0]["kappa"] == close(4 / 7)
    assert "A dot is Krippendorff&#39;s alpha" in found.page()


def test_a_person_who_could_not_tell_leaves_the_clip_to_the_other(tmp_path) -> None:
    """Of 40 clips, ben has no row of one, and could not tell the mood of 26."""
    lines = ["clip_id,movie_id,coder,mood,shot"]
    for number in range(40):
        mood = "unklar" if number < 26 else ["calm", "wild"][number % 2]
        lines.append(f"c{number},lake,ada,{['calm', 'wild'][number % 3 > 1]},{number}")
        if number != 39:
            lines.append(f"c{number},lake,ben,{mood},{number}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    words = ("manifest", "import", "t.csv", "-o", "t", "--map", "annotator=coder")
    words = (*words, "--word", "unklar=?", "--rule", "agreed")
    said = call_obygaze(*words, cwd=tmp_path).ok().stderr
    assert "labelled by one annotator only: 27 clips" in said
    found = agree("t", column="mood", workspace=tmp_path)
    assert (found["n_single"], found["answers"]) == (27, {"ada": 40, "ben": 13})
    said = " ".join(found.limits)
    assert "Excluded, because only one annotator answered: 27 items." in said
    assert "Items with an answer: ada 40, ben 13." in said


def test_an_order_lacks_no_word_that_somebody_said(tmp_path: Path) -> None:
    name = written(tmp_path, said_of_clips("low unclear high", "mid unclear high"))
    with pytest.raises(
        FixInput, match="--order mood: words of the annotations are missing"
    ):
        agree(name, column="mood", orders={"mood": "low,mid,high"}, workspace=tmp_path)


def written(folder: Path, manifest: Manifest) -> str:
    write_manifest(manifest, folder / "manifests" / f"{manifest.name}.toml", force=True)
    return manifest.name


def test_levels_and_concepts_are_compared_in_the_view_of_the_manifest(tmp_path) -> None:
    """Of two who heard something, nobody saw anything."""
    heard = {"level": "S", "concepts": ("Voice",)}
    seen = {"level": "S", "concepts": ("Look", "Voice")}
    said = {
        "ada": {"lake-0": heard, "lake-1": seen, "lake-2": heard},
        "ben": {"lake-0": seen, "lake-1": seen, "lake-2": heard},
    }
    header = Header("made up", {"Voice": "speech", "Look": "visual"})
    manifest = replace(annotated(said), header=header)

    def words(made: Manifest, column: str) -> list[list[str]]:
        return answers_of_manifest(made, column).words.tolist()

    assert words(manifest, "level") == [["S", "S"]] * 3
    visual = manifest.view("visual")
    assert words(visual, "level") == [["EN", "S"], ["S", "S"], ["EN", "EN"]]
    nothing = "no concept"
    expected = [[nothing, "Look"], ["Look", "Look"], [nothing, nothing]]
    assert words(visual, "concepts") == expected
    expected = [["no", "yes"], ["yes", "yes"], ["no", "no"]]
    assert words(visual, "concepts=Look") == expected
    found = agree(written(tmp_path, visual), workspace=tmp_path)
    assert found.title == "Agreement: films, level, visual view"


def test_only_what_people_judged_is_proposed(tmp_path: Path) -> None:
    """A scene number and the decade of the film are the same in the tables of all annotators."""
    rows = ["clip_id,movie_id,Szene,decade,shot,annotator,mood,intensity"]
    for number in range(40):
        film, decade = (("alba", 1990), ("brug", 2000))[number % 2]
        facts = f"{film}-{number},{film},{number // 4},{decade},Nr {number}"
        rows.append(f"{facts},ada,calm,{number % 3}")
        rows.append(f"{facts},ben,{('calm', 'tense')[number % 3 == 0]},{number % 4}")
    (tmp_path / "c.csv").write_text("\n".join(rows), "utf-8")
    words = ("manifest", "import", "c.csv", "--rule", "agreed")
    made = call_obygaze(*words, cwd=tmp_path).ok()
    assert "agreement: obygaze agree c --column mood\n" in made.stdout + made.stderr
    refused = call_obygaze("agree", "c", cwd=tmp_path)
    assert "Try: pass --column mood or pass --column intensity\n" in refused.stderr


def test_concepts_of_people_without_levels_are_not_compared() -> None:
    """Only clips in which both found something would count: complete agreement."""
    look = {"level": "", "concepts": ("Look",)}
    said = {"ada": {"lake-0": look, "lake-1": look}, "ben": {"lake-0": look}}
    manifest = annotated(said)
    for column in ("concepts", "concepts=Look"):
        with pytest.raises(FixInput, match="expected annotations with levels, which"):
            answers_of_manifest(manifest, column)
    with pytest.raises(FixInput) as caught:
        answers_of_manifest(manifest, "level")
    assert caught.value.hint is None


def test_what_is_said_of_clips_says_nothing_of_annotators() -> None:
    """Each annotator would have the one cell of the clip: complete agreement."""
    manifest = said_of_clips("joy joy joy", "joy joy joy")
    manifest = manifest.with_column("genre", dict.fromkeys(manifest.clip_ids, "drama"))
    for column in ("genre", "movie_id", "genre=drama"):
        with pytest.raises(FixInput, match="no annotator has a value in the column"):
            answers_of_manifest(manifest, column)


def write_table(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    lines = [",".join("abc"[: len(rows[0])])]
    lines += [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([*lines, ""]), "utf-8")
    return path


def test_what_is_refused_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    write_table(path, [[1, 2, 1], [2, 1, 3], [3, 3, 2]])
    for sources, options, problem in (
        (path, {"raters": "a,a"}, "at least two raters, got 1: a"),
        (path, {"raters": "a,d"}, "no column 'd'; columns: a, b, c"),
        (path, {"raters": "a,b", "column": "level=S"}, "--raters is for a table"),
        (
            Manifest("films", Header("x"), ()),
            {},
            "expected the name of a manifest, got a Manifest",
        ),
        (path, {"cluster": "film"}, "--cluster is for a table of ratings"),
    ):
        with pytest.raises((FixInput, FixUsage, NotFound), match=problem):
            agree(sources, **options)  # type: ignore[arg-type]
    for rows, options, problem in (
        ([[1, "much"], [2, 1]], {}, r"words, got 'much' \(b, .*ratings.csv:2\)"),
        # Each film has one rater of several.
        ([[1, ""], ["", 2]], {}, "answers of two annotators, got none"),
        # It may be of any of the other films, and of none.
        (
            [[1, 2, "lake"], [2, 2, ""]],
            {"cluster": "c"},
            "the c of this row is missing",
        ),
    ):
        write_table(path, rows)
        with pytest.raises(FixInput, match=problem):
            agree(path, raters="a,b", **options)  # type: ignore[arg-type]


def test_films_of_a_table_are_drawn_whole_and_have_rows(tmp_path: Path) -> None:
    lines = [[n % 4, (n + n % 3) % 4, f"film{n % 5}"] for n in range(30)]
    path = write_table(tmp_path / "r.csv", lines)
    found = agree(path, raters="a,b", cluster="c")
    films = [f"film{number}" for number in range(5)]
    means = ["mean of films", "mean of pairs"]
    assert [row["film"] for row in found["rows"]] == ["all films", *means, *films]
    items = agree(path, raters="a,b")
    assert [row["film"] for row in items["rows"]] == ["all films"]
    for name in ("alpha", "cronbach"):
        assert items["rows"][0][name] == found["rows"][0][name]
    assert items["rows"][0]["low"] != found["rows"][0]["low"]
    # Neither names nor the order of rows change a draw.
    shuffled = [[one, other, f"x{film}"] for one, other, film in reversed(lines)]
    again = agree(write_table(path, shuffled), raters="a,b", cluster="c")
    assert again["rows"][0] == found["rows"][0]


def test_a_watched_clip_without_a_rating_has_no_value(tmp_path: Path) -> None:
    ratings = {
        "ada": ["3", "", "4", "1", "", "2", "5"],
        "ben": ["2.5", "", "4", "2", "1", "2", "5"],
    }
    rated = [Mark("x", 0, 14, "watched", "watched", name) for name in ratings]
    for name, words in ratings.items():
        for n, word in enumerate(words):
            rated += [Mark("x", 2 * n, 2 * n + 2, "rating", word, name)] if word else []
            rated += [Mark("x", 2 * n, 2 * n + 2, "one", "1", name)] if word else []
    write_marks(tmp_path / "m.csv", rated)
    cut: dict[str, Any] = {"every": 2, "force": True, "workspace": tmp_path}
    made = project_marks(tmp_path / "m.csv", "r", **cut)
    line = "has no value in a column of numbers"
    assert [one.split(": ")[-1] for one in made.warnings if line in one] == ["rating"]
    assert own_words(made.manifest, "rating") == ratings
    alpha = krippendorff.alpha(
        [[float(word or "nan") for word in words] for words in ratings.values()],
        level_of_measurement="interval",
    )
    found = agree("r", column="rating", workspace=tmp_path)
    assert found["rows"][0]["alpha"] == close(alpha)
    # One number alone may stand for yes, and an order states that its numbers are words.
    # One number alone may stand for yes, and an order states that its numbers are words.
    ones = [["1" if word else "none" for word in words] for words in ratings.values()]
    assert [*own_words(made.manifest, "one").values()] == ones
    order = {"rating": "1,2,2.5,3,4,5"}
    ordered = project_marks(tmp_path / "m.csv", "r", orders=order, **cut)
    filled = [[word or "none" for word in words] for words in ratings.values()]
    assert [*own_words(ordered.manifest, "rating").values()] == filled
    assert not [one for one in ordered.warnings if line in one]


def own_words(manifest: Manifest, column: str) -> dict[str, list[str]]:
    """Return the words of each annotator, in the order of the clips."""
    said = {(one.annotator, one.clip_id): one.own for one in manifest.annotations}
    return {
        name: [said[name, clip.clip_id][column] for clip in manifest]
        for name in manifest.annotators
    }
