// The descriptors that a forked process keeps open.
#pragma once

#include <initializer_list>
#include <vector>

namespace dabke::launcher {

void close_descriptors(unsigned first, unsigned last);
/// Keeps 0, 1 and 2 as well: a later descriptor must not take their numbers.
void close_all_but(std::vector<int> kept);
/// Makes each of `targets` refer to /dev/null. False if that cannot be opened.
bool stand_in_null(std::initializer_list<int> targets);

}  // namespace dabke::launcher
