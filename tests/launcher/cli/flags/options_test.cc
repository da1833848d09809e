#include "launcher/cli/flags/options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include <catch2/catch.hpp>

#include "launcher/cli/flags/config_file.h"
#include "launcher/cli/flags/flag_parser.h"
#include "launcher/cli/flags/flags.h"
#include "launcher/cli/flags/help.h"
#include "runtime/base/settings/config.h"
#include "tests/facts.h"
#include "tests/skip.h"

namespace dabke::test {
using namespace launcher;
namespace {

using Words = std::vector<std::string>;

Result<Options> parse(const Words& words, const std::map<std::string, std::string>& variables = {}) {
  return parse_command_line(words, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_of(const Words& words) {
  const auto options = parse(words);
  return options.is_ok() ? "no error" : options.status().message();
}

}  // namespace

TEST_CASE("the first word that is no flag begins the command, which is left untouched") {
  const auto options =
      parse({"-np", "2", "--verbose", "./train", "--epochs", "10", "-np", "7", "--", "--verbose"});
  REQUIRE(options.is_ok());
  CHECK(options->num_proc == 2);
  CHECK(options->verbose);
  CHECK(options->command == Words{"./train", "--epochs", "10", "-np", "7", "--", "--verbose"});
  CHECK(parse({"-np", "1", "--", "-x"})->command == Words{"-x"});
}

TEST_CASE("Horovod's spellings mean the same") {
  for (const Words& words :
       {Words{"-np", "3", "x"}, Words{"-np=3", "x"}, Words{"--num-proc", "3", "x"},
        Words{"--num-proc=3", "x"}, Words{"--gloo", "-np", "3", "x"},
        Words{"-np", "3", "--disable-cache", "x"}, Words{"-np", "1", "-np", "3", "--no-autotune", "x"}}) {
    const auto options = parse(words);
    REQUIRE(options.is_ok());
    CHECK(options->num_proc == 3);
    CHECK(options->command == Words{"x"});
  }
  CHECK(parse({"-cb"})->action == Action::check_build);
  CHECK(parse({"-v"})->action == Action::version);
  CHECK(parse({"-np", "2", "--help", "knobs"})->action == Action::help);
  CHECK(parse({"-prefix-timestamp", "-np", "1", "x"})->timestamps);
  CHECK(parse({"-np", "1", "-hostfile", "f", "x"})->hostfile == "f");
  CHECK(parse({"-Hlocalhost:4", "x"})->hosts == "localhost:4");
  CHECK(parse({"--log-with-timestamp", "-np", "1", "x"})->knobs ==
        std::vector<std::pair<std::string, std::string>>{{"DABKE_LOG_HIDE_TIME", "0"}});
}

TEST_CASE("a flag of a knob becomes its variable, in the variable's unit") {
  const auto options =
      parse({"-np", "1", "--fusion-threshold-mb", "0.5", "--cycle-time-ms=2.5", "--timeline-mark-cycles",
             "--stall-check", "--log-level", "DEBUG", "--no-deterministic", "x"});
  REQUIRE(options.is_ok());
  CHECK(options->knobs ==
        std::vector<std::pair<std::string, std::string>>{{"DABKE_FUSION_THRESHOLD", "524288"},
                                                         {"DABKE_CYCLE_TIME", "2.5"},
                                                         {"DABKE_DETERMINISTIC", "0"},
                                                         {"DABKE_TIMELINE_MARK_CYCLES", "1"},
                                                         {"DABKE_STALL_CHECK_DISABLE", "0"},
                                                         {"DABKE_LOG_LEVEL", "DEBUG"}});
}

TEST_CASE("every knob is a flag, and what the flag sets is what init reads") {
  const Config defaults;
  for (const Knob& knob : knobs()) {
    CAPTURE(std::string(knob.flag));
    std::string value = knob_value(defaults, knob);
    for (const char* const text : {"text", "USR1", "1:2", "4711"}) {
      if (value.empty() && (knob.range.takes == nullptr || knob.range.takes(text))) value = text;
    }
    Words words{"-np", "1", "--" + std::string(knob.flag), value, "x"};
    if (knob.is_switch()) words.erase(words.begin() + 3);
    if (knob.flag_scale != 1) words[3] = "128";
    const auto options = parse(words);
    REQUIRE(options.is_ok());
    REQUIRE(options->knobs.size() == 1);
    const auto& [name, text] = options->knobs.front();
    CHECK(name == knob.env_name());
    Config read;
    CHECK(set_knob(read, knob, text, name).is_ok());
    CHECK(knob_value(read, knob) == (knob.is_switch() ? "1" : knob.flag_scale != 1 ? "134217728" : value));
  }
}

TEST_CASE("variables may be given again and again, and the grace period has fractions") {
  const auto options = parse({"-x", "A=1", "-np", "2", "-x", "B@1=[x,y]", "--env", "C",
                              "-xD=", "--grace-period", "0.5", "x", "-x", "E"});
  REQUIRE(options.is_ok());
  CHECK(options->variables ==
        std::vector<GivenVariable>{
            {"A", "1", {}}, {"B", "[x,y]", {{1, 1}}}, {"C", std::nullopt, {}}, {"D", "", {}}});
  CHECK(options->grace == std::chrono::milliseconds(500));
  CHECK(options->command == Words{"x", "-x", "E"});
}

TEST_CASE("a wrong command line is refused in one line that names flag, value and remedy") {
  CHECK(error_of({}) ==
        "the command is missing: give the program to start, as in dabkerun -np 2 ./train --epochs 10");
  CHECK(error_of({"-np", "0", "x"}) == "-np 0: expected the number of ranks, from 1 to 100000");
  CHECK_THAT(error_of({"-np", "two", "x"}), Catch::StartsWith("-np two: expected the number of ranks"));
  CHECK_THAT(error_of({"-np", "-2", "x"}), Catch::StartsWith("-np -2: expected the number of ranks"));
  CHECK_THAT(error_of({"-np", "2.5", "x"}), Catch::StartsWith("-np 2.5: expected the number of ranks"));
  CHECK(error_of({"-np"}) == "-np: its value is missing");
  CHECK(error_of({"-np=", "x"}) == "-np: its value is empty");
  CHECK(error_of({"--verbos", "-np", "1", "x"}) == "--verbos: unknown option; did you mean --verbose?");
  CHECK(error_of({"--cycle-time", "1", "x"}) ==
        "--cycle-time: unknown option; did you mean --cycle-time-ms?");
  CHECK(error_of({"--qqq", "x"}) ==
        "--qqq: unknown option; dabkerun --help lists all options, and -- ends them");
  CHECK(error_of({"-q", "x"}) == "-q: unknown option; dabkerun --help lists all options, and -- ends them");
  CHECK(error_of({"--verbose=1", "x"}) == "--verbose=1: --verbose is a switch and takes no value");
  CHECK(error_of({"-np", "1", "--stdin", "all", "x"}) == "--stdin all: expected 0 (rank 0 reads it) or none");
  CHECK(error_of({"-np", "1", "--bind-to", "socket", "x"}) ==
        "--bind-to socket: expected auto, core or none");
  CHECK(error_of({"-H", "a:1", "--hostfile", "f", "x"}) ==
        "-H a:1 and --hostfile f both name the hosts: give only one");
  CHECK_THAT(error_of({"--tcp", "-np", "1", "x"}),
             Catch::StartsWith("--tcp: neither MPICH nor Open MPI has it"));
  CHECK(error_of({"--launcher", "rsh", "x"}) == "--launcher rsh: expected one of auto, ssh, slurm, mpi");
  CHECK(error_of({"--mpi-args", "-v", "x"}) == "--mpi-args -v: only valid with --launcher mpi");
  CHECK(error_of({"--ssh-args", "-o 'A=b", "x"}) == "--ssh-args -o 'A=b: a ' is not closed");
  CHECK(error_of({"--remote-shell", "a\"", "x"}) == "--remote-shell a\": a \" is not closed");
  CHECK(error_of({"--mpi", "--mpi-args", "a\\", "x"}) ==
        "--mpi-args a\\: nothing follows the last backslash");
  for (const std::string value : {"-1", "soon", "nan", "1e9"})
    CHECK(error_of({"-np", "1", "--grace-period", value, "x"}) ==
          "--grace-period " + value + ": expected a number of seconds from 0 to 86400");
  CHECK_THAT(error_of({"-np", "1", "-x", "a b", "x"}), Catch::StartsWith("-x a b: expected a variable"));
  CHECK_THAT(error_of({"-p", "x", "-np", "2", "x"}), Catch::StartsWith("--ssh-port x: expected a port"));
}

TEST_CASE("a flag of another launcher is told with ours, or with why it is not needed") {
  CHECK(parse({"-n", "3", "x"})->num_proc == 3);
  for (const auto& [given, meant] : std::map<std::string, std::string>{
           {"--host", "-H"},
           {"-machinefile", "--hostfile"},
           {"-c", "-np, or --config-file"},
           {"--timeline", "--timeline-filename"},
           {"--log", "--log-level"},
           {"--nproc-per-node", "-H, with the number of ranks on each host, as in -H a:4,b:4"},
           {"--hsots", "--hosts"},
           {"--verbsoe", "--verbose"},
           {"--num_proc", "--num-proc"},
           {"--stall-check-w", "--stall-check-warning-time-seconds"},
       }) {
    INFO(given);
    CHECK(error_of({given, "2", "x"}) == given + ": unknown option; did you mean " + meant + "?");
  }
  CHECK(error_of({"--oversubscribe", "x"}) ==
        "--oversubscribe: not needed, because a host may have more slots than cores; leave it out");
  CHECK(error_of({"--map-by", "slot", "x"}) ==
        "--map-by: not needed, because ranks fill the hosts' slots in order and --bind-to binds them; leave "
        "it out");
  CHECK_THAT(error_of({"--allow-run-as-root", "x"}),
             Catch::StartsWith("--allow-run-as-root: not needed, because "));
}

TEST_CASE("the flags of an elastic job are read") {
  const Options options =
      *parse({"-np", "4", "--min-np", "2", "--max-num-proc", "8", "--spares", "1", "--reset-limit", "3",
              "--elastic-timeout", "1.5", "--blacklist-cooldown-range", "2", "60", "train", "5"});
  REQUIRE(options.elastic);
  CHECK(options.elastic->min_np == 2);
  CHECK(options.elastic->max_np == 8);
  CHECK(options.elastic->spares == 1);
  CHECK(options.elastic->reset_limit == 3);
  CHECK(options.elastic->wait_limit == std::chrono::milliseconds(1500));
  CHECK(options.elastic->least_cooldown == std::chrono::seconds(2));
  CHECK(options.elastic->most_cooldown == std::chrono::seconds(60));
  CHECK(options.command == std::vector<std::string>{"train", "5"});
  CHECK_FALSE(parse({"-np", "4", "x"})->elastic);
  // Without --min-np, no rank may be missing.
  CHECK(parse({"-np", "4", "--max-np", "8", "x"})->elastic->min_np == 4);
  CHECK(parse({"--host-discovery-script", "./hosts.sh", "x"})->elastic->min_np == 1);
  const Environment horovods = [](const std::string& name) -> std::optional<std::string> {
    return name == "HOROVOD_ELASTIC_TIMEOUT" ? std::optional<std::string>("7") : std::nullopt;
  };
  const std::vector<std::string> line{"--min-np", "1", "x"};
  CHECK(parse_command_line(line, horovods)->elastic->wait_limit == std::chrono::seconds(7));
}

TEST_CASE("flags of an elastic job that contradict each other are refused") {
  CHECK(error_of({"-np", "3", "--min-np", "4", "x"}) == "--min-np 4 is above -np 3");
  CHECK(error_of({"--min-np", "2", "--max-np", "1", "x"}) == "--min-np 2 is above --max-np 1");
  CHECK(error_of({"-np", "3", "--max-np", "2", "x"}) == "-np 3 is above --max-np 2");
  CHECK(error_of({"--min-np", "0", "x"}) == "--min-np 0: expected a whole number from 1 to 100000");
  CHECK(error_of({"--spares", "one", "x"}) == "--spares one: expected a whole number from 0 to 100000");
  CHECK(error_of({"--slots-per-host", "2", "-H", "a", "x"}) ==
        "--slots-per-host 2: only valid with --host-discovery-script; with fixed hosts, write -H name:slots");
  CHECK(error_of({"--host-discovery-script", "./hosts.sh", "-H", "a", "x"}) ==
        "--host-discovery-script ./hosts.sh and -H both name the hosts: give only one");
  CHECK_THAT(error_of({"--min-np", "1", "--blacklist-cooldown-range", "5", "1", "x"}),
             Catch::StartsWith("--blacklist-cooldown-range 5 1: expected two numbers"));
  CHECK_THAT(error_of({"--min-np", "1", "--elastic-timeout", "soon", "x"}),
             Catch::StartsWith("--elastic-timeout soon: expected a number of seconds"));
  CHECK_THAT(error_of({"--min-np", "1", "--mpi", "x"}), Catch::StartsWith("--launcher mpi: "));
}

TEST_CASE("help of a topic that is not there is refused, with the topics") {
  CHECK(error_of({"--help", "bogus"}) ==
        "--help bogus: unknown topic; topics are processes, elastic, remote, output, information, doctor, "
        "horovod, settings, all");
  CHECK(error_of({"--help", "setings"}) == "--help setings: unknown topic; did you mean settings?");
  CHECK(parse({"--help", "doctor"})->action == Action::help);
}

TEST_CASE("a bad value of a knob is refused with the row's text") {
  CHECK(
      error_of({"-np", "1", "--cycle-time-ms", "soon", "x"}) ==
      "--cycle-time-ms=soon is not valid: expected number of ms, at least 0. Wait at most this long "
      "for more tensors to fuse. 0 adapts: no wait while the network is idle, a short one while it is busy.");
  CHECK_THAT(error_of({"-np", "1", "--log-level", "loud", "x"}),
             Catch::StartsWith("--log-level=loud is not valid: expected one of trace debug"));
  CHECK_THAT(error_of({"-np", "1", "--dump-signal", "SEGV", "x"}),
             Catch::StartsWith("--dump-signal=SEGV is not valid: expected one of USR1 USR2"));
  for (const std::string value : {"-1", "x", "inf", "nan", "1e300"}) {
    CHECK_THAT(error_of({"-np", "1", "--fusion-threshold-mb", value, "x"}),
               Catch::StartsWith("--fusion-threshold-mb=" + value +
                                 " is not valid: expected a number (1048576 times it becomes "
                                 "DABKE_FUSION_THRESHOLD, whole number of bytes, at least 0)."));
  }
}

namespace {

/// A config file that exists as long as this object.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { std::ofstream(path()) << text; }
  ~ConfigFile() { std::filesystem::remove(path()); }
  static std::string path() {
    return std::filesystem::temp_directory_path() / ("dabke-config-" + std::to_string(::getpid()) + ".yaml");
  }
};

std::string error_in_file(const std::string& text) {
  const ConfigFile file(text);
  std::string error = error_of({"--config-file", ConfigFile::path(), "x"});
  const std::string before = "--config-file " + ConfigFile::path();
  return error.starts_with(before) ? error.substr(before.size()) : "(of something else) " + error;
}

}  // namespace

TEST_CASE("a config file says what flags say, after the variables and the command line") {
  if (!reads_config_files()) DABKE_SKIP("this build has no yaml-cpp");
  const ConfigFile file(
      "num_proc: 3\nverbose: true\ncycle-time-ms: 2\nfusion_threshold_mb: 4\nstall-check: false\n"
      "timeline: {filename: t.json, mark_cycles: on}\nautotune: {enabled: false}\nparams: {cache_capacity: "
      "5}\n");
  const auto options = parse({"--cycle-time-ms", "7", "--config-file", ConfigFile::path(), "x"},
                             {{"DABKE_TIMELINE", "mine.json"}, {"HOROVOD_CACHE_CAPACITY", "9"}});
  REQUIRE(options.is_ok());
  CHECK(options->num_proc == 3);
  CHECK(options->verbose);
  CHECK(options->knobs ==
        std::vector<std::pair<std::string, std::string>>{{"DABKE_FUSION_THRESHOLD", "4194304"},
                                                         {"DABKE_CYCLE_TIME", "7"},
                                                         {"DABKE_TIMELINE_MARK_CYCLES", "1"},
                                                         {"DABKE_STALL_CHECK_DISABLE", "1"}});
  CHECK(parse({"-np", "2", "--config-file", ConfigFile::path(), "x"})->num_proc == 2);
}

TEST_CASE("a switch with an opposite is on, off, or as is best, and the last of two wins") {
  CHECK(parse({"x"})->pty == std::nullopt);
  CHECK(parse({"--pty", "x"})->pty == true);
  CHECK(parse({"--pty", "--no-pty", "x"})->pty == false);
  if (!reads_config_files()) DABKE_SKIP("this build has no yaml-cpp");
  const ConfigFile file("pty: false\nno-prefix: false\n");
  CHECK(parse({"--config-file", ConfigFile::path(), "x"})->pty == false);
  CHECK(parse({"--config-file", ConfigFile::path(), "x"})->prefix);
  CHECK(parse({"--pty", "--config-file", ConfigFile::path(), "x"})->pty == true);
}

TEST_CASE("hosts of a config file give way to those of the command line, however they are said") {
  if (!reads_config_files()) DABKE_SKIP("this build has no yaml-cpp");
  const ConfigFile file("hosts: [a:2, b:1]\n");
  CHECK(parse({"--config-file", ConfigFile::path(), "x"})->hosts == "a:2,b:1");
  CHECK(parse({"--config-file", ConfigFile::path(), "x"})->hosts_from == ConfigFile::path());
  CHECK(parse({"-H", "c", "--config-file", ConfigFile::path(), "x"})->hosts_from.empty());
  const auto options = parse({"--hostfile", "f", "--config-file", ConfigFile::path(), "x"});
  REQUIRE(options.is_ok());
  CHECK(options->hosts.empty());
}

TEST_CASE("a key of a config file may be a flag's short name or another spelling") {
  if (!reads_config_files()) DABKE_SKIP("this build has no yaml-cpp");
  const ConfigFile file("np: 3\nH: a:3\np: 2222\nnetwork_interface: eth0\nlog-with-timestamp: false\n");
  const auto options = parse({"--config-file", ConfigFile::path(), "x"});
  REQUIRE(options.is_ok());
  CHECK(options->num_proc == 3);
  CHECK(options->hosts == "a:3");
  CHECK(options->ssh_port == "2222");
  CHECK(options->knobs == std::vector<std::pair<std::string, std::string>>{
                              {"DABKE_NETWORK_INTERFACE", "eth0"}, {"DABKE_LOG_HIDE_TIME", "1"}});
}

TEST_CASE(
    "of a flag that may be given again each part of a list in a config file counts, before the command "
    "line's") {
  if (!reads_config_files()) DABKE_SKIP("this build has no yaml-cpp");
  const ConfigFile file("env: ['A=1,2', MODE@0=fast]\nx: C\n");
  const auto options = parse({"-x", "A=3", "--config-file", ConfigFile::path(), "x"});
  REQUIRE(options.is_ok());
  CHECK(options->variables ==
        std::vector<GivenVariable>{
            {"A", "1,2", {}}, {"MODE", "fast", {{0, 0}}}, {"C", std::nullopt, {}}, {"A", "3", {}}});
}

TEST_CASE("the doctor takes hosts and flags, and no command") {
  const auto options = parse({"doctor", "-H", "a:4", "--json", "-p", "2222"});
  REQUIRE(options.is_ok());
  CHECK(options->action == Action::doctor);
  CHECK(options->hosts == "a:4");
  CHECK(options->json);
  CHECK(parse({"-np", "2", "doctor"})->action == Action::run);  // a program of that name
  CHECK(parse({"doctor", "--help"})->command == Words{"doctor"});
  CHECK(error_of({"-p", "2222", "doctor"}) ==
        "doctor: put it before its options: dabkerun doctor -p 2222; to run a program of that name, give -np "
        "or its path");
  CHECK(error_of({"doctor", "./train"}) ==
        "doctor ./train: the doctor does not start a command; leave it out");
  CHECK(error_of({"--json", "./train"}) == "--json: only valid with dabkerun doctor");
}

TEST_CASE("what is wrong in a config file is said with its line and what to do") {
  if (!reads_config_files()) DABKE_SKIP("this build has no yaml-cpp");
  CHECK(error_in_file("a: 1\n") ==
        " line 1: unknown key 'a': the keys are the options that dabkerun --help lists");
  CHECK(error_in_file("verbose: true\ncycle-tme-ms: 2\n") ==
        " line 2: unknown key 'cycle-tme-ms'; did you mean cycle-time-ms?");
  CHECK_THAT(error_in_file("cycle-time-ms: soon\n"),
             Catch::StartsWith(" line 1: --cycle-time-ms=soon is not valid: expected number of ms"));
  CHECK_THAT(error_in_file("ssh-port: 0\n"), Catch::StartsWith(" line 1: --ssh-port 0: expected a port"));
  CHECK(error_in_file("verbose: perhaps\n") == " line 1: 'verbose' is 'perhaps': expected true or false");
  CHECK(error_in_file("help: true\n") ==
        " line 1: unknown key 'help': the keys are the options that dabkerun --help lists");
  CHECK_THAT(error_in_file("env: [A=1, 'B C=2']\n"),
             Catch::StartsWith(" line 1: -x B C=2: expected a variable"));
  CHECK_THAT(error_in_file("autotune: true\n"),
             Catch::StartsWith(" line 1: 'autotune': autotuning is not supported"));
  CHECK_THAT(error_in_file("hosts:\n"), Catch::StartsWith(" line 1: 'hosts' has no value"));
  CHECK_THAT(error_in_file("- a\n"), Catch::StartsWith(" line 1: expected lines such as 'cycle-time-ms: 2'"));
  CHECK_THAT(error_in_file("a: [\n"), Catch::Contains("not valid YAML: "));
  CHECK_THAT(error_in_file("oversubscribe: true\n"),
             Catch::StartsWith(" line 1: 'oversubscribe': not needed, because "));
  CHECK(error_in_file("ntasks: 2\n") == " line 1: unknown key 'ntasks'; did you mean num-proc?");
  CHECK(error_in_file("num-proc: 2\nverbose: true\nnum-proc: 3\n") ==
        " line 3: 'num-proc' is given twice, first on line 1: keep one");
  CHECK(error_in_file("np: 2\nnum_proc: 3\n") ==
        " line 2: 'num-proc' is given twice, first on line 1: keep one");
  CHECK(error_in_file("timeline-filename: a\ntimeline: {filename: b}\n") ==
        " line 2: 'timeline-filename' is given twice, first on line 1: keep one");
  CHECK(error_in_file("env: A=1\nenv: B=2\n") == " line 2: 'env' is given twice, first on line 1: keep one");
  CHECK(error_of({"--config-file", "/tmp", "x"}) ==
        "--config-file /tmp: it is a directory: name a YAML file");
  CHECK_THAT(error_of({"--config-file", "/nowhere/x.yaml", "x"}),
             Catch::StartsWith("--config-file /nowhere/x.yaml: cannot read it: No such file"));
}

TEST_CASE("no flag is spelled like another") {
  // The parsing library throws here if a knob has taken the name of another flag.
  CHECK_NOTHROW(FlagParser());
}

TEST_CASE("the help text is the golden one") {
  const std::string path = SOURCE_ROOT "/tests/golden/dabkerun-help.txt";
  if (std::getenv("DABKE_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << help_text("all");
  std::ifstream file(path);
  std::ostringstream golden;
  golden << file.rdbuf();
  INFO("after a wanted change: DABKE_UPDATE_GOLDEN=1 test_launcher 'the help text*'");
  CHECK(help_text("all") == golden.str());
}

TEST_CASE("help of a topic is a part of the whole, and help without one names the topics") {
  const std::string all = help_text("all");
  for (const std::string topic : {"processes", "remote", "output", "information", "horovod", "settings"}) {
    INFO(topic);
    CHECK_THAT(all, Catch::Contains(help_text(topic)));
    CHECK_THAT(help_text(""), Catch::Contains(topic));
  }
  CHECK_THAT(help_text("settings"), Catch::Contains("--fusion-threshold-mb") && !Catch::Contains("--hosts"));
  CHECK_THAT(help_text("remote"), Catch::Contains("--ssh-port") && !Catch::Contains("--num-proc"));
  CHECK(help_text("python") == help_text(""));
  CHECK(help_text("knobs") == help_text("settings"));
  for (const char* topic : {"settings", "knobs"}) CHECK(parse({"--help", topic})->command == Words{topic});
}

TEST_CASE("help without a topic fits a terminal and names only flags that exist") {
  std::istringstream screen(help_text(""));
  std::size_t lines = 0, flags = 0;
  for (std::string line; std::getline(screen, line); ++lines) {
    CHECK(line.size() <= 80);
    if (!line.starts_with("  -")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word && word.starts_with('-'); ++flags) {
      if (word.ends_with(',')) word.pop_back();
      INFO(word);
      CHECK((FlagParser().find(word) != nullptr ||
             std::ranges::find(kAliases, word, &Alias::spelling) != kAliases.end()));
    }
  }
  CHECK(lines <= 24);
  CHECK(flags >= 10);
}

namespace {

/// The words that bash offers for the last of the words after dabkerun.
std::string completions(const std::string& words) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("dabke-completion-" + std::to_string(::getpid()));
  std::ofstream(path) << completion_script() << "COMP_WORDS=(dabkerun " << words
                      << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_dabkerun\necho \"${COMPREPLY[*]}\"\n";
  std::string out;
  const std::unique_ptr<FILE, int (*)(FILE*)> bash(::popen(("bash '" + path + "'").c_str(), "r"), ::pclose);
  char line[4096];
  while (bash && std::fgets(line, sizeof line, bash.get()) != nullptr) out += line;
  std::filesystem::remove(path);
  return out.substr(0, out.find('\n'));
}

}  // namespace

TEST_CASE("bash completes flags and their choices, and leaves the command's words alone") {
  if (std::system("bash -c true") != 0) DABKE_SKIP("bash is not installed");
  CHECK(completions("--verb") == "--verbose");
  CHECK(completions("-np 2 --launcher s") == "ssh slurm");
  CHECK(completions("--log-level tr") == "trace");
  CHECK_THAT(completions("--fusion-thresh"), Catch::Equals("--fusion-threshold-mb"));
  CHECK(completions("-np ''") == "");
  CHECK(completions("-np 2 ./train --verb") == "");
  CHECK_THAT(completions("-np 2 ec"), Catch::Contains("echo"));
}

}  // namespace dabke::test
