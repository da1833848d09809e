// Variables for the ranks, as given with -x: NAME, NAME=VALUE, or NAME@RANKS=VALUE for some of the ranks.
// Pure.
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
  std::optional<std::string> value;        // none: dabkerun's own value
  std::vector<std::pair<int, int>> ranks;  // the first and the last of each range; none: all ranks
  friend bool operator==(const GivenVariable&, const GivenVariable&) = default;
  bool is_for(int rank) const;
};

/// The error quotes the argument. Variables that dabkerun sets itself are refused.
Result<GivenVariable> parse_given_variable(std::string_view text);

/// Returns an error if dabkerun lacks a variable without a value, or the job lacks a rank. `environment` has
/// the form NAME=value.
Status check_given_variables(const std::vector<GivenVariable>& given,
                             const std::vector<std::string>& environment, int size);

/// Returns `forwarded` with the variables that all ranks get. `environment` has the values of variables given
/// without one.
std::vector<std::string> with_given_variables(std::vector<std::string> forwarded,
                                              const std::vector<std::string>& environment,
                                              const std::vector<GivenVariable>& given);
/// Returns the additional variables of one rank.
std::vector<std::pair<std::string, std::string>> variables_of_rank(const std::vector<GivenVariable>& given,
                                                                   int rank);

}  // namespace dabke::launcher
