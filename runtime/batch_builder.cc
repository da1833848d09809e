#include "runtime/batch_builder.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "ops/kernels/kernels.h"
#include "runtime/fusion/fusion_buffer.h"

namespace dabke {

std::int64_t scattered_rows(std::int64_t rows, int ranks, int index) {
  return rows / ranks + (index < rows % ranks ? 1 : 0);
}

void BatchBuilder::Free::operator()(void* memory) const { std::free(memory); }

BatchBuilder::BatchBuilder(const Task& task)
    : task_(task), verdict_(needs_exchange() ? task.entries.size() : 0) {
  for (const TaskEntry& entry : task.entries) any_joined_ = any_joined_ || entry.operation == nullptr;
}

bool BatchBuilder::needs_exchange() const {
  return task_.kind == CollectiveKind::allgather || task_.kind == CollectiveKind::alltoall;
}

void BatchBuilder::start(Batch& batch) const {
  batch.order = task_.order;
  batch.kind = task_.kind;
  batch.process_set = task_.process_set.get();
}

std::vector<std::int64_t> BatchBuilder::send_rows(const TaskEntry& entry) const {
  if (entry.operation && !entry.operation->extras().splits.empty()) return entry.operation->extras().splits;
  return std::vector<std::int64_t>(ranks(), entry.tensor->shape[0] / static_cast<std::int64_t>(ranks()));
}

const Batch& BatchBuilder::exchange_batch() {
  start(exchange_);
  exchange_.dtype = DType::i64;
  // Each rank is told the rows that it gets, and last whether an allocator is asked here; in an alltoall,
  // which is never fused, also how many rows this rank has for all.
  const bool asks = std::ranges::any_of(task_.entries, [](const TaskEntry& entry) {
    return entry.operation != nullptr && entry.operation->extras().allocate;
  });
  const bool gathers = task_.kind == CollectiveKind::allgather;
  const std::size_t each = gathers ? task_.entries.size() + 1 : 2;
  if (gathers) {
    for (const TaskEntry& entry : task_.entries) sent_.push_back(entry.tensor->shape[0]);
    sent_.push_back(asks);
  } else {
    const TaskEntry& entry = task_.entries.front();
    for (const std::int64_t rows : send_rows(entry)) {
      sent_.push_back(rows);
      sent_.push_back(2 * entry.tensor->shape[0] + asks);
    }
  }
  received_.resize(each * ranks());
  exchange_counts_.assign(ranks(), static_cast<std::int64_t>(each));
  exchange_.entries.push_back({.input = sent_.data(),
                               .output = received_.data(),
                               .elements = static_cast<std::int64_t>(sent_.size()),
                               .receive_counts = exchange_counts_,
                               .send_counts = exchange_counts_});
  return exchange_;
}

/// A number that the exchange has brought.
std::int64_t BatchBuilder::received_rows(std::size_t rank, std::size_t entry) const {
  return received_[rank * (received_.size() / ranks()) + entry];
}

/// An upper bound, the same on all ranks.
double BatchBuilder::bytes_of_all_outputs() const {
  double bytes = 0;
  for (std::size_t i = 0; i < task_.entries.size(); ++i) {
    double rows = 0;
    for (std::size_t r = 0; r < ranks(); ++r) {
      rows += static_cast<double>(task_.kind == CollectiveKind::allgather ? received_rows(r, i)
                                                                          : received_rows(r, 1) / 2);
    }
    bytes += rows * static_cast<double>(task_.entries[i].tensor->shape.row_elements()) *
             static_cast<double>(size_of(task_.dtype));
  }
  return bytes;
}

bool BatchBuilder::needs_verdict() const {
  return needs_exchange() && (asks_an_allocator_ || bytes_of_all_outputs() >= kUncertainBytes);
}

std::vector<Status> BatchBuilder::apply_verdict() {
  std::vector<Status> refused;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < task_.entries.size(); ++i) {
    Status status = verdict_.of(i, name_of(task_.kind), task_.entries[i].tensor->name, *task_.process_set);
    if (status) {
      if (kept != i) {
        batch_.entries[kept] = batch_.entries[i];
        if (!batch_.timeline_ids.empty()) batch_.timeline_ids[kept] = batch_.timeline_ids[i];
      }
      ++kept;
      continue;
    }
    refused.resize(task_.entries.size());
    refused[i] = std::move(status);
  }
  batch_.entries.resize(kept);
  if (!batch_.timeline_ids.empty()) batch_.timeline_ids.resize(kept);
  return refused;
}

std::int64_t* BatchBuilder::counts() { return counts_.emplace_back(new std::int64_t[ranks()]).get(); }

Result<void*> BatchBuilder::scratch(std::size_t bytes) {
  void* memory = std::aligned_alloc(kFusionAlignment, fusion_padded(std::max<std::size_t>(bytes, 1)));
  if (memory == nullptr)
    return Status(Code::out_of_memory, fmt::format("no memory for {} bytes of neutral data", bytes));
  scratch_.emplace_back(memory);
  return memory;
}

Status BatchBuilder::build() {
  start(batch_);
  batch_.op = task_.op;
  batch_.dtype = task_.dtype;
  batch_.root = task_.root;
  // Neutral data must not be scaled, so with such data in the batch the own inputs are scaled here instead.
  batch_.prescale = any_joined_ ? 1 : task_.prescale;
  batch_.postscale = task_.postscale;
  batch_.divisor = task_.divisor;
  batch_.compression = task_.compression;
  batch_.timeline = task_.timeline.get();
  batch_.timeline_ids = task_.timeline_ids;
  batch_.entries.resize(task_.entries.size());
  const std::size_t each = received_.size() / ranks();  // one rank's numbers in an exchange
  for (std::size_t r = 0; each != 0 && r < ranks(); ++r) {
    asks_an_allocator_ = asks_an_allocator_ || received_rows(r, each - 1) % 2 != 0;
  }
  for (std::size_t i = 0; i < task_.entries.size(); ++i) {
    BatchEntry& out = batch_.entries[i];
    DABKE_CHECK(set_input(task_.entries[i], out));
    const Shape shape = output_shape(task_.entries[i], i, out);
    const Status provided = set_output(task_.entries[i], out, shape);
    if (provided) continue;
    if (!needs_exchange()) return provided;
    const TaskEntry& entry = task_.entries[i];
    const bool asked = entry.operation != nullptr && entry.operation->extras().allocate;
    verdict_.note(i, asked ? OutputVerdict::Lacks::refused : OutputVerdict::Lacks::memory,
                  static_cast<std::size_t>(shape.elements()) * size_of(task_.dtype));
    if (!needs_verdict()) return provided;  // nobody expects that it can fail
  }
  return {};
}

Status BatchBuilder::set_input(const TaskEntry& entry, BatchEntry& out) {
  out.elements = entry.tensor->shape.elements();
  if (entry.operation) {
    out.input = entry.operation->inputs[entry.index].data;
    if (!any_joined_ || task_.prescale == 1 || !reduces(task_.kind)) return {};
    DABKE_ASSIGN(void* scaled, scratch(entry.tensor->size_bytes()));
    kernels::scale(task_.dtype, scaled, out.input, static_cast<std::size_t>(out.elements), task_.prescale);
    out.input = scaled;
    return {};
  }
  DABKE_ASSIGN(void* neutral, scratch(entry.tensor->size_bytes()));
  if (reduces(task_.kind)) {
    kernels::fill_neutral(task_.dtype, task_.op, neutral, static_cast<std::size_t>(out.elements));
  }
  out.input = neutral;
  return {};
}

Shape BatchBuilder::output_shape(const TaskEntry& entry, std::size_t entry_index, BatchEntry& out) {
  Shape shape = entry.tensor->shape;
  if (task_.kind == CollectiveKind::allreduce || task_.kind == CollectiveKind::broadcast) return shape;
  const int n = static_cast<int>(ranks());
  const std::int64_t row = shape.row_elements();
  std::int64_t* receive = counts();
  std::int64_t rows = 0;
  if (task_.kind == CollectiveKind::reducescatter) {
    for (int r = 0; r < n; ++r) receive[r] = scattered_rows(shape[0], n, r) * row;
    rows = scattered_rows(shape[0], n, task_.process_set->rank);
  } else {
    for (std::size_t r = 0; r < ranks(); ++r) {
      const std::int64_t theirs = received_rows(r, entry_index);
      receive[r] = theirs * row;
      rows += theirs;
    }
  }
  out.receive_counts = {receive, ranks()};
  if (task_.kind == CollectiveKind::alltoall) {
    if (entry.operation) {
      auto& splits = entry.operation->make_extras().received_splits;
      splits.resize(ranks());
      for (std::size_t r = 0; r < ranks(); ++r) splits[r] = received_rows(r, 0);
    }
    std::int64_t* send = counts();
    for (std::size_t r = 0; r < ranks(); ++r) send[r] = sent_[2 * r] * row;
    out.send_counts = {send, ranks()};
  }
  shape.set(0, rows);
  return shape;
}

Status BatchBuilder::set_output(const TaskEntry& entry, BatchEntry& out, Shape shape) {
  if (entry.operation == nullptr) {
    DABKE_ASSIGN(out.output, scratch(static_cast<std::size_t>(shape.elements()) * size_of(task_.dtype)));
    return {};
  }
  TensorView& output = entry.operation->outputs[entry.index];
  output.shape = std::move(shape);
  if (output.data == nullptr) {
    const ActivityScope activity(task_.timeline.get(), task_.timeline_ids, "ALLOCATE_OUTPUT");
    DABKE_CHECK(entry.operation->provide_output(entry.index));
  }
  out.output = output.data;
  return {};
}

}  // namespace dabke
