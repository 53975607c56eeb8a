import re

import pytest

from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.file_names import FileNames, check_new_name, file_name

PLAIN = ["joy", "EN_S", "EN-S", "v1.2", "лицо", "脸部", "tt0108160-001", "a+b"]
STRANGE = ["", " ", ".", "..", "../../etc", "/etc/passwd", "a/b", "a\\b", "a:b", "-o"]
STRANGE += [".hidden", "~", "CON", "nul.txt", "COM1", "a\nb\x00c", "a\x1b[31m", "b."]
STRANGE += ["\ud800", "x" * 400, "脸" * 200]


def test_plain_names_stay_and_blanks_become_hyphens() -> None:
    assert [file_name(text) for text in PLAIN] == PLAIN
    assert file_name("Type of  shot") == "Type-of-shot"


@pytest.mark.parametrize("text", STRANGE)
def test_a_name_is_one_part_of_a_path_on_every_system(text, tmp_path) -> None:
    name = file_name(text)
    assert re.fullmatch(r"[\w+][\w.+-]*", name)
    assert name.split(".")[0].upper() not in {"CON", "NUL", "COM1"}
    path = tmp_path / f"{name}.png"
    path.write_bytes(b"")
    assert [found.name for found in tmp_path.iterdir()] == [f"{name}.png"]


def test_different_texts_have_different_names() -> None:
    texts = [*PLAIN, *STRANGE, "a|b", "a?b", "etc"]
    assert len({file_name(text) for text in texts}) == len(texts)
    names = FileNames()
    used = [names.unique_name(text) for text in (*texts, "JOY", "a b", "a-b", "joy")]
    assert len({name.casefold() for name in used}) == len(used)


def test_names_that_windows_cannot_have_are_refused_on_every_system(tmp_path) -> None:
    for name, reason in (
        ("con", "CON is the name of a device on Windows"),
        ("lpt³", "LPT³ is the name of a device on Windows"),
        ("films.", "it ends with a dot or a blank"),
        ("a:b", "it contains ':'"),
    ):
        with pytest.raises(FixUsage) as caught:
            check_new_name(tmp_path / name)
        assert caught.value.message == f"invalid name {name!r}: {reason}"
        # What has such a name already can be used where it is.
        (tmp_path / name).mkdir()
        check_new_name(tmp_path / name)


def test_a_name_that_some_system_takes_for_another_one_is_refused(tmp_path) -> None:
    same = "Windows and macOS do not distinguish the two names"
    pairs = [("films", "Films"), ("Straße", "STRASSE"), ("Ame\u0301lie", "Am\u00e9lie")]
    for there, name in pairs:
        (tmp_path / there).mkdir()
        with pytest.raises(AlreadyThere, match=same):
            check_new_name(tmp_path / name)
        check_new_name(tmp_path / there)
        check_new_name(tmp_path / f"{name}-2")
