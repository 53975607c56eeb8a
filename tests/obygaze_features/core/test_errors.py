import pickle
import random
import subprocess
import traceback

import pytest
from support.seeds import SEED, amount

from obygaze_features.core import errors
from obygaze_features.core.errors import FixInput, InstallExtra
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.refusal import join_first, refuse_if
from obygaze_features.core.shell import shell_line

# The exit codes other people's scripts depend on.
ONE = ("ObygazeError", "FixInput", "NotFound", "UnknownName", "AlreadyThere", "InUse")
EXIT_CODES = {
    **dict.fromkeys(ONE, 1),
    **{"FixUsage": 2, "InstallExtra": 2, "Corrupt": 4, "Mismatch": 5, "Stopped": 75},
}


def test_each_error_has_its_documented_exit_code():
    def below(error: type) -> set[str]:
        return {error.__name__}.union(*map(below, error.__subclasses__()))

    core = {name for name in below(errors.ObygazeError) if hasattr(errors, name)}
    codes = {name: getattr(errors, name)("what").exit_code for name in core}
    assert codes == EXIT_CODES
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
        ("at https://ann:s3cret@host/a/b.zip", "at https://***@host/a/b.zip"),
        ("s3://KEY:p@ss@bucket/x, y@z", "s3://***@bucket/x, y@z"),
        ("'https://h/s?X-Amz-Signature=abc&b=1' is", "'https://h/s?***' is"),
        ("at https://ann:it's\"s3cret@h/s, y@z", "at https://***@h/s, y@z"),
        ("'https://h/it's?sig=a'b&c=d', got x", "'https://h/it's?***', got x"),
        ("runs of HTTP:/ann:s3cret@h/s?k=v", "runs of HTTP:/***@h/s?***"),
        ("in: gs:/ann:s3cret@h/s?k=v", "in: gs:/***@h/s?***"),
        ("C:/me@lab/x?y", "C:/me@lab/x?y"),
        ("hf://lab/films@v1.0", "hf://lab/films@v1.0"),
        ("clip a?b in /films/x?y", "clip a?b in /films/x?y"),
    ],
)
def test_messages_have_no_secrets_of_urls(text: str, shown: str) -> None:
    error = FixInput(text, where=text, hint=text, details=[text])
    found = {error.message, error.where, error.hint, *error.details, error.args[0]}
    assert found == {shown}


def test_one_that_is_absent_names_the_extra_to_install():
    with pytest.raises(InstallExtra) as caught:
        import_optional("no_such_package.inner", "extract", "decoding")
    assert str(caught.value).splitlines() == [
        "decoding needs the package 'no_such_package', which is not installed",
        '  Try: in the clone of obygaze: pip install -e ".[extract]"',
    ]
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("error", ["ImportError", "OSError"])
def test_a_package_that_is_broken_is_called_that(tmp_path, monkeypatch, error):
    source = f"raise {error}('libav.so.62: no such file')\n"
    (tmp_path / "unusable_package.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FixInput) as caught:
        import_optional("unusable_package", "video", "decoding")
    assert str(caught.value).splitlines() == [
        "decoding needs the package 'unusable_package', which is installed but does not work:"
        " libav.so.62: no such file",
        "  Try: obygaze doctor",
    ]


MORE = [(3, ""), (4, " and 1 more"), (5000, " and 4997 more")]


@pytest.mark.parametrize(("n", "more"), MORE)
def test_three_are_shown_and_the_others_counted(n, more):
    with pytest.raises(FixInput) as caught:
        refuse_if((f"c{number}" for number in range(n)), FixInput, "clips have no film")
    assert caught.value.message == f"clips have no film: c0, c1, c2{more}"


def test_a_value_is_seen_as_one_value():
    assert join_first(["", "a b", "c,d"]) == "'', 'a b', 'c,d'"
    assert join_first([0, 1.5, None]) == "0, 1.5, None"
    assert join_first(["x" * 200]) == "x" * 80 + "..."


# Also words that look like options, and what a shell would change.
SIGNS = ["a", "-", " ", "'", '"', "$HOME", "`", "\\", "*", "~", ";", "&", "|", "é", "#"]


@pytest.mark.parametrize("seed", range(SEED, SEED + amount(5, 500)))
def test_what_it_says_to_type_arrives_as_it_was(seed):
    draw = random.Random(seed)
    words = ["".join(draw.choices(SIGNS, k=draw.randrange(6))) for _ in range(5)]
    line = shell_line(["printf", r"%s\n", *words])
    typed = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
    assert typed.stdout.decode().split("\n")[:-1] == words


def test_python_reads_which_arguments_the_options_of_an_error_are() -> None:
    error = FixInput("no clip", hint="use --set data.view=raw, or --store S --force")
    expected = "no clip\n  Try: use --set data.view=raw, or --store S --force"
    assert error.text == expected
    told = "  In Python: --set is changes, a list; --store is store or stores"
    assert str(error) == f"{expected}\n{told}"
    plain = FixInput("no clip", hint="use --force, or a word-like --words or well--set")
    assert str(plain) == plain.text


def test_the_first_line_of_an_error_is_not_empty() -> None:
    # scikit-learn's error of a search whose fits all failed begins so.
    assert errors.first_line(ValueError("\nAll the 10 fits failed.\nIt")) == (
        "All the 10 fits failed."
    )
    assert errors.first_line(KeyError()) == "KeyError"
