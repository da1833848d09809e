#include "timeline_viewer/command_line.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "runtime/base/text/spelling.h"

namespace dabke::viewer {
namespace {

/// Checks the command, since the library's error would only be that it did not expect the word.
Status check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-')) return {};
  const std::string& given = arguments.front();
  std::vector<std::string> commands;
  for (const CLI::App* const each : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(each->get_name());
  if (std::ranges::find(commands, given) != commands.end()) return {};
  const std::string closest = closest_name(given, commands, 2);
  return {Code::invalid_argument,
          fmt::format("{}: unknown command; {}; see dabke-timeline --help", given,
                      closest.empty() ? fmt::format("commands are {}", fmt::join(commands, ", "))
                                      : fmt::format("did you mean {}", closest))};
}

/// The grammar of the command line, and the values that it fills.
class Grammar {
 public:
  explicit Grammar(CommandLine& wanted);

  CLI::App app;
  bool is_version_wanted = false, opens_no_browser = false;

  /// Returns the command of the parsed line; nothing if it names none.
  std::optional<Command> chosen() const;

 private:
  void add_commands_of_records();
  void add_commands_of_traces();
  void add_top();
  CLI::App* add(Command command, const std::string& name, const std::string& description);

  CommandLine& wanted_;
  std::vector<std::pair<Command, CLI::App*>> commands_;
};

Grammar::Grammar(CommandLine& wanted)
    : app("Reads what the ranks of a job have recorded (DABKE_TIMELINE), and traces. docs/timeline.md "
          "explains "
          "all of it.",
          "dabke-timeline"),
      wanted_(wanted) {
  app.add_flag("--version", is_version_wanted, "Print the version");
  add_commands_of_records();
  add_commands_of_traces();
  add_top();
  // Set after the commands were added, since they would inherit it.
  app.footer(
      "\nAs a rule:\n"
      "  dabkerun -np 4 --timeline-filename trace.json ./train\n"
      "  dabke-timeline report trace.json\n"
      "  dabke-timeline view trace.json");
}

CLI::App* Grammar::add(Command command, const std::string& name, const std::string& description) {
  return commands_.emplace_back(command, app.add_subcommand(name, description)).second;
}

void Grammar::add_commands_of_records() {
  const std::string files =
      "trace.json for trace.json.rank0, trace.json.rank1, ...; or these files themselves";
  auto* const merge =
      add(Command::merge, "merge", "Make one Chrome trace of all ranks, for https://ui.perfetto.dev");
  merge->add_option("records", wanted_.files, files)->required();
  merge->add_option("-o,--output", wanted_.output,
                    "Where to; compressed if it ends with .gz. [the name before .rank0]");
  auto* const check =
      add(Command::check, "check", "Say what is wrong with the records, and where; exit code 1 then");
  check->add_option("records", wanted_.files, files)->required();
}

void Grammar::add_commands_of_traces() {
  const std::string traces =
      "traces of Dabke, Horovod or PyTorch's profiler, plain or .gz (several: one of each rank, or one of "
      "Dabke and profiles of its ranks); or records";
  auto* const report = add(Command::report, "report",
                           "Say what the steps wait for, which rank delays the others, and what to do");
  report->add_option("traces", wanted_.files, traces)->required();
  report->add_flag("--json", wanted_.json, "Print it as JSON");
  auto* const diff = add(Command::diff, "diff", "Compare two traces: what became slower or faster");
  diff->add_option("traces", wanted_.files, "The one before, and the one after")->required()->expected(2);
  const std::string shown =
      "traces, plain or .gz, of one job (one of each rank) or of several; or records, as for merge";
  auto* const view =
      add(Command::view, "view", "Show traces in the browser, from this machine to this machine alone");
  view->add_option("traces", wanted_.files, shown)->required();
  view->add_flag("--no-open", opens_no_browser, "Print the address, and open no browser");
  auto* const page = add(Command::export_page, "export",
                         "Make one HTML file of traces, to be opened anywhere without this tool");
  page->add_option("traces", wanted_.files, shown)->required();
  page->add_option("-o,--output", wanted_.output, "Where to. [the first trace's name with .html]");
}

void Grammar::add_top() {
  auto* const top =
      add(Command::top, "top",
          "Look at a job that runs: what each rank does, once a second (start the job with DABKE_TOP=0)");
  top->add_option(
      "address", wanted_.top.address,
      "Where rank 0 shows it, HOST:PORT, as in node1:4711 or [fd00::2]:4711. [the only job there is]");
  top->add_option("--key-file", wanted_.top.key_file,
                  "The file with the key. [in ~/.dabke, where rank 0 puts it]");
  top->add_flag("--json", wanted_.top.json, "Print it as JSON, a line each second");
  top->add_flag("--once", wanted_.top.once, "Print it once, and end");
}

std::optional<Command> Grammar::chosen() const {
  if (is_version_wanted) return Command::version;
  for (const auto& [command, app_of_it] : commands_) {
    if (app_of_it->parsed()) return command;
  }
  return std::nullopt;
}

}  // namespace

Result<CommandLine> parse_command_line(std::vector<std::string> arguments) {
  CommandLine wanted;
  Grammar grammar(wanted);
  DABKE_RETURN_IF_ERROR(check_command(grammar.app, arguments));
  std::ranges::reverse(arguments);  // the order that the library requires
  try {
    grammar.app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = grammar.app.get_subcommands();
    wanted.text = chosen.empty() ? grammar.app.help() : chosen.front()->help(grammar.app.get_name());
    return wanted;
  } catch (const CLI::ParseError& error) {
    return Status(Code::invalid_argument, std::string(error.what()) + "; see dabke-timeline --help");
  }
  wanted.opens_browser = !grammar.opens_no_browser;
  if (const auto command = grammar.chosen()) {
    wanted.command = *command;
  } else {
    wanted.text = grammar.app.help();
  }
  return wanted;
}

}  // namespace dabke::viewer
