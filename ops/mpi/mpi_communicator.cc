#include <cstdint>
#include <numeric>

#include "ops/mpi/mpi_process.h"

namespace dabke::ops {
namespace {

class Communicator final : public modules::MpiCommunicator {
 public:
  Communicator(MpiComm comm, MpiGate& gate) : comm_(std::move(comm)), gate_(gate) {}
  ~Communicator() override {
    const auto pass = gate_.enter();
    if (!pass) (void)comm_.release();  // MPI_Finalize has freed it
    comm_ = MpiComm();
  }

  Status start_broadcast(std::byte* data, int bytes, int root) override {
    const auto pass = gate_.enter();
    if (!pass) return MpiGate::is_over();
    expect(bytes);
    return mpi_status("MPI_Ibcast", MPI_Ibcast(data, bytes, MPI_BYTE, root, comm_.get(), &request_));
  }
  Status start_allgather(const std::byte* send, int bytes, std::byte* receive, std::span<const int> counts,
                         std::span<const int> offsets) override {
    const auto pass = gate_.enter();
    if (!pass) return MpiGate::is_over();
    expect(total(counts));
    return mpi_status("MPI_Iallgatherv", MPI_Iallgatherv(send, bytes, MPI_BYTE, receive, counts.data(),
                                                         offsets.data(), MPI_BYTE, comm_.get(), &request_));
  }
  Status start_alltoall(const std::byte* send, std::span<const int> send_counts,
                        std::span<const int> send_offsets, std::byte* receive,
                        std::span<const int> receive_counts, std::span<const int> receive_offsets) override {
    const auto pass = gate_.enter();
    if (!pass) return MpiGate::is_over();
    expect(total(send_counts) + total(receive_counts));
    return mpi_status(
        "MPI_Ialltoallv",
        MPI_Ialltoallv(send, send_counts.data(), send_offsets.data(), MPI_BYTE, receive,
                       receive_counts.data(), receive_offsets.data(), MPI_BYTE, comm_.get(), &request_));
  }
  Result<bool> test() override {
    int is_done = 0;
    {
      const auto pass = gate_.enter();
      if (!pass) return MpiGate::is_over();
      DABKE_RETURN_IF_ERROR(mpi_status("MPI_Test", MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE)));
    }
    if (!is_done) patience_.wait();
    return is_done != 0;
  }
  void forsake() override { (void)comm_.release(); }

 private:
  /// Messages below this size may be a meeting of the ranks, which lasts until the last rank has arrived.
  static constexpr std::int64_t kLarge = 64 << 10;

  static std::int64_t total(std::span<const int> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }
  void expect(std::int64_t bytes) {
    patience_ = bytes < kLarge ? RetryPace() : RetryPace::while_data_moves();
  }

  MpiComm comm_;
  MpiGate& gate_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  RetryPace patience_;
};

}  // namespace

std::unique_ptr<modules::MpiCommunicator> make_mpi_communicator(MpiComm comm, MpiGate& gate) {
  return std::make_unique<Communicator>(std::move(comm), gate);
}

}  // namespace dabke::ops
