"""Make the index of a store: the list of its films, and the seal in pages of some blocks."""

from collections.abc import Mapping, Sequence

from obygaze_features.store.format.records import Plan, Record, Seal
from obygaze_features.store.format.schema import TEXT_FOLDER, FileMark, RowSource
from obygaze_features.store.read.index import FilmIndex, IndexPage, runs_of
from obygaze_features.store.read.reader import Store

PAGE_ROWS = 4096


def index_records(store: Store, seal: Seal, plan: Plan) -> dict[str, Record]:
    """Return the files of the index of a store, by name; the first is the list of films.

    `seal` and `plan` are those of the store itself, or of some of its arrays.
    """
    page_blocks = max(1, PAGE_ROWS // plan.block_rows)
    checksums = {array: text.split() for array, text in seal.crc32c.items()}
    pages: dict[str, Record] = {}
    for number, first in enumerate(range(0, plan.n_blocks, page_blocks)):
        blocks = range(first, min(first + page_blocks, plan.n_blocks))
        page = _index_page(store, seal, plan, blocks, checksums)
        pages[f"index/{number}.json"] = page
    marks = {name: FileMark.of(page.to_bytes()) for name, page in pages.items()}
    for name, mark in seal.files.items():
        if name.startswith(f"{TEXT_FOLDER}/"):
            marks[name] = mark
    number = 0 if seal.store_version is None else seal.store_version.number
    films = FilmIndex(
        plan=plan.sha256,
        page_blocks=page_blocks,
        films=runs_of(store.movie_ids),
        files=marks,
        store_version=number,
    )
    return {FilmIndex.FILE: films, **pages}


def _index_page(
    store: Store,
    seal: Seal,
    plan: Plan,
    blocks: range,
    checksums: Mapping[str, Sequence[str]],
) -> IndexPage:
    """Return what the seal lists of some blocks; `checksums` are those of each array by block."""
    first_row = blocks[0] * plan.block_rows
    after_row = plan.block_range(blocks[-1])[1]
    sources: dict[int, RowSource] = {}
    files: dict[str, FileMark] = {}
    for block in blocks:
        sources.update(store.commits.sources(block))
        for spec in plan.arrays:
            name = plan.block_key(spec.name, block)
            if name in seal.files:
                files[name] = seal.files[name]
    crc32c = {}
    for array, of_blocks in checksums.items():
        crc32c[array] = " ".join(of_blocks[blocks.start : blocks.stop])
    status_of_row = {
        row: seal.status_of_row[row]
        for row in range(first_row, after_row)
        if row in seal.status_of_row
    }
    return IndexPage(
        clip_id=store.clip_ids[first_row:after_row].tolist(),
        status_of_row=status_of_row,
        sources=sources,
        makers=seal.makers.between(first_row, after_row),
        files=files,
        crc32c=crc32c,
    )
