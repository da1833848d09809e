#include "runtime/diagnosis/dumps/dump.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dabke::diagnosis {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "dabke-dump";
constexpr int kVersion = 1;

// One list of fields serves writing and reading: `field(name, value)` writes the value or reads it.
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

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Writes JSON as text, an item a line, without a tree of values. The destructor of such a tree allocates
/// memory, and the process ends if there is none.
class JsonText {
 public:
  void begin(char bracket, const char* name = nullptr) {
    begin_item(name);
    text_ += bracket;
    is_first_ = true;
    ++depth_;
  }
  void end(char bracket) {
    --depth_;
    if (!std::exchange(is_first_, false)) begin_line();
    text_ += bracket;
  }
  void item(const char* name, const auto& value) {
    begin_item(name);
    write(value);
  }
  /// Returns the function that the lists of fields call for each field.
  auto fields() {
    return [this](const char* name, const auto& value) { item(name, value); };
  }
  std::string take() { return std::move(text_) + "\n"; }

 private:
  void begin_item(const char* name) {
    if (!std::exchange(is_first_, false)) text_ += ',';
    if (depth_ > 0) begin_line();
    if (name != nullptr) text_ += fmt::format("\"{}\": ", name);
  }
  void begin_line() {
    text_ += '\n';
    text_.append(depth_, ' ');
  }
  void write(const std::string& value) { text_ += quoted(value); }
  void write(std::string_view value) { text_ += quoted(std::string(value)); }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void write(Number value) { text_ += fmt::format("{}", value); }
  template <class Element>
  void write(const std::vector<Element>& values) {
    text_ += '[';
    is_first_ = true;
    ++depth_;
    for (const Element& value : values) item(nullptr, value);
    end(']');
  }

  std::string text_;
  std::size_t depth_ = 0;
  bool is_first_ = true;
};

struct ReadFrom {
  const Json& json;
  template <class T>
  void operator()(const char* name, T& value) const {
    value = json.at(name).get<T>();
  }
};

}  // namespace

std::span<const Dump::Event> events_of_epoch(const Dump& dump) {
  const auto begin = std::ranges::find(dump.events.rbegin(), dump.events.rend(), "epoch", &Dump::Event::what);
  return {begin.base(), dump.events.end()};
}

std::string to_json(const Dump& dump, std::size_t most_events) {
  JsonText out;
  const auto each = [&out](auto&& write_fields) {
    out.begin('{');
    write_fields();
    out.end('}');
  };
  out.begin('{');
  out.item("format", kFormat);
  out.item("version", kVersion);
  fields_of_dump(out.fields(), dump);
  out.begin('[', "pending");
  for (const Dump::Pending& pending : dump.pending) each([&] { fields_of_pending(out.fields(), pending); });
  out.end(']');
  out.begin('{', "process_sets");
  for (const auto& [id, ranks] : dump.process_sets) out.item(std::to_string(id).c_str(), ranks);
  out.end('}');
  const std::size_t left_out = dump.events.size() - std::min(dump.events.size(), most_events);
  out.item("events_before", dump.events_before + left_out);
  out.begin('[', "events");
  for (std::size_t i = left_out; i < dump.events.size(); ++i)
    each([&] { fields_of_event(out.fields(), dump.events[i]); });
  out.end(']');
  out.begin('[', "stacks");
  for (const Dump::Stack& stack : dump.stacks) each([&] { fields_of_stack(out.fields(), stack); });
  out.end(']');
  out.end('}');
  return out.take();
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
  } catch (const std::exception& error) {  // the way in which nlohmann-json reports errors
    return Status(Code::invalid_argument, fmt::format("the dump cannot be read: {}", error.what()));
  }
}

std::string dump_key(std::uint64_t incident, Rank rank) { return fmt::format("dumps/{}/{}", incident, rank); }

bool is_dump_key(const std::string& key) { return key.find("/dumps/") != std::string::npos; }

std::string dumps_text(const std::vector<std::string>& paths, int size, bool is_one_host) {
  if (size == 1 && !paths.empty()) return fmt::format("what it was doing is in {}", paths.front());
  std::set<std::string> of_all;
  for (const std::string& path : paths) {
    const auto rank = path.rfind(".rank"), end = path.rfind('.');
    of_all.insert(
        rank == std::string::npos || end <= rank ? path : path.substr(0, rank) + ".rank*" + path.substr(end));
  }
  return fmt::format("what the ranks were doing is in {}{}", fmt::join(of_all, ", "),
                     is_one_host ? "" : ", each on its host");
}

std::string dump_file_key(Rank rank) { return fmt::format("dump-files/{}", rank); }

bool is_dump_file_key(const std::string& key) { return key.find("/dump-files/") != std::string::npos; }

}  // namespace dabke::diagnosis
