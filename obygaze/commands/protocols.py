"""The commands of `obygaze protocols`."""

import click

from obygaze.commands.shared import NAME, Group, Result


@click.group(cls=Group)
def protocols() -> None:
    """List and print the protocols that `run` takes."""


@protocols.command("ls")
def ls() -> Result:
    """List the protocols, with what each tests.

    Examples:
        obygaze protocols ls
        obygaze protocols ls --json
    """
    from obygaze_models.protocols.listing import list_protocols

    return list_protocols()


@protocols.command("show")
@click.argument(
    "protocol", type=NAME, help="The name of a protocol, or your own TOML file."
)
@click.option(
    "--all",
    "every_key",
    is_flag=True,
    help="Print every key, also those that have their default.",
)
def show(protocol: str, every_key: bool) -> Result:
    """Print a protocol as a TOML file to start from.

    Save the file, change it, and pass it to `obygaze run` in place of the name.

    Examples:
        obygaze protocols show honest
        obygaze protocols show honest --all > mine.toml
    """
    from obygaze_models.protocols.listing import show_protocol

    return show_protocol(protocol, all=every_key)
