#include "ops/mpi/mpi_process.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/threads/signal_keeper.h"

namespace dabke::ops {

Status mpi_status(const char* call, int code) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {Code::transport,
          fmt::format("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length)))};
}

void RetryPace::wait() {
  constexpr int kSpins = 200;
  constexpr int kYields = 50;
  constexpr int kNaps = 100;
  ++turns_;
  if (turns_ < kSpins) return;
  if (turns_ < kSpins + kYields) {
    ::sched_yield();
    return;
  }
  const bool is_late = turns_ > kSpins + kYields + kNaps;
  std::this_thread::sleep_for(is_late ? longest_ : kBrief);
}

std::string MpiProcess::library() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string_view all(text, static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find_first_of("\n,")));
}

std::string MpiProcess::thread_level() const {
  switch (level_) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    default: return "MPI_THREAD_MULTIPLE";
  }
}

/// Searches for the function at run time. Some MPI libraries lack it, and the library that runs may be
/// another build than the headers.
bool MpiProcess::takes_cuda_memory() const {
  const auto asks = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return asks != nullptr && asks() == 1;
}

const char* MpiMembership::name() const {
  return theirs == MPI_COMM_WORLD ? "MPI_COMM_WORLD" : "the communicator passed as mpi_comm";
}

Result<bool> MpiMembership::advance(std::size_t index, std::span<const char> mine) {
  int is_done = 0;
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Test", MPI_Test(&request, &is_done, MPI_STATUS_IGNORE)));
  if (!is_done) return false;
  if (!is_duplicated) {
    DABKE_RETURN_IF_ERROR(mpi_status("MPI_Comm_idup", MPI_Comm_idup(theirs, &comm, &request)));
    is_duplicated = true;
    return false;
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (!gatherings.empty()) gatherings.back().is_done = true;  // the request that has ended was this one's
  if (gatherings.size() <= index) {
    Gathering& next = gatherings.emplace_back();
    next.mine.assign(mine.begin(), mine.end());
    next.all.resize(mine.size() * static_cast<std::size_t>(size));
    const int bytes = static_cast<int>(mine.size());
    DABKE_RETURN_IF_ERROR(mpi_status(
        "MPI_Iallgather",
        MPI_Iallgather(next.mine.data(), bytes, MPI_BYTE, next.all.data(), bytes, MPI_BYTE, comm, &request)));
  }
  return std::next(gatherings.begin(), static_cast<std::ptrdiff_t>(index))->is_done;
}

Status MpiProcess::watch_finalize() {
  if (self_keyval_ != MPI_KEYVAL_INVALID) return {};
  const auto deleted = [](MPI_Comm, int, void* process, void*) {
    static_cast<MpiProcess*>(process)->mpi_ends();
    return MPI_SUCCESS;
  };
  DABKE_RETURN_IF_ERROR(
      mpi_status("MPI_Comm_create_keyval",
                 MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &self_keyval_, nullptr)));
  return mpi_status("MPI_Comm_set_attr", MPI_Comm_set_attr(MPI_COMM_SELF, self_keyval_, this));
}

/// Called inside MPI_Finalize, on the calling thread, while MPI still works.
void MpiProcess::mpi_ends() {
  {
    const std::lock_guard lock(finalize_mutex_);
    if (on_finalize_) on_finalize_();
  }
  gate_.close();
}

void MpiProcess::on_finalize(std::function<void()> callback) {
  const std::lock_guard lock(finalize_mutex_);
  on_finalize_ = std::move(callback);
}

/// Initialises MPI if `may_start` is set and MPI is not initialised yet.
Status MpiProcess::initialise(bool may_start) {
  int yes = 0;
  MPI_Finalized(&yes);
  if (yes) return {Code::unsupported, "MPI_Finalize has been called; call dabke_init before"};
  MPI_Initialized(&yes);
  if (!yes && !may_start) {
    return {
        Code::invalid_argument,
        "dabke_init: mpi_comm is given, but MPI is not initialised; call MPI_Init_thread before, or leave "
        "mpi_comm NULL"};
  }
  if (yes) {
    DABKE_RETURN_IF_ERROR(mpi_status("MPI_Query_thread", MPI_Query_thread(&level_)));
    int is_main = 0;
    MPI_Is_thread_main(&is_main);
    if (level_ < MPI_THREAD_SERIALIZED && !is_main) {
      return {
          Code::unsupported,
          fmt::format(
              "the application initialised MPI with {}: call dabke_init on the thread that called MPI_Init",
              thread_level())};
    }
  } else {
    const SignalKeeper application;
    DABKE_RETURN_IF_ERROR(
        mpi_status("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level_)));
    is_ours_ = true;
  }
  // At a lower level, no thread of ours calls MPI after init.
  if (level_ == MPI_THREAD_MULTIPLE) DABKE_RETURN_IF_ERROR(watch_finalize());
  if (world_.theirs != MPI_COMM_NULL) return {};
  world_.theirs = MPI_COMM_WORLD;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_.size);
  return {};
}

Result<MpiMembership*> MpiProcess::membership_of(const void* comm) {
  if (comm == nullptr) {
    // After all ranks have agreed, MPI is not called any more: its thread level may forbid calls on this
    // thread.
    if (world_.agreed.empty()) DABKE_RETURN_IF_ERROR(initialise(true));
    return &world_;
  }
  DABKE_RETURN_IF_ERROR(initialise(false));
  const MPI_Comm theirs = *static_cast<const MPI_Comm*>(comm);
  if (theirs == MPI_COMM_NULL) {
    return Status(
        Code::invalid_argument,
        "dabke_init: mpi_comm is MPI_COMM_NULL, so this process is not in the communicator; let only "
        "its members call dabke_init, or leave mpi_comm NULL");
  }
  if (theirs == MPI_COMM_WORLD) return &world_;
  int is_inter = 0;
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Comm_test_inter", MPI_Comm_test_inter(theirs, &is_inter)));
  if (is_inter) {
    return Status(Code::invalid_argument,
                  "dabke_init: mpi_comm is an intercommunicator, in which a process has no unique rank; pass "
                  "the result of MPI_Intercomm_merge");
  }
  return remembered(theirs);
}

/// Returns the membership of a communicator. It is stored as an attribute, because a freed communicator's
/// handle may be reused for another communicator.
Result<MpiMembership*> MpiProcess::remembered(MPI_Comm comm) {
  if (keyval_ == MPI_KEYVAL_INVALID) {
    DABKE_RETURN_IF_ERROR(mpi_status(
        "MPI_Comm_create_keyval",
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval_, nullptr)));
  }
  void* known = nullptr;
  int is_known = 0;
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Comm_get_attr", MPI_Comm_get_attr(comm, keyval_, &known, &is_known)));
  if (is_known) return static_cast<MpiMembership*>(known);
  auto made = std::make_unique<MpiMembership>();
  made->theirs = comm;
  MPI_Comm_rank(comm, &made->rank);
  MPI_Comm_size(comm, &made->size);
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Comm_set_attr", MPI_Comm_set_attr(comm, keyval_, made.get())));
  others_.push_back(std::move(made));
  return others_.back().get();
}

Result<modules::MpiPlace> MpiProcess::enter(const void* comm) {
  const std::lock_guard lock(mutex_);
  DABKE_ASSIGN_OR_RETURN(current_, membership_of(comm));
  current_->asked = 0;
  return modules::MpiPlace{current_->rank, current_->size, current_->agreed};
}

Status MpiProcess::allgather(std::span<const char> mine, std::span<char> all, TimePoint deadline) {
  const std::lock_guard lock(mutex_);
  MpiMembership& ranks = *current_;
  const std::size_t index = ranks.asked++;
  RetryPace patience;
  while (true) {
    DABKE_ASSIGN_OR_RETURN(const bool is_done, ranks.advance(index, mine));
    if (is_done) break;
    if (Clock::now() >= deadline) {
      return {Code::timeout,
              fmt::format("rank {} of {} waited in MPI for ranks that have not called dabke_init; all ranks "
                          "of {} must call it; to wait longer, raise DABKE_START_TIMEOUT_SECONDS",
                          ranks.rank, ranks.size, ranks.name())};
    }
    patience.wait();
  }
  const auto& gathered = std::next(ranks.gatherings.begin(), static_cast<std::ptrdiff_t>(index))->all;
  if (gathered.size() != all.size())
    return {Code::internal, "an allgather over MPI was continued with another size"};
  std::ranges::copy(gathered, all.begin());
  return {};
}

void MpiProcess::agree(std::string note) {
  const std::lock_guard lock(mutex_);
  current_->agreed = std::move(note);
  current_->has_met = true;
  current_->gatherings.clear();
  current_->asked = 0;
}

Result<std::unique_ptr<modules::MpiCommunicator>> MpiProcess::make_communicator(
    std::span<const int> ranks, int tag, const std::function<Status()>& interrupted) {
  // MPI cannot be interrupted while it makes a communicator, so all ranks must have arrived before. The time
  // between their meeting and the making is too short for a rank to turn away, unless it dies.
  constexpr auto kGrace = std::chrono::seconds(1);
  const std::lock_guard lock(mutex_);
  const auto pass = gate_.enter();
  if (!pass) return MpiGate::is_over();
  const MPI_Comm comm = current_->comm;
  const auto me = static_cast<std::size_t>(std::ranges::find(ranks, current_->rank) - ranks.begin());
  for (std::size_t distance = 1; distance < ranks.size(); distance *= 2) {
    const int to = ranks[(me + distance) % ranks.size()];
    const int from = ranks[(me + ranks.size() - distance) % ranks.size()];
    MPI_Request requests[2];
    DABKE_RETURN_IF_ERROR(
        mpi_status("MPI_Irecv", MPI_Irecv(nullptr, 0, MPI_BYTE, from, tag, comm, &requests[0])));
    DABKE_RETURN_IF_ERROR(
        mpi_status("MPI_Isend", MPI_Isend(nullptr, 0, MPI_BYTE, to, tag, comm, &requests[1])));
    RetryPace patience;
    Status cause;
    TimePoint limit = kNever;
    for (int is_done = 0;;) {
      DABKE_RETURN_IF_ERROR(
          mpi_status("MPI_Testall", MPI_Testall(2, requests, &is_done, MPI_STATUSES_IGNORE)));
      if (is_done) break;
      if (cause.is_ok()) {
        cause = interrupted();
        if (!cause.is_ok()) limit = Clock::now() + kGrace;
      }
      if (Clock::now() >= limit) return cause;
      patience.wait();
    }
  }
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Comm_group", MPI_Comm_group(comm, &all)));
  const int included = MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  MPI_Group_free(&all);
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Group_incl", included));
  const int created = MPI_Comm_create_group(comm, some, tag, &made);
  MPI_Group_free(&some);
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Comm_create_group", created));
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return make_mpi_communicator(MpiComm(made), gate_);
}

Result<std::unique_ptr<modules::MpiPort>> MpiProcess::open_port(std::uint64_t epoch, TimePoint deadline) {
  constexpr std::uint64_t kTags = 32768;  // tags that the standard guarantees
  const std::lock_guard lock(mutex_);
  const auto pass = gate_.enter();
  if (!pass) return MpiGate::is_over();
  MpiMembership& ranks = *current_;
  if (!ranks.control_is_made && ranks.request == MPI_REQUEST_NULL)
    DABKE_RETURN_IF_ERROR(
        mpi_status("MPI_Comm_idup", MPI_Comm_idup(ranks.comm, &ranks.control, &ranks.request)));
  RetryPace patience;
  while (!ranks.control_is_made) {
    int is_done = 0;
    DABKE_RETURN_IF_ERROR(mpi_status("MPI_Test", MPI_Test(&ranks.request, &is_done, MPI_STATUS_IGNORE)));
    if (is_done) {
      ranks.control_is_made = true;
      MPI_Comm_set_errhandler(ranks.control, MPI_ERRORS_RETURN);
    } else if (Clock::now() >= deadline) {
      return Status(Code::timeout,
                    fmt::format("rank {} of {} waited in MPI to negotiate with the other ranks; set "
                                "DABKE_CONTROLLER=mpi on all ranks, or raise DABKE_START_TIMEOUT_SECONDS",
                                ranks.rank, ranks.size));
    } else {
      patience.wait();
    }
  }
  return make_mpi_port(ranks.control, static_cast<int>(epoch % kTags), gate_);
}

bool MpiProcess::job_begins() {
  job_runs_ = true;
  return !std::exchange(had_job_, true);
}

void MpiProcess::finalize() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  // After a failed job the other ranks may be gone, and MPI_Finalize would wait for them.
  if (is_ours_ && !is_over && !job_runs_ && world_.has_met) MPI_Finalize();
}

}  // namespace dabke::ops
