#include "runtime/timeline/trace_writer.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/base/dtype.h"

namespace dabke {
namespace {

/// The text as a JSON string with its quotes; what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class... Parts>
void append(fmt::memory_buffer& out, const Parts&... parts) {
  EventText text(out);
  (text.add(parts), ...);
}

CollectiveKind kind_of(const Record& record) { return static_cast<CollectiveKind>(record.detail); }

}  // namespace

TraceWriter::TraceWriter(TraceFile& file, std::int64_t start_since_epoch_us) : file_(file) {
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"name":"process_name","ph":"M","pid":0,"args":)"
                 R"({{"start_time_since_epoch_in_micros":{}}}}})",
                 start_since_epoch_us);
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"name":"process_sort_index","ph":"M","pid":0,"args":{{"sort_index":0}}}})");
}

void TraceWriter::add_row(std::string_view name) {
  const auto pid = static_cast<std::uint32_t>(rows_.size() + 1);
  rows_.emplace_back(pid);
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})", pid,
                 json_string(name));
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"name":"process_sort_index","ph":"M","pid":{0},"args":{{"sort_index":{0}}}}})", pid);
  file_.flush_if_large();
}

void TraceWriter::write(const Record& record) {
  if (record.what == Record::What::cycle) {
    fmt::format_to(fmt::appender(file_.next_event()),
                   R"({{"ph":"i","name":"CYCLE_START","ts":{}.{:03},"pid":0,"s":"g"}})",
                   record.time_ns / 1000, record.time_ns % 1000);
    return;
  }
  write_row(record.tensor, record);
  for (const std::uint32_t pid : record.more_tensors()) write_row(pid, record);
  file_.flush_if_large();
}

void TraceWriter::write_row(std::uint32_t pid, const Record& record) {
  if (pid == 0 || pid > rows_.size()) return;
  Row& row = rows_[pid - 1];
  if (record.what == Record::What::rank_ready) {
    append(file_.next_event(), R"({"ph":"X","name":")", static_cast<std::uint64_t>(record.number),
           R"(","ts":)", micros(record.time_ns), row.pid_text, R"(,"dur":0})");
    return;
  }
  // Two threads may take their times in one order and queue in the other.
  row.last_ns = std::max(row.last_ns, record.time_ns);
  switch (record.what) {
    case Record::What::negotiate_start: negotiate_start(row, record); break;
    case Record::What::negotiate_end: negotiate_end(row, row.last_ns); break;
    case Record::What::op_start: op_start(row, record); break;
    case Record::What::activity_start:
      ++row.activities;
      begin(row, record.more.text, row.last_ns);
      break;
    case Record::What::activity_end:
      if (row.activities == 0) break;
      --row.activities;
      end(row, row.last_ns);
      break;
    case Record::What::op_end: op_end(row, record); break;
    case Record::What::op_error: op_error(row, record); break;
    case Record::What::rank_ready:
    case Record::What::cycle: break;
  }
}

void TraceWriter::mark_lost(std::int64_t time_ns, std::uint64_t count) {
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"ph":"i","name":"RECORDS_LOST","ts":{}.{:03},"pid":0,"s":"g","args":{{"count":{}}}}})",
                 time_ns / 1000, time_ns % 1000, count);
}

void TraceWriter::finish(std::int64_t time_ns, std::uint64_t written, std::uint64_t lost) {
  for (Row& row : rows_) {
    row.last_ns = std::max(row.last_ns, time_ns);
    end_all(row, row.last_ns, R"("unfinished":true)");
    begin_waiting(row, row.last_ns);
    end_all(row, row.last_ns, R"("unfinished":true)");
    file_.flush_if_large();
  }
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"name":"timeline_end","ph":"M","pid":0,"args":{{"records":{},"lost":{}}}}})", written,
                 lost);
}

TraceWriter::Row::Row(std::uint32_t pid) {
  pid_text.append(R"(,"pid":)");
  pid_text.append(pid);
}

/// Nanoseconds, as the microseconds that the format wants. All tensors of a batch have the same.
const ShortText& TraceWriter::micros(std::int64_t time_ns) {
  if (time_ns == micros_of_ns_) return micros_;
  micros_of_ns_ = time_ns;
  micros_ = {};
  micros_.append(static_cast<std::uint64_t>(time_ns / 1000));
  const auto rest = static_cast<int>(time_ns % 1000);
  const std::array<char, 4> decimals = {'.', static_cast<char>('0' + rest / 100),
                                        static_cast<char>('0' + rest / 10 % 10),
                                        static_cast<char>('0' + rest % 10)};
  micros_.append({decimals.data(), decimals.size()});
  return micros_;
}

void TraceWriter::negotiate_start(Row& row, const Record& record) {
  const CollectiveKind kind = kind_of(record);
  if (row.phase == Phase::running) {
    row.waiting = Negotiation{.kind = kind, .ended = false};
    return;
  }
  end_all(row, row.last_ns);
  row.phase = Phase::negotiating;
  begin_negotiation(row, kind, row.last_ns);
}

void TraceWriter::negotiate_end(Row& row, std::int64_t time_ns) {
  if (row.phase == Phase::negotiating) end_all(row, time_ns);
  if (row.waiting) row.waiting->ended = true;
}

void TraceWriter::op_start(Row& row, const Record& record) {
  end_all(row, row.last_ns);  // a negotiation whose end was lost, or an operation
  if (row.waiting) row.waiting->ended = true;
  begin_waiting(row, row.last_ns);
  row.phase = Phase::running;
  begin(row, timeline_name_of(kind_of(record)), row.last_ns);
}

void TraceWriter::op_end(Row& row, const Record& record) {
  if (row.phase == Phase::running) {
    const auto dtype = static_cast<DType>(record.detail);
    const Shape shape = record.shape();
    const auto bytes = static_cast<std::uint64_t>(shape.elements()) * size_of(dtype);
    fmt::memory_buffer args;
    append(args, R"("dtype":")", name_of(dtype), R"(","shape":"[)");
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (i != 0) append(args, ", ");
      append(args, static_cast<std::uint64_t>(shape[i]));
    }
    append(args, R"(]","bytes":)", bytes);
    end_all(row, row.last_ns, std::string_view(args.data(), args.size()));
    begin_waiting(row, row.last_ns);
  }
}

void TraceWriter::op_error(Row& row, const Record& record) {
  end_all(row, row.last_ns);
  const Status& status = record.spill->status;
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"ph":"B","name":"ERROR","ts":{}{},"args":{{"code":"{}","error":{}}}}})",
                 micros(row.last_ns).text(), row.pid_text.text(), name_of(status.code()),
                 json_string(status.message()));
  end(row, row.last_ns);
  begin_waiting(row, row.last_ns);
}

void TraceWriter::begin_negotiation(const Row& row, CollectiveKind kind, std::int64_t time_ns) {
  append(file_.next_event(), R"({"ph":"B","name":"NEGOTIATE_)", timeline_name_of(kind), R"(","ts":)",
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
  append(file_.next_event(), R"({"ph":"B","name":")", name, R"(","ts":)", micros(time_ns), row.pid_text, "}");
}

void TraceWriter::end(const Row& row, std::int64_t time_ns, std::string_view args) {
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

}  // namespace dabke
