"""What is wrong is counted and shown, and what an error says to type can be typed."""

import random
import subprocess

import pytest
from support.seeds import SEED, amount

from obygaze_features.core.errors import FixInput
from obygaze_features.core.refusal import refuse_if, shown
from obygaze_features.core.shell import shell_line


def refusal_of(values, **options):
    with pytest.raises(FixInput) as caught:
        refuse_if(values, FixInput, "clips have no film", **options)
    return caught.value


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (1, "clips have no film: c0"),
        (3, "clips have no film: c0, c1, c2"),
        (4, "clips have no film: c0, c1, c2 and 1 more"),
        (5000, "clips have no film: c0, c1, c2 and 4997 more"),
    ],
)
def test_three_are_shown_and_the_others_counted(n, text):
    assert refusal_of(f"c{number}" for number in range(n)).message == text


def test_a_value_is_seen_as_one_value():
    assert shown(["", "a b", "c,d"]) == "'', 'a b', 'c,d'"
    assert shown([0, 1.5, None]) == "0, 1.5, None"
    assert shown(["x" * 200]) == "x" * 80 + "..."


# Also words that look like options, and what a shell would change.
SIGNS = ["a", "-", " ", "'", '"', "$HOME", "`", "\\", "*", "~", ";", "&", "|", "é", "#"]


@pytest.mark.parametrize("seed", range(SEED, SEED + amount(5, 500)))
def test_what_it_says_to_type_arrives_as_it_was(seed):
    draw = random.Random(seed)
    words = ["".join(draw.choices(SIGNS, k=draw.randrange(6))) for _ in range(5)]
    line = shell_line(["printf", r"%s\n", *words])
    typed = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
    assert typed.stdout.decode().split("\n")[:-1] == words
