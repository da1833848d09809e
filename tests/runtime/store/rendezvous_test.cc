#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>

#include "runtime/base/threads/owned.h"
#include "runtime/store/http_store.h"
#include "runtime/store/rendezvous_server.h"
#include "runtime/store/store_protocol.h"
#include "runtime/store/store_request.h"
#include "tests/child_process.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;

JobId some_job(int first) { return {std::byte(first)}; }
JobKey some_key(int first) { return {std::byte(first)}; }

std::unique_ptr<store::RendezvousServer> serve() {
  auto server = store::RendezvousServer::listen({"127.0.0.1"}, some_job(1), some_key(2));
  REQUIRE(server.is_ok());
  REQUIRE((*server)->start().is_ok());
  return server.take();
}

std::shared_ptr<store::Store> open(const std::string& url, int job = 1, int key = 2) {
  auto store = store::open_http_store(url, some_job(job), some_key(key));
  REQUIRE(store.is_ok());
  return store.take();
}

TimePoint in(std::chrono::milliseconds wait) { return Clock::now() + wait; }

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Fd connect_to(const std::string& url) {
  const sockaddr_in address = loopback(std::stoi(url.substr(url.rfind(':') + 1)));
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

void send_text(const Fd& fd, std::string_view text) {
  REQUIRE(::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

std::string read_all(const Fd& fd) {
  std::string text;
  std::array<char, 4096> chunk;
  for (ssize_t got; (got = ::recv(fd.get(), chunk.data(), chunk.size(), 0)) > 0;)
    text.append(chunk.data(), static_cast<std::size_t>(got));
  return text;
}

std::string seal_of(const std::string& body) { return *store::protocol::body_seal(some_key(2), body); }

/// The proof of a request that sets k.
std::string proof_of_put(const std::string& nonce, const std::string& body) {
  std::string path(store::protocol::kValuePath);
  path += 'k';
  return *store::protocol::request_proof(some_key(2), to_hex(some_job(1)), "PUT", path, nonce, seal_of(body));
}

std::string put_request(const std::string& nonce, const std::string& body, const std::string& seal,
                        const std::string& proof) {
  return fmt::format(
      "PUT {}k HTTP/1.1\r\n{}: {}\r\n{}: {}\r\n{}: {}\r\n{}: {}\r\nContent-Length: {}\r\n\r\n{}",
      store::protocol::kValuePath, store::protocol::kJobHeader, to_hex(some_job(1)),
      store::protocol::kNonceHeader, nonce, store::protocol::kBodyHeader, seal, store::protocol::kProofHeader,
      proof, body.size(), body);
}

/// The server's answer to a hand-made request.
std::string put(const std::string& url, const std::string& nonce, const std::string& body,
                const std::string& seal, const std::string& proof) {
  const Fd fd = connect_to(url);
  send_text(fd, put_request(nonce, body, seal, proof));
  return read_all(fd);
}

int status_of(const std::string& answer) { return std::stoi(answer.substr(std::strlen("HTTP/1.1 "))); }

/// The new count after a hand-made request that adds to the counter k.
std::string add(const std::string& url, int number, std::string_view amount) {
  const std::string nonce = fmt::format("{:032x}-{}", 7, number);
  const std::string target =
      fmt::format("{}k?{}={}", store::protocol::kCounterPath, store::protocol::kAmountParameter, amount);
  const Fd fd = connect_to(url);
  const store::StoreSecret secret{to_hex(some_job(1)), some_key(2)};
  send_text(fd, *store::store_request(secret, "store", nonce, "POST", target, ""));
  const std::string answer = read_all(fd);
  if (status_of(answer) != store::protocol::kOk) return fmt::format("status {}", status_of(answer));
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

/// The number of open descriptors that a started program would inherit.
int descriptors_without_cloexec() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    const int flags = ::fcntl(fd, F_GETFD);
    if (fd > 2 && flags >= 0 && (flags & FD_CLOEXEC) == 0) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("of several addresses that is taken at which this job's store answers, the likeliest first") {
  const auto server =
      store::RendezvousServer::listen({"127.0.0.1", "127.0.0.2", "192.0.2.1"}, some_job(1), some_key(2));
  REQUIRE(server.is_ok());
  REQUIRE((*server)->start().is_ok());
  const std::string both = (*server)->url();  // the third is not an address of this host
  const auto comma = both.find(',');
  REQUIRE(std::count(both.begin(), both.end(), ',') == 1);
  // On a busy machine, the likeliest may answer so late that another is taken, but not every time.
  const auto found_at = [&](const std::string& url) {
    std::string found;
    for (int attempt = 0; attempt < 20 && found != both.substr(0, comma); ++attempt)
      found = open(url)->describe();
    return found;
  };
  CHECK(found_at(both) == both.substr(0, comma));
  CHECK(open(both)->set("k", "v").is_ok());

  auto other = store::RendezvousServer::listen({"127.0.0.1"}, some_job(1), some_key(9));
  REQUIRE((*other)->start().is_ok());
  const Fd silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  REQUIRE(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  REQUIRE(::listen(silent.get(), 4) == 0);
  REQUIRE(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  const std::string others =
      fmt::format("{},127.0.0.1:1,127.0.0.1:{}", (*other)->url(), ntohs(address.sin_port));
  CHECK(found_at(others + "," + both.substr(std::string("http://").size())) == both.substr(0, comma));

  const std::string answered = "(the store of another job answers there), 127.0.0.1:1 (cannot connect";
  const Status nowhere = test::with_enough_time(
      0.2,
      [&](double seconds) {
        return store::open_http_store(others, some_job(1), some_key(2), deadline_after(seconds)).status();
      },
      [&](const Status& status) { return status.message().find(answered) != std::string::npos; });
  CHECK(nowhere.code() == Code::transport);
  CHECK_THAT(nowhere.message(),
             Catch::Contains(answered) && Catch::Contains("(no answer). Check the network"));
}

TEST_CASE("a value comes back as it was set, whatever its bytes and its key") {
  const auto server = serve();
  const auto store = open(server->url());
  CHECK(store->describe() == server->url());
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  for (const std::string& value : {std::string(), every_byte, std::string(300'000, 'x')}) {
    for (const std::string key : {"plain", "epoch/1/rank/0", "a?wait_ms=5", "50%+&=#", "\xc3\xa9", "%2F"}) {
      REQUIRE(store->set(key, value).is_ok());
      const auto got = store->get(key, in(60s));
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
        const auto store = store::open_http_store(server->url(), some_job(1), some_key(2));
        started.fetch_add(1);
        // Each thread waits for the one before it, so all must be served at once.
        auto got = (*store)->get(std::to_string(i), in(60s));
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

TEST_CASE("a server that is paused for longer than it waits for its clients answers all of them afterwards") {
  std::array<int, 2> words{};
  REQUIRE(::pipe(words.data()) == 0);
  const Fd read_end(words[0]), write_end(words[1]);
  ChildProcess child([&] {
    const auto server = serve();
    const std::string url = server->url();
    if (::write(write_end.get(), url.data(), url.size()) < 0) return 1;
    for (;;) ::pause();
  });
  std::array<char, 100> text{};
  const ssize_t length = ::read(read_end.get(), text.data(), text.size());
  REQUIRE(length > 0);
  const std::string url(text.data(), static_cast<std::size_t>(length));
  constexpr int kClients = 96;  // more than one look of the server finds
  std::atomic<bool> is_over = false;
  std::vector<std::string> errors(kClients);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        const auto store = store::open_http_store(url, some_job(1), some_key(2));
        for (std::uint64_t count = 1; !is_over; ++count) {
          const auto counted = (*store)->increment(std::to_string(i));
          if (counted.is_ok() && *counted == count) continue;
          errors[static_cast<std::size_t>(i)] =
              counted.is_ok() ? fmt::format("{} instead of {}", *counted, count) : counted.status().message();
          return;
        }
      });
    }
    std::this_thread::sleep_for(200ms);
    child.kill(SIGSTOP);
    child.wait_until_stopped();
    std::this_thread::sleep_for(6s);
    child.kill(SIGCONT);
    std::this_thread::sleep_for(500ms);
    is_over = true;
  }
  CHECK(errors == std::vector<std::string>(kClients));
}

TEST_CASE("a key that nobody sets gives a timeout that names it, at the deadline") {
  const auto server = serve();
  const auto store = open(server->url());
  const TimePoint before = Clock::now();
  const auto got = store->get("missing", in(200ms));
  CHECK(got.status().code() == Code::timeout);
  CHECK(got.status().message() == "'missing' was not set in the " + server->url() + " store in time");
  CHECK(Clock::now() - before >= 200ms);
  CHECK(Clock::now() - before < test::kPatience);
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
        const auto store = store::open_http_store(server->url(), some_job(1), some_key(2));
        for (int i = 0; i < kEach; ++i) mine.push_back(*(*store)->increment("epoch"));
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& mine : seen) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == i + 1);
  CHECK(*open(server->url())->get("epoch", in(60s)) == "200");
}

TEST_CASE("a counter takes any amount, and none at all, as long as the sum is a number of 64 bits") {
  const auto server = serve();
  CHECK(add(server->url(), 1, "0") == "0");
  CHECK(*open(server->url())->get("k", in(0ms)) == "0");
  CHECK(add(server->url(), 2, "7") == "7");
  CHECK(add(server->url(), 3, "-10") == "-3");
  CHECK(add(server->url(), 4, "-9223372036854775805") == "-9223372036854775808");
  CHECK(add(server->url(), 5, "-1") == fmt::format("status {}", store::protocol::kNotACounter));
  CHECK(*open(server->url())->get("k", in(0ms)) == "-9223372036854775808");
}

TEST_CASE("text is no counter") {
  const auto server = serve();
  const auto store = open(server->url());
  REQUIRE(store->set("k", "text").is_ok());
  CHECK(store->increment("k").status().code() == Code::invalid_argument);
  CHECK(store->increment("k").status().message() == "'k' contains text, not a counter");
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
    for (const Status& status : {stranger->get("k", in(60s)).status(), stranger->set("k", "x"),
                                 stranger->increment("k").status(), stranger->remove_all("")}) {
      CHECK(status.code() == Code::invalid_argument);
      CHECK_THAT(status.message(), Catch::Contains("key or job do not match"));
      CHECK_THAT(status.message(), Catch::Contains(server->url()));
    }
  }
  CHECK(*open(server->url())->get("k", in(60s)) == "secret");
}

TEST_CASE("a request that was recorded is not taken again") {
  const auto server = serve();
  const std::string proof = proof_of_put("c-1", "old");
  const auto first = put(server->url(), "c-1", "old", seal_of("old"), proof);
  CHECK(status_of(first) == 200);
  CHECK_THAT(first, Catch::Contains(std::string(store::protocol::kProofHeader) + ": " +
                                    *store::protocol::answer_proof(some_key(2), "c-1", 200, "") + "\r\n"));
  const auto store = open(server->url());
  REQUIRE(store->set("k", "new").is_ok());
  CHECK(status_of(put(server->url(), "c-1", "old", seal_of("old"), proof)) == 403);
  CHECK(*store->get("k", in(60s)) == "new");
}

TEST_CASE("a request with another body, nonce or no proof is refused") {
  const auto server = serve();
  const std::string proof = proof_of_put("c-1", "old");
  const std::string seal = seal_of("old");
  CHECK(status_of(put(server->url(), "c-1", "other", seal_of("other"), proof)) == 403);
  CHECK(status_of(put(server->url(), "c-2", "old", seal, proof)) == 403);
  CHECK(status_of(put(server->url(), "c-1", "old", seal, "")) == 403);
  CHECK(status_of(put(server->url(), "c-1", "old", seal_of("old"), proof)) == 200);
}

TEST_CASE("a body that is not the sealed one is refused, and changes nothing") {
  const auto server = serve();
  const std::string proof = proof_of_put("c-1", "old");
  CHECK_THAT(put(server->url(), "c-1", "new", seal_of("old"), proof),
             Catch::StartsWith("HTTP/1.1 400") && Catch::Contains("not the one that was sealed"));
  CHECK_FALSE(open(server->url())->get("k", Clock::now()).is_ok());
}

TEST_CASE("a request may come byte by byte, and what is none is answered and harms nobody") {
  const auto server = serve();
  const std::string proof = proof_of_put("c-1", "old");
  const Fd slow = connect_to(server->url());
  const Fd silent = connect_to(server->url());
  for (const char byte : put_request("c-1", "old", seal_of("old"), proof)) send_text(slow, {&byte, 1});
  CHECK(status_of(read_all(slow)) == 200);
  for (const std::string& nonsense :
       {std::string("hello\r\n\r\n"),
        "GET /x HTTP/1.1\r\nContent-Length: many\r\n\r\n" + std::string(100'000, 'x'),
        std::string("PUT /x HTTP/1.1\r\nno colon\r\n\r\n"),
        std::string("GET  HTTP/1.1\r\n") + std::string(100'000, 'x'), std::string("PUT /x HTTP/1.1\r\n\r\n"),
        std::string("PUT /x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        std::string("PUT /x HTTP/1.1\r\nContent-Length: 1\r\nContent-Encoding: gzip\r\n\r\nx"),
        std::string("PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        fmt::format("PUT /x HTTP/1.1\r\nContent-Length: {}\r\n\r\n", store::protocol::kLargestValue + 1)}) {
    CAPTURE(nonsense.substr(0, 80));
    const Fd fd = connect_to(server->url());
    (void)::send(fd.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
    CHECK_THAT(read_all(fd), Catch::StartsWith("HTTP/1.1 400"));
  }
  CHECK(*open(server->url())->get("k", in(60s)) == "old");
}

TEST_CASE("the server takes no signal, gives no descriptor to a program and none to a forked child") {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGPIPE, nullptr, &before);
  const int descriptors = descriptors_without_cloexec();
  auto server = serve();
  const std::string url = server->url();
  const Fd connected = connect_to(url);
  REQUIRE(open(url)->set("k", "v").is_ok());  // so the earlier connection has been accepted, too
  CHECK(descriptors_without_cloexec() == descriptors);
  {
    // An answer that is never read.
    const Fd gone = connect_to(url);
    send_text(gone,
              fmt::format("GET {}k HTTP/1.1\r\nContent-Length: 0\r\n\r\n", store::protocol::kValuePath));
  }
  REQUIRE(open(url)->set("k", "w").is_ok());
  ::sigaction(SIGPIPE, nullptr, &after);
  CHECK(before.sa_handler == after.sa_handler);

  // A child keeps no sockets. A new client is refused, and a connected one sees the end.
  int hold[2];
  REQUIRE(::pipe2(hold, O_CLOEXEC) == 0);
  ChildProcess child([&] {
    server->close_in_child();
    ::close(hold[1]);
    char byte = 0;
    (void)!::read(hold[0], &byte, 1);
    return 0;
  });
  ::close(hold[0]);
  server.reset();
  CHECK(read_all(connected) == "");
  CHECK_THAT(open(url)->set("k", "v").message(), Catch::Contains("Connection refused"));
  ::close(hold[1]);
  CHECK(child.wait() == 0);
}

TEST_CASE("without descriptors for more clients the server drops silent ones and serves on") {
  auto server = serve();
  std::vector<Fd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connect_to(server->url()));
  REQUIRE(open(server->url())->set("k", "v").is_ok());  // all have been accepted
  std::vector<Fd> clients, fill;
  int highest = 0;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    highest = std::max(highest, clients.back().get());
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    highest = std::max(highest, std::stoi(entry.path().filename()));
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  rlimit low = limit;
  low.rlim_cur = static_cast<rlim_t>(highest) + 1;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  for (Fd fd(::fcntl(0, F_DUPFD_CLOEXEC, 0)); fd; fd = Fd(::fcntl(0, F_DUPFD_CLOEXEC, 0)))
    fill.push_back(std::move(fd));
  const sockaddr_in address = loopback(std::stoi(server->url().substr(server->url().rfind(':') + 1)));
  std::vector<std::string> answers;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    const std::string nonce = fmt::format("c-{}", i + 1);
    const bool connected =
        ::connect(clients[i].get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const std::string request = put_request(nonce, "x", seal_of("x"), proof_of_put(nonce, "x"));
    (void)::send(clients[i].get(), request.data(), request.size(), MSG_NOSIGNAL);
    answers.push_back(connected ? read_all(clients[i]) : "not connected");
  }
  ::setrlimit(RLIMIT_NOFILE, &limit);
  for (const std::string& answer : answers) CHECK_THAT(answer, Catch::StartsWith("HTTP/1.1 200"));
}

/// So many connections at a time, again and again, of clients without the key.
class Strangers {
 public:
  Strangers(const std::string& url, std::size_t count)
      : address_(loopback(std::stoi(url.substr(url.rfind(':') + 1)))), connections_(count) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) besiege();
    });
  }
  /// Waits until all have connected once.
  void wait_until_there() { rounds_.wait(0); }
  std::string learnt() {
    thread_.request_stop();
    thread_.join();
    return fmt::format("{}", fmt::join(learnt_, "\n"));
  }

 private:
  void besiege() {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Fd& fd = connections_[i];
      if (!fd) {
        fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_) != 0)
          fd = Fd();
      }
      const std::string_view said = what_says(i);
      // Clients that send nothing, or little by little, stay connected.
      const ssize_t sent = ::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      std::array<char, 4096> answer;
      const ssize_t got = ::recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
      if (got > 0) learnt_.emplace(answer.data(), static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN) || (sent < 0 && errno != EAGAIN)) fd = Fd();
    }
    ++rounds_;
    rounds_.notify_all();
  }

  std::string_view what_says(std::size_t i) {
    static const std::string kHuge =
        "PUT /dabke/1/value/k HTTP/1.1\r\nContent-Length: 60000000\r\n\r\n" + std::string(1 << 20, 'x');
    static const std::string kLongHead = "PUT /" + std::string(1 << 20, 'x');
    switch (i % 6) {
      case 0: return "";
      case 1: return "G";
      case 2: return kHuge;
      case 3: return "PUT /dabke/1/value/k HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\n";
      case 4: return "PUT /dabke/1/value/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFF\r\n";
      default: return kLongHead;
    }
  }

  const sockaddr_in address_;
  std::vector<Fd> connections_;
  std::set<std::string> learnt_;  // each answer only once: many would take much memory
  std::atomic<int> rounds_{0};
  std::jthread thread_;
};

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Lets ranks meet as in init, all at once: each sets its address and reads all others.
void meet(const std::string& url, const std::string& name) {
  constexpr int kRanks = 8;
  std::vector<std::jthread> ranks;
  std::atomic<int> wrong{0};
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto store = store::open_http_store(url, some_job(1), some_key(2)).take();
      if (!store->increment(name)) ++wrong;
      if (!store->set(fmt::format("{}/{}", name, rank), std::string(2000, 'a')).is_ok()) ++wrong;
      for (int other = 0; other < kRanks; ++other)
        if (!store->get(fmt::format("{}/{}", name, other), in(60s)).is_ok()) ++wrong;
    });
  }
  ranks.clear();
  CHECK(wrong == 0);
  CHECK(*open(url)->get(name, in(60s)) == std::to_string(kRanks));
}

TEST_CASE("500 strangers neither delay the ranks nor cost memory, and learn and change nothing") {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  rlimit high = limit;
  high.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &high) == 0);
  const auto server = serve();
  REQUIRE(open(server->url())->set("k", "secret").is_ok());
  const std::size_t before = resident_bytes();
  const TimePoint start = Clock::now();
  meet(server->url(), "alone");
  const Duration alone = Clock::now() - start;
  Strangers strangers(server->url(), 500);
  strangers.wait_until_there();
  std::size_t most = 0;
  Duration longest{};
  for (const TimePoint end = in(3s); Clock::now() < end;) {
    const TimePoint besieged = Clock::now();
    meet(server->url(), fmt::format("besieged {}", besieged.time_since_epoch().count()));
    longest = std::max(longest, Clock::now() - besieged);
    most = std::max(most, resident_bytes());
  }
  CHECK(longest - alone < test::kPatience);
  CHECK_THAT(strangers.learnt(), Catch::Contains("HTTP/1.1 400") && !Catch::Contains("secret"));
  CHECK(*open(server->url())->get("k", in(60s)) == "secret");
  // Sanitizers keep freed memory for a while.
  if (!test::kSanitized) CHECK(most < before + (std::size_t{64} << 20));
  WARN(fmt::format("8 ranks met in {:.3f} s, and at most {:.3f} s among strangers, which cost {} KiB",
                   std::chrono::duration<double>(alone).count(),
                   std::chrono::duration<double>(longest).count(), (std::max(most, before) - before) / 1024));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("an answer that is not the store's own is not believed") {
  const Fd impostor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  REQUIRE(::bind(impostor.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  REQUIRE(::listen(impostor.get(), 1) == 0);
  REQUIRE(::getsockname(impostor.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  const std::jthread thread([&] {
    const Fd client(::accept4(impostor.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<char, 4096> request;
    (void)!::recv(client.get(), request.data(), request.size(), 0);
    const std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    (void)!::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  const auto got = open(fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port)))->get("k", in(60s));
  CHECK(got.status().code() == Code::invalid_argument);
  CHECK_THAT(got.status().message(), Catch::Contains("gave no valid proof: key or job do not match"));
}

TEST_CASE("when the launcher goes, a client that waits is told at once") {
  auto server = serve();
  const auto store = open(server->url());
  Status seen;
  const TimePoint before = Clock::now();
  {
    const std::jthread waiter([&] { seen = store->get("never", in(600s)).status(); });
    std::this_thread::sleep_for(100ms);
    server.reset();
  }
  CHECK(Clock::now() - before < test::kPatience);
  CHECK(seen.code() == Code::transport);
  CHECK_THAT(seen.message(), Catch::Contains("Connection refused"));
  CHECK(store->set("k", "v").code() == Code::transport);
  CHECK_THAT(store->set("k", "v").message(), Catch::Contains("ends with it"));
}

TEST_CASE("a server that was never started closes its port") {
  auto server = store::RendezvousServer::listen({"127.0.0.1"}, some_job(1), some_key(2));
  REQUIRE(server.is_ok());
  const std::string url = (*server)->url();
  server->reset();
  CHECK_THAT(open(url)->set("k", "v").message(), Catch::Contains("Connection refused"));
}

TEST_CASE("what is no address of a store is refused") {
  for (const std::string url : {"", "127.0.0.1:5", "http://", "http://h", "http://h:", "http://h:x",
                                "http://h:0", "http://h:70000", "http://h:5/x", "https://h:5"}) {
    CAPTURE(url);
    const auto store = store::open_http_store(url, {}, {});
    CHECK(store.status().code() == Code::invalid_argument);
    CHECK_THAT(store.status().message(), Catch::Contains("expected http://host:port"));
  }
  CHECK(store::open_http_store("http://no-such-host.invalid:5", {}, {}).status().code() == Code::transport);
}

}  // namespace dabke::test
