// The entry points of elastic jobs.
#include "bindings/c/open_runtime.h"
#include "bindings/c/state.h"
#include "bindings/c/structs.h"
#include "runtime/bootstrap/place.h"

using namespace dabke;

namespace {

constexpr std::string_view kResult = "dabke_epoch";

}  // namespace

extern "C" {

dabke_status dabke_next_epoch(const dabke_epoch_options* options, dabke_epoch* result) {
  return entry([&]() -> Status {
    // Bad arguments must not cost the epoch.
    dabke_epoch_options given = DABKE_EPOCH_OPTIONS_INIT;
    DABKE_RETURN_IF_ERROR(read_struct(options, given, "dabke_epoch_options"));
    if (result != nullptr) DABKE_RETURN_IF_ERROR(write_struct(dabke_epoch{}, result, kResult));
    DABKE_ASSIGN_OR_RETURN(
        const auto epoch,
        start_next_epoch([&](const std::shared_ptr<ForkGuard>& fork_guard, BetweenEpochs& kept) {
          return open_next_epoch(given, fork_guard, kept);
        }));
    return result == nullptr ? Status() : write_struct(epoch->view(), result, kResult);
  });
}

dabke_status dabke_current_epoch(dabke_epoch* result) {
  return entry([&]() -> Status {
    const auto epoch = current_epoch();
    if (!epoch) return no_runtime();
    return write_struct(epoch->view(), result, kResult);
  });
}

uint64_t dabke_announced_changes(void) {
  return entry_or<uint64_t>(0, [] {
    const auto runtime = current_runtime();
    return runtime ? runtime->announced_changes() : 0;
  });
}

int dabke_is_elastic(void) {
  return entry_or(0, [] { return bootstrap::is_elastic(process_environment()) ? 1 : 0; });
}

}  // extern "C"
