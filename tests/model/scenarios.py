"""The jobs that run.py explores: scenarios, and seeded mistakes that it must find."""

from dataclasses import dataclass


@dataclass
class Scenario:
    macros: list  # as the model describes them
    events: list  # the events that must be reachable
    trees: tuple = ("chain", "star")
    many: bool = False  # many states: optimising the verifier takes less time than it saves
    large: bool = False
    model: str = "negotiation.pml"


@dataclass
class Mistake:
    macro: str
    scenario: str
    what: str
    tree: str = "chain"


COMPLETE = "all complete"
TWICE = "TODO(r, n) 2"
FEWER = "TODO(r, n) ((n) == 0 -> 2 : 1)"
IN_SET = "PROGRAM(r, n) ((n) == 0 || (n) == 2 || set[r] != 0 || over[r])"
UNEVEN = "TODO(r, n) ((n) == 1 -> 1 : ((r) == 2 -> 2 : 3))"  # rank 2 has less to do, its last is queued
CROSSED = "TODO(r, n) ((r) == 0 -> 0 : ((r) == (n) + 1 -> 2 : 0))"  # ranks 1 and 2 each submit one name twice
# Name 1 comes when name 0 is complete, and name 0 is held for name 1. Without a deadline, it is held until a
# thread waits for it.
WAITING = ["LAZY", "LEARN 0", "KNOWN", "NO_DEADLINE", "PROGRAM(r, n) ((n) == 0 || submitted[I(r, 0)] != 0)"]
# The same, but two ranks (0 and 1, or 1 and 2) poll, and do not report that they wait. The rank that reports
# its wait has submitted both names.
AWAITING = WAITING[:-1]

SCENARIOS = {
    "order": Scenario(["LAZY", TWICE, "PRIORITY", "EXECUTED"], [COMPLETE, "two are ready at one time"]),
    "batches": Scenario(
        ["LAZY", "NAMES 3", "M2 3", "BARRIER", "BATCHES"],
        [COMPLETE, "two travel together", "two travel apart"],
    ),
    "cache": Scenario(
        ["LAZY", TWICE, "PLACES 1", "SLOTS 8"],
        [
            COMPLETE,
            "a report by slot crosses the slot's eviction",
            "a slot is evicted under reports",
            "no slot can be evicted",
        ],
        ("chain",),
    ),
    "cache-star": Scenario(
        ["LAZY", TWICE, "PLACES 1", "SLOTS 8"],
        [COMPLETE, "a report by slot crosses the slot's eviction"],
        ("star",),
        many=True,
    ),
    # Rank 2, or ranks 1 and 2, have nothing to do with name 1.
    "cache-silent": Scenario(
        ["LAZY", "TODO(r, n) ((n) == 1 -> 2 : 1)", "M1 3", "PLACES 1", "SLOTS 8", "MOST_UNTOLD 1"],
        [COMPLETE, "a rank only says what it has seen", "a report by slot crosses the slot's eviction"],
    ),
    "cache-root": Scenario(
        ["LAZY", "TODO(r, n) ((n) == 1 -> 3 : 2)", "M1 1", "PLACES 1", "SLOTS 8"],
        [COMPLETE, "a slot is evicted under what is ready"],
    ),
    "sets": Scenario(["LAZY", "NAMES 3", TWICE, "M0 3", "M1 6", "M2 5"], [COMPLETE], many=True),
    "sets-added": Scenario(
        ["LAZY", "NAMES 4", "DYNAMIC", "M1 6", "PLACES 1", IN_SET],
        [COMPLETE, "a process set is removed while a tensor waits in it"],
    ),
    "join": Scenario(
        ["LAZY", "JOIN", "AFTER 1", UNEVEN],
        [COMPLETE, "a join completes a tensor", "a joined rank runs without data"],
        many=True,
    ),
    "join-queues": Scenario(["LAZY", "JOIN", CROSSED], [COMPLETE, "a rank joins with something queued"]),
    "learn": Scenario(
        ["LAZY", "LEARN 1", TWICE],
        [COMPLETE, "a batch is learned", "something is kept back"],
        ("chain",),
        many=True,
    ),
    "learn-star": Scenario(
        ["LEARN 1", TWICE], [COMPLETE, "a batch is learned", "something is kept back"], ("star",), many=True
    ),
    "learn-evict": Scenario(
        ["NAMES 3", "LEARN 1", FEWER, "PLACES 2", "SLOTS 8"],
        [COMPLETE, "a batch is learned", "a slot is evicted that is kept back"],
        ("chain",),
        many=True,
    ),
    "learn-join": Scenario(
        ["LEARN 1", "JOIN", UNEVEN],
        [COMPLETE, "a batch is learned", "something is kept back", "a joined rank runs without data"],
        many=True,
    ),
    "want": Scenario(WAITING + ["SYNC 4", "POLLS 3"], [COMPLETE, "a thread waits for what is kept back"]),
    "want-root": Scenario(
        WAITING + ["SYNC 1", "POLLS 6"], [COMPLETE, "a thread waits for what is kept back"]
    ),
    "want-learn": Scenario(
        ["LEARN 2", "SYNC 1", FEWER], [COMPLETE, "a batch is learned", "a thread waits for what is kept back"]
    ),
    "await": Scenario(
        AWAITING + ["AWAITS 4", "POLLS 3", "PROGRAM(r, n) ((n) == 0 || (r) == 2 || submitted[I(r, 0)] != 0)"],
        [COMPLETE, "a thread waits for what is reported", "what is waited for elsewhere is not kept back"],
    ),
    "await-root": Scenario(
        AWAITING + ["AWAITS 1", "POLLS 6", "PROGRAM(r, n) ((n) == 0 || (r) == 0 || submitted[I(r, 0)] != 0)"],
        [COMPLETE, "a thread waits for what is reported", "what is waited for elsewhere is not kept back"],
    ),
    "await-evict": Scenario(
        ["NAMES 3", "LEARN 1", FEWER, "AWAITS 4", "PLACES 2", "SLOTS 8"],
        [COMPLETE, "a thread waits for what is reported", "an order crosses word that it is waited for"],
        ("star",),
        many=True,
    ),
    "leave": Scenario(
        ["LAZY", TWICE, "M1 3", "LEAVERS 4"],
        [
            "what waits for a rank that left fails",
            "a rank ends after its goodbye",
            "an order comes after the end of its set",
        ],
    ),
    "leave-leader": Scenario(["LAZY", TWICE, "LEAVERS 2"], ["a rank ends after its goodbye"], ("chain",)),
    "leave-root": Scenario(["LAZY", TWICE, "LEAVERS 1"], ["a rank ends after its goodbye"], many=True),
    "leave-last": Scenario(
        ["LAZY", "LEAVERS 4", "LEAVE_LAST"], ["a rank ends after its goodbye"], ("chain",)
    ),
    "leave-all": Scenario(["LAZY", "LEAVERS 7"], ["a rank ends after its goodbye"], many=True),
    "leave-join": Scenario(
        ["JOIN", "LEAVERS 4", FEWER], ["a rank ends after its goodbye", "a pending join fails"]
    ),
    "crash-root": Scenario(
        [TWICE, "CRASHER 0"],
        [
            "a rank crashes",
            "orders are lost with the parent",
            "a crash leaves some with an order and some without",
        ],
        many=True,
    ),
    "crash-leader": Scenario(
        [TWICE, "CRASHER 1"],
        [
            "a rank crashes",
            "orders are lost with the parent",
            "reports are lost with a child",
            "a crash leaves some with an order and some without",
        ],
        ("chain",),
    ),
    "crash-leaf": Scenario(["LAZY", "CRASHER 2"], ["a rank crashes", "reports are lost with a child"]),
    "crash-cache": Scenario([TWICE, "PLACES 1", "SLOTS 8", "M1 6", "CRASHER 1"], ["a rank crashes"]),
    "crash-join": Scenario(
        ["JOIN", UNEVEN, "CRASHER 1"], ["a rank crashes", "a joined rank runs without data"], many=True
    ),
    "crash-sets": Scenario(["NAMES 4", "DYNAMIC", "M1 6", IN_SET, "CRASHER 1"], ["a rank crashes"]),
    "crash-learn": Scenario(["LEARN 1", FEWER, "CRASHER 0"], ["a rank crashes", "something is kept back"]),
    "crash-leave": Scenario(["LEAVERS 4", "CRASHER 1"], ["a rank crashes", "a rank ends after its goodbye"]),
    "room": Scenario(
        [],
        ["orders are held back", "the wish for a wake-up was taken down in vain"],
        ("chain",),
        model="room.pml",
    ),
    "baton": Scenario(
        [],
        [
            "a helper drives",
            "the time of a helper is up",
            "something comes to one that lies down",
            "something is submitted before the baton is back",
            "the coordinator's thread is called for what comes with the baton",
        ],
        ("chain",),
        model="baton.pml",
    ),
    "elastic": Scenario(
        [],
        [
            "all end",
            "an epoch begins without rank 0",
            "an epoch begins with a member that is dead",
            "an operation ends well though a rank is gone",
            "a survivor lacks the newest commit",
            "a process is lost after it has come to the meeting",
            "a process that was written off wakes",
            "a process wakes before it is written off",
            "a process is told that it was written off",
            "the training ends without rank 0",
        ],
        ("chain",),
        many=True,
        model="elastic.pml",
    ),
    # Longer jobs.
    "order-long": Scenario(["LAZY", "NAMES 3", TWICE, "PRIORITY"], [COMPLETE], large=True),
    "cache-long": Scenario(
        ["LAZY", "NAMES 3", TWICE, "PLACES 1", "SLOTS 8", "MOST 24"], [COMPLETE], large=True
    ),
    "sets-long": Scenario(
        ["LAZY", "NAMES 3", "TODO(r, n) 3", "M0 3", "M1 6", "M2 7", "MOST 24", "PLACES 2", "SLOTS 8"],
        [COMPLETE],
        large=True,
    ),
    "join-long": Scenario(
        ["LAZY", "JOIN", "AFTER 2", UNEVEN, "PLACES 1", "SLOTS 8", "MOST 24"], [COMPLETE], large=True
    ),
    "learn-long": Scenario(["LAZY", "LEARN 2", "TODO(r, n) 3", "SYNC 2", "MOST 24"], [COMPLETE], large=True),
    "crash-long": Scenario(
        ["LAZY", "TODO(r, n) 3", "CRASHER 1", "M1 6", "MOST 24"], ["a rank crashes"], large=True
    ),
}
MISTAKES = [
    Mistake("MISTAKE_ROOT_DOES_NOT_WAIT", "order", "the root does not wait for its children"),
    Mistake(
        "MISTAKE_ROOT_RUNS_BEFORE_NUMBERING", "order", "the root runs what is ready before it has numbered it"
    ),
    Mistake(
        "MISTAKE_RANKS_PLAN", "batches", "each rank plans its batches from the orders that it sees", "star"
    ),
    Mistake(
        "MISTAKE_EVICTED_SLOT_DROPPED", "cache", "a report by a slot that was evicted meanwhile is dropped"
    ),
    Mistake(
        "MISTAKE_SILENT_TELLS_NOTHING",
        "cache-silent",
        "a rank with nothing to report never says what it has seen",
    ),
    Mistake("MISTAKE_EVICTS_BY_ITSELF", "cache", "a rank evicts a slot without an order"),
    Mistake("MISTAKE_ORDER_TWICE", "cache", "an order is passed on twice"),
    Mistake(
        "MISTAKE_SUBTREE_FORGOTTEN", "sets", "an order does not reach a subtree that it concerns", "star"
    ),
    Mistake("MISTAKE_JOIN_OVERTAKES", "join", "a join overtakes what is queued behind its own name"),
    Mistake(
        "MISTAKE_JOIN_WAITS_FOR_QUEUES",
        "join-queues",
        "a join waits for what is queued before it is announced",
    ),
    Mistake("NO_DEADLINE", "learn", "what is kept back has no deadline"),
    Mistake("MISTAKE_WANT_NOT_PASSED_ON", "want", "that a thread waits is not passed on to the root"),
    Mistake(
        "MISTAKE_WANT_OF_ROOT_STAYS", "want-root", "that a thread of the root waits does not reach the others"
    ),
    Mistake(
        "MISTAKE_AWAITED_NOT_PASSED_ON",
        "await",
        "that a thread waits for what it has reported is not passed on",
    ),
    Mistake("MISTAKE_RUNS_AFTER_LEFT", "leave", "a set goes on by slot after a rank of it has left", "star"),
    Mistake("MISTAKE_GOODBYE_OVERTAKES", "leave-last", "a goodbye overtakes reports at a rank on its way"),
    Mistake(
        "MISTAKE_ROOM_NOT_WANTED_AGAIN", "room", "a driver sleeps though its wish to be woken was taken down"
    ),
    Mistake(
        "MISTAKE_LEAVES_WITHOUT_ROUND",
        "baton",
        "a helper whose time is up leaves what it has read for others to act on",
    ),
    Mistake(
        "MISTAKE_INBOX_LEFT_BEHIND",
        "baton",
        "a helper gives the baton back without a look at what was submitted",
    ),
    Mistake("MISTAKE_LOOKS_ONCE_BEFORE_SLEEP", "baton", "who has said that it sleeps does not look again"),
    Mistake("MISTAKE_LINKS_OUTLIVE_EPOCHS", "elastic", "a message of an epoch is read in the next one"),
    Mistake("MISTAKE_IGNORES_ROSTER", "elastic", "a survivor with an older commit takes itself for a holder"),
    Mistake("MISTAKE_ANSWER_OF_ANOTHER_VISIT", "elastic", "a process reads the answer to its visit before"),
    Mistake("MISTAKE_OPENS_WITHOUT_THE_LATE", "elastic", "an epoch begins without a survivor that is late"),
    Mistake("MISTAKE_LETS_THE_WRITTEN_OFF_IN", "elastic", "a process that was written off is awaited again"),
    Mistake("MISTAKE_LOSS_UNNOTICED", "elastic", "a rank does not notice that another one is lost"),
    Mistake("MISTAKE_LOST_PARENT_IGNORED", "crash-root", "a rank that has lost its parent fails nothing"),
]
