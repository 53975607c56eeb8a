"""The documentation as a site: `make docs` builds it from the pages that GitHub shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from obygaze_features import __version__

ROOT = Path(__file__).resolve().parents[1]

project = "obygaze"
release = __version__
copyright = "The obygaze authors, Apache-2.0"
html_title = f"obygaze {release}"

# The source is the root of the project, so that links between pages are the same on GitHub.
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "runs", "models", "manifests", "stores", "demo"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
nb_execution_mode = "off"

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "py:obj"
maximum_signature_line_length = 80
python_use_unqualified_type_names = True

html_theme = "furo"
html_copy_source = False
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Add what the pages do not say themselves: the table of contents."""
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", add_contents)
    app.connect("autodoc-skip-member", skip_foreign_members)


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the table of contents to the first page; on GitHub, docs/README.md has it."""
    if page == root_doc:
        source[0] += (ROOT / "docs" / "contents.txt").read_text(encoding="utf-8")


def skip_foreign_members(
    app: Sphinx, kind: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Skip what other packages add to our classes, and the generated texts of named tuples."""
    home = getattr(member, "__module__", None) or project
    if not home.startswith(project) or type(member).__name__ == "_tuplegetter":
        return True
    return None
