#include "tests/conformance/case.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace dabke::test {
namespace {

constexpr std::int64_t kColumns = 3;  // for tensors whose first dimension is split among ranks

std::int64_t block_rows(std::int64_t rows, int ranks, int index) {
  return rows / ranks + (index < rows % ranks ? 1 : 0);
}

}  // namespace

std::string Case::name() const {
  std::string text =
      fmt::format("{}.{} {} {} [{}]", number, name_of(kind), name_of(op), name_of(dtype), length);
  if (tensors > 1) text += fmt::format(" group of {}", tensors);
  if (prescale != 1 || postscale != 1) text += fmt::format(" scales {} {}", prescale, postscale);
  if (rows != Rows::alike) text += rows == Rows::uneven ? " uneven" : " rows on one rank";
  if (root != 0) text += fmt::format(" root {}", root);
  if (!in_place) text += " to another output";
  if (!set_ranks.empty()) text += fmt::format(" of set {}", set);
  return text;
}

CaseRun::CaseRun(const Case& what, Rank& self) : case_(what), self_(&self), set_ranks_(what.set_ranks) {
  if (set_ranks_.empty()) {
    set_ranks_.resize(static_cast<std::size_t>(self.size()));
    std::iota(set_ranks_.begin(), set_ranks_.end(), 0);
  }
  me_ = static_cast<int>(std::ranges::find(set_ranks_, self.rank()) - set_ranks_.begin());
  for (int tensor = 0; tensor < case_.tensors; ++tensor) {
    Buffer& input = inputs_.emplace_back(dtype_of_tensor(tensor), input_shape(tensor));
    visit_dtype(input.dtype, [&]<class T>(std::type_identity<T>) {
      input_pattern<T>(tensor).write_to(input.bytes.data());
    });
    if (has_own_output()) outputs_.emplace_back(input.dtype, output_shape(tensor));
  }
}

/// The second tensor of a group has another dtype, so that a group runs in several batches.
DType CaseRun::dtype_of_tensor(int tensor) const {
  if (tensor != 1) return case_.dtype;
  if (case_.dtype == DType::f32) return DType::i32;
  if (!reduces(case_.kind) || is_defined(case_.op, DType::f32)) return DType::f32;
  return case_.dtype == DType::i64 ? DType::u8 : DType::i64;
}

bool CaseRun::has_own_output() const { return !case_.in_place; }

/// Rows that a rank contributes to an allgather.
std::int64_t CaseRun::rows_of(int rank, int tensor) const {
  switch (case_.rows) {
    case Case::Rows::alike: return case_.length + tensor;
    case Case::Rows::uneven: return case_.length + (rank * 2 + tensor) % 5;
    case Case::Rows::one_rank: return rank == case_.number % ranks() ? case_.length : 0;
  }
  return 0;
}

/// Rows that go from one rank to another in an alltoall.
std::int64_t CaseRun::rows_between(int from, int to) const {
  switch (case_.rows) {
    case Case::Rows::alike: return case_.length;
    case Case::Rows::uneven: return case_.length / ranks() + (from + 2 * to) % 3;
    case Case::Rows::one_rank: return to == case_.number % ranks() ? case_.length + from : 0;
  }
  return 0;
}

std::int64_t CaseRun::first_row_to(int from, int to) const {
  std::int64_t row = 0;
  for (int before = 0; before < to; ++before) row += rows_between(from, before);
  return row;
}

Shape CaseRun::input_shape(int tensor) const {
  if (case_.kind == CollectiveKind::allgather) return {rows_of(me_, tensor), kColumns};
  if (case_.kind == CollectiveKind::alltoall) return {first_row_to(me_, ranks()), kColumns};
  if (case_.kind == CollectiveKind::reducescatter) return {case_.length + tensor, kColumns};
  return tensor == 0 ? Shape{case_.length} : Shape{case_.length, 1, tensor};
}

Shape CaseRun::output_shape(int tensor) const {
  Shape shape = input_shape(tensor);
  std::int64_t rows = 0;
  if (case_.kind == CollectiveKind::allgather) {
    for (int rank = 0; rank < ranks(); ++rank) rows += rows_of(rank, tensor);
  } else if (case_.kind == CollectiveKind::alltoall) {
    for (int rank = 0; rank < ranks(); ++rank) rows += rows_between(rank, me_);
  } else if (case_.kind == CollectiveKind::reducescatter) {
    rows = block_rows(shape[0], ranks(), me_);
  } else {
    return shape;
  }
  shape.set(0, rows);
  return shape;
}

void CaseRun::submit() {
  std::vector<Argument> arguments;
  for (int tensor = 0; tensor < case_.tensors; ++tensor) {
    const auto i = static_cast<std::size_t>(tensor);
    Argument argument{inputs_[i].view()};
    if (has_own_output()) argument.output = outputs_[i].view();
    arguments.push_back(std::move(argument));
  }
  Call call{.name = case_.name(), .op = case_.op, .set = case_.set};
  if (reduces(case_.kind)) {
    call.prescale = case_.prescale;
    call.postscale = case_.postscale;
  }
  if (case_.kind == CollectiveKind::broadcast) call.root = set_ranks_[static_cast<std::size_t>(case_.root)];
  if (case_.kind == CollectiveKind::alltoall && case_.rows != Case::Rows::alike) {
    for (int to = 0; to < ranks(); ++to) call.splits.push_back(rows_between(me_, to));
  }
  pending_ = self_->start(case_.kind, std::move(arguments), call);
}

std::string CaseRun::finish() {
  if (const Status status = pending_.wait(); !status.is_ok()) return case_.name() + ": " + status.message();
  for (int tensor = 0; tensor < case_.tensors; ++tensor) {
    if (std::string wrong = check(tensor); !wrong.empty()) {
      return fmt::format("{}: rank {}, tensor {}: {}", case_.name(), self_->rank(), tensor, wrong);
    }
  }
  if (case_.kind != CollectiveKind::alltoall) return {};
  std::vector<std::int64_t> splits;
  for (int from = 0; from < ranks(); ++from) splits.push_back(rows_between(from, me_));
  return pending_.received_splits() == splits ? "" : case_.name() + ": wrong received splits";
}

std::string CaseRun::check(int tensor) const {
  const TensorView output = pending_.view(static_cast<std::size_t>(tensor));
  const Shape want = output_shape(tensor);
  if (!(output.shape == want)) return "shape " + output.shape.to_string() + " instead of " + want.to_string();
  const void* const data =
      has_own_output() ? outputs_[static_cast<std::size_t>(tensor)].bytes.data() : output.data;
  return visit_dtype(output.dtype, [&]<class T>(std::type_identity<T>) {
    return check_elements<T>(tensor, static_cast<const std::byte*>(data));
  });
}

template <class T>
Pattern<T> CaseRun::input_pattern(int tensor) const {
  return {inputs_[static_cast<std::size_t>(tensor)].shape.elements(),
          [&](std::int64_t i) { return input_value<T>(me_, i, case_.number + tensor); }};
}

template <class T>
std::string CaseRun::check_elements(int tensor, const std::byte* data) const {
  const bool inexact = case_.op == ReduceOp::average && (ranks() & (ranks() - 1)) != 0 && reduces(case_.kind);
  for (const Piece& piece : pieces(tensor)) {
    const Pattern<T> want(piece.count, [&](std::int64_t i) {
      return expected<T>(piece.rank, piece.first + i, case_.number + tensor);
    });
    if (std::string wrong = want.first_difference(data, inexact); !wrong.empty())
      return piece.rank == kAllRanks ? wrong : fmt::format("what rank {} sent: {}", piece.rank, wrong);
    data += static_cast<std::size_t>(piece.count) * sizeof(T);
  }
  if (!has_own_output()) return {};
  const Buffer& input = inputs_[static_cast<std::size_t>(tensor)];
  const std::string changed = input_pattern<T>(tensor).first_difference(input.bytes.data(), false);
  return changed.empty() ? "" : "the input was changed: " + changed;
}

/// The pieces that make up an output, in order.
std::vector<CaseRun::Piece> CaseRun::pieces(int tensor) const {
  const std::int64_t all = output_shape(tensor).elements();
  std::vector<Piece> pieces;
  switch (case_.kind) {
    case CollectiveKind::broadcast: return {{case_.root, 0, all}};
    case CollectiveKind::allgather:
      for (int rank = 0; rank < ranks(); ++rank)
        pieces.push_back({rank, 0, rows_of(rank, tensor) * kColumns});
      return pieces;
    case CollectiveKind::alltoall:
      for (int from = 0; from < ranks(); ++from)
        pieces.push_back({from, first_row_to(from, me_) * kColumns, rows_between(from, me_) * kColumns});
      return pieces;
    case CollectiveKind::reducescatter: {
      std::int64_t before = 0;
      for (int rank = 0; rank < me_; ++rank) before += block_rows(case_.length + tensor, ranks(), rank);
      return {{kAllRanks, before * kColumns, all}};
    }
    default: return {{kAllRanks, 0, all}};
  }
}

template <class T>
T CaseRun::expected(int rank, std::int64_t index, int salt) const {
  if (rank != kAllRanks) return input_value<T>(rank, index, salt);
  return expected_value<T>(case_.op, ranks(), index, salt, case_.prescale, case_.postscale);
}

}  // namespace dabke::test
