#include "runtime/base/settings/variable_names.h"

#include <catch2/catch.hpp>

#include "runtime/base/settings/config.h"

namespace dabke::test {
namespace {

using Lines = std::vector<std::string>;

Lines lines_for(const Lines& names) { return misspelt_variables(names); }

}  // namespace

TEST_CASE("a variable that is close to one that is read is named with it") {
  CHECK(lines_for({"PATH", "DABKE_TIMELNE", "HOROVOD_CYLCE_TIME", "DABKE_SZIE"}) ==
        Lines{"DABKE_TIMELNE is set, but nothing reads it; did you mean DABKE_TIMELINE?",
              "HOROVOD_CYLCE_TIME is set, but nothing reads it; did you mean HOROVOD_CYCLE_TIME?",
              "DABKE_SZIE is set, but nothing reads it; did you mean DABKE_SIZE?"});
}

TEST_CASE("a variable that is named like the flag is told the variable's name") {
  CHECK(
      lines_for({"DABKE_TIMELINE_FILENAME", "DABKE_FUSION_THRESHOLD_MB"}) ==
      Lines{"DABKE_TIMELINE_FILENAME is set, but nothing reads it; did you mean DABKE_TIMELINE?",
            "DABKE_FUSION_THRESHOLD_MB is set, but nothing reads it; did you mean DABKE_FUSION_THRESHOLD?"});
}

TEST_CASE("variables that are read, and those of others, are no misspellings") {
  Lines names{"HOROVOD_GPU_OPERATIONS",
              "HOROVOD_WITH_PYTORCH",
              "HOROVOD_AUTOTUNE",
              "DABKE_TEST_RANKS",
              "DABKE_MY_OWN",
              "DABKE_",
              "HOROVOD_",
              "TIMELINE"};
  for (const Knob& knob : knobs()) {
    names.push_back(knob.env_name());
    if (!knob.horovod.empty()) names.push_back("HOROVOD_" + std::string(knob.horovod));
  }
  for (const std::string_view name : kLauncherVariables) names.push_back("DABKE_" + std::string(name));
  CHECK(lines_for(names).empty());
}

}  // namespace dabke::test
