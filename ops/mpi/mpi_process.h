// MPI in this process, by the library that this module was compiled for.
//
// Threads: join() calls MPI on the thread that calls dabke_init, whatever the thread level. All else may come
// from any thread of ours and needs MPI_THREAD_MULTIPLE: below it an application that initialised MPI may be
// inside a call of its own at any time, and no lock of ours could keep the two apart.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <mutex>

#include "runtime/base/owned.h"
#include "runtime/transport/mpi_session.h"

namespace dabke {

/// ok, or what the MPI library says.
Status mpi_status(const char* call, int code);

struct MpiCommTraits {
  using Raw = MPI_Comm;
  static Raw none() { return MPI_COMM_NULL; }
  static void close(Raw comm) { MPI_Comm_free(&comm); }
};
using MpiComm = Owned<MpiCommTraits>;

/// Spins a little, then yields, then sleeps: with more ranks than cores whoever waits must make room.
class Patience {
 public:
  void wait();

 private:
  int turns_ = 0;
};

class MpiProcess final : public MpiSession {
 public:
  std::string library() const override;
  Result<MpiPlace> join(const std::string& host,
                        const std::function<Result<std::string>(const std::vector<std::string>& hosts)>& note,
                        TimePoint deadline) override;
  bool has_joined() const override { return stage_ == Stage::joined; }
  bool any_thread() const override { return level_ == MPI_THREAD_MULTIPLE; }
  std::string thread_level() const override;
  Result<std::unique_ptr<MpiCommunicator>> make_communicator(
      std::span<const int> ranks, int tag, const std::function<Status()>& interrupted) override;
  void job_begins() override { job_runs_ = true; }
  void job_ended_well() override { job_runs_ = false; }

  /// At the exit of the process.
  void finalize();

 private:
  enum class Stage { outside, initialised, duplicating, gathering, telling, joined };
  static constexpr std::size_t kHostBytes = 256;
  static constexpr std::size_t kNoteBytes = 1024;

  Status initialise();
  Status advance(const std::string& host,
                 const std::function<Result<std::string>(const std::vector<std::string>& hosts)>& note);
  std::vector<std::string> hosts() const;

  std::mutex mutex_;  // one join, or one new communicator, at a time
  Stage stage_ = Stage::outside;
  bool is_ours_ = false;
  bool job_runs_ = false;
  int level_ = MPI_THREAD_SINGLE;
  int rank_ = 0;
  int size_ = 1;
  MPI_Comm comm_ = MPI_COMM_NULL;  // never freed: MPI_Finalize does that
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::array<char, kHostBytes> host_{};
  std::vector<char> hosts_;
  std::array<char, kNoteBytes> note_{};
};

std::unique_ptr<MpiCommunicator> make_mpi_communicator(MpiComm comm);

}  // namespace dabke
