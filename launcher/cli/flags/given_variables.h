// Variables for the ranks, as -x gives them: NAME, NAME=VALUE, or NAME@RANKS=VALUE for some of them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace dabke::launcher {

struct GivenVariable {
  std::string name;
  std::optional<std::string> value;        // none: as dabkerun has it
  std::vector<std::pair<int, int>> ranks;  // the first and the last of each range; none: all ranks
  friend bool operator==(const GivenVariable&, const GivenVariable&) = default;
  bool is_for(int rank) const;
};

/// The error names what was given, and what dabkerun sets itself is refused.
Result<GivenVariable> parse_given_variable(std::string_view text);

/// An error where dabkerun lacks a variable that has no value, or the job a rank. `environment` is NAME=value each.
Status check_given_variables(const std::vector<GivenVariable>& given,
                             const std::vector<std::string>& environment, int size);

/// `forwarded` with those that all ranks get; `environment` has the values of those that were given none.
std::vector<std::string> with_given_variables(std::vector<std::string> forwarded,
                                              const std::vector<std::string>& environment,
                                              const std::vector<GivenVariable>& given);
/// What one rank gets besides.
std::vector<std::pair<std::string, std::string>> variables_of_rank(const std::vector<GivenVariable>& given,
                                                                   int rank);

}  // namespace dabke::launcher
