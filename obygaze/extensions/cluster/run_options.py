"""Check the options of tasks before they are submitted: a task may wait for days to refuse them."""

from collections.abc import Sequence
from typing import Any

import click

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.function_commands import command_of, flags_of, typed_values
from obygaze_features.extraction.devices import devices_of
from obygaze_features.extraction.extracting import extract
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.planning import chosen_plan, is_given

COMMAND = "obygaze extract run"
# Options of tasks that `extract slurm` gives them.
_OF_SLURM = {
    "worker": "-k sets the number of tasks",
    "retry_failed": "--retry-failed before --",
    "changed": "--changed before --",
}
# Options that say how a task runs; all others are settings of the plan.
_OF_RUNS = ("device", "workers", "batch", "share", "mixed", "seal")


def check_run_options(plan: ExtractPlan, words: Sequence[str]) -> None:
    """Raise an error if `extract run PLAN` would refuse these options.

    Args:
        plan: The plan of the tasks.
        words: The options, as they are typed.
    """
    values = _values_of(words)
    flags = flags_of(extract)
    for name, hint in _OF_SLURM.items():
        if name in values:
            raise FixUsage(
                f"{flags[name]} after --: extract slurm gives it to each task",
                hint=hint,
            )
    settings = {name: values[name] for name in values if name not in _OF_RUNS}
    chosen_plan(plan, **settings)
    device = values.get("device", "cpu")
    # Which GPUs there are is known on their node alone.
    if device != "cuda:all":
        devices_of(device)


def _values_of(words: Sequence[str]) -> dict[str, Any]:
    """Return the options that are given, by the names of their parameters."""
    command = command_of(extract, "run")
    context = click.Context(command, info_name=COMMAND)
    try:
        command.parse_args(context, ["PLAN", *words])
    except click.UsageError as error:
        raise FixUsage(
            f"{error.format_message()} (after --)", hint=f"{COMMAND} --help"
        ) from None
    values = typed_values(context.params, command.params)
    del values["manifest"]
    return {name: value for name, value in values.items() if is_given(value)}
