// What the user wants of dabke-timeline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "timeline_viewer/top.h"

namespace dabke::viewer {

enum class Command { help, version, merge, check, report, diff, view, export_page, top };

struct CommandLine {
  Command command = Command::help;
  std::vector<std::string> files;  // one that is no file of records itself stands for its .rank0, .rank1, ...
  std::string output;              // of merge and export
  std::string text;                // of help
  bool json = false;               // of report
  bool opens_browser = true;       // of view
  TopOptions top;
};

/// `arguments` without the program's name. The error is one line.
Result<CommandLine> parse_command_line(std::vector<std::string> arguments);

}  // namespace dabke::viewer
