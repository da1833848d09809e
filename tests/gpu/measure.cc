#include "tests/gpu/measure.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "tests/gpu/cuda_rank.h"

namespace dabke::test {
namespace {

constexpr std::size_t kTensors = 128;
constexpr int kTurns = 7;
constexpr int kTimesOfTurn = 20;
constexpr int kTimesAmongRanks = 3;  // the data may move over sockets
constexpr std::size_t kGroupBytes = std::size_t{64} << 20;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 2];
}

/// The device's time for the work that `once` enqueues. The work runs many times in a row, so that the host's
/// part hardly counts.
double seconds_of(DeviceStream& stream, const std::function<void()>& once, int times = kTimesOfTurn) {
  std::vector<double> turns;
  for (int turn = 0; turn <= kTurns; ++turn) {
    const double begun = now();
    for (int i = 0; i < times; ++i) once();
    await_end(stream);
    if (turn != 0) turns.push_back((now() - begun) / times);  // the first turn warms up
  }
  return median(turns);
}

void print_figure(const std::string& what, const std::string& how_much) {
  std::printf("figure: %s | %s\n", what.c_str(), how_much.c_str());
}

/// Tensors of a device, one after the other in memory, and the fusion buffer into which they are packed.
struct Memory {
  Memory(DeviceStream& stream, std::size_t bytes)
      : elements(bytes / sizeof(float) / kTensors), bytes(elements * sizeof(float) * kTensors) {
    for (DeviceBuffer* const buffer : {&tensors, &fused, &outputs}) {
      *buffer = allocate_from(stream.memory(), this->bytes);
      if (*buffer == nullptr) throw std::runtime_error(fmt::format("the device has no {} bytes", bytes));
      must(stream.clear(buffer->get(), this->bytes));
    }
  }
  float* at(const DeviceBuffer& buffer, std::size_t tensor) const {
    return static_cast<float*>(buffer.get()) + tensor * elements;
  }
  /// All tensors; those of 16 bits lie closer together.
  std::vector<ElementCopy> pieces(const DeviceBuffer& to, const DeviceBuffer& from,
                                  DType to_dtype = DType::f32, DType from_dtype = DType::f32) const {
    std::vector<ElementCopy> all;
    const auto place = [&](const DeviceBuffer& buffer, std::size_t tensor, DType dtype) {
      return static_cast<std::byte*>(buffer.get()) + tensor * elements * size_of(dtype);
    };
    for (std::size_t i = 0; i < kTensors; ++i)
      all.push_back({place(to, i, to_dtype), place(from, i, from_dtype), elements});
    return all;
  }

  const std::size_t elements;  // elements of one tensor
  const std::size_t bytes;     // bytes of all tensors
  DeviceBuffer tensors, fused, outputs;
};

/// The time of the driver's own copy, which Dabke never calls.
double seconds_of_copy(ops::CudaStream& stream, const Memory& memory) {
  using Copy = cuda::Error(cuda::Pointer, cuda::Pointer, std::size_t, cuda::Stream);
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto copy = reinterpret_cast<Copy*>(::dlsym(library, "cuMemcpyDtoDAsync_v2"));
  const ops::CudaScope current = stream.cuda_device()->scope();
  return seconds_of(stream, [&] {
    must(
        cuda::check(cuda_driver(), "cuMemcpyDtoDAsync",
                    copy(reinterpret_cast<cuda::Pointer>(memory.fused.get()),
                         reinterpret_cast<cuda::Pointer>(memory.tensors.get()), memory.bytes, stream.get())));
  });
}

struct Copies {
  double copy;  // seconds
  double pack;
  double unpack;
};

Copies measure_copies(ops::CudaStream& stream, const Memory& memory, bool prints) {
  const double copy = seconds_of_copy(stream, memory);
  const auto tell = [&](const char* what, double moved, double seconds) {
    if (!prints) return;
    print_figure(
        fmt::format("{}, {} tensors of {} KiB", what, kTensors, memory.elements * sizeof(float) >> 10),
        fmt::format("{:.1f} GB/s, {:.0f} % of the device's own copy", moved / seconds * 1e-9,
                    100 * (moved / seconds) / (2 * static_cast<double>(memory.bytes) / copy)));
  };
  const auto kernel = [&](const char* what, const std::vector<ElementCopy>& pieces, DType to, DType from,
                          const kernels::Scale& by) {
    const double seconds = seconds_of(stream, [&] { must(stream.copy(pieces, to, from, by)); });
    const auto elements = static_cast<double>(memory.elements * kTensors);
    tell(what, elements * static_cast<double>(size_of(to) + size_of(from)), seconds);
    return seconds;
  };
  tell("copy by the driver, as one", 2 * static_cast<double>(memory.bytes), copy);
  const double pack = kernel("pack", memory.pieces(memory.fused, memory.tensors), DType::f32, DType::f32, 1);
  const double unpack = kernel("unpack and scale", memory.pieces(memory.tensors, memory.fused), DType::f32,
                               DType::f32, kernels::Scale(1, 3));
  (void)kernel("pack float32 as bfloat16",
               memory.pieces(memory.fused, memory.tensors, DType::bf16, DType::f32), DType::bf16, DType::f32,
               1);
  (void)kernel("unpack bfloat16 as float32",
               memory.pieces(memory.tensors, memory.fused, DType::f32, DType::bf16), DType::f32, DType::bf16,
               1);
  return {copy, pack, unpack};
}

/// The time of a step of a training program: all tensors are submitted, then all are awaited.
double seconds_of_step(Rank& self, const Memory& memory, Device device) {
  std::vector<double> steps;
  for (int step = 0; step < kTurns * 3; ++step) {
    must(self.barrier());
    const double begun = now();
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < kTensors; ++i) {
      const Shape shape{static_cast<std::int64_t>(memory.elements)};
      pending.push_back(self.start(CollectiveKind::allreduce,
                                   {{TensorView{memory.at(memory.tensors, i), DType::f32, device, shape},
                                     TensorView{memory.at(memory.outputs, i), DType::f32, device, shape}}},
                                   {.name = fmt::format("gradient {}", i)}));
    }
    for (const Pending& one : pending) must(one.wait());
    if (step >= kTurns) steps.push_back(now() - begun);  // earlier steps warm up, and batches are learned
  }
  return median(steps);
}

/// NCCL without Dabke, among all ranks.
class RawNccl {
 public:
  RawNccl(Rank& self, ops::CudaStream& stream) : stream_(stream) {
    std::vector<std::uint8_t> id(ops::NcclSession::kIdBytes);
    if (self.rank() == 0) must(cuda_process().make_id(std::as_writable_bytes(std::span(id))));
    must(self.broadcast(id, {.name = "id", .on_device = false}));
    ranks_ =
        must(cuda_process().make_communicator(stream.device(), std::as_bytes(std::span(id)), self.rank(),
                                              self.size(), deadline_after(120), [] { return Status(); }));
  }

  /// The time of allreduces in one group.
  double seconds(const DeviceBuffer& memory, std::size_t bytes, std::size_t tensors) {
    const std::size_t each = bytes / tensors / sizeof(float);
    std::vector<ops::NcclCall> calls;
    for (std::size_t i = 0; i < tensors; ++i) {
      calls.push_back({.kind = CollectiveKind::allreduce,
                       .dtype = DType::f32,
                       .data = static_cast<std::byte*>(memory.get()) + i * each * sizeof(float),
                       .elements = each});
    }
    return seconds_of(
        stream_,
        [&] {
          must(ranks_->start(calls, stream_));
          while (!must(ranks_->poll())) std::this_thread::yield();
        },
        kTimesAmongRanks);
  }

 private:
  ops::CudaStream& stream_;
  std::unique_ptr<ops::NcclCommunicator> ranks_;
};

/// Measures the cost of tensors that are not packed: a group of tensors, compared with one tensor of all
/// their bytes.
void measure_groups(Rank& self, RawNccl& nccl, const Memory& memory) {
  const std::size_t bytes = std::min(kGroupBytes, memory.bytes);
  const double one = nccl.seconds(memory.fused, bytes, 1);
  std::string text = fmt::format("one {:.3f} ms", one * 1e3);
  for (std::size_t tensors = 2; tensors <= 64; tensors *= 2)
    text += fmt::format(", {} {:.2f} times", tensors, nccl.seconds(memory.fused, bytes, tensors) / one);
  if (self.rank() == 0) {
    print_figure(
        fmt::format("NCCL, {} ranks: {} MiB as one tensor, and as a group of more", self.size(), bytes >> 20),
        text);
  }
}

/// Measures the host's work per tensor. The tensors are so small that no other work counts.
void measure_small(Rank& self, ops::CudaStream& stream) {
  const Memory memory(stream, kTensors << 12);
  await_end(stream);
  const double step = seconds_of_step(self, memory, stream.device());
  if (self.rank() == 0) {
    print_figure(fmt::format("allreduce of {} tensors of 4 KiB, {} rank{}", kTensors, self.size(),
                             self.size() == 1 ? "" : "s"),
                 fmt::format("{:.3f} ms, {:.1f} us a tensor", step * 1e3, step * 1e6 / kTensors));
  }
}

}  // namespace

int measure(std::size_t bytes) {
  Rank self = open_rank(false);
  const Device device = device_of(self.runtime().world());
  const auto opened = must(cuda_process().open(device));
  auto& stream = static_cast<ops::CudaStream&>(*opened);
  const Memory memory(stream, bytes);
  await_end(stream);
  const Copies copies = measure_copies(stream, memory, self.rank() == 0 && self.size() == 1);
  const double step = seconds_of_step(self, memory, device);
  const bool is_alone = self.size() == 1;
  std::optional<RawNccl> nccl;
  if (!is_alone) nccl.emplace(self, stream);
  const double raw = is_alone ? copies.copy : nccl->seconds(memory.fused, memory.bytes, 1);
  const double least = raw + copies.pack + copies.unpack;
  if (self.rank() == 0) {
    print_figure(fmt::format("allreduce of {} tensors, {:.1f} MiB, {} rank{}", kTensors,
                             static_cast<double>(memory.bytes) / (1 << 20), self.size(), is_alone ? "" : "s"),
                 fmt::format("{:.3f} ms; {} {:.3f} ms, pack and unpack {:.3f} ms; {:.2f} times those",
                             step * 1e3, is_alone ? "a copy" : "raw NCCL", raw * 1e3,
                             (copies.pack + copies.unpack) * 1e3, step / least));
  }
  if (nccl) measure_groups(self, *nccl, memory);
  measure_small(self, stream);
  must(self.barrier());
  nccl.reset();
  self.close();
  return 0;
}

}  // namespace dabke::test
