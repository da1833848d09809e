#!/usr/bin/env python3
"""Ranks on hosts made of network namespaces: sums are right on any shape, and a killed rank is named.

Usage: namespaces_test.py RANK_WORKER SECONDS, the time in which a loss is to be known. Exits with 77, which means
skipped, where namespaces are not permitted.
"""

import random
import sys
import time
import unittest

import namespaces

WORKER = sys.argv.pop(1)
PATIENCE = float(sys.argv.pop(1))
SHAPES = {"one a host": [0, 1], "two a host": [0, 0, 1, 1], "unequal": [0, 0, 1, 2], "in turn": [0, 1, 0, 1]}


def wait_for_output(ranks, text, seconds=60):
    deadline = time.monotonic() + seconds
    while not all(text in namespaces.output(rank) for rank in ranks):
        if time.monotonic() > deadline or any(rank.poll() is not None for rank in ranks):
            raise AssertionError(f"not all ranks have said '{text}': {[namespaces.output(rank) for rank in ranks]}")
        time.sleep(0.005)


class Namespaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = namespaces.Hosts(3).__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)

    def test_sums_are_right_on_every_shape_of_job_and_with_every_backend(self):
        for shape, places in SHAPES.items():
            for backend in ("auto", "tcp", "gloo"):
                with self.subTest(shape=shape, backend=backend):
                    ranks = self.hosts.start(places, [WORKER, "sums"], {"DABKE_CPU_OPERATIONS": backend})
                    for rank in ranks:
                        self.assertEqual(rank.wait(60), 0, namespaces.output(rank))
                        self.assertIn("sums are right", namespaces.output(rank))

    def expect_loss(self, ranks, places, victim):
        survivors = [rank for i, rank in enumerate(ranks) if i != victim]
        namespaces.kill(ranks[victim])
        for rank in survivors:
            self.assertEqual(rank.wait(PATIENCE), 3, namespaces.output(rank))
        for rank in survivors:
            self.assertIn("error peer_lost", namespaces.output(rank))
            self.assertIn(f"rank {victim} on host{places[victim]}", namespaces.output(rank))

    def test_a_rank_killed_in_a_large_allreduce_is_named_on_every_host(self):
        for places in ([0, 1], [0, 0, 1, 1]):
            for victim in range(len(places)):
                with self.subTest(places=places, victim=victim):
                    ranks = self.hosts.start(places, [WORKER, "large"])
                    wait_for_output(ranks, "ready")
                    time.sleep(random.random() / 5)  # anywhere in one
                    self.expect_loss(ranks, places, victim)

    def test_a_rank_killed_while_the_others_wait_for_it_is_named(self):
        for places in ([0, 1, 2], [0, 0, 1, 1]):
            with self.subTest(places=places):
                ranks = self.hosts.start(places, [WORKER, "alone"])
                wait_for_output(ranks[-1:], "ready")
                wait_for_output(ranks[:-1], "waiting")
                self.expect_loss(ranks, places, len(places) - 1)


if __name__ == "__main__":
    try:
        with namespaces.Hosts(1):
            pass
    except namespaces.NotPermitted as why:
        print(f"skipped: no network namespaces here: {why}")
        sys.exit(77)
    unittest.main()
