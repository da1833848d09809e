// Skips a test case that cannot run on this machine.
#pragma once

#include <catch2/catch.hpp>

/// Ends the test case. Catch2 has no skipped state, so tests/counting reads this warning and counts the case
/// as skipped, with the reason. Checks that the machine does allow belong in a test case of their own. Do not
/// skip in a section that other sections follow: Catch2 would not find those.
#define DABKE_SKIP(reason)       \
  do {                           \
    WARN("skipped: " << reason); \
    return;                      \
  } while (false)
