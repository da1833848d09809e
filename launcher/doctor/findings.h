// What a checkup means: what is wrong, what may be, and what to do about it. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/checkup.h"

namespace dabke::launcher {

struct Finding {
  bool is_wrong = false;           // a job would fail; else it may be slow, or something else may be
  std::string what;                // with the host, and what to do
  std::vector<std::string> words;  // of ssh and the like
};

/// Those that are wrong first.
std::vector<Finding> findings_of(const CheckupReport& report);

/// Whether none is wrong.
bool is_well(const std::vector<Finding>& findings);

/// As a user reads it: a table of hosts, one of the routes between them, and the findings.
std::string checkup_text(const CheckupReport& report);
/// One object: hosts[], routes[], findings[], is_well.
std::string checkup_json(const CheckupReport& report);

/// "1.5 GiB", "-" where it is not known, "none" where there is no limit.
std::string size_text(std::int64_t bytes);

}  // namespace dabke::launcher
