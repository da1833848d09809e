#include "timeline_viewer/command_line.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "runtime/base/text/spelling.h"

namespace dabke::timeline {
namespace {

/// The library would say only that it had not expected the word.
Status check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-')) return {};
  const std::string& given = arguments.front();
  std::vector<std::string> commands;
  for (const CLI::App* const each : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(each->get_name());
  if (std::ranges::find(commands, given) != commands.end()) return {};
  const std::string closest = closest_name(given, commands, 2);
  return {Code::invalid_argument,
          fmt::format("{}: no such command; {}; see dabke-timeline --help", given,
                      closest.empty() ? fmt::format("commands are {}", fmt::join(commands, ", "))
                                      : fmt::format("did you mean {}", closest))};
}

}  // namespace

Result<CommandLine> parse_command_line(std::vector<std::string> arguments) {
  CommandLine wanted;
  CLI::App app(
      "Reads what the ranks of a job have recorded (DABKE_TIMELINE), and traces. docs/timeline.md explains "
      "all of it.",
      "dabke-timeline");
  bool version = false;
  app.add_flag("--version", version, "Print the version");
  const std::string files =
      "trace.json for trace.json.rank0, trace.json.rank1, ...; or these files themselves";
  auto* const merge =
      app.add_subcommand("merge", "Make one Chrome trace of all ranks, for https://ui.perfetto.dev");
  merge->add_option("records", wanted.files, files)->required();
  merge->add_option("-o,--output", wanted.output,
                    "Where to; compressed if it ends with .gz. [the name before .rank0]");
  auto* const check =
      app.add_subcommand("check", "Say what is wrong with the records, and where; exit code 1 then");
  check->add_option("records", wanted.files, files)->required();
  const std::string traces =
      "a trace of Dabke, Horovod or PyTorch's profiler (several: one of each rank), plain or .gz; or "
      "records, as for merge";
  auto* const report = app.add_subcommand(
      "report", "Say what the steps wait for, which rank holds the others up, and what to do");
  report->add_option("traces", wanted.files, traces)->required();
  report->add_flag("--json", wanted.json, "Print it as JSON");
  auto* const diff = app.add_subcommand("diff", "Compare two traces: what became slower or faster");
  diff->add_option("traces", wanted.files, "The one before, and the one after")->required()->expected(2);
  const std::string shown =
      "traces, plain or .gz, of one job (one of each rank) or of several; or records, as for merge";
  bool no_open = false;
  auto* const view =
      app.add_subcommand("view", "Show traces in the browser, from this machine to this machine alone");
  view->add_option("traces", wanted.files, shown)->required();
  view->add_flag("--no-open", no_open, "Print the address, and open no browser");
  auto* const page =
      app.add_subcommand("export", "Make one HTML file of traces, to be opened anywhere without this tool");
  page->add_option("traces", wanted.files, shown)->required();
  page->add_option("-o,--output", wanted.output, "Where to. [the first trace's name with .html]");
  auto* const top = app.add_subcommand(
      "top", "Look at a job that runs: what each rank does, once a second (start the job with DABKE_TOP=0)");
  top->add_option(
      "address", wanted.top.address,
      "Where rank 0 shows it, HOST:PORT, as in node1:4711 or [fd00::2]:4711. [the only job there is]");
  top->add_option("--key-file", wanted.top.key_file,
                  "The file with the key. [in ~/.dabke, where rank 0 puts it]");
  top->add_flag("--json", wanted.top.json, "Print it as JSON, a line each second");
  top->add_flag("--once", wanted.top.once, "Print it once, and end");
  // After the commands, which would have it too.
  app.footer(
      "\nAs a rule:\n"
      "  dabkerun -np 4 --timeline-filename trace.json ./train\n"
      "  dabke-timeline report trace.json\n"
      "  dabke-timeline view trace.json");
  DABKE_RETURN_IF_ERROR(check_command(app, arguments));
  std::ranges::reverse(arguments);  // as the library wants them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    wanted.text = chosen.empty() ? app.help() : chosen.front()->help(app.get_name());
    return wanted;
  } catch (const CLI::ParseError& error) {
    return Status(Code::invalid_argument, std::string(error.what()) + "; see dabke-timeline --help");
  }
  wanted.opens_browser = !no_open;
  if (version) {
    wanted.command = Command::version;
  } else if (merge->parsed()) {
    wanted.command = Command::merge;
  } else if (check->parsed()) {
    wanted.command = Command::check;
  } else if (report->parsed()) {
    wanted.command = Command::report;
  } else if (diff->parsed()) {
    wanted.command = Command::diff;
  } else if (view->parsed()) {
    wanted.command = Command::view;
  } else if (page->parsed()) {
    wanted.command = Command::export_page;
  } else if (top->parsed()) {
    wanted.command = Command::top;
  } else {
    wanted.text = app.help();
  }
  return wanted;
}

}  // namespace dabke::timeline
