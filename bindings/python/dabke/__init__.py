"""Collective communication for distributed training: allreduce and other collectives on arrays.

This package needs no framework; ``dabke.torch`` is the layer for PyTorch.

    import dabke, numpy

    dabke.init()
    gradient = numpy.full(1000, dabke.rank(), dtype="float32")
    mean = dabke.allreduce(gradient, name="layer1.weight")

Start such a program by ``dabkerun -np 4 python train.py``, or from Python by ``dabke.run``. docs/python.md
documents all names.
"""

from . import elastic, epochs, errors, job
from .barriers import *  # noqa: F403
from .barriers import __all__ as _barriers
from .collectives import *  # noqa: F403
from .collectives import __all__ as _collectives
from .compression import Compression
from .epochs import *  # noqa: F403
from .errors import DabkeError, HorovodInternalError
from .handles import *  # noqa: F403
from .handles import __all__ as _handles
from .job import *  # noqa: F403
from .memory import alloc
from .messages import *  # noqa: F403
from .messages import __all__ as _messages
from .objects import *  # noqa: F403
from .objects import __all__ as _objects
from .process_sets import *  # noqa: F403
from .process_sets import __all__ as _process_sets
from .reduce_ops import *  # noqa: F403
from .reduce_ops import __all__ as _reduce_ops
from .run import RunError, run
from .statistics import *  # noqa: F403
from .statistics import __all__ as _statistics  # a function has the same name as the module
from .timeline import *  # noqa: F403
from .timeline import __all__ as _timeline

__version__ = job.version()
__all__ = [
    "Compression",
    "DabkeError",
    "HorovodInternalError",
    "RunError",
    "alloc",
    "elastic",
    "errors",
    "run",
]
for _names in (
    _barriers,
    _collectives,
    epochs.__all__,
    _handles,
    job.__all__,
    _messages,
    _objects,
    _process_sets,
    _reduce_ops,
    _statistics,
    _timeline,
):
    __all__ += _names
