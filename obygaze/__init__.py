"""Features of film clips in stores, and models that learn from them::

    import obygaze as og

    manifest = og.read_manifest("obygaze12")
    store = og.open_store("obygaze12.xclip-b16-k600-zs")
    X, y, groups, ids = og.dataset(store, manifest, task="EN_S")

The functions of a group, such as stores, are in a module: `og.store.verify` (`docs/python.md`).

Names of manifests, stores, runs and models are looked up in the workspace: the folder in the
environment variable OBYGAZE_WORKSPACE, or the current folder if it is not set. A path can be given
instead of a name, and a store can be given by its URL. Importing this package imports no large
library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features import __version__ as __version__
from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.audits import agree as agree
    from obygaze.audits import audit_annotations as audit_annotations
    from obygaze.audits import audit_captions as audit_captions
    from obygaze.audits import audit_cooc as audit_cooc
    from obygaze.audits import audit_eat as audit_eat
    from obygaze.audits import audit_gender_score as audit_gender_score
    from obygaze.audits import audit_levels as audit_levels
    from obygaze.audits import audit_mediaeval as audit_mediaeval
    from obygaze.audits import audit_share as audit_share
    from obygaze.audits.maps import compare_conditions as compare_conditions
    from obygaze.audits.maps import write_concept_maps as write_concept_maps
    from obygaze.audits.maps import write_saliency as write_saliency
    from obygaze.contents import ls as ls
    from obygaze.demo.loading import load_demo as load_demo
    from obygaze.demo.tour import write_demo as write_demo
    from obygaze.doctor import check_up as check_up
    from obygaze.films.page.view import view as view
    from obygaze.films.reporting import report as report
    from obygaze_features.backbones import load_backbone as load_backbone
    from obygaze_features.core.errors import ObygazeError as ObygazeError
    from obygaze_features.extraction.extracting import extract as extract
    from obygaze_features.extraction.search import search as search
    from obygaze_features.manifest import read_manifest as read_manifest
    from obygaze_features.store.joining import open_store as open_store
    from obygaze_models import CAV as CAV
    from obygaze_models import PCBM as PCBM
    from obygaze_models import LogisticProbe as LogisticProbe
    from obygaze_models import MLPProbe as MLPProbe
    from obygaze_models import RidgeProbe as RidgeProbe
    from obygaze_models import SVMProbe as SVMProbe
    from obygaze_models.report import compare as compare
    from obygaze_models.runner.datasets import Dataset as Dataset
    from obygaze_models.runner.datasets import dataset as dataset
    from obygaze_models.runner.experiments import evaluate as evaluate
    from obygaze_models.runner.experiments import run as run
    from obygaze_models.runner.experiments import train as train
    from obygaze_models.runner.text import read_run as read_run
    from obygaze_models.zoo import load_model as load_model
    from obygaze_models.zoo import predict as predict

    from . import audit as audit
    from . import backbones as backbones
    from . import explain as explain
    from . import extraction as extraction
    from . import manifest as manifest
    from . import marks as marks
    from . import models as models
    from . import protocols as protocols
    from . import store as store
    from . import video as video
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
