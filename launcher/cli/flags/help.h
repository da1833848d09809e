// What dabkerun says of its flags, from the tables that they are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/settings/config.h"

namespace dabke::launcher {

/// What --help prints: of a topic, which is a group of flags by its first word ("other", "knobs"), or "all"; without a
/// topic, or with one that there is not, all flags but those of knobs, and which topics there are.
std::string help_text(std::string_view topic);
/// What may stand after --help.
std::vector<std::string> help_topics();
/// A script for bash, which completes dabkerun's flags, their choices and files.
std::string completion_script();

/// "queue|error", "SECONDS", "TEXT"
std::string value_name(const Knob& knob);

}  // namespace dabke::launcher
