"""The view of labels beside stores of pictures, of sound and of words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.clips import with_view
from obygaze_models.protocols.schema import Data

HEADER = Header("Films", {"Body": "visual", "Voice": "audio"})
LABELLED = Manifest(
    "films",
    HEADER,
    (
        Clip("a-1", "a", level="S", concepts=("Body",)),
        Clip("a-2", "a", level="S", concepts=("Voice",)),
        Clip("a-3", "a", level="EN"),
    ),
)


def store(medium: str) -> Any:
    return SimpleNamespace(recipe=SimpleNamespace(medium=medium))


PICTURES = store("pictures")
SOUND = store("sound")


@pytest.mark.parametrize(
    ("stores", "view"),
    [
        ({"seen": PICTURES}, "visual"),
        ({"heard": SOUND}, "raw"),
        ({"seen": PICTURES, "heard": SOUND}, "raw"),
    ],
)
def test_without_a_view_in_the_protocol_the_stores_decide(
    stores: dict[str, Any], view: str
) -> None:
    assert with_view(Data(), LABELLED, stores).view == view
    # A view that the protocol names stays.
    for named in ("raw", "visual"):
        assert with_view(Data(view=named), LABELLED, stores).view == named


def test_a_manifest_in_a_view_has_no_other() -> None:
    visual = LABELLED.view("visual")
    assert with_view(Data(), visual, {"heard": SOUND}).view == "visual"
