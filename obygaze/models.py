"""Use and share saved models."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.contents import list_models as ls
    from obygaze_models.models.kinds import list_kinds as kinds
    from obygaze_models.runner.experiments import test_model as test
    from obygaze_models.zoo.predicting import predict
    from obygaze_models.zoo.sharing import pull_model as pull
    from obygaze_models.zoo.sharing import push_model as push
    from obygaze_models.zoo.sharing import show_model as show
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "kinds",
    "ls",
    "predict",
    "pull",
    "push",
    "show",
    "test",
]
