// Reads traces, for the tests.
#pragma once

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/timeline/recording/timeline.h"
#include "tests/temporary_directory.h"

namespace dabke::test {

using Json = nlohmann::json;

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline Json read_trace(const std::string& path) { return Json::parse(read_file(path)); }

inline std::unique_ptr<timeline::Timeline> must_open(timeline::Timeline::Options options) {
  auto timeline = timeline::Timeline::open(std::move(options));
  if (!timeline) throw std::runtime_error(timeline.status().message());
  return timeline.take();
}

// One record each. The first tensor names a batch.
inline void negotiate_start(timeline::Timeline& timeline, timeline::Timeline::TensorId tensor,
                            CollectiveKind kind) {
  timeline.ready(tensor, kind, kWorldSet, timeline::Record::kNobody, timeline::Record::kFirst);
}
inline void rank_ready(timeline::Timeline& timeline, timeline::Timeline::TensorId tensor, int set_rank) {
  timeline.ready(tensor, CollectiveKind::allreduce, kWorldSet, static_cast<std::uint32_t>(set_rank), 0);
}
inline void negotiate_end(timeline::Timeline& timeline, timeline::Timeline::TensorId tensor) {
  timeline.ready(tensor, CollectiveKind::allreduce, kWorldSet, timeline::Record::kNobody,
                 timeline::Record::kLast);
}
inline timeline::Record of_batch(std::span<const timeline::Timeline::TensorId> tensors) {
  return {.order = tensors.front() + 1U, .batch = tensors.front() + 1U};
}
inline void op_start(timeline::Timeline& timeline, std::span<const timeline::Timeline::TensorId> tensors,
                     CollectiveKind kind) {
  timeline::Record record = of_batch(tensors);
  record.what = timeline::Record::What::order;
  record.kind = kind;
  record.time_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  for (const timeline::Timeline::TensorId tensor : tensors) {
    record.name = tensor;
    timeline.put(record);
  }
}
inline void activity_start(timeline::Timeline& timeline,
                           std::span<const timeline::Timeline::TensorId> tensors, std::string_view activity) {
  timeline::Record record = of_batch(tensors);
  record.what = activity == "QUEUE"                     ? timeline::Record::What::queue
                : activity == "MEMCPY_IN_FUSION_BUFFER" ? timeline::Record::What::pack
                                                        : timeline::Record::What::run;
  if (record.what == timeline::Record::What::run) record.name = timeline.text(activity);
  timeline.put(record);
}
inline void activity_end(timeline::Timeline& timeline,
                         std::span<const timeline::Timeline::TensorId> tensors) {
  timeline::Record record = of_batch(tensors);
  record.what = timeline::Record::What::run;
  record.flags = timeline::Record::kEnd;
  timeline.put(record);
}
/// `first` is the batch's first tensor.
inline void op_end(timeline::Timeline& timeline, timeline::Timeline::TensorId tensor, DType dtype,
                   const Shape& shape, timeline::Timeline::TensorId first) {
  timeline::Record record = of_batch({&first, 1});
  record.name = tensor;
  record.dtype = dtype;
  record.bytes = static_cast<std::uint64_t>(shape.elements()) * size_of(dtype);
  timeline.done(record, shape);
}
inline void op_end(timeline::Timeline& timeline, timeline::Timeline::TensorId tensor, DType dtype,
                   const Shape& shape) {
  op_end(timeline, tensor, dtype, shape, tensor);
}
inline void op_error(timeline::Timeline& timeline, timeline::Timeline::TensorId tensor,
                     const Status& status) {
  timeline.error({.name = tensor}, status);
}

/// The events of one row, without its metadata.
inline std::vector<Json> events_of(const Json& trace, int pid) {
  std::vector<Json> found;
  for (const Json& event : trace) {
    if (event["pid"] == pid && event["ph"] != "M") found.push_back(event);
  }
  return found;
}

/// "B NEGOTIATE_ALLREDUCE", "X 0", "E", ... of one row.
inline std::vector<std::string> outline_of(const Json& trace, int pid) {
  std::vector<std::string> lines;
  for (const Json& event : events_of(trace, pid)) {
    std::string line = event["ph"];
    if (event.contains("name")) line += " " + event["name"].get<std::string>();
    lines.push_back(line);
  }
  return lines;
}

/// Returns "" if the begins and ends of every row are properly nested, all ended, and never go back in
/// time. Otherwise, returns what is wrong.
inline std::string nesting_fault(const Json& trace) {
  struct Row {
    int depth = 0;
    double last = 0;
  };
  std::map<int, Row> rows;
  for (const Json& event : trace) {
    const std::string ph = event["ph"];
    if (ph != "B" && ph != "E") continue;
    Row& row = rows[event["pid"]];
    row.depth += ph == "B" ? 1 : -1;
    if (row.depth < 0) return "an end without begin: " + event.dump();
    const double time = event["ts"];
    if (time < row.last) return "goes back in time: " + event.dump();
    row.last = time;
  }
  for (const auto& [pid, row] : rows) {
    if (row.depth != 0) return "row " + std::to_string(pid) + " does not end";
  }
  return "";
}

/// The args of the last event: {"records": n, "lost": m}.
inline Json totals_of(const Json& trace) {
  const Json& last = trace.back();
  return last.value("name", "") == "timeline_end" ? last["args"] : Json();
}

}  // namespace dabke::test
