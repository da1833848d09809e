#!/usr/bin/env python3
"""The names that order_of_call.py finds in a library."""

import unittest

import order_of_call

SCRIPT = """/* The functions of a blocking call. */
SECTIONS {
  .text.call : ALIGN(64) {
    *(.text.dabke_allreduce*)
    *(.text._ZN5dabke7kernels*12reduce_dtypeE*)
  }
} INSERT BEFORE .text;
"""


class OrderOfCall(unittest.TestCase):
    def test_the_names_are_those_of_the_sections(self):
        self.assertEqual(
            order_of_call.read_patterns(SCRIPT), ["dabke_allreduce*", "_ZN5dabke7kernels*12reduce_dtypeE*"]
        )

    def test_a_name_is_there_whatever_the_compiler_or_highway_has_added_to_it(self):
        symbols = ["dabke_allreduce.cold", "_ZN5dabke7kernels6N_AVX212reduce_dtypeEv"]
        self.assertEqual(order_of_call.missing_from(order_of_call.read_patterns(SCRIPT), symbols), [])

    def test_a_function_of_another_namespace_is_missing(self):
        symbols = ["_ZN15dabke_allreduceEv", "_ZN5dabke7kernels6N_AVX2", "12reduce_dtypeE"]
        self.assertEqual(len(order_of_call.missing_from(order_of_call.read_patterns(SCRIPT), symbols)), 2)


if __name__ == "__main__":
    unittest.main()
