// Communicators between threads, on the fake NCCL: their results, and how they end.
#include <stdlib.h>

#include <cstring>
#include <exception>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/ops/nccl/session.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Numbers = std::vector<float>;

struct Member {
  int rank;
  int size;
  std::shared_ptr<DeviceStream> stream;
  std::unique_ptr<ops::NcclCommunicator> communicator;
};

std::vector<std::byte> make_id() {
  must(session().open(Device{DeviceType::cuda, 0}));
  std::vector<std::byte> id(ops::NcclSession::kIdBytes);
  must(session().make_id(id));
  return id;
}

Result<std::unique_ptr<ops::NcclCommunicator>> join(int device, std::span<const std::byte> id, int rank,
                                                    int size, double seconds = 60,
                                                    std::function<Status()> interrupted = {}) {
  if (!interrupted) interrupted = [] { return Status(); };
  return session().make_communicator(Device{DeviceType::cuda, device}, id, rank, size,
                                     deadline_after(seconds), interrupted);
}

/// Runs `what` on so many threads, each a rank with a device of its own.
/// An exception of one is rethrown here.
void on_ranks(int size, const std::function<void(Member&)>& what) {
  const auto id = make_id();
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          Member self{rank, size, must(session().open(Device{DeviceType::cuda, rank})), nullptr};
          self.communicator = must(join(rank, id, rank, size));
          what(self);
        } catch (...) {
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    }
  }
  for (const auto& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

void run(Member& self, const ops::NcclCall& call) {
  must(self.communicator->start(call, *self.stream));
  while (!must(self.communicator->poll())) std::this_thread::yield();
  await_all(*self.stream);
  must(self.communicator->poll());
}

std::byte* bytes_of(Numbers& numbers) { return reinterpret_cast<std::byte*>(numbers.data()); }
float value_of(int rank, std::size_t index) {
  return static_cast<float>(rank * 100) + static_cast<float>(index);
}

Numbers filled(int rank, std::size_t count) {
  Numbers numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = value_of(rank, i);
  return numbers;
}

}  // namespace

TEST_CASE(
    "each collective of NCCL gives what arithmetic says, among 2 to 4 ranks, in blocks alike and uneven") {
  const int size = GENERATE(2, 3, 4);
  const bool is_even = GENERATE(true, false);
  CAPTURE(size, is_even);
  const Planned delays("", 17);
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> counts(ranks, 20000);
  for (std::size_t i = 0; !is_even && i < ranks; ++i) counts[i] = i * 7000 + (i == 0 ? 0 : 1);
  std::vector<std::size_t> offsets(ranks + 1);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);

  std::vector<std::vector<Numbers>> seen(ranks, std::vector<Numbers>(5));
  on_ranks(size, [&](Member& self) {
    const auto own = static_cast<std::size_t>(self.rank);
    auto& of = seen[own];
    of[0] = filled(self.rank, 1001);
    run(self, {.kind = CollectiveKind::allreduce, .data = bytes_of(of[0]), .elements = 1001});
    of[1] = filled(self.rank, 1001);
    run(self,
        {.kind = CollectiveKind::broadcast, .root = size - 1, .data = bytes_of(of[1]), .elements = 1001});
    of[2].resize(offsets.back());
    const Numbers block = filled(self.rank, counts[own]);
    std::copy(block.begin(), block.end(), of[2].begin() + static_cast<std::ptrdiff_t>(offsets[own]));
    run(self, {.kind = CollectiveKind::allgather, .data = bytes_of(of[2]), .receive_counts = counts});
    Numbers send = filled(self.rank, offsets.back());
    of[3].resize(counts[own]);
    run(self, {.kind = CollectiveKind::reducescatter,
               .op = ReduceOp::max,
               .send = bytes_of(send),
               .data = bytes_of(of[3]),
               .send_counts = counts});
    const std::vector<std::size_t> received(ranks, counts[own]);
    of[4].resize(counts[own] * ranks);
    run(self, {.kind = CollectiveKind::alltoall,
               .send = bytes_of(send),
               .data = bytes_of(of[4]),
               .send_counts = counts,
               .receive_counts = received});
  });

  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    Numbers sum(1001);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      for (int other = 0; other < size; ++other) sum[i] += value_of(other, i);
    }
    CHECK(seen[rank][0] == sum);
    CHECK(seen[rank][1] == filled(size - 1, 1001));
    Numbers gathered;
    Numbers exchanged;
    Numbers largest;
    for (int other = 0; other < size; ++other) {
      const Numbers block = filled(other, counts[static_cast<std::size_t>(other)]);
      gathered.insert(gathered.end(), block.begin(), block.end());
      for (std::size_t i = 0; i < counts[rank]; ++i) exchanged.push_back(value_of(other, offsets[rank] + i));
    }
    for (std::size_t i = 0; i < counts[rank]; ++i) largest.push_back(value_of(size - 1, offsets[rank] + i));
    CHECK(seen[rank][2] == gathered);
    CHECK(seen[rank][3] == largest);
    CHECK(seen[rank][4] == exchanged);
  }
}

TEST_CASE("a communicator to which a rank does not come ends at its deadline, or when the job is aborted") {
  const auto id = make_id();
  const auto late = join(0, id, 0, 2, 0.05);
  CHECK(late.status().code() == Code::timeout);
  CHECK_THAT(late.status().message(), Contains("DABKE_START_TIMEOUT_SECONDS"));
  const auto aborted =
      join(0, make_id(), 0, 2, 600, [] { return Status(Code::aborted, "somebody said so"); });
  CHECK(aborted.status().message() == "somebody said so");
}

TEST_CASE("two ranks on one device are told so, and what to do, by each version of NCCL in its words") {
  const auto [version, words] = GENERATE(table<const char*, const char*>({
      {"21800", "Duplicate GPU detected"},
      {"23000", "Multiple Ranks are using the same GPU"},
  }));
  ::setenv("FAKE_NCCL_VERSION", version, 1);
  const auto id = make_id();
  Status other;
  std::jthread second([&] { other = join(0, id, 1, 2).status(); });
  const Status first = join(0, id, 0, 2).status();
  second.join();
  ::unsetenv("FAKE_NCCL_VERSION");
  for (const Status& status : {first, other}) {
    CHECK_THAT(status.message(),
               Contains(std::string("ncclCommInitRankConfig: invalid usage (5): ") + words) &&
                   Contains("give each rank its own"));
  }
}

TEST_CASE("a collective that waits for a rank for ever ends when its communicator is aborted") {
  on_ranks(2, [](Member& self) {
    Numbers numbers = filled(self.rank, 10);
    if (self.rank == 1) return self.communicator->abort();  // it never starts the collective
    must(self.communicator->start({.data = bytes_of(numbers), .elements = 10}, *self.stream));
    while (!must(self.communicator->poll())) std::this_thread::yield();
    const auto event = must(self.stream->record());
    self.communicator->abort();
    while (!must(event->is_reached())) std::this_thread::yield();
    if (self.communicator->poll().is_ok()) throw std::runtime_error("an aborted communicator goes on");
  });
}

TEST_CASE(
    "a reduction that NCCL does not have is refused by its dtype, with what to do; data of that dtype "
    "moves") {
  const DType dtype = GENERATE(DType::i16, DType::u16);
  on_ranks(2, [&](Member& self) {
    std::vector<std::uint16_t> numbers(10, static_cast<std::uint16_t>(self.rank));
    auto* const data = reinterpret_cast<std::byte*>(numbers.data());
    for (const CollectiveKind kind : {CollectiveKind::allreduce, CollectiveKind::reducescatter}) {
      const Status status = self.communicator->start(
          {.kind = kind, .dtype = dtype, .data = data, .elements = 10}, *self.stream);
      const std::string refused =
          "NCCL has no sum of " + std::string(name_of(dtype)) + "; copy the tensor to the host";
      if (status.code() != Code::unsupported || !status.message().starts_with(refused))
        throw std::runtime_error(status.message());
    }
    run(self, {.kind = CollectiveKind::broadcast, .dtype = dtype, .root = 1, .data = data, .elements = 10});
    if (numbers != std::vector<std::uint16_t>(10, 1))
      throw std::runtime_error("other numbers than the root's");
  });
}

TEST_CASE("an error that NCCL tells only when asked comes out of poll, with its cause") {
  const Planned fault("ncclAllReduce 0 1 async=6");
  std::string said;
  on_ranks(2, [&](Member& self) {
    Numbers numbers = filled(self.rank, 10);
    Status status = self.communicator->start({.data = bytes_of(numbers), .elements = 10}, *self.stream);
    while (self.rank == 0 && status.is_ok()) status = self.communicator->poll().status();
    if (self.rank == 0) said = status.message();
    self.communicator->abort();
    await_all(*self.stream);  // the test owns the memory
  });
  CHECK_THAT(said,
             Contains("remote process exited or there was a network error (6): a fault that the plan names; "
                      "another rank has ended"));
}

TEST_CASE("an error of the driver names the call and the error") {
  const Planned fault("cuLaunchKernel 0 1 719");
  const auto stream = must(session().open(Device{DeviceType::cuda, 0}));
  float number = 1;
  const ElementCopy piece{&number, &number, 1};
  const Status status = stream->copy({&piece, 1}, DType::f32, DType::f32, 2);
  CHECK(status.code() == Code::transport);
  CHECK(status.message() ==
        "cuLaunchKernel of dabke_scale_f32: CUDA_ERROR_LAUNCH_FAILED (719): unspecified launch failure");
}

TEST_CASE("a device that does not come to its end is not opened again") {
  const Device last{DeviceType::cuda, 7};
  const auto stream = must(session().open(last));
  stream->keep(std::make_shared<int>(1));
  CHECK_THAT(session().open(last).status().message(),
             Contains("cuda:7 has not finished a failed collective") && Contains("restart this process"));
}

TEST_CASE("a device that is not there is refused by its number") {
  CHECK_THAT(session().open(Device{DeviceType::cuda, 8}).status().message(),
             Contains("there is no cuda:8: this process sees 8 devices"));
}

}  // namespace dabke::test
