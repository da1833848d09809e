// Broadcasts from private memory with one copy, and without it where the system forbids that.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>

#include <catch2/catch.hpp>

#include "tests/ops/shm/rank_threads.h"

namespace dabke::test {
namespace {

// More than one call has pieces and bytes for: kPiecesOfCall, kBytesOfCall.
const std::vector<std::size_t> kLengths = {300'001, 0, 1, 700'000, 5};

std::vector<std::int32_t> numbers(std::size_t tensor, std::size_t elements) {
  std::vector<std::int32_t> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<std::int32_t>(i * 31 + tensor);
  return values;
}

/// Broadcasts tensors of these lengths. Returns what is wrong; an empty text: nothing.
std::string broadcast(ShmRank& self, int root, std::uint64_t order, const std::vector<std::size_t>& lengths,
                      bool in_place) {
  std::vector<std::vector<std::int32_t>> inputs, outputs;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const bool is_root = self.world.rank == root;
    inputs.push_back(is_root ? numbers(i, lengths[i]) : std::vector<std::int32_t>(lengths[i], -1));
    outputs.emplace_back(lengths[i], -2);
  }
  Batch batch;
  batch.kind = CollectiveKind::broadcast;
  batch.dtype = DType::i32;
  batch.root = root;
  batch.order = order;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::vector<std::int32_t>& output = in_place ? inputs[i] : outputs[i];
    batch.entries.push_back({inputs[i].data(), output.data(), static_cast<std::int64_t>(lengths[i]), {}, {}});
  }
  if (const Status status = self.run(batch); !status.is_ok()) return std::string(status.message());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto& got = in_place ? inputs[i] : outputs[i];
    if (got != numbers(i, lengths[i])) return "tensor " + std::to_string(i) + " is wrong";
    if (!in_place && self.world.rank == root && inputs[i] != got) return "the root's input has changed";
  }
  return "";
}

std::atomic<int> reads_refused = 0;

/// From now on, the kernel refuses this thread's calls of process_vm_readv with a signal.
void forbid_reads() {
  struct sigaction action = {};
  action.sa_handler = [](int) { ++reads_refused; };
  ::sigaction(SIGSYS, &action, nullptr);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(code), code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::runtime_error("this system has no filters of system calls");
}

}  // namespace

TEST_CASE("a large broadcast has right data from each root, in place or not, in few tensors or many") {
  const int size = GENERATE(2, 3, 5);
  CAPTURE(size);
  const auto seen = run_on_ranks(size, [&](ShmRank& self) -> std::string {
    std::uint64_t order = 0;
    for (int root = 0; root < size; ++root) {
      for (const bool in_place : {true, false}) {
        for (const auto& lengths : {kLengths, std::vector<std::size_t>(300, 2'000)}) {
          if (std::string wrong = broadcast(self, root, ++order, lengths, in_place); !wrong.empty())
            return wrong;
        }
      }
    }
    return "";
  });
  CHECK(seen == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("receivers read a large broadcast from the root's memory; if they may not, they try it once") {
  constexpr int kRanks = 3;
  reads_refused = 0;
  const auto seen = run_on_ranks(kRanks, [](ShmRank& self) -> std::string {
    forbid_reads();
    for (std::uint64_t order = 1; order <= 3; ++order) {
      if (std::string wrong = broadcast(self, 0, order, kLengths, true); !wrong.empty()) return wrong;
    }
    return "";
  });
  CHECK(seen == std::vector<std::string>(kRanks));
  CHECK(reads_refused == kRanks - 1);
}

TEST_CASE("one rank that may not read sends the others through the stages") {
  const auto seen = run_on_ranks(4, [](ShmRank& self) -> std::string {
    if (self.world.rank == 2) forbid_reads();
    for (std::uint64_t order = 1; order <= 3; ++order) {
      if (std::string wrong = broadcast(self, 1, order, kLengths, order == 2); !wrong.empty()) return wrong;
    }
    return "";
  });
  CHECK(seen == std::vector<std::string>(4));
}

}  // namespace dabke::test
