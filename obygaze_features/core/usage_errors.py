"""What click says of a wrong command line, in the words of this program."""

import re

import click

from obygaze_features.core.schema_rules import near

_UNEXPECTED = re.compile(r"Got unexpected extra arguments? \((?P<words>.*)\)")


def usage_message(error: click.ClickException) -> str:
    """Return the message of an error of click: what is wrong, with the option or argument."""
    if isinstance(error, click.MissingParameter):
        return _of_missing(error)
    if isinstance(error, click.BadParameter):
        return _of_value(error)
    if isinstance(error, click.NoSuchOption):
        # The hyphens, which all options share, make any two short ones alike.
        word = error.option_name.lstrip("-")
        alike = [
            name
            for name in error.possibilities or ()
            if name in _shown_options(error) and near(word, [name.lstrip("-")])
        ]
        possible = near(error.option_name, alike)
        return f"no option {error.option_name!r}{possible}"
    if isinstance(error, click.BadOptionUsage):
        return _of_option(error)
    unexpected = _UNEXPECTED.match(error.message)
    if unexpected is not None:
        noun = "arguments" if " " in unexpected["words"] else "argument"
        return f"unexpected {noun}: {unexpected['words']}{_taken(error)}"
    return error.format_message()


def unexpected_words(error: click.ClickException) -> list[str]:
    """Return the words behind the arguments of a command, if these are the error."""
    unexpected = _UNEXPECTED.match(error.message)
    return unexpected["words"].split() if unexpected else []


def _shown_options(error: click.NoSuchOption) -> set[str]:
    """Return the options of a command that its help lists."""
    if error.ctx is None:
        return set(error.possibilities or ())
    return {flag for param in error.ctx.command.params for flag in param.opts}


def _taken(error: click.ClickException) -> str:
    """Return the arguments that a command takes, for a line with more of them."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    words = [
        param.make_metavar(context)
        for param in context.command.params
        if isinstance(param, click.Argument)
    ]
    if not words:
        return f" ({context.command_path} takes none)"
    return f" ({context.command_path} takes {' '.join(words)})"


def _of_missing(error: click.MissingParameter) -> str:
    """Return the message for a parameter that must be given."""
    if error.param is None:
        return error.format_message()
    return f"missing {error.param.param_type_name} {_name_of(error.param, error.ctx)}"


def _of_value(error: click.BadParameter) -> str:
    """Return the message for a value that is not allowed."""
    if error.param is None:
        return error.format_message()
    name = _name_of(error.param, error.ctx)
    if error.message.startswith("must be "):
        return f"{name} {error.message}"
    reason = error.message.rstrip(".")
    return f"{name}: {reason[:1].lower()}{reason[1:]}"


def _of_option(error: click.BadOptionUsage) -> str:
    """Return the message for an option without its value, or with one that it does not take."""
    if "does not take" in error.message:
        return f"{error.option_name} takes no value"
    params = error.ctx.command.params if error.ctx is not None else []
    n_values = 1
    for param in params:
        if error.option_name in param.opts:
            n_values = param.nargs
    if n_values == 1:
        return f"{error.option_name} needs a value"
    return f"{error.option_name} needs {n_values} values"


def _name_of(param: click.Parameter, ctx: click.Context | None) -> str:
    """Return an option as it is typed, in its longest form, or the word of an argument."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    bare_context = click.Context(click.Command(None))
    return param.make_metavar(ctx or bare_context).strip("[].")
