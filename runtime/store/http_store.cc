// A client of our own instead of a library's. A rank waits only in poll(), until a deadline, and gets no
// SIGPIPE when the launcher dies. It works with descriptors above 1,023, and libdabke.so links no HTTP or TLS
// library.
#include "runtime/store/http_store.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/tcp_link.h"
#include "runtime/store/http_answer.h"
#include "runtime/store/store_address.h"
#include "runtime/store/store_protocol.h"
#include "runtime/store/store_request.h"

namespace dabke::store {
namespace {

using namespace std::chrono_literals;

/// The time for connecting, sending and the answer, besides the time for which the store was asked to wait.
constexpr auto kAnswerLimit = 15s;
/// The pause after a store has dropped this client among the strangers that besiege it.
constexpr auto kAgainAfter = 10ms;

/// Makes the exchanges under way end soon.
class EarlyEnd {
 public:
  EarlyEnd() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void begin(Duration limit) {
    limit_ns_.store(std::chrono::nanoseconds(limit).count());
    const std::uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof one);
  }
  /// The end of an exchange that asks for the first time now; nothing while there is no hurry.
  std::optional<TimePoint> deadline() const {
    const std::int64_t limit = limit_ns_.load();
    if (limit < 0) return std::nullopt;
    return Clock::now() + std::chrono::nanoseconds(limit);
  }
  int descriptor() const { return event_.get(); }  // -1, which poll() ignores, if there was none to be had

 private:
  const Fd event_;
  std::atomic<std::int64_t> limit_ns_{-1};
};

std::string percent_encoded(std::string_view key) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string out;
  for (const char c : key) {
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

/// The time limit of one exchange, which may become shorter while it is under way.
class Limit {
 public:
  Limit(TimePoint deadline, const EarlyEnd& hurry) : deadline_(deadline), hurry_(hurry) {}

  Status wait_for(int fd, short events) {
    for (;;) {
      if (const auto hurried = hurry_.deadline(); hurried && !hurries_) {
        hurries_ = true;
        deadline_ = std::min(deadline_, *hurried);
      }
      std::array<pollfd, 2> entries{{{fd, events, 0}, {hurry_.descriptor(), POLLIN, 0}}};
      // The second entry stays readable once the hurry has begun, and has nothing more to report.
      const int ready = ::poll(entries.data(), hurries_ ? 1 : 2, poll_timeout_ms(deadline_));
      if (ready > 0 && entries[0].revents != 0) return {};
      if (ready == 0) return {Code::timeout, kNoAnswer};
      if (ready < 0 && errno != EINTR) return system_error("poll", errno);
    }
  }

  /// Waits before another attempt; fails if the time is up.
  Status pause(Duration time) {
    if (Clock::now() + time >= deadline_) return {Code::timeout, kNoAnswer};
    std::this_thread::sleep_for(time);
    return {};
  }

 private:
  static constexpr const char* kNoAnswer = "no answer in time; dabkerun may be stopped or overloaded";

  TimePoint deadline_;
  bool hurries_ = false;
  const EarlyEnd& hurry_;
};

Result<Fd> connect_to(const links::SocketAddress& address, Limit& limit) {
  DABKE_ASSIGN_OR_RETURN(Fd fd, links::tcp_connect(address));
  DABKE_RETURN_IF_ERROR(limit.wait_for(fd.get(), POLLOUT));
  DABKE_RETURN_IF_ERROR(links::tcp_connected(fd.get()));
  return fd;
}

Status send_all(int fd, std::string_view bytes, Limit& limit) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      DABKE_RETURN_IF_ERROR(limit.wait_for(fd, POLLOUT));
    } else if (errno != EINTR) {
      return system_error("send", errno);
    }
  }
  return {};
}

/// `answer` holds the bytes that have come, even if they are not a whole answer.
Status receive_answer(int fd, Limit& limit, HttpAnswer& answer) {
  std::array<char, 16 << 10> chunk;
  for (;;) {
    const ssize_t got = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EAGAIN) {
      DABKE_RETURN_IF_ERROR(limit.wait_for(fd, POLLIN));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("recv", errno);
    if (got == 0) return {Code::transport, "the connection was closed before the answer was complete"};
    DABKE_ASSIGN_OR_RETURN(const auto progress, answer.append({chunk.data(), static_cast<std::size_t>(got)}));
    if (progress == HttpAnswer::Progress::complete) return {};
  }
}

class HttpStore final : public Store {
 public:
  HttpStore(StoreAddress address, StoreSecret secret, std::string client)
      : address_(std::move(address)), secret_(std::move(secret)), client_(std::move(client)) {}

  Status set(const std::string& key, std::string_view value) override {
    DABKE_ASSIGN_OR_RETURN(const std::string path, path_of(protocol::kValuePath, key));
    if (value.size() > protocol::kLargestValue) {
      return {Code::invalid_argument, fmt::format("'{}' has {} bytes; the {} store takes at most {}", key,
                                                  value.size(), describe(), protocol::kLargestValue)};
    }
    return ask("PUT", path, value, 0ms).status();
  }

  Result<std::string> get(const std::string& key, TimePoint deadline) override {
    DABKE_ASSIGN_OR_RETURN(const std::string path, path_of(protocol::kValuePath, key));
    for (;;) {
      const auto left = deadline == kNever
                            ? protocol::kLongestWait
                            : std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      const auto wait = std::clamp(left, std::chrono::milliseconds(0), protocol::kLongestWait);
      DABKE_ASSIGN_OR_RETURN(
          HttpAnswer answer,
          ask("GET", fmt::format("{}?{}={}", path, protocol::kWaitParameter, wait.count()), "", wait));
      if (answer.status() == protocol::kOk) return answer.body();
      if (deadline != kNever && Clock::now() >= deadline) {
        return Status(Code::timeout,
                      fmt::format("'{}' was not set in the {} store in time", key, describe()));
      }
    }
  }

  Result<std::uint64_t> increment(const std::string& key) override {
    DABKE_ASSIGN_OR_RETURN(const std::string path, path_of(protocol::kCounterPath, key));
    DABKE_ASSIGN_OR_RETURN(const HttpAnswer answer, ask("POST", path, "", 0ms));
    if (answer.status() == protocol::kNotACounter) {
      return Status(Code::invalid_argument, fmt::format("'{}' contains text, not a counter", key));
    }
    std::uint64_t count = 0;
    const char* last = answer.body().data() + answer.body().size();
    if (const auto [end, error] = std::from_chars(answer.body().data(), last, count);
        error != std::errc() || end != last) {
      return Status(Code::internal,
                    fmt::format("the {} store answered '{}' for a count", describe(), answer.body()));
    }
    return count;
  }

  Status remove_all(const std::string& prefix) override {
    return ask("DELETE", std::string(protocol::kValuePath) + percent_encoded(prefix), "", 0ms).status();
  }

  void hurry(Duration limit) override { hurry_.begin(limit); }
  std::string describe() const override { return "http://" + address_.authority; }

 private:
  Result<std::string> path_of(std::string_view path, const std::string& key) const {
    std::string out = percent_encoded(key);
    if (key.empty() || out.size() > protocol::kLongestKey) {
      return Status(Code::invalid_argument,
                    fmt::format("'{}' is not a valid key: expected 1 to {} characters", key.substr(0, 80),
                                protocol::kLongestKey));
    }
    return std::string(path) + out;
  }

  /// `wait` is how long the store may take on purpose. The store takes the request once, however often it is
  /// sent, so an increment counts once.
  Result<HttpAnswer> ask(std::string_view method, const std::string& target, std::string_view body,
                         std::chrono::milliseconds wait) {
    const std::string nonce = fmt::format("{}-{}", client_, ++sent_);
    DABKE_ASSIGN_OR_RETURN(const std::string request,
                           store_request(secret_, address_.authority, nonce, method, target, body));
    Result<HttpAnswer> answer = exchange(request, Clock::now() + wait + kAnswerLimit);
    if (!answer.is_ok()) {
      return Status(
          Code::transport,
          fmt::format("no answer from the rendezvous store {}: {}. It runs in the dabkerun that started this "
                      "rank, or in rank 0 if mpirun or the program started the job, and ends with it.",
                      describe(), answer.status().message()));
    }
    if (answer->status() == protocol::kNoMemory) {
      return Status(
          Code::out_of_memory,
          fmt::format("the rendezvous store {} is out of memory and cannot serve this rank", describe()));
    }
    DABKE_ASSIGN_OR_RETURN(const bool genuine, is_genuine(secret_, nonce, *answer));
    if (!genuine) {
      return Status(
          Code::invalid_argument,
          fmt::format(
              "the rendezvous store {} {}: key or job do not match. DABKE_RENDEZVOUS, DABKE_JOB_ID and "
              "DABKE_JOB_KEY must all come from the same dabkerun.",
              describe(),
              answer->status() == protocol::kRefused ? "refused this process" : "gave no valid proof"));
    }
    if (answer->status() != protocol::kOk && answer->status() != protocol::kNotThere &&
        answer->status() != protocol::kNotACounter) {
      return Status(Code::internal, fmt::format("the rendezvous store {} answered {} with status {}: {}",
                                                describe(), method, answer->status(), answer->body()));
    }
    return answer;
  }

  Result<HttpAnswer> exchange(const std::string& request, TimePoint deadline) const {
    Limit limit(deadline, hurry_);
    for (;;) {
      DABKE_ASSIGN_OR_RETURN(const Fd fd, connect_to(address_.at, limit));
      // A store that refuses may close before it has read everything. Its answer can still be read.
      const Status sent = send_all(fd.get(), request, limit);
      HttpAnswer answer;
      const Status received = receive_answer(fd.get(), limit, answer);
      if (received.is_ok()) return answer;
      const bool is_dropped = received.code() == Code::transport && !answer.has_begun();
      if (!is_dropped) return sent.is_ok() ? received : sent;
      DABKE_RETURN_IF_ERROR(limit.pause(kAgainAfter));
    }
  }

  const StoreAddress address_;
  const StoreSecret secret_;
  const std::string client_;
  std::atomic<std::uint64_t> sent_{0};
  EarlyEnd hurry_;
};

}  // namespace

Result<std::shared_ptr<Store>> open_http_store(const std::string& url, const JobId& job, const JobKey& key,
                                               TimePoint deadline) {
  DABKE_ASSIGN_OR_RETURN(const auto addresses, store_addresses(url));
  StoreSecret secret{to_hex(job), key};
  StoreAddress address = addresses.front();
  if (addresses.size() > 1) {
    DABKE_ASSIGN_OR_RETURN(address, find_store(addresses, secret, deadline));
  }
  std::array<std::byte, 16> client{};
  DABKE_RETURN_IF_ERROR(random_bytes(client));
  return std::shared_ptr<Store>(
      std::make_shared<HttpStore>(std::move(address), std::move(secret), to_hex(client)));
}

}  // namespace dabke::store
