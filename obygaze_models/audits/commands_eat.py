"""`obygaze audit eat`: embedding association tests on vectors from a store or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from obygaze_features.core.commands import ExampleCommand, Session, pass_session
from obygaze_features.core.errors import FixUsage
from obygaze_models.audits.options import RESULTS, deliver, result_options, seed_option

if TYPE_CHECKING:
    from obygaze_models.audits.eat_sources import Vectors

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(
    name="eat",
    cls=ExampleCommand,
    examples="""
    obygaze audit eat obygaze12.clip-b16 obygaze12 --x 'level == S' --y 'level == EN' \\
        --attributes happiness sadness --attributes happiness anger --figure figures/eat
    obygaze audit eat obygaze12.clip-b16 --x men.csv --y women.csv --text texts.npz
    obygaze audit eat --vectors vectors.npz --json
    """,
)
@click.argument("store", required=False)
@click.argument("manifest", required=False)
@click.option("--vectors", type=_FILE, help="An npz file with X, Y, A, B (x_block, y_block).")
@click.option("--x", metavar="CLIPS", help="First group: an expression, or a CSV of clip_id.")
@click.option("--y", metavar="CLIPS", help="Second group, likewise.")
@click.option(
    "--attributes", nargs=2, multiple=True, metavar="A B", help="A pair of attributes; repeat."
)
@click.option("--text", type=_FILE, help="Texts in an npz file. [default: the store's own]")
@click.option("--level", default="clip", show_default=True, help="The store's array of vectors.")
@click.option("--view", type=click.Choice(["raw", "visual", "as_published"]), help="Of MANIFEST.")
@click.option("--single", is_flag=True, help="Each item of X alone, nearer to A than to B?")
@click.option(
    "--tail",
    type=click.Choice(["two-sided", "greater", "less"]),
    default="two-sided",
    show_default=True,
    help="Which p is judged and corrected; all three are in the JSON.",
)
@click.option(
    "--permutations",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Drawn where not all can be counted.",
)
@click.option("--drop-missing", is_flag=True, help="Leave out clips the store has not got.")
@click.option("--assume-space", is_flag=True, help="One space, where a file does not say which.")
@seed_option
@result_options
@pass_session
def eat(
    session: Session,
    /,
    store: str | None,
    manifest: str | None,
    vectors: Path | None,
    single: bool,
    tail: str,
    permutations: int,
    seed: int,
    **options: Any,
) -> None:
    """Test whether one group of clips leans more to some words than another does.

    Exact where all ways to share out the items can be counted. Where a film has clips in both
    groups the verdict is the test that shuffles within films; the one that does not stands beside
    it, and a sentence says why the two differ.
    """
    from obygaze_models.audits.eat import audit_groups, audit_items
    from obygaze_models.audits.eat_sources import read_vectors

    results = {name: options.pop(name) for name in RESULTS}
    if (vectors is None) == (store is None):
        raise FixUsage("name a store, or a file of vectors with --vectors, not both")
    if vectors is not None:
        odd = [name for name in ("x", "y", "attributes", "text", "view") if options[name]]
        if odd:
            raise FixUsage(f"--{odd[0]} goes with a store; a file of vectors holds its own groups")
        found = read_vectors(vectors, single=single)
    else:
        found = _of_store(session, str(store), manifest, single, options)
    how: Any = {
        "tail": tail.replace("-", "_"),
        "permutations": permutations,
        "seed": seed,
        "source": str(vectors or store),
    }
    if found.y is None:
        audit = audit_items(found.x, found.pairs, **how)
    else:
        audit = audit_groups(found.x, found.y, found.pairs, **how)
    deliver(session, audit, **results)


def _of_store(
    session: Session, name: str, manifest: str | None, single: bool, options: dict[str, Any]
) -> Vectors:
    from obygaze_features.manifest.io import read_manifest
    from obygaze_features.manifest.model import view
    from obygaze_features.store import open_store
    from obygaze_models.audits import eat_sources as sources

    if options["x"] is None or (options["y"] is None) != single:
        raise FixUsage("a store needs --x and --y, or --x alone with --single")
    store, level = open_store(session.workspace.store(name)), options["level"]
    clips = None
    if manifest is not None:
        clips = read_manifest(session.workspace.existing_manifest(manifest))
        clips = view(clips, options["view"] or clips.header.view)
    texts = sources.read_texts(store, options["text"])
    sources.check_spaces(store, level, texts, assume=options["assume_space"])
    chosen = [sources.choose_clips(options[side], clips) for side in "xy" if options[side]]
    if not single:
        sources.apart(*chosen)
    sides = [
        sources.clip_vectors(store, one, level, drop=options["drop_missing"]) for one in chosen
    ]
    pairs = sources.text_pairs(texts, options["attributes"])
    return sources.Vectors(sides[0], None if single else sides[1], pairs)
