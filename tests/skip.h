// A test case that cannot run where it is.
#pragma once

#include <catch2/catch.hpp>

/// Ends the test case. It counts as skipped, with this reason, by what tests/counting reads: Catch2 itself
/// knows passed and failed alone. Everything that the machine allows belongs into test cases of its own; nor
/// may it stand in a section that others come after, which Catch2 would then not find.
#define DABKE_SKIP(reason)       \
  do {                           \
    WARN("skipped: " << reason); \
    return;                      \
  } while (false)
