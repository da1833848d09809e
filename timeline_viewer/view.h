// The commands that show the page: view and export.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::timeline {

/// Writes `output`, a page with the trace and its report in it.
Status export_page(const std::string& trace, const std::string& report, const std::string& output);

/// Serves the page until SIGINT or SIGTERM, and opens it in the user's browser where `opens`.
Status view_page(const std::string& trace, const std::string& report, bool opens);

}  // namespace dabke::timeline
