#include "runtime/timeline/joining/merged_events.h"

#include <string>

namespace dabke::timeline {
namespace {

constexpr std::size_t kLarge = 256 << 10;

}  // namespace

MergedEvents::MergedEvents(MergedFile& file, std::int64_t base_time_ns) : file_(file) {
  fmt::format_to(fmt::appender(text_), R"({{"displayTimeUnit":"ms","{}":{},"traceEvents":[)", kBaseTime,
                 base_time_ns);
}

fmt::memory_buffer& MergedEvents::next_event() {
  if (text_.size() >= kLarge) {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }
  text_.append(std::string_view(any_event_ ? ",\n" : "\n"));
  any_event_ = true;
  return text_;
}

void MergedEvents::finish(std::string_view other_data) {
  text_.append(std::string_view("\n],\"otherData\":"));
  text_.append(other_data);
  text_.append(std::string_view("}\n"));
  file_.write({text_.data(), text_.size()});
  text_.clear();
}

void MergedEvents::metadata(int pid, std::optional<RowId> row, Event event, const EventArguments& args) {
  fmt::format_to(fmt::appender(next_event()), R"({{"name":"{}","ph":"M","pid":{}{},"args":{{{}}}}})",
                 name_of(event), pid, row ? fmt::format(R"(,"tid":{})", *row) : "", args.text());
}

void MergedEvents::whole(int pid, RowId row, std::string_view quoted_name, const Interval& when,
                         const EventArguments& args) {
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", quoted_name,
                 pid, row, Micros{when.begin_ns}, Micros{when.end_ns - when.begin_ns}, args.text());
}

void MergedEvents::instant(int pid, RowId row, char scope, std::string_view name, std::int64_t at_ns,
                           const EventArguments& args) {
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"i","s":"{}","name":"{}","pid":{},"tid":{},"ts":{},"args":{{{}}}}})", scope, name,
                 pid, row, Micros{at_ns}, args.text());
}

void MergedEvents::counter(int pid, Event counter, std::int64_t at_ns, std::uint64_t value) {
  fmt::format_to(fmt::appender(next_event()), R"({{"ph":"C","name":"{}","pid":{},"ts":{},"args":{{{}}}}})",
                 name_of(counter), pid, Micros{at_ns}, EventArguments().add(Argument::value, value).text());
}

void MergedEvents::arrow(std::string_view category, Event event, const ArrowEnd& from, const ArrowEnd& to) {
  ++arrows_;
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"s","cat":"{}","name":"{}","id":{},"pid":{},"tid":{},"ts":{}}})", category,
                 name_of(event), arrows_, from.pid, from.row, Micros{from.at_ns});
  fmt::format_to(fmt::appender(next_event()),
                 R"({{"ph":"f","bp":"e","cat":"{}","name":"{}","id":{},"pid":{},"tid":{},"ts":{}}})",
                 category, name_of(event), arrows_, to.pid, to.row, Micros{to.at_ns});
}

}  // namespace dabke::timeline
