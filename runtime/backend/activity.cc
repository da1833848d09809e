#include "runtime/backend/activity.h"

namespace dabke {

void RunScope::begin(const Batch& batch, const char* activity, std::string_view backend,
                     std::string_view algorithm) {
  record_algorithm(algorithm);
  trace_.about.kind = batch.kind;
  trace_.about.name = trace_.timeline->text(activity);
  trace_.about.backend = trace_.timeline->text(backend);
  trace_.begin(timeline::Record::What::run);
}

}  // namespace dabke
