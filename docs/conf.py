"""The documentation as a site: `make docs` builds it from the pages that GitHub shows."""

from __future__ import annotations

import inspect
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from obygaze_features import __version__

project = "obygaze"
release = __version__
copyright = "The obygaze authors, Apache-2.0"
html_title = f"obygaze {release}"

# The source is the root of the project, so that links between pages are the same on GitHub.
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "runs",
    "models",
    "manifests",
    "stores",
    "demo",
    "docs/pypi.md",
]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # the tutorial keeps its outputs
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "py:obj"
maximum_signature_line_length = 80
python_use_unqualified_type_names = True

html_theme = "furo"
html_copy_source = False
html_show_sphinx = False

# Page -> caption -> pages below it in the sidebar.
CONTENTS = {
    "README": {
        "Start": ["gallery", "tutorial"],
        "How to": [
            "howto/student",
            "howto/laptop",
            "howto/lab",
            "howto/scholar",
            "howto/spreadsheet",
        ],
        "Guide": [
            "guide",
            "guide/data",
            "guide/extraction",
            "guide/stores",
            "guide/experiments",
            "guide/new-films",
            "guide/questions",
            "guide/concepts",
            "guide/films",
            "guide/how-much",
            "guide/audits",
            "guide/cluster",
            "python",
            "models/README",
            "own-parts",
            "papers-found",
            "papers",
            "reports",
        ],
        "Reference": [
            "README",
            "commands",
            "api",
            "store",
            "files",
            "stable",
            "performance",
        ],
        "Project": ["design/README", "/CONTRIBUTING", "/CHANGELOG"],
    },
    "docs/api": {
        "": [
            *("api/obygaze", "api/manifest", "api/store", "api/estimators", "api/run"),
            *("api/video", "api/backbones", "api/extraction", "api/models"),
            *("api/evaluation", "api/protocols", "api/zoo"),
            "api/report",
            "api/films",
            "api/audits",
            "api/maps",
            "api/core",
        ]
    },
    "docs/models/README": {
        "": [
            *("models/ridge", "models/logistic", "models/svm", "models/mlp"),
            *("models/frames", "models/cav", "models/pcbm", "models/zero-shot"),
            "models/baselines",
        ]
    },
    "docs/design/README": {"": ["design/spine", "design/0*"]},
}


def setup(app: Sphinx) -> None:
    """Add what GitHub does not show: the sidebar, the docstrings."""
    app.add_lexer("csv", TextLexer)
    app.connect("source-read", complete_page)
    app.connect("autodoc-skip-member", skip_foreign_members)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", keep_first_line, priority=400)


def complete_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the sidebar's part below a page."""
    for caption, below in CONTENTS.get(page, {}).items():
        names = [name if name.startswith("/") else f"/docs/{name}" for name in below]
        options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else [])]
        source[0] += "\n".join(["\n\n```{toctree}", *options, "", *names, "```\n"])


def skip_foreign_members(
    app: Sphinx, kind: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Skip what other packages add to our classes, and the generated texts of named tuples."""
    home = getattr(member, "__module__", None) or project
    if not home.startswith(project) or type(member).__name__ == "_tuplegetter":
        return True
    return None


def shorten_signature(
    app: Sphinx, kind: str, name: str, member: Any, options: Any, *shown: str | None
) -> tuple[str, None] | None:
    """Leave out the types of parameters that have limits, because these make them unreadable."""
    if kind != "class" or "Annotated[" not in (shown[0] or ""):
        return None
    signature = inspect.signature(member)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    bare_signature = signature.replace(
        parameters=bare, return_annotation=signature.empty
    )
    return str(bare_signature), None


def keep_first_line(
    app: Sphinx, kind: str, name: str, member: Any, options: Any, lines: list[str]
) -> None:
    """Keep napoleon from reading `A name: ...` in the docstring of a property as its type."""
    if kind in {"attribute", "property"}:
        lines.insert(0, "")
