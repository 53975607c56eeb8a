import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.manifest.adapters import known_sources, string_list

# What Python itself escapes in a repr beyond these is no character of these files.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"))
    | st.sampled_from(" \n\t\r\\'\"")
)


NO_LISTS = ["", "('a',)", "[a]", "[1]", "['a'", "['a',]", "['a' 'b']", "[['a']]"]
NO_LISTS += [r"['a\']", r"['\q']", r"['\x4']", "[f'{1}']", "['a'.upper()]", "[]\n"]


@pytest.mark.parametrize("text", NO_LISTS)
def test_everything_else_is_no_list_of_strings(text: str) -> None:
    assert string_list(text) is None


@given(st.lists(TEXT, max_size=4))
def test_reads_what_python_writes(strings: list[str]) -> None:
    text = repr(strings)
    assert ast.literal_eval(text) == strings
    assert string_list(text) == tuple(strings)


def test_an_unknown_file_is_a_warning(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for path in paths:
        path.write_bytes(b"")
    # The sha256 of no bytes at all, a published constant.
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    known = [(empty,), ("0" * 64,), ("1" * 64, "2" * 64)]
    files = {path: (path.stem, own) for path, own in zip(paths, known, strict=True)}
    sources, warnings = known_sources(files)
    files = [(one.file, one.sha256) for one in sources]
    assert files == [(name, empty) for name in "abc"]
    named = [warning.partition(": ")[0] for warning in warnings]
    assert named == list(map(str, paths[1:]))
    assert empty in warnings[0] and "0" * 64 in warnings[0]
