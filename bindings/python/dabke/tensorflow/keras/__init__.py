"""``dabke.keras`` under the name that Horovod's users know: ``import dabke.tensorflow.keras as hvd``."""

import sys

from ...keras import *  # noqa: F403
from ...keras import __all__, callbacks, elastic

__all__ = list(__all__)

sys.modules[f"{__name__}.callbacks"] = callbacks
sys.modules[f"{__name__}.elastic"] = elastic
