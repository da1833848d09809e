"""The collectives, each in a blocking form and an asynchronous one, which gives a handle at once.

Tensors are whatever speaks the buffer protocol or DLPack in host memory: NumPy arrays, arrays of other libraries,
``array.array``. An input that is not compact, row-major, aligned and in this machine's byte order is copied before the
call returns; an output like that is refused, and so are read-only outputs and masked arrays. Results are new NumPy
arrays (memoryviews where NumPy is not installed), or `out` where it is given. Names ending in an underscore work in
place.

A name stands for the same tensor on every rank, and ranks may submit in any order. A tensor without a name gets
``<collective>.noname.<n>``, n counting those of its process set: then all ranks must submit in the same order. A
name that comes again, as in every training step, is negotiated faster than a new one. A name is at most 4096 bytes long
in UTF-8 and has no NUL; any other is refused, as in every string that goes to the runtime.

Until an operation has completed, its tensors must not be touched. They need not be kept: the operation does.

Every function raises what is wrong with its own arguments at once; what only the ranks together can tell
(``MismatchError``), and what happens later, is raised by ``synchronize`` on every rank.
"""

from __future__ import annotations

from .handles import *  # noqa: F403
from .meetings import *  # noqa: F403
from .movements import *  # noqa: F403
from .reductions import *  # noqa: F403
