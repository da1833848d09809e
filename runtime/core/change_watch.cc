#include "runtime/core/change_watch.h"

#include <utility>

#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"

namespace dabke::core {

Result<std::unique_ptr<ChangeWatch>> ChangeWatch::open(std::shared_ptr<store::Store> job, std::uint64_t known,
                                                       std::function<void(std::uint64_t changes)> announced) {
  std::unique_ptr<ChangeWatch> watch(new ChangeWatch(std::move(job)));
  const auto watch_for = [&job = *watch->job_, known, announced = std::move(announced)]() -> Status {
    for (std::uint64_t changes = known + 1;; ++changes) {
      DABKE_RETURN_IF_ERROR(job.get(bootstrap::change_key(changes), kNever).status());
      announced(changes);
    }
  };
  DABKE_ASSIGN_OR_RETURN(watch->thread_,
                         start_thread("dabke-changes", [watch_for] { (void)without_exceptions(watch_for); }));
  return watch;
}

ChangeWatch::~ChangeWatch() {
  job_->hurry(Duration::zero());  // ends the request that waits
}

}  // namespace dabke::core
