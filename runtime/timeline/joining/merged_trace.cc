#include "runtime/timeline/joining/merged_trace.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/base/dtype.h"
#include "runtime/timeline/event_names.h"
#include "runtime/timeline/joining/bus_bandwidth.h"
#include "runtime/timeline/json_text.h"

namespace dabke::timeline {
namespace {

constexpr std::size_t kLarge = 256 << 10;

std::string shape_text(std::string_view bytes) {
  const Shape shape = shape_of(bytes);
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i] < 0 ? "?" : std::to_string(shape[i]));
  return text + "]";
}

std::string quoted(std::string_view name) { return fmt::format("\"{}\"", name); }
std::string negotiation_of(CollectiveKind kind) {
  return fmt::format("\"{}{}\"", kNegotiatePrefix, timeline_name_of(kind));
}

}  // namespace

MergedTrace::MergedTrace(MergedFile& file, const JobFiles& files, const RecordJoiner& joiner)
    : file_(file), files_(files), joiner_(joiner), rows_(files.ranks().size()) {
  text_.append(std::string_view(R"({"displayTimeUnit":"ms","traceEvents":[)"));
  for (std::size_t rank = 0; rank < rows_.size(); ++rank) name_process(rank);
}

/// The facts that are not events come last, since only then are they all known.
void MergedTrace::write_facts(std::string_view report) {
  const auto out = fmt::appender(text_);
  const RecordFile::Origin& origin = files_.ranks().front().origin;
  fmt::format_to(out, R"("otherData":{{"job":"{}","epoch":{},"size":{},"clocks":[)", text_of(origin.job_id),
                 origin.epoch, origin.size);
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const AlignedClock& clock = files_.clocks()[i];
    const auto error = clock.error_ns();
    fmt::format_to(out, R"({}{{"rank":{},"host":{},"clock":"{}","offset_ns":{},"error_ns":{}}})",
                   i == 0 ? "" : ",", rank_at(i), json_string(files_.ranks()[i].origin.host),
                   name_of(clock.source()), clock.offset_ns(), error ? std::to_string(*error) : "null");
  }
  fmt::format_to(out, R"(],"missing":[)");
  for (std::size_t i = 0; i < files_.notes().size(); ++i)
    fmt::format_to(out, "{}{}", i == 0 ? "" : ",", json_string(files_.notes()[i]));
  fmt::format_to(out, R"(],"report":{}}})", report);
}

fmt::memory_buffer& MergedTrace::next_event() {
  if (text_.size() >= kLarge) {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }
  text_.append(std::string_view(any_event_ ? ",\n" : "\n"));
  any_event_ = true;
  return text_;
}

void MergedTrace::finish(std::string_view report) {
  for (std::size_t rank = 0; rank < rows_.size(); ++rank) write_load(rank);
  text_.append(std::string_view("\n],"));
  write_facts(report);
  text_.append(std::string_view("}\n"));
  file_.write({text_.data(), text_.size()});
  text_.clear();
}

void MergedTrace::name_process(std::size_t rank) {
  const RankFile& file = files_.ranks()[rank];
  const int pid = file.origin.rank;
  metadata(pid, {}, Event::process_name, EventArguments().add(Argument::name, fmt::format("rank {}", pid)));
  metadata(pid, {}, Event::process_labels, EventArguments().add(Argument::labels, file.origin.host));
  metadata(pid, {}, Event::process_sort_index, EventArguments().add(Argument::sort_index, pid));
  if (file.missing.empty()) return;
  const std::int64_t last =
      std::max<std::int64_t>(0, files_.clocks()[rank].at(file.last_ns) - files_.begin_ns());
  instant(rank, rows::kSteps, 'p', name_of(Event::tail_missing), last,
          EventArguments().add(Argument::why, file.missing));
}

void MergedTrace::metadata(int pid, std::optional<RowId> row, Event event, const EventArguments& args) {
  fmt::format_to(fmt::appender(next_event()), R"({{"name":"{}","ph":"M","pid":{}{},"args":{{{}}}}})",
                 name_of(event), pid, row ? fmt::format(R"(,"tid":{})", *row) : "", args.text());
}

void MergedTrace::need_row(std::size_t rank, RowId row, std::string_view name, RowId place) {
  if (!rows_[rank].ends_ns.emplace(row, 0).second) return;
  metadata(rank_at(rank), row, Event::thread_name, EventArguments().add(Argument::name, name));
  metadata(rank_at(rank), row, Event::thread_sort_index, EventArguments().add(Argument::sort_index, place));
}

MergedTrace::Lane& MergedTrace::lane_for(Lanes& lanes, const Interval& when) {
  auto lane = std::ranges::find_if(lanes, [&](const Lane& one) { return one.free_ns <= when.begin_ns; });
  if (lane == lanes.end()) {
    if (lanes.size() < rows::kMostLanes) lanes.push_back({});
    lane = std::prev(lanes.end());
  }
  lane->free_ns = std::max(lane->free_ns, when.end_ns);
  return *lane;
}

/// The lane of the set in which the name comes first gets the name's own row. All other lanes get further
/// rows.
MergedTrace::RowId MergedTrace::tensor_row(std::size_t rank, std::uint32_t tensor, ProcessSetId set,
                                           const Interval& when) {
  RankRows& rows = rows_[rank];
  auto& sets = rows.tensors[tensor];
  const bool is_first = sets.empty();
  Lane& lane = lane_for(sets[set], when);
  const RowId own = rows::kFirstTensor + tensor;
  if (lane.row == 0) lane.row = is_first ? own : rows.further++;
  need_row(rank, lane.row, joiner_.name(rank, NameKind::tensor, tensor), own);
  return lane.row;
}

MergedTrace::RowId MergedTrace::thread_row(std::size_t rank, std::uint32_t thread) {
  const RowId row = rows::kFirstThread + thread;
  need_row(rank, row, thread == 0 ? "a thread" : joiner_.name(rank, NameKind::thread, thread));
  return row;
}

/// A lane runs one batch at a time, so this is usually the first row. Batches of devices may overlap, and so
/// may batches of several sets.
MergedTrace::RowId MergedTrace::lane_row(std::size_t rank, const Interval& when) {
  Lanes& lanes = rows_[rank].lanes;
  Lane& lane = lane_for(lanes, when);
  const auto number = static_cast<std::uint32_t>(&lane - lanes.data());
  lane.row = rows::kFirstLane + number;
  need_row(rank, lane.row, number == 0 ? "lane" : fmt::format("lane, overlapping {}", number));
  return lane.row;
}

Interval MergedTrace::take_place(std::size_t rank, RowId row, Interval when) {
  std::int64_t& end = rows_[rank].ends_ns[row];
  when.begin_ns = std::max(when.begin_ns, end);
  when.end_ns = std::max(when.begin_ns, when.end_ns);
  end = when.end_ns;
  return when;
}

void MergedTrace::whole(std::size_t rank, RowId row, std::string_view quoted_name, const Interval& when,
                        const EventArguments& args) {
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", quoted_name,
                 rank_at(rank), row, Micros{when.begin_ns}, Micros{when.end_ns - when.begin_ns}, args.text());
}

void MergedTrace::instant(std::size_t rank, RowId row, char scope, std::string_view name, std::int64_t at_ns,
                          const EventArguments& args) {
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"i","s":"{}","name":"{}","pid":{},"tid":{},"ts":{},"args":{{{}}}}})", scope, name,
                 rank_at(rank), row, Micros{at_ns}, args.text());
}

void MergedTrace::batch(const JoinedBatch& batch) {
  std::int64_t before_ns = kNotKnown;
  const RankPart* const last = batch.last_ready(&before_ns);
  Drawn from;
  std::vector<Drawn> lanes;
  for (const RankPart& part : batch.parts) {
    const Drawn negotiation = write_tensors(batch, part);
    if (&part == last) from = negotiation;
    lanes.push_back(write_lane(batch, part, last, before_ns));
    write_bandwidth(batch, part);
  }
  // The arrows come after the events that they connect, because viewers search for the events around an
  // arrow's ends.
  for (std::size_t i = 0; last != nullptr && i < lanes.size(); ++i) {
    if (&batch.parts[i] != last) write_arrow(*last, from, batch.parts[i], lanes[i]);
  }
}

MergedTrace::Drawn MergedTrace::write_lane(const JoinedBatch& batch, const RankPart& part,
                                           const RankPart* last, std::int64_t before_ns) {
  const Interval whole_time{part.begin_ns(), part.end_ns()};
  const RowId row = lane_row(part.index, whole_time);
  const Interval when = take_place(part.index, row, whole_time);
  const JoinedStep* const run = part.main_run();
  const auto text = [&](std::uint16_t number) { return joiner_.name(part.index, NameKind::text, number); };
  EventArguments args;
  args.add(Argument::order, batch.order)
      .add(Argument::batch, fmt::format("{}.{}", batch.order, batch.number))
      .add(Argument::bytes, part.bytes())
      .add(Argument::backend, text(part.backend))
      .add(Argument::algorithm, text(run == nullptr ? std::uint16_t{0} : run->algorithm))
      .add(Argument::set, batch.set)
      .add(Argument::tensors, part.tensors.size())
      .add(Argument::first, joiner_.name(part.index, NameKind::tensor, part.tensors.front().name));
  if (last != nullptr) {
    args.add(Argument::last_rank, rank_at(last->index))
        .add(Argument::last_by_us, Micros{last->ready_ns() - before_ns});
  }
  if (part.left != 0) args.add(Argument::unfinished, true);
  whole(part.index, row, quoted(timeline_name_of(batch.kind)), when, args);
  write_steps(part, row, when);
  return {row, when};
}

MergedTrace::Drawn MergedTrace::write_tensors(const JoinedBatch& batch, const RankPart& part) {
  Drawn latest;
  std::int64_t latest_ns = kNotKnown;
  for (const JoinedTensor& tensor : part.tensors) {
    const bool has_ended = tensor.end_ns != kNotKnown;
    const Interval whole_time{tensor.order_ns, has_ended ? tensor.end_ns : part.end_ns()};
    const RowId row = tensor_row(part.index, tensor.name, batch.set, whole_time);
    if (tensor.submit_ns != kNotKnown) {
      const Interval wait = take_place(part.index, row, {tensor.submit_ns, tensor.order_ns});
      if (tensor.submit_ns > latest_ns) {
        latest_ns = tensor.submit_ns;
        latest = {row, wait};
      }
      whole(part.index, row, negotiation_of(batch.kind), wait,
            EventArguments()
                .add(Argument::order, tensor.order)
                .add(Argument::bytes, tensor.bytes)
                .add(Argument::set, batch.set)
                .add(Argument::thread, joiner_.name(part.index, NameKind::thread, tensor.thread)));
    }
    const Interval when = take_place(part.index, row, whole_time);
    EventArguments args;
    args.add(Argument::order, tensor.order)
        .add(Argument::batch, fmt::format("{}.{}", batch.order, batch.number))
        .add(Argument::bytes, tensor.bytes)
        .add(Argument::set, batch.set)
        .add(Argument::dtype, name_of(tensor.dtype))
        .add(Argument::shape, shape_text(joiner_.name(part.index, NameKind::shape, tensor.shape)));
    if (!has_ended) args.add(Argument::unfinished, true);
    whole(part.index, row, quoted(timeline_name_of(batch.kind)), when, args);
    write_steps(part, row, when);
    if (tensor.error != 0) write_error(part.index, row, tensor, when.end_ns);
  }
  return latest;
}

/// Draws the steps inside `within`, nested in each other or one after the other. Recorded steps may cross if
/// their times are those of a device, or if some records were lost.
void MergedTrace::write_steps(const RankPart& part, RowId row, const Interval& within) {
  std::vector<Interval> around{within};  // the events that are open where the next step begins
  for (const JoinedStep& step : part.steps) {
    // Another batch runs in the lane then.
    if (Record::is_before_work(step.what) && row < rows::kFirstThread) continue;
    const std::int64_t end = step.end_ns == kNotKnown ? within.end_ns : step.end_ns;
    Interval when{std::clamp(step.begin_ns, around.back().begin_ns, within.end_ns),
                  std::clamp(end, within.begin_ns, within.end_ns)};
    while (around.size() > 1 &&
           (around.back().end_ns <= when.begin_ns || around.back().end_ns < when.end_ns)) {
      when.begin_ns = std::max(when.begin_ns, around.back().end_ns);
      around.pop_back();
    }
    when.end_ns = std::max(when.begin_ns, when.end_ns);
    around.push_back(when);
    EventArguments args;
    if (step.what == Record::What::run) {
      args.add(Argument::backend, joiner_.name(part.index, NameKind::text, step.backend))
          .add(Argument::algorithm, joiner_.name(part.index, NameKind::text, step.algorithm));
    }
    whole(part.index, row, step_name(part.index, step), when, args);
  }
}

std::string MergedTrace::step_name(std::size_t rank, const JoinedStep& step) const {
  if (const auto part = event_of(step.what)) return quoted(name_of(*part));
  return step.name == 0 ? quoted(name_of(Event::run))
                        : json_string(joiner_.name(rank, NameKind::text, step.name));
}

/// Draws an arrow from the last submit of the rank that was ready last to the begin of the batch on this
/// rank. There is no arrow if the clocks are so wrong that the batch seems to end before that submit.
void MergedTrace::write_arrow(const RankPart& last, const Drawn& from, const RankPart& part,
                              const Drawn& to) {
  const std::int64_t begin_ns = from.when.begin_ns;
  if (begin_ns > to.when.end_ns) return;
  ++arrows_;
  const std::string_view name = name_of(Event::last_ready);
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"s","cat":"last","name":"{}","id":{},"pid":{},"tid":{},"ts":{}}})", name, arrows_,
                 rank_at(last.index), from.row, Micros{begin_ns});
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"f","bp":"e","cat":"last","name":"{}","id":{},"pid":{},"tid":{},"ts":{}}})", name,
                 arrows_, rank_at(part.index), to.row, Micros{std::max(begin_ns, to.when.begin_ns)});
}

void MergedTrace::write_bandwidth(const JoinedBatch& batch, const RankPart& part) {
  const JoinedStep* const run = part.main_run();
  if (run == nullptr || run->end_ns <= run->begin_ns || batch.parts.size() < 2) return;
  const double bytes_per_us =
      bus_bytes(batch, part) / (static_cast<double>(run->end_ns - run->begin_ns) / 1e3);
  write_counter(part.index, Event::bus_bandwidth, run->begin_ns, static_cast<std::uint64_t>(bytes_per_us));
  write_counter(part.index, Event::bus_bandwidth, run->end_ns, 0);
}

void MergedTrace::load(std::size_t rank, std::int64_t at_ns, const Load& load) {
  RankRows& rows = rows_[rank];
  if (at_ns != rows.load_ns) write_load(rank);
  rows.load = load;
  rows.load_ns = at_ns;
}

/// The tensors of a batch change the load at one moment, and only the result is written.
void MergedTrace::write_load(std::size_t rank) {
  RankRows& rows = rows_[rank];
  if (rows.load.queued != rows.written_load.queued)
    write_counter(rank, Event::queue_length, rows.load_ns, rows.load.queued);
  if (rows.load.bytes != rows.written_load.bytes)
    write_counter(rank, Event::bytes_in_flight, rows.load_ns, rows.load.bytes);
  rows.written_load = rows.load;
}

void MergedTrace::write_counter(std::size_t rank, Event counter, std::int64_t at_ns, std::uint64_t value) {
  fmt::format_to(fmt::appender(next_event()), R"({{"ph":"C","name":"{}","pid":{},"ts":{},"args":{{{}}}}})",
                 name_of(counter), rank_at(rank), Micros{at_ns},
                 EventArguments().add(Argument::value, value).text());
}

void MergedTrace::lonely_tensor(std::size_t rank, const JoinedTensor& tensor) {
  const bool has_ended = tensor.end_ns != kNotKnown;
  const std::int64_t last_ns = files_.clocks()[rank].at(files_.ranks()[rank].last_ns) - files_.begin_ns();
  const Interval whole_time{tensor.submit_ns, has_ended ? tensor.end_ns : last_ns};
  const RowId row = tensor_row(rank, tensor.name, tensor.set, whole_time);
  const Interval when = take_place(rank, row, whole_time);
  EventArguments args;
  args.add(Argument::bytes, tensor.bytes).add(Argument::set, tensor.set);
  if (!has_ended) args.add(Argument::unfinished, true);
  whole(rank, row, negotiation_of(tensor.kind), when, args);
  if (tensor.error != 0) write_error(rank, row, tensor, when.end_ns);
}

void MergedTrace::write_error(std::size_t rank, RowId row, const JoinedTensor& tensor, std::int64_t at_ns) {
  instant(rank, row, 't', name_of(Event::error), at_ns,
          EventArguments()
              .add(Argument::code, name_of(tensor.code))
              .add(Argument::error, joiner_.name(rank, NameKind::error, tensor.error)));
}

void MergedTrace::called(std::size_t rank, const Record& record, std::int64_t at_ns) {
  instant(rank, thread_row(rank, record.thread), 't', timeline_name_of(record.kind), at_ns,
          EventArguments().add(Argument::set, record.process_set));
}

void MergedTrace::span(std::size_t rank, std::uint32_t thread, std::uint32_t name, std::int64_t begin_ns,
                       std::int64_t end_ns) {
  whole(rank, thread_row(rank, thread), json_string(joiner_.name(rank, NameKind::span, name)),
        {begin_ns, end_ns});
}

void MergedTrace::wait(std::size_t rank, std::uint32_t thread, std::int64_t begin_ns, std::int64_t end_ns) {
  const RowId row = thread_row(rank, thread);
  whole(rank, row, quoted(name_of(Event::wait)), {begin_ns, end_ns});
}

/// Draws a step from the last mark to this one. The first mark has no step, since its begin is not known.
void MergedTrace::step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step) {
  need_row(rank, rows::kSteps, "steps");
  const std::int64_t begin = std::exchange(rows_[rank].last_step_ns, at_ns);
  EventArguments args;
  args.add(Argument::step, step).add(Argument::thread, joiner_.name(rank, NameKind::thread, thread));
  instant(rank, rows::kSteps, 'p', name_of(Event::step), at_ns, args);
  if (begin == kNotKnown) return;
  whole(rank, rows::kSteps, fmt::format(R"("{}{}")", kStepPrefix, step),
        take_place(rank, rows::kSteps, {begin, at_ns}), args);
}

void MergedTrace::cycle(std::size_t rank, std::int64_t at_ns) {
  instant(rank, rows::kSteps, 'p', name_of(Event::cycle_start), at_ns);
}

void MergedTrace::lost(std::size_t rank, std::int64_t at_ns, std::uint64_t count) {
  instant(rank, rows::kSteps, 'p', name_of(Event::records_lost), at_ns,
          EventArguments().add(Argument::count, count));
}

}  // namespace dabke::timeline
