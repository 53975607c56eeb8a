"""Links that lead to a place of the film page on any machine with the same data.

A link names the manifest and a place, as in `obygaze:films#film=lake&t=12.04&data=0123456789ab`.
`obygaze view LINK` opens it. `data` begins the hash of the manifest that the link was made with.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.model import Manifest

SCHEME = "obygaze:"
DIGITS = 12


@dataclass(frozen=True)
class Link:
    """A manifest, a place in its page, and the beginning of the hash of the manifest, or ""."""

    manifest: str
    place: dict[str, str]
    data: str

    @property
    def fragment(self) -> str:
        """The place as it stands in the address of the page."""
        return "#" + urlencode(self.place) if self.place else ""


def is_link(text: object) -> bool:
    """Return whether a text is a link to a place, and not the name of a manifest."""
    return isinstance(text, str) and text.startswith(SCHEME)


def read_link(text: str) -> Link:
    """Return the parts of a link; an error where it has none."""
    name, _, fragment = text.removeprefix(SCHEME).partition("#")
    if not is_link(text) or not name:
        raise FixUsage(
            f"expected a link such as {SCHEME}films#film=lake&t=12.5, got {text!r}"
        )
    place = dict(parse_qsl(fragment, keep_blank_values=True))
    data = place.pop("data", "")
    return Link(unquote(name), place, data)


def link_base(manifest: Manifest) -> str:
    """Return the beginning of all links to the page of a manifest."""
    return SCHEME + quote(manifest.name, safe="")


def data_of(manifest: Manifest) -> str:
    """Return the beginning of the hash of a manifest, by which links know it."""
    return manifest_sha256(manifest)[:DIGITS]
