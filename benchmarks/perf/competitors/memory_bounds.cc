#include "benchmarks/perf/competitors/memory_bounds.h"

#include <cstring>
#include <vector>

#include "runtime/kernels/kernels.h"

namespace dabke::perf {
namespace {

/// Only reductions have these bounds: the other collectives must move much less, or more.
bool is_bounded(const Call& call) { return call.kind == CollectiveKind::allreduce; }

class Bound final : public Competitor {
 public:
  std::string name() const override { return "bound"; }
  bool can_run(const Call& call) const override { return is_bounded(call); }
  bool has_result() const override { return false; }
  Status begin(const Call& call) override {
    if (memory_.size() != call.output_bytes()) memory_ = std::vector<std::byte>(call.output_bytes());
    return {};
  }
  Status run() override {
    // One instruction per vector, which leaves every byte unchanged, whatever the dtype.
    void* const data = memory_.data();
    kernels::reduce(DType::u8, ReduceOp::max, data, data, data, memory_.size());
    return {};
  }
  void end() override {}

 private:
  std::vector<std::byte> memory_;  // ordinary memory, whatever memory the others use
};

class Memcpy final : public Competitor {
 public:
  std::string name() const override { return "memcpy"; }
  bool can_run(const Call& call) const override { return is_bounded(call); }
  bool has_result() const override { return false; }
  Status begin(const Call& call) override {
    call_ = &call;
    if (call.in_place() && copy_.size() != call.output_bytes())
      copy_ = std::vector<std::byte>(call.output_bytes());
    to_ = call.in_place() ? copy_.data() : static_cast<std::byte*>(call.output);
    return {};
  }
  Status run() override {
    std::memcpy(to_, call_->input, call_->input_bytes());
    asm volatile("" : : "r"(to_) : "memory");  // otherwise the compiler could copy once for all calls
    return {};
  }
  void end() override {}

 private:
  const Call* call_ = nullptr;
  std::vector<std::byte> copy_;
  std::byte* to_ = nullptr;
};

}  // namespace

std::unique_ptr<Competitor> make_bound() { return std::make_unique<Bound>(); }
std::unique_ptr<Competitor> make_memcpy() { return std::make_unique<Memcpy>(); }

}  // namespace dabke::perf
