#include "launcher/examination/examination.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "launcher/agent_protocol/dialling.h"
#include "launcher/hosts/hosts.h"
#include "launcher/machine/host_cores.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/threads/thread.h"
#include "runtime/links/address_trials.h"
#include "runtime/links/interfaces.h"

namespace dabke::launcher {
namespace {

/// The number of hosts that are tried at once: each address of each takes a descriptor.
constexpr std::size_t kAtOnce = 64;
constexpr const char* kSharedMemory = "/dev/shm";

std::int64_t kibibytes_in_meminfo(std::string_view name) {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file;) {
    std::int64_t value = 0;
    file >> key >> value;
    std::getline(file, unit);
    if (key == name) return value;
  }
  return -1;
}

std::int64_t bytes_in_meminfo(std::string_view name) {
  const std::int64_t kibibytes = kibibytes_in_meminfo(name);
  return kibibytes < 0 ? -1 : kibibytes * 1024;
}

std::int64_t as_number(rlim_t limit) {
  return limit == RLIM_INFINITY || limit > static_cast<rlim_t>(INT64_MAX) ? INT64_MAX
                                                                          : static_cast<std::int64_t>(limit);
}

std::int64_t hard_limit(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? as_number(limit.rlim_max) : -1;
}

std::vector<ReachedPeer> reach(const links::Handshake::Self& self, const ReachMessage& message) {
  std::vector<ReachedPeer> reached;
  for (std::size_t at = 0; at < message.peers.size(); at += kAtOnce) {
    const std::span<const ExaminedPeer> some =
        std::span(message.peers).subspan(at, std::min(kAtOnce, message.peers.size() - at));
    std::vector<links::Trial> trials;
    for (const ExaminedPeer& peer : some) {
      for (const std::string& text : peer.addresses) {
        if (const auto address = links::SocketAddress::parse(text); address.is_ok())
          trials.push_back({.rank = peer.number, .address = *address});
      }
    }
    const Status tried = links::try_addresses(
        self, trials,
        Clock::now() + std::chrono::milliseconds(std::max<std::int64_t>(0, message.wait_limit_ms)));
    for (const ExaminedPeer& peer : some) {
      ReachedPeer& row = reached.emplace_back(ReachedPeer{peer.number, {}, tried.message()});
      for (const links::Trial& trial : trials) {
        if (trial.rank != peer.number) continue;
        if (trial.outcome == links::Trial::Outcome::reached && row.address.empty())
          row.address = trial.address.to_string();
        row.trouble += fmt::format("{}{}: {}", row.trouble.empty() ? "" : "; ", trial.address.to_string(),
                                   trial.trouble);
      }
      if (!row.address.empty()) row.trouble.clear();
    }
  }
  return reached;
}

}  // namespace

ExaminedMessage facts_of_this_host(const InheritedState& inherited) {
  const HostCores cores = cores_of_this_host();
  ExaminedMessage facts{.host_name = this_host_name()};
  facts.usable_units = 0;
  for (const CacheCores& cache : cores.caches) {
    for (const auto& core : cache) facts.usable_units += static_cast<std::int32_t>(core.size());
  }
  facts.all_units = static_cast<std::int32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  facts.quota_thousandths = std::llround(cores.quota * 1000);
  facts.memory = bytes_in_meminfo("MemTotal:");
  facts.free_memory = bytes_in_meminfo("MemAvailable:");
  struct statvfs shm {};
  if (::statvfs(kSharedMemory, &shm) == 0) {
    facts.shm = static_cast<std::int64_t>(shm.f_blocks * shm.f_frsize);
    facts.free_shm = static_cast<std::int64_t>(shm.f_bavail * shm.f_frsize);
  }
  facts.is_shm_writable = ::access(kSharedMemory, W_OK | X_OK) == 0;
  facts.open_files = as_number(inherited.open_files.rlim_max);
  facts.processes = hard_limit(RLIMIT_NPROC);
  facts.locked_memory = hard_limit(RLIMIT_MEMLOCK);
  std::ifstream ports("/proc/sys/net/ipv4/ip_local_port_range");
  if (!(ports >> facts.first_port >> facts.last_port)) facts.first_port = facts.last_port = -1;
  return facts;
}

Result<std::unique_ptr<Examination>> Examination::open(const ExamineMessage& message,
                                                       const std::string& job_key,
                                                       const InheritedState& inherited) {
  std::unique_ptr<Examination> made(new Examination);
  const std::string& key = message.job_key.empty() ? job_key : message.job_key;
  DABKE_ASSIGN_OR_RETURN(made->self_, dialling_self(message.job_id, key, message.number));
  made->event_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made->event_) return system_error("eventfd", errno);
  made->facts_ = facts_of_this_host(inherited);
  Config config;
  config.network_interface = message.network_interfaces;
  const auto own = links::candidate_addresses(config, "");
  std::vector<links::SocketAddress> addresses;
  if (own.is_ok()) {
    for (const links::HostAddress& each : *own) addresses.push_back(each.address);
  }
  auto listener = own.is_ok() ? ExchangeListener::open(made->self_, addresses)
                              : Result<std::unique_ptr<ExchangeListener>>(own.status());
  if (!listener.is_ok()) {
    made->facts_.troubles.push_back(listener.status().message());
    return made;
  }
  made->listener_ = listener.take();
  made->facts_.addresses = made->listener_->addresses();
  made->facts_.troubles = made->listener_->troubles();
  return made;
}

Examination::~Examination() {
  if (thread_.joinable()) thread_.join();  // before the members that it uses
}

template <class Work>
Status Examination::start(Work work) {
  if (thread_.joinable()) thread_.join();
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-examine", [this, work = std::move(work)] {
                           Answer answer = work();
                           {
                             const std::lock_guard lock(mutex_);
                             answer_ = std::move(answer);
                           }
                           const std::uint64_t one = 1;
                           (void)!::write(event_.get(), &one, sizeof one);
                         }));
  return {};
}

Status Examination::begin(ReachMessage message) {
  return start(
      [this, message = std::move(message)]() -> Answer { return ReachedMessage{reach(self_, message)}; });
}

Status Examination::begin(MeasureMessage message) {
  return start([this, message = std::move(message)]() -> Answer { return measure(self_, message); });
}

std::optional<Examination::Answer> Examination::take() {
  std::uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(answer_, std::nullopt);
}

}  // namespace dabke::launcher
