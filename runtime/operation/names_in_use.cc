#include "runtime/operation/names_in_use.h"

#include <fmt/format.h>

namespace dabke {
namespace {

/// Calls without a tensor have no name of the caller's choice. Messages of one name follow each other.
bool counts(CollectiveKind kind) { return moves_data(kind) && kind != CollectiveKind::send_recv; }

}  // namespace

Status NamesInUse::take(const Request& request) {
  if (!counts(request.kind)) return {};
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    const std::string& name = request.tensors[i].name;
    try {
      if (names_.emplace(request.process_set, name).second) continue;
    } catch (...) {
      erase(request, i);
      throw;
    }
    erase(request, i);
    return {Code::duplicate_name,
            fmt::format("{}: a tensor of this name is still pending; wait for it or choose another "
                        "name (DABKE_DUPLICATE_NAMES=queue would queue it)",
                        name_of_call(request.kind, name))};
  }
  return {};
}

void NamesInUse::give_back(const Request& request) noexcept {
  if (!counts(request.kind)) return;
  const std::lock_guard lock(mutex_);
  erase(request, request.tensors.size());
}

void NamesInUse::erase(const Request& request, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = names_.find(Name(request.process_set, request.tensors[i].name));
    if (found != names_.end()) names_.erase(found);
  }
}

}  // namespace dabke
