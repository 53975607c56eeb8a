"""`obygaze search`, `obygaze extract text` and `obygaze extract captions`."""

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import Session, command, force_option
from obygaze_features.core.console import table
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import csv_bytes, write_new

_FILE = click.Path(dir_okay=False, path_type=Path)


@command("search")
@click.argument("store")
@click.option("--text", metavar="WORDS", help="Find clips like this text.")
@click.option("--like", metavar="CLIP", help="Find clips like this one.")
@click.option(
    "--level", help="The features to compare. [default: clip, or the first level]"
)
@click.option("--top", type=click.IntRange(min=1), default=20, help="How many clips.")
@click.option(
    "--weights", help="Weights of the text tower. [default: the backbone's own]"
)
@click.option(
    "-o", "out", type=click.Path(path_type=Path), help="Write the clips as CSV."
)
@force_option
def search_(
    session: Session, store: str, out: Path | None, force: bool, **query: Any
) -> None:
    """Find clips by a text or a clip.

    A text needs a store of CLIP, SigLIP or X-CLIP. What -o writes becomes segments with
    `obygaze manifest export csv MANIFEST --predictions FILE`.

    Examples:
        obygaze search obygaze12.clip-b16 --text "a woman on a bed"
        obygaze search films.descriptors --like lake-001 --top 5 -o like.csv --json
    """
    from obygaze_features.extraction.search import Hit, search

    hits = search(store, **query, workspace=session.workspace.root)
    if out is not None:
        write_new(out, csv_bytes(Hit._fields, hits), force=force)
    session.console.show(
        {"clips": [hit._asdict() for hit in hits]}, table(Hit._fields, hits)
    )


@command()
@click.option(
    *("-b", "backbone"),
    required=True,
    metavar="NAME",
    help="A backbone with a text model.",
)
@click.option(
    "--prompts",
    required=True,
    metavar="SET",
    help="emotion, emotion-contrast, person, profession, or TOML.",
)
@click.option(
    "--store", metavar="STORE", help="Add them to a store that is not sealed."
)
@click.option(
    "-o", "out", type=_FILE, help="An npz file. [default: texts/BACKBONE.SET.npz]"
)
@click.option(
    "--weights", metavar="PATH", help="Weights and tokenizer. [default: the hub's]"
)
@force_option
def text(
    session: Session, /, backbone: str, prompts: str, store: str | None, **options: Any
) -> None:
    """Embed prompts in the space of a backbone's clips.

    The vectors are the output of the backbone's text model, not normalised, with the name of the
    embedding space. Those of X-CLIP are taken before its video prompts, so they are the same for
    every clip. Texts can be added to a store until it is sealed.

    Examples:
        obygaze extract text -b clip-b16 --prompts emotion --store obygaze12.clip-b16
        obygaze extract text -b xclip-b16-k600-zs --prompts my-prompts.toml -o texts.npz
        obygaze extract text -b clip-b16 --prompts person --weights folder --json
    """
    from obygaze.extensions.text.texts import embed_texts

    place = None if store is None else Path(session.workspace.existing_store(store))
    table, places = embed_texts(session.workspace, backbone, prompts, place, **options)
    n_texts, width = table.embeddings.shape
    names = list(dict.fromkeys(table.attribute))
    facts = {
        "texts": n_texts,
        "width": width,
        "attributes": names,
        "space_id": table.space_id,
    }
    text = f"{n_texts} texts of {width} numbers: {', '.join(names)}\nin {' and '.join(places)}"
    session.console.show({**facts, "written": places}, text)


@command()
@click.argument("table", type=_FILE)
@click.option(
    "--lm",
    required=True,
    metavar="MODEL",
    help="Causal language model: folder or name.",
)
@click.option(
    "--sim", required=True, metavar="MODEL", help="Sentence encoder: folder or name."
)
@click.option("-o", "out", type=_FILE, required=True, help="The table to write.")
@force_option
def captions(
    session: Session, /, table: Path, lm: str, sim: str, out: Path, force: bool
) -> None:
    """Score captions with language models.

    Adds the prior of each caption and its similarity to the visual word, which `obygaze audit
    gender-score` needs. TABLE has the columns caption and visual (the word for what is seen).
    Captions with [MASK] are scored with "man" and with "woman" in its place.

    Examples:
        obygaze extract captions captions.csv --sim sentence-transformers/all-mpnet-base-v2 \\
            --lm gpt2 -o filled.csv
        obygaze extract captions captions.csv --lm models/gpt2 --sim models/sbert -o filled.csv
    """
    from obygaze.extensions.text.texts import score_captions
    from obygaze_features.backbones.text import LanguageModel, SentenceEncoder

    if out.resolve() == table.resolve():
        raise FixUsage("-o must not be the input table")
    n_rows = score_captions(
        table, out, LanguageModel(lm), SentenceEncoder(sim), force=force
    )
    session.console.note(f"wrote {n_rows} captions to {out}")
    if session.console.as_json:
        session.console.json({"captions": n_rows, "written": str(out)})
