#include "runtime/bootstrap/bootstrap.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/hmac.h"
#include "runtime/bootstrap/mpi_place.h"
#include "runtime/bootstrap/other_launchers.h"
#include "runtime/call/process_set_list.h"
#include "runtime/transport/http_store.h"
#include "runtime/transport/job_secret.h"
#include "runtime/transport/module_loader.h"

namespace dabke {
namespace {

constexpr int kMostRanks = 1 << 20;
/// A store that does not answer by then keeps what the epoch left in it.
constexpr Duration kTidyingLimit = std::chrono::seconds(1);
constexpr std::string_view kFileScheme = "file:";
constexpr std::string_view kHttpScheme = "http://";

/// A variable's value and the name under which it was found.
struct Variable {
  std::string name;
  std::string value;
};

std::optional<Variable> look_up(const Environment& environment, std::string_view name) {
  for (const std::string_view vendor : {"DABKE_", "HOROVOD_"}) {
    const std::string full = fmt::format("{}{}", vendor, name);
    if (auto value = environment(full); value && !value->empty()) return Variable{full, std::move(*value)};
  }
  return std::nullopt;
}

struct Number {
  std::string name;
  int value;
};

Result<std::optional<Number>> number(const Environment& environment, std::string_view name, int least) {
  const auto found = look_up(environment, name);
  if (!found) return std::optional<Number>();
  int value = 0;
  const char* last = found->value.data() + found->value.size();
  const auto [end, error] = std::from_chars(found->value.data(), last, value);
  if (error == std::errc() && end == last && value >= least && value <= kMostRanks) {
    return std::optional(Number{found->name, value});
  }
  return Status(Code::invalid_argument, fmt::format("{} is '{}', but must be a whole number from {} to {}",
                                                    found->name, found->value, least, kMostRanks));
}

Status check_below(const Number& rank, const Number& size) {
  if (rank.value < size.value) return {};
  return {Code::invalid_argument, fmt::format("{} is {}, but must be below {}, which is {}", rank.name,
                                              rank.value, size.name, size.value)};
}

/// local_rank and its kin, as the launcher gave them.
struct HostPlacement {
  int local_rank, local_size, cross_rank, cross_size;
};

Result<std::optional<HostPlacement>> placement_from(const Environment& environment, int size) {
  constexpr std::string_view kNames[] = {"LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"};
  std::vector<Number> numbers;
  std::vector<std::string> absent;
  for (const auto name : kNames) {
    DABKE_ASSIGN_OR_RETURN(auto found, number(environment, name, name.ends_with("SIZE") ? 1 : 0));
    if (found) {
      numbers.push_back(*found);
    } else {
      absent.push_back(fmt::format("DABKE_{}", name));
    }
  }
  if (numbers.empty()) return std::optional<HostPlacement>();
  if (!absent.empty()) {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "{} is set but not {}; set all of LOCAL_RANK, LOCAL_SIZE, CROSS_RANK and CROSS_SIZE, or none",
            numbers.front().name, fmt::join(absent, ", ")));
  }
  DABKE_RETURN_IF_ERROR(check_below(numbers[0], numbers[1]));
  DABKE_RETURN_IF_ERROR(check_below(numbers[2], numbers[3]));
  for (const Number& one : {numbers[1], numbers[3]}) {
    if (one.value > size) {
      return Status(Code::invalid_argument,
                    fmt::format("{} is {}, above the size of the job, {}", one.name, one.value, size));
    }
  }
  return std::optional(HostPlacement{numbers[0].value, numbers[1].value, numbers[2].value, numbers[3].value});
}

/// What the environment says, before anybody else is asked.
struct Given {
  int rank = 0;
  int size = 1;
  std::optional<HostPlacement> placement;
  std::string host;
  std::string process_sets;
  std::optional<std::string> rendezvous;
  std::optional<Variable> job_id;
  std::optional<Variable> job_key;
  MpiSession* mpi = nullptr;
  bool gathers_dumps = false;
};

Result<std::string> host_name(const Environment& environment) {
  std::string host;
  std::string source = "gethostname()";
  if (const auto given = look_up(environment, "HOSTNAME")) {
    host = given->value;
    source = given->name;
  } else {
    char buffer[256] = "";
    if (::gethostname(buffer, sizeof buffer - 1) != 0) return system_error("gethostname", errno);
    host = buffer;
  }
  const auto bad = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; };
  if (!host.empty() && std::ranges::none_of(host, bad)) return host;
  return Status(
      Code::invalid_argument,
      fmt::format("{} says '{}', which is no host name; set DABKE_HOSTNAME to a name without spaces", source,
                  host));
}

Result<Given> read_environment(const Environment& environment) {
  Given given;
  DABKE_ASSIGN_OR_RETURN(auto rank, number(environment, "RANK", 0));
  DABKE_ASSIGN_OR_RETURN(auto size, number(environment, "SIZE", 1));
  given.rendezvous = environment("DABKE_RENDEZVOUS");
  if (given.rendezvous && given.rendezvous->empty()) given.rendezvous.reset();
  if (given.rendezvous && !rank && !size) {  // told where to meet, but not by a launcher of ours
    if (const auto other = find_other_launcher(environment); other && other->size_is_known) {
      rank = Number{other->name, other->rank};
      size = Number{other->name, other->size};
    }
  }
  given.gathers_dumps = environment("DABKE_GATHERS_DUMPS") == "1";
  if (rank && !size) {
    return Status(
        Code::invalid_argument,
        fmt::format("{} is set but DABKE_SIZE is not; set both, or start with dabkerun", rank->name));
  }
  if (size && size->value > 1 && !rank) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is {} but DABKE_RANK is not set; set both, or start with dabkerun",
                              size->name, size->value));
  }
  if (given.rendezvous && !size) {
    return Status(
        Code::invalid_argument,
        "DABKE_RENDEZVOUS is set but DABKE_SIZE is not, and no launcher that is known has told this "
        "process its rank; set DABKE_RANK and DABKE_SIZE as well, or start with dabkerun");
  }
  if (size) given.size = size->value;
  if (rank) {
    given.rank = rank->value;
    DABKE_RETURN_IF_ERROR(check_below(*rank, *size));
  }
  if (given.size > 1 && !given.rendezvous) {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "{} is {} but DABKE_RENDEZVOUS is not set, so the ranks cannot find each other; start with "
            "dabkerun, or set it to file:/a/directory/that/all/ranks/see",
            size->name, given.size));
  }
  DABKE_ASSIGN_OR_RETURN(given.placement, placement_from(environment, given.size));
  DABKE_ASSIGN_OR_RETURN(given.host, host_name(environment));
  const auto secret = [&](const char* name) -> std::optional<Variable> {
    auto value = environment(name);
    return value && !value->empty() ? std::optional(Variable{name, *value}) : std::nullopt;
  };
  given.job_id = secret("DABKE_JOB_ID");
  given.job_key = secret("DABKE_JOB_KEY");
  if (given.job_id.has_value() != given.job_key.has_value()) {
    return Status(Code::invalid_argument, fmt::format("{} is set but {} is not; set both, or neither",
                                                      given.job_id ? "DABKE_JOB_ID" : "DABKE_JOB_KEY",
                                                      given.job_id ? "DABKE_JOB_KEY" : "DABKE_JOB_ID"));
  }
  return given;
}

/// Whether MPI is of this launcher's job, and not of one inside of which the launcher runs.
bool may_meet_by_mpi(const OtherLauncher& launcher, const Environment& environment) {
  const MpiTraces traces = find_mpi(environment);
  if (traces.is_initialised) return true;
  return !traces.launcher.empty() && environment(traces.variable) == std::to_string(launcher.size);
}

/// What MPI says, where the environment says nothing or the application has passed a communicator.
Status ask_mpi(Given& given, const Config& config, const Environment& environment, const void* comm,
               TimePoint deadline) {
  if (comm == nullptr && (look_up(environment, "RANK") || look_up(environment, "SIZE") || given.rendezvous))
    return {};
  const auto other = comm == nullptr ? find_other_launcher(environment) : std::nullopt;
  const bool is_one_of_many = other && other->size > 1;
  if (is_one_of_many && !may_meet_by_mpi(*other, environment)) return cannot_meet(*other);
  DABKE_ASSIGN_OR_RETURN(const auto start, start_from_mpi(config, environment, comm, given.host, deadline));
  if (is_one_of_many && (!start || start->size == 1)) return cannot_meet(*other);
  if (!start) return {};
  given.mpi = start->session;
  given.rank = start->rank;
  given.size = start->size;
  given.rendezvous = start->rendezvous;
  given.job_id = Variable{"the job's id", start->job_id};
  given.job_key = Variable{"the job's key", start->job_key};
  return {};
}

Result<JobSecret> secret_of(const Given& given) {
  return parse_job_secret(given.job_id->value, given.job_key->value);
}

/// The store of all jobs, and the secret of this one.
struct Rendezvous {
  std::shared_ptr<Store> store;
  JobSecret secret;
};

Result<Rendezvous> open_rendezvous(const Given& given) {
  Rendezvous found;
  if (!given.rendezvous) {
    found.store = make_memory_store();
    DABKE_ASSIGN_OR_RETURN(found.secret, given.job_id ? secret_of(given) : random_job_secret());
    return found;
  }
  const std::string& address = *given.rendezvous;
  if (address.starts_with(kFileScheme)) {
    const std::string directory = address.substr(kFileScheme.size());
    DABKE_ASSIGN_OR_RETURN(found.store, open_file_store(directory));
    DABKE_ASSIGN_OR_RETURN(found.secret, given.job_id ? secret_of(given) : job_secret_in(directory));
    return found;
  }
  if (!address.starts_with(kHttpScheme)) {
    return Status(Code::invalid_argument,
                  fmt::format("DABKE_RENDEZVOUS is '{}', but must be http://host:port or "
                              "file:/absolute/directory",
                              address));
  }
  if (!given.job_id) {
    return Status(Code::invalid_argument,
                  fmt::format("DABKE_RENDEZVOUS is '{}' but DABKE_JOB_ID and DABKE_JOB_KEY are not set; "
                              "set them as the launcher that serves it does, or start with dabkerun",
                              address));
  }
  DABKE_ASSIGN_OR_RETURN(found.secret, secret_of(given));
  DABKE_ASSIGN_OR_RETURN(found.store, open_http_store(address, found.secret.id, found.secret.key));
  return found;
}

// ---- what ranks tell each other

std::string hello_key(Rank rank) { return fmt::format("hello/{}", rank); }

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

struct Meeting {
  const Given& given;
  Store& job;    // the job's part of the store
  Store& store;  // the epoch's part of it
  std::uint64_t epoch;
  TimePoint deadline;
};

/// Alike on ranks that mean the same. What cannot be understood stays as it is: whoever reads it next refuses
/// it.
std::string process_sets_of(const Config& config, int size) {
  const auto sets = parse_process_sets(config.process_sets, size);
  std::string text = sets.is_ok() ? process_sets_to_string(*sets) : config.process_sets;
  std::ranges::replace(text, '\n', ' ');
  return text;
}

Status process_sets_mismatch(const std::string& of_root, Rank rank, const std::string& theirs) {
  return {Code::mismatch,
          fmt::format(
              "rank 0 was started with process sets '{}', rank {} with '{}'; all ranks of a job must have "
              "the same in the same order (DABKE_PROCESS_SETS, then dabke_init's options)",
              of_root, rank, theirs)};
}

Status size_mismatch(Rank a, int size_a, Rank b, std::string_view size_b) {
  return {Code::mismatch,
          fmt::format("rank {} was started with a size of {}, rank {} with a size of {}; all ranks of a job "
                      "must have the same",
                      a, size_a, b, size_b)};
}

/// Says which ranks have not come in this epoch, and whether their earlier inits explain it.
Status explain_absence(const Meeting& meeting, double waited) {
  constexpr std::size_t kMostNamed = 8;
  const auto now = Clock::now();
  std::vector<std::string> absent;
  std::size_t count = 0;
  bool other_epochs = false;
  for (Rank rank = 0; rank < meeting.given.size; ++rank) {
    if (meeting.store.get(hello_key(rank), now).is_ok() || ++count > kMostNamed) continue;
    const auto inits = meeting.job.get(fmt::format("inits/{}", rank), now);
    other_epochs = other_epochs || inits.is_ok();
    absent.push_back(fmt::format("{}{}", rank, inits.is_ok() ? fmt::format(" (in epoch {})", *inits) : ""));
  }
  std::string who = fmt::format("rank{} {}", count > 1 ? "s" : "", fmt::join(absent, ", "));
  if (count > absent.size()) who += fmt::format(" and {} more", count - absent.size());
  if (count == 0) who = "rank 0 (it came, but then left no list of hosts)";
  std::string text = fmt::format(
      "rank {} waited {} s in epoch {} at {} for {}; start all {} ranks, or wait longer with "
      "DABKE_START_TIMEOUT_SECONDS",
      meeting.given.rank, waited, meeting.epoch, meeting.job.describe(), who, meeting.given.size);
  if (other_epochs) {
    text +=
        ". Epochs count the inits of each rank: those of an interrupted job in the same place count too, and "
        "so do two "
        "processes with the same rank; give every job a place of its own";
  }
  return {Code::timeout, std::move(text)};
}

/// Rank 0: everybody's host, by rank.
Result<std::vector<std::string>> gather_hosts(const Meeting& meeting, double patience) {
  std::vector<std::string> hosts;
  for (Rank rank = 0; rank < meeting.given.size; ++rank) {
    const auto hello = meeting.store.get(hello_key(rank), meeting.deadline);
    if (!hello.is_ok() && hello.status().code() == Code::timeout) return explain_absence(meeting, patience);
    if (!hello.is_ok()) return hello.status();
    const auto lines = lines_of(*hello);
    if (lines.size() != 3)
      return Status(Code::internal, fmt::format("rank {} left a hello that makes no sense", rank));
    if (lines[0] != std::to_string(meeting.given.size))
      return size_mismatch(0, meeting.given.size, rank, lines[0]);
    if (lines[2] != meeting.given.process_sets)
      return process_sets_mismatch(meeting.given.process_sets, rank, lines[2]);
    hosts.push_back(lines[1]);
  }
  return hosts;
}

/// The others: what rank 0 found out.
Result<std::vector<std::string>> read_roster(const Meeting& meeting, double patience) {
  // Rank 0 may have begun to wait a little later than we; its verdict is worth more than ours.
  constexpr Duration kVerdict = std::chrono::seconds(1);
  const auto roster = meeting.store.get("roster", meeting.deadline + kVerdict);
  if (!roster.is_ok() && roster.status().code() == Code::timeout) return explain_absence(meeting, patience);
  if (!roster.is_ok()) return roster.status();
  auto lines = lines_of(*roster);
  if (lines.size() >= 3 && lines[0] == "error") {
    int code = 0;
    std::from_chars(lines[1].data(), lines[1].data() + lines[1].size(), code);
    return Status(code == 0 ? Code::internal : static_cast<Code>(code), lines[2]);
  }
  if (lines.empty() || lines[0] != "hosts")
    return Status(Code::internal, "rank 0 left a roster that makes no sense");
  lines.erase(lines.begin());
  if (static_cast<int>(lines.size()) == meeting.given.size) return lines;
  return size_mismatch(0, static_cast<int>(lines.size()), meeting.given.rank,
                       std::to_string(meeting.given.size));
}

Result<std::vector<std::string>> exchange_hosts(const Meeting& meeting, double patience) {
  const Given& given = meeting.given;
  DABKE_RETURN_IF_ERROR(meeting.store.set(
      hello_key(given.rank), fmt::format("{}\n{}\n{}\n", given.size, given.host, given.process_sets)));
  if (given.rank != 0) return read_roster(meeting, patience);
  auto hosts = gather_hosts(meeting, patience);
  std::string roster = "hosts\n";
  if (hosts.is_ok()) {
    for (const auto& host : *hosts) roster += host + "\n";
  } else {
    std::string text = hosts.status().message();
    std::ranges::replace(text, '\n', ' ');
    roster = fmt::format("error\n{}\n{}\n", static_cast<int>(hosts.status().code()), text);
  }
  const Status told = meeting.store.set("roster", roster);
  if (hosts.is_ok() && !told.is_ok()) return told;
  return hosts;
}

/// A rank's place among the ranks of its host, and among those of its own local rank.
HostPlacement placement_among(const std::vector<std::string>& hosts, Rank self) {
  const auto local_rank_of = [&](std::size_t rank) {
    return static_cast<int>(
        std::count(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]));
  };
  const auto me = static_cast<std::size_t>(self);
  HostPlacement placement{local_rank_of(me), static_cast<int>(std::ranges::count(hosts, hosts[me])), 0, 0};
  std::map<std::string_view, int> seen;  // how many ranks of each host came before
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (seen[hosts[rank]]++ != placement.local_rank) continue;
    if (rank < me) ++placement.cross_rank;
    ++placement.cross_size;
  }
  return placement;
}

bool equally_filled(const std::vector<std::string>& hosts) {
  std::map<std::string_view, int> ranks;
  for (const auto& host : hosts) ++ranks[host];
  return std::ranges::all_of(ranks, [&](const auto& entry) { return entry.second == ranks.begin()->second; });
}

/// What crashed epochs left. Everybody is past them: all ranks have said hello in a later one.
void sweep(Store& job, std::uint64_t epoch) {
  constexpr std::uint64_t kMostAtOnce = 8;
  for (std::uint64_t old = epoch > kMostAtOnce ? epoch - kMostAtOnce : 1; old < epoch; ++old) {
    // Only tidying: what cannot be removed now costs a little space and harms nobody.
    (void)job.remove_all(std::to_string(old));
  }
}

}  // namespace

Result<Bootstrapped> bootstrap(const Config& config, const Environment& environment, const void* mpi_comm) {
  const TimePoint deadline = deadline_after(config.start_timeout);
  Given given;
  if (mpi_comm == nullptr) {
    DABKE_ASSIGN_OR_RETURN(given, read_environment(environment));
  } else {  // what the environment says is about another job, of a launcher or of all processes
    DABKE_ASSIGN_OR_RETURN(given.host, host_name(environment));
  }
  DABKE_RETURN_IF_ERROR(ask_mpi(given, config, environment, mpi_comm, deadline));
  given.process_sets = process_sets_of(config, given.size);
  DABKE_ASSIGN_OR_RETURN(const Rendezvous rendezvous, open_rendezvous(given));
  const auto job = with_prefix(rendezvous.store, to_hex(rendezvous.secret.id));

  Bootstrapped joined;
  joined.mpi = given.mpi;
  joined.gathers_dumps = given.gathers_dumps;
  World& world = joined.world;
  world.job_id = rendezvous.secret.id;
  world.job_key = rendezvous.secret.key;
  world.rank = given.rank;
  world.size = given.size;
  DABKE_ASSIGN_OR_RETURN(world.epoch, job->increment(fmt::format("inits/{}", given.rank)));
  joined.store = with_prefix(job, std::to_string(world.epoch));

  const Meeting meeting{given, *job, *joined.store, world.epoch, deadline};
  DABKE_ASSIGN_OR_RETURN(world.hosts, exchange_hosts(meeting, config.start_timeout));
  if (given.rank == 0) sweep(*job, world.epoch);

  const HostPlacement placement =
      given.placement ? *given.placement : placement_among(world.hosts, given.rank);
  world.local_rank = placement.local_rank;
  world.local_size = placement.local_size;
  world.cross_rank = placement.cross_rank;
  world.cross_size = placement.cross_size;
  world.is_homogeneous = equally_filled(world.hosts);
  return joined;
}

Status leave_epoch(const Bootstrapped& joined) {
  joined.store->hurry(kTidyingLimit);
  DABKE_ASSIGN_OR_RETURN(const std::uint64_t left, joined.store->increment("left"));
  if (left < static_cast<std::uint64_t>(joined.world.size)) return {};
  return joined.store->remove_all("");
}

}  // namespace dabke
