"""The rules for a job under faults: a pure function of the plan and of what was seen."""

import re
import signal
from dataclasses import dataclass, field

import job as jobs
import moments
from plan import DEATH, FAILURE, NOTHING, SILENCE

DEATH_SECONDS = 2.0  # survivors must report a death within this time
SILENCE_SECONDS = jobs.PEER_TIMEOUT_SECONDS + 3.0  # 1 to the next empty message, 2 as for a death


@dataclass
class Verdict:
    failures: list = field(default_factory=list)
    struck: list = field(default_factory=list)  # the faults that struck
    hit: list = field(default_factory=list)  # those that struck in their phase
    know_seconds: dict = field(default_factory=dict)  # {rank: time after the first fault that may end a job}
    # The same for ranks that waited in init for a rank that never came.
    init_seconds: dict = field(default_factory=dict)


BLAMES = [
    r"\blost rank (\d+)",
    r"\brank (\d+) on \S+ did not report the addresses",
    r"\branks? (\d+(?:, \d+)*)[^;]*? did not call \S+ within",
    r"\bwaited .*? for ranks? (\d+(?:, \d+)*)",
    r"\bhas no link to rank (\d+)",
    # One of two ranks has failed.
    r"\brank (\d+) shares no memory with rank (\d+)",
    r"\bfailed on rank (\d+): .*?\bconnecting to rank (\d+)",
]


def blamed_in(message, rank):
    """The ranks that a message to `rank` blames. The reporting rank is not blamed, nor is a rank that only
    appears later.

    The message for a rank that came after the end of the epoch has two parts: the ranks that it waited for,
    and then the end of that epoch. Rank 0 may itself be the cause of that end."""
    for part in reversed(re.split(r"\bRank 0 reported of epoch \d+: ", message)):
        for told in BLAMES:
            if found := re.search(told, part):
                return [int(number) for group in found.groups() for number in group.split(", ")]
        if named := [int(number) for number in re.findall(r"\brank (\d+)", part) if int(number) != rank]:
            return named[:1]
    return []


def never_came(text):
    """True if the text blames a rank that never came. No rank can detect that: the others wait for it as for
    any late rank."""
    return re.search(r"dabke_init: .*\bwaited in epoch \d+ at\b", text) is not None


class Judge:
    def __init__(self, plan, outcome):
        self.plan, self.outcome = plan, outcome
        self.verdict = Verdict()
        self.struck_at = {
            number: outcome.began for number, fault in enumerate(plan.faults) if not fault.action
        }
        for at, _, text in outcome.journal:
            if text.startswith("fault "):
                self.struck_at.setdefault(int(text.split()[1]), at)
        self.verdict.struck = [plan.faults[number] for number in sorted(self.struck_at)]
        notes = moments.Notes(outcome.journal)
        self.verdict.hit = [
            fault
            for number, at in self.struck_at.items()
            if (fault := plan.faults[number]).phase not in moments.PHASES
            or notes.were_hit(fault.phase, fault.nth, fault.rank, at, at + fault.seconds)
        ]
        self.dead = {fault.rank for fault in self.verdict.struck if fault.effect == DEATH}
        # The ranks that may fail, or may be away for so long that the others go on.
        self.free = {
            fault.rank
            for fault in self.verdict.struck
            if fault.effect == FAILURE or fault.effect == SILENCE and fault.action == "stop"
        }
        self.done = {rank for _, rank, text in outcome.journal if text == "done"}

    def fail(self, text):
        self.verdict.failures.append(text)

    def judge(self):
        self.judge_words()
        self.judge_ends()
        for rank in range(self.plan.ranks):
            if rank not in self.dead:
                self.judge_survivor(rank)
        for what in self.outcome.left:
            self.fail(f"left behind: {what}")
        return self.verdict

    def culprits_for(self, rank):
        """The ranks that this rank may blame."""
        culprits = self.dead | self.free
        if self.dead and self.plan.start in ("mpich", "openmpi"):  # mpirun kills the others, in any order
            culprits |= set(range(self.plan.ranks)) - self.done - {rank}
        for fault in self.verdict.struck:
            # A cut host and the other hosts lose each other.
            if fault.effect == SILENCE and fault.action != "stop":
                host = self.plan.places[fault.rank]
                mine = self.plan.places[rank]
                culprits |= {
                    of for of, place in enumerate(self.plan.places) if (place == host) != (mine == host)
                }
        return culprits

    def judge_words(self):
        """A wrong result, a handle that does not end, a callback that runs twice: the ranks report these
        themselves."""
        for rank, line in re.findall(r"storm: seed \d+, rank (\d+): (.*)", self.outcome.said)[:3]:
            # A rank that lacks something may report it in any words, but it must have no wrong result.
            lacks = int(rank) in self.free and re.search(
                "ended with|was refused|has no thread|no memory", line
            )
            # With DABKE_CPU_OPERATIONS=shm, the other rank had no descriptor left for the memory.
            lacks = lacks or self.free and "dabke_init ended with unsupported" in line
            if not lacks:
                self.fail(f"rank {rank}: {line[:1000]}")
        for line in re.findall(r".*(?:Assertion|Sanitizer|terminate called).*", self.outcome.said)[:3]:
            self.fail(line[:1000])

    def judge_ends(self):
        codes = self.outcome.codes
        if None in codes:
            self.fail(f"hung: not ended after {jobs.LIMIT_SECONDS} s")
        elif len(codes) == self.plan.ranks and self.plan.start in ("processes", "hosts"):
            for rank, code in enumerate(codes):
                # A process that ended by itself before the fault struck is right too.
                if self.free and code == 1:
                    continue  # the rank has reported the reason, and that has been judged
                # Code 1 is unshare's.
                killed = (-signal.SIGKILL, 1) if self.plan.start == "hosts" else (-signal.SIGKILL,)
                if not (code in killed and rank in self.dead) and not (code == 0 and rank in self.done):
                    self.fail(f"rank {rank} ended with code {code}")
        elif not self.dead:
            if self.free:
                return
            if codes != [0] or len(self.done) != self.plan.ranks:
                self.fail(
                    f"{self.plan.start} ended with code {codes[0]}, {len(self.done)} ranks came to the end"
                )
        elif self.plan.start in ("dabkerun", "agents") and not (self.dead <= self.done and codes == [0]):
            self.judge_dabkerun(codes[0])

    def judge_dabkerun(self, code):
        first = re.search(r"dabkerun: first failure: rank (\d+)", self.outcome.said)
        if code != 128 + signal.SIGKILL or first is None or int(first[1]) not in self.dead:
            self.fail(
                f"dabkerun ended with code {code} and blames {first[0] if first else 'nobody'}, "
                f"not {sorted(self.dead)}"
            )

    def judge_survivor(self, rank):
        losses = [
            (at, text) for at, of, text in self.outcome.journal if of == rank and text.startswith("lost ")
        ]
        if self.dead and self.plan.start in ("mpich", "openmpi"):
            # mpirun has killed rank 0 with the others, so the store is gone.
            losses = [(at, text) for at, text in losses if "no answer from the rendezvous store" not in text]
        culprits = self.culprits_for(rank)
        if losses and not culprits:
            self.fail(f"rank {rank} lost its job, and nobody was to blame: {losses[0][1][:1000]}")
            return
        if rank in self.free:
            return
        for _, text in losses:
            self.judge_cause(rank, text, culprits)
        if losses:
            self.judge_time(rank, *losses[0])

    def judge_cause(self, rank, text, culprits):
        """The text is "lost STATUS WHAT: MESSAGE". The message must name a culprit before any other rank."""
        message = (
            text.rpartition(" by ranks ")[2].partition(": ")[2]
            if " by ranks " in text
            else text.partition(": ")[2]
        )
        if not message.strip():
            return  # a call without a handle
        if any(
            fault.effect == SILENCE
            and fault.action == "stop"
            and self.plan.places[fault.rank] == self.plan.places[rank]
            for fault in self.verdict.struck
        ):
            # For its own host, a silent rank is only slow. A rank that has given it up cannot notify the
            # ranks that report through it; they see that its connections end.
            if re.search(r"\blost the connection to rank \d+", message):
                culprits = culprits | {
                    of for _, of, text in self.outcome.journal if text.startswith("lost ")
                } - {rank}
        if not any(number in culprits for number in blamed_in(message, rank)):
            self.fail(f"rank {rank} blames not {sorted(culprits)}: {text[:1000]}")

    def onset(self, number):
        """The time at which others could first see the fault. None: it had no effect."""
        fault, struck = self.plan.faults[number], self.struck_at[number]
        ended = self.outcome.ended.get(fault.rank)
        if fault.kind == "memory limit":
            return ended
        if fault.effect == FAILURE and fault.kind != "garbage":  # the rank meets a limit later, or never
            own = [
                at for at, of, text in self.outcome.journal if of == fault.rank and text.startswith("lost ")
            ]
            seen = [at for at in (*own, ended) if at is not None]
            return max(struck, min(seen)) if seen else None
        return struck

    def last_to_init(self, before, ranks):
        """The time at which the last of these ranks began an init, before the time `before`."""
        return max(
            (at for at, of, text in self.outcome.journal if text == "init" and of in ranks and at <= before),
            default=0,
        )

    def judge_time(self, rank, at, text):
        first, limit = None, 0
        for number in self.struck_at:
            fault = self.plan.faults[number]
            if fault.effect == NOTHING:
                continue
            began = self.onset(number)
            if began is None:
                continue
            first = began if first is None else min(first, began)
            limit = max(limit, began + (SILENCE_SECONDS if fault.effect == SILENCE else DEATH_SECONDS))
            if never_came(text):
                limit = max(
                    limit,
                    max(began, self.last_to_init(at, {rank})) + jobs.START_TIMEOUT_SECONDS + DEATH_SECONDS,
                )
            elif "dabke_init: " in text:  # in init, ranks wait for all late ranks
                limit = max(limit, self.last_to_init(at, range(self.plan.ranks)) + DEATH_SECONDS)
        if first is None:
            self.fail(f"rank {rank} lost its job before anything came of the faults")
            return
        known = self.verdict.init_seconds if never_came(text) else self.verdict.know_seconds
        known[rank] = round(max(0.0, at - first), 4)
        limit += self.plan.stop_seconds + 2 * self.outcome.machine_stood_still
        if at > limit:
            self.fail(
                f"rank {rank} knew only {at - first:.2f} s after the first fault "
                f"({limit - first:.2f} are allowed)"
            )


def judge(plan, outcome):
    return Judge(plan, outcome).judge()
