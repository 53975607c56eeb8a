"""Commands and data sets of packages that do not work: every message names the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import run_obygaze
from support.plugins import install_package

COMMANDS = '''
from obygaze_features.core.function_commands import command_of


def crash(word: str, *, workspace: str | None = None):
    """Fail.

    Args:
        word: A word.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze crash a
    """
    if word == "package":
        import no_such_package
    if word == "file":
        open("/no/such/file")
    raise ValueError("not my day")


def quiet(*, workspace: str | None = None):
    """Return nothing.

    Args:
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze quiet
    """


crash_command = command_of(crash, "crash")
quiet_command = command_of(quiet, "quiet")
WORKING = {
    "crash": ("gaze_commands:crash_command", "Fail."),
    "quiet": ("gaze_commands:quiet_command", "Return nothing."),
}
SHIPPED = {"report": ("gaze_commands:quiet_command", "Mine.")}
LOST = {"nogroup sub": ("gaze_commands:quiet_command", "Nobody can type it.")}
BELOW = {"report sub": ("gaze_commands:quiet_command", "Below a command.")}
AGAIN = {"quiet": ("gaze_commands:quiet_command", "As the other one.")}
ABSENT = {"absent": ("gaze_commands:no_such_command", "It is missing.")}


def read(files, *, name):
    return None
'''


def site_with(tmp_path: Path, *tables: str) -> dict[str, str]:
    """Install a package with these tables of commands; return the variables that find it."""
    points = {table.lower(): f"gaze_commands:{table}" for table in tables}
    site = install_package(
        tmp_path / "site",
        "gaze-commands",
        {"gaze_commands": COMMANDS},
        {"obygaze.commands": points},
        version="0.3",
    )
    return {"PYTHONPATH": str(site)}


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("a", "ValueError: not my day"),
        ("package", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_an_exception_in_a_command_names_its_package(
    word: str, reason: str, tmp_path: Path
) -> None:
    variables = site_with(tmp_path, "WORKING")
    failed = run_obygaze("crash", word, env=variables)
    assert failed.code == 1
    assert failed.stderr.splitlines() == [
        "Error: obygaze.commands: working = gaze_commands:WORKING (gaze-commands 0.3) failed:"
        f" {reason}",
        "  Try: tell the authors of gaze-commands 0.3; the same command with OBYGAZE_DEBUG=1 shows"
        " the traceback",
    ]


def test_its_traceback_is_shown_for_debugging(tmp_path: Path) -> None:
    variables = {**site_with(tmp_path, "WORKING"), "OBYGAZE_DEBUG": "1"}
    failed = run_obygaze("crash", "a", env=variables)
    assert "Traceback" in failed.stderr
    assert 'raise ValueError("not my day")' in failed.stderr


def test_a_missing_file_is_named_as_everywhere(tmp_path: Path) -> None:
    failed = run_obygaze("crash", "file", env=site_with(tmp_path, "WORKING"))
    assert failed.stderr.startswith(
        "Error: No such file or directory\n  in: /no/such/file"
    )


def test_a_command_that_returns_none_prints_nothing(tmp_path: Path) -> None:
    variables = site_with(tmp_path, "WORKING")
    quiet = run_obygaze("quiet", env=variables)
    assert (quiet.code, quiet.stdout, quiet.stderr) == (0, "", "")
    document = run_obygaze("quiet", "--json", env=variables)
    assert json.loads(document.stdout).keys() == {"json_version"}


@pytest.mark.parametrize(
    ("table", "warning"),
    [
        ("SHIPPED", "adds 'report', a command of obygaze; it is skipped"),
        ("LOST", "adds 'nogroup sub', but there is no group 'nogroup'; it is skipped"),
    ],
)
def test_a_command_that_nobody_can_type_is_a_warning(
    table: str, warning: str, tmp_path: Path
) -> None:
    where = (
        f"obygaze.commands: {table.lower()} = gaze_commands:{table} (gaze-commands 0.3)"
    )
    listed = run_obygaze("--help", env=site_with(tmp_path, table))
    assert listed.code == 0
    assert listed.stderr == f"Warning: {where} {warning}\n"


def test_a_command_below_another_command_is_a_warning(tmp_path: Path) -> None:
    shown = run_obygaze("report", "--help", env=site_with(tmp_path, "BELOW"))
    assert shown.code == 0
    assert (
        "adds 'report sub', but there is no group 'report'; it is skipped"
        in shown.stderr
    )
    assert "gaze-commands 0.3" in shown.stderr


@pytest.mark.check("several processes")
def test_doctor_says_what_is_wrong_with_each(tmp_path: Path) -> None:
    tables = ("AGAIN", "WORKING", "SHIPPED", "LOST", "BELOW", "ABSENT")
    variables = site_with(tmp_path, *tables)
    install_package(
        tmp_path / "site",
        "gaze-names",
        {
            "gaze_names": "from pathlib import Path\nFOLDER = Path(__file__).parent / 'protocols'"
        },
        {
            "obygaze.datasets": {"csv": "gaze_commands:read"},
            "obygaze.models": {"linear": "sklearn.svm:SVC"},
            "obygaze.protocols": {"mine": "gaze_names:FOLDER"},
            "obygaze.metrics": {"kind": "gaze_commands:read"},
        },
    )
    (tmp_path / "site" / "protocols").mkdir()
    (tmp_path / "site" / "protocols" / "honest.toml").write_text("", encoding="utf-8")
    facts = run_obygaze("doctor", "--json", env=variables).json()
    errors = {
        plugin["name"]: plugin["error"]
        for plugin in facts["plugins"]
        if plugin["package"].startswith("gaze")
    }
    assert errors.pop("again") is None
    expected = {
        "working": "adds 'quiet', as does obygaze.commands: again",
        "shipped": "adds 'report', a command of obygaze",
        "lost": "adds 'nogroup sub', but there is no group 'nogroup'",
        "below": "adds 'report sub', but there is no group 'report'",
        "absent": "has a command 'absent' that does not work: AttributeError",
        "csv": "is never used: obygaze has a data set 'csv' of its own",
        "linear": "cannot be called 'linear'",
        "mine": "has honest.toml, but obygaze has a protocol 'honest'",
        "kind": "cannot be called 'kind'",
    }
    assert errors.keys() == expected.keys()
    for name, reason in expected.items():
        assert reason in errors[name], name
        assert "gaze-" in errors[name]


def test_a_data_set_with_the_name_of_a_shipped_one_is_a_warning(tmp_path: Path) -> None:
    site = install_package(
        tmp_path / "site",
        "gaze-data",
        {"gaze_commands": COMMANDS},
        {"obygaze.datasets": {"csv": "gaze_commands:read"}},
    )
    listed = run_obygaze("manifest", "import", "--help", env={"PYTHONPATH": str(site)})
    assert listed.code == 0
    assert listed.stderr == (
        "Warning: obygaze.datasets: csv = gaze_commands:read (gaze-data 1.0) is skipped:"
        " 'manifest import csv' is another command\n"
    )


def test_a_protocol_with_the_name_of_a_shipped_one_is_a_warning(tmp_path: Path) -> None:
    source = "from pathlib import Path\nFOLDER = Path(__file__).parent / 'protocols'"
    site = install_package(
        tmp_path / "site",
        "gaze-names",
        {"gaze_names": source},
        {"obygaze.protocols": {"mine": "gaze_names:FOLDER"}},
    )
    (site / "protocols").mkdir()
    (site / "protocols" / "honest.toml").write_text("", encoding="utf-8")
    listed = run_obygaze("run", "--list", env={"PYTHONPATH": str(site)})
    assert listed.code == 0
    assert (
        "(gaze-names 1.0) has a protocol 'honest', which is there already"
        in listed.stderr
    )
