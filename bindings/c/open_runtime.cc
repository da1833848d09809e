#include "bindings/c/open_runtime.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "bindings/c/exchange_options.h"
#include "ops/registry.h"
#include "runtime/bootstrap/place.h"

namespace dabke {
namespace {

/// Times that a process comes to form an epoch, if ranks are lost while it forms. dabkerun ends the job
/// before that, unless nobody was lost.
constexpr int kMostFormings = 5;

/// An environment in which "NAME=value" settings override the process's variables.
Result<Environment> with_settings(const char* const* settings) {
  if (settings == nullptr) return environment_of_process();
  auto given = std::make_shared<std::map<std::string, std::string>>();
  for (; *settings != nullptr; ++settings) {
    const std::string_view text(*settings);
    const auto equals = text.find('=');
    std::string name(text.substr(0, equals));
    if (!name.starts_with("DABKE_")) name = "DABKE_" + name;
    const bool known =
        std::ranges::any_of(knobs(), [&](const Knob& knob) { return knob.env_name() == name; });
    if (equals == std::string_view::npos || !known) {
      return Status(
          Code::invalid_argument,
          fmt::format("setting '{}' is not NAME=value with a name from docs/configuration.md", text));
    }
    (*given)[name] = text.substr(equals + 1);
  }
  return Environment(
      [given, process = environment_of_process()](const std::string& name) -> std::optional<std::string> {
        const auto found = given->find(name);
        return found != given->end() ? found->second : process(name);
      });
}

/// Appends the process sets of the options to `text`, in the format of DABKE_PROCESS_SETS.
Status append_process_sets(const dabke_init_options& given, std::string& text) {
  for (std::size_t i = 0; i < given.process_set_count; ++i) {
    const std::span ranks(given.process_set_ranks[i], given.process_set_sizes[i]);
    if (ranks.data() == nullptr || ranks.empty()) {
      return {Code::invalid_argument,
              fmt::format("dabke_init: process set {} of the options has no ranks", i)};
    }
    text += fmt::format("{}{}", text.empty() || text.ends_with(';') ? "" : ";", fmt::join(ranks, ","));
  }
  return {};
}

/// The environment and the configuration that the options give. Other ranks are not asked.
Result<std::pair<Environment, Config>> read_options(const dabke_init_options& given) {
  if (given.process_set_count > 0 &&
      (given.process_set_ranks == nullptr || given.process_set_sizes == nullptr)) {
    return Status(
        Code::invalid_argument,
        fmt::format("dabke_init: process_set_count is {}, but process_set_ranks or process_set_sizes "
                    "is NULL",
                    given.process_set_count));
  }
  DABKE_ASSIGN_OR_RETURN(Environment environment, with_settings(given.settings));
  DABKE_ASSIGN_OR_RETURN(Config config, config_from_environment(environment));
  DABKE_RETURN_IF_ERROR(append_process_sets(given, config.process_sets));
  config.is_python = given.language != nullptr && std::string_view(given.language) == "python";
  return std::pair(std::move(environment), std::move(config));
}

/// The program's check of the call `name`; null if the program has not given one.
std::shared_ptr<WaitCheck> check_of(const char* name, dabke_check check, void* context) {
  if (check == nullptr) return nullptr;
  const auto stops = [check, context] {
    const InApplication inside(kWaitCheck);
    return check(context) != 0;
  };
  return std::make_shared<WaitCheck>(stops, [name] { return std::string(name); });
}

core::Runtime::Factories factories_for(const Config& config, const Environment& environment) {
  core::Runtime::Factories factories{ops::make_backends};
  factories.open_device = ops::device_opener(config, environment);
  factories.device_route = ops::device_route;
  return factories;
}

core::ProcessParts process_parts(const std::shared_ptr<ForkGuard>& fork_guard,
                                 const std::shared_ptr<WaitCheck>& check,
                                 std::shared_ptr<diagnosis::FlightRecorder> recorder) {
  return {stack_source(), shared_heap(), fork_guard, active_timeline(), std::move(recorder), check};
}

/// True for an error that another rank may have caused, so that the job may go on without that rank.
bool may_be_of_another_rank(const Status& error) {
  switch (error.code()) {
    case Code::peer_lost:
    case Code::shut_down:
    case Code::aborted:
    case Code::timeout:
    case Code::transport: return true;
    default: return false;
  }
}

/// Comes to the next epoch, and opens it. If a rank is lost meanwhile, the others meet again.
Result<Opened> open_epoch(BetweenEpochs& kept, const std::shared_ptr<ForkGuard>& fork_guard,
                          const std::shared_ptr<WaitCheck>& check) {
  const Config& config = *kept.config;
  const auto factories = factories_for(config, *kept.environment);
  for (int forming = 1;; ++forming) {
    const std::uint64_t left = kept.visit.epoch;
    auto met = bootstrap::bootstrap(config, *kept.environment, kept.visit, check);
    auto opened = [&]() -> Result<Opened> {
      if (!met.is_ok()) return met.status();
      if (auto* const out = std::get_if<bootstrap::LeftInOrder>(&*met)) return Opened(std::move(*out));
      auto runtime = core::Runtime::open(config, std::move(std::get<bootstrap::Bootstrapped>(*met)),
                                         factories, process_parts(fork_guard, check, kept.recorder));
      if (!runtime.is_ok()) return runtime.status();
      return Opened(runtime.take());
    }();
    const bool had_place = kept.visit.epoch != left;
    if (opened.is_ok() || !had_place || forming == kMostFormings || !may_be_of_another_rank(opened.status()))
      return opened;
    bootstrap::log_of_rank(config, -1)
        .warning("epoch {} did not form, and its ranks meet again: {}", kept.visit.epoch,
                 opened.status().message());
  }
}

}  // namespace

Result<Opened> open_runtime(const dabke_init_options& given,
                            const std::optional<bootstrap::ExchangeGroup>& group,
                            const std::shared_ptr<ForkGuard>& fork_guard, BetweenEpochs& kept) {
  auto read = read_options(given);
  if (group && read.is_ok()) {
    if (Status members = check_members(given); !members.is_ok()) read = members;
  }
  if (!read.is_ok()) return group ? bootstrap::fail_by_exchange(*group, read.status()) : read.status();
  const auto& [environment, config] = *read;
  const auto check = check_of("dabke_init", given.check, given.check_context);
  if (!group && given.mpi_comm == nullptr && bootstrap::is_elastic(environment)) {
    kept.environment = environment;
    kept.config = config;
    kept.visit.commit.reset();
    kept.visit.repeated_steps = 0;
    kept.recorder = std::make_shared<diagnosis::FlightRecorder>();
    return open_epoch(kept, fork_guard, check);
  }
  const auto factories = factories_for(config, environment);
  const auto recorder = std::make_shared<diagnosis::FlightRecorder>();
  auto started = group ? bootstrap::bootstrap(config, environment, *group, check)
                       : bootstrap::bootstrap(config, environment, given.mpi_comm, check);
  if (!started.is_ok()) return started.status();
  DABKE_ASSIGN_OR_RETURN(auto runtime, core::Runtime::open(config, started.take(), factories,
                                                           process_parts(fork_guard, check, recorder)));
  return Opened(std::move(runtime));
}

Result<Opened> open_next_epoch(const dabke_epoch_options& given, const std::shared_ptr<ForkGuard>& fork_guard,
                               BetweenEpochs& kept) {
  kept.visit.commit.reset();
  if (given.has_commit != 0) kept.visit.commit = given.commit;
  kept.visit.repeated_steps = given.repeated_steps;
  return open_epoch(kept, fork_guard, check_of("dabke_next_epoch", given.check, given.check_context));
}

}  // namespace dabke
