"""The decision of an optimizer whether it reduces gradients with other ranks."""

from __future__ import annotations

from .. import _core, epochs

__all__ = ["trains_alone"]


def trains_alone(process_set: int) -> bool:
    """Returns True if this rank reduces no gradients: it is not in the set, or no other rank ever is.

    In an elastic job, other ranks may come later. A step that was traced without a reduction would then be
    wrong, so a single rank reduces, too.

    Args:
        process_set: the runtime's number of the set.
    """
    if not _core.process_set_included(process_set):
        return True
    return _core.process_set_size(process_set) == 1 and not epochs.is_elastic()
