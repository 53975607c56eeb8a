"""Find the film that a name means: the name of a file, or of a film in a table.

An exact name comes first: its id is the film. A name that differs in its spelling (case, blanks,
`_`, `.`, or a year in brackets) means a film only where no other film could be meant. The user
states all other names, by the option `--film`.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import single_line
from obygaze_features.core.files import VIDEO_SUFFIXES
from obygaze_features.core.shell import shell_line
from obygaze_features.manifest.io import as_id

# A year in brackets, in an id: Night_Train_1954_ is `Night Train (1954)`.
_YEAR = re.compile(r"_((?:18|19|20)[0-9]{2})_$")
# Signs that separate words; between two digits they count, because 1.1 is not 11.
_BETWEEN_WORDS = re.compile(r"(?<![0-9])[_.]+|[_.]+(?![0-9])")
# Files that tables name in place of films.
OF_FILES = (*VIDEO_SUFFIXES, ".eaf")
LEAST_LIKE = 0.6
# Names that are compared letter by letter with each film; more take seconds.
MOST_COMPARED = 200


def loose_name(name: str) -> str:
    """Return the name of a film without case, blanks, `_`, `.` and a year in brackets.

    >>> loose_name("Night.Train (1954)"), loose_name("night_train.mkv"), loose_name("Part 1.1")
    ('nighttrain', 'nighttrain', 'part1.1')
    """
    plain = _YEAR.sub("", as_id(without_extension(name)))
    return _BETWEEN_WORDS.sub("", plain.casefold())


def without_extension(name: str) -> str:
    """Return the name of a film without the folder and the extension of a file of the film.

    >>> without_extension("films/Night Train.mp4"), without_extension("Part 1.1")
    ('Night Train', 'Part 1.1')
    """
    file = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, ending = file.rpartition(".")
    is_file = bool(stem) and f"{dot}{ending}".lower() in OF_FILES
    return stem if is_file else name


def year_in_brackets(name: str) -> str:
    """Return the year in brackets at the end of a name, or "".

    >>> year_in_brackets("Night Train (1954)"), year_in_brackets("night_train_1954")
    ('1954', '')
    """
    found = _YEAR.search(as_id(name))
    return found[1] if found else ""


def films_of_names(
    names: Iterable[str],
    films: Collection[str],
    stated: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the film that each name is of, such as the name of a file; other names are left out.

    The id of the name is the film. If there is no such film, it is the only film whose id differs
    in case alone, or else the only film with the same loose name. A film that a name has exactly is
    not the film of looser names.

    Args:
        names: The names.
        films: The ids of the films.
        stated: The film of each name that the user states. Other names are not of these films.

    >>> films_of_names(["Les Yeux", "GILDA", "alba"], ["Les_Yeux", "Gilda", "Alba", "ALBA"])
    {'Les Yeux': 'Les_Yeux', 'GILDA': 'Gilda'}
    >>> films_of_names(["Night.Train", "Carrie (2013)"], ["night_train", "Carrie_1976_"])
    {'Night.Train': 'night_train'}
    """
    stated = stated or {}
    free = [film for film in films if film not in stated.values()]
    forms = (as_id, lambda name: as_id(name).casefold(), loose_name)
    films_of: list[dict[str, list[str]]] = []
    for form in forms:
        films_of_form = defaultdict(list)
        for film in free:
            films_of_form[form(film)].append(film)
        films_of.append(films_of_form)
    film_of = {name: (0, film) for name, film in stated.items()}
    for name in dict.fromkeys(names):
        for looseness, form in enumerate(forms):
            same = films_of[looseness].get(form(name), [])
            if len(same) == 1 and name not in film_of and _may_be(name, same[0]):
                film_of[name] = looseness, same[0]
    closest: dict[str, int] = {}
    for looseness, film in film_of.values():
        closest[film] = min(looseness, closest.get(film, looseness))
    return {
        name: film
        for name, (looseness, film) in film_of.items()
        if looseness == closest[film]
    }


def _may_be(name: str, film: str) -> bool:
    """Return whether the years in brackets of two names allow that they are one film."""
    years = {year_in_brackets(name), year_in_brackets(film)} - {""}
    return len(years) < 2


def in_other_spelling(film_of: Mapping[str, str]) -> list[str]:
    """Return the names that were matched although their ids are not those of their films.

    Args:
        film_of: The film of each name.
    """
    return [f"{name} ({film})" for name, film in film_of.items() if as_id(name) != film]


def require_one_name(
    film_of: Mapping[str, str], where: str, stated: Collection[str] = ()
) -> None:
    """Raise an error if a film has several names, unless the user states them."""
    names_of: dict[str, list[str]] = defaultdict(list)
    for name, film in film_of.items():
        if name not in stated:
            names_of[film].append(name)
    for film, names in names_of.items():
        if len(names) > 1:
            listed = " and ".join(map(repr, names))
            raise FixInput(
                f"{listed} may both be the film {film}",
                where=where,
                hint=f"if they are, pass {film_options(dict.fromkeys(names, film))}",
            )


def likely_names(films: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Return the name that is probably meant by each film; films without one are left out.

    >>> likely_names(["Night_Train", "tt0108160"], ["juno_2007", "night_train_1954", "tt0108161"])
    {'Night_Train': 'night_train_1954'}
    """
    name_of = {loose_name(name): name for name in names}
    digits_of = {loose: re.findall("[0-9]+", loose) for loose in name_of}
    likely = {}
    for film in films:
        wanted = loose_name(film)
        digits = re.findall("[0-9]+", wanted)
        # A film with another number is another film: Part 1 and Part 2.
        known = []
        for loose, of_name in digits_of.items():
            if digits == of_name or not (digits and of_name):
                known.append(loose)
        same_start = [
            loose
            for loose in known
            if loose.startswith(wanted) or wanted.startswith(loose)
        ]
        similar = same_start if len(same_start) == 1 else []
        if not similar and len(known) <= MOST_COMPARED:
            similar = get_close_matches(wanted, known, 1, LEAST_LIKE)
        if similar:
            likely[film] = name_of[similar[0]]
    return likely


def films_in_several_spellings(names: Iterable[str]) -> list[list[str]]:
    """Return the names that differ in spelling only, those of one film together.

    >>> films_in_several_spellings(["Alba", "alba (1999)", "Carrie", "Carrie (1976)", "Juno"])
    [['Alba', 'alba (1999)'], ['Carrie', 'Carrie (1976)']]
    >>> films_in_several_spellings(["Carrie", "Carrie (1976)", "Carrie (2013)"])
    []
    """
    names_of: dict[str, list[str]] = defaultdict(list)
    for name in names:
        names_of[loose_name(name)].append(name)
    groups: list[list[str]] = []
    for same in names_of.values():
        by_year: dict[str, list[str]] = defaultdict(list)
        for name in same:
            by_year[year_in_brackets(name)].append(name)
        # With two years, a name without a year may be of either.
        n_years = len(by_year.keys() - {""})
        groups += by_year.values() if n_years > 1 else [same]
    return [group for group in groups if len(group) > 1]


def film_options(name_of: Mapping[str, str]) -> str:
    """Return options that state names: `--film 'Night Train=night_train_1954'`."""
    words = []
    for name, meant in name_of.items():
        words += ["--film", f"{name}={meant}"]
    return shell_line(words)


def find_name(typed: str, names: Collection[str], noun: str) -> str:
    """Return the name that the user has typed in `--film`, in the spelling of `names`.

    Args:
        typed: The name as it is typed.
        names: The known names.
        noun: What the names are, for an error.
    """
    if typed in names:
        return typed
    plain = single_line(typed)
    same = [name for name in names if as_id(name) == as_id(plain)]
    same = same or [name for name in names if loose_name(name) == loose_name(plain)]
    if len(same) == 1:
        return same[0]
    likely = likely_names([plain], names)
    suggestion = f" (did you mean {likely[plain]!r}?)" if likely else ""
    if len(same) > 1:
        suggestion = f"; it may be {' or '.join(map(repr, same))}"
    raise FixUsage(
        f"--film: no {noun} {typed!r}{suggestion}",
        hint="pass --film NAME=OTHER, first the name to replace",
    )
