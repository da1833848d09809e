// A tensor that some ranks have submitted and others have not.
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include <catch2/catch.hpp>

#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

/// Captures what the process writes to its standard error.
class CapturedErrors {
 public:
  CapturedErrors() : file_(::tmpfile()), before_(::dup(STDERR_FILENO)) {
    ::fflush(stderr);
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  ~CapturedErrors() {
    ::fflush(stderr);
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::fclose(file_);
  }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;

  std::string text() const {
    std::ifstream in("/proc/self/fd/" + std::to_string(::fileno(file_)));
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  FILE* file_;
  int before_;
};

/// Counts the reports of the tensor, in full ("Stalled for 1.0 s: rank 0 waits in 'x' ...") or as still
/// stalled.
int reports_of(const std::string& name, const std::string& text) {
  int count = 0;
  for (const std::string& report : {" in '" + name + "' (", " s: '" + name + "'"}) {
    for (auto at = text.find(report); at != std::string::npos; at = text.find(report, at + 1)) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a stall is reported once a period, with the missing ranks and what they submitted instead") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.log_level = LogLevel::warning;
  config.stall_check_time = 0.2;
  const std::string where = backend.where();
  const std::vector<std::string> expected = {
      "ranks 0, 1 wait in 'late' (allreduce (sum) of float32 [4]" + where + "); rank 2 on node",
      "Rank 2: it waits for allreduce 'other' instead",
      "rank 2 on " + backend.host(2, 3) + " waits in 'other' (allreduce (sum) of float32 [2]" + where +
          "); ranks 0, 1 have not called it."};
  std::string warned;
  const auto begun = std::chrono::steady_clock::now();
  {
    const CapturedErrors errors;
    std::atomic<bool> reported{false};
    run_on_ranks(backend, 3, config, [&](Rank& self) {
      std::vector<float> late(4);
      std::vector<float> other(2);
      must(self.barrier());
      Pending pending = self.rank() == 2 ? self.allreduce_async(other, {.name = "other"})
                                         : self.allreduce_async(late, {.name = "late"});
      while (!reported) {  // the first report may come before all ranks have submitted
        const std::string text = errors.text();
        const auto is_there = [&](const std::string& part) { return text.find(part) != std::string::npos; };
        if (std::ranges::all_of(expected, is_there) && reports_of("late", text) >= 3) reported = true;
        (void)pending.wait_for(0.02);
      }
      Pending rest = self.rank() == 2 ? self.allreduce_async(late, {.name = "late"})
                                      : self.allreduce_async(other, {.name = "other"});
      must(pending.wait());
      must(rest.wait());
    });
    warned = errors.text();
  }
  CAPTURE(warned);
  for (const std::string& part : expected) CHECK_THAT(warned, Contains(part));
  CHECK_THAT(warned, Contains("dabke rank 0 warning] Stalled for"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  for (const char* const name : {"late", "other"}) {
    CHECK(reports_of(name, warned) <= took.count() / config.stall_check_time);
  }
}

TEST_CASE("STALL_CHECK_DISABLE reports nothing at all") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.log_level = LogLevel::warning;
  config.stall_check_time = 0.1;
  config.stall_check_disable = true;
  const CapturedErrors errors;
  run_on_ranks(backend, 2, config, [&](Rank& self) {
    std::vector<float> x(4);
    Pending waits;
    if (self.rank() == 0) {
      waits = self.allreduce_async(x, {.name = "x"});
      (void)waits.wait_for(0.3);
    }
    must(self.barrier());
    if (self.rank() == 1) waits = self.allreduce_async(x, {.name = "x"});
    must(waits.wait());
  });
  CHECK(errors.text() == "");
}

TEST_CASE("after the stall shutdown time the job fails on every rank with the text of the report") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = quiet_config();
  config.stall_check_time = 0.1;
  config.stall_shutdown_time = 0.3;
  const auto seen = run_on_ranks(backend, 3, config, [&](Rank& self) {
    std::vector<float> x(4);
    return self.allreduce(x, {.name = self.rank() == 1 ? "other" : "late"});
  });
  for (const Status& status : seen) {
    CHECK(status.code() == Code::stalled);
    CHECK_THAT(status.message(), Contains("Stalled for"));
  }
}

}  // namespace dabke::test
