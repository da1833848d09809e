"""Checks that the campaign of faults can fail: its judge against made-up journals, its plans, its wire.

fault_test.py BUILD_DIR
"""

import pathlib
import sys
import unittest

import job as jobs
import judge as judges
import moments
import plan as plans
import summary
import wire

BUILD = pathlib.Path(sys.argv.pop(1))
KILL = plans.Fault(1, "steady state", 3, 0, "kill", plans.DEATH, "kill")
STOP = plans.Fault(1, "join", 0, 0, "stop", plans.NOTHING, "stop", "1.0", 1.0)
CUT = plans.Fault(2, "join", 0, 0, "link down and up", plans.SILENCE, "shell", "ip", 6.0)
DISK = plans.Fault(0, "throughout", 0, 0, "full disk", plans.NOTHING)


def plan(*faults, start="processes", places=()):
    return plans.Plan(1, 1, 5, 3, start, list(places), "auto/auto", list(faults))


def loss(at, rank, message, status="peer_lost"):
    return (
        at,
        rank,
        f"lost {status} call 1 'tensor a' in process set {{0,1,2}}: "
        f"allreduce sum int8[1] by ranks 0,1,2: {message}",
    )


def outcome(journal, codes=(0, -9, 0), said="", **more):
    done = [(9.0, rank, "done") for rank, code in enumerate(codes) if code == 0] if len(codes) == 3 else []
    return jobs.Outcome(list(codes), said, sorted([*journal, *done]), 0.0, {}, 1.0, **more)


def failures(planned, seen):
    return judges.judge(planned, seen).failures


GOOD = [
    (1.0, 1, "fault 0 kill"),
    loss(1.2, 0, "allreduce 'a': rank 1 on host-0: it closed its connection"),
    loss(1.3, 2, "allreduce 'a': rank 1 on host-0: it closed its connection"),
]


class TheJudge(unittest.TestCase):
    def check(self, found, text):
        self.assertTrue(any(text in failure for failure in found), found)

    def test_survivors_that_name_the_dead_rank_in_time_are_right(self):
        verdict = judges.judge(plan(KILL), outcome(GOOD))
        self.assertEqual(verdict.failures, [])
        self.assertEqual(verdict.know_seconds, {0: 0.2, 2: 0.3})

    def test_a_survivor_that_blames_another_is_wrong(self):
        wrong = [
            *GOOD[:2],
            loss(1.3, 2, "allreduce 'a': rank 0 on host-0: it closed its connection (rank 1 ...)"),
        ]
        self.check(failures(plan(KILL), outcome(wrong)), "rank 2 blames not [1]")

    def test_a_survivor_that_blames_nobody_is_wrong(self):
        self.check(
            failures(plan(KILL), outcome([*GOOD[:2], loss(1.3, 2, "allreduce 'a': broken")])),
            "rank 2 blames not [1]",
        )

    def test_a_survivor_that_knows_too_late_is_wrong(self):
        late = [*GOOD[:2], loss(3.5, 2, "allreduce 'a': rank 1 on host-0: it closed its connection")]
        self.check(failures(plan(KILL), outcome(late)), "rank 2 knew only 2.50 s after")
        self.assertEqual(failures(plan(KILL), outcome(late, machine_stood_still=0.3)), [])

    def test_a_loss_where_nobody_died_is_wrong(self):
        stopped = [
            (1.0, 1, "fault 0 stop"),
            loss(1.2, 0, "allreduce 'a': rank 1 on host-0: nothing received"),
        ]
        self.check(failures(plan(STOP), outcome(stopped, (0, 0, 0))), "nobody was to blame")
        self.assertEqual(failures(plan(STOP), outcome(stopped[:1], (0, 0, 0))), [])

    def test_a_cut_host_and_the_others_blame_each_other_and_not_their_own(self):
        cut = [
            (1.0, 2, "fault 0 shell"),
            loss(4.0, 0, "rank 2 on host1: nothing received"),
            loss(4.0, 2, "rank 0 on host0: gone"),
        ]
        planned = plan(CUT, start="hosts", places=[0, 0, 1])
        self.assertEqual(failures(planned, outcome(cut, (0, 0, 0))), [])
        self.check(
            failures(planned, outcome([*cut, loss(4.1, 1, "rank 0 on host0: gone")], (0, 0, 0))),
            "rank 1 blames not [2]",
        )

    def test_a_rank_that_reports_through_a_silent_one_may_see_only_the_connections_of_others(
        self,
    ):
        silent = plans.Fault(1, "join", 0, 0, "stop", plans.SILENCE, "stop", "6.0", 6.0)
        planned = plan(silent, start="hosts", places=[0, 1, 1])
        gone = [(1.0, 1, "fault 0 stop"), loss(3.2, 0, "rank 1 on host1: nothing received for 2 s")]
        seen = loss(
            4.3,
            2,
            "gloo allgather, rank 2 of 3 in process set 0: lost the connection to rank 0 on host0: closed",
        )
        self.assertEqual(failures(planned, outcome([*gone, seen], (0, 0, 0))), [])
        other = loss(4.3, 2, "rank 0 on host0: it closed its connection")
        self.check(failures(planned, outcome([*gone, other], (0, 0, 0))), "rank 2 blames not [1]")
        elsewhere = plan(silent, start="hosts", places=[0, 1, 2])
        self.check(failures(elsewhere, outcome([*gone, seen], (0, 0, 0))), "rank 2 blames not [1]")

    def test_what_a_rank_says_of_itself_and_what_is_left_behind_count(self):
        self.check(
            failures(plan(KILL), outcome(GOOD, said="storm: seed 1, rank 0: call 1: element 0 is 3, not 4")),
            "element 0",
        )
        self.check(failures(plan(KILL), outcome(GOOD, left=["process 7: worker"])), "left behind: process 7")
        self.check(failures(plan(KILL), outcome(GOOD, (None, -9, 0))), "hung")
        self.check(failures(plan(KILL), outcome(GOOD, (0, -9, -11))), "rank 2 ended with code -11")

    def test_dabkerun_must_blame_the_dead_rank(self):
        planned = plan(KILL, start="dabkerun")
        said = "dabkerun: first failure: rank {} on host"
        self.assertEqual(failures(planned, outcome(GOOD, (137,), said.format(1))), [])
        self.check(
            failures(planned, outcome(GOOD, (137,), said.format(2))), "blames dabkerun: first failure: rank 2"
        )
        self.check(failures(planned, outcome(GOOD, (0,))), "dabkerun ended with code 0")

    def test_where_mpirun_has_killed_a_survivor_the_others_may_have_seen_that_first(self):
        blamed = [
            GOOD[0],
            loss(1.2, 2, "allreduce 'a': rank 0 on host-0: it closed its connection"),
            (1.3, 2, "done"),
        ]
        self.assertEqual(failures(plan(KILL, start="mpich"), outcome(blamed, (9,))), [])
        self.check(
            failures(plan(KILL, start="mpich"), outcome([*blamed, (1.4, 0, "done")], (9,))),
            "rank 2 blames not [1]",
        )

    def test_where_mpirun_has_ended_the_rank_that_serves_the_store_nobody_is_blamed(self):
        gone = [
            GOOD[0],
            (
                1.1,
                2,
                "lost transport dabke_init: no answer from the rendezvous store http://127.0.0.1:1: refused",
            ),
        ]
        self.assertEqual(failures(plan(KILL, start="mpich"), outcome(gone, (9,))), [])
        self.check(failures(plan(KILL), outcome(gone)), "rank 2 blames not [1]")

    def test_only_for_a_rank_that_never_came_init_takes_its_time_and_what_a_rank_waited_for_is_blamed(self):
        late = [
            GOOD[0],
            (
                10.5,
                0,
                "lost timeout dabke_init: rank 1 did not call dabke_init within 10 s "
                "(DABKE_START_TIMEOUT_SECONDS); start all 2 ranks, or raise that limit. "
                "Rank 0 waited in epoch 1 at file:/x",
            ),
        ]
        verdict = judges.judge(plan(KILL), outcome(late))
        self.assertEqual(verdict.failures, [])
        self.assertEqual((verdict.know_seconds, verdict.init_seconds), ({}, {0: 9.5}))
        later = [GOOD[0], (2.9, 0, "init"), (13.1, 0, late[1][2])]
        self.assertEqual(failures(plan(KILL), outcome(later)), [])
        self.check(failures(plan(KILL), outcome([later[0], later[2]])), "rank 0 knew only 12.10 s after")
        slow = [GOOD[0], (3.5, 0, "lost timeout dabke_init: rank 0 has no link to rank 1 on a")]
        self.check(failures(plan(KILL), outcome(slow)), "rank 0 knew only 2.50 s after")
        self.assertEqual(failures(plan(KILL), outcome([(2.0, 2, "init"), *slow])), [])
        wrong = [GOOD[0], (10.5, 2, "lost timeout dabke_init: rank 0 does not answer in time")]
        self.check(failures(plan(KILL), outcome(wrong)), "rank 2 blames not [1]")

    def test_of_two_that_share_no_memory_either_may_be_the_one_that_failed(self):
        text = (
            "rank 1 failed in dabke_init: DABKE_CONTROLLER=shm: rank 1 shares no memory with rank 0 on vm: "
            "descriptors were cut off"
        )
        self.assertEqual(
            failures(plan(KILL), outcome([GOOD[0], (1.1, 2, "lost transport dabke_init: " + text)])), []
        )
        self.check(
            failures(
                plan(KILL),
                outcome([GOOD[0], (1.1, 2, "lost transport dabke_init: " + text.replace("1", "3"))]),
            ),
            "rank 2 blames not [1]",
        )

    def test_who_came_when_the_epoch_had_ended_waits_for_another_and_is_told_of_that_one(self):
        told = (
            "lost timeout dabke_init: ranks 0 (last in epoch 1), 1 did not call dabke_init within 10 s "
            "(DABKE_START_TIMEOUT_SECONDS); start all 3 ranks, or raise that limit. "
            "Rank 2 waited in epoch 2 at file:/x. "
            "Rank 0 reported of epoch 1: process 77 of rank {} on vm ended in dabke_init "
            "(killed, or ended without dabke_shutdown)"
        )
        self.assertEqual(failures(plan(KILL), outcome([*GOOD[:2], (11.0, 2, told.format(1))])), [])
        self.check(
            failures(plan(KILL), outcome([*GOOD[:2], (11.0, 2, told.format(0))])), "rank 2 blames not [1]"
        )

    def test_what_rank_0_lacked_itself_is_its_own_blame(self):
        told = (
            "lost timeout dabke_init: rank 0 (last in epoch 1) did not call dabke_init within 10 s "
            "(DABKE_START_TIMEOUT_SECONDS); start all 3 ranks, or raise that limit. "
            "Rank 2 waited in epoch 2 at file:/x. "
            "Rank 0 reported of epoch 1: cannot read /x/1/hello/1.value: Too many open files"
        )
        self.assertEqual(judges.blamed_in(told, 2), [0])

    def test_of_a_connection_that_is_not_made_either_end_may_be_to_blame(self):
        told = (
            "lost TransportError alltoall 'a': alltoall 'a' failed on rank 0: "
            "gloo alltoall of 1 tensor (order 3), rank 0 of 3 in process set 0: "
            "connecting to rank 1 on host (limit 10 s): connect [127.0.0.1]:5004: Connection reset by peer"
        )
        self.assertEqual(judges.blamed_in(told, 2), [0, 1])


class TheMoments(unittest.TestCase):
    """Rank 0 sends message 3 to rank 1, which waits for it."""

    JOURNAL = (
        (1.0, 1, "message 3 submitted"),
        (1.2, 0, "message 3 submitted"),
        (1.5, 0, "message 3 ended"),
        (1.7, 1, "message 3 ended"),
        (1.1, 2, "message 4 submitted"),
    )

    def phases(self, rank, at, until=None, journal=JOURNAL):
        """The phases that a fault of the rank hits."""
        notes = moments.Notes(journal)
        return [
            phase for phase in moments.PHASES if notes.were_hit(phase, 3, rank, at, until if until else at)
        ]

    def test_each_phase_is_the_time_between_two_notes(self):
        moving = [moments.MOVING, moments.STAGED]
        self.assertEqual(self.phases(0, 0.9), [])
        self.assertEqual(self.phases(0, 1.1), [moments.AWAITED, moments.QUESTION])
        self.assertEqual(self.phases(1, 1.1), [moments.ANNOUNCED, moments.QUESTION])
        self.assertEqual(self.phases(0, 1.3), moving)
        self.assertEqual(self.phases(1, 1.6), [moments.HALF_DONE])
        self.assertEqual(self.phases(1, 1.8), [])

    def test_a_rank_that_is_stopped_and_killed_is_killed_when_the_other_end_has_completed(self):
        self.assertIn(moments.HALF_DONE, self.phases(1, 1.1, 1.6))
        self.assertNotIn(moments.HALF_DONE, self.phases(1, 1.1, 1.3))

    def test_data_has_moved_only_in_part_where_the_receiver_has_failed(self):
        for arrived, hits in ((0, False), (1, True), (999, True), (1000, False)):
            journal = [*self.JOURNAL[:2], (1.9, 1, f"message 3 arrived {arrived}")]
            self.assertEqual(moments.MOVING in self.phases(0, 1.3, journal=journal), hits)

    def test_only_faults_in_the_phases_of_messages_can_miss_them(self):
        missed = plans.Fault(1, moments.HALF_DONE, 3, 0, "kill", plans.DEATH, "kill", point="ended")
        verdict = judges.judge(plan(missed), outcome(GOOD))
        self.assertEqual((verdict.struck, verdict.hit), ([missed], []))
        verdict = judges.judge(plan(KILL), outcome(GOOD))
        self.assertEqual((verdict.struck, verdict.hit), ([KILL], [KILL]))


class ThePlans(unittest.TestCase):
    def test_a_seed_is_a_plan(self):
        worker = plans.Worker(str(BUILD / "tests" / "storm" / "storm_worker"))
        seeds = [*range(1, 41), *filter(plans.is_of_messages, range(41, 321))]
        texts = [str(plans.plan_of(seed, worker)) for seed in seeds]
        self.assertEqual(texts[6], str(plans.plan_of(7, worker)))
        self.assertEqual(len(set(texts)), len(seeds))
        for phase in plans.PHASES:
            self.assertTrue(any(phase in text for text in texts), phase)

    def test_a_seed_of_python_is_a_plan_too(self):
        worker = plans.Worker(sys.executable, str(pathlib.Path(__file__).with_name("python_rank.py")))
        seeds = [seed for seed in range(1, 101) if plans.is_of_python(seed)]
        texts = [str(plans.plan_of(seed, worker)) for seed in seeds]
        self.assertEqual(texts[0], str(plans.plan_of(seeds[0], worker)))
        self.assertTrue(5 <= len(set(texts)) == len(seeds) <= 20, seeds)
        self.assertTrue(all("Python ranks" in text for text in texts))

    def test_the_summary_counts_what_struck(self):
        row = {
            "faults": [["kill", "join", True, True], ["stop", "join", False, False]],
            "failures": [],
            "start": "hosts",
            "know": {"0": 0.5},
            "know in init": {},
        }
        one = {
            "faults": [["kill", "join", True, False]],
            "failures": [],
            "start": "hosts",
            "know": {"0": 0.25, "2": 0.3},
            "know in init": {},
        }
        self.assertIn("| kill | join | 2 | 1 | 0 | 0.30 s |  |", summary.table([row, one]))


class TheWire(unittest.TestCase):
    def arrivals(self, **fate):
        direction = wire.Direction("7 0", **{"delay": 0.01, "jitter": 0.002, "loss": 0, "reorder": 0, **fate})
        return [direction.arrival(number * 1e-4) for number in range(1000)]

    def test_frames_keep_their_order_and_their_delay(self):
        arrivals = self.arrivals()
        self.assertEqual(arrivals, sorted(arrivals))
        self.assertTrue(
            all(0.008 <= at - number * 1e-4 <= 0.012 + 1e-9 for number, at in enumerate(arrivals))
        )

    def test_a_seed_decides_which_frames_are_lost_and_which_are_passed(self):
        lossy = self.arrivals(loss=0.1)
        self.assertEqual(lossy, self.arrivals(loss=0.1))
        self.assertTrue(50 < lossy.count(None) < 150)
        passed = self.arrivals(reorder=0.1)
        self.assertTrue(50 < sum(a > b for a, b in zip(passed, passed[1:])) < 150)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
