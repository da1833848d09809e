#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/timeline/event_names.h"
#include "runtime/timeline/joining/merged_rows.h"
#include "timeline_viewer/trace_analysis.h"

namespace dabke::viewer {
namespace {

/// Returns 17 for "17", and nothing for a text that is not a number.
std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::uint64_t count_of(const std::optional<double>& number) {
  return number && *number > 0 && *number < 1.8e19 ? static_cast<std::uint64_t>(*number) : 0;
}

class MergedDialect final : public TraceDialect {
 public:
  MergedDialect(timeline::Analysis& analysis, TraceNames& names, DabkeTrace& trace)
      : analysis_(analysis), names_(names), trace_(trace) {}

  void event(const TraceEvent& event) override {
    if (event.phase == 'M') return name_row(event);
    if (event.process == job_) return change(event);
    const auto process = ranks_.find(event.process);
    const auto row = whole_number(event.thread);
    if (process == ranks_.end() || !row || !event.start_us) return;
    Process& of = process->second;
    if (event.phase == 'i') return mark(of, event);
    if (event.phase != 'X') return;
    if (*row >= timeline::rows::kFirstTensor) return on_tensor_row(of, event);
    if (*row >= timeline::rows::kFirstThread) return on_thread_row(of, event);
    if (*row >= timeline::rows::kFirstLane) on_lane(of, event);
  }

  void member(std::string_view key, std::string_view json) override {
    if (key != "otherData" && key != timeline::kBaseTime) return;
    const auto facts = nlohmann::json::parse(json.begin(), json.end(), nullptr, false);
    if (key == timeline::kBaseTime && is_day_time(facts)) trace_.day_time_ns = facts.get<std::int64_t>();
    if (!facts.is_object()) return;
    if (const auto size = facts.find("size"); size != facts.end() && size->is_number_unsigned())
      trace_.size = static_cast<int>(std::min(size->get<std::uint64_t>(), kMostRank));
    std::int64_t error_ns = 0;
    const auto clocks = facts.find("clocks");
    if (clocks != facts.end() && clocks->is_array()) {
      for (const auto& clock : *clocks) {
        const auto error = clock.is_object() ? clock.find("error_ns") : clock.end();
        if (error != clock.end() && error->is_number_integer())
          error_ns = std::max(error_ns, error->get<std::int64_t>());
        if (clock.is_object()) take_day_time(clock);
      }
    }
    analysis_.clocks_may_be_wrong(error_ns);
    const auto missing = facts.find("missing");
    if (missing == facts.end() || !missing->is_array()) return;
    for (const auto& note : *missing) {
      if (note.is_string()) analysis_.note(note.get<std::string>());
    }
  }

  void finish() override {
    report();
    trace_.is_elastic |= is_elastic_;
    for (const auto& [pid, process] : ranks_) {
      for (const auto& [row, tensor] : process.lonely) analysis_.lonely_tensor(process.index, tensor);
      if (process.tail_ns <= last_change_ns_) analysis_.was_closed(process.index);
    }
  }

 private:
  static bool is_day_time(const nlohmann::json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= kLastTime;
  }

  void take_day_time(const nlohmann::json& clock) {
    const auto rank = clock.find("rank"), time = clock.find(timeline::kRankBaseTime);
    if (rank == clock.end() || time == clock.end()) return;
    if (!rank->is_number_unsigned() || rank->get<std::uint64_t>() > kMostRank) return;
    if (is_day_time(*time)) trace_.rank_day_times_ns.emplace(rank->get<int>(), time->get<std::int64_t>());
  }

  struct Process {
    std::size_t index = 0;
    std::map<std::string, std::string> rows;                          // names by tid
    std::map<std::string, timeline::JoinedTensor> negotiations;       // by tid
    std::map<std::string, timeline::JoinedTensor> lonely;             // the last one of each row, by tid
    timeline::RankPart* part = nullptr;                               // part of the open batch
    std::uint64_t epoch = 0;                                          // of the last mark of a step
    std::int64_t tail_ns = std::numeric_limits<std::int64_t>::min();  // records are missing from then on
  };

  void name_row(const TraceEvent& event) {
    const std::string_view name = event.text(timeline::Argument::name);
    if (event.name == timeline::name_of(timeline::Event::process_name) && name.starts_with("rank ")) {
      const auto rank = whole_number(name.substr(5));
      if (!rank || *rank > kMostRank || ranks_.contains(event.process)) return;
      ranks_[event.process].index = analysis_.add_rank(static_cast<int>(*rank));
    } else if (event.name == timeline::name_of(timeline::Event::process_name) &&
               name == timeline::kJobProcess && event.process == job_) {
      is_elastic_ = true;
    } else if (event.name == timeline::name_of(timeline::Event::thread_name)) {
      const auto process = ranks_.find(event.process);
      if (process != ranks_.end()) process->second.rows[event.thread] = name;
    }
  }

  /// Takes a change of the ranks of an elastic job.
  void change(const TraceEvent& event) {
    const auto epoch = count_of(event.number(timeline::Argument::epoch));
    if (!is_elastic_ || event.phase != 'X' || !event.start_us || epoch == 0) return;
    analysis_.change({epoch, when(event), std::string(event.text(timeline::Argument::change))});
    last_change_ns_ = std::max(last_change_ns_, when(event).end_ns);
  }

  timeline::Interval when(const TraceEvent& event) const {
    const std::int64_t begin_ns = ns_of(*event.start_us);
    return {begin_ns, begin_ns + ns_of(event.duration_us.value_or(0))};
  }

  void mark(Process& of, const TraceEvent& event) {
    if (event.name == timeline::name_of(timeline::Event::step)) {
      const std::uint64_t epoch = count_of(event.number(timeline::Argument::epoch));
      if (std::exchange(of.epoch, epoch) != epoch) analysis_.forget_mark(of.index);
      analysis_.step(of.index, names_.number_of(event.text(timeline::Argument::thread)),
                     ns_of(*event.start_us), count_of(event.number(timeline::Argument::step)));
    } else if (event.name == timeline::name_of(timeline::Event::tail_missing)) {
      of.tail_ns = std::max(of.tail_ns, ns_of(*event.start_us));
    } else if (event.name == timeline::name_of(timeline::Event::error)) {
      // The error may belong to a tensor that was never ordered. Then this tensor is not unfinished any more.
      of.lonely.erase(event.thread);
      analysis_.failure(of.index, of.rows[event.thread], event.text(timeline::Argument::error),
                        ns_of(*event.start_us));
    }
  }

  void on_thread_row(Process& of, const TraceEvent& event) {
    if (event.name == timeline::name_of(timeline::Event::wait)) {
      analysis_.wait(of.index, names_.number_of(of.rows[event.thread]), when(event));
    } else {
      analysis_.span(of.index, names_.number_of(event.name), when(event));
    }
  }

  void on_tensor_row(Process& of, const TraceEvent& event) {
    const timeline::Interval interval = when(event);
    const std::uint32_t name = names_.number_of(of.rows[event.thread]);
    if (event.name.starts_with(timeline::kNegotiatePrefix)) {
      timeline::JoinedTensor tensor{.order = count_of(event.number(timeline::Argument::order)),
                                    .name = name,
                                    .submit_ns = interval.begin_ns,
                                    .order_ns = interval.end_ns,
                                    .bytes = count_of(event.number(timeline::Argument::bytes)),
                                    .thread = names_.number_of(event.text(timeline::Argument::thread))};
      if (tensor.order == 0) return hold_lonely(of, event.thread, tensor);
      of.negotiations[event.thread] = tensor;
    } else if (const std::string_view batch = event.text(timeline::Argument::batch); !batch.empty()) {
      timeline::RankPart& part = part_of(of, event, batch);
      timeline::JoinedTensor tensor{.order = count_of(event.number(timeline::Argument::order)),
                                    .name = name,
                                    .bytes = count_of(event.number(timeline::Argument::bytes))};
      if (auto negotiated = of.negotiations.extract(event.thread)) tensor = negotiated.mapped();
      tensor.order_ns = interval.begin_ns;
      if (event.argument(timeline::Argument::unfinished) == nullptr) tensor.end_ns = interval.end_ns;
      part.tensors.push_back(tensor);
    } else if (const timeline::Record::What what = timeline::part_named(event.name);
               timeline::Record::is_before_work(what) && of.part != nullptr && of.part->tensors.size() == 1) {
      of.part->steps.push_back({what, interval.begin_ns, interval.end_ns, 0, 0, 0});
    }
  }

  /// Holds a tensor without an order until its error comes, which may be never.
  void hold_lonely(Process& of, const std::string& row, const timeline::JoinedTensor& tensor) {
    const auto [held, is_new] = of.lonely.try_emplace(row, tensor);
    if (is_new) return;
    analysis_.lonely_tensor(of.index, held->second);
    held->second = tensor;
  }

  void on_lane(Process& of, const TraceEvent& event) {
    if (const std::string_view batch = event.text(timeline::Argument::batch); !batch.empty()) {
      timeline::RankPart& part = part_of(of, event, batch);
      part.backend = text_number(event.text(timeline::Argument::backend));
      part.left = event.argument(timeline::Argument::unfinished) != nullptr;
    } else if (of.part != nullptr) {
      const timeline::Interval interval = when(event);
      of.part->steps.push_back({timeline::part_named(event.name), interval.begin_ns, interval.end_ns, 0,
                                of.part->backend, text_number(event.text(timeline::Argument::algorithm))});
    }
  }

  std::uint16_t text_number(std::string_view text) {
    return static_cast<std::uint16_t>(std::min<std::uint32_t>(names_.number_of(text), 0xffff));
  }

  /// All events of a batch come before those of the next batch. Orders count anew in each epoch.
  timeline::RankPart& part_of(Process& of, const TraceEvent& event, std::string_view batch) {
    const std::uint64_t epoch = count_of(event.number(timeline::Argument::epoch));
    if (batch != key_ || epoch != open_.epoch) {
      report();
      key_ = batch;
      open_.epoch = epoch;
      open_.kind = kind_of(event.name).value_or(CollectiveKind::allreduce);
    }
    if (of.part == nullptr) {
      parts_.push_back(std::make_unique<timeline::RankPart>(timeline::RankPart{.index = of.index}));
      of.part = parts_.back().get();
    }
    return *of.part;
  }

  void report() {
    for (auto& part : parts_) {
      if (!part->tensors.empty()) open_.parts.push_back(std::move(*part));
    }
    if (!open_.parts.empty()) analysis_.batch(open_);
    open_ = {};
    parts_.clear();
    key_.clear();
    for (auto& [pid, process] : ranks_) process.part = nullptr;
  }

  static constexpr std::uint64_t kMostRank = 1 << 20;
  static constexpr std::uint64_t kLastTime = std::uint64_t{1} << 62;

  const std::string job_ = std::to_string(timeline::rows::kJobProcess);

  timeline::Analysis& analysis_;
  TraceNames& names_;
  DabkeTrace& trace_;
  std::map<std::string, Process> ranks_;  // by pid
  bool is_elastic_ = false;
  std::int64_t last_change_ns_ = std::numeric_limits<std::int64_t>::min();
  std::string key_;
  timeline::JoinedBatch open_;
  std::vector<std::unique_ptr<timeline::RankPart>> parts_;
};

}  // namespace

std::unique_ptr<TraceDialect> merged_trace_dialect(timeline::Analysis& analysis, TraceNames& names,
                                                   DabkeTrace& trace) {
  return std::make_unique<MergedDialect>(analysis, names, trace);
}

}  // namespace dabke::viewer
