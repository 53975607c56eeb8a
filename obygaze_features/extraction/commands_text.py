"""`obygaze extract text` and `captions`: models applied to text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import Session, command, force_option
from obygaze_features.core.errors import FixUsage

_FILE = click.Path(dir_okay=False, path_type=Path)


@command()
@click.option(
    *("-b", "backbone"),
    required=True,
    metavar="NAME",
    help="A backbone with a text tower.",
)
@click.option(
    "--prompts",
    required=True,
    metavar="SET",
    help="emotion, emotion-contrast, person, profession, or TOML.",
)
@click.option("--store", metavar="STORE", help="Add them to a store that is not sealed.")
@click.option("-o", "out", type=_FILE, help="An npz file. [default: texts/BACKBONE.SET.npz]")
@click.option("--weights", metavar="PATH", help="Weights. [default: the hub's cache]")
@click.option("--tokenizer", metavar="PATH", help="A tokenizer. [default: by the weights]")
@force_option
def text(
    session: Session,
    /,
    backbone: str,
    prompts: str,
    store: str | None,
    out: Path | None,
    weights: str | None,
    tokenizer: str | None,
    force: bool,
) -> None:
    """Embed prompts in the space of a backbone's clips.

    The vectors are the output of the backbone's text tower, not normalised, with the name of the
    embedding space. Those of X-CLIP are taken before its video prompts, so they are the same for
    every clip. Texts can be added to a store until it is sealed.

    Examples:
        obygaze extract text -b clip-b16 --prompts emotion --store obygaze12.clip-b16
        obygaze extract text -b xclip-b16-k600-zs --prompts my-prompts.toml -o texts.npz
        obygaze extract text -b clip-b16 --prompts person --weights folder --json
    """
    from obygaze_features.backbones.text import embed_prompts, load_text_tower, read_prompts
    from obygaze_features.extraction.texts import add_texts, write_texts

    chosen = read_prompts(prompts)
    tower = load_text_tower(backbone, weights, tokenizer=tokenizer, workspace=session.workspace)
    table = embed_prompts(tower, chosen)
    places = []
    if store is not None:
        places.append(str(add_texts(Path(session.workspace.existing_store(store)), table)))
    if out is not None or store is None:
        name = f"{backbone.replace('@', '-')}.{chosen.name or Path(prompts).stem}.npz"
        path = out or session.workspace.folder("texts") / name
        places.append(str(write_texts(path, table, force=force)))
    document: dict[str, Any] = {
        "texts": len(table.prompt),
        "width": int(table.embeddings.shape[1]),
        "attributes": list(chosen.attributes),
        "space_id": table.space_id,
        "written": places,
    }
    size = f"{document['texts']} texts of {document['width']} numbers"
    result = f"{size}: {', '.join(chosen.attributes)}\nin {' and '.join(places)}"
    session.console.show(document, result)


@command()
@click.argument("table", type=_FILE)
@click.option("--lm", required=True, metavar="MODEL", help="Causal language model: folder or name.")
@click.option("--sim", required=True, metavar="MODEL", help="Sentence encoder: folder or name.")
@click.option("-o", "out", type=_FILE, required=True, help="The table to write.")
@force_option
def captions(session: Session, /, table: Path, lm: str, sim: str, out: Path, force: bool) -> None:
    """Score captions with language models.

    Adds the prior of each caption and its similarity to the visual word, which `obygaze audit
    gender-score` needs. TABLE has the columns caption and visual (the word for what is seen).
    Captions with [MASK] are scored with "man" and with "woman" in its place.

    Examples:
        obygaze extract captions captions.csv --sim sentence-transformers/all-mpnet-base-v2 \\
            --lm gpt2 -o filled.csv
        obygaze extract captions captions.csv --lm models/gpt2 --sim models/sbert -o filled.csv
    """
    from obygaze_features.backbones.text import LanguageModel, SentenceEncoder
    from obygaze_features.extraction.texts import score_captions

    if out.resolve() == table.resolve():
        raise FixUsage("-o must not be the input table")
    with session.console.progress("captions", 2, "wordings") as progress:
        n_rows = score_captions(
            table, out, LanguageModel(lm), SentenceEncoder(sim), progress, force=force
        )
    if session.console.as_json:
        session.console.json({"captions": n_rows, "written": str(out)})
    else:
        session.console.note(f"wrote {n_rows} captions to {out}")
