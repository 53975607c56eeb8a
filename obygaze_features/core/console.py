"""Output of commands: results to stdout; notes, warnings and progress to stderr."""

import json
import numbers
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import click

from obygaze_features.core.files import json_values
from obygaze_features.core.untrusted_text import one_line

# Increased when a key of the output of --json is removed or changes its meaning.
JSON_VERSION = 1
SECONDS_BETWEEN_LINES = 30.0
MOST_DIGITS = 9  # decimals of two numbers that are nearly equal
MISSING = "–"  # in place of a missing number


# Colours are kept. Other control characters could change or hide text on the terminal.
_COLOR = re.compile(r"(\x1b\[(?:[0-4]|[39][0-7])?m)")
# Halves of surrogate pairs, which UTF-8 cannot encode, are escaped as well.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufeff]"
)


def printable(text: str) -> str:
    """Return text with control characters as escapes, except colours, tabs and line feeds."""
    parts = _COLOR.split(text)
    parts[::2] = (_CONTROL.sub(_escape, part) for part in parts[::2])
    return "".join(parts)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def styled(text: str, color: str | None = None, *, bold: bool = False) -> str:
    """Return text in a colour, or in bold, for a terminal."""
    return click.style(text, fg=color, bold=bold or None)


def json_text(value: Any, indent: int | None = None) -> str:
    """Return JSON for a terminal: control characters in strings are escapes."""
    text = json.dumps(
        json_values(value), indent=indent, ensure_ascii=False, allow_nan=False
    )
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Progress:
    """Display of the progress of long work: the number of finished units, and a short remark."""

    def expect(self, total: int, unit: str = "clips") -> None:
        """Set the total number of units; the unit "B" means bytes."""

    def advance(self, amount: int = 1) -> None:
        """Count `amount` more units as done."""

    def remark(self, text: str) -> None:
        """Show a short remark next to the count."""


class Quiet(Progress):
    """A progress that shows nothing."""


# Returns a progress bar for a label and a number of units.
ProgressBars: TypeAlias = Callable[[str, int], AbstractContextManager[Progress]]


class _Lines(Progress):
    """Progress for log files: one line every half minute."""

    def __init__(self, label: str, total: int, unit: str) -> None:
        self.label = label
        self.total = total
        self.unit = unit
        self.n_done = 0
        self.text = ""
        self.started = self.last_line = time.monotonic()

    def expect(self, total: int, unit: str = "clips") -> None:
        self.total = total
        self.unit = unit

    def advance(self, amount: int = 1) -> None:
        self.n_done += amount
        now = time.monotonic()
        if now - self.last_line < SECONDS_BETWEEN_LINES:
            return
        self.last_line = now
        spent = now - self.started
        n_done = human(self.n_done) if self.unit == "B" else f"{self.n_done:,}"
        text = (
            f"{self.label}: {n_done} of {human(self.total, self.unit)}, {spent:.0f} s"
        )
        if self.n_done:
            text += f", {spent / self.n_done * (self.total - self.n_done):.0f} s to go"
        click.echo(f"{text} {self.text}".rstrip(), err=True)

    def remark(self, text: str) -> None:
        self.text = text


class _Bar(Progress):
    """Progress for terminals: a bar."""

    def __init__(self, label: str, total: int, unit: str) -> None:
        from tqdm import tqdm

        self.bar = tqdm(total=total, desc=label, unit_divisor=1000, leave=False)
        self.expect(total, unit)

    def expect(self, total: int, unit: str = "clips") -> None:
        self.bar.unit = unit
        self.bar.unit_scale = unit == "B"
        self.bar.reset(total)

    def advance(self, amount: int = 1) -> None:
        self.bar.update(amount)

    def remark(self, text: str) -> None:
        self.bar.set_postfix_str(text)


@contextmanager
def _beside_bars() -> Iterator[None]:
    """Clear the progress bars of a terminal while other text is printed."""
    if "tqdm" not in sys.modules or not sys.stderr.isatty():
        yield
        return
    from tqdm import tqdm

    with tqdm.external_write_mode(file=sys.stderr):
        yield


def human(amount: float, unit: str = "B") -> str:
    """Return a number of bytes with a prefix, such as 7.4 kB, or a count with another unit."""
    if unit != "B":
        return f"{amount:,.0f} {unit}"
    for prefix in ("", "k", "M", "G"):
        digits = 1 if prefix else 0
        # A value that rounds to 1000 takes the next prefix.
        if round(abs(amount), digits) < 1000:
            return f"{amount:.{digits}f} {prefix}B"
        amount /= 1000
    return f"{amount:.1f} TB"


@dataclass(frozen=True)
class Console:
    """The output of a command. Library code takes a `Progress`, never a console."""

    verbosity: int = 0
    as_json: bool = False

    def result(self, text: str) -> None:
        """Print a result to stdout."""
        click.echo(printable(text))

    def json(self, value: Mapping[str, Any], *, one_line: bool = False) -> None:
        """Print a result as JSON to stdout; NaN becomes null, arrays become lists.

        The first key is `json_version`, the version of the JSON documents of all commands.

        Args:
            value: The result.
            one_line: Print it on one line, as the last line of a stream of JSON lines.
        """
        indent = None if one_line else 2
        document = {"json_version": JSON_VERSION, **value}
        click.echo(json_text(document, indent))

    def show(self, document: Mapping[str, Any], text: str) -> None:
        """Print a result to stdout, as JSON or as text."""
        if self.as_json:
            self.json(document)
        else:
            self.result(text)

    def note(self, text: str) -> None:
        """Print a note to stderr, unless -q was given."""
        if self.verbosity >= 0:
            with _beside_bars():
                click.echo(printable(one_line(text)), err=True)

    def detail(self, text: str) -> None:
        """Print a note to stderr if -v was given."""
        if self.verbosity > 0:
            self.note(text)

    def warn(self, text: str, hint: str = "") -> None:
        """Print a warning to stderr, also with -q; the hint is a second line."""
        label = click.style("Warning: ", fg="yellow")
        click.echo(label + printable(one_line(text)), err=True)
        if hint:
            click.echo(printable(f"  Try: {one_line(hint)}"), err=True)

    @contextmanager
    def progress(
        self, label: str, total: int = 0, unit: str = "clips"
    ) -> Iterator[Progress]:
        """Show a bar on a terminal, a line every half minute elsewhere, nothing with -q.

        If the total is not known at the start, the work calls `expect` when it is known.
        """
        if self.verbosity < 0:
            yield Quiet()
        elif sys.stderr.isatty():
            bar = _Bar(label, total, unit)
            try:
                yield bar
            finally:
                bar.bar.close()
        else:
            yield _Lines(label, total, unit)


def silent(text: str) -> None:
    """Print nothing. Python functions that print notes use this function by default."""


def progress_bars(progress: bool | ProgressBars, unit: str) -> ProgressBars:
    """Return the function that makes progress bars: bars on stderr for True, no bars for False.

    A function that is passed as `progress` is returned unchanged.
    """
    if not isinstance(progress, bool):
        return progress
    return partial(Console(verbosity=0 if progress else -1).progress, unit=unit)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a text table with one line for each row; columns of numbers are aligned right.

    Args:
        headers: The names of the columns.
        rows: The cells of each row.
    """
    lines = [[_cell(header) for header in headers]]
    for row in rows:
        lines.append([_cell(value) for value in row])
    columns = list(zip(*lines, strict=True))
    is_numeric = [_is_numeric(column) for column in columns]
    widths = [max(map(_visible_length, column)) for column in columns]
    text = []
    for line in lines:
        text.append("  ".join(map(_pad, line, widths, is_numeric)).rstrip())
    return "\n".join(text)


def _is_numeric(column: Sequence[str]) -> bool:
    """Return whether all cells of a column below its header look like numbers."""
    cells = column[1:]
    return bool(cells) and all(_looks_numeric(cell) for cell in cells)


def _visible_length(text: str) -> int:
    """Return the number of characters without colour codes."""
    return len(click.unstyle(text))


def count_decimals(low: float, high: float) -> int:
    """Return with how many decimals two numbers look different: at least 2 and at most 9."""
    digits = 2
    while digits < MOST_DIGITS and f"{low:.{digits}f}" == f"{high:.{digits}f}":
        digits += 1
    return digits


def interval_end(end: float, digits: int) -> str:
    """Return an end of an interval as text; a negative end that rounds to 0 is -0.00."""
    # Adding 0.0 removes the sign of -0.0.
    return f"{end + 0.0:.{digits}f}"


def count(n: int, noun: str) -> str:
    """Return a number with its noun: `1 clip`, `2 clips`."""
    return f"{n} {noun}" if n == 1 else f"{n} {plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a noun, which may be the name of a column: `series` is unchanged.

    The plural of `group of x` is `groups of x`.
    """
    head, of, rest = noun.partition(" of ")
    if of:
        return f"{plural(head)}{of}{rest}"
    if noun.endswith("s"):
        return noun
    return re.sub(r"(?<![aeiou])y$", "ie", noun) + "s"


def few(names: Sequence[str], most: int = 8) -> str:
    """Return the first names and the number of other names, on one line."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def join_names(names: Sequence[str]) -> str:
    """Return all names as part of a sentence: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _pad(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - len(click.unstyle(text)))  # colour has no width
    return blanks + text if right else text + blanks


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return f"{float(value):z.3f}"
    return printable(one_line(str(value)).replace("\t", " "))


def _looks_numeric(text: str) -> bool:
    return (
        re.fullmatch(r"-|nan|[-+]?(inf|[0-9][0-9,]*(\.[0-9]+)?)[%x]?", text) is not None
    )
