#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/timeline/merge/merge.h"
#include "runtime/timeline/report/record_analysis.h"
#include "timeline_viewer/check.h"
#include "timeline_viewer/command_line.h"
#include "timeline_viewer/report_text.h"
#include "timeline_viewer/trace_analysis.h"
#include "timeline_viewer/view.h"

namespace {

using namespace dabke;
using namespace dabke::viewer;

int fail(const std::string& message, int exit_code = 1) {
  fmt::print(stderr, "dabke-timeline: {}\n", message);
  return exit_code;
}

int print(const std::string& text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return 0;
  return fail("cannot write to stdout");
}

bool are_records(const std::vector<std::string>& files) {
  const std::string& first = files.front();
  return !timeline::base_of_records(first).empty() ||
         (!std::filesystem::exists(first) && !timeline::record_files(first).empty());
}

/// A progress bar on a terminal, while a large file is read.
class ProgressBar {
 public:
  /// `times` is how often each file will be read.
  explicit ProgressBar(const std::vector<std::string>& files, std::uint64_t times = 1)
      : is_shown_(::isatty(STDERR_FILENO) != 0) {
    std::error_code failed;
    for (const std::string& file : files) {
      const auto bytes = std::filesystem::file_size(file, failed);
      if (!failed) all_ += times * bytes;
    }
  }
  ~ProgressBar() {
    if (percent_ >= 0) fmt::print(stderr, "\r{:40}\r", "");
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Returns a callback that counts the bytes that were read.
  timeline::OnProgress counting() {
    return [this](std::uint64_t bytes) {
      at(done_ += bytes);
      return true;
    };
  }
  void at(std::uint64_t bytes) {
    if (!is_shown_ || all_ < kLarge) return;
    const int percent = static_cast<int>(std::min<std::uint64_t>(100, 100 * bytes / all_));
    if (percent == percent_) return;
    percent_ = percent;
    fmt::print(stderr, "\rreading {:3} % {}", percent,
               std::string(static_cast<std::size_t>(percent / 4), '#'));
  }

 private:
  static constexpr std::uint64_t kLarge = 32 << 20;

  const bool is_shown_;
  std::uint64_t all_ = 0, done_ = 0;
  int percent_ = -1;
};

/// True for a single name that is not a file of records itself. It stands for the files of all ranks.
bool is_of_all_ranks(const std::vector<std::string>& files) {
  return files.size() == 1 && timeline::base_of_records(files.front()).empty();
}

/// Records are read twice: first to examine them, then to join them.
ProgressBar bar_of_records(const std::vector<std::string>& files) {
  if (!is_of_all_ranks(files)) return ProgressBar(files, 2);
  return ProgressBar(timeline::record_files(files.front()), 2);
}

Result<timeline::JobFiles> open_files(const std::vector<std::string>& files, ProgressBar& bar) {
  return is_of_all_ranks(files) ? timeline::JobFiles::find(files.front(), {}, bar.counting())
                                : timeline::JobFiles::open(files, bar.counting());
}

/// Makes one trace of the records.
Result<timeline::JobFiles> merge_files(const std::vector<std::string>& records, const std::string& output) {
  ProgressBar bar = bar_of_records(records);
  DABKE_ASSIGN_OR_RETURN(timeline::JobFiles files, open_files(records, bar));
  DABKE_RETURN_IF_ERROR(timeline::merge_records(files, output, bar.counting()));
  return files;
}

void print_notes(const timeline::JobFiles& files) {
  for (const std::string& note : files.notes()) fmt::print(stderr, "dabke-timeline: {}\n", note);
}

int merge(const CommandLine& wanted) {
  const std::string base = timeline::base_of_records(wanted.files.front());
  const std::string output = !wanted.output.empty() ? wanted.output
                             : base.empty()         ? wanted.files.front()
                                                    : base;
  const auto files = merge_files(wanted.files, output);
  if (!files) return fail(files.status().message());
  print_notes(*files);
  return print(
      fmt::format("{0}: {1}; 'dabke-timeline view {0}' shows it, and so does https://ui.perfetto.dev\n",
                  output, timeline::extent_text(*files)));
}

Result<std::pair<std::vector<std::string>, int>> check_files(const std::vector<std::string>& records) {
  ProgressBar bar = bar_of_records(records);
  DABKE_ASSIGN_OR_RETURN(const timeline::JobFiles files, open_files(records, bar));
  DABKE_ASSIGN_OR_RETURN(std::vector<std::string> faults, faults_of(files, bar.counting()));
  return std::pair(std::move(faults), files.size());
}

int check(const CommandLine& wanted) {
  const auto checked = check_files(wanted.files);
  if (!checked) return fail(checked.status().message());
  const auto& [faults, ranks] = *checked;
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  if (faults.empty()) text = fmt::format("{} ranks: nothing is wrong\n", ranks);
  const int printed = print(text);
  return faults.empty() ? printed : 1;
}

/// Returns the report of the traces, or of the records if the files are records.
Result<timeline::TraceReport> report_of_files(const std::vector<std::string>& files) {
  const bool is_of_records = are_records(files);
  ProgressBar bar = is_of_records ? bar_of_records(files) : ProgressBar(files);
  const bool is_mixed = files.size() > 1 && std::ranges::any_of(files, [](const std::string& file) {
                          return timeline::base_of_records(file).empty();
                        });
  if (is_of_records && is_mixed) {
    const std::string base = timeline::base_of_records(files.front());
    return Status(
        Code::invalid_argument,
        fmt::format("the records of '{0}' cannot be read together with other traces; make a trace of "
                    "them first, with 'dabke-timeline merge {0}'",
                    base.empty() ? files.front() : base));
  }
  if (!is_of_records) return report_of_traces(files, [&bar](std::uint64_t bytes) { bar.at(bytes); });
  DABKE_ASSIGN_OR_RETURN(const timeline::JobFiles records, open_files(files, bar));
  return timeline::report_of(records, std::filesystem::path(files.front()).filename(), bar.counting());
}

int report(const CommandLine& wanted) {
  const auto made = report_of_files(wanted.files);
  if (!made) return fail(made.status().message());
  return print(wanted.json ? timeline::json_of(*made) + "\n" : text_of(*made));
}

int diff(const CommandLine& wanted) {
  const auto before = report_of_files({wanted.files[0]});
  if (!before) return fail(before.status().message());
  const auto after = report_of_files({wanted.files[1]});
  if (!after) return fail(after.status().message());
  return print(difference_text(*before, *after));
}

/// Returns a trace that can be shown. For records, first makes the trace of all ranks in the same folder.
Result<std::string> trace_of(const std::string& file) {
  if (!are_records({file})) return file;
  const std::string base = timeline::base_of_records(file);
  const std::string trace = base.empty() ? file : base;
  DABKE_ASSIGN_OR_RETURN(const timeline::JobFiles merged, merge_files({trace}, trace));
  print_notes(merged);
  return trace;
}

/// Returns each trace once, however often its files are named.
Result<std::vector<std::string>> traces_of(const std::vector<std::string>& files) {
  std::vector<std::string> traces;
  std::set<std::string> bases;
  for (const std::string& file : files) {
    if (const std::string base = timeline::base_of_records(file); !base.empty() && !bases.insert(base).second)
      continue;
    DABKE_ASSIGN_OR_RETURN(std::string trace, trace_of(file));
    if (std::ranges::find(traces, trace) == traces.end()) traces.push_back(std::move(trace));
  }
  return traces;
}

/// Returns a JSON array in the form that the page expects.
Result<std::string> reports_as_json(const std::vector<std::string>& traces) {
  ProgressBar bar(traces);
  DABKE_ASSIGN_OR_RETURN(const auto made,
                         reports_of_traces(traces, [&bar](std::uint64_t bytes) { bar.at(bytes); }));
  std::string json;
  for (const timeline::TraceReport& report : made)
    json += (json.empty() ? "[" : ",") + timeline::json_of(report);
  return json + "]";
}

int show(const CommandLine& wanted) {
  const auto traces = traces_of(wanted.files);
  if (!traces) return fail(traces.status().message());
  const auto reports = reports_as_json(*traces);
  if (!reports) return fail(reports.status().message());
  if (wanted.command == Command::view) {
    const Status viewed = view_page(*traces, *reports, wanted.opens_browser);
    return viewed.is_ok() ? 0 : fail(viewed.message());
  }
  const std::string output = wanted.output.empty()
                                 ? std::filesystem::path(traces->front()).replace_extension(".html").string()
                                 : wanted.output;
  if (const Status exported = export_page(*traces, *reports, output); !exported.is_ok())
    return fail(exported.message());
  return print(fmt::format("{}: open it in a browser, on any machine\n", output));
}

int run(std::vector<std::string> arguments) {
  const auto wanted = parse_command_line(std::move(arguments));
  if (!wanted) return fail(wanted.status().message(), 2);
  switch (wanted->command) {
    case Command::help: return print(wanted->text);
    case Command::version: return print("dabke-timeline " DABKE_VERSION "\n");
    case Command::merge: return merge(*wanted);
    case Command::check: return check(*wanted);
    case Command::report: return report(*wanted);
    case Command::diff: return diff(*wanted);
    case Command::view:
    case Command::export_page: return show(*wanted);
    case Command::top: {
      const Status looked = look_at_job(wanted->top);
      return looked.is_ok() ? 0 : fail(looked.message());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    return fail("out of memory (see ulimit -v and the limit of the control group)");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
