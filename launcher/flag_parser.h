// The flags as the parsing library knows them; the command line is parsed with it and --help is printed from
// it.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "runtime/base/config.h"

namespace dabke {

/// "stall-check" for "no-stall-check", and the other way round.
std::string opposite_of(std::string_view flag);

/// What the parser fills, as text; checked afterwards, so that the errors are ours.
struct RawOptions {
  bool help = false, version = false, check_build = false, print_knobs = false;
  std::string num_proc, hosts, hostfile, output_directory, stdin_to = "0", bind_to = "none";
  bool no_prefix = false, timestamps = false, verbose = false, gloo = false, disable_cache = false;
  std::deque<std::string> knobs;  // by the row of the table; a deque, because the parser keeps references
};

struct FlagParser {
  CLI::App app{"dabkerun"};
  RawOptions raw;

  FlagParser();
  FlagParser(const FlagParser&) = delete;
  FlagParser& operator=(const FlagParser&) = delete;

 private:
  void add_general();
  void add_knob(const Knob& knob);
};

/// Whether the option belongs to a row of the knob table.
bool is_knob(const CLI::Option& option);

}  // namespace dabke
