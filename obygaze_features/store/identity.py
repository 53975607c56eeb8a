"""What a row of a store says about its clip."""

from obygaze_features.manifest.same_clip import Identity
from obygaze_features.store.records import WITHOUT_MANIFEST, StoreRecord, film_of_id
from obygaze_features.store.rows import Row


def identity_of(row: Row, record: StoreRecord) -> Identity:
    """Return what a row says about its clip, for `compare_clips`.

    The film of a store that was imported without a manifest may only be a guess from the id; then
    it is not known. Nobody says whether the times of a row are those in the film or in a file.
    """
    is_guess = record.manifest.name == WITHOUT_MANIFEST and row.movie_id in (
        row.clip_id,
        film_of_id(row.clip_id),
    )
    times = (row.start_s, row.end_s)
    return Identity(
        clip_id=row.clip_id,
        movie_id="" if is_guess else row.movie_id,
        in_either=None if times == (None, None) else times,
        video=row.video_hash,
    )
