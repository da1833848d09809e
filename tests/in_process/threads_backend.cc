#include "tests/in_process/threads_backend.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "runtime/backend/activity.h"
#include "runtime/kernels/kernels.h"

namespace dabke::test {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// All facts of a batch but the prescale, which may differ between ranks: neutral data is not scaled.
std::string signature_of(const Batch& batch) {
  return fmt::format("order {}: {} ({}) of {} tensors of {}, root {}, postscale {} / {}", batch.order,
                     name_of(batch.kind), name_of(batch.op), batch.entries.size(), name_of(batch.dtype),
                     batch.root, batch.postscale, batch.divisor);
}

std::shared_ptr<const ThreadsHub::Deposit> deposit_of(const Batch& batch) {
  auto deposit = std::make_shared<ThreadsHub::Deposit>();
  deposit->signature = signature_of(batch);
  for (const BatchEntry& entry : batch.entries) {
    auto& bytes = deposit->inputs.emplace_back(at(entry.elements) * size_of(batch.dtype));
    if (reduces(batch.kind)) {
      kernels::scale(batch.dtype, bytes.data(), entry.input, at(entry.elements), batch.prescale);
    } else if (!bytes.empty()) {
      std::memcpy(bytes.data(), entry.input, bytes.size());
    }
    deposit->receive_counts.emplace_back(entry.receive_counts.begin(), entry.receive_counts.end());
    deposit->send_counts.emplace_back(entry.send_counts.begin(), entry.send_counts.end());
  }
  return deposit;
}

Status defect(const Batch& batch, std::string_view what) {
  return {Code::internal,
          fmt::format("the runtime broke a promise to its backends: {}: {}", signature_of(batch), what)};
}

/// One entry of a batch, with the contributions of all ranks.
class EntryRun {
 public:
  EntryRun(const Batch& batch, std::size_t index, const ThreadsHub::Deposits& all)
      : batch_(batch), entry_(batch.entries[index]), index_(index), all_(all) {}

  Status run() {
    switch (batch_.kind) {
      case CollectiveKind::allreduce: return reduce(0, input(0).size(), entry_.elements);
      case CollectiveKind::broadcast: return copy(input(at(batch_.root)), 0, 0, input(0).size());
      case CollectiveKind::allgather: return allgather();
      case CollectiveKind::alltoall: return alltoall();
      case CollectiveKind::reducescatter: return reducescatter();
      default: return defect(batch_, "a backend is asked only for what moves data");
    }
  }

 private:
  const std::vector<std::byte>& input(std::size_t rank) const { return all_[rank]->inputs[index_]; }
  std::size_t bytes(std::int64_t elements) const { return at(elements) * size_of(batch_.dtype); }

  Status copy(const std::vector<std::byte>& from, std::size_t offset, std::size_t to, std::size_t size) {
    if (offset + size > from.size()) return defect(batch_, "a rank gave less than another expects");
    if (size != 0) std::memcpy(static_cast<std::byte*>(entry_.output) + to, from.data() + offset, size);
    return {};
  }

  Status reduce(std::size_t offset, std::size_t size, std::int64_t elements) {
    if (all_.size() == 1) {
      DABKE_RETURN_IF_ERROR(copy(input(0), offset, 0, size));
      kernels::scale(batch_.dtype, entry_.output, entry_.output, at(elements), batch_.result_scale());
      return {};
    }
    std::vector<const void*> terms;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      if (input(rank).size() != input(0).size())
        return defect(batch_, "ranks gave inputs of different sizes");
      terms.push_back(input(rank).data() + offset);
    }
    void* const into = entry_.output;
    kernels::reduce_many(batch_.dtype, batch_.op, {&into, 1}, terms, at(elements), batch_.result_scale());
    return {};
  }

  Status reducescatter() {
    const auto counts = entry_.receive_counts;
    if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != entry_.elements) {
      return defect(batch_, "the slices do not add up to the input");
    }
    const int me = batch_.process_set->rank;
    const std::int64_t before = std::accumulate(counts.begin(), counts.begin() + me, std::int64_t{0});
    return reduce(bytes(before), bytes(counts[at(me)]), counts[at(me)]);
  }

  Status allgather() {
    std::size_t to = 0;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      const std::size_t size = bytes(entry_.receive_counts[rank]);
      if (size != input(rank).size()) return defect(batch_, "a rank gave other counts than it announced");
      DABKE_RETURN_IF_ERROR(copy(input(rank), 0, to, size));
      to += size;
    }
    return {};
  }

  Status alltoall() {
    const int me = batch_.process_set->rank;
    std::size_t to = 0;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      const auto& sent = all_[rank]->send_counts[index_];
      if (sent[at(me)] != entry_.receive_counts[rank])
        return defect(batch_, "sent and received counts differ");
      const std::int64_t before = std::accumulate(sent.begin(), sent.begin() + me, std::int64_t{0});
      DABKE_RETURN_IF_ERROR(copy(input(rank), bytes(before), to, bytes(sent[at(me)])));
      to += bytes(sent[at(me)]);
    }
    return {};
  }

  const Batch& batch_;
  const BatchEntry& entry_;
  std::size_t index_;
  const ThreadsHub::Deposits& all_;
};

}  // namespace

Result<ThreadsHub::Deposits> ThreadsHub::exchange(const ProcessSetInfo& set, std::uint64_t round,
                                                  std::shared_ptr<const Deposit> mine, const Status& cause) {
  std::unique_lock lock(mutex_);
  const auto key = std::tuple(set.id, set.ranks, round);
  Round& here = rounds_[key];
  here.deposits.resize(at(set.size()));
  here.deposits[at(set.rank)] = std::move(mine);
  if (++here.came == set.size()) changed_.notify_all();
  changed_.wait(lock, [&] { return here.came == set.size() || !cause.is_ok(); });
  if (!cause.is_ok()) return cause;
  Deposits all = here.deposits;
  if (++here.went == set.size()) rounds_.erase(key);
  return all;
}

void ThreadsHub::abort(Status& cause, const Status& with) {
  const std::lock_guard lock(mutex_);
  if (cause.is_ok()) cause = with;
  changed_.notify_all();
}

Status ThreadsBackend::prepare(const ProcessSetInfo& set, Device) {
  rounds_.try_emplace(set.id, 0);
  return {};
}

void ThreadsBackend::release(ProcessSetId set, Device) { rounds_.erase(set); }

void ThreadsBackend::run(const Batch& batch, Completion done) { done(run(batch)); }

Status ThreadsBackend::run(const Batch& batch) {
  const auto round = rounds_.find(batch.process_set->id);
  if (round == rounds_.end()) return defect(batch, "the process set was not prepared");
  const BatchEntry& first = batch.entries.front();
  if (batch.dtype == DType::f64 && first.elements > 0 &&
      *static_cast<const double*>(first.input) == kFailingNumber)
    return {Code::transport, "the test's backend fails"};
  const RunScope activity(batch, "THREADS_COLLECTIVE", name());
  return run_among_threads(batch, ++round->second, *hub_, aborted_);
}

Status run_among_threads(const Batch& batch, std::uint64_t round, ThreadsHub& hub, const Status& aborted) {
  DABKE_ASSIGN_OR_RETURN(const ThreadsHub::Deposits all,
                         hub.exchange(*batch.process_set, round, deposit_of(batch), aborted));
  for (const auto& deposit : all) {
    if (deposit->signature != all.front()->signature)
      return defect(batch, "another rank runs " + deposit->signature);
  }
  for (std::size_t i = 0; i < batch.entries.size(); ++i) DABKE_RETURN_IF_ERROR(EntryRun(batch, i, all).run());
  return {};
}

}  // namespace dabke::test
