// The flags in the form of the parsing library, which parses the command line and provides the texts of
// --help. The library takes seconds to compile, so only flag_parser.cc includes it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

/// Returns "stall-check" for "no-stall-check", and vice versa.
std::string opposite_of(std::string_view flag);

/// The values as text, as the parser fills them in. They are checked afterwards, so that the errors are ours.
struct RawOptions {
  bool help = false, version = false, check_build = false, print_knobs = false, print_completion = false;
  std::string num_proc, hosts, hostfile, config_file, output_directory, stdin_to = "0", bind_to,
                                                                        launcher = "auto";
  std::string grace_period, pty;
  std::string min_np, max_np, discovery_script, slots_per_host, reset_limit, elastic_timeout, cooldown_range,
      spares;
  std::vector<std::string> variables;
  std::string ssh_port, ssh_identity_file, ssh_user, ssh_arguments, remote_dabkerun, remote_shell,
      mpi_arguments;
  bool no_prefix = false, timestamps = false, verbose = false, dry_run = false, json = false, top = false,
       gloo = false, mpi = false, disable_cache = false;
  std::deque<std::string> knobs;  // one for each row of the table; a deque: the parser keeps references
};

/// The properties of a flag that --help and the splitting of the command line need.
struct Flag {
  std::vector<std::string> names;        // "hosts"; --help prints the first name
  std::vector<std::string> short_names;  // "H"
  std::string group, value_name, description;
  bool takes_value = false;
  bool takes_two_words = false;  // its value is two words
  bool may_be_repeated = false;  // and each value counts
  bool is_knob = false;          // the flag of a row of the knob table
};

class FlagParser {
 public:
  RawOptions raw;

  FlagParser();
  ~FlagParser();

  /// In the order of --help.
  const std::vector<Flag>& flags() const { return flags_; }
  /// Finds a flag by its spelling on the command line, "--hosts" or "-H"; null if there is none.
  const Flag* find(std::string_view spelled) const;
  /// Fills `raw` from words such as --hosts=localhost:4 and --verbose. The error is one line.
  Status parse(std::vector<std::string> words);

 private:
  class App;
  std::unique_ptr<App> app_;
  std::vector<Flag> flags_;
};

}  // namespace dabke::launcher
