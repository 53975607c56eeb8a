"""State the licence and the citation of a store, of a sealed one too."""

import time
from pathlib import Path

from obygaze_features import __version__
from obygaze_features.core.errors import AlreadyThere, FixUsage, NotFound
from obygaze_features.core.files import is_printable_name, locked, write_atomic
from obygaze_features.core.workspace import is_url
from obygaze_features.store.format.limits import LICENCE_BYTES
from obygaze_features.store.format.records import (
    LicenceHistory,
    LicenceStatement,
    Plan,
    Terms,
)
from obygaze_features.store.read.reader import open_store

COMMAND = "obygaze store licence STORE --licence CC-BY-4.0"


def state_licence(
    path: Path | str, *, licence: str = "", citation: str = "", replace: bool = False
) -> Terms:
    """State the licence and the citation of a store on this machine; return those that count now.

    They are written to licence.json beside the seal, which does not change. Earlier statements are
    kept there. What the store has already is not stated again.

    Args:
        path: The folder of the store.
        licence: The licence, such as CC-BY-4.0; "" leaves it as it is.
        citation: What to cite; "" leaves it as it is.
        replace: Replace another licence or citation that was stated before.
    """
    folder = _folder_of_store(path)
    wanted = Terms(checked_licence(licence), checked_citation(citation))
    with locked(folder):
        store = open_store(folder)
        terms = store.terms
        if not replace:
            _refuse_other(terms, wanted, str(folder))
        licence = wanted.licence or terms.licence
        citation = wanted.citation or terms.citation
        new = Terms(licence, citation)
        if new == terms:
            return terms
        earlier = store.licence_history
        statement = LicenceStatement(
            licence=new.licence,
            citation=new.citation,
            stated=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            stated_by=f"obygaze {__version__}",
        )
        statements = () if earlier is None else earlier.statements
        history = LicenceHistory(
            plan=store.plan.sha256, statements=(*statements, statement)
        )
        data = history.to_bytes()
        if len(data) > LICENCE_BYTES:
            raise FixUsage(
                f"{LicenceHistory.FILE} would have {len(data):,} bytes, at most {LICENCE_BYTES:,}",
                where=str(folder),
                hint="a shorter citation",
            )
        write_atomic(folder / LicenceHistory.FILE, data)
    return new


def complete_terms(path: Path | str, wanted: Terms) -> None:
    """State the licence or the citation of a store that has none; leave what it has."""
    if wanted == Terms():
        return
    terms = open_store(path).terms
    licence = "" if terms.licence else wanted.licence
    citation = "" if terms.citation else wanted.citation
    if licence or citation:
        state_licence(path, licence=licence, citation=citation)


def require_terms(path: Path | str, wanted: Terms) -> None:
    """Raise an error if a store has another licence or citation than the given ones."""
    _refuse_other(open_store(path).terms, wanted, str(path))


def checked_licence(licence: str) -> str:
    """Return the name of a licence; an error unless it is one line of printable text."""
    name = _normal(licence)
    if not is_printable_name(name):
        raise FixUsage(
            f"the licence must be one line of printable text, got {name!r}",
            hint="its short name, such as CC-BY-4.0 (spdx.org/licenses)",
        )
    return name


def checked_citation(citation: str) -> str:
    """Return a citation, which may have several lines; an error for control characters."""
    text = _normal(citation)
    if not all(map(is_printable_name, text.replace("\t", " ").split("\n"))):
        raise FixUsage(f"the citation has control characters: {text!r}")
    return text


def _normal(text: str) -> str:
    """Return a text without blanks around it, and without the line ends of Windows."""
    return text.replace("\r\n", "\n").strip()


def _folder_of_store(path: Path | str) -> Path:
    if is_url(str(path)):
        raise FixUsage(
            "a licence is stated for a store on this machine, got a URL",
            hint="obygaze store pull, state the licence, then push",
        )
    folder = Path(path)
    if folder.is_file():
        raise FixUsage(
            "a licence is stated for the folder of a store, got a packed store",
            where=str(folder),
            hint="obygaze store unpack, state the licence, then pack",
        )
    if not (folder / Plan.FILE).is_file():
        raise NotFound(
            "no store here: no store.json", where=str(folder), hint="obygaze store ls"
        )
    return folder


def _refuse_other(terms: Terms, wanted: Terms, where: str) -> None:
    for name, given, there in zip(Terms._fields, wanted, terms, strict=True):
        if given and there and _normal(given) != _normal(there):
            raise AlreadyThere(
                f"this store has the {name} {there!r}, got {given!r}",
                where=where,
                hint=f"obygaze store licence STORE --{name} ... --replace, if it has to change",
            )
