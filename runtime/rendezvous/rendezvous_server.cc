#include "runtime/rendezvous/rendezvous_server.h"

#include <fcntl.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <condition_variable>
#include <deque>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "runtime/base/clock.h"
#include "runtime/base/store_protocol.h"
#include "runtime/rendezvous/nonce_book.h"
#include "runtime/rendezvous/rendezvous_table.h"

namespace dabke {
namespace {

namespace protocol = store_protocol;

/// A thread for every connection that is open, reused when it is idle: a fixed number would starve the rank
/// that is to set a value while the others, who wait for it, hold all threads.
class GrowingTaskQueue final : public httplib::TaskQueue {
 public:
  ~GrowingTaskQueue() override { shutdown(); }

  void enqueue(std::function<void()> task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (idle_ >= tasks_.size()) {
      wake_.notify_one();
      return;
    }
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // No more threads to be had: the task waits for the next one that becomes idle, or its client's limit
      // passes.
    }
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    wake_.notify_all();
    threads_.clear();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      wake_.wait(lock, [this] { return !tasks_.empty() || closed_; });
      --idle_;
      if (tasks_.empty()) return;
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool closed_ = false;
  std::vector<std::jthread> threads_;
};

class Listener final : public httplib::Server {
 public:
  int listening_socket() const { return svr_sock_; }
};

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

struct Target {
  std::string_view path;  // kValuePath or kCounterPath; empty: neither
  std::string key;
  std::chrono::milliseconds wait{0};
};

Target parse_target(std::string_view text) {
  Target target;
  const auto question = text.find('?');
  if (question != std::string_view::npos) {
    std::string_view query = text.substr(question + 1);
    text = text.substr(0, question);
    if (query.starts_with(protocol::kWaitParameter) &&
        query.substr(protocol::kWaitParameter.size()).starts_with('=')) {
      query.remove_prefix(protocol::kWaitParameter.size() + 1);
      std::int64_t wait_ms = 0;
      std::from_chars(query.data(), query.data() + query.size(), wait_ms);
      target.wait = std::clamp(std::chrono::milliseconds(wait_ms), std::chrono::milliseconds(0),
                               protocol::kLongestWait);
    }
  }
  for (const auto path : {protocol::kValuePath, protocol::kCounterPath}) {
    if (!text.starts_with(path)) continue;
    target.path = path;
    target.key = percent_decoded(text.substr(path.size()));
  }
  return target;
}

}  // namespace

struct RendezvousServer::Parts {
  std::string job;
  JobKey key{};
  std::mutex nonces_mutex;
  NonceBook nonces;
  RendezvousTable table;
  Listener listener;
  std::jthread acceptor;
  std::function<void(const std::string& key, const std::string& value)> on_set;

  void answer(const httplib::Request& request, httplib::Response& response);
  int act(const httplib::Request& request, std::string& body);
};

void RendezvousServer::Parts::answer(const httplib::Request& request, httplib::Response& response) {
  const std::string nonce = request.get_header_value(std::string(protocol::kNonceHeader).c_str());
  const auto proof =
      protocol::request_proof(key, job, request.method, request.target, nonce, request.body);
  const bool genuine =
      proof.is_ok() && request.get_header_value(std::string(protocol::kJobHeader).c_str()) == job &&
      protocol::proofs_equal(
          request.get_header_value(std::string(protocol::kProofHeader).c_str()), *proof);
  bool fresh = false;
  if (genuine) {
    // Only what is genuine is remembered, so a stranger cannot fill the book.
    const std::lock_guard lock(nonces_mutex);
    fresh = nonces.take(nonce);
  }
  if (!genuine || !fresh) {
    response.status = protocol::kRefused;
    response.set_content(genuine ? "this request has been seen before\n" : "job or key do not match\n",
                         "text/plain");
    return;
  }
  std::string body;
  response.status = act(request, body);
  // Without the proof the client does not believe the answer, and says so.
  if (const auto made = protocol::answer_proof(key, nonce, response.status, body); made.is_ok())
    response.set_header(std::string(protocol::kProofHeader).c_str(), *made);
  response.set_content(body, "application/octet-stream");
}

int RendezvousServer::Parts::act(const httplib::Request& request, std::string& body) {
  const Target target = parse_target(request.target);
  const bool is_value = target.path == protocol::kValuePath;
  if (is_value && request.method == "PUT" && !target.key.empty()) {
    table.set(target.key, request.body);
    if (on_set) on_set(target.key, request.body);
    return protocol::kOk;
  }
  if (is_value && request.method == "GET" && !target.key.empty()) {
    auto value = table.get(target.key, Clock::now() + target.wait);
    if (!value) return protocol::kNotThere;
    body = std::move(*value);
    return protocol::kOk;
  }
  if (is_value && request.method == "DELETE") {
    table.remove_all(target.key);
    return protocol::kOk;
  }
  if (target.path == protocol::kCounterPath && request.method == "POST" && !target.key.empty()) {
    const auto count = table.increment(target.key);
    if (!count) return protocol::kNotACounter;
    body = std::to_string(*count);
    return protocol::kOk;
  }
  body = "no such request\n";
  return 400;
}

RendezvousServer::RendezvousServer(std::unique_ptr<Parts> parts, std::string url)
    : parts_(std::move(parts)), url_(std::move(url)) {}

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::listen(const std::string& address,
                                                                   const JobId& job, const JobKey& key) {
  auto parts = std::make_unique<Parts>();
  parts->job = to_hex(job);
  parts->key = key;
  Listener& listener = parts->listener;
  listener.new_task_queue = [] { return new GrowingTaskQueue; };
  listener.set_keep_alive_max_count(
      1);  // the library polls a connection that is kept alive a hundred times a second
  listener.set_read_timeout(std::chrono::seconds(5));
  listener.set_tcp_nodelay(true);
  listener.set_payload_max_length(protocol::kLargestValue);
  listener.set_socket_options([](int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); });
  const auto answer = [raw = parts.get()](const httplib::Request& request, httplib::Response& response) {
    raw->answer(request, response);
  };
  listener.Get("/.*", answer).Put("/.*", answer).Post("/.*", answer).Delete("/.*", answer);

  const int port = listener.bind_to_any_port(address);
  // The library lets five connections queue up; a sixth rank that starts at the same moment would wait a
  // second.
  if (port <= 0 || ::listen(listener.listening_socket(), 4096) != 0) {
    return Status(Code::transport, fmt::format("cannot listen on {} for the rendezvous store: {}", address,
                                               std::generic_category().message(errno)));
  }
  const bool is_ipv6 = address.find(':') != std::string::npos;
  std::string url =
      is_ipv6 ? fmt::format("http://[{}]:{}", address, port) : fmt::format("http://{}:{}", address, port);
  return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(parts), std::move(url)));
}

void RendezvousServer::on_set(std::function<void(const std::string& key, const std::string& value)> watcher) {
  parts_->on_set = std::move(watcher);
}

void RendezvousServer::start() {
  parts_->acceptor = std::jthread([this] { parts_->listener.listen_after_bind(); });
}

RendezvousServer::~RendezvousServer() {
  parts_->table.close();
  // Unlike the library's stop(), which does nothing while the acceptor is still on its way, this always ends
  // accept().
  if (parts_->acceptor.joinable()) {
    ::shutdown(parts_->listener.listening_socket(), SHUT_RDWR);
  } else {
    ::close(parts_->listener.listening_socket());
  }
}

}  // namespace dabke
