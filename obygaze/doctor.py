"""`obygaze doctor`: what is installed, what is missing, and how to install it."""

from __future__ import annotations

import textwrap

import click

from obygaze.checkup import Checkup, Package, check_up
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import human

WIDTH = 96
GLUE = "\u00a0"  # a no-break space
LIBRARIES = ("libavformat", "libavcodec", "libswscale", "libavutil")
Lines = list[tuple[str, str]]


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze doctor
    obygaze -C /data/films doctor
    obygaze doctor --json
    """,
)
@json_option
@pass_session
def doctor(session: Session, as_json: bool) -> int:
    """Show versions, codecs, caches, and what is missing.

    The exit code is 1 if a required package is missing or too old. Packages that only an extra
    needs are listed with the line that installs them.
    """
    found = check_up(session.workspace)
    if as_json:
        session.console.json(found.as_json())
    else:
        session.console.result(as_text(found))
    return 1 if found.problems else 0


def as_text(found: Checkup) -> str:
    """Return a check-up as text: sections with one line for each fact, the verdict last."""
    sections: list[tuple[str, Lines]] = [
        (f"obygaze {found.version}", _python(found)),
        ("Packages", _packages(found)),
        ("Video", _video(found)),
        ("Machine", _machine(found)),
        (f"Workspace {found.workspace}", _folders(found)),
        ("Hugging Face", _hub(found)),
    ]
    width = max(len(label) for _, lines in sections for label, _ in lines)
    blocks = [
        "\n".join(
            [click.style(title, bold=True)]
            + [_hanging(f"  {label.ljust(width)}  ", text) for label, text in lines]
        )
        for title, lines in sections
    ]
    return "\n\n".join([*blocks, _verdict(found)])


def _hanging(head: str, text: str) -> str:
    filled = textwrap.fill(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace(GLUE, " ")


def _glued(text: str) -> str:
    """Return text that is not wrapped, such as a name and its version."""
    return text.replace(" ", GLUE)


def _verdict(found: Checkup) -> str:
    if found.problems:
        return "\n".join(click.style("Missing: ", fg="red") + line for line in found.problems)
    return click.style("Everything required is installed.", fg="green")


def _python(found: Checkup) -> Lines:
    return [("python", f"{found.machine.python} at {found.executable}")]


def _packages(found: Checkup) -> Lines:
    extras = dict.fromkeys(extra for package in found.packages for extra in package.extras)
    laptop = [package for package in found.packages if not package.extras]
    lines = [("laptop", ", ".join(map(_named, laptop)) or "unknown")]
    for extra in extras:
        members = [package for package in found.packages if extra in package.extras]
        text = ", ".join(map(_named, members))
        if not all(package.good for package in members):
            text += _glued(click.style(f"  ->  pip install 'obygaze[{extra}]'", fg="yellow"))
        lines.append((f"[{extra}]", text))
    return lines


def _named(package: Package) -> str:
    if package.version is None:
        return _glued(click.style(f"{package.name} missing", fg="yellow"))
    old = "" if package.good else click.style(f" (needs {package.needs})", fg="yellow")
    return _glued(f"{package.name} {package.version}{old}")


def _video(found: Checkup) -> Lines:
    if found.video is None:
        return [("FFmpeg", "none: PyAV is not installed (extra [video])")]
    known = found.video.libraries
    libraries = [_glued(f"{name} {known[name]}") for name in LIBRARIES if name in known]
    return [
        ("FFmpeg", ", ".join(libraries)),
        ("reads", ", ".join(found.video.reads)),
        ("writes", ", ".join(found.video.writes)),
        *([("cannot read", ", ".join(found.video.cannot_read))] if found.video.cannot_read else []),
    ]


def _machine(found: Checkup) -> Lines:
    if not found.devices.torch:
        gpus = "unknown: torch is not installed (extra [mlp] or [extract])"
    else:
        gpus = ", ".join(found.devices.cuda) or ("Apple (mps)" if found.devices.mps else "none")
    threads = [f"{name}={value}" for name, value in found.threads.items() if value]
    return [
        ("CPU", f"{found.machine.cpu}, {found.machine.cores} usable cores"),
        ("GPU", gpus),
        ("threads", ", ".join(threads) or "not limited by the environment"),
    ]


def _folders(found: Checkup) -> Lines:
    return [
        (
            folder.kind,
            (f"{folder.entries} entries" if folder.exists else "not created yet")
            + f", {human(folder.free_bytes)} free"
            + ("" if folder.writable else click.style(", read-only", fg="yellow")),
        )
        for folder in found.folders
    ]


def _hub(found: Checkup) -> Lines:
    models = "missing" if found.hub.models is None else f"{found.hub.models} models"
    return [
        ("cache", f"{found.hub.cache} ({models})"),
        ("offline", "yes (HF_HUB_OFFLINE)" if found.hub.offline else "no"),
    ]
