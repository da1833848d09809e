// The tensor names that are pending on this rank, for jobs in which a second use of a pending name is an
// error.
//
// The submitting call takes the names, and returns the error itself. The names are free before the end of the
// operation is visible. A thread that has waited, and every callback, can therefore use them again.
#pragma once

#include <compare>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/call/request.h"

namespace dabke {

/// May be used from any thread.
class NamesInUse {
 public:
  /// Takes the names of all tensors of the request, or none.
  ///   errors  duplicate_name, with the name that is pending, or that the request has twice
  Status take(const Request& request);
  void give_back(const Request& request) noexcept;

 private:
  using Name = std::pair<ProcessSetId, std::string_view>;
  struct Less {
    using is_transparent = void;
    static Name view(const std::pair<ProcessSetId, std::string>& name) { return {name.first, name.second}; }
    static Name view(const Name& name) { return name; }
    bool operator()(const auto& a, const auto& b) const { return view(a) < view(b); }
  };
  void erase(const Request& request, std::size_t count);

  std::mutex mutex_;
  std::set<std::pair<ProcessSetId, std::string>, Less> names_;
};

}  // namespace dabke
