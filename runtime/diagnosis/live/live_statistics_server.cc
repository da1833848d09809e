#include "runtime/diagnosis/live/live_statistics_server.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "runtime/base/threads/thread.h"
#include "runtime/links/frame.h"
#include "runtime/links/handshake_io.h"
#include "runtime/links/tcp_link.h"

namespace dabke::diagnosis {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPeriod = 1s;
/// The time that the ranks get to answer.
constexpr Duration kAnswerTime = 200ms;
/// The time that the coordinator thread gets to hand over the figures. It may be asleep or
/// in the middle of a step.
constexpr Duration kTakeTime = 2s;
constexpr Duration kProofTime = 2s;
constexpr std::size_t kMostViewers = 16;
/// The most bytes that wait for a viewer. A viewer that does not read is disconnected.
constexpr std::size_t kMostWaiting = 4 << 20;

}  // namespace

Result<std::unique_ptr<LiveStatisticsServer>> LiveStatisticsServer::open(Parts parts) {
  std::unique_ptr<LiveStatisticsServer> server(new LiveStatisticsServer(std::move(parts)));
  DABKE_RETURN_IF_ERROR(server->start());
  return server;
}

LiveStatisticsServer::~LiveStatisticsServer() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!::write(end_.get(), &one, sizeof one);
    thread_.join();
  }
  if (!file_.empty()) ::unlink(file_.c_str());
}

Status LiveStatisticsServer::start() {
  if (parts_.where == "launcher") {
    if (parts_.launcher == nullptr)
      return {Code::invalid_argument,
              "DABKE_TOP=launcher: this job was not started by dabkerun; set a port, or 0 for any"};
  } else {
    DABKE_RETURN_IF_ERROR(listen());
  }
  end_ = GuardedFd(Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), parts_.guard);
  if (!end_) return {Code::transport, fmt::format("eventfd: {}", ::strerror(errno))};
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-look", [this] { loop(); }));
  return {};
}

Status LiveStatisticsServer::listen() {
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress host, links::listening_address(parts_.world));
  const links::SocketAddress wanted = host.with_port(static_cast<std::uint16_t>(std::stoi(parts_.where)));
  const auto cannot = [&](const char* what) {
    return Status(Code::transport,
                  fmt::format("DABKE_TOP={}: cannot {} {}: {}; choose another port, or 0 for any",
                              parts_.where, what, wanted.to_string(), ::strerror(errno)));
  };
  Fd socket(::socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return cannot("make a socket for");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), wanted.get(), wanted.length()) != 0) return cannot("bind");
  if (::listen(socket.get(), 16) != 0) return cannot("listen at");
  DABKE_ASSIGN_OR_RETURN(const links::SocketAddress address, links::SocketAddress::local_of(socket.get()));
  listener_ = GuardedFd(std::move(socket), parts_.guard);
  DABKE_ASSIGN_OR_RETURN(const JobKey key, look_key(parts_.world.job_key));
  ticket_ = {address.to_string(), parts_.world.job_id, parts_.world.epoch, key};
  DABKE_ASSIGN_OR_RETURN(const std::string directory, look_directory());
  const std::string file = fmt::format("{}/{}", directory, look_file_name(ticket_.address));
  DABKE_RETURN_IF_ERROR(write_ticket(ticket_, file));
  file_ = file;
  parts_.log.info("watch this job with: dabke-timeline top {} (the key is in {})", ticket_.address, file_);
  return {};
}

void LiveStatisticsServer::loop() noexcept {
  while (!ends_) {
    try {
      wait();
      keep_time();
    } catch (const std::exception&) {
      // Memory has run out. All viewers are disconnected, and the figures are dropped.
      viewers_.clear();
      std::this_thread::sleep_for(kPeriod);
    }
  }
}

bool LiveStatisticsServer::is_seen() const {
  return !listener_ ||
         std::ranges::any_of(viewers_, [](const auto& viewer) { return viewer->handshake.done(); });
}

TimePoint LiveStatisticsServer::next_deadline() const {
  TimePoint next = listener_ && admits_at_ > Clock::now() ? admits_at_ : kNever;
  for (const auto& viewer : viewers_) {
    if (!viewer->handshake.done()) next = std::min(next, viewer->proves_until);
  }
  return is_seen() ? std::min(next, take_at_.value_or(look_at_)) : next;
}

void LiveStatisticsServer::wait() {
  std::vector<pollfd> entries = {
      {end_.get(), POLLIN, 0},
      {admits_at_ <= Clock::now() ? listener_.get() : -1, POLLIN, 0}};  // one of -1 is left out
  for (const auto& viewer : viewers_) {
    const bool sends = !viewer->handshake.outgoing().empty() || !viewer->waiting.empty();
    entries.push_back({viewer->socket.get(), static_cast<short>(POLLIN | (sends ? POLLOUT : 0)), 0});
  }
  if (::poll(entries.data(), entries.size(), poll_timeout_ms(next_deadline())) <= 0) return;
  ends_ = entries[0].revents != 0;
  for (std::size_t i = 2; i < entries.size(); ++i) {
    if (entries[i].revents != 0) serve(*viewers_[i - 2]);
  }
  if (entries[1].revents != 0) admit();
}

void LiveStatisticsServer::keep_time() {
  const TimePoint now = Clock::now();
  std::erase_if(viewers_, [now](const auto& viewer) {
    return viewer->is_gone || (!viewer->handshake.done() && now >= viewer->proves_until);
  });
  if (!is_seen()) {
    take_at_.reset();
    return;
  }
  if (take_at_ && now >= *take_at_) {
    take_at_.reset();
    if (const auto job = parts_.figures(kTakeTime)) show(*job);
  } else if (!take_at_ && now >= look_at_) {
    parts_.look();
    take_at_ = now + kAnswerTime;
    look_at_ = now + kPeriod;
  }
}

void LiveStatisticsServer::admit() {
  auto accepted = links::tcp_accept(listener_.get());
  // Without free descriptors the listener would stay readable for ever.
  if (!accepted) {
    admits_at_ = Clock::now() + kPeriod;
    return;
  }
  Fd socket = accepted.take();
  if (!socket) return;
  if (viewers_.size() >= kMostViewers) {
    // Connections without a proof must not keep viewers out, so the oldest of them is closed.
    const auto stranger =
        std::ranges::find_if(viewers_, [](const auto& each) { return !each->handshake.done(); });
    if (stranger == viewers_.end()) return;
    viewers_.erase(stranger);
  }
  auto handshake = links::Handshake::accept(ticket_.handshake_of(parts_.world.rank),
                                            [](Rank rank) { return rank == kLooker; });
  if (!handshake) return;
  viewers_.push_back(std::make_unique<Viewer>(Viewer{
      GuardedFd(std::move(socket), parts_.guard), handshake.take(), Clock::now() + kProofTime, {}, false}));
}

void LiveStatisticsServer::serve(Viewer& viewer) {
  if (!viewer.handshake.done()) {
    if (!links::converse_over(viewer.socket.get(), viewer.handshake).ended.is_ok()) viewer.is_gone = true;
    if (viewer.handshake.done()) look_at_ = std::min(look_at_, Clock::now());
    return;
  }
  if (!viewer.handshake.outgoing().empty()) (void)links::converse_over(viewer.socket.get(), viewer.handshake);
  char any = 0;  // a viewer sends nothing, so this is the end of the connection
  const ssize_t got = ::recv(viewer.socket.get(), &any, 1, MSG_DONTWAIT);
  if (got >= 0 || (errno != EAGAIN && errno != EINTR)) viewer.is_gone = true;
  if (!viewer.is_gone) send_some(viewer);
}

void LiveStatisticsServer::show(const JobFigures& job) {
  const std::string text = to_json(job);
  if (!listener_) {
    (void)parts_.launcher->set(figures_key(), text);
    return;
  }
  const auto header = links::frame_header(text.size());
  for (const auto& viewer : viewers_) {
    if (!viewer->handshake.done() || viewer->is_gone) continue;
    viewer->waiting.append(reinterpret_cast<const char*>(header.data()), header.size());
    viewer->waiting += text;
    send_some(*viewer);
    if (viewer->waiting.size() > kMostWaiting) viewer->is_gone = true;
  }
}

void LiveStatisticsServer::send_some(Viewer& viewer) {
  if (viewer.waiting.empty()) return;
  const ssize_t sent =
      ::send(viewer.socket.get(), viewer.waiting.data(), viewer.waiting.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) viewer.waiting.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && errno != EAGAIN && errno != EINTR) viewer.is_gone = true;
}

}  // namespace dabke::diagnosis
