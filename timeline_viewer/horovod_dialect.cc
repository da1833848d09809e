#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/dtype.h"
#include "runtime/timeline/event_names.h"
#include "timeline_viewer/trace_analysis.h"

namespace dabke::viewer {
namespace {

timeline::Record::What activity_of(std::string_view activity) {
  if (activity.starts_with("WAIT_FOR")) return timeline::Record::What::queue;
  if (activity.starts_with("INIT_") || activity.starts_with("ALLOCATE"))
    return timeline::Record::What::allocate;
  return timeline::part_named(activity);
}

/// Returns the bytes of a tensor with a shape such as "[1000, 2048]" and a dtype such as "float32"; 0 if
/// one of them is not known.
std::uint64_t bytes_of(std::string_view shape, std::string_view dtype) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    const auto one = static_cast<DType>(i);
    if (name_of(one) == dtype) bytes = size_of(one);
  }
  while (!shape.empty()) {
    const std::size_t digit = shape.find_first_of("0123456789");
    if (digit == std::string_view::npos) break;
    shape.remove_prefix(digit);
    std::uint64_t dimension = 0;
    const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), dimension);
    if (error != std::errc() || __builtin_mul_overflow(bytes, dimension, &bytes)) return 0;
    shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
  }
  return bytes;
}

class HorovodDialect final : public TraceDialect {
 public:
  HorovodDialect(timeline::Analysis& analysis, TraceNames& names) : analysis_(analysis), names_(names) {}

  void event(const TraceEvent& event) override {
    if (event.phase == 'M') {
      if (event.name == timeline::name_of(timeline::Event::process_name))
        rows_[event.process].name = event.text(timeline::Argument::name);
      return;
    }
    if (!event.start_us) return;
    const std::int64_t at_ns = ns_of(*event.start_us);
    if (event.phase == 'i' && event.name == timeline::name_of(timeline::Event::step) && is_known_) {
      const auto step = event.number(timeline::Argument::step);
      return analysis_.step(index_of(0), 0, at_ns, step && *step > 0 ? static_cast<std::uint64_t>(*step) : 0);
    }
    const auto row = rows_.find(event.process);
    if (row == rows_.end() || row->second.name.empty()) return;
    if (event.phase == 'B') return begin(row->second, event.name, at_ns);
    if (event.phase == 'E') return end(row->second, event, at_ns);
    if (event.phase == 'X' || event.phase == 'i') ready(row->second, event.name, at_ns);
  }

  void finish() override {
    if (batches_ == 0 || 2 * heard_ >= batches_) return;
    analysis_.note(
        fmt::format("Horovod recorded arrival times for only {} of {} batches: it omits cached tensors",
                    heard_, batches_));
  }

 private:
  /// The row of a tensor.
  struct Row {
    std::string name;
    std::vector<std::string> open;  // open activities, the innermost last
    std::map<int, std::int64_t> ready_ns;
    timeline::JoinedTensor tensor;
    std::vector<timeline::JoinedStep> steps;
    std::uint64_t batch = 0;
  };
  struct Batch {
    std::size_t running = 0;
    CollectiveKind kind = CollectiveKind::allreduce;
    std::map<int, timeline::RankPart> parts;  // by rank
  };

  static bool is_negotiating(const Row& row) {
    return row.open.size() == 1 && row.open[0].starts_with(timeline::kNegotiatePrefix);
  }

  std::size_t index_of(int rank) {
    const auto [known, is_new] = ranks_.try_emplace(rank, 0);
    if (is_new) known->second = analysis_.add_rank(rank);
    return known->second;
  }

  void begin(Row& row, const std::string& name, std::int64_t at_ns) {
    if (row.open.size() > kDeepest) return;
    if (row.open.empty() && name.starts_with(timeline::kNegotiatePrefix)) {
      is_known_ = true;
      (void)index_of(0);
      row.ready_ns.clear();
      row.tensor = {.submit_ns = at_ns, .order_ns = at_ns};
    } else if (row.open.empty()) {
      begin_collective(row, name, at_ns);
    } else {
      may_join_ = false;
      row.steps.push_back({activity_of(name), at_ns, timeline::kNotKnown, 0, 0, 0});
      if (row.steps.back().what == timeline::Record::What::run) name_backend(row, name);
    }
    row.open.push_back(name);
  }

  /// The tensors of one batch begin one after the other, without another activity in between.
  void begin_collective(Row& row, const std::string& name, std::int64_t at_ns) {
    const auto kind = kind_of(name);
    if (!kind) return;
    if (!may_join_) ++newest_;
    may_join_ = true;
    row.batch = newest_;
    row.steps.clear();
    row.tensor.order_ns = at_ns;
    Batch& batch = open_[newest_];
    batch.kind = *kind;
    ++batch.running;
  }

  /// Sets the backend of the latest step, such as "nccl" for NCCL_ALLREDUCE.
  void name_backend(Row& row, const std::string& activity) {
    std::string backend = activity.substr(0, activity.find('_'));
    std::ranges::transform(backend, backend.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    row.steps.back().backend =
        static_cast<std::uint16_t>(std::min<std::uint32_t>(names_.number_of(backend), 0xffff));
  }

  void ready(Row& row, const std::string& who, std::int64_t at_ns) {
    int rank = 0;
    const auto [end, error] = std::from_chars(who.data(), who.data() + who.size(), rank);
    if (!is_negotiating(row) || error != std::errc() || end != who.data() + who.size()) return;
    if (rank >= 0 && rank < kMostRank) row.ready_ns.emplace(rank, at_ns);
  }

  void end(Row& row, const TraceEvent& event, std::int64_t at_ns) {
    if (row.open.empty()) return;
    const bool was_negotiating = is_negotiating(row);
    row.open.pop_back();
    if (was_negotiating) {
      row.tensor.order_ns = at_ns;
    } else if (!row.open.empty()) {
      for (auto step = row.steps.rbegin(); step != row.steps.rend(); ++step) {
        if (step->end_ns != timeline::kNotKnown) continue;
        step->end_ns = std::max(step->begin_ns, at_ns);
        break;
      }
    } else if (row.batch != 0) {
      row.tensor.end_ns = at_ns;
      row.tensor.bytes =
          bytes_of(event.text(timeline::Argument::shape), event.text(timeline::Argument::dtype));
      end_tensor(row);
    }
  }

  void end_tensor(Row& row) {
    const auto open = open_.find(std::exchange(row.batch, 0));
    if (open == open_.end()) return;
    Batch& batch = open->second;
    row.tensor.name = names_.number_of(row.name);
    for (const auto& [rank, ready_ns] : row.ready_ns) {
      if (rank == 0) continue;
      timeline::RankPart& part = batch.parts[rank];
      part.tensors.push_back(row.tensor);
      part.tensors.back().submit_ns = ready_ns;
      part.tensors.back().end_ns = timeline::kNotKnown;
    }
    timeline::RankPart& mine = batch.parts[0];
    if (const auto own = row.ready_ns.find(0); own != row.ready_ns.end()) row.tensor.submit_ns = own->second;
    mine.tensors.push_back(row.tensor);
    if (mine.steps.empty()) mine.steps = row.steps;
    for (const timeline::JoinedStep& step : row.steps) {
      if (step.backend != 0) mine.backend = step.backend;
    }
    row.tensor = {};
    row.ready_ns.clear();
    if (--batch.running > 0) return;
    report(batch);
    open_.erase(open);
  }

  void report(Batch& batch) {
    timeline::JoinedBatch joined{.kind = batch.kind};
    const std::size_t tensors = batch.parts[0].tensors.size();
    for (auto& [rank, part] : batch.parts) {
      part.index = index_of(rank);
      // A rank that reported only some of the tensors as ready is left out, since no more is known of it.
      if (rank == 0 || part.tensors.size() == tensors) joined.parts.push_back(std::move(part));
    }
    ++batches_;
    if (joined.parts.size() > 1) ++heard_;
    analysis_.batch(joined);
  }

  static constexpr std::size_t kDeepest = 64;
  static constexpr int kMostRank = 1 << 20;

  timeline::Analysis& analysis_;
  TraceNames& names_;
  std::map<std::string, Row> rows_;  // by pid
  std::map<int, std::size_t> ranks_;
  std::map<std::uint64_t, Batch> open_;
  std::uint64_t newest_ = 0;
  bool may_join_ = false;
  bool is_known_ = false;
  std::uint64_t batches_ = 0, heard_ = 0;
};

}  // namespace

std::unique_ptr<TraceDialect> horovod_dialect(timeline::Analysis& analysis, TraceNames& names) {
  return std::make_unique<HorovodDialect>(analysis, names);
}

}  // namespace dabke::viewer
