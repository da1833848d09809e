// Callbacks while the job shuts down. Also the calls that are refused inside a function of the
// application that the runtime has called.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "dabke/dabke.h"
#include "tests/shortage/floats.h"
#include "tests/shortage/processes.h"

namespace dabke::test {
namespace {

/// Several threads that submit calls with callbacks, one after the other, until one is refused.
class Submitters {
 public:
  Submitters() {
    for (std::size_t i = 0; i < kThreads; ++i) threads_[i] = std::thread([this, i] { submit(i); });
  }
  /// Returns once each thread has submitted a call.
  void wait_for_the_first() {
    for (std::atomic<int>& count : accepted_) count.wait(0);
  }
  /// Waits for the threads, which end when a call is refused.
  void join() {
    for (std::thread& thread : threads_) thread.join();
  }
  /// Returns "" if each accepted call has had exactly one callback.
  std::string verdict() const {
    std::string text;
    for (std::size_t i = 0; i < kThreads; ++i) {
      int never = 0, more_than_once = 0;
      for (int call = 0; call < accepted_[i]; ++call) {
        const int times = called_[i][static_cast<std::size_t>(call)];
        never += times == 0;
        more_than_once += times > 1;
      }
      if (never + more_than_once > 0) {
        text += std::to_string(accepted_[i]) + " calls: " + std::to_string(never) + " never called back, " +
                std::to_string(more_than_once) + " more than once; ";
      }
    }
    return text;
  }

 private:
  static constexpr std::size_t kThreads = 3;
  static constexpr std::size_t kMost = 20000;

  void submit(std::size_t thread) {
    const std::string base = "x" + std::to_string(thread) + "-";
    for (std::size_t call = 0; call < kMost; ++call) {
      dabke_options options = DABKE_OPTIONS_INIT;
      options.callback_context = &called_[thread][call];
      options.callback = [](void* times, dabke_handle*, dabke_status) {
        ++*static_cast<std::atomic<int>*>(times);
      };
      const std::string name = base + std::to_string(call % 8);
      const dabke_status status =
          dabke_allreduce_async(name.c_str(), &tensors_[thread].tensor, nullptr, &options, nullptr);
      if (status != DABKE_OK) break;
      ++accepted_[thread];
      accepted_[thread].notify_one();
    }
    // so that wait_for_the_first() does not wait for ever
    if (accepted_[thread] == 0) accepted_[thread] = -1;
    accepted_[thread].notify_one();
  }

  std::array<Floats<4>, kThreads> tensors_;
  std::array<std::vector<std::atomic<int>>, kThreads> called_{std::vector<std::atomic<int>>(kMost),
                                                              std::vector<std::atomic<int>>(kMost),
                                                              std::vector<std::atomic<int>>(kMost)};
  std::array<std::atomic<int>, kThreads> accepted_{};
  std::array<std::thread, kThreads> threads_;
};

/// Runs one init and shutdown with calls under way all the time. Returns "" if everything was right.
std::string shut_down_under_calls() {
  if (dabke_init(nullptr) != DABKE_OK) return std::string("init: ") + dabke_last_error();
  Submitters submitters;
  submitters.wait_for_the_first();
  if (dabke_shutdown() != DABKE_OK) return std::string("shutdown: ") + dabke_last_error();
  submitters.join();
  return submitters.verdict();
}

void be_quiet() {
  if (std::freopen("/dev/null", "w", stderr) == nullptr) std::abort();
}

struct Refusals {
  std::atomic<int> shutdown{-1}, init{-1}, wait{-1};
  std::string shutdown_text, init_text, wait_text;
  dabke_handle* other = nullptr;  // a pending operation

  /// Tries the calls that are refused. Runs inside a function that the runtime has called.
  void try_all() {
    shutdown_text = (shutdown = dabke_shutdown()) != DABKE_OK ? dabke_last_error() : "";
    init_text = (init = dabke_init(nullptr)) != DABKE_OK ? dabke_last_error() : "";
  }
  void tell(const std::string& where) const {
    say(where + ": shutdown " + std::to_string(shutdown) + " " + shutdown_text);
    say(where + ": init " + std::to_string(init) + " " + init_text);
  }
};

}  // namespace

TEST_CASE("every callback is called exactly once, however often one process shuts down and begins again") {
  const int shutdowns = times("DABKE_TEST_SHUTDOWNS", kSanitized ? 50 : 300);
  const auto ended = run_processes(
      1,
      [&](int) {
        // On a busy machine, the time is up after fewer rounds.
        const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(60 + shutdowns / 5);
        for (int i = 0; i < shutdowns && std::chrono::steady_clock::now() < enough; ++i) {
          if (const std::string wrong = shut_down_under_calls(); !wrong.empty())
            say("shutdown " + std::to_string(i) + ": " + wrong);
        }
        say("all done");
      },
      kEndWithin + std::chrono::seconds(60 + shutdowns / 5))[0];
  INFO(ended.said);
  CHECK(ended.code == 0);
  CHECK(ended.said == "all done\n");
}

TEST_CASE("every callback is called exactly once when ranks shut down at different times") {
  const int shutdowns = times("DABKE_TEST_PROCESS_SHUTDOWNS", kSanitized ? 5 : 20);
  for (int i = 0; i < shutdowns; ++i) {
    const auto ended = run_processes(2, [](int) {
      be_quiet();
      say(shut_down_under_calls() + "done");
    });
    INFO("shutdown " << i << "\n" << ended[0].said << ended[1].said);
    for (const Ended& one : ended) {
      REQUIRE(one.code == 0);
      REQUIRE(one.said == "done\n");
    }
  }
}

TEST_CASE("a callback cannot shut down or begin a job, and is told so") {
  const auto ended = run_processes(1, [](int) {
    say(std::to_string(dabke_init(nullptr)));
    Refusals seen;
    dabke_options options = DABKE_OPTIONS_INIT;
    options.callback_context = &seen;
    options.callback = [](void* context, dabke_handle*, dabke_status) {
      static_cast<Refusals*>(context)->try_all();
    };
    Floats<4> x;
    dabke_allreduce_async("x", &x.tensor, nullptr, &options, nullptr);
    say("shut down " + std::to_string(dabke_shutdown()));
    seen.tell("callback");
    say("again " + std::to_string(dabke_init(nullptr)) + " " + std::to_string(dabke_shutdown()));
  })[0];
  INFO(ended.said);
  CHECK(ended.code == 0);
  CHECK(ended.says("callback: shutdown 2 dabke_shutdown was called from a callback"));
  CHECK(ended.says("callback: init 2 dabke_init was called from a callback"));
  CHECK(ended.says("shut down 0"));
  CHECK(ended.says("again 0 0"));
}

TEST_CASE("an output allocator cannot shut down, begin a job or wait, and is told so") {
  const auto ended = run_processes(1, [](int) {
    dabke_init(nullptr);
    static Refusals seen;
    static std::array<float, 64> memory;
    dabke_options options = DABKE_OPTIONS_INIT;
    options.output_allocator = [](void*, size_t, DLTensor* tensor) {
      seen.try_all();
      seen.wait_text = (seen.wait = dabke_barrier(nullptr)) != DABKE_OK ? dabke_last_error() : "";
      tensor->data = memory.data();
      return 0;
    };
    Floats<4> x;
    dabke_handle* handle = nullptr;
    say("gather " + std::to_string(dabke_allgather("x", &x.tensor, &options, &handle)));
    dabke_handle_free(handle);
    seen.tell("allocator");
    say("allocator: barrier " + std::to_string(seen.wait) + " " + seen.wait_text);
    say("shut down " + std::to_string(dabke_shutdown()));
  })[0];
  INFO(ended.said);
  CHECK(ended.code == 0);
  CHECK(ended.says("gather 0"));
  CHECK(ended.says("allocator: shutdown 2 dabke_shutdown was called from an output allocator"));
  CHECK(ended.says("allocator: init 2 dabke_init was called from an output allocator"));
  CHECK(ended.says("allocator: barrier 2 this call waits, but was made from an output allocator"));
  CHECK(ended.says("shut down 0"));
}

}  // namespace dabke::test
