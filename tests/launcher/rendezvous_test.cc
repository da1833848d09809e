#include <httplib.h>

#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/rendezvous/rendezvous_server.h"
#include "runtime/base/store_protocol.h"
#include "runtime/transport/http_store.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;
namespace protocol = store_protocol;

JobId some_job(int first) { return {std::byte(first)}; }
JobKey some_key(int first) { return {std::byte(first)}; }

std::unique_ptr<RendezvousServer> serve() {
  auto server = RendezvousServer::listen("127.0.0.1", some_job(1), some_key(2));
  REQUIRE(server.is_ok());
  (*server)->start();
  return server.take();
}

std::shared_ptr<Store> open(const std::string& url, int job = 1, int key = 2) {
  auto store = open_http_store(url, some_job(job), some_key(key));
  REQUIRE(store.is_ok());
  return store.take();
}

TimePoint in(std::chrono::milliseconds wait) { return Clock::now() + wait; }

/// What HTTP says to a hand-made request.
httplib::Result put(const std::string& url, const std::string& nonce, const std::string& body,
                    const std::string& proof) {
  httplib::Client client(url);
  const httplib::Headers headers{{std::string(protocol::kJobHeader), to_hex(some_job(1))},
                                 {std::string(protocol::kNonceHeader), nonce},
                                 {std::string(protocol::kProofHeader), proof}};
  return client.Put((std::string(protocol::kValuePath) + "k").c_str(), headers, body,
                    "application/octet-stream");
}

}  // namespace

TEST_CASE("a value comes back as it was set, whatever its bytes and its key") {
  const auto server = serve();
  const auto store = open(server->url());
  CHECK(store->describe() == server->url());
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  for (const std::string& value : {std::string(), every_byte, std::string(300'000, 'x')}) {
    for (const std::string key : {"plain", "epoch/1/rank/0", "a?wait_ms=5", "50%+&=#", "\xc3\xa9", "%2F"}) {
      REQUIRE(store->set(key, value).is_ok());
      const auto got = store->get(key, in(5s));
      REQUIRE(got.is_ok());
      CHECK(*got == value);
    }
  }
  CHECK(store->set("", "x").code() == Code::invalid_argument);
}

TEST_CASE("64 clients wait at once for a value that comes later") {
  const auto server = serve();
  constexpr int kClients = 64;
  std::vector<std::string> seen(kClients);
  std::atomic<int> started{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        const auto store = open_http_store(server->url(), some_job(1), some_key(2));
        started.fetch_add(1);
        // Each waits for the one before it, so all must be served at once.
        auto got = (*store)->get(std::to_string(i), in(20s));
        seen[static_cast<std::size_t>(i)] = got.is_ok() ? *got : got.status().message();
        (void)(*store)->set(std::to_string(i + 1), seen[static_cast<std::size_t>(i)] + "x");
      });
    }
    while (started < kClients) std::this_thread::yield();
    CHECK(open(server->url())->set("0", "").is_ok());
  }
  for (int i = 0; i < kClients; ++i)
    CHECK(seen[static_cast<std::size_t>(i)] == std::string(static_cast<std::size_t>(i), 'x'));
}

TEST_CASE("a key that nobody sets gives a timeout that names it, at the deadline") {
  const auto server = serve();
  const auto store = open(server->url());
  const TimePoint before = Clock::now();
  const auto got = store->get("missing", in(200ms));
  CHECK(got.status().code() == Code::timeout);
  CHECK(got.status().message() == "nobody set 'missing' in the " + server->url() + " store in time");
  CHECK(Clock::now() - before >= 200ms);
  CHECK(Clock::now() - before < 5s);
  CHECK(store->get("missing", Clock::now() - 1s).status().code() == Code::timeout);
}

TEST_CASE("increments from many clients are counted one by one, and the count can be read") {
  const auto server = serve();
  constexpr int kClients = 8, kEach = 25;
  std::vector<std::vector<std::uint64_t>> seen(kClients);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : seen) {
      threads.emplace_back([&] {
        const auto store = open_http_store(server->url(), some_job(1), some_key(2));
        for (int i = 0; i < kEach; ++i) mine.push_back(*(*store)->increment("epoch"));
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& mine : seen) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == i + 1);
  CHECK(*open(server->url())->get("epoch", in(1s)) == "200");
}

TEST_CASE("text is no counter") {
  const auto server = serve();
  const auto store = open(server->url());
  REQUIRE(store->set("k", "text").is_ok());
  CHECK(store->increment("k").status().code() == Code::invalid_argument);
  CHECK(store->increment("k").status().message() == "'k' holds text, which is no counter");
}

TEST_CASE("a prefix is forgotten with all below it and nothing else") {
  const auto server = serve();
  const auto store = open(server->url());
  for (const char* key : {"a", "a/b", "ab", "c"}) REQUIRE(store->set(key, "v").is_ok());
  CHECK(store->remove_all("a").is_ok());
  CHECK_FALSE(store->get("a", in(0ms)).is_ok());
  CHECK_FALSE(store->get("a/b", in(0ms)).is_ok());
  CHECK(store->get("ab", in(0ms)).is_ok());
  CHECK(store->remove_all("").is_ok());
  CHECK_FALSE(store->get("c", in(0ms)).is_ok());
}

TEST_CASE("a client with another key or job is refused and told so") {
  const auto server = serve();
  REQUIRE(open(server->url())->set("k", "secret").is_ok());
  for (const auto& stranger : {open(server->url(), 1, 9), open(server->url(), 9, 2)}) {
    for (const Status& status : {stranger->get("k", in(1s)).status(), stranger->set("k", "x"),
                                 stranger->increment("k").status(), stranger->remove_all("")}) {
      CHECK(status.code() == Code::invalid_argument);
      CHECK_THAT(status.message(), Catch::Contains("key or job do not match"));
      CHECK_THAT(status.message(), Catch::Contains(server->url()));
    }
  }
  CHECK(*open(server->url())->get("k", in(1s)) == "secret");
}

TEST_CASE("a request that was recorded is not taken again") {
  const auto server = serve();
  const std::string proof = *protocol::request_proof(some_key(2), to_hex(some_job(1)), "PUT",
                                                    std::string(protocol::kValuePath) + "k", "c-1", "old");
  const auto first = put(server->url(), "c-1", "old", proof);
  REQUIRE(first);
  CHECK(first->status == 200);
  CHECK(first->get_header_value(std::string(protocol::kProofHeader).c_str()) ==
        *protocol::answer_proof(some_key(2), "c-1", 200, ""));
  const auto store = open(server->url());
  REQUIRE(store->set("k", "new").is_ok());
  const auto again = put(server->url(), "c-1", "old", proof);
  REQUIRE(again);
  CHECK(again->status == 403);
  CHECK(*store->get("k", in(1s)) == "new");
}

TEST_CASE("a request with another body, nonce or no proof is refused") {
  const auto server = serve();
  const std::string proof = *protocol::request_proof(some_key(2), to_hex(some_job(1)), "PUT",
                                                    std::string(protocol::kValuePath) + "k", "c-1", "old");
  CHECK(put(server->url(), "c-1", "other", proof)->status == 403);
  CHECK(put(server->url(), "c-2", "old", proof)->status == 403);
  CHECK(put(server->url(), "c-1", "old", "")->status == 403);
  CHECK(put(server->url(), "c-1", "old", proof)->status == 200);
}

TEST_CASE("an answer that is not the store's own is not believed") {
  httplib::Server impostor;
  impostor.Get("/.*", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("x", "text/plain");
  });
  const int port = impostor.bind_to_any_port("127.0.0.1");
  const std::jthread thread([&] { impostor.listen_after_bind(); });
  const auto got = open("http://127.0.0.1:" + std::to_string(port))->get("k", in(5s));
  while (!impostor.is_running()) std::this_thread::yield();
  impostor.stop();
  CHECK(got.status().code() == Code::invalid_argument);
  CHECK_THAT(got.status().message(), Catch::Contains("gave no valid proof: key or job do not match"));
}

TEST_CASE("when the launcher goes, a client that waits is told at once") {
  auto server = serve();
  const auto store = open(server->url());
  Status seen;
  const TimePoint before = Clock::now();
  {
    const std::jthread waiter([&] { seen = store->get("never", in(60s)).status(); });
    std::this_thread::sleep_for(100ms);
    server.reset();
  }
  CHECK(Clock::now() - before < 5s);
  CHECK(seen.code() == Code::transport);
  CHECK_THAT(seen.message(), Catch::Contains("Connection refused"));
  CHECK(store->set("k", "v").code() == Code::transport);
  CHECK_THAT(store->set("k", "v").message(), Catch::Contains("ends with it"));
}

TEST_CASE("a server that was never started closes its port") {
  auto server = RendezvousServer::listen("127.0.0.1", some_job(1), some_key(2));
  REQUIRE(server.is_ok());
  const std::string url = (*server)->url();
  server->reset();
  CHECK_THAT(open(url)->set("k", "v").message(), Catch::Contains("Connection refused"));
}

TEST_CASE("what is no address of a store is refused") {
  for (const std::string url : {"", "127.0.0.1:5", "http://", "http://h", "http://h:", "http://h:x",
                                "http://h:0", "http://h:70000", "http://h:5/x", "https://h:5"}) {
    CAPTURE(url);
    const auto store = open_http_store(url, {}, {});
    CHECK(store.status().code() == Code::invalid_argument);
    CHECK_THAT(store.status().message(), Catch::Contains("expected http://host:port"));
  }
  CHECK(open_http_store("http://no-such-host.invalid:5", {}, {}).status().code() == Code::transport);
}

}  // namespace dabke
