#include "runtime/store/rendezvous_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/clock.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/base/threads/thread.h"
#include "runtime/store/http_request.h"
#include "runtime/store/nonce_book.h"
#include "runtime/store/rendezvous_table.h"
#include "runtime/store/store_protocol.h"

namespace dabke::store {
namespace {

using namespace std::chrono_literals;

/// The time for a client that has proved its key to send its body, and to take its answer. It begins anew
/// whenever bytes move.
constexpr Duration kPatience = 5s;
/// The whole time for all others, even if bytes move. A client that is only slow connects again.
constexpr Duration kStrangerTime = 2s;
/// One more stranger takes the place of the oldest.
constexpr std::size_t kMostStrangers = 64;
/// After this many new clients the others are served.
constexpr int kMostAccepted = 64;
/// The pause while there is no descriptor for one more client.
constexpr Duration kShortage = 100ms;
/// Made in advance, because there may be no memory for it when it is needed.
constexpr std::string_view kNoMemoryAnswer =
    "HTTP/1.1 507 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
static_assert(kNoMemoryAnswer.find(" 507 ") != std::string_view::npos && protocol::kNoMemory == 507);
constexpr int kBadRequest = 400;
constexpr int kFailure = 500;

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
  std::int64_t amount = 1;
};

/// The number of a query `name=number`; nothing if the query is another one.
std::optional<std::int64_t> parameter_of(std::string_view query, std::string_view name) {
  if (!query.starts_with(name) || !query.substr(name.size()).starts_with('=')) return std::nullopt;
  query.remove_prefix(name.size() + 1);
  std::int64_t number = 0;
  std::from_chars(query.data(), query.data() + query.size(), number);
  return number;
}

Target parse_target(std::string_view text) {
  Target target;
  const auto question = text.find('?');
  if (question != std::string_view::npos) {
    const std::string_view query = text.substr(question + 1);
    text = text.substr(0, question);
    if (const auto wait_ms = parameter_of(query, protocol::kWaitParameter)) {
      target.wait = std::clamp(std::chrono::milliseconds(*wait_ms), std::chrono::milliseconds(0),
                               protocol::kLongestWait);
    }
    target.amount = parameter_of(query, protocol::kAmountParameter).value_or(1);
  }
  for (const auto path : {protocol::kValuePath, protocol::kCounterPath}) {
    if (!text.starts_with(path)) continue;
    target.path = path;
    target.key = percent_decoded(text.substr(path.size()));
  }
  return target;
}

/// A socket that listens on a free port of a numeric address.
Result<Fd> listen_on(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(address.c_str(), "0", &hints, &found); error != 0)
    return Status(Code::transport, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Fd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket", errno);
  // All ranks of a job may come at the same moment.
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), 4096) != 0)
    return system_error("bind", errno);
  return fd;
}

Result<int> port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return system_error("getsockname", errno);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

/// The work of the server's thread. Each connection brings one request and takes one answer:
///   reading    until the request is complete
///   waiting    if its key is not there yet
///   answering  until the kernel has the answer
///   closing    until the client has gone
/// Until its head has proved the key, a connection is a stranger's. A stranger has little time, and there may
/// be only a few of them.
class RendezvousServer::Loop {
 public:
  Loop(const JobId& job, const JobKey& key) : job_(to_hex(job)), key_(key) {}
  ~Loop();

  Status open();
  bool is_open() const { return stop_ && epoll_; }
  /// Returns the port.
  Result<int> listen(const std::string& address);
  void on_set(std::function<void(const std::string&, const std::string&)> watcher) {
    on_set_ = std::move(watcher);
  }
  void preset(const std::string& key, std::string value) { table_.set(key, std::move(value)); }
  void set(const std::string& key, std::string value);
  Status start();
  void close_in_child() { guard_.close_all_in_child(); }

 private:
  using Number = std::uint64_t;
  static constexpr Number kListener = 0, kStop = 1, kGiven = 2;  // all listeners have one number

  struct Connection {
    enum class State { reading, waiting, answering, closing };
    GuardedFd fd;
    State state = State::reading;
    bool is_strange = true;
    HttpRequest request = {};
    std::string nonce = {};
    std::string key = {};  // for which it waits
    std::string answer = {};
    std::size_t sent = 0;
    TimePoint deadline = {};
  };
  using Position = std::map<Number, Connection>::iterator;

  void run();
  void serve_one(Number number);
  void take_given();
  void accept_clients();
  void accept_clients_of(int listener);
  void listen_for(std::uint32_t events);
  void make_room();
  void serve(Position at);
  void read_some(Position at);
  Status check_proof(Position at);
  void take_request(Position at);
  bool act(Position at);
  void reply(Position at, int status, std::string_view body);
  void send_some(Position at);
  void notify_waiters(const std::string& key);
  void reply_or_give_up(Position at, int status, std::string_view body);
  void end_overdue(TimePoint looked);
  void set_deadline(Position at, Duration wait);
  void stop_waiting(Position at);
  void give_up(Position at);
  void close_after_answer(Position at);
  void close(Position at);

  const std::string job_;
  const JobKey key_;
  ForkGuard guard_;
  GuardedFd epoll_, stop_, given_event_;
  std::mutex given_mutex_;
  std::vector<std::pair<std::string, std::string>> given_;  // values, set by other threads of this process
  std::vector<GuardedFd> listeners_;
  std::function<void(const std::string&, const std::string&)> on_set_;
  RendezvousTable table_;
  NonceBook nonces_;
  Number last_number_ = kGiven;
  std::map<Number, Connection> connections_;
  std::set<Number> strangers_;  // the oldest first
  std::set<std::pair<TimePoint, Number>> deadlines_;
  std::map<std::string, std::set<Number>> waiters_;
  TimePoint accepts_again_at_ = {};  // later than now: there was no descriptor
  std::jthread thread_;
};

Status RendezvousServer::Loop::open() {
  stop_ = GuardedFd(Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), guard_);
  epoll_ = GuardedFd(Fd(::epoll_create1(EPOLL_CLOEXEC)), guard_);
  given_event_ = GuardedFd(Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), guard_);
  if (!stop_ || !epoll_ || !given_event_) return system_error("epoll_create1 or eventfd", errno);
  for (const auto& [fd, number] : {std::pair(stop_.get(), kStop), std::pair(given_event_.get(), kGiven)}) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error("epoll_ctl", errno);
  }
  return {};
}

Result<int> RendezvousServer::Loop::listen(const std::string& address) {
  DABKE_ASSIGN_OR_RETURN(Fd listener, listen_on(address));
  DABKE_ASSIGN_OR_RETURN(const int port, port_of(listener.get()));
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kListener}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0)
    return system_error("epoll_ctl", errno);
  listeners_.emplace_back(std::move(listener), guard_);
  return port;
}

Status RendezvousServer::Loop::start() {
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-store", [this] { run(); }));
  return {};
}

RendezvousServer::Loop::~Loop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
  // A client that waits gets the answer that nothing has come, asks again, and finds no server.
  for (GuardedFd& listener : listeners_) listener.reset();
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto next = std::next(at);
    try {
      if (at->second.state == Connection::State::waiting) reply(at, protocol::kNotThere, "");
      if (at->second.state == Connection::State::answering) send_some(at);
    } catch (const std::exception&) {  // no memory for the answer: its client finds no server at once
    }
    at = next;
  }
}

void RendezvousServer::Loop::run() {
  std::array<epoll_event, 64> events;
  TimePoint looked{};    // when this thread began to look at all connections
  std::size_t seen = 0;  // events since then
  while (true) {
    if (seen == 0) looked = Clock::now();
    TimePoint next = deadlines_.empty() ? kNever : deadlines_.begin()->first;
    if (accepts_again_at_ != TimePoint{}) next = std::min(next, accepts_again_at_);
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), poll_timeout_ms(next));
    if (count < 0 && errno != EINTR) return;  // only if other code has closed a descriptor
    for (int i = 0; i < count; ++i) {
      const Number number = events[static_cast<std::size_t>(i)].data.u64;
      if (number == kStop) return;
      serve_one(number);
    }
    seen += static_cast<std::size_t>(std::max(count, 0));
    // epoll_wait reports ready descriptors in turn, so after so many events none has been left out.
    if (count < static_cast<int>(events.size()) || seen > connections_.size() + listeners_.size() + 2) {
      end_overdue(looked);
      seen = 0;
    }
    if (accepts_again_at_ != TimePoint{} && Clock::now() >= accepts_again_at_) {
      accepts_again_at_ = {};
      listen_for(EPOLLIN);
    }
  }
}

void RendezvousServer::Loop::serve_one(Number number) {
  try {
    if (number == kListener) return accept_clients();
    if (number == kGiven) return take_given();
    if (const auto at = connections_.find(number); at != connections_.end()) serve(at);
  } catch (const std::exception&) {  // no memory for this client; the others go on
    const auto at = connections_.find(number == kListener ? last_number_ : number);
    if (at != connections_.end()) give_up(at);
  }
}

void RendezvousServer::Loop::set(const std::string& key, std::string value) {
  {
    const std::lock_guard lock(given_mutex_);
    given_.emplace_back(key, std::move(value));
  }
  const std::uint64_t one = 1;
  (void)!::write(given_event_.get(), &one, sizeof one);
}

void RendezvousServer::Loop::take_given() {
  std::uint64_t count = 0;
  (void)!::read(given_event_.get(), &count, sizeof count);
  std::vector<std::pair<std::string, std::string>> given;
  {
    const std::lock_guard lock(given_mutex_);
    given.swap(given_);
  }
  for (auto& [key, value] : given) {
    table_.set(key, std::move(value));
    notify_waiters(key);
  }
}

void RendezvousServer::Loop::listen_for(std::uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = kListener}};
  for (const GuardedFd& listener : listeners_)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener.get(), &event);
}

void RendezvousServer::Loop::accept_clients() {
  for (const GuardedFd& listener : listeners_) accept_clients_of(listener.get());
}

void RendezvousServer::Loop::accept_clients_of(int listener) {
  for (int i = 0; i < kMostAccepted; ++i) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      return make_room();
    }
    if (!fd && (errno == EAGAIN || errno == EINVAL || errno == EBADF)) return;
    if (!fd) continue;  // the client's own errors, which Linux reports to accept4()
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const Number number = ++last_number_;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = number}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) continue;
    const auto at = connections_.try_emplace(number, Connection{GuardedFd(std::move(fd), guard_)}).first;
    strangers_.insert(number);
    set_deadline(at, kStrangerTime);
    serve_one(number);  // most have sent their request by now, and stop being strangers
    if (strangers_.size() > kMostStrangers) close(connections_.find(*strangers_.begin()));
  }
}

/// Makes room when there is no descriptor for the next client: closes the oldest client that is silent, and
/// lets the others wait a little.
void RendezvousServer::Loop::make_room() {
  const auto silent = std::ranges::find_if(connections_, [](const auto& entry) {
    return entry.second.state == Connection::State::reading ||
           entry.second.state == Connection::State::closing;
  });
  if (silent != connections_.end()) close(silent);
  accepts_again_at_ = Clock::now() + kShortage;
  listen_for(0);
}

void RendezvousServer::Loop::serve(Position at) {
  if (at->second.state == Connection::State::answering) return send_some(at);
  read_some(at);
}

/// Reads from a client; closes one that has gone.
void RendezvousServer::Loop::read_some(Position at) {
  Connection& connection = at->second;
  std::array<char, HttpRequest::kLargestHead> chunk;
  const ssize_t got = ::recv(connection.fd.get(), chunk.data(), chunk.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return close(at);
  // Bytes behind the request have no meaning.
  if (connection.state != Connection::State::reading) return;
  const auto progress = connection.request.append({chunk.data(), static_cast<std::size_t>(got)});
  if (!progress.is_ok()) return reply(at, kBadRequest, progress.status().message() + "\n");
  if (*progress == HttpRequest::Progress::in_head) return;
  if (connection.is_strange) {
    if (const Status known = check_proof(at); !known.is_ok()) {
      const int status = known.code() == Code::invalid_argument ? protocol::kRefused : kFailure;
      return reply(at, status, known.message() + "\n");
    }
    connection.is_strange = false;
    strangers_.erase(at->first);
    connection.nonce = connection.request.nonce();
  }
  set_deadline(at, kPatience);
  if (*progress == HttpRequest::Progress::complete) take_request(at);
}

/// Checks the head alone; takes the nonce.
Status RendezvousServer::Loop::check_proof(Position at) {
  const HttpRequest& request = at->second.request;
  DABKE_ASSIGN_OR_RETURN(const std::string proof,
                         protocol::request_proof(key_, job_, request.method(), request.target(),
                                                 request.nonce(), request.seal()));
  if (request.job() != job_ || !protocol::proofs_equal(request.proof(), proof))
    return {Code::invalid_argument, "job or key do not match"};
  // Only the nonces of genuine requests are stored, so a stranger cannot fill the book.
  if (!nonces_.take(request.nonce())) return {Code::invalid_argument, "this request has been seen before"};
  return {};
}

void RendezvousServer::Loop::take_request(Position at) {
  const auto seal = protocol::body_seal(key_, at->second.request.body());
  if (!seal.is_ok()) return reply(at, kFailure, seal.status().message() + "\n");
  if (!protocol::proofs_equal(at->second.request.seal(), *seal))
    return reply(at, kBadRequest, "this body is not the one that was sealed\n");
  if (!act(at)) reply(at, kBadRequest, "no such request\n");
}

/// Carries out the request; false: it makes no sense.
bool RendezvousServer::Loop::act(Position at) {
  const HttpRequest& request = at->second.request;
  const Target target = parse_target(request.target());
  const bool is_value = target.path == protocol::kValuePath;
  if (is_value && request.method() == "DELETE") {
    table_.remove_all(target.key);
    reply(at, protocol::kOk, "");
    return true;
  }
  if (target.path.empty() || target.key.empty()) return false;
  if (is_value && request.method() == "PUT") {
    table_.set(target.key, std::string(request.body()));
    if (on_set_) on_set_(target.key, *table_.get(target.key));
    reply(at, protocol::kOk, "");
    notify_waiters(target.key);
    return true;
  }
  if (is_value && request.method() == "GET") {
    if (const std::string* const value = table_.get(target.key)) {
      reply(at, protocol::kOk, *value);
    } else {
      at->second.state = Connection::State::waiting;
      at->second.key = target.key;
      waiters_[target.key].insert(at->first);
      set_deadline(at, target.wait);
    }
    return true;
  }
  if (is_value || request.method() != "POST") return false;
  const auto count = table_.add(target.key, target.amount);
  reply(at, count ? protocol::kOk : protocol::kNotACounter, count ? std::to_string(*count) : "");
  notify_waiters(target.key);
  return true;
}

void RendezvousServer::Loop::notify_waiters(const std::string& key) {
  const auto found = waiters_.find(key);
  const std::string* const value = table_.get(key);
  if (found == waiters_.end() || value == nullptr) return;
  for (const Number number : std::exchange(found->second, {})) {
    const auto at = connections_.find(number);
    if (at != connections_.end()) reply_or_give_up(at, protocol::kOk, *value);
  }
  waiters_.erase(key);
}

/// Replies to a client that is not being served just now. If memory is short, only that client is given up.
void RendezvousServer::Loop::reply_or_give_up(Position at, int status, std::string_view body) {
  try {
    reply(at, status, body);
  } catch (const std::exception&) {
    give_up(at);
  }
}

/// Ends a client for which there is no memory. A client that has proved its key gets that as its answer;
/// others ask again.
void RendezvousServer::Loop::give_up(Position at) {
  Connection& connection = at->second;
  if (connection.is_strange || connection.sent != 0) return close(at);
  if (connection.state == Connection::State::waiting) stop_waiting(at);
  (void)!::send(connection.fd.get(), kNoMemoryAnswer.data(), kNoMemoryAnswer.size(), MSG_NOSIGNAL);
  close_after_answer(at);
}

/// The answer to a genuine request carries a proof, too.
void RendezvousServer::Loop::reply(Position at, int status, std::string_view body) {
  Connection& connection = at->second;
  const bool genuine = !connection.is_strange;
  std::string proof;
  if (genuine) {
    const auto made = protocol::answer_proof(key_, connection.nonce, status, body);
    // The client does not accept an answer without the proof, and reports that.
    if (made.is_ok()) proof = fmt::format("{}: {}\r\n", protocol::kProofHeader, *made);
  }
  connection.answer =
      fmt::format("HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}\r\n{}",
                  status, status == protocol::kOk ? "OK" : "No",
                  genuine ? "application/octet-stream" : "text/plain", body.size(), proof, body);
  connection.state = Connection::State::answering;
  connection.request = {};
  if (genuine) set_deadline(at, kPatience);
  epoll_event event{.events = EPOLLOUT, .data = {.u64 = at->first}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
}

void RendezvousServer::Loop::send_some(Position at) {
  Connection& connection = at->second;
  const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
  const ssize_t sent = ::send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (sent < 0) return close(at);
  connection.sent += static_cast<std::size_t>(sent);
  if (!connection.is_strange) set_deadline(at, kPatience);
  if (static_cast<std::size_t>(sent) < rest.size()) return;
  close_after_answer(at);
}

/// Closes only after the client has gone, because bytes that are still coming would destroy the answer on its
/// way.
void RendezvousServer::Loop::close_after_answer(Position at) {
  Connection& connection = at->second;
  ::shutdown(connection.fd.get(), SHUT_WR);
  connection.request = {};
  connection.answer = {};
  connection.state = Connection::State::closing;
  if (!connection.is_strange) set_deadline(at, kPatience);
  epoll_event event{.events = EPOLLIN, .data = {.u64 = at->first}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
}

/// Ends what was overdue already when this thread last asked for events. This thread may be late itself, as
/// after a pause of its host: then it first serves whatever has come, and its clients take their answers.
void RendezvousServer::Loop::end_overdue(TimePoint looked) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= looked) {
    const auto at = connections_.find(deadlines_.begin()->second);
    if (at->second.state == Connection::State::waiting) {
      stop_waiting(at);
      reply_or_give_up(at, protocol::kNotThere, "");
    } else {
      close(at);
    }
  }
}

/// Needs memory only for the first deadline of a connection.
void RendezvousServer::Loop::set_deadline(Position at, Duration wait) {
  auto entry = deadlines_.extract({at->second.deadline, at->first});
  at->second.deadline = Clock::now() + wait;
  if (entry.empty()) {
    deadlines_.insert({at->second.deadline, at->first});
  } else {
    entry.value().first = at->second.deadline;
    deadlines_.insert(std::move(entry));
  }
}

/// A connection is missing in the list of its key if it could not be put there, or is being answered just
/// now.
void RendezvousServer::Loop::stop_waiting(Position at) {
  const auto waiters = waiters_.find(at->second.key);
  if (waiters == waiters_.end()) return;
  waiters->second.erase(at->first);
  if (waiters->second.empty()) waiters_.erase(waiters);
}

void RendezvousServer::Loop::close(Position at) {
  deadlines_.erase({at->second.deadline, at->first});
  if (at->second.state == Connection::State::waiting) stop_waiting(at);
  strangers_.erase(at->first);
  connections_.erase(at);
}

RendezvousServer::RendezvousServer(std::unique_ptr<Loop> loop, std::string url)
    : loop_(std::move(loop)), url_(std::move(url)) {}
RendezvousServer::~RendezvousServer() = default;

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::listen(const std::vector<std::string>& addresses,
                                                                   const JobId& job, const JobKey& key) {
  auto loop = std::make_unique<Loop>(job, key);
  Status status = loop->open();
  std::string url;
  for (std::size_t i = 0; i < addresses.size() && loop->is_open(); ++i) {
    const auto port = loop->listen(addresses[i]);
    status = port.status();
    if (!port.is_ok()) continue;
    const bool is_ipv6 = addresses[i].find(':') != std::string::npos;
    url += url.empty() ? "http://" : ",";
    url += fmt::format(fmt::runtime(is_ipv6 ? "[{}]:{}" : "{}:{}"), addresses[i], *port);
  }
  if (!url.empty())
    return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(loop), std::move(url)));
  return Status(Code::transport, fmt::format("cannot listen on {} for the rendezvous store: {}",
                                             fmt::join(addresses, ", "), status.message()));
}

void RendezvousServer::on_set(std::function<void(const std::string& key, const std::string& value)> watcher) {
  loop_->on_set(std::move(watcher));
}

void RendezvousServer::preset(const std::string& key, std::string value) {
  loop_->preset(key, std::move(value));
}

void RendezvousServer::set(const std::string& key, std::string value) { loop_->set(key, std::move(value)); }

Status RendezvousServer::start() { return loop_->start(); }

void RendezvousServer::close_in_child() { loop_->close_in_child(); }

}  // namespace dabke::store
