// The names of the instruction sets, and the choice among them.
#include "runtime/kernels/highway_targets.h"
//
#include "hwy/highway.h"
#include "hwy/targets.h"
#include "runtime/kernels/kernels.h"

namespace dabke::kernels {
namespace {

/// The targets that were compiled and that this CPU has; the lower the bit, the better the target.
std::int64_t usable_targets() { return hwy::SupportedTargets() & HWY_TARGETS; }

}  // namespace

std::string target_name() {
  const std::int64_t targets = usable_targets();
  return hwy::TargetName(targets & -targets);
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets())
    names.push_back(hwy::TargetName(target));
  return names;
}

void use_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) hwy::SetSupportedTargetsForTest(target);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace dabke::kernels
