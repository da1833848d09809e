#include "runtime/diagnosis/dump_signal.h"

#include <signal.h>
#include <unistd.h>

#include <semaphore>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Catch::Matchers::Contains;

std::string error_of(const std::string& text) {
  const auto opened = diagnosis::DumpSignal::open(text, [](const std::string&) {});
  return opened.is_ok() ? "" : opened.status().message();
}

bool is_default(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler == SIG_DFL;
}

}  // namespace

TEST_CASE("the dump signal calls what it was given, and is the application's again afterwards") {
  std::counting_semaphore<> called{0};
  std::string said;
  for (const std::string text : {"USR1", "SIGUSR1", "10"}) {
    {
      auto opened = diagnosis::DumpSignal::open(text, [&](const std::string& name) {
        said = name;
        called.release();
      });
      REQUIRE(opened.is_ok());
      ::raise(SIGUSR1);
      CHECK(called.try_acquire_for(std::chrono::seconds(20)));
      ::kill(::getpid(), SIGUSR1);
      CHECK(called.try_acquire_for(std::chrono::seconds(20)));
    }
    CHECK(said == "SIGUSR1");
    CHECK(is_default(SIGUSR1));
  }
}

TEST_CASE("a dump signal that cannot be one is refused, with the reason") {
  for (const char* text :
       {"FOO", "0", "-1", "999", "KILL", "SIGSTOP", "9", "USR1 ", "SEGV", "11", "CHLD", "TERM"}) {
    CAPTURE(text);
    CHECK_THAT(error_of(text),
               Contains(std::string("DABKE_DUMP_SIGNAL=") + text) && Contains("one of USR1 USR2"));
  }
  ::signal(SIGUSR2, SIG_IGN);
  CHECK_THAT(error_of("USR2"), Contains("handles or ignores SIGUSR2"));
  ::signal(SIGUSR2, SIG_DFL);
  auto first = diagnosis::DumpSignal::open("USR1", [](const std::string&) {});
  REQUIRE(first.is_ok());
  CHECK_THAT(error_of("USR2"), Contains("another runtime"));
  CHECK(is_default(SIGUSR2));
}

}  // namespace dabke::test
