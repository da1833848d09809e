#include "runtime/base/settings/config.h"

#include "runtime/base/text/step_range.h"

#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/variables.h"

using dabke::test::environment_of;

namespace dabke::test {
namespace {

const Knob& knob_named(std::string_view env) {
  for (const Knob& knob : knobs()) {
    if (knob.env == env) return knob;
  }
  throw std::runtime_error(fmt::format("no knob {}", env));
}

std::string refusal(const std::string& name, const std::string& value) {
  const auto config = config_from_environment(environment_of({{name, value}}));
  return config ? "" : config.status().message();
}

/// A text that the range accepts.
const char* some_text(const Range& range) {
  for (const char* text : {"some text", "USR1", "1:2", "4711"}) {
    if (range.takes == nullptr || range.takes(text)) return text;
  }
  throw std::runtime_error("no text is known that this knob takes");
}

}  // namespace

TEST_CASE("an empty environment gives the defaults") {
  const auto config = config_from_environment(environment_of({}));
  REQUIRE(config);
  for (const Knob& knob : knobs()) {
    CAPTURE(knob.env);
    CHECK(knob_value(*config, knob) == knob_value(Config{}, knob));
  }
}

TEST_CASE(
    "a backend of host tensors that GPU_OPERATIONS names is that of CPU_OPERATIONS, or contradicts it") {
  const auto both = [](const std::string& gpu, const std::string& cpu) {
    const auto config = config_from_environment(
        environment_of({{"DABKE_GPU_OPERATIONS", gpu}, {"DABKE_CPU_OPERATIONS", cpu}}));
    return config ? config->cpu_operations : config.status().message();
  };
  CHECK(both("gloo", "auto") == "gloo");
  CHECK(both("mpi", "mpi") == "mpi");
  CHECK(both("host", "tcp") == "tcp");
  CHECK(both("hierarchical", "auto") == "auto");
  CHECK(
      both("mpi", "gloo") ==
      "DABKE_GPU_OPERATIONS=mpi moves tensors on GPUs through the host, with mpi there, but "
      "DABKE_CPU_OPERATIONS=gloo; give both the same value, or choose DABKE_GPU_OPERATIONS=host, which takes "
      "what moves host tensors");
}

TEST_CASE("a DABKE_ variable comes before the Horovod variable of the same meaning") {
  const auto both = config_from_environment(
      environment_of({{"DABKE_FUSION_THRESHOLD", "1024"}, {"HOROVOD_FUSION_THRESHOLD", "2048"}}));
  REQUIRE(both);
  CHECK(both->fusion_threshold == 1024);
  const auto alias = config_from_environment(environment_of({{"HOROVOD_FUSION_THRESHOLD", "2048"}}));
  REQUIRE(alias);
  CHECK(alias->fusion_threshold == 2048);
}

TEST_CASE("Horovod's names for the start timeout and the network interface are read though ours differ") {
  const auto config = config_from_environment(
      environment_of({{"HOROVOD_START_TIMEOUT", "12.5"}, {"HOROVOD_GLOO_IFACE", "eth1"}}));
  REQUIRE(config);
  CHECK(config->start_timeout == 12.5);
  CHECK(config->network_interface == "eth1");
}

TEST_CASE(
    "a timeline that Horovod's variable names is as Horovod writes it, unless one of ours says otherwise") {
  const auto format = [](std::map<std::string, std::string> variables) {
    return config_from_environment(environment_of(std::move(variables)))->timeline_format;
  };
  using enum TimelineFormat;
  CHECK(format({}) == automatic);
  CHECK(format({{"DABKE_TIMELINE", "a"}}) == automatic);
  CHECK(format({{"HOROVOD_TIMELINE", "a"}}) == horovod);
  CHECK(format({{"HOROVOD_TIMELINE", "a"}, {"DABKE_TIMELINE", "b"}}) == automatic);
  CHECK(format({{"HOROVOD_TIMELINE", "a"}, {"DABKE_TIMELINE_FORMAT", "records"}}) == records);
  CHECK(format({{"DABKE_TIMELINE", "a"}, {"DABKE_TIMELINE_FORMAT", "horovod"}}) == horovod);
}

TEST_CASE("steps of a timeline are two numbers, the first one not above the last") {
  CHECK(step_range("100:110") == StepRange{100, 110});
  CHECK(step_range("0:0") == StepRange{0, 0});
  for (const char* text :
       {"", ":", "1", "1:", ":1", "2:1", "-1:2", "1:2:3", "1-2", "a:b", "1:99999999999999999999"})
    CHECK(step_range(text) == std::nullopt);
  CHECK_THAT(refusal("DABKE_TIMELINE_STEPS", "110:100"), Catch::Contains("expected FIRST:LAST"));
}

TEST_CASE("a switch takes 1, true, yes and on in any case, and their opposites") {
  const auto mark_cycles = [](const std::string& text) {
    const auto config = config_from_environment(environment_of({{"DABKE_TIMELINE_MARK_CYCLES", text}}));
    return config ? std::optional(config->timeline_mark_cycles) : std::nullopt;
  };
  for (const char* text : {"1", "true", "YES", "On"}) CHECK(mark_cycles(text) == true);
  for (const char* text : {"0", "False", "no", "OFF"}) CHECK(mark_cycles(text) == false);
  for (const char* text : {"2", "", "ja", "true "}) CHECK(mark_cycles(text) == std::nullopt);
}

TEST_CASE("a bad value is refused with the variable, the value, what is accepted and the row's help") {
  const std::string text = refusal("DABKE_FUSION_THRESHOLD", "64MB");
  CHECK_THAT(text, Catch::Contains("DABKE_FUSION_THRESHOLD=64MB"));
  CHECK_THAT(text, Catch::Contains("whole number of bytes, at least 0"));
  CHECK_THAT(text, Catch::Contains(std::string(knob_named("FUSION_THRESHOLD").help)));
}

TEST_CASE("the refusal names the Horovod variable when the value came from there") {
  CHECK_THAT(refusal("HOROVOD_CYCLE_TIME", "fast"), Catch::StartsWith("HOROVOD_CYCLE_TIME=fast"));
}

TEST_CASE("numbers out of range, with trailing text, empty, or not a number are refused") {
  for (const char* value : {"-1", "1e3", "12 ", "", "0x10", "99999999999999999999"}) {
    CAPTURE(value);
    CHECK_FALSE(refusal("DABKE_FUSION_THRESHOLD", value).empty());
  }
  for (const char* value : {"-0.5", "nan", "", "1s"}) {
    CAPTURE(value);
    CHECK_FALSE(refusal("DABKE_CYCLE_TIME", value).empty());
  }
}

TEST_CASE("a choice is taken in any case and kept in lower case") {
  const auto config = config_from_environment(environment_of({{"DABKE_LOG_LEVEL", "INFO"}}));
  REQUIRE(config);
  CHECK(config->log_level == LogLevel::info);
  CHECK_THAT(refusal("DABKE_LOG_LEVEL", "loud"),
             Catch::Contains("one of trace debug info warning error fatal"));
  CHECK_FALSE(refusal("DABKE_LOG_LEVEL", "info,debug").empty());
}

TEST_CASE("a signal that cannot make a rank write a dump, or that has another use, is none for it") {
  for (const char* value :
       {"SEGV", "BUS",  "ILL",  "FPE", "TRAP", "ABRT",    "SYS", "KILL", "STOP", "CHLD", "CONT", "TSTP",
        "TTIN", "TTOU", "PIPE", "INT", "TERM", "SIGSEGV", "11",  "64",   "0",    "FOO",  "usr1"}) {
    CAPTURE(value);
    CHECK_THAT(refusal("DABKE_DUMP_SIGNAL", value),
               Catch::StartsWith(std::string("DABKE_DUMP_SIGNAL=") + value +
                                 " is not valid: expected one of USR1 USR2"));
  }
  for (const char* value : {"", "USR1", "SIGUSR2", "10", "HUP", "SIGQUIT", "WINCH"}) {
    CAPTURE(value);
    CHECK(refusal("DABKE_DUMP_SIGNAL", value).empty());
  }
}

TEST_CASE("what knob_value prints, set_knob reads back") {
  for (const Knob& knob : knobs()) {
    CAPTURE(knob.env);
    Config changed;
    if (knob.is_switch()) {
      REQUIRE(set_knob(changed, knob, "1", "test").is_ok());
    } else if (const std::string_view choices = knob.choices(); !choices.empty()) {
      REQUIRE(set_knob(changed, knob, choices.substr(choices.rfind(',') + 1), "test").is_ok());
    } else if (const auto* text = std::get_if<std::string Config::*>(&knob.field)) {
      changed.** text = some_text(knob.range);
    } else {
      REQUIRE(set_knob(changed, knob, "7", "test").is_ok());
    }
    Config copy;
    REQUIRE(set_knob(copy, knob, knob_value(changed, knob), "test").is_ok());
    CHECK(knob_value(copy, knob) == knob_value(changed, knob));
    CHECK(knob_value(copy, knob) != knob_value(Config{}, knob));
  }
}

TEST_CASE("every knob has its own name, flag and field, a help text, and a default that it accepts itself") {
  std::set<std::string_view> names, flags;
  std::set<std::string> helps;
  for (const Knob& knob : knobs()) {
    CAPTURE(knob.env);
    CHECK(names.insert(knob.env).second);
    CHECK(flags.insert(knob.flag).second);
    CHECK(helps.insert(std::string(knob.help)).second);
    CHECK_THAT(std::string(knob.help), Catch::EndsWith("."));
    Config config;
    CHECK(set_knob(config, knob, knob_value(config, knob), "default").is_ok());
    for (const Knob& other : knobs()) CHECK((&other == &knob || other.field != knob.field));
  }
}

TEST_CASE("docs/configuration.md is what the knob table prints") {
  std::ifstream file(SOURCE_ROOT "/docs/configuration.md");
  REQUIRE(file.is_open());
  std::stringstream page;
  page << file.rdbuf();
  INFO("renew it with: build/launcher/dabkerun --print-knobs > docs/configuration.md");
  CHECK(page.str() == knobs_as_markdown());
}

TEST_CASE("a row of the configuration page shows the variable, its alias, the flag and the default") {
  CHECK_THAT(
      knobs_as_markdown(),
      Catch::Contains("| `DABKE_FUSION_THRESHOLD` | `HOROVOD_FUSION_THRESHOLD` | `--fusion-threshold-mb` | "
                      "`134217728` | whole number of bytes, at least 0 |"));
}

TEST_CASE("the process environment is read, and a variable that is not there is nothing") {
  REQUIRE(::setenv("DABKE_CONFIG_TEST_VARIABLE", "seen", 1) == 0);
  CHECK(process_environment()("DABKE_CONFIG_TEST_VARIABLE") == "seen");
  ::unsetenv("DABKE_CONFIG_TEST_VARIABLE");
  CHECK(process_environment()("DABKE_CONFIG_TEST_VARIABLE") == std::nullopt);
}

}  // namespace dabke::test
