// The command line of dabke-timeline.
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
  // The name of a file, or a name that stands for the files of records .rank0, .rank1, ...
  std::vector<std::string> files;
  std::string output;         // for merge and export
  std::string text;           // for help
  bool json = false;          // for report
  bool opens_browser = true;  // for view
  TopOptions top;
};

/// `arguments` excludes the program's name. An error is one line.
Result<CommandLine> parse_command_line(std::vector<std::string> arguments);

}  // namespace dabke::viewer
