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

/// Nanoseconds, as the microseconds that the format wants.
struct Micros {
  std::int64_t ns;
};

void append_one(fmt::memory_buffer& out, std::string_view text) { out.append(text); }
void append_one(fmt::memory_buffer& out, std::uint64_t number) {
  const fmt::format_int digits(number);
  out.append(std::string_view(digits.data(), digits.size()));
}
void append_one(fmt::memory_buffer& out, Micros time) {
  append_one(out, static_cast<std::uint64_t>(time.ns / 1000));
  const auto rest = static_cast<int>(time.ns % 1000);
  const std::array<char, 4> decimals = {'.', static_cast<char>('0' + rest / 100),
                                        static_cast<char>('0' + rest / 10 % 10),
                                        static_cast<char>('0' + rest % 10)};
  out.append(std::string_view(decimals.data(), decimals.size()));
}

/// For what comes with every tensor: 52 ns an event, where a compiled format takes 84.
template <class... Parts>
void append(fmt::memory_buffer& out, const Parts&... parts) {
  (append_one(out, parts), ...);
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
  rows_.emplace_back();
  const std::size_t pid = rows_.size();
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
  const std::uint32_t pid = record.tensor;
  if (pid == 0 || pid > rows_.size()) return;
  Row& row = rows_[pid - 1];
  if (record.what == Record::What::rank_ready) {
    append(file_.next_event(), R"({"ph":"X","name":")", static_cast<std::uint64_t>(record.number),
           R"(","ts":)", Micros{record.time_ns}, R"(,"pid":)", pid, R"(,"dur":0})");
    return;
  }
  // Two threads may take their times in one order and queue in the other.
  row.last_ns = std::max(row.last_ns, record.time_ns);
  switch (record.what) {
    case Record::What::negotiate_start: negotiate_start(pid, row, record); break;
    case Record::What::negotiate_end: negotiate_end(pid, row, row.last_ns); break;
    case Record::What::op_start: op_start(pid, row, record); break;
    case Record::What::activity_start:
      ++row.activities;
      begin(pid, record.text, row.last_ns);
      break;
    case Record::What::activity_end:
      if (row.activities == 0) break;
      --row.activities;
      end(pid, row.last_ns);
      break;
    case Record::What::op_end: op_end(pid, row, record); break;
    case Record::What::op_error: op_error(pid, row, record); break;
    case Record::What::rank_ready:
    case Record::What::cycle: break;
  }
  file_.flush_if_large();
}

void TraceWriter::mark_lost(std::int64_t time_ns, std::uint64_t count) {
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"ph":"i","name":"RECORDS_LOST","ts":{}.{:03},"pid":0,"s":"g","args":{{"count":{}}}}})",
                 time_ns / 1000, time_ns % 1000, count);
}

void TraceWriter::finish(std::int64_t time_ns, std::uint64_t written, std::uint64_t lost) {
  for (std::uint32_t pid = 1; pid <= rows_.size(); ++pid) {
    Row& row = rows_[pid - 1];
    row.last_ns = std::max(row.last_ns, time_ns);
    end_all(pid, row, row.last_ns, R"("unfinished":true)");
    begin_waiting(pid, row, row.last_ns);
    end_all(pid, row, row.last_ns, R"("unfinished":true)");
    file_.flush_if_large();
  }
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"name":"timeline_end","ph":"M","pid":0,"args":{{"records":{},"lost":{}}}}})", written,
                 lost);
}

void TraceWriter::negotiate_start(std::uint32_t pid, Row& row, const Record& record) {
  const CollectiveKind kind = kind_of(record);
  if (row.phase == Phase::running) {
    row.waiting = Negotiation{.kind = kind, .ended = false};
    return;
  }
  end_all(pid, row, row.last_ns);
  row.phase = Phase::negotiating;
  begin_negotiation(pid, kind, row.last_ns);
}

void TraceWriter::negotiate_end(std::uint32_t pid, Row& row, std::int64_t time_ns) {
  if (row.phase == Phase::negotiating) end_all(pid, row, time_ns);
  if (row.waiting) row.waiting->ended = true;
}

void TraceWriter::op_start(std::uint32_t pid, Row& row, const Record& record) {
  end_all(pid, row, row.last_ns);  // a negotiation whose end was lost, or an operation
  if (row.waiting) row.waiting->ended = true;
  begin_waiting(pid, row, row.last_ns);
  row.phase = Phase::running;
  begin(pid, timeline_name_of(kind_of(record)), row.last_ns);
}

void TraceWriter::op_end(std::uint32_t pid, Row& row, const Record& record) {
  if (row.phase == Phase::running) {
    const auto dtype = static_cast<DType>(record.detail);
    const Shape shape = record.shape();
    const auto bytes = static_cast<std::uint64_t>(shape.elements()) * size_of(dtype);
    fmt::memory_buffer args;
    append(args, R"("dtype":")", name_of(dtype), R"(","shape":"[)");
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      append(args, i == 0 ? "" : ", ", static_cast<std::uint64_t>(shape[i]));
    }
    append(args, R"(]","bytes":)", bytes);
    end_all(pid, row, row.last_ns, std::string_view(args.data(), args.size()));
    begin_waiting(pid, row, row.last_ns);
  }
}

void TraceWriter::op_error(std::uint32_t pid, Row& row, const Record& record) {
  end_all(pid, row, row.last_ns);
  const Status& status = record.spill->status;
  fmt::format_to(fmt::appender(file_.next_event()),
                 R"({{"ph":"B","name":"ERROR","ts":{}.{:03},"pid":{},"args":{{"code":"{}","error":{}}}}})",
                 row.last_ns / 1000, row.last_ns % 1000, pid, name_of(status.code()),
                 json_string(status.message()));
  end(pid, row.last_ns);
  begin_waiting(pid, row, row.last_ns);
}

void TraceWriter::begin_negotiation(std::uint32_t pid, CollectiveKind kind, std::int64_t time_ns) {
  append(file_.next_event(), R"({"ph":"B","name":"NEGOTIATE_)", timeline_name_of(kind), R"(","ts":)",
         Micros{time_ns}, R"(,"pid":)", pid, "}");
}

void TraceWriter::begin_waiting(std::uint32_t pid, Row& row, std::int64_t time_ns) {
  const auto waiting = std::exchange(row.waiting, std::nullopt);
  if (!waiting) return;
  begin_negotiation(pid, waiting->kind, time_ns);
  row.phase = Phase::negotiating;
  if (waiting->ended) end_all(pid, row, time_ns);
}

void TraceWriter::begin(std::uint32_t pid, std::string_view name, std::int64_t time_ns) {
  append(file_.next_event(), R"({"ph":"B","name":")", name, R"(","ts":)", Micros{time_ns}, R"(,"pid":)", pid,
         "}");
}

void TraceWriter::end(std::uint32_t pid, std::int64_t time_ns, std::string_view args) {
  fmt::memory_buffer& out = file_.next_event();
  append(out, R"({"ph":"E","ts":)", Micros{time_ns}, R"(,"pid":)", pid);
  if (!args.empty()) append(out, R"(,"args":{)", args, "}");
  append(out, "}");
}

void TraceWriter::end_activities(std::uint32_t pid, Row& row, std::int64_t time_ns) {
  for (; row.activities > 0; --row.activities) end(pid, time_ns);
}

void TraceWriter::end_all(std::uint32_t pid, Row& row, std::int64_t time_ns, std::string_view args) {
  end_activities(pid, row, time_ns);
  if (row.phase != Phase::idle) end(pid, time_ns, args);
  row.phase = Phase::idle;
}

}  // namespace dabke
