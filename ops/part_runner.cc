#include "ops/part_runner.h"

#include <algorithm>
#include <semaphore>

#include <fmt/format.h>

namespace dabke {
namespace {

struct Done {
  std::binary_semaphore over{0};
  Status status;
  static void call(void* context, const Status& status) {
    auto* done = static_cast<Done*>(context);
    done->status = status;
    done->over.release();
  }
};

}  // namespace

PartRunner::PartRunner(std::vector<Collective*> backends) : backends_(std::move(backends)) {
  std::erase(backends_, nullptr);
}

Status PartRunner::run(const Batch& part) {
  const ResponseKind kind = kind_of(part);
  const auto found = std::ranges::find_if(backends_, [&](Collective* backend) {
    return backend->can_run(kind) && backend->can_serve(*part.process_set);
  });
  if (found == backends_.end()) {
    return {Code::unsupported,
            fmt::format("no backend runs {} of {} as a part", name_of(part.kind), name_of(part.dtype))};
  }
  if (prepared_.insert({*found, part.process_set->id}).second)
    DABKE_CHECK((*found)->prepare(*part.process_set));
  Done done;
  (*found)->run(part, {&Done::call, &done});
  done.over.acquire();
  return done.status;
}

void PartRunner::release(ProcessSetId set) {
  std::erase_if(prepared_, [set](const auto& row) {
    if (row.second != set) return false;
    row.first->release(set);
    return true;
  });
}

void PartRunner::abort(const Status& cause) {
  for (Collective* const backend : backends_) backend->abort(cause);
}

}  // namespace dabke
