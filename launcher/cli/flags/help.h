// The help text of dabkerun and its completion script, made from the tables of flags and settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/settings/config.h"

namespace dabke::launcher {

/// The text of --help TOPIC. A topic is a group of flags by its first word ("remote", "settings") or "all".
/// Without a topic, or with an unknown one, it is the first screen: the most used flags, in 24 lines.
std::string help_text(std::string_view topic);
/// The words that can follow --help.
std::vector<std::string> help_topics();
/// A bash script that completes dabkerun's flags, their choices and file names.
std::string completion_script();

/// "queue|error", "SECONDS", "TEXT"
std::string value_name(const Knob& knob);

}  // namespace dabke::launcher
