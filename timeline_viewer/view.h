// The commands that show the page: view and export.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::viewer {

/// Writes the page `output`, which contains the traces and their reports. `reports` is a JSON array with one
/// report for all traces, or one for each.
Status export_page(const std::vector<std::string>& traces, const std::string& reports,
                   const std::string& output);

/// Serves the page until SIGINT or SIGTERM. If `opens`, opens it in the user's browser.
Status view_page(const std::vector<std::string>& traces, const std::string& reports, bool opens);

}  // namespace dabke::viewer
