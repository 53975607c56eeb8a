"""`obygaze extract plan`, and the options that choose what to extract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from obygaze_features.core.commands import (
    FiniteRange,
    Session,
    attention_option,
    command,
    dtype_option,
    force_option,
    named_values,
    option_group,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.commands import workers_option
from obygaze_features.extraction.plan import (
    SAMPLINGS,
    ExtractPlan,
    make_plan,
    read_plan_file,
    write_plan,
)
from obygaze_features.manifest.io import read_manifest

_SETTINGS = ("sampling", "dtype", "attention", "tf32", "compiled", "compressor")
# These are fixed by the file of a plan; only --timeout may differ between machines.
_FIXED = (
    *("backbones", "levels", "weights", "stores"),
    *_SETTINGS,
    *("licence", "citation", "max_substituted"),
)
LICENCE_HELP = "The licence of the features. [default: the manifest's]"
CITATION_HELP = "What to cite for them. [default: the manifest's]"

feature_options = option_group(
    "Features",
    click.option(
        *("-b", "backbones"),
        multiple=True,
        metavar="NAME",
        help="A backbone, or your own code (FILE.py:FUNCTION); can be repeated.",
    ),
    click.option(
        "--levels", metavar="A,B", help="Feature levels. [default: all but tokens]"
    ),
    click.option(
        "--weights",
        multiple=True,
        metavar="[NAME=]PATH",
        help="File or folder of weights.",
    ),
    click.option(
        *("--store", "stores"),
        multiple=True,
        metavar="NAME=STORE",
        help="Store of a backbone. [default: MANIFEST.NAME]",
    ),
    click.option(
        "--sampling",
        type=click.Choice(SAMPLINGS),
        default="card",
        help="The card's rule, or key frames only: faster, other frames.",
    ),
    dtype_option,
    attention_option,
    click.option("--tf32", is_flag=True, help="Allow TF32 on a GPU."),
    click.option("--compile", "compiled", is_flag=True, help="Use torch.compile."),
    click.option(
        "--compressor",
        type=click.Choice(["zstd", "blosc"]),
        help="Compress the store. [default: none]",
    ),
    click.option("--licence", default="", show_default=False, help=LICENCE_HELP),
    click.option("--citation", default="", show_default=False, help=CITATION_HELP),
    click.option("--timeout", default=300.0, help="Seconds to decode one clip."),
    click.option(
        "--max-substituted",
        type=FiniteRange(0, 1),
        default=0.125,
        help="Fail a clip if more than this share of its frames is damaged.",
    ),
)
device_option = click.option(
    "--device", default="cpu", help="cpu, cuda, several (cuda:0,cuda:1), or cuda:all."
)
batch_option = click.option(
    "--batch",
    type=click.IntRange(1),
    help="Clips computed at once. [default: as many as fit]",
)


def chosen_plan(
    session: Session, source: str, options: Mapping[str, Any]
) -> ExtractPlan:
    """Return the plan of a file, or of a manifest and the options."""
    if source.endswith(".json"):
        return _plan_of_file(Path(source), options)
    from obygaze_features.extraction.recipes import targets_for

    manifest = read_manifest(session.workspace.existing_manifest(source))
    targets = targets_for(
        manifest,
        options["backbones"],
        session.workspace,
        stores=named_values(options["stores"], "--store"),
        weights=named_values(_named_weights(options), "--weights"),
        levels=tuple(
            filter(None, map(str.strip, (options["levels"] or "").split(",")))
        ),
        **{name: options[name] for name in _SETTINGS},
    )
    return make_plan(
        manifest,
        targets,
        workspace=session.workspace.root,
        timeout_s=options["timeout"],
        max_substituted=options["max_substituted"],
        licence=options["licence"],
        citation=options["citation"],
    )


def _named_weights(options: Mapping[str, Any]) -> list[str]:
    """Return NAME=PATH for each --weights; of a single backbone, PATH alone is enough."""
    names = options["backbones"]
    words = list(options["weights"])
    if len(names) == len(words) == 1 and not words[0].startswith(f"{names[0]}="):
        is_path = "=" not in words[0] or Path(words[0]).exists()
        return [f"{names[0]}={words[0]}"] if is_path else words
    return words


def _plan_of_file(path: Path, options: Mapping[str, Any]) -> ExtractPlan:
    context = click.get_current_context()
    given = {
        name
        for name in options
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    flags = {param.name: param.opts[0] for param in context.command.params}
    if fixed := [flags[name] for name in _FIXED if name in given]:
        raise FixUsage(
            f"{', '.join(fixed)} cannot be used with a plan file, which has its own settings",
            hint=f"write a new plan: obygaze extract plan MANIFEST ... -o {path}",
        )
    plan = read_plan_file(path)
    return replace(plan, timeout_s=options["timeout"]) if "timeout" in given else plan


@command()
@click.argument("manifest")
@feature_options
@device_option
@workers_option
@batch_option
@click.option(
    "--probe",
    type=click.IntRange(0),
    default=3,
    help="Decode this many clips, and time each backbone; 0 times nothing.",
)
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path),
    help="Write the plan to a file, for workers.",
)
@force_option
def plan(
    session: Session,
    /,
    manifest: str,
    probe: int,
    out: Path | None,
    force: bool,
    **options: Any,
) -> None:
    """Estimate the cost of a run, and what is missing.

    A few clips are decoded, and one forward pass of each backbone is timed on --device if its
    weights are here. MANIFEST is a manifest's name, or the file of a plan. Nothing is written but
    the plan itself, with -o.

    Examples:
        obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
        obygaze extract plan obygaze12 -b clip-b16 --levels clip,pooled,tokens --json
        obygaze extract plan obygaze12 -b clip-b16 --device cuda:all -o plan.json
    """
    from obygaze_features.extraction.devices import devices_of
    from obygaze_features.extraction.estimate import estimate
    from obygaze_features.extraction.run import Resources

    made = chosen_plan(session, manifest, options)
    resources = Resources(workers=options["workers"], batch=options["batch"])
    shares = resources.shared_by(devices_of(options["device"]))
    found = estimate(made, shares, n_probed=probe, timed=probe > 0)
    if out is not None:
        write_plan(made, out, force=force)
        session.console.note(f"wrote {out}")
    session.console.show(found.to_json(), found.to_text())
