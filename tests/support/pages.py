"""Pages of the documentation as the tests see them: their fenced blocks, and how to run them.

A comment right above a block says what is special about it:

    <!-- not run: needs the films -->    the reason is shown to readers of the source, and counted
    <!-- output checked -->              what the page shows must be what comes out; a line that is
                                         only ... stands for any lines
    <!-- exits 1 -->                     the commands end with this code instead of 0
    <!-- file: clips.csv -->             the block is not code: it is this file of the workspace

All blocks of one page run in order in one workspace of their own; the pages of the guide, which
follow each other, share one. The code cells of a notebook are one block.
"""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.cli import ROOT, call_obygaze, environment
from support.demo import demo

RUN = ("console", "python")
SHOWN = ("text", "csv", "toml", "json", "bibtex", "yaml", "mermaid")
# A command prints such a line every half minute, on a slow machine only.
PROGRESS = re.compile(r"(?m)^[^:\n]+: [^:\n]+ of [^:\n]+, \d+ s(, \d+ s to go.*)?\n")
# Made once, because it takes half a minute.
DEMO = "obygaze demo\n"
# What a shell does more than to split a line into words, outside of single quotes.
SHELL = re.compile(r"[|&;<>()$*?~`#]")
MARK = re.compile(
    r"<!-- (?P<name>not run|output checked|exits|file)(:? (?P<value>.*?))? -->"
)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    marks: dict[str, str]

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.marks.keys().isdisjoint(
            ("not run", "file")
        )

    @property
    def commands(self) -> str:
        """The lines of a console block that a person types, as one script."""
        if self.language == "python":
            return self.text
        typed = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                typed.append(line[2:])
            elif typed and typed[-1].endswith("\\"):
                typed.append(line)
        return "\n".join(typed)

    @property
    def output(self) -> str:
        """The lines of a console block that the page shows as the answer."""
        shown, continued = [], False
        for line in self.text.splitlines():
            typed = line.startswith("$ ") or continued
            continued = typed and line.endswith("\\")
            if not typed:
                shown.append(line)
        return "\n".join(shown)


def pages() -> list[Path]:
    """Every page a person reads; the command reference is made from the help and tested as such."""
    generated = ROOT / "docs" / "commands.md"
    return [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page != generated),
        *sorted((ROOT / "docs").glob("*.ipynb")),
    ]


def guide() -> list[Path]:
    """The pages of the guide in their order, which its first page lists."""
    first = ROOT / "docs" / "guide.md"
    links = re.findall(r"\]\((guide/[\w-]+\.md)\)", first.read_text(encoding="utf-8"))
    return [first, *(ROOT / "docs" / link for link in links)]


def followed_together() -> list[list[Path]]:
    """Pages whose blocks run one after another in one workspace: the guide's; each other alone."""
    chapters = guide()
    alone = [[page] for page in pages() if page not in chapters]
    return [chapters, *alone]


def blocks(page: Path) -> list[Block]:
    name, text = page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = [one for one in json.loads(text)["cells"] if one["cell_type"] == "code"]
        code = "\n".join("".join(cell["source"]) for cell in cells)
        return [Block(name, 1, "python", code, {})]
    found: list[Block] = []
    marks: dict[str, str] = {}
    fence: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if fence is not None:
            if line.strip() == "```":
                start, language, body = fence
                found.append(Block(name, start, language, "\n".join(body), marks))
                fence, marks = None, {}
            else:
                fence[2].append(line)
        elif line.startswith("```"):
            fence = (number, line[3:].strip(), [])
        elif mark := MARK.fullmatch(line.strip()):
            marks = {**marks, mark["name"]: mark["value"] or ""}
        elif line.strip():
            marks = {}
    if fence is not None:
        raise ValueError(f"{page}:{fence[0]}: a block that never ends")
    return found


def run_block(block: Block, workspace: Path) -> None:
    """Do what a block says; an AssertionError tells where the page and the tool disagree."""
    if "file" in block.marks:
        path = workspace / block.marks["file"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text + "\n", encoding="utf-8")
        return
    if not block.runs:
        return
    # Other checks run at the same time: processes of its own would only take longer.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {"PATH": path, "COLUMNS": "100", "SLURM_CPUS_PER_TASK": "1"}
    code, printed = _typed_here(block, workspace, env) or _typed(block, workspace, env)
    if code != int(block.marks.get("exits") or 0):
        raise AssertionError(f"{block.where}: exit {code}\n{printed}")
    output = PROGRESS.sub("", printed)
    if "output checked" in block.marks and not matches(block.output, output):
        raise AssertionError(
            f"{block.where}: the page shows\n{block.output}\n\nbut what comes out is\n{output}"
        )


def _typed(block: Block, workspace: Path, env: dict[str, str]) -> tuple[int, str]:
    commands = block.commands
    if commands.startswith(DEMO):
        shutil.copytree(demo() / "demo", workspace / "demo")
        commands = commands.removeprefix(DEMO)
    program = ["bash", "-euo", "pipefail"]
    if block.language == "python":
        program = [sys.executable]
    done = subprocess.run(
        [*program, "-c", commands],
        cwd=workspace,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout


def _typed_here(block: Block, workspace: Path, env) -> tuple[int, str] | None:
    """Run a block in this process, which is quick; None if it is more than commands of obygaze.

    User code stays trusted in a process, and its module imported.
    """
    lines = block.commands.replace("\\\n", " ").splitlines()
    if block.language != "console" or ".py" in block.commands:
        return None
    if not all(line.startswith("obygaze ") for line in lines):
        return None
    if SHELL.search(re.sub("'[^']*'", "", block.commands)):
        return None
    printed = io.StringIO()
    for line in lines:
        words = shlex.split(line)[1:]
        code = call_obygaze(*words, cwd=workspace, env=env, into=printed).code
        if code != 0:
            return code, printed.getvalue()
    return 0, printed.getvalue()


def matches(shown: str, real: str) -> bool:
    lines = [line.rstrip() for line in shown.strip().splitlines()]
    any_lines = ["(?s:.*)" if line == "..." else re.escape(line) for line in lines]
    text = "\n".join(line.rstrip() for line in real.strip().splitlines())
    return re.fullmatch("\n".join(any_lines), text) is not None
