// The rules of the trace event format, and of Perfetto's importer, which drops events that it cannot place.
// Tests of every writer of traces use them. A time is read as the importer reads it: microseconds in a
// double, multiplied by 1000, rounded down.
//
//   phases     only those that the writers have: B, E, X, i, C, s, f, M
//   fields     names are texts; pid, and tid if present, are whole numbers; ts is finite and not negative
//   slices     an X, with a duration that is not negative, and a B with its E; slices of a row lie within or
//              beside each other
//   B and E    are balanced in a row, and do not go back in time
//   s and f    come in pairs of one id, name and category; an arrow does not lead back in time.
//              Each end lies in a slice of its row; that slice begins earlier in the file or in time
//   C          all arguments are numbers
//   i          its scope is g, p or t
//   M          its name is one that viewers support, with the argument that it needs; a row has one name
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dabke::test {

/// Reads a trace's events and gathers their faults.
class TraceForm {
 public:
  using Json = nlohmann::json;

  void check(const Json& events) {
    if (!events.is_array()) return fault("there is no array of events", events);
    for (const Json& event : events) check_event(event);
    for (const auto& [row, open] : open_) {
      if (!open.empty()) fault("a beginning has no end", row);
    }
    for (auto& [row, slices] : slices_) check_nesting(row, slices);
    for (const auto& [row, end] : arrow_ends_) check_place(row, end);
    for (const auto& [id, ends] : arrows_) {
      if (ends.begins != 1 || ends.ends != 1) fault("an arrow has not one beginning and one end", id);
      if (ends.end_ns < ends.begin_ns) fault("an arrow leads back in time", id);
    }
  }
  /// The faults: one of each kind, with the first event that has it.
  const std::vector<std::string>& faults() const { return faults_; }
  /// The number of slices written, and the number that an importer can place.
  std::size_t written() const { return written_; }
  std::size_t imported() const { return imported_; }

 private:
  using Row = std::pair<std::int64_t, std::int64_t>;  // pid and tid
  struct Slice {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::size_t index = 0;  // the index of its event
  };
  struct Arrow {
    int begins = 0, ends = 0;
    std::int64_t begin_ns = 0, end_ns = 0;
  };

  template <class Where>
  void fault(const std::string& what, const Where& where) {
    if (known_.insert(what).second) faults_.push_back(what + ": " + Json(where).dump().substr(0, 300));
  }

  static bool is_time(const Json& event, const char* key) {
    const auto time = event.find(key);
    return time != event.end() && time->is_number() && std::isfinite(time->get<double>()) && *time >= 0.0;
  }
  static std::int64_t ns(const Json& event, const char* key) {
    return static_cast<std::int64_t>(event[key].get<double>() * 1000);
  }

  void check_event(const Json& event) {
    ++index_;
    if (!event.is_object() || !event.contains("ph") || !event["ph"].is_string())
      return fault("an event has no phase", event);
    const std::string phase = event["ph"];
    if (phase != "E" && (!event.contains("name") || !event["name"].is_string()))
      return fault("an event has no name", event);
    if (!event.contains("pid") || !event["pid"].is_number_integer())
      return fault("a pid is no whole number", event);
    if (event.contains("tid") && !event["tid"].is_number_integer())
      return fault("a tid is no whole number", event);
    if (event.contains("args") && !event["args"].is_object()) return fault("arguments are no object", event);
    if (phase == "M") return check_metadata(event);
    if (!is_time(event, "ts")) return fault("ts is no time", event);
    const Row row = {event["pid"], event.value("tid", std::int64_t{0})};
    if (phase == "X") return check_whole(row, event);
    if (phase == "B" || phase == "E") return check_open(row, event, phase == "B");
    if (phase == "C") return check_counter(event);
    if (phase == "s" || phase == "f") return check_arrow(event, phase == "s");
    if (phase != "i") return fault("phase " + phase, event);
    if (event.contains("s") && event["s"] != "g" && event["s"] != "p" && event["s"] != "t")
      fault("a moment's scope is none of g, p and t", event);
  }

  void check_metadata(const Json& event) {
    static const std::map<std::string, const char*> kNeeds = {{"process_name", "name"},
                                                              {"process_labels", "labels"},
                                                              {"process_sort_index", "sort_index"},
                                                              {"thread_name", "name"},
                                                              {"thread_sort_index", "sort_index"}};
    const std::string name = event["name"];
    // Horovod's own metadata, which viewers ignore.
    if (name == "timeline_end" ||
        (name == "process_name" &&
         event.value("args", Json::object()).contains("start_time_since_epoch_in_micros")))
      return;
    const auto needs = kNeeds.find(name);
    if (needs == kNeeds.end()) return fault("metadata that no viewer knows", event);
    if (!event.contains("args") || !event["args"].contains(needs->second))
      return fault("metadata without its argument", event);
    const Json& value = event["args"][needs->second];
    if (name.ends_with("sort_index") ? !value.is_number_integer() : !value.is_string())
      fault("metadata of the wrong type", event);
    if (!name.starts_with("thread_")) return;
    if (!event.contains("tid")) return fault("a row's metadata without its tid", event);
    if (name == "thread_name" && !names_.emplace(Row{event["pid"], event["tid"]}, value).second)
      fault("a row has two names", event);
  }

  void check_whole(const Row& row, const Json& event) {
    ++written_;
    if (!is_time(event, "dur")) return fault("dur is no duration", event);
    slices_[row].push_back({ns(event, "ts"), ns(event, "ts") + ns(event, "dur"), index_});
  }

  void check_open(const Row& row, const Json& event, bool begins) {
    const std::int64_t at_ns = ns(event, "ts");
    std::int64_t& last_ns = last_ns_[row];
    if (at_ns < last_ns) fault("a row goes back in time", event);
    last_ns = std::max(last_ns, at_ns);
    std::vector<Slice>& open = open_[row];
    if (begins) {
      ++written_;
      open.push_back({last_ns, last_ns, index_});
    } else if (open.empty()) {
      fault("an end has no beginning", event);
    } else {
      open.back().end_ns = last_ns;
      slices_[row].push_back(open.back());
      open.pop_back();
    }
  }

  void check_counter(const Json& event) {
    if (!event.contains("args") || event["args"].empty()) return fault("a counter has no value", event);
    for (const auto& [key, value] : event["args"].items()) {
      if (!value.is_number()) fault("a counter's value is no number", event);
    }
  }

  void check_arrow(const Json& event, bool begins) {
    if (!event.contains("id") || !(event["id"].is_number_integer() || event["id"].is_string()))
      return fault("an arrow has no id", event);
    if (!event.contains("cat") || !event["cat"].is_string()) return fault("an arrow has no category", event);
    if (!event.contains("tid")) return fault("an arrow has no row", event);
    Arrow& arrow = arrows_[{event["id"].dump(), event["name"], event["cat"]}];
    (begins ? arrow.begins : arrow.ends) += 1;
    (begins ? arrow.begin_ns : arrow.end_ns) = ns(event, "ts");
    arrow_ends_.emplace_back(Row{event["pid"], event["tid"]},
                             Slice{ns(event, "ts"), ns(event, "ts"), index_});
  }

  void check_nesting(const Row& row, std::vector<Slice>& slices) {
    std::ranges::sort(slices, {}, [](const Slice& one) {  // the outer one first
      return std::tuple(one.begin_ns, -one.end_ns, one.index);
    });
    std::vector<Slice> open;
    std::erase_if(slices, [&](const Slice& slice) {
      while (!open.empty() && open.back().end_ns <= slice.begin_ns) open.pop_back();
      const bool crosses = !open.empty() && slice.end_ns > open.back().end_ns;
      if (crosses) {
        fault(fmt::format("one from {} to {} ns crosses the end of another at {}", slice.begin_ns,
                          slice.end_ns, open.back().end_ns),
              row);
      } else {
        open.push_back(slice);
        ++imported_;
      }
      return crosses;
    });
  }

  void check_place(const Row& row, const Slice& end) {
    const std::vector<Slice>& slices = slices_[row];  // sorted
    auto slice = std::ranges::upper_bound(slices, end.begin_ns, {}, &Slice::begin_ns);
    while (slice != slices.begin()) {
      --slice;
      if (end.begin_ns <= slice->end_ns && (slice->begin_ns < end.begin_ns || slice->index < end.index))
        return;
    }
    fault(fmt::format("an arrow's end at {} ns lies in no slice", end.begin_ns), row);
  }

  std::size_t index_ = 0, written_ = 0, imported_ = 0;
  std::map<Row, std::vector<Slice>> slices_, open_;
  std::map<Row, std::int64_t> last_ns_;
  std::map<Row, std::string> names_;
  std::map<std::tuple<std::string, std::string, std::string>, Arrow> arrows_;
  std::vector<std::pair<Row, Slice>> arrow_ends_;
  std::set<std::string> known_;
  std::vector<std::string> faults_;
};

/// The faults in the form of a trace, {"traceEvents": [...]} or [...].
inline std::vector<std::string> form_faults(const nlohmann::json& trace) {
  TraceForm form;
  form.check(trace.is_object() ? trace.value("traceEvents", nlohmann::json()) : trace);
  return form.faults();
}

}  // namespace dabke::test
