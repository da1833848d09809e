// The input of rank 0, on its way from the launcher in frames.
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
  /// Makes the pipe. take_end() returns the rank's end.
  Status open();
  Fd take_end() { return std::move(rank_end_); }

  /// Takes bytes for the rank; none mean the end of input.
  void take(std::string_view bytes);
  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// True if the rank has now taken all bytes: more may come.
  bool handle(const pollfd& entry);

 private:
  Fd pipe_, rank_end_;
  std::string waiting_;
};

}  // namespace dabke::launcher
