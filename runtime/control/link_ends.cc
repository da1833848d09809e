#include "runtime/control/link_ends.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <span>

namespace dabke::control {
namespace {

using namespace std::chrono_literals;

class NullSink final : public links::FrameSink {
 public:
  void on_frame(std::span<const std::byte>) override {}
};

}  // namespace

void finish_links(std::vector<links::Link*> open, TimePoint deadline) {
  NullSink nothing;
  std::vector<bool> finished(open.size(), false);
  while (true) {
    std::vector<pollfd> waiting;
    int unfinished = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i] == nullptr) continue;
      open[i]->flush();
      if (!open[i]->wants_write() && !finished[i]) {
        open[i]->finish_sending();
        finished[i] = true;
      }
      const auto received = open[i]->receive(nothing);
      open[i]->flush();  // what came may have made room
      const bool over = !received.is_ok() || (finished[i] && open[i]->all_arrived());
      if (over) {
        open[i] = nullptr;
        continue;
      }
      // A stream stays readable for ever at its end. Then only time, or room to send, is worth waiting for.
      const bool at_end = *received == links::Link::Received::closed;
      const int events = (at_end ? 0 : POLLIN) | (open[i]->wants_write() ? POLLOUT : 0);
      ++unfinished;
      if (events != 0) waiting.push_back({open[i]->descriptor(), static_cast<short>(events), 0});
    }
    const auto now = Clock::now();
    if (unfinished == 0 || now >= deadline) return;
    // The arrival of our last bytes makes nothing readable, so this checks every few milliseconds.
    constexpr Duration kLook = 2ms;
    for (links::Link* link : open) {
      // Room in shared memory is reported only to a rank that has asked. Data that is already there is found
      // in a moment.
      if (link != nullptr) (void)link->prepare_to_sleep();
    }
    const int timeout_ms = poll_timeout_ms(std::min(deadline, now + kLook), now);
    const bool failed = ::poll(waiting.data(), waiting.size(), timeout_ms) < 0 && errno != EINTR;
    for (links::Link* link : open) {
      if (link != nullptr) link->woken();
    }
    if (failed) return;
  }
}

}  // namespace dabke::control
