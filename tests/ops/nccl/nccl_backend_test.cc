// The backend between two threads, on the doubles: how it passes tensors to NCCL, and what it logs.
#include "ops/nccl/nccl_backend.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "ops/nccl/gpu_kernels.h"
#include "runtime/base/threads/fork_guard.h"
#include "tests/fake_cuda/doubles.h"
#include "tests/ops/nccl/session.h"

namespace dabke::test {
namespace {

/// One rank, and its log.
struct Side {
  explicit Side(int rank) : device{DeviceType::cuda, rank} {
    world.rank = rank;
    world.size = 2;
    world.hosts = {"here", "here"};
    set.ranks = {0, 1};
    set.rank = rank;
  }
  void prepare(ProcessSetId id, std::span<const std::byte> made) {
    ProcessSetInfo other = set;
    other.id = id;
    must(backend.id_exchange()->library_version());
    backend.id_exchange()->take_id(other, made);
    must(backend.prepare(other, device));
  }
  /// Runs a batch of tensors with so many elements, not in place. Throws if an
  /// element of an output is not `wanted`.
  void run(Batch batch, const std::vector<std::size_t>& counts, float own, float wanted) {
    std::vector<DeviceBuffer> memory;
    const auto make = [&](std::size_t count, float value) {
      memory.push_back(allocate_from(stream->memory(), count * sizeof(float)));
      return std::fill_n(static_cast<float*>(memory.back().get()), count, value) - count;
    };
    batch.device_type = DeviceType::cuda;
    batch.device_index = device.index;
    batch.stream = stream.get();
    batch.process_set = &set;
    for (const std::size_t count : counts)
      batch.entries.push_back({make(count, own), make(count, -1), static_cast<std::int64_t>(count), {}, {}});
    struct Seen {
      bool is_done = false;
      std::string error;
    } seen;
    backend.run(batch, {[](void* context, const Status& status) {
                          auto& of = *static_cast<Seen*>(context);
                          of.is_done = true;
                          of.error = status.message();
                        },
                        &seen});
    while (!seen.is_done) must(backend.poll());
    if (!seen.error.empty()) throw std::runtime_error(seen.error);
    await_all(*stream);
    for (const BatchEntry& entry : batch.entries) {
      const auto* const output = static_cast<const float*>(entry.output);
      for (std::int64_t i = 0; i < entry.elements; ++i) {
        if (output[i] != wanted) throw std::runtime_error("a wrong number: " + std::to_string(output[i]));
      }
    }
  }
  std::string held(std::size_t bytes) const {
    return "[dabke debug] " + device.to_string() + ": " + std::to_string(bytes) +
           " bytes are held for tensors that travel together\n";
  }

  const Device device;
  World world;
  ProcessSetInfo set;
  Config config;
  ForkGuard fork_guard;
  std::shared_ptr<std::string> text = std::make_shared<std::string>();
  std::shared_ptr<DeviceStream> stream = must(session().open(device));
  ops::NcclBackend backend{{world, config, nullptr, fork_guard,
                            Log::to_string(text, {.level = LogLevel::debug, .hide_time = true})},
                           []() -> Result<ops::NcclSession*> { return &session(); }};
};

/// Runs `what` on a thread for each of two ranks, with communicators of sets 0
/// and 1. Returns the log of each rank.
std::vector<std::string> logs_of(const std::function<void(Side&)>& what) {
  std::unique_ptr<Side> sides[] = {std::make_unique<Side>(0), std::make_unique<Side>(1)};
  std::vector<std::vector<std::byte>> ids(
      2, std::vector<std::byte>(sides[0]->backend.id_exchange()->id_bytes()));
  for (auto& id : ids) must(sides[0]->backend.id_exchange()->make_id(sides[0]->set, id));
  std::exception_ptr thrown[2];
  {
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        Side& side = *sides[rank];
        try {
          for (ProcessSetId set = 0; set < 2; ++set) side.prepare(set, ids[static_cast<std::size_t>(set)]);
          what(side);
          for (ProcessSetId set = 0; set < 2; ++set) side.backend.release(set, side.device);
        } catch (...) {
          thrown[rank] = std::current_exception();
          side.backend.abort({Code::aborted, "the test has failed"});
        }
      });
    }
  }
  for (const auto& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
  return {*sides[0]->text, *sides[1]->text};
}

/// An average, times 3.
Batch average() {
  Batch batch;
  batch.prescale = 3;
  batch.divisor = 2;
  return batch;
}

}  // namespace

TEST_CASE(
    "which NCCL it is is told once, whatever is made of it, and what is held for fusion as that grows") {
  const auto logs = logs_of([](Side& side) {
    for (const std::size_t count : {1000, 900, 3000}) side.run(average(), {count, count}, 1, 3);
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Side side(rank);
    // Two tensors, each padded to 64 bytes, in whole pages. Later, half as
    // much again, or as much as is needed.
    CHECK(logs[static_cast<std::size_t>(rank)] ==
          "[dabke info] " + session().description() + "\n" + side.held(8192) + side.held(24576));
  }
}

TEST_CASE("large tensors of an allreduce or a broadcast are not copied into the buffer, and small ones are") {
  const Planned delays("", 5);
  const std::size_t large = 300000;
  const auto logs = logs_of([&](Side& side) {
    Batch broadcast;
    broadcast.kind = CollectiveKind::broadcast;
    broadcast.root = 1;
    for (const auto& counts :
         {std::vector<std::size_t>{large, 10, large + 1, 20}, {large, large}, {10, large}}) {
      side.run(average(), counts, 1, 3);
      side.run(broadcast, counts, static_cast<float>(side.set.rank), 1);
    }
  });
  for (int rank = 0; rank < 2; ++rank) {
    const std::string& log = logs[static_cast<std::size_t>(rank)];
    CHECK_THAT(log, Catch::EndsWith("CUDA driver 13.0\n" + Side(rank).held(4096)));
  }
}

TEST_CASE("hundreds of small tensors are packed by one launch and unpacked by another") {
  const std::size_t hundreds = ops::GpuKernels::kMostPieces - 24;
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < hundreds; ++i) counts.push_back(1 + i % 7);
  Batch plain;
  logs_of([&](Side& side) {
    const std::uint64_t before = kernels_run(side.device.index);
    side.run(plain, counts, static_cast<float>(side.set.rank + 1), 3);
    side.run(average(), counts, 1, 3);  // scaled both when packed and when unpacked
    if (const std::uint64_t launches = kernels_run(side.device.index) - before; launches != 4)
      throw std::runtime_error(fmt::format("{} launches instead of 4", launches));
  });
}

}  // namespace dabke::test
