"""State the licence and the citation of a store, of a sealed one too."""

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features import __version__
from obygaze_features.core.docstrings import described_as_in
from obygaze_features.core.errors import (
    AlreadyThere,
    FixUsage,
    NotFound,
    ObygazeWarning,
)
from obygaze_features.core.files import is_printable_name, locked, write_atomic
from obygaze_features.core.metadata import LICENCES, spdx_of
from obygaze_features.core.outside import safe_text
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import Workspace, is_url
from obygaze_features.store.format.limits import LICENCE_BYTES
from obygaze_features.store.format.records import (
    LicenceHistory,
    LicenceStatement,
    Plan,
    Terms,
)
from obygaze_features.store.read.describe import licence_history
from obygaze_features.store.read.reader import open_store

COMMAND = "obygaze store licence STORE --licence CC-BY-4.0"


@dataclass(frozen=True)
class LicenceReport:
    """The licence and the citation of a store that count, and all that were stated."""

    name: str
    licence: str
    citation: str
    licence_history: Sequence[Mapping[str, str]]

    def to_json(self) -> dict[str, Any]:
        """Return the licence, the citation and the statements."""
        return dict(vars(self))

    def __str__(self) -> str:
        lines = [
            f"licence   {safe_text(self.licence or 'not stated', 'terminal')}",
            f"citation  {safe_text(self.citation or 'none given', 'terminal')}",
        ]
        for stated in self.licence_history:
            licence = stated["licence"] or "no licence"
            citation = stated["citation"] or "no citation"
            when = f"{stated['stated']} with {stated['stated_by']}"
            statement = f"{when}: {licence}, {citation}"
            lines.append(f"stated    {safe_text(statement, 'terminal')}")
        return "\n".join(lines)


def store_licence(
    store: str | os.PathLike[str],
    *,
    licence: str = "",
    citation: str = "",
    replace: bool = False,
    workspace: str | os.PathLike[str] | None = None,
) -> LicenceReport:
    """Show or state the licence and the citation of a store.

    They are written beside the seal, to licence.json, which keeps what was stated before. Features
    and seal do not change. A licence that the store has already is an error without --replace.

    Args:
        store: The store; to state something, its folder on this machine.
        licence: Its short name: CC-BY-4.0.
        citation: What to cite.
        replace: Replace what was stated before.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store licence obygaze12-xclip
        obygaze store licence obygaze12-xclip --licence CC-BY-4.0 --citation "Doe (2026)."
        obygaze store licence obygaze12-xclip --licence CC0-1.0 --replace
    """
    if licence.strip() or citation.strip():
        opened_workspace = Workspace.of(workspace)
        path = (
            opened_workspace.existing_store(store)
            if isinstance(store, str)
            else Path(store)
        )
        state_licence(path, licence=licence, citation=citation, replace=replace)
        warn_of_unknown_licence(licence)
    elif replace:
        raise FixUsage("--replace needs --licence or --citation")
    opened = open_store(store, workspace=workspace)
    return LicenceReport(
        name=os.fspath(store),
        licence=opened.licence,
        citation=opened.citation,
        licence_history=licence_history(opened),
    )


@described_as_in(store_licence)
def state_licence(
    path: Path | str, *, licence: str = "", citation: str = "", replace: bool = False
) -> Terms:
    """State the licence and the citation of a store on this machine; return those that count now.

    They are written to licence.json beside the seal, which does not change. Earlier statements are
    kept there. What the store has already is not stated again; "" leaves it as it is.

    Args:
        path: The folder of the store.
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


def warn_of_unknown_licence(licence: str) -> None:
    """Warn of the name of a licence that is no identifier that catalogues know."""
    name = _normal(licence)
    if name and not spdx_of(name):
        text = (
            f"the licence {name!r} is not an SPDX identifier that obygaze knows"
            f"{near(name, LICENCES)}; it is kept as it is"
        )
        warnings.warn(text, ObygazeWarning, stacklevel=3)


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
    for name, wanted_text, stated_text in zip(
        Terms._fields, wanted, terms, strict=True
    ):
        if wanted_text and stated_text and _normal(wanted_text) != _normal(stated_text):
            raise AlreadyThere(
                f"this store has the {name} {stated_text!r}, got {wanted_text!r}",
                where=where,
                hint=f"obygaze store licence STORE --{name} ... --replace, if it has to change",
            )
