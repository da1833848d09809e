#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/timeline/report/report.h"

namespace dabke::timeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Json or_null(const auto& value) { return value ? Json(*value) : Json(nullptr); }

Json of(const TraceReport::Evidence& one) {
  return {{"rank", one.rank},
          {"start_us", one.start_us},
          {"end_us", one.end_us},
          {"tensor", one.tensor},
          {"order", one.order}};
}

Json of(const TraceReport::Step& one) {
  return {{"step", one.step},
          {"start_us", one.start_us},
          {"end_us", one.end_us},
          {"communication_us", one.communication_us},
          {"exposed_us", or_null(one.exposed_us)},
          {"overlapped_us", or_null(one.overlapped_us)}};
}

Json of(const TraceReport::Phases& one) {
  return {{"negotiate_us", one.negotiate_us},
          {"queue_us", one.queue_us},
          {"pack_us", one.pack_us},
          {"collective_us", one.collective_us},
          {"unpack_us", one.unpack_us}};
}

Json of(const TraceReport::Tensor& one) {
  Json json{{"name", one.name}, {"count", one.count}, {"bytes", one.bytes}};
  json.update(of(static_cast<const TraceReport::Phases&>(one)));
  json["last_rank"] = or_null(one.last_rank);
  return json;
}

Json of(const TraceReport::SizeClass& one) {
  return {{"bytes_from", one.bytes_from},
          {"bytes_to", one.bytes_to},
          {"count", one.count},
          {"algorithm_bandwidth_mb_s", one.algorithm_bandwidth_mb_s},
          {"bus_bandwidth_mb_s", one.bus_bandwidth_mb_s},
          {"backend", one.backend},
          {"algorithm", one.algorithm}};
}

Json of(const TraceReport::Fusion::Bar& one) {
  return {{"tensors_from", one.tensors_from}, {"tensors_to", one.tensors_to}, {"count", one.count}};
}

Json of(const TraceReport::Failure& one) {
  return {{"rank", one.rank}, {"tensor", one.tensor}, {"text", one.text}, {"at_us", one.at_us}};
}

Json of(const TraceReport::Span& one) {
  return {{"name", one.name},
          {"rank", one.rank},
          {"us", one.us},
          {"others_us", one.others_us},
          {"count", one.count}};
}

Json of(const TraceReport::Change& one) {
  return {{"epoch", one.epoch}, {"start_us", one.start_us}, {"end_us", one.end_us}, {"text", one.text}};
}

Json of(const TraceReport::Overlap& one) {
  return {{"step", or_null(one.step)},
          {"rank", one.rank},
          {"bytes", one.bytes},
          {"bus_bandwidth_mb_s", one.bus_bandwidth_mb_s},
          {"communication_us", one.communication_us},
          {"hidden_us", one.hidden_us},
          {"exposed_us", one.exposed_us},
          {"late_us", one.late_us}};
}

Json of(const TraceReport::ExposedTensor& one) {
  return {{"name", one.name},
          {"count", one.count},
          {"bytes", one.bytes},
          {"communication_us", one.communication_us},
          {"exposed_us", one.exposed_us}};
}

Json of(const TraceReport::Cost& one);
Json of(const TraceReport::Finding& one);

template <class T>
Json of(const std::vector<T>& all) {
  Json array = Json::array();
  for (const T& one : all) array.push_back(of(one));
  return array;
}

Json of(const TraceReport::Cost& one) {
  return {{"rank", one.rank},
          {"last_share", one.last_share},
          {"batches_last", one.batches_last},
          {"caused_us", one.caused_us},
          {"caused_per_step_us", one.caused_per_step_us},
          {"caused_median_us", one.caused_median_us},
          {"worst", of(one.worst)}};
}

Json of(const TraceReport::Finding& one) {
  return {{"id", one.id},         {"severity", name_of(one.severity)},
          {"title", one.title},   {"text", one.text},
          {"advice", one.advice}, {"evidence", of(one.evidence)}};
}

}  // namespace

std::string_view name_of(TraceReport::Severity severity) {
  switch (severity) {
    case TraceReport::Severity::high: return "high";
    case TraceReport::Severity::medium: return "medium";
    case TraceReport::Severity::low: return "low";
  }
  return "low";
}

std::string json_of(const TraceReport& report) {
  Json json;
  json["version"] = kVersion;
  json["source"] = report.source;
  json["ranks"] = report.ranks;
  json["duration_us"] = report.duration_us;
  json["clock_error_us"] = report.clock_error_us;
  json["steps_are"] = report.steps_are;
  json["steps"] = of(report.steps);
  json["exposed_us"] = or_null(report.exposed_us);
  json["cost"] = of(report.cost);
  json["compared"] = report.compared;
  json["lateness"] = {{"ranks", report.lateness.ranks},
                      {"steps", report.lateness.steps},
                      {"caused_us", report.lateness.caused_us}};
  json["late_us"] = report.late_us;
  json["phases"] = of(report.phases);
  json["tensors"] = of(report.tensors);
  json["sizes"] = of(report.sizes);
  json["fusion"] = {{"batches", report.fusion.batches},
                    {"tensors", report.fusion.tensors},
                    {"mean_tensors", report.fusion.mean_tensors},
                    {"histogram", of(report.fusion.histogram)}};
  json["spans"] = of(report.spans);
  if (!report.changes.empty()) {
    json["changes"] = of(report.changes);
    json["changes_us"] = report.changes_us;
  }
  if (const auto& profiled = report.profiled) {
    json["profiled"] = {{"ranks", profiled->ranks},
                        {"start_us", profiled->start_us},
                        {"end_us", profiled->end_us},
                        {"overlap", of(profiled->overlap)},
                        {"tensors", of(profiled->tensors)}};
  }
  json["failed"] = report.failed;
  json["failures"] = of(report.failures);
  json["unfinished"] = report.unfinished;
  json["notes"] = report.notes;
  json["findings"] = of(report.findings);
  // Names may contain any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dabke::timeline
