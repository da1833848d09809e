// The end of the links of a channel.
#pragma once

#include <vector>

#include "runtime/base/clock.h"
#include "runtime/links/link.h"

namespace dabke::control {

/// Waits until the host of every link's peer has all that was sent, until `deadline` at the latest. What
/// comes meanwhile is read and dropped, for two reasons. Two ranks that close at the same time must not wait
/// for each other's room. And a close with unread bytes would cut off the last bytes sent.
void finish_links(std::vector<links::Link*> open, TimePoint deadline);

}  // namespace dabke::control
