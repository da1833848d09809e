"""The two exceptions after which an elastic program goes on, also in the form that a framework gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...errors import DabkeError, HorovodInternalError

__all__ = ["HostsUpdatedInterrupt", "failure_in", "register_translation"]

# Returns the error of the runtime that an error of a framework carries; None if it carries none.
Translation = Callable[[BaseException], DabkeError | None]

_translations: list[Translation] = []


class HostsUpdatedInterrupt(DabkeError):
    """The job's hosts have changed, and no rank is lost. ``commit`` and ``check_host_updates`` raise it.

    Args:
        skip_sync: stored only. The state is sent to the ranks that lack it, and to no others.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the job's hosts have changed")
        self.skip_sync = skip_sync


def register_translation(translation: Translation) -> None:
    """Makes ``failure_in`` find the runtime's errors inside a framework's own errors."""
    _translations.append(translation)


def failure_in(error: BaseException) -> HorovodInternalError | None:
    """Returns the failure of the job that an exception is, or carries; None for any other exception."""
    if isinstance(error, HorovodInternalError):
        return error
    if isinstance(error, DabkeError):
        return None
    for each in _chain(error):
        for translation in _translations:
            found = translation(each)
            if found is not None:
                return found if isinstance(found, HorovodInternalError) else None
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception, and those that it has replaced. Keras replaces an error to add a layer's name."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
