"""Collective communication for distributed training: allreduce and its kin over arrays, without any framework.

    import dabke, numpy

    dabke.init()
    gradient = numpy.full(1000, dabke.rank(), dtype="float32")
    mean = dabke.allreduce(gradient, name="layer1.weight")

Started by ``dabkerun -np 4 python train.py``, or from Python by ``dabke.run``. docs/python.md tells all names.
"""

from . import errors, handles, inside, job, meetings, movements, process_sets, reduce_ops, reductions, timeline
from .errors import DabkeError, HorovodInternalError
from .handles import *  # noqa: F403
from .inside import *  # noqa: F403
from .job import *  # noqa: F403
from .meetings import *  # noqa: F403
from .memory import alloc
from .movements import *  # noqa: F403
from .process_sets import *  # noqa: F403
from .reduce_ops import *  # noqa: F403
from .reductions import *  # noqa: F403
from .run import RunError, run
from .timeline import *  # noqa: F403

__version__ = job.version()
__all__ = ["DabkeError", "HorovodInternalError", "RunError", "alloc", "errors", "run"]
for _part in (handles, inside, job, meetings, movements, process_sets, reduce_ops, reductions, timeline):
    __all__ += _part.__all__
