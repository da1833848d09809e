// The conclusions from a checkup: what is wrong, what may be, and the remedy. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/checkup.h"

namespace dabke::launcher {

struct Finding {
  bool is_wrong = false;           // a job would fail; otherwise it may be slow, or may fail
  std::string what;                // with the host and the remedy
  std::vector<std::string> words;  // text of ssh and the like
};

/// Returns the findings, with the wrong ones first.
std::vector<Finding> findings_of(const CheckupReport& report);

/// True if none is wrong.
bool is_well(const std::vector<Finding>& findings);

/// Returns the text for a user: a table of hosts, one of the routes between them, and the findings.
std::string checkup_text(const CheckupReport& report);
/// Returns one JSON object: hosts[], routes[], findings[], is_well.
std::string checkup_json(const CheckupReport& report);

/// "1.5 GiB", "-" for an unknown size, "none" for no limit.
std::string size_text(std::int64_t bytes);

}  // namespace dabke::launcher
