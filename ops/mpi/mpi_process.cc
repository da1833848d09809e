#include "ops/mpi/mpi_process.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

namespace dabke {

Status mpi_status(const char* call, int code) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {Code::transport,
          fmt::format("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length)))};
}

void Patience::wait() {
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
  std::this_thread::sleep_for(std::chrono::microseconds(is_late ? 500 : 50));
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

Status MpiProcess::initialise() {
  int yes = 0;
  MPI_Finalized(&yes);
  if (yes) return {Code::unsupported, "MPI_Finalize has been called; call dabke_init before"};
  MPI_Initialized(&yes);
  if (yes) {
    DABKE_CHECK(mpi_status("MPI_Query_thread", MPI_Query_thread(&level_)));
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
    DABKE_CHECK(
        mpi_status("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level_)));
    is_ours_ = true;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  return {};
}

std::vector<std::string> MpiProcess::hosts() const {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(size_); ++rank) {
    names.emplace_back(hosts_.data() + rank * kHostBytes);
  }
  return names;
}

/// What is under way at the present stage has ended: begins the next.
Status MpiProcess::advance(
    const std::string& host,
    const std::function<Result<std::string>(const std::vector<std::string>& hosts)>& note) {
  switch (stage_) {
    case Stage::outside:
      DABKE_CHECK(initialise());
      stage_ = Stage::initialised;
      return {};
    case Stage::initialised:
      // Of our own, so that no message of ours meets one of the application's.
      DABKE_CHECK(mpi_status("MPI_Comm_idup", MPI_Comm_idup(MPI_COMM_WORLD, &comm_, &request_)));
      stage_ = Stage::duplicating;
      return {};
    case Stage::duplicating:
      MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
      std::memcpy(host_.data(), host.data(), std::min(host.size(), kHostBytes - 1));
      hosts_.resize(kHostBytes * static_cast<std::size_t>(size_));
      DABKE_CHECK(
          mpi_status("MPI_Iallgather", MPI_Iallgather(host_.data(), kHostBytes, MPI_BYTE, hosts_.data(),
                                                      kHostBytes, MPI_BYTE, comm_, &request_)));
      stage_ = Stage::gathering;
      return {};
    case Stage::gathering:
      if (rank_ == 0) {
        // An error is for everybody, too: nobody shall wait for what will not come.
        const auto made = note(hosts());
        const std::string text = made ? "+" + *made : "-" + made.status().message();
        std::memcpy(note_.data(), text.data(), std::min(text.size(), kNoteBytes - 1));
      }
      DABKE_CHECK(
          mpi_status("MPI_Ibcast", MPI_Ibcast(note_.data(), kNoteBytes, MPI_BYTE, 0, comm_, &request_)));
      stage_ = Stage::telling;
      return {};
    case Stage::telling: stage_ = Stage::joined; return {};
    case Stage::joined: return {};
  }
  return {};
}

Result<MpiPlace> MpiProcess::join(
    const std::string& host,
    const std::function<Result<std::string>(const std::vector<std::string>& hosts)>& note,
    TimePoint deadline) {
  const std::lock_guard lock(mutex_);
  Patience patience;
  while (stage_ != Stage::joined) {
    int is_done = 1;
    if (stage_ != Stage::outside)
      DABKE_CHECK(mpi_status("MPI_Test", MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE)));
    if (is_done) {
      DABKE_CHECK(advance(host, note));
      continue;
    }
    if (Clock::now() >= deadline) {
      return Status(
          Code::timeout,
          fmt::format("rank {} of {} waited in MPI for ranks that have not called dabke_init; all ranks of "
                      "MPI_COMM_WORLD must, or wait longer with DABKE_START_TIMEOUT_SECONDS",
                      rank_, size_));
    }
    patience.wait();
  }
  if (note_[0] != '+') return Status(Code::transport, fmt::format("rank 0: {}", note_.data() + 1));
  return MpiPlace{rank_, size_, note_.data() + 1};
}

Result<std::unique_ptr<MpiCommunicator>> MpiProcess::make_communicator(
    std::span<const int> ranks, int tag, const std::function<Status()>& interrupted) {
  // MPI cannot be interrupted while it makes a communicator. So all must have come before; what is left
  // between that and the making is too short for a rank to turn away, unless it dies.
  constexpr auto kGrace = std::chrono::seconds(1);
  const std::lock_guard lock(mutex_);
  const auto me = static_cast<std::size_t>(std::ranges::find(ranks, rank_) - ranks.begin());
  for (std::size_t distance = 1; distance < ranks.size(); distance *= 2) {
    const int to = ranks[(me + distance) % ranks.size()];
    const int from = ranks[(me + ranks.size() - distance) % ranks.size()];
    MPI_Request requests[2];
    DABKE_CHECK(mpi_status("MPI_Irecv", MPI_Irecv(nullptr, 0, MPI_BYTE, from, tag, comm_, &requests[0])));
    DABKE_CHECK(mpi_status("MPI_Isend", MPI_Isend(nullptr, 0, MPI_BYTE, to, tag, comm_, &requests[1])));
    Patience patience;
    Status cause;
    TimePoint limit = kNever;
    for (int is_done = 0;;) {
      DABKE_CHECK(mpi_status("MPI_Testall", MPI_Testall(2, requests, &is_done, MPI_STATUSES_IGNORE)));
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
  DABKE_CHECK(mpi_status("MPI_Comm_group", MPI_Comm_group(comm_, &all)));
  const int included = MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  MPI_Group_free(&all);
  DABKE_CHECK(mpi_status("MPI_Group_incl", included));
  const int created = MPI_Comm_create_group(comm_, some, tag, &made);
  MPI_Group_free(&some);
  DABKE_CHECK(mpi_status("MPI_Comm_create_group", created));
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return make_mpi_communicator(MpiComm(made));
}

void MpiProcess::finalize() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  // After a job that failed the others may be gone, and MPI_Finalize would wait for them.
  if (is_ours_ && !is_over && !job_runs_ && stage_ == Stage::joined) MPI_Finalize();
}

}  // namespace dabke
