#include "runtime/timeline/trace_writer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "runtime/base/dtype.h"
#include "runtime/timeline/event_arguments.h"
#include "runtime/timeline/event_names.h"
#include "runtime/timeline/json_text.h"

namespace dabke::timeline {
namespace {

template <class... Parts>
void append(fmt::memory_buffer& out, const Parts&... parts) {
  EventText text(out);
  (text.add(parts), ...);
}

/// The rows of threads come after those of tensors.
constexpr std::uint32_t kFirstThreadPid = 1 << 20;
static_assert(most_of(NameKind::tensor) + 1 < kFirstThreadPid);

}  // namespace

TraceWriter::TraceWriter(TraceFile file, const NameTable& names, std::int64_t start_ns,
                         std::int64_t start_since_epoch_us)
    : file_(std::move(file)), names_(names), start_ns_(start_ns) {
  metadata(0, Event::process_name, EventArguments().add(Argument::start_time, start_since_epoch_us));
  metadata(0, Event::process_sort_index, EventArguments().add(Argument::sort_index, 0));
}

void TraceWriter::add_new_rows() {
  const std::size_t count = names_.count(NameKind::tensor);
  while (rows_.size() < count)
    add_row(names_.name(NameKind::tensor, static_cast<std::uint32_t>(rows_.size() + 1)));
}

void TraceWriter::add_row(std::string_view name) {
  const auto pid = static_cast<std::uint32_t>(rows_.size() + 1);
  rows_.emplace_back(pid);
  name_row(pid, name, pid);
}

void TraceWriter::name_row(std::uint32_t pid, std::string_view name, std::uint32_t sort_index) {
  metadata(pid, Event::process_name, EventArguments().add(Argument::name, name));
  metadata(pid, Event::process_sort_index, EventArguments().add(Argument::sort_index, sort_index));
  file_.flush_if_large();
}

void TraceWriter::metadata(std::uint32_t pid, Event event, const EventArguments& args) {
  fmt::format_to(fmt::appender(file_.next_event()), R"({{"name":"{}","ph":"M","pid":{},"args":{{{}}}}})",
                 name_of(event), pid, args.text());
}

/// Marks a time on all rows.
void TraceWriter::mark(Event event, std::int64_t time_ns, const EventArguments& args) {
  fmt::format_to(fmt::appender(file_.next_event()), R"({{"ph":"i","name":"{}","ts":{},"pid":0,"s":"g"{}}})",
                 name_of(event), micros(time_ns).text(),
                 args.text().empty() ? "" : fmt::format(R"(,"args":{{{}}})", args.text()));
}

void TraceWriter::flush() {
  if (!file_.is_full()) {
    add_new_rows();
    (void)file_.keep(open_);
  }
  file_.flush();
}

void TraceWriter::write(const Record& record) {
  if (file_.is_full()) {
    ++left_out_;
    return;
  }
  take(record);
  if (!file_.keep(open_)) ++left_out_;
  file_.flush_if_large();
}

void TraceWriter::take(const Record& record) {
  switch (record.what) {
    case Record::What::ready:
    case Record::What::order:
    case Record::What::done:
    case Record::What::error: write_tensor(record); break;
    case Record::What::queue:
    case Record::What::wait_for_data:
    case Record::What::allocate:
    case Record::What::pack:
    case Record::What::run:
    case Record::What::unpack: write_activity(record); break;
    case Record::What::span: write_span(record); break;
    case Record::What::step:
      mark(Event::step, record.time_ns, EventArguments().add(Argument::step, record.bytes));
      break;
    case Record::What::cycle: mark(Event::cycle_start, record.time_ns); break;
    case Record::What::submit:
    case Record::What::clock:
    case Record::What::lost:
    case Record::What::leave:
    case Record::What::wait: break;
  }
}

void TraceWriter::write_tensor(const Record& record) {
  if (record.name > rows_.size()) add_new_rows();
  if (record.name == 0 || record.name > rows_.size()) return;
  Row& row = rows_[record.name - 1];
  if (record.what == Record::What::ready) return ready(row, record);
  // Two threads may read the clock in one order and reach the queue in the other.
  row.last_ns = std::max(row.last_ns, record.time_ns);
  if (record.what == Record::What::order) {
    order(row, record);
  } else if (record.what == Record::What::done) {
    done(row, record);
  } else {
    error(row, record);
  }
}

void TraceWriter::write_activity(const Record& record) {
  const BatchKey key{record.batch, record.number};
  const auto batch = batches_.find(key);
  if (batch == batches_.end()) return;
  for (const std::uint32_t pid : batch->second.rows) {
    Row& row = rows_[pid - 1];
    if (!(row.batch == key)) continue;
    row.last_ns = std::max(row.last_ns, record.time_ns);
    if (!record.is_end()) {
      ++row.activities;
      begin(row, activity_of(record), row.last_ns);
    } else if (row.activities != 0) {
      --row.activities;
      end(row, row.last_ns);
    }
  }
}

std::string_view TraceWriter::activity_of(const Record& record) const {
  if (const auto part = event_of(record.what)) return name_of(*part);
  return record.name == 0 ? name_of(Event::run) : names_.name(NameKind::text, record.name);
}

void TraceWriter::write_span(const Record& record) {
  auto row = spans_.find(record.thread);
  if (row == spans_.end()) {
    const std::uint32_t pid = kFirstThreadPid + record.thread;
    row = spans_.emplace(record.thread, Row(pid)).first;
    name_row(pid, names_.name(NameKind::thread, record.thread), pid);
  }
  Row& spans = row->second;
  spans.last_ns = std::max(spans.last_ns, record.time_ns);
  if (record.is_end()) {
    if (spans.activities == 0) return;
    --spans.activities;
    return end(spans, spans.last_ns);
  }
  ++spans.activities;
  ++open_;
  fmt::format_to(fmt::appender(file_.next_event()), R"({{"ph":"B","name":{},"ts":{}{}}})",
                 json_string(names_.name(NameKind::span, record.name)), micros(spans.last_ns).text(),
                 spans.pid_text.text());
}

void TraceWriter::mark_lost(std::int64_t time_ns, std::uint64_t count) {
  if (file_.is_full()) return;
  mark(Event::records_lost, time_ns, EventArguments().add(Argument::count, count));
  (void)file_.keep(open_);
}

void TraceWriter::finish(std::int64_t time_ns, const EndCounts& counts) {
  flush();
  EventArguments unfinished;
  unfinished.add(Argument::unfinished, true);
  const auto end_row = [&](Row& row) {
    if (file_.is_full()) return;  // keep() has ended all events
    row.last_ns = std::max(row.last_ns, time_ns);
    end_all(row, row.last_ns, unfinished.text());
    begin_waiting(row, row.last_ns);
    end_all(row, row.last_ns, unfinished.text());
    (void)file_.keep(open_);
    file_.flush_if_large();
  };
  std::ranges::for_each(rows_, end_row);
  for (auto& [thread, row] : spans_) end_row(row);
  metadata(0, Event::timeline_end,
           EventArguments()
               .add(Argument::records, counts.records - left_out_)
               .add(Argument::lost, counts.lost + left_out_));
  file_.flush();
}

TraceWriter::Row::Row(std::uint32_t pid) {
  pid_text.append(R"(,"pid":)");
  pid_text.append(pid);
}

/// Returns the microseconds since the start, as the format requires them. All tensors of a batch have the
/// same time, so the last text is kept.
const ShortText& TraceWriter::micros(std::int64_t time_ns) {
  if (time_ns == micros_of_ns_) return micros_;
  micros_of_ns_ = time_ns;
  micros_ = {};
  time_ns = std::max<std::int64_t>(time_ns - start_ns_, 0);
  micros_.append(static_cast<std::uint64_t>(time_ns / 1000));
  const auto rest = static_cast<int>(time_ns % 1000);
  const std::array<char, 4> decimals = {'.', static_cast<char>('0' + rest / 100),
                                        static_cast<char>('0' + rest / 10 % 10),
                                        static_cast<char>('0' + rest % 10)};
  micros_.append({decimals.data(), decimals.size()});
  return micros_;
}

void TraceWriter::ready(Row& row, const Record& record) {
  if ((record.flags & Record::kFirst) != 0) {
    row.last_ns = std::max(row.last_ns, record.time_ns);
    negotiate_start(row, record.kind);
  }
  if (record.number != Record::kNobody) {
    append(file_.next_event(), R"({"ph":"X","name":")", std::uint64_t{record.number}, R"(","ts":)",
           micros(record.time_ns), row.pid_text, R"(,"dur":0})");
  }
  if ((record.flags & Record::kLast) != 0) {
    row.last_ns = std::max(row.last_ns, record.time_ns);
    negotiate_end(row);
  }
}

void TraceWriter::negotiate_start(Row& row, CollectiveKind kind) {
  if (row.phase == Phase::running) {
    row.waiting = Negotiation{.kind = kind, .ended = false};
    return;
  }
  end_all(row, row.last_ns);
  row.phase = Phase::negotiating;
  begin_negotiation(row, kind, row.last_ns);
}

void TraceWriter::negotiate_end(Row& row) {
  if (row.phase == Phase::negotiating) end_all(row, row.last_ns);
  if (row.waiting) row.waiting->ended = true;
}

void TraceWriter::order(Row& row, const Record& record) {
  end_all(row, row.last_ns);  // an operation, or a negotiation whose end was lost
  if (row.waiting) row.waiting->ended = true;
  begin_waiting(row, row.last_ns);
  row.phase = Phase::running;
  begin(row, timeline_name_of(record.kind), row.last_ns);
  leave_batch(row);
  row.batch = {record.batch, record.number};
  Members& members = batches_[row.batch];
  members.rows.push_back(record.name);
  ++members.left;
}

void TraceWriter::leave_batch(Row& row) {
  const auto batch = row.batch.order == 0 ? batches_.end() : batches_.find(row.batch);
  row.batch = {};
  if (batch != batches_.end() && --batch->second.left == 0) batches_.erase(batch);
}

void TraceWriter::done(Row& row, const Record& record) {
  if (record.batch != row.batch.order) return;  // the end of an earlier batch, which the row has already left
  leave_batch(row);
  if (row.phase != Phase::running) return;
  fmt::memory_buffer args;
  append(args, key_of(Argument::dtype), "\"", name_of(record.dtype), "\",", key_of(Argument::shape), "\"[");
  const Shape shape = shape_of(names_.name(NameKind::shape, record.number));
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i != 0) append(args, ", ");
    if (shape[i] < 0) {
      append(args, "?");
    } else {
      append(args, static_cast<std::uint64_t>(shape[i]));
    }
  }
  append(args, "]\",", key_of(Argument::bytes), record.bytes);
  end_all(row, row.last_ns, std::string_view(args.data(), args.size()));
  begin_waiting(row, row.last_ns);
}

void TraceWriter::error(Row& row, const Record& record) {
  leave_batch(row);
  end_all(row, row.last_ns);
  ++open_;
  fmt::format_to(fmt::appender(file_.next_event()), R"({{"ph":"B","name":"{}","ts":{}{},"args":{{{}}}}})",
                 name_of(Event::error), micros(row.last_ns).text(), row.pid_text.text(),
                 EventArguments()
                     .add(Argument::code, name_of(static_cast<Code>(record.bytes)))
                     .add(Argument::error, names_.name(NameKind::error, record.number))
                     .text());
  end(row, row.last_ns);
  begin_waiting(row, row.last_ns);
}

void TraceWriter::begin_negotiation(const Row& row, CollectiveKind kind, std::int64_t time_ns) {
  ++open_;
  append(file_.next_event(), R"({"ph":"B","name":")", kNegotiatePrefix, timeline_name_of(kind), R"(","ts":)",
         micros(time_ns), row.pid_text, "}");
}

void TraceWriter::begin_waiting(Row& row, std::int64_t time_ns) {
  const auto waiting = std::exchange(row.waiting, std::nullopt);
  if (!waiting) return;
  begin_negotiation(row, waiting->kind, time_ns);
  row.phase = Phase::negotiating;
  if (waiting->ended) end_all(row, time_ns);
}

void TraceWriter::begin(const Row& row, std::string_view name, std::int64_t time_ns) {
  ++open_;
  append(file_.next_event(), R"({"ph":"B","name":")", name, R"(","ts":)", micros(time_ns), row.pid_text, "}");
}

void TraceWriter::end(const Row& row, std::int64_t time_ns, std::string_view args) {
  --open_;
  EventText text(file_.next_event());
  text.add(R"({"ph":"E","ts":)");
  text.add(micros(time_ns));
  text.add(row.pid_text);
  if (!args.empty()) {
    text.add(R"(,"args":{)");
    text.add(args);
    text.add("}");
  }
  text.add("}");
}

void TraceWriter::end_activities(Row& row, std::int64_t time_ns) {
  for (; row.activities > 0; --row.activities) end(row, time_ns);
}

void TraceWriter::end_all(Row& row, std::int64_t time_ns, std::string_view args) {
  end_activities(row, time_ns);
  if (row.phase != Phase::idle) end(row, time_ns, args);
  row.phase = Phase::idle;
}

Result<std::unique_ptr<RecordWriter>> open_trace(const std::string& path, const NameTable& names,
                                                 std::int64_t start_ns, std::uint64_t limit) {
  DABKE_ASSIGN_OR_RETURN(TraceFile file, TraceFile::open(path, limit));
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::unique_ptr<RecordWriter>(std::make_unique<TraceWriter>(
      std::move(file), names, start_ns,
      std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count()));
}

}  // namespace dabke::timeline
