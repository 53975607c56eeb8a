import pickle
import traceback

import pytest

from obygaze_features.core import errors
from obygaze_features.core.errors import FixInput

# The exit codes other people's scripts depend on.
EXIT_CODES = {
    "ObygazeError": 1,
    "FixInput": 1,
    "NotFound": 1,
    "UnknownName": 1,
    "AlreadyThere": 1,
    "InUse": 1,
    "FixUsage": 2,
    "InstallExtra": 2,
    "Corrupt": 4,
    "Mismatch": 5,
    "Stopped": 75,
}


@pytest.mark.parametrize("name, code", EXIT_CODES.items())
def test_each_error_has_its_exit_code(name, code):
    assert getattr(errors, name)("what").exit_code == code


def test_no_error_is_without_a_documented_code():
    def below(error: type) -> set[str]:
        return {error.__name__}.union(*map(below, error.__subclasses__()))

    core = {name for name in below(errors.ObygazeError) if hasattr(errors, name)}
    assert core == set(EXIT_CODES)
    assert (errors.EXIT_SOME_FAILED, errors.EXIT_INTERRUPTED) == (3, 130)


def test_an_error_of_another_process_is_the_same_error():
    from obygaze_features.backbones.cards import find_card
    from obygaze_features.backbones.weight_files import NO_WEIGHTS
    from obygaze_features.backbones.weights import WrongWeights
    from obygaze_features.video.container import BadVideo

    first = BadVideo("cut off", path="a.mkv", reason="truncated")
    second = WrongWeights(find_card("clip-b16"), NO_WEIGHTS, "sizes", ["size: 3"])
    third = errors.UnknownName("no clip", where="s", hint="b", details=["x"])
    third.exit_code = 130
    for error in (first, second, third):
        received = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own bytes
        assert type(received) is type(error)
        assert (str(received), received.args) == (str(error), error.args)
        assert vars(received) == vars(error)


def test_a_traceback_has_the_lines_that_a_command_prints_before_the_error():
    error = errors.FixInput("the task is not valid", details=["task: no class"])
    lines = traceback.format_exception(error)
    assert "the task is not valid" in lines[0]
    assert lines[-1] == "  task: no class\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "no file at https://ann:s3cret@host/a/b.zip",
            "no file at https://***@host/a/b.zip",
        ),
        ("s3://KEY:p@ss@bucket/x, y@z", "s3://***@bucket/x, y@z"),
        ("'https://h/s?X-Amz-Signature=abc&b=1' is", "'https://h/s?***' is"),
        ("hf://lab/films@v1.0", "hf://lab/films@v1.0"),
        ("clip a?b in /films/x?y", "clip a?b in /films/x?y"),
    ],
)
def test_messages_have_no_secrets_of_urls(text: str, shown: str) -> None:
    error = FixInput(text, where=text, hint=text, details=[text])
    assert {error.message, error.where, error.hint, *error.details, error.args[0]} == {
        shown
    }
