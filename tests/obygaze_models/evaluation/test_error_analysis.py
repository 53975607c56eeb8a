import numpy as np
import pytest
import statsmodels.api as sm
from support.published import VISUAL, split_file

from obygaze_models.evaluation.error_analysis import (
    analyse,
    analyse_success,
    independent_factors,
    level_contrasts,
    paper_factors,
)
from obygaze_models.evaluation.logistic import fit_logistic


def clips(seed: int = 0, n: int = 600) -> tuple:
    rng = np.random.default_rng(seed)
    films = np.array([f"tt{i}" for i in rng.integers(0, 6, n)])
    factors = {
        "Look": rng.random(n) < 0.4,
        "Body": rng.random(n) < 0.2,
        "length": rng.normal(size=n),
    }
    margin = 0.5 + 1.2 * factors["Look"] - 0.8 * factors["Body"]
    return rng.random(n) < 1 / (1 + np.exp(-margin)), factors, films


class TestWhatCannotBeTold:
    def test_constant_and_dependent_factors_are_named(self) -> None:
        a = np.array([0, 1, 0, 1, 1, 0])
        b = np.array([0, 0, 1, 1, 0, 1])
        kept, left_out = independent_factors(
            {
                "a": a,
                "always": np.ones(6),
                "b": b,
                "number": a + b,
                "not a": 1 - a,
                "c": a * b,
            },
            6,
        )
        assert list(kept) == ["a", "b", "c"]
        assert left_out == {
            "always": "it never varies",
            "number": "it follows from the factors above",
            "not a": "it follows from the factors above",
        }

    def test_too_few_clips(self) -> None:
        found = analyse([1, 0, 1], {"a": [0, 1, 1], "b": [1, 1, 0]})
        assert found.note == "2 factors need 10 clips, got 3"
        assert found.factors == ()

    def test_a_factor_of_one_clip_has_no_coefficient(self) -> None:
        success = np.array([1, 0] * 10)
        look = np.arange(20) < 10
        alone = np.arange(20) == 0
        found = analyse(success, {"Look": look, "Body": alone, "Voice": ~alone[::-1]})
        assert [factor.name for factor in found.factors] == ["Look"]
        assert found.factors[0].n == 10
        assert found.left_out == {
            "Body": "only 1 of 20 clips are with it",
            "Voice": "only 1 of 20 clips are without it",
        }
        # It stays in the regression: the coefficient of Look is the one beside it.
        design = np.column_stack([look, alone, ~alone[::-1]])
        assert found.factors[0].log_odds == fit_logistic(design, success).beta[1]

    def test_a_factor_that_predicts_success(self) -> None:
        found = analyse([1] * 5 + [0, 0, 1, 0, 0], {"a": [1] * 5 + [0] * 5})
        assert found.method == "firth" and "predict success exactly" in found.note
        (factor,) = found.factors
        # Firth adds one half to each cell of the table 5, 0, 1, 4.
        assert factor.log_odds == pytest.approx(np.log(5.5 * 4.5 / (0.5 * 1.5)))
        assert np.isnan([factor.se, factor.low, factor.high, factor.p]).all()

    def test_where_the_level_predicts_success_a_concept_at_random_has_no_p(self):
        """In .89 of such worlds its p was below .05: residuals, and so errors, are next to 0."""
        rng = np.random.default_rng(0)
        films = np.repeat(np.arange(12), 50)
        is_sure = rng.random(600) < 0.3
        rate = rng.beta(1, 2, 12)[films]
        factors = {"Look": rng.random(600) < rate, "sure": is_sure}
        found = analyse_success(~is_sure, factors, films)[0]
        assert found.method == "firth" and np.isnan(found.factors[0].p)


class TestPaperFactors:
    def test_on_a_published_file_they_are_those_of_statsmodels(self) -> None:
        """An easy negative has no concept, so the two levels all but follow from the eight."""
        table = split_file("02_EN_HN_S.csv")
        any_concept = table.concepts.any(axis=1)
        level = np.where(~any_concept, "EN", np.where(table.y, "S", "HN"))
        concepts = {name: table.concepts[:, i] for i, name in enumerate(VISUAL)}
        rng = np.random.default_rng(0)
        factors = paper_factors(concepts, list(level))
        success = rng.random(level.size) < 0.7
        found = analyse_success(success, factors, table.films, intercept=False)
        assert len(found) == 13
        assert np.isnan(found[0].intercept)
        assert len(found[0].factors) == 11
        # The same regression with EN as the reference level, by statsmodels.
        design = np.column_stack([v for k, v in factors.items() if k != "level EN"])
        theirs = sm.Logit(success, sm.add_constant(design)).fit(disp=0).params
        ours = {f.name: f.log_odds for f in found[0].factors}
        assert ours["level EN"] == pytest.approx(theirs[0], abs=1e-6)
        assert ours["level S"] - ours["level EN"] == pytest.approx(theirs[-1], abs=1e-6)
        assert ours[VISUAL[0]] == pytest.approx(theirs[1], abs=1e-6)
        # Success is drawn by lot here: concepts do nothing, and each level has the same odds.
        true = [0.0] * 8 + [np.log(0.7 / 0.3)] * 3
        covered = [
            f.low < odds < f.high
            for f, odds in zip(found[0].factors, true, strict=True)
        ]
        assert sum(covered) >= 9


def test_two_levels_are_compared_as_their_shares_of_correct_decisions_are() -> None:
    """Without concepts, the difference in log odds is that of two shares."""
    n_right = {"EN": (30, 40), "HN": (10, 20), "S": (24, 30)}
    success: list[bool] = []
    levels: list[str] = []
    for level, (right, n_clips) in n_right.items():
        success += [True] * right + [False] * (n_clips - right)
        levels += [level] * n_clips
    films = [f"f{number % 6}" for number in range(len(levels))]
    factors = paper_factors({}, levels)
    found = {one.name: one for one in level_contrasts(success, factors, films)}
    assert [*found] == [
        "level HN against EN",
        "level S against EN",
        "level S against HN",
    ]

    def log_odds(level: str) -> float:
        right, n_clips = n_right[level]
        return float(np.log(right / (n_clips - right)))

    for name, factor in found.items():
        _, first, _, second = name.split()
        expected = log_odds(first) - log_odds(second)
        assert factor.log_odds == pytest.approx(expected, abs=1e-6)
        assert factor.low < expected < factor.high
