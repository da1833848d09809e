// The whole path through the public C API: submit, negotiate, run, wait.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "benchmarks/perf/competitors/competitor.h"
#include "dabke/dabke.h"

namespace dabke::perf {

/// Returns ok, or the calling thread's last error.
Status api_status(dabke_status status);

/// Calls dabke_init with this backend for host tensors, and dabke_shutdown at the end of the scope.
class ApiSession {
 public:
  static Result<ApiSession> open(const std::string& backend);
  ApiSession(ApiSession&& other) noexcept : is_open_(std::exchange(other.is_open_, false)) {}
  ~ApiSession();

 private:
  ApiSession() = default;
  bool is_open_ = true;
};

DLTensor api_tensor(DType dtype, void* data, const std::int64_t& elements);

/// Each begin() is an init of its own, because a process can be in only one job at a time.
std::unique_ptr<Competitor> make_api_backend(const std::string& backend);

}  // namespace dabke::perf
