#include "runtime/bootstrap/pmi2_start.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/hmac.h"
#include "runtime/base/threads/thread.h"
#include "runtime/bootstrap/exchange_start.h"

namespace dabke::bootstrap {
namespace {

/// PMI-2 limits values to 1024 characters, and leaves open whether the terminator counts.
constexpr std::size_t kMostValue = 900;
constexpr int kMostValueRoom = 1024;
constexpr int kAnyTask = -1;

/// The functions of Slurm's libpmi2 that are needed here. 0 is success.
class Pmi2 {
 public:
  /// Null if the library is not installed.
  static Pmi2* load();

  int rank = 0, size = 1;
  ServedStore store;  // set once these ranks have become a job
  bool has_failed = false;

  Status enter();
  Status allgather(std::span<const char> mine, std::span<char> all, TimePoint deadline);

 private:
  template <class Function>
  bool find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    return function != nullptr;
  }
  Status exchange(const std::string& mine, std::span<char> all);

  int (*init_)(int*, int*, int*, int*) = nullptr;
  int (*id_)(char*, int) = nullptr;
  int (*put_)(const char*, const char*) = nullptr;
  int (*fence_)() = nullptr;
  int (*get_)(const char*, int, const char*, char*, int, int*) = nullptr;
  std::string job_;
  bool has_entered_ = false;
  int round_ = 0;
};

Pmi2* Pmi2::load() {
  static const std::unique_ptr<Pmi2> loaded = []() -> std::unique_ptr<Pmi2> {
    void* const library = ::dlopen("libpmi2.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    auto pmi = std::make_unique<Pmi2>();
    const bool is_whole =
        library != nullptr && pmi->find(library, "PMI2_Init", pmi->init_) &&
        pmi->find(library, "PMI2_Job_GetId", pmi->id_) && pmi->find(library, "PMI2_KVS_Put", pmi->put_) &&
        pmi->find(library, "PMI2_KVS_Fence", pmi->fence_) && pmi->find(library, "PMI2_KVS_Get", pmi->get_);
    return is_whole ? std::move(pmi) : nullptr;
  }();
  return loaded.get();
}

Status Pmi2::enter() {
  if (has_failed)
    return {Code::transport, "Slurm's PMI-2 failed before in this process, and can be used only once"};
  if (has_entered_) return {};
  int spawned = 0, application = 0;
  char id[256] = {};
  if (init_(&spawned, &size, &rank, &application) != 0 || id_(id, sizeof id) != 0) {
    has_failed = true;
    return {Code::transport,
            "Slurm's PMI-2 does not answer (PMI2_Init): start with dabkerun, or check srun --mpi=pmi2"};
  }
  job_ = id;
  has_entered_ = true;
  return {};
}

/// Waits on a thread of its own, because PMI-2 has no deadline. A thread that waits for ever is left behind.
Status Pmi2::allgather(std::span<const char> mine, std::span<char> all, TimePoint deadline) {
  if (has_failed) return {Code::transport, "Slurm's PMI-2 has failed"};  // that thread may be inside it
  auto done = std::make_shared<std::promise<std::pair<Status, std::string>>>();
  auto result = done->get_future();
  DABKE_ASSIGN_OR_RETURN(std::jthread waiting,
                         start_thread("dabke pmi2", [this, done, text = std::string(mine.data(), mine.size()),
                                                     bytes = all.size()] {
                           std::string gathered(bytes, '\0');
                           Status status = exchange(text, gathered);
                           done->set_value({std::move(status), std::move(gathered)});
                         }));
  waiting.detach();
  if (result.wait_until(deadline) != std::future_status::ready) {
    has_failed = true;
    return {Code::timeout, fmt::format("not all {} tasks of the Slurm step called dabke_init in time "
                                       "(DABKE_START_TIMEOUT_SECONDS): every task must call it",
                                       size)};
  }
  auto [status, gathered] = result.get();
  if (!status.is_ok()) has_failed = true;
  DABKE_RETURN_IF_ERROR(status);
  std::ranges::copy(gathered, all.begin());
  return {};
}

/// The zeros at the end of a block do not travel. A value is hexadecimal digits in several pieces, each after
/// a dot, because PMI-2 takes no empty value.
Status Pmi2::exchange(const std::string& mine, std::span<char> all) {
  const auto trimmed = mine.substr(0, mine.find_last_not_of('\0') + 1);
  const std::string digits = to_hex(std::as_bytes(std::span(trimmed)));
  const std::size_t pieces = (2 * mine.size() + kMostValue - 1) / kMostValue;
  const int round = round_++;
  const auto key = [&](int task, std::size_t piece) {
    return fmt::format("dabke-{}-{}-{}", round, task, piece);
  };
  const auto fail = [](const char* function) {
    return Status(Code::transport,
                  fmt::format("Slurm's PMI-2 has failed ({}): another task may have ended", function));
  };
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t begin = std::min(digits.size(), piece * kMostValue);
    if (put_(key(rank, piece).c_str(), ("." + digits.substr(begin, kMostValue)).c_str()) != 0)
      return fail("PMI2_KVS_Put");
  }
  if (fence_() != 0) return fail("PMI2_KVS_Fence");
  for (int task = 0; task < size; ++task) {
    std::string text;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      char value[kMostValueRoom] = {};
      int length = 0;
      if (get_(job_.c_str(), kAnyTask, key(task, piece).c_str(), value, kMostValueRoom, &length) != 0 ||
          value[0] != '.')
        return fail("PMI2_KVS_Get");
      text += value + 1;
    }
    const auto block = all.subspan(static_cast<std::size_t>(task) * mine.size(), mine.size());
    std::ranges::fill(block, '\0');
    if (text.size() > 2 * mine.size()) return fail("PMI2_KVS_Get");
    DABKE_RETURN_IF_ERROR(from_hex(text, std::as_writable_bytes(block.first(text.size() / 2))));
  }
  return {};
}

bool is_one_of_several(const Environment& environment) {
  const auto type = environment("SLURM_MPI_TYPE"), size = environment("PMI_SIZE");
  return type == "pmi2" && environment("PMI_FD") && size && *size != "1";
}

}  // namespace

Result<std::optional<Pmi2Start>> start_from_pmi2(const Config& config, const Environment& environment,
                                                 const std::string& host, TimePoint deadline) {
  using Start = std::optional<Pmi2Start>;
  Pmi2* const pmi = is_one_of_several(environment) ? Pmi2::load() : nullptr;
  if (pmi == nullptr) return Start();
  DABKE_RETURN_IF_ERROR(pmi->enter());
  Pmi2Start start{pmi->rank, pmi->size, pmi->store, {}};
  if (!pmi->store.job_id.empty()) return Start(std::move(start));
  ExchangeGroup group;
  group.number = pmi->rank;
  group.count = pmi->size;
  group.members.resize(static_cast<std::size_t>(pmi->size));
  std::iota(group.members.begin(), group.members.end(), 0);
  group.allgather = [&](std::span<const char> mine, std::span<char> all) {
    return pmi->allgather(mine, all, deadline);
  };
  group.store = StoreUse::of_its_own;
  DABKE_ASSIGN_OR_RETURN(ExchangeStart met, start_by_exchange(config, group, host));
  pmi->store = start.store = met.store;
  start.roster = Roster{met.epoch, std::move(met.hosts)};
  return Start(std::move(start));
}

}  // namespace dabke::bootstrap
