// What a process that was forked keeps open.
#pragma once

#include <initializer_list>
#include <vector>

namespace dabke::launcher {

void close_descriptors(unsigned first, unsigned last);
/// 0, 1 and 2 stay as well: a descriptor made later must not take their numbers.
void close_all_but(std::vector<int> kept);
/// Each of `targets` becomes /dev/null. False when there is none.
bool stand_in_null(std::initializer_list<int> targets);

}  // namespace dabke::launcher
