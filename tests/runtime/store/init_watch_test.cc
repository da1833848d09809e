#include "runtime/store/init_watch.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/store/init_failure.h"
#include "tests/child_process.h"
#include "tests/runtime/links/ranks.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

namespace {

constexpr double kLong = 3600;  // no test waits for so long

/// A process that lives until the test ends it.
struct Process : ChildProcess {
  Process()
      : ChildProcess([]() -> int {
          for (;;) ::pause();
        }) {}
  void end() const { kill(); }
  links::ProcessIdentity identity() const {
    links::ProcessIdentity one = links::identity_of_this_process();
    one.pid = static_cast<std::uint32_t>(pid());
    return one;
  }
};

}  // namespace

TEST_CASE("a process goes as a word to another and is the same there") {
  const links::ProcessIdentity self = links::identity_of_this_process();
  CHECK(links::parse_process(links::to_text(self)) == self);
  for (const char* const wrong : {"", "-", "..", "00.1.2", "x"})
    CHECK(links::parse_process(wrong) == links::ProcessIdentity());
}

TEST_CASE("who waits in init learns that a rank of the same host was killed") {
  const auto store = store::make_memory_store();
  const Process other;
  const auto watched =
      store::watch_init(store, world_of(0, 2), {links::identity_of_this_process(), other.identity()});
  CHECK(watched->get("nothing", deadline_after(0.4)).status().code() == Code::timeout);
  other.end();
  const auto seen = watched->get("nothing", deadline_after(kLong));
  CHECK(seen.status().code() == Code::peer_lost);
  CHECK_THAT(seen.status().message(),
             Contains("process " + std::to_string(other.pid()) + " of rank 1 on host-a ended in dabke_init"));
}

TEST_CASE("the end of a rank that has left in good order, and any end after init, mean nothing") {
  const auto store = store::make_memory_store();
  const Process other;
  const auto watched =
      store::watch_init(store, world_of(0, 2), {links::identity_of_this_process(), other.identity()});
  const bool is_clean = GENERATE(true, false);
  is_clean ? store::report_clean_end(*store, 1) : watched->init_is_over();
  other.end();
  CHECK(watched->get("nothing", deadline_after(1)).status().code() == Code::timeout);
  CHECK(watched->trouble(-1).is_ok());
}

TEST_CASE("what the first rank left whose init failed ends the wait of all, on any host") {
  const auto store = store::make_memory_store();
  const auto failing = store::watch_init(store, world_of(2, 3), {});
  store::report_init_failure(*failing, 2, {Code::timeout, "rank 2 has no link to rank 1 on b"});
  store::report_init_failure(*store, 0, {Code::transport, "too late to be the first"});
  const auto seen = store::watch_init(store, world_of(0, 3), {})->get("nothing", deadline_after(kLong));
  CHECK(seen.status().code() == Code::peer_lost);
  CHECK(seen.status().message() == "rank 2 failed in dabke_init: rank 2 has no link to rank 1 on b");
}

TEST_CASE("a link that has ended is a loss unless its rank has left in good order") {
  const auto store = store::make_memory_store();
  const bool is_clean = GENERATE(true, false);
  if (is_clean) store::report_clean_end(*store, 1);
  const auto watched = store::watch_init(store, world_of(0, 2), {});
  (void)watched->trouble(1);
  const auto seen = watched->get("nothing", deadline_after(is_clean ? 2.5 : kLong));
  CHECK(seen.status().code() == (is_clean ? Code::timeout : Code::peer_lost));
  if (!is_clean)
    CHECK_THAT(seen.status().message(), Contains("rank 1 on host-a: it closed its connection in dabke_init"));
}
