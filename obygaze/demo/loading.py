"""The clips of the demo as arrays, so that a notebook can start without files."""

from importlib.resources import as_file, files

from obygaze_models.runner.datasets import Dataset, dataset

_PACKAGE = "obygaze.demo"
_FOLDER = "small"
_NAME = "films"  # of the manifest and of the store


def load_demo(task: str = "EN_S") -> Dataset:
    """Return X, y, groups and ids of 144 clips of twelve made-up films, for scikit-learn.

    The features are simple statistics of the pictures. They show the concept `Body` in films that a
    model has not seen; the concept `Look` changes no picture. `concepts` and `concept_names` are as
    in `og.dataset`. Manifest and store are files of this package (`scripts/pack-demo`).

    Args:
        task: The label to predict, as in `og.dataset`.

    Example:
        >>> demo = og.load_demo()
        >>> demo.X.shape, demo.concept_names
        ((132, 128), ('Body', 'Look'))
    """
    with as_file(files(_PACKAGE).joinpath(_FOLDER)) as folder:
        return dataset(_NAME, _NAME, task=task, workspace=folder)
