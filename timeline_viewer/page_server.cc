#include "timeline_viewer/page_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/hmac.h"

namespace dabke::viewer {
namespace {

constexpr std::size_t kLongestRequest = 16 << 10;
constexpr std::size_t kMostConnections = 64;
constexpr auto kIdleLimit = std::chrono::seconds(10);  // for a connection without traffic
constexpr off_t kAtOnce = 1 << 20;

std::string head(std::string_view status, std::string_view type, std::uint64_t bytes) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: "
      "no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: "
      "same-origin\r\n\r\n",
      status, type, bytes);
}

std::string refusal(std::string_view status) {
  return head(status, "text/plain", status.size()) + std::string(status);
}

/// Returns the value of a header; empty if it is missing.
std::string_view header(std::string_view request, std::string_view name) {
  std::size_t line = request.find("\r\n");
  while (line != std::string_view::npos) {
    line += 2;
    const std::string_view rest = request.substr(line);
    const bool is_it = rest.size() > name.size() && rest[name.size()] == ':' &&
                       std::ranges::equal(rest.substr(0, name.size()), name, {}, [](char c) {
                         return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
                       });
    const std::size_t end = rest.find("\r\n");
    if (is_it) {
      std::string_view value = rest.substr(name.size() + 1, end - name.size() - 1);
      while (value.starts_with(' ')) value.remove_prefix(1);
      return value;
    }
    line = end == std::string_view::npos ? end : line + end;
  }
  return {};
}

}  // namespace

Result<PageServer> PageServer::open(std::string page, std::vector<std::string> traces, std::string reports) {
  PageServer server;
  server.page_ = std::move(page);
  server.traces_ = std::move(traces);
  server.reports_ = std::move(reports);
  std::array<std::byte, 16> random{};
  DABKE_RETURN_IF_ERROR(random_bytes(random));
  server.path_ = "/";
  for (const std::byte byte : random) server.path_ += fmt::format("{:02x}", static_cast<unsigned>(byte));
  server.path_ += "/";
  server.listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!server.listener_ || ::bind(server.listener_.get(), generic, length) != 0 ||
      ::listen(server.listener_.get(), 16) != 0 ||
      ::getsockname(server.listener_.get(), generic, &length) != 0)
    return system_error("cannot listen on 127.0.0.1", errno);
  server.host_ = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  server.address_ = "http://" + server.host_ + server.path_;
  return server;
}

Status PageServer::serve(int stop) {
  for (;;) {
    std::vector<pollfd> polled{{stop, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Connection& one : connections_)
      polled.push_back(
          {one.fd.get(), static_cast<short>(one.answer.empty() && one.left == 0 ? POLLIN : POLLOUT), 0});
    if (::poll(polled.data(), polled.size(), connections_.empty() ? -1 : 1000) < 0 && errno != EINTR)
      return system_error("cannot wait for the browser", errno);
    if (polled[0].revents != 0) return {};
    std::size_t index = 2;
    for (auto one = connections_.begin(); one != connections_.end(); ++index) {
      const short events = polled[index].revents;
      bool goes_on = Clock::now() < one->until;
      if (events != 0) goes_on = (polled[index].events & POLLIN) != 0 ? read(*one) : write(*one);
      one = goes_on ? std::next(one) : connections_.erase(one);
    }
    if (polled[1].revents != 0) accept();
  }
}

void PageServer::accept() {
  Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return;
  if (connections_.size() >= kMostConnections) connections_.pop_front();
  connections_.push_back({.fd = std::move(fd), .until = Clock::now() + kIdleLimit});
}

bool PageServer::read(Connection& connection) {
  std::array<char, 4096> piece{};
  const ssize_t got = ::recv(connection.fd.get(), piece.data(), piece.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  connection.request.append(piece.data(), static_cast<std::size_t>(got));
  if (connection.request.size() > kLongestRequest) {
    connection.answer = refusal("431 Request Header Fields Too Large");
  } else if (connection.request.find("\r\n\r\n") != std::string::npos) {
    answer(connection);
  }
  return true;
}

void PageServer::answer(Connection& connection) {
  const std::string_view request = connection.request;
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const std::string_view host = header(request, "host");
  const std::string by_name = "localhost" + host_.substr(host_.find(':'));
  if (host != host_ && host != by_name) {
    connection.answer = refusal("403 Forbidden");
  } else if (!line.starts_with("GET ")) {
    connection.answer = refusal("405 Method Not Allowed");
  } else {
    const std::string_view target = line.substr(4, line.find(' ', 4) - 4);
    if (target == path_) {
      connection.answer = head("200 OK", "text/html; charset=utf-8", page_.size()) + page_;
    } else if (target == path_ + "reports") {
      connection.answer = head("200 OK", "application/json", reports_.size()) + reports_;
    } else if (const std::string* const trace = trace_of(target)) {
      answer_file(connection, *trace);
    } else {
      connection.answer = refusal("404 Not Found");
    }
  }
}

const std::string* PageServer::trace_of(std::string_view target) const {
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    if (target == fmt::format("{}trace/{}", path_, i)) return &traces_[i];
  }
  return nullptr;
}

void PageServer::answer_file(Connection& connection, const std::string& path) {
  connection.file = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!connection.file || ::fstat(connection.file.get(), &facts) != 0) {
    connection.answer = refusal("410 Gone");
    return;
  }
  connection.left = facts.st_size;
  connection.answer = head("200 OK", "application/octet-stream", static_cast<std::uint64_t>(facts.st_size));
}

bool PageServer::write(Connection& connection) {
  ssize_t sent = 0;
  if (!connection.answer.empty()) {
    sent = ::send(connection.fd.get(), connection.answer.data(), connection.answer.size(), MSG_NOSIGNAL);
    if (sent > 0) connection.answer.erase(0, static_cast<std::size_t>(sent));
  } else {
    sent = ::sendfile(connection.fd.get(), connection.file.get(), nullptr,
                      static_cast<std::size_t>(std::min(connection.left, kAtOnce)));
    if (sent > 0) connection.left -= sent;
    if (sent == 0) return false;  // the file has become shorter
  }
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  connection.until = Clock::now() + kIdleLimit;
  return !connection.answer.empty() || connection.left > 0;
}

}  // namespace dabke::viewer
