"""`obygaze extract plan`, and the options that choose what to extract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from obygaze_features.backbones.cards import card_names
from obygaze_features.core.commands import (
    ExampleCommand,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.completion import completing
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.machine import usable_cores
from obygaze_features.extraction.plan import (
    SAMPLINGS,
    ExtractPlan,
    Target,
    make_plan,
    read_plan_file,
    write_plan,
)
from obygaze_features.manifest.io import read_manifest

F = TypeVar("F", bound=Callable[..., Any])
DTYPES = ("float32", "bfloat16", "float16")
# What a plan's file has fixed; only the limit of time may be another on another machine.
_FIXED = (
    *("backbones", "levels", "weights", "stores", "sampling", "dtype", "attention", "tf32"),
    *("compiled", "compressor", "max_substituted"),
)


def what_options(function: F) -> F:
    """The options that say what to extract; the same for plan, run and retry."""
    options = [
        click.option(
            *("-b", "backbones"),
            multiple=True,
            metavar="NAME",
            help="A backbone; repeat.",
            shell_complete=completing(card_names),
        ),
        click.option("--levels", metavar="A,B", help="Levels to keep. [default: all but tokens]"),
        click.option(
            "--weights", multiple=True, metavar="NAME=PATH", help="Where a backbone's weights are."
        ),
        click.option(
            "--store", "stores", multiple=True, metavar="NAME=STORE", help="Where features go."
        ),
        click.option(
            "--sampling",
            type=click.Choice(SAMPLINGS),
            default="card",
            show_default=True,
            help="The card's rule, or key frames only: quicker, other frames.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(DTYPES),
            default="float32",
            show_default=True,
            help="Compute in this precision; recorded in the recipe.",
        ),
        click.option("--attention", type=click.Choice(["sdpa", "eager"]), help="[default: card's]"),
        click.option("--tf32", is_flag=True, help="Allow TF32 on a GPU; recorded in the recipe."),
        click.option("--compile", "compiled", is_flag=True, help="torch.compile; recorded too."),
        click.option("--compressor", type=click.Choice(["zstd", "blosc"]), help="[default: none]"),
        click.option("--timeout", default=300.0, show_default=True, help="Seconds for one clip."),
        click.option(
            "--max-substituted",
            type=click.FloatRange(0, 1),
            default=0.125,
            show_default=True,
            help="Fail a clip with more damaged frames than this share.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def chosen_plan(session: Session, source: str, what: Mapping[str, Any]) -> ExtractPlan:
    """The plan of a file, or one made of a manifest and the options."""
    if source.endswith(".json"):
        return _plan_of_file(Path(source), what)
    manifest = read_manifest(session.workspace.existing_manifest(source))
    targets = [_target(session, manifest.name, name, what) for name in what["backbones"]]
    for option in ("weights", "stores"):
        odd = _pairs(what[option], option).keys() - set(what["backbones"])
        if odd:
            raise FixUsage(f"--{option.rstrip('s')} names {', '.join(sorted(odd))}, -b does not")
    return make_plan(
        manifest,
        targets,
        workspace=session.workspace.root,
        timeout_s=what["timeout"],
        max_substituted=what["max_substituted"],
    )


def _plan_of_file(path: Path, what: Mapping[str, Any]) -> ExtractPlan:
    context = click.get_current_context()
    given = {
        name for name in what if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    options = {param.name: param.opts[0] for param in context.command.params}
    if odd := [options[name] for name in _FIXED if name in given]:
        raise FixUsage(
            f"a plan's file says what to extract; {', '.join(odd)} goes with a manifest",
            hint=f"obygaze extract plan MANIFEST ... -o {path}",
        )
    plan = read_plan_file(path)
    return replace(plan, timeout_s=what["timeout"]) if "timeout" in given else plan


def _target(session: Session, manifest: str, name: str, what: Mapping[str, Any]) -> Target:
    from obygaze_features.backbones.cards import find_card
    from obygaze_features.extraction.estimate import block_rows_of
    from obygaze_features.extraction.recipes import HEAVY

    card = find_card(name, session.workspace)
    levels = tuple(part.strip() for part in (what["levels"] or "").split(",") if part.strip())
    kept = levels or tuple(level for level in card.levels if level not in HEAVY)
    store = _pairs(what["stores"], "store").get(name) or f"{manifest}.{name.replace('@', '-')}"
    weights = _pairs(what["weights"], "weights").get(name)
    return Target(
        store=str(Path(session.workspace.store(store)).resolve()),
        backbone=name,
        weights=None if weights is None else str(Path(weights).resolve()),
        levels=levels,
        sampling=what["sampling"],
        dtype=what["dtype"],
        attention=what["attention"],
        tf32=what["tf32"],
        compiled=what["compiled"],
        compressor=what["compressor"],
        block_rows=block_rows_of(card, kept),
    )


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    pairs = dict(text.partition("=")[::2] for text in texts)
    if not all(pairs.values()) or "" in pairs:
        raise FixUsage(f"--{option} takes NAME=VALUE, not {' '.join(texts)!r}")
    return pairs


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
    obygaze extract plan obygaze12 -b clip-b16 --levels clip,pooled,tokens --json
    obygaze extract plan obygaze12 -b clip-b16 -o plan.json
    """,
)
@click.argument("manifest")
@what_options
@click.option("--workers", type=click.IntRange(1), help="Decode processes. [default: cores]")
@click.option("--probe", default=3, show_default=True, help="Decode so many clips to time them.")
@click.option("-o", "out", type=click.Path(path_type=Path), help="Keep the plan, for workers.")
@force_option
@json_option
@pass_session
def plan(
    session: Session,
    /,
    manifest: str,
    workers: int | None,
    probe: int,
    out: Path | None,
    force: bool,
    as_json: bool,
    **what: Any,
) -> None:
    """Say what a run would make, take and miss.

    MANIFEST is a manifest's name, or the file of a plan. Nothing is written but the plan itself,
    with -o.
    """
    from obygaze_features.extraction.estimate import estimate

    made = chosen_plan(session, manifest, what)
    found = estimate(made, workers=workers or usable_cores(), n_probed=probe)
    if out is not None:
        write_plan(made, out, force=force)
        session.console.note(f"wrote {out}")
    if as_json:
        session.console.json(found.to_json())
    else:
        session.console.result(found.as_text())
