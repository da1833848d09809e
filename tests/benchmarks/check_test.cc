#include "benchmarks/perf/competitors/check.h"

#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/kernels/kernels.h"

namespace dabke::test {
using namespace perf;
namespace {

constexpr int kRanks = 3, kSalt = 1;

/// A collective over ranks in one process, by the simplest means.
struct Job {
  Job(CollectiveKind kind, DType dtype, ReduceOp op, std::int64_t bytes) {
    for (int rank = 0; rank < kRanks; ++rank) {
      calls.push_back(call_of(kind, dtype, op, rank, kRanks, bytes));
      inputs.emplace_back(calls.back().input_bytes());
      outputs.emplace_back(calls.back().output_bytes());
    }
    for (std::size_t i = 0; i < kRanks; ++i) {
      calls[i].input = inputs[i].data();
      calls[i].output = outputs[i].data();
      fill_for_check(calls[i], kSalt);
    }
  }

  std::vector<std::byte> sum() const {
    std::vector<std::byte> all = inputs[0];
    for (std::size_t i = 1; i < kRanks; ++i) {
      kernels::reduce(calls[0].dtype, calls[0].op, all.data(), all.data(), inputs[i].data(),
                      static_cast<std::size_t>(calls[0].elements));
    }
    return all;
  }

  void run() {
    const std::size_t part = static_cast<std::size_t>(calls[0].part()) * size_of(calls[0].dtype);
    for (std::size_t to = 0; to < kRanks; ++to) {
      std::byte* const out = outputs[to].data();
      switch (calls[to].kind) {
        case CollectiveKind::broadcast: outputs[to] = inputs[0]; break;
        case CollectiveKind::allreduce: outputs[to] = sum(); break;
        case CollectiveKind::reducescatter: std::memcpy(out, sum().data() + to * part, part); break;
        default:
          for (std::size_t from = 0; from < kRanks; ++from) {
            const std::size_t at = calls[to].kind == CollectiveKind::alltoall ? to * part : 0;
            std::memcpy(out + from * part, inputs[from].data() + at, part);
          }
      }
      calls[to].output = outputs[to].data();
    }
  }

  std::int64_t wrong() const {
    std::int64_t all = 0;
    for (const Call& call : calls) all += count_wrong(call, kSalt);
    return all;
  }

  std::vector<Call> calls;
  std::vector<std::vector<std::byte>> inputs, outputs;
};

CollectiveKind any_collective() {
  return GENERATE(CollectiveKind::allreduce, CollectiveKind::allgather, CollectiveKind::broadcast,
                  CollectiveKind::reducescatter, CollectiveKind::alltoall);
}

}  // namespace

TEST_CASE("what a collective gives is right, whatever the dtype, the operation and the size") {
  const CollectiveKind kind = any_collective();
  const DType dtype = GENERATE(from_range(kDTypes));
  const ReduceOp op = GENERATE(from_range(kReduceOps));
  if (op == ReduceOp::average || op == ReduceOp::adasum || !is_defined(op, dtype)) return;  // no kernel
  const std::int64_t bytes = GENERATE(8, 1000, 100'000);  // less than a period, and many periods
  Job job(kind, dtype, op, bytes);
  job.run();
  CAPTURE(name_of(kind), name_of(dtype), name_of(op), bytes);
  CHECK(job.wrong() == 0);
}

TEST_CASE("every wrong element is counted once") {
  const CollectiveKind kind = any_collective();
  Job job(kind, DType::f32, ReduceOp::sum, 100'000);
  job.run();
  reinterpret_cast<float*>(job.outputs[1].data())[17] += 1;
  reinterpret_cast<float*>(job.outputs[2].data())[5000] = 1e30f;
  CAPTURE(name_of(kind));
  CHECK(job.wrong() == 2);
}

TEST_CASE("an output that nobody wrote is wrong") {
  const CollectiveKind kind = any_collective();
  const Job job(kind, DType::i32, ReduceOp::sum, 4096);
  std::int64_t elements = 0;
  for (const Call& call : job.calls) elements += call.output_elements;
  CAPTURE(name_of(kind));
  CHECK(job.wrong() == elements);
}

TEST_CASE("the parts of ranks are not taken for one another's") {
  const CollectiveKind kind =
      GENERATE(CollectiveKind::allgather, CollectiveKind::alltoall, CollectiveKind::reducescatter);
  Job job(kind, DType::i32, ReduceOp::sum, 4096);
  job.run();
  std::swap(job.calls[0].output, job.calls[1].output);
  if (kind == CollectiveKind::allgather) {  // equal on all ranks, so two parts of one output are swapped
    const std::size_t part = job.inputs[0].size();
    std::swap_ranges(job.outputs[0].begin(), job.outputs[0].begin() + static_cast<std::ptrdiff_t>(part),
                     job.outputs[0].begin() + static_cast<std::ptrdiff_t>(part));
  }
  CAPTURE(name_of(kind));
  CHECK(job.wrong() > 0);
}

TEST_CASE("what is timed stays as it is, however often it is reduced in place") {
  const DType dtype = GENERATE(DType::f32, DType::i32);
  const ReduceOp op = GENERATE(from_range(kReduceOps));
  if (op == ReduceOp::average || op == ReduceOp::adasum || !is_defined(op, dtype)) return;  // no kernel
  std::vector<float> x(1000, 7);
  Call call = call_of(CollectiveKind::allreduce, dtype, op, 0, 2, 4000);
  call.input = call.output = x.data();
  fill_with_neutral(call);
  const std::vector<float> before = x;
  kernels::reduce(dtype, op, x.data(), x.data(), x.data(), x.size());
  CHECK(x == before);
}

TEST_CASE("a size is rounded so that every rank has a part") {
  const Call call = call_of(CollectiveKind::alltoall, DType::f32, ReduceOp::sum, 0, 3, 8);
  CHECK(call.part() == 1);
  CHECK(call.bytes() == 12);
  CHECK(call_of(CollectiveKind::allgather, DType::f32, ReduceOp::sum, 0, 4, 1024).elements == 64);
  CHECK(call_of(CollectiveKind::reducescatter, DType::f32, ReduceOp::sum, 0, 4, 1024).output_elements == 64);
  CHECK(call_of(CollectiveKind::allreduce, DType::f32, ReduceOp::sum, 0, 4, 1024).bytes() == 1024);
}

}  // namespace dabke::test
