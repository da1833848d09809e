// The commands that show the page: view and export.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::viewer {

/// Writes `output`, a page with the traces and their reports in it. `reports`: a JSON array of one for all traces, or one for
/// each.
Status export_page(const std::vector<std::string>& traces, const std::string& reports,
                   const std::string& output);

/// Serves the page until SIGINT or SIGTERM, and opens it in the user's browser where `opens`.
Status view_page(const std::vector<std::string>& traces, const std::string& reports, bool opens);

}  // namespace dabke::viewer
