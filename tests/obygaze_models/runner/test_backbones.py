"""Which backbone a pattern of a protocol matches: never that of a joined store."""

from __future__ import annotations

from itertools import combinations

from obygaze_features.backbones.cards import find_cards
from obygaze_features.store import Recipe
from obygaze_features.store.joining import JoinedPart, recipe_of_parts
from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.runner.features import is_backbone


def shipped_patterns() -> set[str]:
    """The patterns of the printed numbers of all shipped protocols."""
    patterns = set()
    for name in protocol_names():
        patterns |= {value.backbone for value in load_protocol(name).paper}
    return patterns - {""}


def title_of_joined(*titles: str) -> str:
    """The title of a store that joins the features of some backbones."""
    parts = []
    for title in sorted(titles):
        parts.append(JoinedPart(title, "0" * 64, title, "float32", 2, "pictures"))
    return Recipe.from_json(recipe_of_parts(parts)).title


def test_no_pattern_matches_a_joined_store() -> None:
    found, _ = find_cards()
    cards = [card.name for card in found]
    patterns = shipped_patterns()
    matched = {card for card in cards for one in patterns if is_backbone(card, one)}
    assert len(matched) > 3
    # What the importer named counts as the backbone.
    assert is_backbone("X-CLIP (imported)", "x-clip")
    for pair in combinations(cards, 2):
        title = title_of_joined(*pair)
        assert not any(is_backbone(title, one) for one in (*patterns, "*", title))
    imported = title_of_joined("x-clip (imported)", "xclip-b16 (imported)")
    assert not any(is_backbone(imported, one) for one in (*patterns, "*", "x-clip*"))
