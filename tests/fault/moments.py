"""The moments of a message at which a fault comes, for the phases that are about messages.

storm_worker's timed messages have points for them (tests/storm/timed_messages.h). The notes of both ends in
the journal show whether a fault came at its moment.
"""

import re
from dataclasses import dataclass

LEAST_LARGE_BYTES = 128 << 10  # the receiver copies such a message from the sender's memory, if it may

AWAITED, ANNOUNCED, QUESTION, HALF_DONE = (
    "message awaited",
    "message announced",
    "message question",
    "message half done",
)
MOVING, STAGED = "message data", "message staged data"
PHASES = [AWAITED, ANNOUNCED, QUESTION, MOVING, STAGED, HALF_DONE]


@dataclass(frozen=True)
class Message:
    number: int
    sender: int
    receiver: int
    is_sender_late: bool  # the late end submits when the other end, the early one, waits
    size_bytes: int
    is_from_any: bool
    have_met: bool  # its ends have had another message in this epoch, so that they are connected

    @property
    def late(self):
        return self.sender if self.is_sender_late else self.receiver

    @property
    def early(self):
        return self.receiver if self.is_sender_late else self.sender

    @property
    def is_large(self):
        return self.size_bytes >= LEAST_LARGE_BYTES

    def has(self, phase):
        """True if the message has that phase, and a fault can hit it."""
        if phase == QUESTION:
            return self.is_from_any
        if phase in (AWAITED, ANNOUNCED):
            return not self.is_from_any
        if phase == HALF_DONE:
            # The sender of a small message completes while the receiver is stopped. Rank 0 decides the
            # orders, so it must not be the stopped rank.
            is_plain = not self.is_large and not self.is_from_any
            return is_plain and self.is_sender_late and self.have_met and self.receiver != 0
        return self.is_large


def aim(draw, phase, message):
    """Returns (rank, point, delay in microseconds) of a fault in that phase of the message. The late end
    submits 30 ms after it has seen that the other end waits."""
    soon_us = int(10 ** draw.uniform(0, 4))
    if phase == AWAITED:
        return message.late, "awaited", soon_us
    if phase == ANNOUNCED:
        return message.early, "announced", soon_us
    if phase == QUESTION:
        return draw.choice([(message.late, "awaited", soon_us), (message.early, "announced", soon_us)])
    if phase == HALF_DONE:
        return message.sender, "ended", int(10 ** draw.uniform(0, 3.5))
    return (
        draw.choice([message.sender, message.receiver]),
        "moving",
        draw.randint(0, message.size_bytes // 4000),
    )


class Notes:
    """The notes of the ranks about their messages."""

    def __init__(self, journal):
        self.times, self.arrived = {}, {}
        for at, rank, text in journal:
            if found := re.fullmatch(r"message (\d+) (submitted|ended)", text):
                self.times.setdefault((int(found[1]), found[2]), {})[rank] = at
            if found := re.fullmatch(r"message (\d+) arrived (\d+)", text):
                self.arrived[int(found[1])] = int(found[2])

    def were_hit(self, phase, number, rank, at, until):
        """True if a fault of `rank` from `at` until `until` hit that phase of the message."""

        def ranks(what, when):
            return {of for of, time in self.times.get((number, what), {}).items() if time <= when}

        submitted = ranks("submitted", at)
        if phase == AWAITED:
            return bool(submitted) and rank not in submitted
        if phase == ANNOUNCED:
            return submitted == {rank}
        if phase == QUESTION:
            return len(submitted) == 1
        if phase == HALF_DONE:
            return len(ranks("ended", until)) == 1
        # A receiver that survives and has failed shows how much has come.
        return len(submitted) == 2 and not ranks("ended", at) and 0 < self.arrived.get(number, 1) < 1000
