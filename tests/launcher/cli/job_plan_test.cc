#include "launcher/cli/job_plan.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Variables = std::vector<std::pair<std::string, std::string>>;

/// A job of four ranks, two of them here ("ada"), and two on "bob".
struct Example {
  Example() {
    options.num_proc = 4;
    options.command = {"./train", "--fast"};
    surroundings.environment = {"PATH=/opt/bin", "TERM=xterm", "SECRET=1", "HOSTNAME=ada"};
    surroundings.directory = [] { return "/home/ada"; };
    surroundings.own_program = std::string("/usr/bin/dabkerun");
    surroundings.most_descriptors = 1024;
    surroundings.find_hosts = [this](const Options&) { return hosts; };
    surroundings.find_program = [this](const std::string& name, const std::string& path) {
      searched = {name, path};
      return program;
    };
  }

  JobPlan plan() const {
    const Planning planning = plan_job(options, surroundings);
    const auto* refusal = std::get_if<JobRefusal>(&planning.result);
    INFO((refusal == nullptr ? "" : refusal->message));
    REQUIRE(refusal == nullptr);
    return std::get<JobPlan>(planning.result);
  }
  JobRefusal refusal() const {
    const Planning planning = plan_job(options, surroundings);
    REQUIRE(std::holds_alternative<JobRefusal>(planning.result));
    return std::get<JobRefusal>(planning.result);
  }

  Options options;
  Surroundings surroundings;
  Result<JobHosts> hosts = JobHosts{.hosts = {{"ada", 2}, {"bob", 2}}, .source = "-H", .here = "ada"};
  ProgramSearch program{.path = "/home/ada/train"};
  mutable std::pair<std::string, std::string> searched;
};

Result<JobHosts> only(const std::string& host, const std::string& here) {
  return JobHosts{.hosts = {{host, 4}}, .source = "-H", .here = here};
}

bool has(const std::vector<std::string>& environment, const std::string& variable) {
  return std::ranges::find(environment, variable) != environment.end();
}

}  // namespace

TEST_CASE("ranks fill the hosts in order, and each host gets an order for its own") {
  const JobPlan plan = Example().plan();
  CHECK(plan.kind == JobPlan::Kind::run);
  REQUIRE(plan.parts.size() == 2);
  CHECK(plan.parts[0].host == "ada");
  CHECK(plan.parts[0].is_here);
  CHECK(plan.parts[1].host == "bob");
  CHECK_FALSE(plan.parts[1].is_here);
  CHECK(plan.names_elsewhere() == std::vector<std::string>{"bob"});
  std::vector<int> ranks;
  for (const HostPlan& part : plan.parts) {
    CHECK(part.order.command == std::vector<std::string>{"./train", "--fast"});
    for (const RankPlacement& placement : part.placements()) {
      CHECK(placement.host == part.host);
      ranks.push_back(placement.rank);
    }
  }
  CHECK(ranks == std::vector<int>{0, 1, 2, 3});
  CHECK(plan.placements.size() == 4);
}

TEST_CASE("no order has a secret or an address in it: there is no job yet") {
  const JobPlan plan = Example().plan();
  for (const HostPlan& part : plan.parts) {
    CHECK(part.order.job_id.empty());
    CHECK(part.order.job_key.empty());
    CHECK(part.order.rendezvous.empty());
    CHECK_FALSE(part.order.carries_input);
  }
}

TEST_CASE(
    "ranks of this host have dabkerun's environment; those of others what may be forwarded, and their own") {
  Example example;
  example.surroundings.environment.push_back("SSH_CLIENT=10.0.0.1");
  example.options.knobs = {{"DABKE_PEER_TIMEOUT_SECONDS", "7"}};
  const JobPlan plan = example.plan();
  const PrepareMessage& here = plan.parts[0].order;
  const PrepareMessage& there = plan.parts[1].order;
  CHECK(here.environment == example.surroundings.environment);
  CHECK_FALSE(here.keeps_own_variables);
  CHECK(here.directory.empty());
  CHECK(here.peer_timeout_ms == 0);
  CHECK(has(there.environment, "SECRET=1"));
  CHECK_FALSE(has(there.environment, "SSH_CLIENT=10.0.0.1"));
  CHECK(there.keeps_own_variables);
  CHECK(there.directory == "/home/ada");
  CHECK(there.peer_timeout_ms == 7000);
}

TEST_CASE("variables of -x go to all ranks or to those that are named, and knobs of flags to all") {
  Example example;
  example.options.variables = {{"SECRET", "2", {}}, {"MODE", "fast", {{1, 2}}}};
  example.options.knobs = {{"DABKE_FUSION_THRESHOLD", "0"}};
  example.options.top = true;
  example.surroundings.is_stderr_terminal = true;
  const JobPlan plan = example.plan();
  for (const HostPlan& part : plan.parts) {
    CHECK(has(part.order.environment, "SECRET=2"));
    CHECK(part.order.variables == Variables{{"DABKE_FUSION_THRESHOLD", "0"}, {"DABKE_TOP", "launcher"}});
    for (const RankOrder& rank : part.order.ranks) {
      const bool is_named = rank.placement.rank == 1 || rank.placement.rank == 2;
      CHECK(rank.variables == (is_named ? Variables{{"MODE", "fast"}} : Variables{}));
    }
  }
}

TEST_CASE("ranks that record are told that dabkerun merges, with the name that flag or environment gives") {
  Example example;
  CHECK(example.plan().timeline.empty());
  example.surroundings.environment.push_back("DABKE_TIMELINE=t.json");
  JobPlan plan = example.plan();
  CHECK(plan.timeline == "t.json");
  CHECK(plan.parts[1].order.variables == Variables{{"DABKE_MERGES_TIMELINE", "t.json"}});
  example.options.knobs = {{"DABKE_TIMELINE", "flag.json"}};
  CHECK(example.plan().timeline == "flag.json");
}

TEST_CASE("the grace period, binding and verbosity of the command line are in every order") {
  Example example;
  CHECK(example.plan().parts[1].order.grace_ms == 4000);
  CHECK(example.plan().parts[1].order.bind_to == BindTo::automatic);
  example.options.grace = std::chrono::milliseconds(1500);
  example.options.bind_to = BindTo::core;
  example.options.verbose = true;
  for (const HostPlan& part : example.plan().parts) {
    CHECK(part.order.grace_ms == 1500);
    CHECK(part.order.bind_to == BindTo::core);
    CHECK(part.order.verbose);
  }
}

TEST_CASE("ranks get terminals where dabkerun's stdout is one, unless the command line says otherwise") {
  Example example;
  CHECK(example.plan().stdout_kind == StdoutKind::pipe);
  example.options.pty = true;
  CHECK(example.plan().stdout_kind == StdoutKind::terminal);
  example.options.pty = std::nullopt;
  example.surroundings.is_stdout_terminal = true;
  CHECK(example.plan().stdout_kind == StdoutKind::terminal_if_any);
  CHECK(example.plan().parts[1].order.stdout_kind == StdoutKind::terminal_if_any);
  example.options.pty = false;
  CHECK(example.plan().stdout_kind == StdoutKind::pipe);
}

TEST_CASE("prefixes have colours where the terminal takes them and NO_COLOR does not object") {
  Example example;
  const auto style_in = [&](std::vector<std::string> environment) {
    example.surroundings.environment = std::move(environment);
    const JobPlan plan = example.plan();
    return std::pair(plan.may_erase, plan.style.is_coloured);
  };
  CHECK(style_in({"TERM=xterm"}) == std::pair(true, true));
  CHECK(style_in({"TERM=xterm", "NO_COLOR="}) == std::pair(true, true));
  CHECK(style_in({"TERM=xterm", "NO_COLOR=1"}) == std::pair(true, false));
  CHECK(style_in({"TERM=dumb"}) == std::pair(false, false));
  CHECK(style_in({}) == std::pair(false, false));
  example.options.prefix = false;
  example.options.timestamps = true;
  CHECK_FALSE(example.plan().style.prefix);
  CHECK(example.plan().style.timestamps);
}

TEST_CASE("the program is searched as the ranks would, and only where some of them are here") {
  Example example;
  example.options.variables = {{"PATH", "/own/bin", {}}};
  (void)example.plan();
  CHECK(example.searched == std::pair<std::string, std::string>("./train", "/own/bin"));
  example.options.variables.clear();
  example.surroundings.environment = {};
  (void)example.plan();
  CHECK(example.searched.second == kStandardPath);

  example.searched = {};
  example.program = {.exit_code = 127, .message = "cannot run './train': no such file; check the path"};
  CHECK(example.refusal().exit_code == 127);
  CHECK(example.refusal().message == "cannot run './train': no such file; check the path");
  example.hosts = only("bob", "");
  example.searched = {};
  CHECK(example.plan().parts.size() == 1);
  CHECK(example.searched.first.empty());
}

TEST_CASE("a doctor that is called behind flags is told where it goes") {
  Example example;
  example.options.command = {"doctor"};
  example.program = {.exit_code = 127, .message = "cannot run 'doctor': no such program in PATH"};
  CHECK(example.refusal().message ==
        "cannot run 'doctor': no such program in PATH; put the doctor before all options: dabkerun doctor");
}

TEST_CASE("a job that needs more descriptors than the hard limit allows is refused with both numbers") {
  Example example;
  example.surroundings.most_descriptors = 16 + 4 * 4;
  CHECK(example.plan().placements.size() == 4);
  example.surroundings.inherited_descriptors = 1;
  CHECK(example.refusal().exit_code == 1);
  CHECK(example.refusal().message ==
        "4 ranks need 32 file descriptors in dabkerun besides 1 that it inherited, but its hard limit is 32 "
        "(ulimit -Hn): raise that limit or start fewer ranks");
  example.surroundings.inherited_descriptors = 0;
  example.options.output_directory = "out";
  CHECK_THAT(example.refusal().message, StartsWith("4 ranks need 40 file descriptors in dabkerun, but"));
  example.options.dry_run = true;  // a dry run takes no descriptors
  CHECK(example.plan().kind == JobPlan::Kind::description);
}

TEST_CASE("--top needs a terminal on stderr, and complains of that before it looks for hosts") {
  Example example;
  example.options.top = true;
  example.surroundings.find_hosts = nullptr;
  CHECK(example.refusal().exit_code == kUsageError);
  CHECK_THAT(example.refusal().message, StartsWith("--top needs a terminal on stderr"));
}

TEST_CASE("what is wrong with hosts, with the number of ranks or with variables is an error of usage") {
  Example example;
  SECTION("hosts") {
    example.hosts = Status(Code::invalid_argument, "-H a:0: ...");
    CHECK(example.refusal().message == "-H a:0: ...");
  }
  SECTION("started several times") {
    example.surroundings.environment = {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"};
    CHECK_THAT(example.refusal().message, Contains("has started dabkerun 2 times"));
  }
  SECTION("slots") {
    example.options.num_proc = 5;
    CHECK_THAT(example.refusal().message, StartsWith("-np 5 asks for more processes"));
  }
  SECTION("a variable that is not set") {
    example.options.variables = {{"NONE", std::nullopt, {}}};
    CHECK_THAT(example.refusal().message, StartsWith("-x NONE: not set in the environment of dabkerun"));
  }
  SECTION("a variable of a rank that is not there") {
    example.options.variables = {{"MODE", "fast", {{4, 4}}}};
    CHECK_THAT(example.refusal().message, StartsWith("-x MODE@4: the job has no rank 4"));
  }
  SECTION("a knob, where ranks are on other hosts") {
    example.surroundings.environment.push_back("DABKE_PEER_TIMEOUT_SECONDS=soon");
    CHECK_THAT(example.refusal().message, Contains("DABKE_PEER_TIMEOUT_SECONDS"));
  }
  CHECK(example.refusal().exit_code == kUsageError);
}

TEST_CASE("where all ranks are here they complain of a knob themselves") {
  Example example;
  example.hosts = only("ada", "ada");
  example.surroundings.environment.push_back("DABKE_PEER_TIMEOUT_SECONDS=soon");
  CHECK(example.plan().config.peer_timeout == Config().peer_timeout);
}

TEST_CASE("hosts run the dabkerun that this one is, unless the command line names theirs") {
  Example example;
  CHECK(example.plan().shell.dabkerun == "/usr/bin/dabkerun");
  example.surroundings.own_program = Status(Code::transport, "cannot find the path of dabkerun");
  CHECK(example.refusal().exit_code == 1);
  CHECK(example.refusal().message == "cannot find the path of dabkerun");
  example.options.remote_dabkerun = "/opt/dabkerun";
  CHECK(example.plan().shell.dabkerun == "/opt/dabkerun");
}

TEST_CASE("what is noticed about hosts is told also where the job is refused later, and never for mpirun") {
  Example example;
  example.hosts->own_names = {"ada", "localhost"};
  example.hosts->is_allocated = true;
  example.hosts->source = "Slurm job 7";
  example.hosts->by_slurm = true;
  example.options.num_proc = 5;
  const Planning refused = plan_job(example.options, example.surroundings);
  CHECK(std::holds_alternative<JobRefusal>(refused.result));
  REQUIRE(refused.notices.size() == 2);
  CHECK_THAT(refused.notices[0], Contains("localhost"));
  CHECK(refused.notices[1] ==
        "Slurm job 7: 2 hosts, 4 slots; srun starts dabkerun on other hosts (--launcher)");
  example.options.launcher = "mpi";
  CHECK(plan_job(example.options, example.surroundings).notices.empty());
}

TEST_CASE("for mpirun only the ranks are placed: what it starts, and where that is, is its own") {
  Example example;
  example.options.launcher = "mpi";
  example.program = {.exit_code = 127, .message = "cannot run it"};
  example.surroundings.most_descriptors = 3;
  const JobPlan plan = example.plan();
  CHECK(plan.kind == JobPlan::Kind::mpirun);
  CHECK(plan.placements.size() == 4);
  CHECK(plan.parts.empty());
}

}  // namespace dabke::test
