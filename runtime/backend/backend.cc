#include "runtime/backend/backend.h"

namespace dabke {

bool runs_on_host(const CallSpec& call, Collectives collectives) {
  if (call.device_type != DeviceType::host) return false;
  if (reduces(call.kind) && (call.op == ReduceOp::average || call.op == ReduceOp::adasum)) return false;
  return collectives.contains(call.kind);
}

}  // namespace dabke
