"""How the command behaves, whatever is asked: errors, streams, colour, workspaces."""

import json
import shlex
import signal
import subprocess
import sys

import click
import pytest
from support.cli import call_obygaze, environment, obygaze_argv, run_obygaze

from obygaze import cli
from obygaze.commands.shared import Session
from obygaze_features.core import errors

# ---- a command of our own, to provoke what others do only when things go wrong ------------------


@pytest.fixture
def provoke(monkeypatch):
    """Make `obygaze provoke` do what a test says."""

    def install(action) -> None:
        @click.command()
        @click.pass_obj
        def provoked(session: Session):
            """Provoke."""
            return action(session)

        monkeypatch.setitem(cli.root.commands, "provoke", provoked)

    return install


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (
            errors.Mismatch("what\nhappened", where="a.csv:3", hint="something else"),
            *(5, ["Error: what happened", "  in: a.csv:3", "  Try: something else"]),
        ),
        (
            FileNotFoundError(2, "No such file or directory", "absent"),
            *(1, ["Error: No such file or directory", "  in: absent"]),
        ),
        (
            ValueError("first\nsecond"),
            *(1, ["Error: a bug in obygaze: ValueError: first", "  Try: run the same"]),
        ),
        (MemoryError(), 1, ["Error: not enough memory"]),
        (
            RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has"),
            *(1, ["Error: not enough free memory on the GPU"]),
        ),
    ],
)
def test_each_error_is_a_sentence_a_place_and_what_to_do(provoke, error, code, lines):
    def fail(session: Session) -> None:
        raise error

    provoke(fail)
    result = call_obygaze("provoke")
    assert (result.code, result.stdout) == (code, "")
    printed = result.stderr.splitlines()
    assert len(printed) <= 3 and "second" not in result.stderr
    for line, expected in zip(printed, lines, strict=False):
        assert line.startswith(expected)


def test_debugging_shows_the_traceback(provoke):
    def fail(session: Session) -> None:
        raise errors.FixInput("what")

    provoke(fail)
    with pytest.raises(errors.FixInput):
        call_obygaze("provoke", env={"OBYGAZE_DEBUG": "1"})
    result = run_obygaze("manifest", "show", "nothing-here", env={"OBYGAZE_DEBUG": "1"})
    assert result.code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "nothing-here" in result.stderr


def test_ctrl_c_in_a_real_process_is_130():
    program = (
        "import sys, time, click\nfrom obygaze import cli\n"
        "@click.command()\n"
        "def wait():\n"
        "    click.echo('waiting')\n"
        "    time.sleep(60)\n"
        "cli.root.add_command(wait)\n"
        "cli.main(['wait'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip() == "Error: interrupted"


def test_a_reader_that_goes_away_is_no_error():
    command = shlex.join(obygaze_argv("backbones", "ls", "--json"))
    script = f"{command} | head -n 1"
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stderr == ""
    assert done.stdout == "{\n"


# ---- usage errors ------------------------------------------------------------------------------


def test_an_error_is_json_with_json(tmp_path):
    (tmp_path / "t.csv").write_text("clip_id,movie_id,level\na,m,X\n", encoding="utf-8")
    for argv, code, what in (
        (["manifest", "import", "t.csv", "--json"], 1, "cannot be imported"),
        (["manifest", "lss", "--json"], 2, "No such command 'lss'"),
        (["ls", "--json", "--none"], 2, "--none"),
    ):
        result = call_obygaze(*argv, cwd=tmp_path)
        document = json.loads(result.stderr)
        assert (result.code, document["exit_code"], document["json_version"]) == (
            code,
            code,
            1,
        )
        assert what in document["error"]["message"]
        assert set(document["error"]) == {"message", "where", "hint", "details"}
    result = call_obygaze("manifest", "import", "t.csv", "--json", cwd=tmp_path)
    assert "unknown level 'X'" in json.loads(result.stderr)["error"]["details"][0]


# ---- streams, colour, the workspace ------------------------------------------------------------


def test_the_workspace_is_here_or_what_the_environment_or_the_option_says(tmp_path):
    here, there, elsewhere = (
        tmp_path / name for name in ("here", "there", "elsewhere")
    )
    for folder in (here, there, elsewhere):
        folder.mkdir()

    def used(*words: str, **env: str) -> str:
        return call_obygaze(*words, "doctor", "--json", cwd=here, env=env).json()[
            "workspace"
        ]

    assert used() == str(here)
    assert used(OBYGAZE_WORKSPACE=str(there)) == str(there)
    assert used("-C", str(elsewhere), OBYGAZE_WORKSPACE=str(there)) == str(elsewhere)
    assert used("-C", "../there") == f"{here}/../there"
