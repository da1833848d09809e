#include "runtime/diagnosis/dump.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dabke {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "dabke-dump";
constexpr int kVersion = 1;

// One list of fields for both ways: `field(name, value)` writes the value, or reads it.
template <class Field, class Pending>
void fields_of_pending(Field field, Pending& pending) {
  field("name", pending.name);
  field("collective", pending.collective);
  field("process_set", pending.process_set);
  field("signature", pending.signature);
  field("age_s", pending.age);
  field("state", pending.state);
}

template <class Field, class Event>
void fields_of_event(Field field, Event& event) {
  field("what", event.what);
  field("age_s", event.age);
  field("name", event.name);
  field("collective", event.collective);
  field("process_set", event.process_set);
  field("number", event.number);
  field("tensors", event.tensors);
  field("size_bytes", event.size_bytes);
}

template <class Field, class Stack>
void fields_of_stack(Field field, Stack& stack) {
  field("thread", stack.thread);
  field("name", stack.name);
  field("frames", stack.frames);
}

template <class Field, class DumpType>
void fields_of_dump(Field field, DumpType& dump) {
  field("reason", dump.reason);
  field("incident", dump.incident);
  field("job", dump.job);
  field("epoch", dump.epoch);
  field("rank", dump.rank);
  field("size", dump.size);
  field("host", dump.host);
  field("pid", dump.pid);
  field("unix_time", dump.unix_time);
  field("last_order", dump.last_order);
  field("submitted", dump.submitted);
  field("application_stack", dump.application_stack);
}

struct WriteTo {
  Json& json;
  void operator()(const char* name, const auto& value) const { json[name] = value; }
};

struct ReadFrom {
  const Json& json;
  template <class T>
  void operator()(const char* name, T& value) const {
    value = json.at(name).get<T>();
  }
};

}  // namespace

std::string to_json(const Dump& dump, std::size_t most_events) {
  Json out;
  out["format"] = kFormat;
  out["version"] = kVersion;
  fields_of_dump(WriteTo{out}, dump);
  out["pending"] = Json::array();
  for (const Dump::Pending& pending : dump.pending)
    fields_of_pending(WriteTo{out["pending"].emplace_back()}, pending);
  out["process_sets"] = Json::object();
  for (const auto& [id, ranks] : dump.process_sets) out["process_sets"][std::to_string(id)] = ranks;
  const std::size_t left_out = dump.events.size() - std::min(dump.events.size(), most_events);
  out["events_before"] = dump.events_before + left_out;
  out["events"] = Json::array();
  for (std::size_t i = left_out; i < dump.events.size(); ++i)
    fields_of_event(WriteTo{out["events"].emplace_back()}, dump.events[i]);
  out["stacks"] = Json::array();
  for (const Dump::Stack& stack : dump.stacks) fields_of_stack(WriteTo{out["stacks"].emplace_back()}, stack);
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Dump> parse_dump(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (json.value("format", "") != kFormat)
      return Status(Code::invalid_argument, "this is not a dump of Dabke");
    if (const int version = json.at("version").get<int>(); version != kVersion) {
      return Status(Code::invalid_argument,
                    fmt::format("the dump has version {}, this program reads version {}", version, kVersion));
    }
    Dump dump;
    fields_of_dump(ReadFrom{json}, dump);
    for (const Json& each : json.at("pending"))
      fields_of_pending(ReadFrom{each}, dump.pending.emplace_back());
    for (const auto& [id, ranks] : json.at("process_sets").items())
      dump.process_sets[std::stoi(id)] = ranks.get<std::vector<Rank>>();
    dump.events_before = json.at("events_before").get<std::uint64_t>();
    for (const Json& each : json.at("events")) fields_of_event(ReadFrom{each}, dump.events.emplace_back());
    for (const Json& each : json.at("stacks")) fields_of_stack(ReadFrom{each}, dump.stacks.emplace_back());
    return dump;
  } catch (const std::exception& error) {  // nlohmann-json's way of saying no
    return Status(Code::invalid_argument, fmt::format("the dump cannot be read: {}", error.what()));
  }
}

std::string stacks_to_text(const Dump& dump) {
  std::string text = dump.application_stack;
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  for (const Dump::Stack& stack : dump.stacks) {
    text += fmt::format("thread {} ({}):\n", stack.thread, stack.name);
    for (const std::string& frame : stack.frames) text += fmt::format("  {}\n", frame);
  }
  return text;
}

std::string dump_key(std::uint64_t incident, Rank rank) { return fmt::format("dumps/{}/{}", incident, rank); }

bool is_dump_key(const std::string& key) { return key.find("/dumps/") != std::string::npos; }

}  // namespace dabke
