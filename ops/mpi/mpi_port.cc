#include <algorithm>
#include <map>

#include "ops/mpi/mpi_process.h"

namespace dabke::ops {
namespace {

/// Memory that MPI reads or writes. A transfer that is dropped before MPI has finished is leaked on purpose,
/// because MPI cannot release it.
struct Transfer {
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Sending {
  int rank = 0;
  std::unique_ptr<Transfer> transfer;
  Status failure;
};

class Port final : public modules::MpiPort {
 public:
  Port(MPI_Comm comm, int tag, MpiGate& gate) : comm_(comm), tag_(tag), gate_(gate) {}
  ~Port() override;

  Result<bool> send(int rank, std::span<const std::byte> message) override;
  Result<std::optional<std::span<const std::byte>>> receive(int rank) override;
  Progress progress() override;
  void forget(int rank) override;

 private:
  void reap();
  std::unique_ptr<Transfer> fresh();
  void keep(std::unique_ptr<Transfer> ended);

  MPI_Comm comm_;  // the membership's communicator
  int tag_;
  MpiGate& gate_;
  std::vector<Sending> sends_;
  std::map<int, std::unique_ptr<Transfer>> receives_;  // by rank; idle while the request is null
  std::vector<std::unique_ptr<Transfer>> spare_;       // reused, so that small messages allocate nothing
};

Port::~Port() {
  if (const auto pass = gate_.enter()) reap();
  for (Sending& one : sends_) (void)one.transfer.release();
  for (auto& [rank, one] : receives_) {
    if (one->request != MPI_REQUEST_NULL) (void)one.release();
  }
}

std::unique_ptr<Transfer> Port::fresh() {
  if (spare_.empty()) return std::make_unique<Transfer>();
  auto one = std::move(spare_.back());
  spare_.pop_back();
  return one;
}

void Port::keep(std::unique_ptr<Transfer> ended) {
  constexpr std::size_t kMostBytes = 64 << 10;
  constexpr std::size_t kMostSpare = 16;
  if (ended->bytes.capacity() <= kMostBytes && spare_.size() < kMostSpare) spare_.push_back(std::move(ended));
}

Result<bool> Port::send(int rank, std::span<const std::byte> message) {
  const auto pass = gate_.enter();
  if (!pass) return MpiGate::is_over();
  reap();
  auto transfer = fresh();
  transfer->bytes.assign(message.begin(), message.end());
  DABKE_RETURN_IF_ERROR(
      mpi_status("MPI_Isend", MPI_Isend(transfer->bytes.data(), static_cast<int>(transfer->bytes.size()),
                                        MPI_BYTE, rank, tag_, comm_, &transfer->request)));
  int is_done = 0;
  Status tested = mpi_status("MPI_Test", MPI_Test(&transfer->request, &is_done, MPI_STATUS_IGNORE));
  if (tested.is_ok() && is_done) {
    keep(std::move(transfer));
    return true;
  }
  sends_.push_back({rank, std::move(transfer), std::move(tested)});
  return false;
}

Result<std::optional<std::span<const std::byte>>> Port::receive(int rank) {
  constexpr std::size_t kMostKept = 1 << 20;
  const auto pass = gate_.enter();
  if (!pass) return MpiGate::is_over();
  auto& transfer = receives_[rank];
  if (!transfer) transfer = std::make_unique<Transfer>();
  std::vector<std::byte>& bytes = transfer->bytes;
  if (transfer->request == MPI_REQUEST_NULL) {
    int is_there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    DABKE_RETURN_IF_ERROR(
        mpi_status("MPI_Improbe", MPI_Improbe(rank, tag_, comm_, &is_there, &message, &status)));
    if (!is_there) return std::optional<std::span<const std::byte>>();
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (bytes.capacity() > kMostKept) bytes = {};
    bytes.resize(static_cast<std::size_t>(count));
    DABKE_RETURN_IF_ERROR(
        mpi_status("MPI_Imrecv", MPI_Imrecv(bytes.data(), count, MPI_BYTE, &message, &transfer->request)));
  }
  int is_done = 0;
  DABKE_RETURN_IF_ERROR(mpi_status("MPI_Test", MPI_Test(&transfer->request, &is_done, MPI_STATUS_IGNORE)));
  if (!is_done) return std::optional<std::span<const std::byte>>();
  return std::optional(std::span<const std::byte>(bytes));
}

/// Takes back the memory of sends that have ended. The caller holds a pass.
void Port::reap() {
  for (std::size_t i = 0; i < sends_.size();) {
    Sending& one = sends_[i];
    int is_done = 0;
    if (one.failure.is_ok())
      one.failure = mpi_status("MPI_Test", MPI_Test(&one.transfer->request, &is_done, MPI_STATUS_IGNORE));
    if (!one.failure.is_ok() || !is_done) {
      ++i;
      continue;
    }
    keep(std::move(one.transfer));
    sends_.erase(sends_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

modules::MpiPort::Progress Port::progress() {
  const auto pass = gate_.enter();
  if (!pass) return {};  // MPI_Finalize has ended the messages in flight
  reap();
  if (sends_.empty()) {
    // Calls MPI even without sends in flight, because the other ranks may need it: a message that MPI reports
    // as sent may still be in a queue of this process. An error here belongs to no particular message. If it
    // persists, the next message meets it.
    int is_there = 0;
    (void)MPI_Iprobe(MPI_ANY_SOURCE, tag_, comm_, &is_there, MPI_STATUS_IGNORE);
  }
  const auto failed = std::ranges::find_if(sends_, [](const Sending& one) { return !one.failure.is_ok(); });
  if (failed == sends_.end()) return {sends_.size(), -1, {}};
  Progress failed_progress{sends_.size() - 1, failed->rank, std::move(failed->failure)};
  (void)failed->transfer.release();
  sends_.erase(failed);
  return failed_progress;
}

void Port::forget(int rank) {
  for (Sending& one : sends_) {
    if (one.rank == rank) (void)one.transfer.release();
  }
  std::erase_if(sends_, [](const Sending& one) { return one.transfer == nullptr; });
  const auto receiving = receives_.find(rank);
  if (receiving == receives_.end()) return;
  if (receiving->second->request != MPI_REQUEST_NULL) (void)receiving->second.release();
  receives_.erase(receiving);
}

}  // namespace

std::unique_ptr<modules::MpiPort> make_mpi_port(MPI_Comm comm, int tag, MpiGate& gate) {
  return std::make_unique<Port>(comm, tag, gate);
}

}  // namespace dabke::ops
