// The command line of dabke-perf.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/status.h"

namespace dabke::perf {

enum class Mode {
  sweep,    // a collective at many sizes
  latency,  // single calls of few bytes, each timed
  idle,     // the cost of a job that has only initialised
  steps,    // many tensors submitted at once, against one tensor of the same bytes
};

struct Options {
  Mode mode = Mode::sweep;
  bool help = false;
  CollectiveKind kind = CollectiveKind::allreduce;
  int ranks = 2;
  bool ranks_given = false;

  std::int64_t begin = 8;
  std::int64_t end = std::int64_t{256} << 20;
  std::int64_t factor = 4;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::vector<bool> in_place;  // the forms to measure, one after the other
  std::string memory = "private";

  bool raw = false;
  std::vector<std::string> backends;  // of Dabke
  std::vector<std::string> peers;
  std::string mpi = "all";
  bool mpi_any_thread = true;
  std::string bind_to = "none";

  std::int64_t iterations = 10'000;
  std::int64_t warm_up = 5;
  int runs = 5;
  double seconds = 0.1;
  double pause_ms = 0;
  bool check = true;

  std::string model;
  std::int64_t tensors = 0;
  std::int64_t tensor_bytes = 1024;
  bool timeline = false;

  std::string json;
  bool quiet = false;
  std::string rank_results;  // the file for the results of rank 0, in a job that dabke-perf has started

  bool wants_backend(std::string_view name) const;
  bool wants_peer(std::string_view name) const;
};

/// "shm", "gloo", ...: the backends for host tensors in this build.
std::vector<std::string> built_backends();

/// `arguments` are without the program's name. Errors name the option, the value and the remedy.
Result<Options> parse_options(std::span<const std::string> arguments);

std::string help_text();

}  // namespace dabke::perf
