"""Features of film clips in stores, and models that learn from them::

    import obygaze as og

    manifest = og.read_manifest("obygaze12")
    store = og.open_store("obygaze12.xclip-b16-k600-zs")
    X, y, groups, ids = og.dataset(store, manifest, task="EN_S")

Each command is a function: `obygaze store verify` is `og.store.verify` (`docs/python.md`).

Names of manifests, stores, runs and models are looked up in the workspace: the folder of the
variable OBYGAZE_WORKSPACE, else the current folder. A path works too, and for stores a URL.
Importing this package imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.demo.tour import write_demo  # noqa: F401
    from obygaze.doctor import check_up  # noqa: F401
    from obygaze.namespaces import Namespace

    audit: Namespace
    backbones: Namespace
    explain: Namespace
    extraction: Namespace
    manifest: Namespace
    models: Namespace
    store: Namespace
    video: Namespace

    from obygaze.audits import audit_annotations as audit_annotations
    from obygaze.audits import audit_captions as audit_captions
    from obygaze.audits import audit_cooc as audit_cooc
    from obygaze.audits import audit_eat as audit_eat
    from obygaze.audits import audit_gender_score as audit_gender_score
    from obygaze.audits import audit_levels as audit_levels
    from obygaze.audits import audit_mediaeval as audit_mediaeval
    from obygaze.audits import audit_reliability as audit_reliability
    from obygaze.audits import audit_share as audit_share
    from obygaze.audits.maps import compare_conditions as compare_conditions
    from obygaze.audits.maps import write_concept_maps as write_concept_maps
    from obygaze.audits.maps import write_saliency as write_saliency
    from obygaze.audits.maps.functions import draw_maps as draw_maps
    from obygaze.films.page.view import view as view
    from obygaze_features.backbones import load_backbone as load_backbone
    from obygaze_features.core.errors import ObygazeError as ObygazeError
    from obygaze_features.extraction.functions import extract as extract
    from obygaze_features.extraction.functions import search as search
    from obygaze_features.manifest import read_manifest as read_manifest
    from obygaze_features.store import open_store as open_store
    from obygaze_models.report import compare as compare
    from obygaze_models.report import report as report
    from obygaze_models.runner.datasets import Dataset as Dataset
    from obygaze_models.runner.datasets import dataset as dataset
    from obygaze_models.runner.experiments import run as run
    from obygaze_models.runner.experiments import train as train
    from obygaze_models.runner.text import read_run as read_run
    from obygaze_models.zoo import load_model as load_model
    from obygaze_models.zoo import predict as predict
else:
    _get_export, _, __all__ = lazy_exports(__name__)

    def __getattr__(name):
        if name in __all__:
            return _get_export(name)
        from obygaze.namespaces import find

        return find(name)

    def __dir__():
        from obygaze.namespaces import names

        return sorted({*__all__, *names()})
