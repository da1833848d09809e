// How well a device's times, as they stand in a timeline, fit the host's.
#pragma once

namespace dabke::test {

/// Prints a figure; the exit code.
int compare_clocks();

}  // namespace dabke::test
