// Shared code of the worker programs: a place in a pretended cluster, a choice of scenarios, and reports of
// errors.
#pragma once

#include <algorithm>
#include <concepts>
#include <ranges>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace worker {

/// Reports an error: prints the text with this rank, and ends the process with code 1. The stack is not
/// unwound, because operations in flight may still use its memory.
[[noreturn]] void wrong(const std::string& text);

template <class T>
std::string text_of(const T& value) {
  if constexpr (std::convertible_to<const T&, std::string>) {
    return value;
  } else if constexpr (std::ranges::range<T>) {
    std::string text;
    for (const auto& element : value) text += (text.empty() ? "" : ", ") + text_of(element);
    return "[" + text + "]";
  } else {
    std::ostringstream out;
    out << +value;
    return out.str();
  }
}

template <class Got, class Want>
void must_equal(const std::string& what, const Got& got, const Want& want) {
  if constexpr (std::ranges::range<Got> && !std::convertible_to<const Got&, std::string>) {
    if (std::ranges::equal(got, want)) return;
  } else {
    if (got == want) return;
  }
  wrong(what + ": " + text_of(got) + ", not " + text_of(want));
}

inline void must_contain(const std::string& what, const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) wrong(what + ": '" + text + "' says nothing of '" + part + "'");
}

/// Prints one line on stdout, in one piece.
void say(const std::string& line);

/// This process's rank and size before init, as set by dabkerun, MPICH's mpirun or Open MPI's mpirun.
int launched_rank();
int launched_size();

struct Scenario {
  std::string_view name;
  void (*run)();
};

/// Runs the scenario that the first argument names and prints "done". If DABKE_TEST_RANKS_PER_HOST is set,
/// every so many ranks first call themselves a host of their own. Then the ranks of one machine form a tree
/// as on a cluster.
int run_scenario(int argc, char** argv, std::span<const Scenario> scenarios);

}  // namespace worker
