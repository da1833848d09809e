#include "runtime/lanes/batch_builder.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>

#include "runtime/base/bytes.h"
#include "runtime/base/possible_shape.h"

namespace dabke::lanes {

std::int64_t scattered_rows(std::int64_t rows, int ranks, int index) {
  return rows / ranks + (index < rows % ranks ? 1 : 0);
}

BatchBuilder::BatchBuilder(Run& run, DeviceStream& stream)
    : run_(run), stream_(&stream), verdict_(needs_exchange() ? run.tensors.size() : 0) {
  for (const RunTensor& entry : run.tensors) any_joined_ = any_joined_ || entry.operation == nullptr;
}

bool BatchBuilder::needs_exchange() const { return has_free_rows(run_.batch.kind); }

std::vector<std::int64_t> BatchBuilder::send_rows(const RunTensor& entry) const {
  if (entry.operation && !entry.operation->extras().splits.empty()) return entry.operation->extras().splits;
  return std::vector<std::int64_t>(ranks(), entry.tensor->shape[0] / static_cast<std::int64_t>(ranks()));
}

const Batch& BatchBuilder::exchange_batch() {
  exchange_.order = run_.batch.order;
  exchange_.kind = run_.batch.kind;
  exchange_.dtype = DType::i64;
  exchange_.process_set = run_.process_set.get();
  exchange_.check = run_.batch.check;
  // Each rank receives the rows that it gets. The last number shows whether some output here is the caller's.
  // In an alltoall, which is never fused, that number also has how many rows this rank has for all.
  const bool asks = std::ranges::any_of(run_.tensors, [](const RunTensor& entry) {
    return entry.operation != nullptr &&
           (entry.operation->extras().allocate || entry.operation->extras().gives_outputs);
  });
  const bool gathers = run_.batch.kind == CollectiveKind::allgather;
  const std::size_t each = gathers ? run_.tensors.size() + 1 : 2;
  if (gathers) {
    for (const RunTensor& entry : run_.tensors) sent_.push_back(entry.tensor->shape[0]);
    sent_.push_back(asks);
  } else {
    const RunTensor& entry = run_.tensors.front();
    for (const std::int64_t rows : send_rows(entry)) {
      sent_.push_back(rows);
      sent_.push_back(
          static_cast<std::int64_t>(2 * static_cast<std::uint64_t>(entry.tensor->shape[0]) + asks));
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

/// Returns a number that came with the exchange.
std::int64_t BatchBuilder::received_rows(std::size_t rank, std::size_t entry) const {
  return received_[rank * (received_.size() / ranks()) + entry];
}

/// An upper bound, equal on all ranks.
double BatchBuilder::bytes_of_all_outputs() const {
  double bytes = 0;
  for (std::size_t i = 0; i < run_.tensors.size(); ++i) {
    double rows = 0;
    for (std::size_t r = 0; r < ranks(); ++r) {
      const bool gathers = run_.batch.kind == CollectiveKind::allgather;
      const auto number = static_cast<std::uint64_t>(received_rows(r, gathers ? i : 1));
      rows += static_cast<double>(gathers ? number : number / 2);
    }
    // Rows without elements count as well: there may be too many of them (is_possible).
    const std::int64_t row = std::max<std::int64_t>(run_.tensors[i].tensor->shape.row_elements(), 1);
    bytes += rows * static_cast<double>(row) * static_cast<double>(size_of(run_.batch.dtype));
  }
  return bytes;
}

bool BatchBuilder::needs_verdict() const {
  return needs_exchange() && (any_is_the_callers_ || bytes_of_all_outputs() >= kUncertainBytes);
}

std::vector<Status> BatchBuilder::apply_verdict() {
  std::vector<Status> refused;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < run_.tensors.size(); ++i) {
    Status status = verdict_.of(i, run_.batch.kind, *run_.tensors[i].tensor, *run_.process_set);
    if (status.is_ok()) {
      if (kept != i) {
        run_.batch.entries[kept] = run_.batch.entries[i];
      }
      ++kept;
      continue;
    }
    if (run_.timeline) {  // now, because the rest of the batch goes on without it
      timeline::Record record = run_.records[i];
      record.time_ns = 0;
      run_.timeline->error(record, status);
    }
    refused.resize(run_.tensors.size());
    refused[i] = std::move(status);
  }
  run_.batch.entries.resize(kept);
  return refused;
}

std::int64_t* BatchBuilder::counts() { return run_.counts.emplace_back(new std::int64_t[ranks()]).get(); }

Result<void*> BatchBuilder::scratch(std::size_t bytes) {
  DeviceBuffer memory = allocate_from(stream_->memory(), bytes);
  if (memory == nullptr) DABKE_RETURN_IF_ERROR(stream_->memory()->state());
  if (memory == nullptr)
    return Status(
        Code::out_of_memory,
        fmt::format("no memory for {} bytes of neutral data, or of an input that its output overlaps",
                    bytes));
  return run_.scratch.emplace_back(std::move(memory)).get();
}

Status BatchBuilder::build() {
  Batch& batch = run_.batch;
  prescale_ = batch.prescale;
  // Neutral data must not be scaled. If the batch has such data, this rank's own inputs are scaled here
  // instead.
  if (any_joined_) batch.prescale = 1;
  batch.entries.resize(run_.tensors.size());
  const std::size_t each = received_.size() / ranks();  // one rank's numbers in an exchange
  for (std::size_t r = 0; each != 0 && r < ranks(); ++r) {
    any_is_the_callers_ = any_is_the_callers_ || received_rows(r, each - 1) % 2 != 0;
  }
  for (std::size_t i = 0; i < run_.tensors.size(); ++i) {
    BatchEntry& out = batch.entries[i];
    DABKE_RETURN_IF_ERROR(set_input(run_.tensors[i], out));
    const Shape shape = output_shape(run_.tensors[i], i, out);
    const RunTensor& entry = run_.tensors[i];
    if (!is_possible(shape, batch.dtype)) {
      verdict_.note_lack(i, OutputVerdict::Lacks::memory, OutputVerdict::kMoreThanThereCanBe);
      continue;
    }
    if (const TensorView* const given = given_output(entry); given != nullptr && !(given->shape == shape)) {
      verdict_.note_misfit(i, given->shape[0], shape[0]);
      continue;
    }
    const Status provided = set_output(entry, out, shape);
    if (provided.is_ok()) {
      DABKE_RETURN_IF_ERROR(set_aside(i, out));
      continue;
    }
    if (!needs_exchange()) return provided;
    const bool asked = entry.operation != nullptr && entry.operation->extras().allocate;
    verdict_.note_lack(i, asked ? OutputVerdict::Lacks::refused : OutputVerdict::Lacks::memory,
                       static_cast<std::size_t>(shape.elements()) * size_of(run_.batch.dtype));
    if (!needs_verdict()) return provided;  // no rank expects that it can fail
  }
  return {};
}

/// The caller's output of an allgather or alltoall; null if it gave none, or has joined.
const TensorView* BatchBuilder::given_output(const RunTensor& entry) const {
  const bool gives = entry.operation != nullptr && entry.operation->extras().gives_outputs;
  return gives ? &entry.operation->outputs[entry.index] : nullptr;
}

Status BatchBuilder::set_input(const RunTensor& entry, BatchEntry& out) {
  out.elements = entry.tensor->shape.elements();
  if (entry.operation) {
    out.input = entry.operation->inputs[entry.index].data;
    if (!any_joined_ || prescale_ == 1 || !reduces(run_.batch.kind)) return {};
    DABKE_ASSIGN_OR_RETURN(void* scaled, scratch(entry.tensor->size_bytes()));
    const ElementCopy copy{scaled, out.input, static_cast<std::size_t>(out.elements)};
    out.input = scaled;
    return stream_->copy({&copy, 1}, run_.batch.dtype, run_.batch.dtype, prescale_);
  }
  DABKE_ASSIGN_OR_RETURN(void* neutral, scratch(entry.tensor->size_bytes()));
  out.input = neutral;
  if (!reduces(run_.batch.kind)) return {};
  return stream_->fill_neutral(run_.batch.dtype, run_.batch.op, neutral,
                               static_cast<std::size_t>(out.elements));
}

Shape BatchBuilder::output_shape(const RunTensor& entry, std::size_t entry_index, BatchEntry& out) {
  Shape shape = entry.tensor->shape;
  if (is_whole(run_.batch.kind)) return shape;
  const int n = static_cast<int>(ranks());
  const std::int64_t row = shape.row_elements();
  std::int64_t* receive = counts();
  std::int64_t rows = 0;
  if (scatters(run_.batch.kind)) {
    for (int r = 0; r < n; ++r) receive[r] = scattered_rows(shape[0], n, r) * row;
    rows = scattered_rows(shape[0], n, run_.process_set->rank);
  } else {
    for (std::size_t r = 0; r < ranks(); ++r) {
      const std::int64_t theirs = received_rows(r, entry_index);
      receive[r] = theirs * row;
      if (rows < 0 || __builtin_add_overflow(rows, theirs, &rows)) rows = -1;  // too many: no possible shape
    }
  }
  out.receive_counts = {receive, ranks()};
  if (run_.batch.kind == CollectiveKind::alltoall) {
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

Status BatchBuilder::set_output(const RunTensor& entry, BatchEntry& out, Shape shape) {
  if (entry.operation == nullptr) {
    DABKE_ASSIGN_OR_RETURN(out.output,
                           scratch(static_cast<std::size_t>(shape.elements()) * size_of(run_.batch.dtype)));
    return {};
  }
  TensorView& output = entry.operation->outputs[entry.index];
  output.shape = std::move(shape);
  if (output.data == nullptr) {
    const timeline::ActivityScope activity(run_.batch.trace, timeline::Record::What::allocate);
    DABKE_RETURN_IF_ERROR(entry.operation->provide_output(entry.index, stream_->memory()));
  }
  out.output = output.data;
  return {};
}

/// A backend gets an input that overlaps its output only if the input is this rank's own part of the output
/// (BatchEntry). Any other input that begins where the output begins is copied first. All other places are
/// reported to all ranks.
Status BatchBuilder::set_aside(std::size_t entry_index, BatchEntry& out) {
  const RunTensor& entry = run_.tensors[entry_index];
  if (entry.operation == nullptr || is_whole(run_.batch.kind)) return {};
  const TensorView& input = entry.operation->inputs[entry.index];
  const TensorView& output = entry.operation->outputs[entry.index];
  if (out.input != input.data || !overlap(input, output)) return {};
  const std::byte* const in = bytes_of(input.data);
  const std::byte* const result = bytes_of(output.data);
  if (run_.batch.kind != CollectiveKind::alltoall) {
    std::int64_t before = 0;  // elements of the ranks before this one
    for (int rank = 0; rank < run_.process_set->rank; ++rank) before += out.receive_counts[to_size(rank)];
    const auto part = static_cast<std::ptrdiff_t>(to_size(before) * size_of(run_.batch.dtype));
    const bool gathers = run_.batch.kind == CollectiveKind::allgather;
    if (gathers ? in == result + part : result == in + part) return {};
    if (in != result) {
      assert(gathers && "submit refuses any other place of a scattered output");
      verdict_.note_misplaced(entry_index, in - result, part);
      return {};
    }
  }
  DABKE_ASSIGN_OR_RETURN(void* copy, scratch(input.size_bytes()));
  out.input = copy;
  const ElementCopy piece{copy, input.data, to_size(out.elements)};
  return stream_->copy({&piece, 1}, run_.batch.dtype, run_.batch.dtype, 1);
}

}  // namespace dabke::lanes
