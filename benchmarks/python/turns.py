"""Ways to do the same thing, which are measured in turns, and the table of what they took.

All ways run in the same processes, one after the other in every round, so other work of the machine disturbs
all of them equally. A ratio is the median of the ratios of single rounds.
"""

from __future__ import annotations

import dataclasses
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping

import dabke

SKIPPED_ROUNDS = 2
_UNITS = {"ms": 1e3, "us": 1e6}


@dataclasses.dataclass
class Seen:
    """The figures of a way, one a round and a call.

    Attributes:
        seconds: of the clock.
        cpu_seconds: of all threads of this process.
        page_faults: without those that read from a disk.
    """

    seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: list[float] = dataclasses.field(default_factory=list)
    page_faults: list[float] = dataclasses.field(default_factory=list)

    def less(self, other: Seen) -> Seen:
        """The differences from another way, round by round."""
        pairs = zip(vars(self).values(), vars(other).values())
        return Seen(*([mine - theirs for mine, theirs in zip(*pair)] for pair in pairs))

    def divided_by(self, parts: int) -> Seen:
        """The figures of one of so many equal parts."""
        return Seen(*([each / parts for each in figures] for figures in vars(self).values()))


def measure(ways: Mapping[str, Callable[[], object]], rounds: int, calls: int = 1) -> dict[str, Seen]:
    """Runs all ways in turns.

    Args:
        ways: by their names; each returns when its result is there.
        rounds: of each way, besides the first ones, which do not count.
        calls: of a way in each of its turns.
    """
    seen = {name: Seen() for name in ways}
    for number in range(SKIPPED_ROUNDS + rounds):
        for name, run in ways.items():
            dabke.barrier()
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            cpu_begin, begin = time.process_time(), time.perf_counter()
            for _ in range(calls):
                run()
            seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
            if number >= SKIPPED_ROUNDS:
                seen[name].seconds.append(seconds / calls)
                seen[name].cpu_seconds.append(cpu_seconds / calls)
                seen[name].page_faults.append(faults / calls)
    return seen


def ratio(ours: Iterable[float], theirs: Iterable[float]) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs))


def print_table(
    title: str,
    rows: Iterable[tuple[str, Seen, Seen | None]],
    unit: str = "ms",
) -> None:
    """Prints the medians on rank 0.

    Args:
        title: what is measured.
        rows: a name, its figures, and those of its peer, if it is compared with one.
        unit: of times, "ms" or "us".
    """
    if dabke.rank() != 0:
        return
    print(f"\n{title:<46}{unit:>9}{'/ peer':>8}{'CPU ' + unit:>9}{'/ peer':>8}{'faults':>8}")
    for name, seen, peer in rows:
        print(f"{name:<46}", end="")
        for figures, others in (
            (seen.seconds, peer and peer.seconds),
            (seen.cpu_seconds, peer and peer.cpu_seconds),
        ):
            compared = f"{ratio(figures, others):8.2f}" if others else " " * 8
            print(f"{_UNITS[unit] * statistics.median(figures):9.2f}{compared}", end="")
        print(f"{statistics.median(seen.page_faults):8.0f}", flush=True)
