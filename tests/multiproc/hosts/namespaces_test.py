#!/usr/bin/env python3
"""Ranks on hosts made of network namespaces: sums are right on any shape of job, and a killed rank is named.

Usage: namespaces_test.py RANK_WORKER EXCHANGE_WORKER SECONDS

SECONDS is the time within which ranks must report a loss. Exits with 77, which means skipped, where
namespaces are not permitted.
"""

import random
import subprocess
import sys
import time
import unittest

import namespaces
from job_processes import PEER_TIMEOUT

WORKER = sys.argv.pop(1)
EXCHANGE_WORKER = sys.argv.pop(1)
PATIENCE = float(sys.argv.pop(1))
START_TIMEOUT = 10 if PATIENCE <= 10 else 15  # all ranks arrive within this time, also on a busy machine
SHAPES = {"one a host": [0, 1], "two a host": [0, 0, 1, 1], "unequal": [0, 0, 1, 2], "in turn": [0, 1, 0, 1]}


def wait_for_output(ranks, text, seconds=200):
    deadline = time.monotonic() + seconds
    while not all(text in namespaces.output(rank) for rank in ranks):
        if time.monotonic() > deadline or any(rank.poll() is not None for rank in ranks):
            raise AssertionError(
                f"not all ranks have said '{text}': {[namespaces.output(rank) for rank in ranks]}"
            )
        time.sleep(0.005)


class Namespaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = namespaces.opened(cls, namespaces.Hosts(4))

    def expect_end(self, rank, seconds, code):
        try:
            self.assertEqual(rank.wait(seconds), code, namespaces.output(rank))
        except subprocess.TimeoutExpired:
            self.fail(f"not ended after {seconds} s: {rank.args}; it has printed:\n{namespaces.output(rank)}")

    def test_sums_are_right_on_every_shape_of_job_and_with_every_backend(self):
        for shape, places in SHAPES.items():
            for backend in ("auto", "tcp", "gloo"):
                with self.subTest(shape=shape, backend=backend):
                    ranks = self.hosts.start(places, [WORKER, "sums"], {"DABKE_CPU_OPERATIONS": backend})
                    for rank in ranks:
                        self.expect_end(rank, 200, 0)
                        self.assertIn("sums are right", namespaces.output(rank))

    def table_of(self, environment):
        """Runs ranks on three hosts, whose sums must be right. Returns rank 0's output, which lists the
        addresses."""
        ranks = self.hosts.start([0, 1, 1, 2], [WORKER, "sums"], {"DABKE_LOG_LEVEL": "info", **environment})
        for rank in ranks:
            self.expect_end(rank, 200, 0)
        return namespaces.output(ranks[0])

    def test_an_address_that_every_host_has_is_never_chosen(self):
        for names in (
            {},
            {"DABKE_NETWORK_INTERFACE": "docker0,eth0"},
            {"DABKE_NETWORK_INTERFACE": "172.17.0.0/16,10.77.0.0/24"},
        ):
            with self.subTest(**names):
                table = self.table_of(names)
                for host, rank in ((0, 0), (1, 1), (2, 3)):
                    self.assertRegex(table, rf"rank {rank} on host{host}: 10\.77\.0\.{host + 1} \(eth0\)")
                self.assertRegex(table, r"not 172\.17\.0\.1 \(docker0\): from rank \d on host\d: ")

    def test_ranks_that_a_program_brings_together_find_rank_0_though_its_first_address_leads_nowhere(self):
        for names in (
            {},
            {"DABKE_NETWORK_INTERFACE": "docker0,eth0"},
            {"DABKE_NETWORK_INTERFACE": "docker0,fd77::/64"},
        ):
            with self.subTest(**names):
                ranks = self.hosts.start([0, 1, 1, 2], [EXCHANGE_WORKER], names)
                for rank in ranks:
                    self.expect_end(rank, 200, 0)
                    self.assertIn("the sum is right", namespaces.output(rank))

    def test_ranks_that_find_rank_0_at_none_of_its_addresses_say_what_was_tried(self):
        ranks = self.hosts.start(
            [0, 1],
            [EXCHANGE_WORKER],
            {
                "DABKE_NETWORK_INTERFACE": "docker0,127.0.0.1",
                "DABKE_START_TIMEOUT_SECONDS": f"{START_TIMEOUT}",
            },
        )
        for rank in ranks:
            self.expect_end(rank, START_TIMEOUT + PATIENCE, 3)
        self.assertRegex(
            namespaces.output(ranks[1]),
            r"the rendezvous store of rank 0 cannot be reached from this host at any of "
            r"its addresses: 172\.17\.0\.1:\d+ \(.+\), 127\.0\.0\.1:\d+ \(.+\)\. .*DABKE_NETWORK_INTERFACE",
        )
        self.assertIn("rank 1", namespaces.output(ranks[0]))

    def test_ranks_meet_over_ipv6(self):
        table = self.table_of({"DABKE_NETWORK_INTERFACE": "fd77::/64"})
        for host, rank in ((0, 0), (1, 1), (2, 3)):
            self.assertIn(f"rank {rank} on host{host}: fd77::{host + 1} (eth0)", table)

    def test_hosts_that_share_only_what_leads_nowhere_are_told_what_was_tried(self):
        ranks = self.hosts.start(
            [0, 1],
            [WORKER, "sums"],
            {"DABKE_NETWORK_INTERFACE": "docker0", "DABKE_START_TIMEOUT_SECONDS": f"{START_TIMEOUT}"},
        )
        for rank in ranks:
            self.expect_end(rank, START_TIMEOUT + PATIENCE, 3)
            self.assertRegex(
                namespaces.output(rank),
                r"rank [01] on host[01] cannot be reached from rank [01] on host[01]"
                r" at any of its addresses: 172\.17\.0\.1 \(docker0\): .*DABKE_NETWORK_INTERFACE",
            )

    def expect_loss(self, ranks, places, victim):
        survivors = [rank for i, rank in enumerate(ranks) if i != victim]
        namespaces.kill(ranks[victim])
        for rank in survivors:
            self.expect_end(rank, PATIENCE, 3)
        for rank in survivors:
            self.assertIn("error peer_lost", namespaces.output(rank))
            self.assertIn(f"rank {victim} on host{places[victim]}", namespaces.output(rank))

    def test_a_rank_killed_in_a_large_allreduce_is_named_on_every_host(self):
        for places in ([0, 1], [0, 0, 1, 1]):
            for victim in range(len(places)):
                with self.subTest(places=places, victim=victim):
                    ranks = self.hosts.start(places, [WORKER, "large"])
                    wait_for_output(ranks, "ready")
                    time.sleep(random.random() / 5)  # anywhere in an allreduce
                    self.expect_loss(ranks, places, victim)

    def test_a_rank_killed_while_the_others_wait_for_it_is_named(self):
        for places in ([0, 1, 2], [0, 0, 1, 1]):
            with self.subTest(places=places):
                ranks = self.hosts.start(places, [WORKER, "alone"])
                wait_for_output(ranks[-1:], "ready")
                wait_for_output(ranks[:-1], "waiting")
                self.expect_loss(ranks, places, len(places) - 1)

    def expect_cut(self, ranks, places):
        """Expects that the ranks of hosts 1 and 2 report the loss of each other. Rank 0 is on host 0."""
        for rank in ranks:
            self.expect_end(rank, PEER_TIMEOUT + PATIENCE, 3)
        for rank in ranks:
            error = [line for line in namespaces.output(rank).splitlines() if line.startswith("error ")][-1]
            self.assertIn("error peer_lost", error)
            lost = error.partition(": lost ")[2]
            self.assertRegex(lost, r"^rank \d+ on host[12]:", error)
            self.assertIn("DABKE_PEER_TIMEOUT_SECONDS", lost)
            self.assertNotRegex(error, r"reset|closed|10\.77")

    def cut_cases(self):
        """Jobs in which hosts 1 and 2 will lose each other. Small tensors use Dabke's own TCP links, large
        ones use Gloo. The large case comes twice, because a loss in the middle of a message matters there."""
        limits = {"DABKE_PEER_TIMEOUT_SECONDS": f"{PEER_TIMEOUT}"}
        # The second and the last of four ranks send to each other, with every backend.
        for places in ([0, 1, 3, 2], [0, 0, 1, 1, 3, 3, 2, 2]):
            for kind, backend in (
                ("later-small", "auto"),
                ("later-large", "auto"),
                ("later-large", "auto"),
                ("later-small", "gloo"),
            ):
                ranks = self.hosts.start(places, [WORKER, kind], {"DABKE_CPU_OPERATIONS": backend, **limits})
                wait_for_output(ranks, "ready")
                yield {"kind": kind, "places": places, "backend": backend}, places, ranks

    def test_hosts_that_lose_each_other_while_data_moves_are_named(self):
        for case, places, ranks in self.cut_cases():
            for rank in ranks:
                namespaces.tell(rank)
            time.sleep(0.2 + random.random() / 5)  # anywhere in a call
            with self.subTest(**case), self.hosts.cut(1, 2):
                self.expect_cut(ranks, places)

    def test_hosts_that_lost_each_other_while_nothing_moved_are_named_by_the_next_call(self):
        for case, places, ranks in self.cut_cases():
            with self.subTest(**case), self.hosts.cut(1, 2):
                time.sleep(random.random() * 5)  # the kernel may or may not have noticed
                for rank in ranks:
                    namespaces.tell(rank)
                self.expect_cut(ranks, places)

    def test_hosts_that_cannot_reach_each_other_from_the_start_are_named(self):
        for backend in ("auto", "gloo"):
            with self.subTest(backend=backend), self.hosts.cut(1, 2):
                limits = {"DABKE_START_TIMEOUT_SECONDS": f"{START_TIMEOUT}", "DABKE_CPU_OPERATIONS": backend}
                ranks = self.hosts.start([0, 1, 3, 2], [WORKER, "later-large"], limits)
                for rank in ranks:
                    self.expect_end(rank, START_TIMEOUT + PATIENCE, 3)
                    self.assertRegex(namespaces.output(rank), r"rank [13] on host[12]")
                    self.assertIn("DABKE_START_TIMEOUT_SECONDS", namespaces.output(rank))

    def test_a_cut_link_is_noticed_while_nothing_moves_though_the_hosts_share_their_process_ids(self):
        for shared in (False, True):
            with self.subTest(one_pid_namespace=shared):
                ranks = self.hosts.start(
                    [0, 1], [WORKER, "alone"], {"DABKE_PEER_TIMEOUT_SECONDS": f"{PEER_TIMEOUT}"}, shared
                )
                wait_for_output(ranks[1:], "ready")
                wait_for_output(ranks[:1], "waiting")
                while not (self.hosts.is_idle(0) and self.hosts.is_idle(1)):
                    time.sleep(0.01)
                with self.hosts.cut(0, 1):
                    self.expect_end(ranks[0], PEER_TIMEOUT + PATIENCE, 3)
                error = namespaces.output(ranks[0])
                self.assertIn("error peer_lost", error)
                self.assertIn(
                    f"rank 1 on host1: nothing received for {PEER_TIMEOUT} s (DABKE_PEER_TIMEOUT_SECONDS)",
                    error,
                )
                namespaces.kill(ranks[1])


if __name__ == "__main__":
    unittest.main()
