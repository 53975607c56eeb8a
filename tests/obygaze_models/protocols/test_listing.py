"""Protocols are listed, and printed as files that are the same protocols."""

import tomllib

import pytest
from support.cli import call_obygaze

import obygaze as og
from obygaze_models.protocols.listing import whole_toml
from obygaze_models.protocols.reading import (
    load_protocol,
    parse_protocol,
    protocol_names,
)


@pytest.mark.parametrize("name", protocol_names())
def test_a_protocol_with_all_its_keys_is_the_same_protocol(name: str) -> None:
    protocol = load_protocol(name)
    text = whole_toml(protocol)
    assert parse_protocol(text.encode("utf-8"), f"{name}.toml") == protocol


def test_a_key_with_its_default_is_shown(tmp_path) -> None:
    few = call_obygaze("protocols", "show", "honest-negatives").ok().stdout
    every = call_obygaze("protocols", "show", "honest-negatives", "--all").ok().stdout
    assert "replicates" not in few
    assert tomllib.loads(every)["report"]["replicates"] == 1000
    assert tomllib.loads(every)["models"]["mlp"]["dropout"] == 0.0
    own = tmp_path / "mine.toml"
    own.write_text(every.replace("replicates = 1000", "replicates = 200"), "utf-8")
    mine = call_obygaze("protocols", "show", own, "--all").ok().stdout
    assert tomllib.loads(mine)["report"]["replicates"] == 200
    assert load_protocol(own).name == "mine"


def test_every_shipped_protocol_is_listed_with_its_title() -> None:
    listed = og.protocols.ls().to_json()["protocols"]
    assert [row["name"] for row in listed] == protocol_names()
    assert all(row["title"] for row in listed)
    lines = call_obygaze("protocols", "ls").ok().stdout.splitlines()
    assert len(lines) == len(listed) + 1
    assert max(map(len, lines)) <= 100


def test_an_unknown_name_is_refused_with_a_similar_one() -> None:
    done = call_obygaze("protocols", "show", "honst")
    assert (done.code, "did you mean 'honest'?" in done.stderr) == (1, True)
