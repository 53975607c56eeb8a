"""`obygaze completion --install` in homes as people have them."""

from __future__ import annotations

from pathlib import Path

from support.cli import call_obygaze


def test_a_home_with_a_blank_and_a_file_of_another_encoding_are_no_problem(
    tmp_path: Path,
) -> None:
    home = tmp_path / "h o"
    home.mkdir()
    (home / ".bashrc").write_bytes(b"# caf\xe9\nalias ll='ls -l'")
    for _ in range(2):
        call_obygaze("completion", "bash", "--install", env={"HOME": str(home)}).ok()
    lines = (home / ".bashrc").read_bytes().splitlines()
    assert lines[:2] == [b"# caf\xe9", b"alias ll='ls -l'"]
    assert lines[2:] == [f". '{home}/.obygaze-complete.bash'".encode()]


def test_another_shell_is_refused_with_those_that_there_are() -> None:
    answer = call_obygaze("completion", env={"SHELL": "/bin/tcsh"})
    assert answer.code == 2
    assert "expected bash, zsh or fish, got 'tcsh'" in answer.stderr
