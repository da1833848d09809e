// The store of a job, while memory runs out at each point of its thread's work, one after the other.
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/store/http_store.h"
#include "runtime/store/rendezvous_server.h"
#include "tests/shortage/failing_memory.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;

const JobId kJob{std::byte(1)};
const JobKey kKey{std::byte(2)};

std::unique_ptr<store::RendezvousServer> serve() {
  auto server = store::RendezvousServer::listen({"127.0.0.1"}, kJob, kKey);
  if (!server.is_ok() || !(*server)->start().is_ok()) throw std::runtime_error("no server");
  return server.take();
}

std::shared_ptr<store::Store> client_of(const store::RendezvousServer& server) {
  return store::open_http_store(server.url(), kJob, kKey).take();
}

/// The statuses of three clients: two that wait, one of them in vain, and one that sets and counts.
std::vector<Status> told_to_clients(const store::RendezvousServer& server) {
  std::vector<Status> told(4);
  std::jthread waiting([&] { told[0] = client_of(server)->get("key", Clock::now() + 60s).status(); });
  std::jthread in_vain([&] { told[1] = client_of(server)->get("nothing", Clock::now() + 20ms).status(); });
  const auto store = client_of(server);
  told[2] = store->increment("count").status();
  in_vain.join();
  for (int again = 0; again < 2; ++again) {
    told[3] = store->set("key", "value");
    if (told[3].is_ok()) break;
  }
  return told;
}

}  // namespace

TEST_CASE("a store that has no memory for a client tells that client so, and goes on") {
  int requests = 1;
  for (int number = 1; number <= requests; ++number) {
    const auto server = serve();
    let_memory_fail(number);
    const std::vector<Status> told = told_to_clients(*server);
    requests = memory_requests();
    CAPTURE(number);
    for (const Status& one : {told[0], told[2], told[3]})
      CHECK((one.is_ok() || one.code() == Code::out_of_memory));
    CHECK((told[1].code() == Code::timeout || told[1].code() == Code::out_of_memory));
    CHECK(client_of(*server)->get("key", Clock::now() + 60s).take() == "value");
  }
  CHECK(requests > 20);
}

TEST_CASE("a store that ends without memory ends all the same") {
  auto server = serve();
  const auto store = client_of(*server);
  let_memory_fail(0);
  std::jthread waiting([&] { (void)store->get("nothing", Clock::now() + 500ms); });
  while (memory_requests() == 0) std::this_thread::yield();
  REQUIRE(store->increment("count").is_ok());  // the store has read everything before
  {
    const InLibrary in_library;
    let_memory_fail(1, true);
    server.reset();
  }
  let_memory_fail(0);
  CHECK(server == nullptr);
}

}  // namespace dabke::test
