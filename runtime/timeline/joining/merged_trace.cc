#include "runtime/timeline/joining/merged_trace.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/base/dtype.h"
#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
#include "runtime/timeline/event_names.h"
#include "runtime/timeline/joining/bus_bandwidth.h"
#include "runtime/timeline/json_text.h"

namespace dabke::timeline {
namespace {

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
    : files_(files), joiner_(joiner), events_(file, files.base_time_ns(0)) {
  std::map<Rank, std::size_t> slots;
  for (std::size_t rank = 0; rank < files.ranks().size(); ++rank) {
    const auto [slot, is_new] = slots.try_emplace(rank_at(rank), rows_.size());
    if (is_new) rows_.emplace_back();
    slots_.push_back(slot->second);
    rows_[slot->second].files.push_back(rank);
  }
  for (const RankRows& rank : rows_) name_process(rank);
  if (files.is_elastic()) write_changes();
}

void MergedTrace::write_changes() {
  constexpr int kJob = rows::kJobProcess;
  events_.metadata(kJob, {}, Event::process_name, EventArguments().add(Argument::name, kJobProcess));
  events_.metadata(kJob, {}, Event::process_sort_index, EventArguments().add(Argument::sort_index, -1));
  events_.metadata(kJob, rows::kChanges, Event::thread_name, EventArguments().add(Argument::name, "changes"));
  for (const EpochChange& change : files_.changes()) {
    events_.whole(kJob, rows::kChanges,
                  json_string(fmt::format("{}{}: {}", kChangePrefix, change.epoch, change.text)), change.when,
                  EventArguments().add(Argument::epoch, change.epoch).add(Argument::change, change.text));
  }
}

EventArguments& MergedTrace::add_epoch(EventArguments& args, std::size_t rank) const {
  return files_.is_elastic() ? args.add(Argument::epoch, files_.ranks()[rank].origin.epoch) : args;
}

/// The facts that are not events come last, since only then are they all known.
std::string MergedTrace::facts(std::string_view report) const {
  const JobEpoch& last = files_.epochs().back();
  std::string text = fmt::format(R"({{"job":"{}","epoch":{},"size":{},"clocks":[)",
                                 text_of(files_.ranks().front().origin.job_id), last.number, last.size);
  for (std::size_t i = 0; i < files_.ranks().size(); ++i) {
    const AlignedClock& clock = files_.clocks()[i];
    const RecordFile::Origin& origin = files_.ranks()[i].origin;
    const auto error = clock.error_ns();
    text += i == 0 ? "{" : ",{";
    if (files_.is_elastic()) text += fmt::format(R"("epoch":{},)", origin.epoch);
    text += fmt::format(R"("rank":{},"host":{},"clock":"{}","offset_ns":{},"error_ns":{},"{}":{}}})",
                        origin.rank, json_string(origin.host), name_of(clock.source()), clock.offset_ns(),
                        error ? std::to_string(*error) : "null", kRankBaseTime, files_.base_time_ns(i));
  }
  text += R"(],"missing":[)";
  for (std::size_t i = 0; i < files_.notes().size(); ++i)
    text += (i == 0 ? "" : ",") + json_string(files_.notes()[i]);
  return text + fmt::format(R"(],"report":{}}})", report);
}

void MergedTrace::finish(std::string_view report) {
  for (const RankRows& rank : rows_) write_load(rank.files.back());
  events_.finish(facts(report));
}

void MergedTrace::name_process(const RankRows& rank) {
  const int pid = rank_at(rank.files.front());
  std::vector<std::string> hosts;
  for (const std::size_t file : rank.files) {
    const std::string& host = files_.ranks()[file].origin.host;
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  events_.metadata(pid, {}, Event::process_name,
                   EventArguments().add(Argument::name, fmt::format("rank {}", pid)));
  events_.metadata(pid, {}, Event::process_labels,
                   EventArguments().add(Argument::labels, fmt::format("{}", fmt::join(hosts, ", "))));
  events_.metadata(pid, {}, Event::process_sort_index, EventArguments().add(Argument::sort_index, pid));
  for (const std::size_t index : rank.files) {
    const RankFile& file = files_.ranks()[index];
    if (file.missing.empty()) continue;
    const std::int64_t last =
        std::max<std::int64_t>(0, files_.clocks()[index].at(file.last_ns) - files_.begin_ns());
    EventArguments args;
    args.add(Argument::why, file.missing);
    events_.instant(rank_at(index), rows::kSteps, 'p', name_of(Event::tail_missing), last,
                    add_epoch(args, index));
  }
}

void MergedTrace::need_row(std::size_t rank, RowId row, std::string_view name, RowId place) {
  if (!rows_of(rank).ends_ns.emplace(row, 0).second) return;
  events_.metadata(rank_at(rank), row, Event::thread_name, EventArguments().add(Argument::name, name));
  events_.metadata(rank_at(rank), row, Event::thread_sort_index,
                   EventArguments().add(Argument::sort_index, place));
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
  RankRows& rows = rows_of(rank);
  const std::string_view name = joiner_.name(rank, NameKind::tensor, tensor);
  if (rows.files.size() > 1) tensor = rows.tensor_numbers.number_of(rank, tensor, name);
  auto& sets = rows.tensors[tensor];
  const bool is_first = sets.empty();
  Lane& lane = lane_for(sets[set], when);
  const RowId own = rows::kFirstTensor + tensor;
  if (lane.row == 0) lane.row = is_first ? own : rows.further++;
  need_row(rank, lane.row, name, own);
  return lane.row;
}

MergedTrace::RowId MergedTrace::thread_row(std::size_t rank, std::uint32_t thread) {
  RankRows& rows = rows_of(rank);
  const std::string_view name = thread == 0 ? "a thread" : joiner_.name(rank, NameKind::thread, thread);
  if (rows.files.size() > 1 && thread != 0) thread = rows.thread_numbers.number_of(rank, thread, name);
  const RowId row = rows::kFirstThread + thread;
  need_row(rank, row, name);
  return row;
}

/// A lane runs one batch at a time, so this is usually the first row. Batches of devices may overlap, and so
/// may batches of several sets.
MergedTrace::RowId MergedTrace::lane_row(std::size_t rank, const Interval& when) {
  Lanes& lanes = rows_of(rank).lanes;
  Lane& lane = lane_for(lanes, when);
  const auto number = static_cast<std::uint32_t>(&lane - lanes.data());
  lane.row = rows::kFirstLane + number;
  need_row(rank, lane.row, number == 0 ? "lane" : fmt::format("lane, overlapping {}", number));
  return lane.row;
}

Interval MergedTrace::take_place(std::size_t rank, RowId row, Interval when) {
  std::int64_t& end = rows_of(rank).ends_ns[row];
  when.begin_ns = std::max(when.begin_ns, end);
  when.end_ns = std::max(when.begin_ns, when.end_ns);
  end = when.end_ns;
  return when;
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
      .add(Argument::set, set_of_call(part.index, part.tensors.front().name, batch.set))
      .add(Argument::tensors, part.tensors.size())
      .add(Argument::first, joiner_.name(part.index, NameKind::tensor, part.tensors.front().name));
  if (last != nullptr) {
    args.add(Argument::last_rank, rank_at(last->index))
        .add(Argument::last_by_us, Micros{last->ready_ns() - before_ns});
  }
  if (part.left != 0) args.add(Argument::unfinished, true);
  events_.whole(rank_at(part.index), row, quoted(timeline_name_of(batch.kind)), when,
                add_epoch(args, part.index));
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
      EventArguments args;
      args.add(Argument::order, tensor.order)
          .add(Argument::bytes, tensor.bytes)
          .add(Argument::set, set_of_call(part.index, tensor.name, batch.set))
          .add(Argument::thread, joiner_.name(part.index, NameKind::thread, tensor.thread));
      events_.whole(rank_at(part.index), row, negotiation_of(batch.kind), wait, add_epoch(args, part.index));
    }
    const Interval when = take_place(part.index, row, whole_time);
    EventArguments args;
    args.add(Argument::order, tensor.order)
        .add(Argument::batch, fmt::format("{}.{}", batch.order, batch.number))
        .add(Argument::bytes, tensor.bytes)
        .add(Argument::set, set_of_call(part.index, tensor.name, batch.set))
        .add(Argument::dtype, name_of(tensor.dtype))
        .add(Argument::shape, shape_text(joiner_.name(part.index, NameKind::shape, tensor.shape)));
    if (!has_ended) args.add(Argument::unfinished, true);
    events_.whole(rank_at(part.index), row, quoted(timeline_name_of(batch.kind)), when,
                  add_epoch(args, part.index));
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
    events_.whole(rank_at(part.index), row, step_name(part.index, step), when, args);
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
  events_.arrow("last", Event::last_ready, {rank_at(last.index), from.row, begin_ns},
                {rank_at(part.index), to.row, std::max(begin_ns, to.when.begin_ns)});
}

void MergedTrace::write_bandwidth(const JoinedBatch& batch, const RankPart& part) {
  const JoinedStep* const run = part.main_run();
  if (run == nullptr || run->end_ns <= run->begin_ns || batch.parts.size() < 2) return;
  const double bytes_per_us =
      bus_bytes(batch, part) / (static_cast<double>(run->end_ns - run->begin_ns) / 1e3);
  events_.counter(rank_at(part.index), Event::bus_bandwidth, run->begin_ns,
                  static_cast<std::uint64_t>(bytes_per_us));
  events_.counter(rank_at(part.index), Event::bus_bandwidth, run->end_ns, 0);
}

void MergedTrace::load(std::size_t rank, std::int64_t at_ns, const Load& load) {
  RankRows& rows = rows_of(rank);
  if (at_ns != rows.load_ns) write_load(rank);
  rows.load = load;
  rows.load_ns = at_ns;
}

/// The tensors of a batch change the load at one moment, and only the result is written.
void MergedTrace::write_load(std::size_t rank) {
  RankRows& rows = rows_of(rank);
  if (rows.load.queued != rows.written_load.queued)
    events_.counter(rank_at(rank), Event::queue_length, rows.load_ns, rows.load.queued);
  if (rows.load.bytes != rows.written_load.bytes)
    events_.counter(rank_at(rank), Event::bytes_in_flight, rows.load_ns, rows.load.bytes);
  rows.written_load = rows.load;
}

ProcessSetId MergedTrace::set_of_call(std::size_t rank, std::uint32_t tensor, ProcessSetId set) const {
  return is_pair(set) ? set_of_message(joiner_.name(rank, NameKind::tensor, tensor)) : set;
}

void MergedTrace::lonely_tensor(std::size_t rank, const JoinedTensor& tensor) {
  const bool has_ended = tensor.end_ns != kNotKnown;
  const std::int64_t last_ns = files_.clocks()[rank].at(files_.ranks()[rank].last_ns) - files_.begin_ns();
  const Interval whole_time{tensor.submit_ns, has_ended ? tensor.end_ns : last_ns};
  const RowId row = tensor_row(rank, tensor.name, tensor.set, whole_time);
  const Interval when = take_place(rank, row, whole_time);
  EventArguments args;
  args.add(Argument::bytes, tensor.bytes).add(Argument::set, set_of_call(rank, tensor.name, tensor.set));
  if (!has_ended) args.add(Argument::unfinished, true);
  events_.whole(rank_at(rank), row, negotiation_of(tensor.kind), when, add_epoch(args, rank));
  if (tensor.error != 0) write_error(rank, row, tensor, when.end_ns);
}

void MergedTrace::write_error(std::size_t rank, RowId row, const JoinedTensor& tensor, std::int64_t at_ns) {
  events_.instant(rank_at(rank), row, 't', name_of(Event::error), at_ns,
                  EventArguments()
                      .add(Argument::code, name_of(tensor.code))
                      .add(Argument::error, joiner_.name(rank, NameKind::error, tensor.error)));
}

void MergedTrace::called(std::size_t rank, const Record& record, std::int64_t at_ns) {
  events_.instant(rank_at(rank), thread_row(rank, record.thread), 't', timeline_name_of(record.kind), at_ns,
                  EventArguments().add(Argument::set, record.process_set));
}

void MergedTrace::span(std::size_t rank, std::uint32_t thread, std::uint32_t name, std::int64_t begin_ns,
                       std::int64_t end_ns) {
  events_.whole(rank_at(rank), thread_row(rank, thread),
                json_string(joiner_.name(rank, NameKind::span, name)), {begin_ns, end_ns});
}

void MergedTrace::wait(std::size_t rank, std::uint32_t thread, std::int64_t begin_ns, std::int64_t end_ns) {
  const RowId row = thread_row(rank, thread);
  events_.whole(rank_at(rank), row, quoted(name_of(Event::wait)), {begin_ns, end_ns});
}

/// Draws a step from the last mark to this one. The first mark of an epoch has no step, since its begin is
/// not known.
void MergedTrace::step(std::size_t rank, std::uint32_t thread, std::int64_t at_ns, std::uint64_t step) {
  need_row(rank, rows::kSteps, "steps");
  const auto [begin, file] = std::exchange(rows_of(rank).last_mark, {at_ns, rank});
  EventArguments args;
  args.add(Argument::step, step).add(Argument::thread, joiner_.name(rank, NameKind::thread, thread));
  add_epoch(args, rank);
  events_.instant(rank_at(rank), rows::kSteps, 'p', name_of(Event::step), at_ns, args);
  if (begin == kNotKnown || file != rank) return;
  events_.whole(rank_at(rank), rows::kSteps, fmt::format(R"("{}{}")", kStepPrefix, step),
                take_place(rank, rows::kSteps, {begin, at_ns}), args);
}

void MergedTrace::cycle(std::size_t rank, std::int64_t at_ns) {
  events_.instant(rank_at(rank), rows::kSteps, 'p', name_of(Event::cycle_start), at_ns);
}

void MergedTrace::lost(std::size_t rank, std::int64_t at_ns, std::uint64_t count) {
  events_.instant(rank_at(rank), rows::kSteps, 'p', name_of(Event::records_lost), at_ns,
                  EventArguments().add(Argument::count, count));
}

}  // namespace dabke::timeline
