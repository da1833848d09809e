#!/usr/bin/env python3
"""benchmarks/touched_lines.py counts touched cache lines by class, and the lines that pass between ranks.

touched_lines_test.py FOLDER_OF_BENCHMARKS
"""

import sys
import unittest

MAPS = """\
1000-3000 r-xp 00000000 fe:00 7     /b/libdabke.so.0
3000-4000 rw-p 00002000 fe:00 7     /b/libdabke.so.0
4000-5000 rw-p 00000000 00:00 0
6000-8000 rw-p 00000000 00:00 0     [heap]
9000-a000 rw-s 00003000 00:01 11    /memfd:link (deleted)
b000-c000 r-xp 00000000 fe:00 8     /lib/libc.so.6
d000-f000 rw-p 00000000 00:00 0     [stack]
"""


class TouchedLines(unittest.TestCase):
    def setUp(self):
        import touched_lines

        self.module = touched_lines
        self.space = touched_lines.Space(touched_lines.parse_maps(MAPS), stack_pointer=0xE800)

    def step(self, ip, *touches, rank=0, size=4, call=None):
        return self.module.Step(rank, ip, size, [self.module.Touch(*one) for one in touches], call)

    def summed(self, *steps):
        total = self.module.Sum()
        for step in steps:
            total.add(step)
        return total

    def test_what_lies_across_two_lines_touches_both(self):
        total = self.summed(self.step(0x103E), self.step(0x1042, (0x603C, 8, False)))
        self.assertEqual(list(total.code), [0x1000 // 64, 0x1040 // 64])
        self.assertEqual(list(total.data), [0x6000 // 64, 0x6040 // 64])
        self.assertEqual(total.instructions, 2)

    def test_a_line_that_was_written_once_is_written(self):
        total = self.summed(
            self.step(0x1000, (0x6000, 8, False)),
            self.step(0x1004, (0x6008, 8, True)),
            self.step(0x1008, (0x6010, 8, False), (0x6040, 8, False)),
        )
        self.assertEqual(total.by_class(self.space), {"heap": (2, 1, 1)})

    def test_each_mapping_has_its_class_and_zeroed_data_is_its_librarys(self):
        places = {
            0x1000: "libdabke",
            0x3000: "libdabke",
            0x4800: "libdabke",
            0x6000: "heap",
            0x9000: "shared segment",
            0xB000: "other libraries",
            0xE000: "stack",
        }
        self.assertEqual({place: self.space.class_of(place) for place in places}, places)

    def test_functions_are_summed_apart_with_their_system_calls(self):
        sums = self.module.sum_by(
            [self.step(0x1000), self.step(0xB000, size=2, call="futex"), self.step(0x1004)],
            lambda step: "ours" if step.ip < 0x3000 else "libc",
        )
        self.assertEqual({name: one.instructions for name, one in sums.items()}, {"ours": 2, "libc": 1})
        self.assertEqual(sums["libc"].calls, {"futex": 1})

    def test_a_source_file_is_its_code_and_the_header_of_its_name(self):
        sources = self.module.Sources()
        for path in (
            "/b/../runtime/core/inbox.cc",
            "../runtime/core/inbox.h",
            "../runtime/base/clock.h",
            "/usr/include/c++/12/mutex",
            "bindings/c/state.cc",
            "../bindings/cpp/dabke.hpp",
            "??",
        ):
            sources.add(path)
        self.assertEqual(
            sources, {"runtime/core/inbox": [1, 1], "runtime/base/clock": [0, 1], "bindings/c/state": [1, 0]}
        )
        self.assertEqual(sources.with_code(), ["runtime/core/inbox", "bindings/c/state"])

    def test_a_line_passes_between_ranks_once_for_each_time_it_was_written(self):
        # The second rank has the same segment at another address.
        other = self.module.Space(self.module.parse_maps(MAPS.replace("9000-a000", "a000-b000")))
        seen = self.module.HandOvers()
        for rank, space, address, writes in (
            (0, self.space, 0x9040, True),
            (1, other, 0xA040, False),
            (1, other, 0xA048, False),
            (0, self.space, 0x9040, True),
            (1, other, 0xA040, False),
            (0, self.space, 0x6000, True),
        ):
            seen.add(self.step(0x1000, (address, 8, writes), rank=rank), space)
        line = ("/memfd:link (deleted)", 11, 0x3040)
        self.assertEqual((dict(seen.reads), dict(seen.writes)), ({line: 2}, {line: 1}))


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    unittest.main(argv=sys.argv[:1])
