#include "timeline_viewer/job_profiles.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <limits>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "runtime/base/text/counted.h"

namespace dabke::viewer {
namespace {

/// Returns 3 for "profile.rank3.json" and "rank_3.json".
std::optional<int> rank_in_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename();
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t found = name.rfind("rank");
  if (found == std::string::npos) return {};
  std::string_view rest = std::string_view(name).substr(found + 4);
  if (rest.starts_with('_') || rest.starts_with('-')) rest.remove_prefix(1);
  int rank = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
  return error == std::errc() && rank >= 0 ? std::optional(rank) : std::nullopt;
}

/// Files may contain any number, so times saturate.
std::int64_t shifted(std::int64_t at_ns, std::int64_t ns) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(at_ns, ns, &sum)) return sum;
  return ns < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

timeline::Interval shifted(const timeline::Interval& when, std::int64_t ns) {
  return {shifted(when.begin_ns, ns), shifted(when.end_ns, ns)};
}

bool overlap(const timeline::Interval& a, const timeline::Interval& b) {
  return a.begin_ns < b.end_ns && b.begin_ns < a.end_ns;
}

/// Returns a time of day in UTC, such as "2026-01-31 12:00:00".
std::string day_text(std::int64_t ns) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(ns / 1'000'000'000)));
}

std::string day_text(const timeline::Interval& when) {
  return fmt::format("{} to {} UTC", day_text(when.begin_ns), day_text(when.end_ns));
}

void shift(Profile& profile, std::int64_t ns) {
  profile.covered = shifted(profile.covered, ns);
  for (Profile::Call& call : profile.calls) call.when = shifted(call.when, ns);
  for (timeline::Interval& when : profile.computing) when = shifted(when, ns);
  for (auto& [step, when] : profile.steps) when = shifted(when, ns);
  if (profile.day_time_ns) *profile.day_time_ns -= ns;
}

/// Returns the two profiles of one rank; nothing if there are none.
std::optional<std::pair<const Profile*, const Profile*>> of_one_rank(const std::vector<Profile>& profiles) {
  std::map<int, const Profile*> by_rank;
  for (const Profile& profile : profiles) {
    const auto [known, is_new] = by_rank.try_emplace(*profile.rank, &profile);
    if (!is_new) return std::pair(known->second, &profile);
  }
  return {};
}

Status wrong(std::string text) { return {Code::invalid_argument, std::move(text)}; }

/// Returns an error if the profile cannot be of the trace's job.
Status check_job(const timeline::Analysis& analysis, const DabkeTrace& trace, const Profile& profile) {
  if (!profile.day_time_ns) {
    return wrong(
        fmt::format("'{}' does not have the time of day, so it cannot be aligned with '{}'; record it "
                    "with torch.profiler of a PyTorch that has Kineto",
                    profile.path, trace.path));
  }
  if (profile.size && trace.size && !trace.is_elastic && *profile.size != *trace.size) {
    return wrong(fmt::format("'{}' is of a job with {}, but the job of '{}' has {}; give traces of one job",
                             profile.path, counted(static_cast<std::uint64_t>(*profile.size), "rank"),
                             trace.path, counted(static_cast<std::uint64_t>(*trace.size), "rank")));
  }
  if (std::ranges::find(analysis.ranks(), *profile.rank) == analysis.ranks().end()) {
    return wrong(fmt::format("'{}' is of rank {}, which '{}' does not have; give traces of one job",
                             profile.path, *profile.rank, trace.path));
  }
  return {};
}

}  // namespace

Status rank_is_common(const std::string& path, int rank) {
  return wrong(
      fmt::format("'{}' has rank {}, as an earlier trace has: they belong to different jobs. For one "
                  "report, give traces of different ranks of one job; dabke-timeline diff compares "
                  "jobs, and dabke-timeline view shows them side by side",
                  path, rank));
}

void prepare_profiles(std::vector<Profile>& profiles) {
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    if (!profiles[i].rank) profiles[i].rank = rank_in_name(profiles[i].path).value_or(static_cast<int>(i));
  }
  const auto has_time = [](const Profile& profile) { return profile.day_time_ns.has_value(); };
  if (!std::ranges::all_of(profiles, has_time)) return;
  for (Profile& profile : profiles) {
    const std::int64_t later_ns = *profile.day_time_ns - *profiles.front().day_time_ns;
    if (overlap(shifted(profile.covered, later_ns), profiles.front().covered)) shift(profile, later_ns);
  }
}

Status add_profiles(timeline::Analysis& analysis, const std::vector<Profile>& profiles) {
  if (const auto two = of_one_rank(profiles)) return rank_is_common(two->second->path, *two->second->rank);
  for (const Profile& profile : profiles) {
    if (profile.calls.empty()) continue;
    const std::size_t rank = analysis.add_rank(*profile.rank);
    std::uint64_t endless = 0;
    for (const Profile::Call& call : profile.calls) {
      endless += call.has_end ? 0 : 1;
      const timeline::Interval when{call.when.begin_ns, call.has_end ? call.when.end_ns : call.when.begin_ns};
      analysis.communication(rank, call.name, call.bytes, when);
    }
    for (const timeline::Interval& when : profile.computing) analysis.computation(rank, when);
    for (const auto& [number, when] : profile.steps) analysis.whole_step(rank, number, when);
    if (endless > 0) {
      analysis.note(
          fmt::format("the profiler has recorded no end of {} in '{}', so their time does not count; "
                      "give the trace of DABKE_TIMELINE as well, which has it",
                      counted(endless, "call"), profile.path));
    }
  }
  return {};
}

Status join_profiles(timeline::Analysis& analysis, const DabkeTrace& trace,
                     const std::vector<Profile>& profiles) {
  if (!trace.day_time_ns) {
    return wrong(
        fmt::format("'{0}' does not have the time of day, so no profile can be aligned with it: it is "
                    "from an earlier version, or a timeline of Horovod. Make it again from "
                    "the records of the ranks, with 'dabke-timeline merge {0}'",
                    trace.path));
  }
  if (const auto two = of_one_rank(profiles)) {
    return wrong(fmt::format("'{}' and '{}' are both of rank {}; give one profile of each rank",
                             two->first->path, two->second->path, *two->first->rank));
  }
  const timeline::Interval of_trace = analysis.covered();
  std::optional<timeline::Interval> all;
  std::vector<std::int64_t> later_ns;
  for (const Profile& profile : profiles) {
    DABKE_RETURN_IF_ERROR(check_job(analysis, trace, profile));
    const auto own = trace.rank_day_times_ns.find(*profile.rank);
    const std::int64_t zero_ns = own == trace.rank_day_times_ns.end() ? *trace.day_time_ns : own->second;
    later_ns.push_back(*profile.day_time_ns - zero_ns);
    const timeline::Interval when = shifted(profile.covered, later_ns.back());
    if (!overlap(when, of_trace)) {
      return wrong(fmt::format(
          "'{}' and '{}' were not recorded at the same time ({}; {}); give traces of one "
          "run",
          profile.path, trace.path, day_text(shifted(when, zero_ns)), day_text(shifted(of_trace, zero_ns))));
    }
    if (!all) all = when;
    *all = {std::max(all->begin_ns, when.begin_ns), std::min(all->end_ns, when.end_ns)};
    if (all->end_ns <= all->begin_ns) {
      return wrong(
          fmt::format("'{}' was recorded at another time than the profiles before it; give profiles "
                      "of the same steps",
                      profile.path));
    }
  }
  const bool takes_steps = !analysis.has_steps();
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const Profile& profile = profiles[i];
    const auto rank = static_cast<std::size_t>(std::ranges::find(analysis.ranks(), *profile.rank) -
                                               analysis.ranks().begin());
    for (const timeline::Interval& when : profile.computing)
      analysis.computation(rank, shifted(when, later_ns[i]));
    if (!takes_steps) continue;
    for (const auto& [number, when] : profile.steps)
      analysis.whole_step(rank, number, shifted(when, later_ns[i]));
  }
  if (all) analysis.profiled(*all, takes_steps);
  return {};
}

}  // namespace dabke::viewer
