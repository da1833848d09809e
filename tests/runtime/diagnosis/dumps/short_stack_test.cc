#include "runtime/diagnosis/dumps/short_stack.h"

#include <catch2/catch.hpp>

namespace dabke::test {

using Lines = std::vector<std::string>;

TEST_CASE("of a Python program its own lines are told, and native frames in one") {
  const std::string python =
      "Thread 0x00007f0001 (most recent call first):\n"
      "  File \"/usr/lib/python3.11/threading.py\", line 324 in wait\n"
      "  File \"/home/ada/loader.py\", line 7 in prefetch\n"
      "\n"
      "Thread 0x00007f0002 (most recent call first):\n"
      "  File \"/home/ada/venv/lib/python3.11/site-packages/torch/nn/module.py\", line 9 in forward\n"
      "  File \"/home/ada/train.py\", line 6 in validate\n"
      "  File \"/home/ada/train.py\", line 12 in step\n"
      "  File \"/home/ada/train.py\", line 30 in main\n"
      "  File \"/home/ada/train.py\", line 40 in <module>\n";
  const std::vector<diagnosis::Dump::Stack> native = {
      {10,
       "python",
       {"(asleep in the kernel: hrtimer_nanosleep)", "clock_nanosleep (libc.so.6)", "time_sleep (python3.11)",
        "_start (python3.11)"}},
      {11, "loader", {"poll (libc.so.6)"}}};
  CHECK(diagnosis::short_stack(python, native) ==
        Lines{"/home/ada/train.py:6 in validate", "/home/ada/train.py:12 in step",
              "/home/ada/train.py:30 in main",
              "below it: clock_nanosleep (libc.so.6), asleep in the kernel: "
              "hrtimer_nanosleep (2 native frames more)"});
}

TEST_CASE("where the main thread has no line of the program's own another thread's are told") {
  const std::string python =
      "Thread 0x00007f0001 (most recent call first):\n"
      "  File \"loader.py\", line 7 in prefetch\n"
      "\n"
      "Current thread 0x00007f0002 (most recent call first):\n"
      "  File \"<frozen runpy>\", line 88 in _run_code\n";
  CHECK(diagnosis::short_stack(python, {}) == Lines{"loader.py:7 in prefetch"});
}

TEST_CASE("of a program without an interpreter its own functions are told, with lines where there are") {
  const std::vector<diagnosis::Dump::Stack> with_lines = {
      {10,
       "train",
       {"(asleep in the kernel: do_sys_pause)", "pause (libc.so.6)",
        "(anonymous namespace)::load(int) at train.c:4 (train)", "main at train.c:12 (train)",
        "__libc_start_main (libc.so.6)", "_start (train)"}}};
  CHECK(diagnosis::short_stack("", with_lines) ==
        Lines{"train.c:4 in (anonymous namespace)::load(int)", "train.c:12 in main",
              "below it: pause (libc.so.6), asleep in the kernel: do_sys_pause"});
  const std::vector<diagnosis::Dump::Stack> sanitized = {
      {10,
       "train",
       {"pause (libc.so.6)", "__interceptor_pause at tsan_interceptors_posix.cpp:366 (libtsan.so.2)",
        "main at train.c:12 (train)"}}};
  CHECK(diagnosis::short_stack("", sanitized) ==
        Lines{"train.c:12 in main", "below it: pause (libc.so.6) (1 native frame more)"});
  const std::vector<diagnosis::Dump::Stack> running = {
      {10, "train", {"(running)", "spin (train)", "main (train)"}}};
  CHECK(diagnosis::short_stack("", running) == Lines{"spin (train)", "main (train)", "(running)"});
  const std::vector<diagnosis::Dump::Stack> unknown = {
      {10, "train", {"pause (libc.so.6)", "0x1234 (train)"}}};
  CHECK(diagnosis::short_stack("", unknown) == Lines{"pause (libc.so.6) (1 native frame more)"});
}

TEST_CASE("what a stack provider says in a form of its own is shown, as far as it is short") {
  CHECK(diagnosis::short_stack("a.jl:1\nb.jl:2\n\nc.jl:3\nd.jl:4\n", {}) ==
        Lines{"a.jl:1", "b.jl:2", "c.jl:3"});
  CHECK(diagnosis::short_stack("", {}).empty());
}

}  // namespace dabke::test
