#include "runtime/diagnosis/live/job_figures.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dabke::diagnosis {
namespace {

using FiguresJson = nlohmann::json;

constexpr std::string_view kFiguresFormat = "dabke-figures";
constexpr std::string_view kFiguresKey = "figures";
constexpr int kFiguresVersion = 1;
constexpr std::array<std::string_view, 4> kRankStates = {"computes", "waits", "communicates", "idle"};
/// A rank that has sent nothing for so many seconds is stopped, or its network is down.
constexpr double kSilent = 3;

// One list of fields serves writing and reading.
template <class Field, class Row>
void for_each_field(Field field, Row& row) {
  auto& figures = row.figures;
  field("rank", figures.rank);
  field("steps", figures.steps);
  field("step", figures.step);
  field("step_us", figures.step_us);
  field("bytes", figures.bytes);
  field("batches", figures.batches);
  field("pending", figures.pending);
  field("state_ms", figures.state_ms);
  field("what", figures.what);
  field("host", row.host);
  field("caused_s", row.caused_s);
  field("age_s", row.age_s);
}

std::string lasting(double seconds) {
  if (seconds < 0.1) return "";
  if (seconds < 60) return fmt::format(", {:.1f} s", seconds);
  return fmt::format(", {:.0f} min", seconds / 60);
}

std::string state_of(const JobFigures::Row& row) {
  const RankFigures& figures = row.figures;
  if (row.age_s > kSilent) return fmt::format("has not answered for {:.0f} s", row.age_s);
  std::string text(kRankStates[static_cast<std::size_t>(figures.state)]);
  if (figures.state == RankFigures::State::waits) text += " for";
  if (!figures.what.empty()) text += " " + figures.what;
  return text + lasting(static_cast<double>(figures.state_ms) / 1000);
}

/// Names of tensors and hosts may contain any bytes, and a terminal would obey some of them.
std::string printable(std::string text) {
  for (char& each : text) {
    if (static_cast<unsigned char>(each) < 0x20 || each == 0x7f) each = '?';
  }
  return text;
}

/// Returns at most `columns` bytes, and does not cut a character of several bytes.
std::string cut(std::string text, std::size_t columns) {
  if (text.size() <= columns) return text;
  while (columns > 0 && (static_cast<unsigned char>(text[columns]) & 0xc0) == 0x80) --columns;
  text.resize(columns);
  return text;
}

}  // namespace

std::string to_json(const JobFigures& job) {
  FiguresJson ranks = FiguresJson::array();
  for (const JobFigures::Row& row : job.ranks) {
    FiguresJson& one = ranks.emplace_back();
    for_each_field([&one](const char* name, const auto& value) { one[name] = value; }, row);
    one["state"] = kRankStates[static_cast<std::size_t>(row.figures.state)];
  }
  const FiguresJson all = {{"format", kFiguresFormat},
                           {"version", kFiguresVersion},
                           {"size", job.size},
                           {"time_s", job.time_s},
                           {"ranks", std::move(ranks)}};
  return all.dump(-1, ' ', false, FiguresJson::error_handler_t::replace);
}

Result<JobFigures> parse_figures(const std::string& text) {
  try {
    const FiguresJson all = FiguresJson::parse(text);
    if (all.at("format") != kFiguresFormat || all.at("version") != kFiguresVersion)
      return Status(Code::mismatch, "these figures come from another version of Dabke");
    JobFigures job{.size = all.at("size"), .time_s = all.at("time_s")};
    for (const FiguresJson& one : all.at("ranks")) {
      JobFigures::Row& row = job.ranks.emplace_back();
      for_each_field([&one](const char* name, auto& value) { one.at(name).get_to(value); }, row);
      const auto state = std::ranges::find(kRankStates, one.at("state").get<std::string>());
      if (state == kRankStates.end()) return Status(Code::mismatch, "figures of an unknown state");
      row.figures.state = static_cast<RankFigures::State>(state - kRankStates.begin());
    }
    return job;
  } catch (const FiguresJson::exception& error) {
    return Status(Code::mismatch, fmt::format("not valid figures: {}", error.what()));
  }
}

std::string figures_key() { return std::string(kFiguresKey); }
bool is_figures_key(const std::string& key) {
  return key == kFiguresKey ||
         (key.ends_with(kFiguresKey) && key[key.size() - kFiguresKey.size() - 1] == '/');
}

void FiguresTable::take(JobFigures job) {
  if (last_ && (job.time_s < last_->time_s || job.size != last_->size)) last_.reset();
  before_ = std::exchange(last_, std::move(job));
}

const JobFigures::Row* FiguresTable::before(Rank rank) const {
  if (!before_) return nullptr;
  const auto row =
      std::ranges::find(before_->ranks, rank, [](const auto& each) { return each.figures.rank; });
  return row == before_->ranks.end() ? nullptr : &*row;
}

std::vector<std::string> FiguresTable::lines(std::size_t columns, std::size_t rows) const {
  if (!last_) return {};
  struct Line {
    const JobFigures::Row* row;
    double caused_ms = 0;  // milliseconds a second
    double mb = 0;         // a second
  };
  const double seconds = before_ ? last_->time_s - before_->time_s : 0;
  std::vector<Line> shown;
  double mb = 0;
  for (const JobFigures::Row& row : last_->ranks) {
    Line line{&row};
    if (const auto* const past = before(row.figures.rank); past != nullptr && seconds > 0) {
      line.caused_ms = std::max(0.0, row.caused_s - past->caused_s) * 1000 / seconds;
      line.mb = static_cast<double>(row.figures.bytes - std::min(row.figures.bytes, past->figures.bytes)) /
                1e6 / seconds;
    }
    mb += line.mb;
    shown.push_back(line);
  }
  std::size_t host = 4;
  for (const Line& line : shown) host = std::max(host, std::min<std::size_t>(24, line.row->host.size()));
  const std::size_t room = rows > 3 ? rows - 3 : 1;
  const bool are_all_shown = shown.size() <= room;
  if (!are_all_shown) {
    std::ranges::stable_sort(shown, std::greater(), &Line::caused_ms);
    shown.resize(room);
  }
  std::vector<std::string> text;
  std::string head = fmt::format("{} of {} ranks report", last_->ranks.size(), last_->size);
  if (before_ && !last_->ranks.empty())
    head += fmt::format(", {:.1f} MB/s each on average", mb / static_cast<double>(last_->ranks.size()));
  if (!are_all_shown) head += fmt::format("; below are the {} that others wait for most", shown.size());
  text.push_back(std::move(head));
  text.push_back(fmt::format("{:>5} {:{}} {:>9} {:>10} {:>12} {:>8} {:>6}  {}", "rank", "host", host, "step",
                             "step time", "waits caused", "MB/s", "queue", "state"));
  for (const Line& line : shown) {
    const RankFigures& figures = line.row->figures;
    text.push_back(fmt::format(
        "{:>5} {:{}.{}} {:>9} {:>10} {:>12} {:>8} {:>6}  {}", figures.rank, printable(line.row->host), host,
        host, figures.steps == 0 ? "-" : fmt::format("{}", figures.step),
        figures.step_us == 0 ? "-" : fmt::format("{:.1f} ms", static_cast<double>(figures.step_us) / 1000),
        before_ ? fmt::format("{:.0f} ms/s", line.caused_ms) : "-",
        before_ ? fmt::format("{:.1f}", line.mb) : "-", figures.pending, printable(state_of(*line.row))));
  }
  for (std::string& line : text) line = cut(std::move(line), columns);
  return text;
}

}  // namespace dabke::diagnosis
