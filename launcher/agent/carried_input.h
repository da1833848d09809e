// What rank 0 reads, on its way from the launcher in frames.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class CarriedInput {
 public:
  /// Makes the pipe; take_end() is the rank's.
  Status open();
  Fd take_end() { return std::move(rank_end_); }

  /// Empty: the end.
  void take(std::string_view bytes);
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// Whether the rank has now taken all there was: more may come.
  bool handle(const pollfd& entry);

 private:
  Fd pipe_, rank_end_;
  std::string waiting_;
};

}  // namespace dabke::launcher
