#include "runtime/backend/activity.h"

namespace dabke {

RunScope::RunScope(const Batch& batch, const char* activity, std::string_view backend,
                   std::string_view algorithm)
    : trace_(batch.trace) {
  if (activity == nullptr) trace_.timeline = nullptr;
  if (trace_.timeline == nullptr) return;
  say_algorithm(algorithm);
  trace_.about.kind = batch.kind;
  trace_.about.name = trace_.timeline->text(activity);
  trace_.about.backend = trace_.timeline->text(backend);
  trace_.begin(timeline::Record::What::run);
}

}  // namespace dabke
