"""Protocols as files: what is accepted, what is refused, and how all of it is told at once."""

import pytest

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.kinds import for_task
from obygaze_models.protocols.reading import load_protocol, parse_protocol
from obygaze_models.protocols.tasks import with_tasks

CODE = "obygaze_models.protocols.paper_splits:code_splits"
PART = ("splits.column=part", 'splits.test=["a"]')
MINIMAL = """\
schema = "obygaze-protocol/1"

[tasks.EN_S]
classes = { EN = 0, S = 1 }

[models.ridge]
kind = "ridge"
"""


def read(text: str, *changes: str):
    return parse_protocol(text.encode(), "own.toml", changes)


def violations(text: str, *changes: str) -> list[str]:
    with pytest.raises(FixInput) as caught:
        read(text, *changes)
    return list(caught.value.details)


class TestRefused:
    def test_every_violation_at_once_with_its_key(self) -> None:
        text = MINIMAL + '\n[splits]\nkid = "kfold"\nfolds = -1\n\n[fit]\nseeds = 0\n'
        found = violations(text)
        assert [line.split(": ")[0] for line in found] == [
            "own.toml",
            "own.toml",
            "own.toml",
        ]
        assert "unknown key 'kid' (did you mean 'kind'?)" in found[0]
        assert "must be int >= 0, got -1" in found[1]
        assert "must be int >= 1, got 0" in found[2]

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            ('[tasks.X]\npositive = "open(level)"', "expected a column or a value"),
            (
                '[grid]\ntrain = ["EN_S", "EN_S"]',
                "must not list a value twice, got ['EN_S', 'EN_S']",
            ),
            (
                "[tasks.X]\nclasses = { S = 1, HN = 1 }",
                "must name a class 0 and a class 1",
            ),
            ("[tasks.X]\nclasses = { S = 1, HM = 0 }", "unknown level 'HM'"),
            (
                '[tasks.X]\ncolumn = "violence"',
                "must have both column and values, or neither",
            ),
            ('[grid]\nmodels = ["nb"]', "unknown model 'nb'"),
            ('[splits]\nkind = "kfold"', "kfold splits need folds"),
            ('[splits]\nkind = "fixed"', "need column and test"),
            (
                '[models.m]\nkind = "mlp"\ndropout = { grid = [0.1, 2] }',
                "must be float",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, more: str, said: str) -> None:
        (line,) = violations(f"{MINIMAL}\n{more}\n")
        assert said in line

    def test_a_later_schema_asks_for_an_upgrade(self) -> None:
        with pytest.raises(Mismatch, match="obygaze-protocol/2"):
            read(MINIMAL.replace("protocol/1", "protocol/2"))

    def test_what_is_no_protocol(self) -> None:
        with pytest.raises(FixInput, match="not valid TOML"):
            read("schema = ")
        with pytest.raises(FixInput, match="not a protocol: schema must be"):
            read("x = 1")
        with pytest.raises(NotFound, match="did you mean 'paper-table2'"):
            load_protocol("paper-tabel2")


class TestChanges:
    @pytest.mark.parametrize("words", ["splits.scheme", "leakage.x.y.z.w=1"])
    def test_what_is_no_change(self, words: str) -> None:
        with pytest.raises(FixUsage, match=r"SECTION\.KEY=VALUE"):
            read(MINIMAL, words)


class TestSettings:
    def test_a_published_tolerance_is_that_of_the_concept(self) -> None:
        """FACTS of the released code: its tolerances by concept."""
        words = {"C": "published"}
        concepts = ("Body", "Posture")
        tolerances = [for_task(words, c)["C"] for c in concepts]
        assert tolerances == [0.05, 0.01]
        # A word reached the solver, which multiplied it.
        by_task = {"C": {"by_task": {"Body against EN": "published", "other": 2.0}}}
        tolerances = [for_task(by_task, f"{c} against EN")["C"] for c in concepts]
        assert tolerances == [0.05, 2.0]


def test_two_tasks_with_one_bar_are_a_violation() -> None:
    task = '[tasks.{}]\npositive = "level == S"\nrow = "Look"\nseries = "all"\n'
    both = task.format("first") + task.format("second")
    (problem,) = violations(MINIMAL + both)
    assert "tasks.second.series" in problem and "tasks.first" in problem
    assert read(MINIMAL + both, "tasks.second.series=EN").tasks["second"].row == "Look"
    (problem,) = violations(MINIMAL, "tasks.EN_S.series=EN")
    assert "tasks.EN_S.series" in problem and "row" in problem


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ((f"splits.scheme={CODE}",), "splits.scheme: has no effect in nested splits"),
        (
            ("splits.kind=fixed", *PART, 'splits.never=["x"]'),
            "splits.never: has no effect in fixed splits",
        ),
        (("splits.folds=1",), "splits.folds: must be at least 2, or 0"),
        (("balancing=rotated",), "balancing: needs published splits and a scheme"),
    ],
)
def test_a_key_that_the_splits_do_not_read_is_a_violation(changes, problem) -> None:
    (violation,) = violations(MINIMAL, *changes)
    assert problem in violation


def test_only_tasks_that_are_run_need_published_folds() -> None:
    changes = ("splits.kind=published",)
    with pytest.raises(FixInput, match="the protocol is not valid"):
        load_protocol("honest", changes)
    clips = []
    for number in range(8):
        fold = {"fold:director": str(number % 4)}
        extra = {"mood": ("joy", "fear")[number // 4], **fold}
        clips.append(Clip(f"c{number}", f"film{number}", extra=extra))
    columns = ("mood", "fold:director")
    manifest = Manifest("m", Header("m"), tuple(clips), columns)
    asked = ["mood=joy"]
    with pytest.raises(FixUsage, match="no folds for the task mood=joy"):
        with_tasks(load_protocol("honest", changes, asked), asked, manifest)


@pytest.mark.parametrize("change", ["data.where=level != NS", "data.view=visual"])
def test_printed_values_are_left_out_where_a_run_takes_other_clips(change: str) -> None:
    assert load_protocol("paper-table2").paper
    assert load_protocol("paper-table2", ["balancing=none"]).paper
    assert not load_protocol("paper-table2", [change]).paper
    value = 'paper=[{metric="ap", mean=0.5}]'
    assert len(load_protocol("paper-table2", [change, value]).paper) == 1
