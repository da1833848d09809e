#include "launcher/reach/dialled_agents.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/agent_protocol/wire.h"
#include "launcher/reach/remote_shell.h"
#include "runtime/links/handshake_io.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// The time in which a connecting agent must prove itself, and how many may do so at the same time.
constexpr auto kDialLimit = 10s;
constexpr std::size_t kMostDialling = 1024;
constexpr auto kRefusedFarewell = 500ms;
// When srun is killed, its connections close first, and Slurm then ends the agents. Its parent notices its
// end later.
constexpr auto kSrunEnd = 500ms;

/// Variables of sbatch or the user with which srun would keep the agents from a host's cores, or would start
/// more or fewer agents.
constexpr std::array<std::string_view, 10> kNotForSrun{"SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK",
                                                       "SLURM_EXACT",        "SLURM_EXCLUSIVE",
                                                       "SLURM_DISTRIBUTION", "SLURM_HINT",
                                                       "SLURM_LABELIO",      "SLURM_NTASKS_PER_CORE",
                                                       "SLURM_CORE_SPEC",    "SLURM_THREADS_PER_CORE"};

Result<Fd> listen_on(const links::SocketAddress& address) {
  Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return system_error("cannot make a socket", errno);
  const int on = 1;
  if (address.family() == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.length()) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    return system_error(fmt::format("cannot listen at {}", address.host()), errno);
  return socket;
}

}  // namespace

std::vector<std::string> srun_command(const std::string& dabkerun, const std::vector<std::string>& hosts,
                                      const std::vector<std::string>& environment) {
  std::vector<std::string> words;
  for (const std::string_view name : kNotForSrun) {
    if (std::ranges::any_of(environment, [&](const std::string& each) {
          return each.starts_with(name) && each.size() > name.size() && each[name.size()] == '=';
        }))
      words.insert(words.end(), {"-u", std::string(name)});
  }
  if (!words.empty()) words.insert(words.begin(), "env");
  const std::string count = std::to_string(hosts.size());
  for (const std::string& word :
       {std::string("srun"), std::string("--mpi=none"), std::string("--overlap"),
        std::string("--cpu-bind=none"), std::string("--mem=0"), std::string("--input=all"),
        std::string("--kill-on-bad-exit=0"), std::string("--wait=0"), "--nodes=" + count, "--ntasks=" + count,
        std::string("--ntasks-per-node=1"), fmt::format("--nodelist={}", fmt::join(hosts, ",")), dabkerun,
        std::string("--agent"), std::string("--dial")})
    words.push_back(word);
  return words;
}

std::vector<std::string> srun_command_for(const std::string& host, const std::string& dabkerun,
                                          const std::vector<std::string>& environment) {
  std::vector<std::string> words = srun_command(dabkerun, {host}, environment);
  words.insert(std::ranges::find(words, "srun") + 1, "--no-kill");
  return words;
}

Result<std::unique_ptr<DialledAgents>> DialledAgents::open(Settings settings) {
  std::unique_ptr<DialledAgents> made(new DialledAgents(std::move(settings)));
  const Settings& own = made->settings_;
  DABKE_ASSIGN_OR_RETURN(made->self_, dialling_self(own.job_id, own.job_key, kLauncherNumber));
  made->has_arrived_.assign(own.hosts.size(), own.command.empty());
  Status last(Code::transport, "this host has no address at which other hosts could reach it");
  for (const links::SocketAddress& address : own.listen_at) {
    auto listener = listen_on(address);
    const auto local = listener.is_ok() ? links::SocketAddress::local_of(listener->get())
                                        : Result<links::SocketAddress>(listener.status());
    if (!local.is_ok()) {
      last = local.status();
      continue;
    }
    made->addresses_.push_back(local->to_string());
    made->listeners_.push_back(listener.take());
  }
  if (made->listeners_.empty()) return last;
  return made;
}

DialledAgents::~DialledAgents() { close(); }

std::string DialledAgents::command() const { return as_shell_words(settings_.command); }

Status DialledAgents::start() {
  DABKE_ASSIGN_OR_RETURN(AgentProcess process, start_shell(settings_.command));
  is_started_ = true;
  process_ = WatchedProcess(process.pid, std::move(process.words));
  input_.open(std::move(process.in), std::move(process.out));
  input_.send(kDialFrame, to_wire(message()));
  return {};
}

DialMessage DialledAgents::message() const {
  return {addresses_, settings_.job_id, settings_.job_key, settings_.hosts,
          static_cast<std::int64_t>(settings_.timeout_s * 1000)};
}

DialMessage DialledAgents::expect(const std::string& host) {
  const auto place = std::ranges::find(settings_.hosts, host) - settings_.hosts.begin();
  if (place < std::ssize(settings_.hosts)) has_arrived_[static_cast<std::size_t>(place)] = false;
  return message();
}

void DialledAgents::add_poll_entries(std::vector<pollfd>& entries) const {
  if (!is_started_ && !settings_.command.empty()) return;
  const bool is_complete = std::ranges::all_of(has_arrived_, [](bool has) { return has; });
  if (!is_complete) {
    for (const Fd& listener : listeners_) entries.push_back({listener.get(), POLLIN, 0});
  }
  if (process_.words_fd() >= 0) entries.push_back({process_.words_fd(), POLLIN, 0});
  input_.add_poll_entries(entries);
  for (const Client& client : clients_) {
    const bool has_more = !client.handshake.outgoing().empty();
    entries.push_back({client.socket.get(), static_cast<short>(has_more ? POLLIN | POLLOUT : POLLIN), 0});
  }
}

void DialledAgents::handle(const std::vector<pollfd>& entries) {
  for (const pollfd& entry : entries) {
    if (entry.revents == 0) continue;
    if (process_.words_fd() >= 0 && entry.fd == process_.words_fd()) process_.read_words();
    if (input_.is_open() && entry.fd == input_.in()) {
      if ((entry.revents & ~POLLOUT) != 0 && !input_.read()) input_.close();
      input_.raw().clear();  // all of it is meant for other processes
    }
    if ((entry.revents & POLLOUT) != 0) input_.flush();
    for (Client& client : clients_) {
      if (client.socket && entry.fd == client.socket.get()) advance(client);
    }
    for (const Fd& listener : listeners_) {
      if (entry.fd == listener.get()) accept(listener.get());
    }
  }
  const TimePoint now = Clock::now();
  clients_.remove_if([&](const Client& client) { return !client.socket || now >= client.deadline; });
}

void DialledAgents::accept(int listener) {
  for (;;) {
    Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto handshake = links::Handshake::accept(self_, [this](Rank number) { return is_expected(number); });
    if (!handshake.is_ok()) return;
    if (clients_.size() == kMostDialling) clients_.pop_front();  // the oldest makes room
    clients_.push_back({std::move(socket), handshake.take(), Clock::now() + kDialLimit});
  }
}

bool DialledAgents::is_expected(Rank number) const {
  return number >= number_of_host(0) && number < number_of_host(has_arrived_.size()) &&
         !has_arrived_[static_cast<std::size_t>(number - number_of_host(0))];
}

/// Handles a client. An agent that has reached us at several addresses sends on one of them, and closes the
/// others.
void DialledAgents::advance(Client& client) {
  const bool was_done = client.handshake.done() && client.handshake.outgoing().empty();
  if (!was_done) {
    if (!links::converse_over(client.socket.get(), client.handshake).ended.is_ok()) client.socket = Fd();
    return;
  }
  char first = 0;
  const ssize_t got = ::recv(client.socket.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const Rank number = client.handshake.peer_rank();
  if (got > 0 && is_expected(number)) {
    const auto place = static_cast<std::size_t>(number - number_of_host(0));
    has_arrived_[place] = true;
    arrivals_.push_back({settings_.hosts[place], std::move(client.socket)});
  }
  client.socket = Fd();
}

std::optional<DialledAgents::Arrival> DialledAgents::take_arrival() {
  if (arrivals_.empty()) return std::nullopt;
  Arrival arrival = std::move(arrivals_.back());
  arrivals_.pop_back();
  return arrival;
}

std::string DialledAgents::how_it_was_killed() {
  if (!is_started_) return "";
  const TimePoint now = Clock::now();
  const TimePoint limit = std::exchange(has_awaited_end_, true) ? now : now + kSrunEnd;
  return process_.wait_until(limit) && process_.was_killed() ? "srun " + process_.how_it_ended() : "";
}

void DialledAgents::give_up() {
  process_.send(SIGTERM);
  farewell_ = kRefusedFarewell;
}

int DialledAgents::close() {
  clients_.clear();
  input_.close();
  // First asks srun to end, and then forces it: when asked, Slurm ends the processes that it has started.
  for (const int signal : {SIGTERM, SIGKILL}) {
    if (process_.wait_until(Clock::now() + farewell_)) return process_.exit_code();
    process_.send(signal);
  }
  process_.wait_until(kNever);
  return process_.exit_code();
}

}  // namespace dabke::launcher
