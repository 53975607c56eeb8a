"""The functions of `obygaze audit` and `og.audit`; other modules do the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from obygaze.audits.texts import TextSource, WordLists
from obygaze_features.core.lazy import done_in
from obygaze_features.core.options import PYTHON_ONLY, Option
from obygaze_features.core.workspace import PathLike

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from obygaze.audits.result import Audit
    from obygaze_features.manifest.model import Manifest
    from obygaze_features.store.reading import Store

# The clips of a group: an expression, a file of ids, or ids.
Clips = str | Path | Sequence[str]
CONCEPTS_COLUMN = "concepts"


@done_in("obygaze.audits.eat")
def audit_eat(
    store: Store | str | Path | None = None,
    manifest: Manifest | str | Path | None = None,
    *,
    vectors: str | Path | Mapping[str, ArrayLike] | None = None,
    x: Annotated[Clips | None, Option(metavar="CLIPS")] = None,
    y: Annotated[Clips | None, Option(metavar="CLIPS")] = None,
    attributes: Annotated[Sequence[tuple[str, str]], Option(metavar="A B")] = (),
    text: str | Path | None = None,
    tail: Literal["two_sided", "greater", "less"] = "two_sided",
    permutations: Annotated[int, Option(least=1)] = 1_000_000,
    workspace: str | Path | None = None,
) -> Audit:
    """Test whether one group of clips is closer to some words than another group.

    Permutations are counted exactly if possible. If a film has clips of both groups, the reported
    p-value exchanges clips only within films; the one across films is shown beside it, with a
    sentence that explains the difference.

    Args:
        store: The store that has the vectors of the clips, or its name, path or URL.
        manifest: The manifest that the expressions `x` and `y` select from, or its name or path.
        vectors: Arrays X, Y, A, B (and x_block, y_block), or their npz file, instead of a store.
        x: The first group: an expression such as "level == S", a CSV file of clip_id, or ids.
        y: The second group, likewise.
        attributes: Pairs of attributes of the texts; by default the only two.
        text: The npz file of text vectors that `extract text` wrote.
        tail: The p-value to report and correct: "two_sided", "greater" or "less".
        permutations: How many permutations are drawn if they are too many to count.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_eat(vectors={"X": men, "Y": women, "A": career, "B": family})

    Commands:
        obygaze audit eat obygaze12.clip-b16 obygaze12 --x 'level == S' --y 'level == EN' \\
            --text texts.npz --attributes happiness sadness --attributes happiness anger
        obygaze audit eat obygaze12.clip-b16 --x men.csv --y women.csv --text texts.npz
        obygaze audit eat --vectors vectors.npz --json
    """


@done_in("obygaze.audits.annotations")
def audit_annotations(
    manifest: Manifest | str | Path,
    *,
    column: str = CONCEPTS_COLUMN,
    x: Annotated[Clips, Option(metavar="CLIPS")],
    y: Annotated[Clips, Option(metavar="CLIPS")],
    workspace: str | Path | None = None,
) -> Audit:
    """Test which values of a column go with a level, such as emotions or concepts.

    For each value, the share of the clips that have it is compared between two groups, X and Y. All
    p-values are exact. If a film has clips of both groups, the reported p-value exchanges clips
    only within films. Holm's correction is over the values. Levels and concepts are those of the
    view of protocols, which the title names.

    Args:
        manifest: The manifest, or its name or path.
        column: The column, with values joined by `|`.
        x: The first group: an expression such as "level == S", a CSV file of clip_id, or ids.
        y: The second group, likewise.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_annotations("obygaze12", x="level == S", y="level == EN")

    Commands:
        obygaze audit annotations obygaze12 --x 'level == S' --y 'level == HN'
        obygaze audit annotations obygaze12 --column emotions --x 'level == S' --y 'level == EN'
        obygaze audit annotations moviegraphs --column relationships --x men.csv --y women.csv
    """


@done_in("obygaze.audits.levels")
def audit_levels(
    manifest: Manifest | str | Path,
    *,
    view: Literal["raw", "visual", "as_published"] | None = None,
    by: Annotated[str | None, Option(metavar="COLUMN")] = None,
    workspace: str | Path | None = None,
) -> Audit:
    """Test whether clips of a higher level have more concepts, for each annotator.

    The mean number of concepts of HN, NS and S clips has an interval over films. A step from one
    level to the next is tested within films. The claim that the number rises with each step for
    each annotator has the largest p of these steps. What each annotator said is in the table beside
    the manifest; without one, the column annotator names them; without this column, all clips are
    one group.

    Args:
        manifest: The manifest, or its name or path.
        view: The view of the manifest, by default that of protocols.
        by: Another column of clips, in place of the annotators.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_levels("mobygaze", view="visual")

    Commands:
        obygaze audit levels obygaze12
        obygaze audit levels mobygaze --view visual
    """


@done_in("obygaze.audits.reliability")
def audit_reliability(
    source: TextSource | Manifest,
    *,
    raters: str | Sequence[str] | None = None,
    column: str | None = None,
    cluster: str | Sequence[str] | None = None,
    workspace: str | Path | None = None,
) -> Audit:
    """Measure the agreement of annotators, or of prompts: Krippendorff's and Cronbach's alpha.

    The table has a row for each item and a column for each rater; of a manifest, the answers are
    those of its annotators. Items that not all raters have rated are left out. Numbers have both
    alphas, which say whether the raters measure one thing. Words have Krippendorff's alpha for
    nominal values alone, and are counted.

    Args:
        source: A table, or a manifest.
        raters: Names of the columns of the raters, or of the prompts; with `column`, the names of
            the annotators who are compared.
        column: Of a manifest with annotators, what they are compared by. COLUMN=VALUE and
            "COLUMN>=2" make yes and no of it. Where each rater has a column, name these columns as
            the raters.
        cluster: The columns of the film or image; by default each item is its own cluster.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_reliability("ratings.csv", raters="ada,ben,cleo", cluster="film")

    Commands:
        obygaze audit reliability ratings.csv --raters ada,ben,cleo --cluster film
        obygaze audit reliability films --column Rating --cluster movie_id
        obygaze audit reliability films --column mood=sad --cluster movie_id
        obygaze audit reliability prompts.csv --raters 'a photo,an image,a picture' --json
    """


@done_in("obygaze.audits.captions")
def audit_captions(
    source: TextSource,
    *,
    text: str = "caption",
    group: str | Sequence[str] = "group",
    cluster: str | Sequence[str] | None = None,
    words: Annotated[WordLists | None, PYTHON_ONLY] = None,
    tokens: Literal["words", "authors"] = "words",
    min_occurrences: Annotated[int, Option(least=0)] = 0,
) -> Audit:
    """Count how often captions use the words of a list, by group.

    Two groups are also tested against each other, by exchanging whole clusters. With several
    columns, such as race, gender and class, groups are crossed: each column is tested by
    exchanging clusters that have the same values of the others.

    Args:
        source: A table, or a folder of .txt files with one caption per line, which are named as
            those of Wolfe et al. (2023).
        text: The column of the captions.
        group: The columns whose values are the groups.
        cluster: The columns of the film or image; by default each caption is its own cluster.
        words: Sets of words by name. By default those of Wolfe et al. (2023).
        tokens: What counts as a word of a caption: words finds it beside any mark, as in sad! and
            (sad); authors cuts at blanks and leaves out . and , alone, as Wolfe et al. (2023) do.
        min_occurrences: Leave out words that all captions together use less often; Wolfe et al.
            (2023) use 100.

    Example:
        audit = audit_captions("captions.csv", group="condition", cluster="image")

    Commands:
        obygaze audit captions captions.csv --group condition --cluster image
        obygaze audit captions captions/ --group group,face --cluster image,face --figure words
        obygaze audit captions captions/ --group group --cluster image,face --tokens authors \\
            --min-occurrences 100
        obygaze audit captions captions.csv --group race,gender,class --cluster image
    """


@done_in("obygaze.audits.cooccurrence")
def audit_cooc(
    source: TextSource,
    *,
    things: str,
    cluster: str | Sequence[str] | None = None,
) -> Audit:
    """Count which things are named together with words of which gender.

    A text with words of both genders counts for both. Shares are printed exactly, and cut after two
    decimals as in published tables.

    Args:
        source: A table with a column caption, or a folder of .txt files.
        things: The column whose values, joined by `|`, are the things, such as "objects".
        cluster: The columns of the film or image; by default each text is its own cluster.

    Example:
        audit = audit_cooc("captions.csv", things="objects", cluster="image")

    Commands:
        obygaze audit cooc captions.csv --things objects --cluster image
    """


@done_in("obygaze.audits.mediaeval")
def audit_mediaeval(
    runs: Annotated[Sequence[str | Path], Option("--run", exists="file")] = (),
    *,
    qrels: Annotated[str | Path | None, Option(exists="file")] = None,
    manifest: Manifest | str | Path | None = None,
    write: Annotated[PathLike | None, Option(metavar="RUN")] = None,
    affect: Annotated[PathLike | None, Option(metavar="TABLE")] = None,
    predictions: Annotated[PathLike | None, Option(metavar="PATH")] = None,
    force: bool = False,
    workspace: str | Path | None = None,
) -> Audit:
    """Score predictions for MediaEval 2015, a contest on violence and emotion in films.

    A run is a file of predictions. Runs for violence rank clips, and are scored by average
    precision; runs for affect give each clip a class of valence (pleasant or not) and of arousal
    (calm or excited), and are scored by accuracy.

    Runs are scored against either --qrels or --manifest. If the official split is known, only its
    test clips are scored. Runs name clips as the official files do: ACCEDE00001.mp4. At most five
    runs per subtask are allowed, one of them without external data.

    With --write, the command writes a run of the scores of a table, and scores it if it gets
    judgements.

    Args:
        runs: The files: TREC lines for violence, or lines of name, valence class, arousal class.
        qrels: TREC judgements of violence.
        manifest: A manifest of LIRIS-ACCEDE, or its TOML file.
        write: Write a run: of violence from --predictions, of affect from --affect.
        affect: A table of scores of valence and arousal (clip_id, valence, arousal; from -1 to 1),
            which become classes: below -0.15 negative, above 0.15 positive, else neutral.
        predictions: The scores of a model of two classes, as `models predict -o` writes them.
        force: Replace a run that exists.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_mediaeval(["run1.txt"], qrels="violence.qrels")

    Commands:
        obygaze audit mediaeval --qrels violence.qrels --run run1.txt --json
        obygaze audit mediaeval --manifest liris-accede --run affect.txt
        obygaze audit mediaeval --write violence.txt --predictions scores.csv
        obygaze audit mediaeval --write affect.txt --affect affect.csv --manifest liris-accede
    """


@done_in("obygaze.audits.share")
def audit_share(
    manifest: PathLike,
    *,
    of: Annotated[str, Option(metavar="EXPRESSION")] = "level == S",
    predictions: Annotated[PathLike | None, Option(metavar="PATH")] = None,
    by: Annotated[str | None, Option(metavar="COLUMN")] = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Estimate in how many clips of films something is, from clips drawn by plan and labelled.

    The clips are those of `manifest sample`, with the labels of a person: `manifest project` makes
    labels of marks. A clip without a label does not count, and a word that no label has is refused.

    The share is that of all clips of the films, with an interval over films: it speaks of films of
    which these are a draw. Groups of films are compared by exchanging whole films, with Holm's
    correction.

    Predictions of all clips of the films, by any model, can make the interval narrower. They are
    used if they explain something within films, and never counted.

    Args:
        manifest: The manifest of the drawn clips, with labels.
        of: What is counted, such as "level == S", "Look in concept" or "mood == sad".
        predictions: CSV of clips with scores, as `models predict` writes it.
        by: A column of films whose values are the groups.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_share("judged", by="decade")

    Commands:
        obygaze audit share judged --report share.html
        obygaze audit share judged --predictions scores.csv
        obygaze audit share judged --of 'Look in concept' --by decade
    """
