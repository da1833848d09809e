#include "rank.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <system_error>
#include <thread>

#include "faults.h"
#include "generate_calls.h"
#include "refusals.h"
#include "scratch.h"
#include "timed_messages.h"

namespace storm {
namespace {

/// Returns false if the job is over, which a campaign of faults allows.
bool must(const char* what, dabke_status got, dabke_status want = DABKE_OK, const char* text = nullptr) {
  if (got == want) return true;
  if (text == nullptr) text = dabke_last_error();
  if (is_excused(what, got, text)) return false;
  wrong(std::string(what) + " ended with " + dabke_status_name(got) + ", not " + dabke_status_name(want) +
        ": " + text);
}

std::vector<std::int32_t> shuffled(Ranks ranks, Random& random) {
  std::vector<std::int32_t> list;
  for (const int rank : list_of(ranks)) list.push_back(rank);
  random.shuffle(list);
  return list;
}

}  // namespace

Rank::Rank(const Program& program, const Epoch& epoch, int rank, std::atomic<Mistake>& mistake)
    : here_{program, epoch, rank, {DABKE_WORLD}}, mistake_(mistake) {}

void Rank::run() {
  if (!init()) return;
  for (std::size_t i = 0; i < here_.epoch.phases.size() && !has_lost(); ++i)
    run_phase(here_.epoch.phases[i], i);
  for (auto& part : run_messages(here_)) done_.push_back(std::move(part));
  Random random(hash(here_.program.seed, here_.rank, 1));
  finish_kept(nullptr, random);
  shut_down();
}

bool Rank::init() {
  const Pending pending("dabke_init");
  std::vector<std::string> texts;
  for (const auto& [name, value] : here_.epoch.knobs) {
    // The root's values are used, whatever the other ranks have.
    const bool may_differ = name == "FUSION_THRESHOLD" || name == "CYCLE_TIME" || name == "CACHE_CAPACITY" ||
                            name == "DISABLE_GROUP_FUSION" || name == "DISABLE_LEARNED_BATCHES";
    if (here_.epoch.knobs_differ && may_differ && here_.rank % 2 == 1) continue;
    texts.push_back((here_.epoch.knobs_in_options ? "" : "DABKE_") + name + "=" + value);
  }
  std::vector<const char*> settings;
  for (const std::string& text : texts) {
    if (here_.epoch.knobs_in_options) {
      settings.push_back(text.c_str());
    } else {
      const auto equals = text.find('=');
      ::setenv(text.substr(0, equals).c_str(), text.substr(equals + 1).c_str(), 1);
    }
  }
  settings.push_back(nullptr);
  Random random(hash(here_.program.seed, here_.rank, 2));
  std::vector<std::vector<std::int32_t>> lists;
  std::vector<const std::int32_t*> pointers;
  std::vector<std::size_t> sizes;
  for (int set = 1; set <= here_.epoch.static_sets; ++set) {
    lists.push_back(shuffled(here_.ranks_of(set), random));
    pointers.push_back(lists.back().data());
    sizes.push_back(lists.back().size());
    here_.ids.push_back(set);
  }
  dabke_init_options options = DABKE_INIT_OPTIONS_INIT;
  options.settings = settings.data();
  options.process_set_ranks = pointers.data();
  options.process_set_sizes = sizes.data();
  options.process_set_count = sizes.size();
  note("init");
  reached(Point::init);
  const bool is_in = must("dabke_init", dabke_init(&options));
  if (!here_.epoch.knobs_in_options) {  // the job after a failed one must not have them either
    for (const std::string& text : texts) ::unsetenv(text.substr(0, text.find('=')).c_str());
  }
  if (!is_in) return false;
  if (dabke_rank() != here_.rank || dabke_size() != here_.program.ranks) {
    wrong("is rank " + std::to_string(dabke_rank()) + " of " + std::to_string(dabke_size()) + ", not of " +
          std::to_string(here_.program.ranks));
  }
  for (int set = 0; set <= here_.epoch.static_sets; ++set) check_set(set);
  here_.ids.resize(here_.epoch.sets.size(), -1);
  return true;
}

void Rank::check_set(int set) {
  std::vector<std::int32_t> ranks(kMostRanks);
  std::size_t count = 0;
  const dabke_process_set id = here_.ids[static_cast<std::size_t>(set)];
  if (!must("dabke_process_set_ranks", dabke_process_set_ranks(id, ranks.data(), ranks.size(), &count)))
    return;
  ranks.resize(count);
  if (ranks != list_of(here_.ranks_of(set))) wrong("process set " + std::to_string(set) + " has other ranks");
}

void Rank::run_phase(const Phase& phase, std::size_t number) {
  Random order(hash(here_.program.seed, phase.order, here_.rank));  // the same in phases that repeat
  Random random(hash(here_.program.seed, number, here_.rank, 3));
  finish_kept(&phase, random);
  reached(Point::step);
  if (phase.is_traced)
    must("dabke_start_timeline", dabke_start_timeline(scratch_path("timeline").c_str(), 0));
  Parts parts;
  for (const Call& call : phase.calls) {
    if (!has(call.takers, here_.rank)) continue;
    for (auto& part : parts_of(call)) parts.push_back(std::move(part));
  }
  const std::vector<Work> works = divided(phase, parts, order);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < works.size(); ++i) {
      const Random own(random.next());
      try {
        threads.emplace_back([this, &works, i, own] { work(works[i], own); });
      } catch (const std::system_error& error) {
        wrong(std::string("has no thread for its calls: ") + error.what());
      }
    }
    for (const SetChange& one : phase.changes) change(one, random);
    if (phase.is_dumped) must("dabke_dump", dabke_dump(scratch_path("dump").c_str()));
  }
  join_sets(phase, random);
  Parts now;
  for (auto& part : parts) (part->call().is_kept ? kept_ : now).push_back(std::move(part));
  finish(std::move(now), random);
  if (phase.is_traced) must("dabke_stop_timeline", dabke_stop_timeline());
}

Rank::Parts Rank::parts_of(const Call& call) {
  const Call mine = has(call.odd, here_.rank) ? odd_form_of(call, here_.ranks_of(call.set)) : call;
  Parts parts;
  const std::size_t each = call.form == Form::members ? 1 : std::max<std::size_t>(mine.tensors.size(), 1);
  for (std::size_t first = 0; first < std::max<std::size_t>(mine.tensors.size(), 1); first += each) {
    const std::size_t count = std::min(each, mine.tensors.size());
    parts.push_back(std::make_unique<Part>(here_, mine, first, count,
                                           Random(hash(here_.program.seed, call.id, first, here_.rank))));
  }
  return parts;
}

/// Calls of one name must be submitted in the program's order. All others may
/// come in any order, from any thread.
std::vector<Rank::Work> Rank::divided(const Phase& phase, Parts& parts, Random& random) {
  std::vector<Work> works(static_cast<std::size_t>(random.between(1, 3)));
  std::map<std::pair<int, std::string>, std::vector<Part*>> by_name;
  std::vector<std::vector<Part*>*> turns;
  std::map<std::vector<Part*>*, std::size_t> thread_of;
  for (const auto& part : parts) {
    if (part->call().is_last) continue;
    auto& list = by_name[{part->call().set, part->call().key}];
    list.push_back(part.get());
    turns.push_back(&list);
    thread_of.try_emplace(&list, static_cast<std::size_t>(random.below(static_cast<int>(works.size()))));
  }
  for (auto& [name, list] : by_name) {  // members of a group may come in any order
    for (auto begin = list.begin(); begin != list.end();) {
      const auto id = (*begin)->call().id;
      auto end = std::find_if(begin, list.end(), [&](Part* part) { return part->call().id != id; });
      std::vector<Part*> members(begin, end);
      random.shuffle(members);
      begin = std::copy(members.begin(), members.end(), begin);
    }
    std::ranges::reverse(list);  // because items are taken from the end
  }
  // The first thread submits the last calls, and also all earlier calls of their names.
  for (const auto& part : parts) {
    if (!part->call().is_last) continue;
    works[0].last.push_back(part.get());
    if (const auto same = by_name.find({part->call().set, part->call().key}); same != by_name.end())
      thread_of[&same->second] = 0;
  }
  random.shuffle(turns);
  for (auto* list : turns) {
    works[thread_of[list]].parts.push_back(list->back());
    list->pop_back();
  }
  works.back().refusals = phase.refusals;
  return works;
}

void Rank::dawdle(Random& random) {
  const int pace = here_.program.pace;
  if (pace == 0 || !random.chance(10)) return;
  if (pace == 1) std::this_thread::yield();
  if (pace == 2) ::usleep(static_cast<useconds_t>(random.below(100)));
  const bool is_slow =
      static_cast<int>(here_.program.seed % static_cast<unsigned>(here_.program.ranks)) == here_.rank;
  if (pace == 3 && is_slow) ::usleep(static_cast<useconds_t>(random.below(3000)));
}

void Rank::work(const Work& work, Random random) {
  for (Part* part : work.parts) {
    dawdle(random);
    if (mistake_ == Mistake::value && part->spoil()) mistake_ = Mistake::none;
    part->submit(false);
    if (random.chance(5)) part->glance(random);
  }
  for (int i = 0; i < work.refusals; ++i) be_refused(here_, random);
  for (Part* part : work.last) {
    dawdle(random);
    // A call that needs another rank's join must not delay this rank's own join.
    const bool is_complete =
        part->call().kind == Kind::message || part->call().takers == here_.ranks_of(part->call().set);
    part->submit(is_complete && random.chance(60));
  }
}

void Rank::change(const SetChange& change, Random& random) {
  reached(Point::change);
  const bool is_set = change.what != SetChange::What::add_different;
  if (is_set && here_.epoch.sets[static_cast<std::size_t>(change.set)].among_members) {
    if (has(here_.ranks_of(change.set), here_.rank)) change_among_members(change, random);
    return;
  }
  switch (change.what) {
    case SetChange::What::remove: return remove(change);
    default: return add(change, random);
  }
}

void Rank::add(const SetChange& change, Random& random) {
  using What = SetChange::What;
  const Pending pending("dabke_add_process_set");
  const bool is_odd = change.what == What::add_different && has(change.odd, here_.rank);
  const Ranks ranks = is_odd                               ? change.other_ranks
                      : change.what == What::add_different ? here_.ranks_of(0)
                                                           : here_.ranks_of(change.set);
  const auto list = shuffled(ranks, random);
  dabke_process_set id = -9;
  const dabke_status status = dabke_add_process_set(list.data(), list.size(), &id);
  if (change.what == What::add_existing) {
    must("adding a set again", status, DABKE_ERROR_INVALID_ARGUMENT);
    return;
  }
  if (change.what == What::add_different) {
    must("adding different sets", status, DABKE_ERROR_MISMATCH);
    return;
  }
  if (!must("dabke_add_process_set", status)) return;
  here_.ids[static_cast<std::size_t>(change.set)] = id;
  check_set(change.set);
}

/// A set that is added twice is also removed twice.
void Rank::change_among_members(const SetChange& change, Random& random) {
  if (change.what == SetChange::What::remove) return remove(change);
  const Pending pending("dabke_add_process_set_among_members");
  const auto list = shuffled(here_.ranks_of(change.set), random);
  dabke_process_set& known = here_.ids[static_cast<std::size_t>(change.set)];
  dabke_handle* handle = nullptr;
  if (!must("dabke_add_process_set_among_members_async",
            dabke_add_process_set_among_members_async(list.data(), list.size(), &handle)))
    return;
  const dabke_status status = dabke_wait(handle, random.chance(50) ? -1 : 1e6);
  if (!must("dabke_wait of a new set", status, DABKE_OK, dabke_handle_message(handle))) {
    dabke_handle_free(handle);
    return;
  }
  dabke_process_set id = -9;
  must("dabke_handle_process_set", dabke_handle_process_set(handle, &id));
  dabke_handle_free(handle);
  if (change.what == SetChange::What::add_again) {
    if (id != known) wrong("a set that is added again has another id");
    must("taking back an add", dabke_remove_process_set_among_members(id));
    return;
  }
  known = id;
  check_set(change.set);
}

void Rank::remove(const SetChange& change) {
  const Pending pending("dabke_remove_process_set");
  const bool among_members = here_.epoch.sets[static_cast<std::size_t>(change.set)].among_members;
  Parts orphans;
  for (const Call& call : change.orphans) {
    if (!has(call.takers, here_.rank)) continue;
    for (auto& part : parts_of(call)) {
      part->submit(false);
      orphans.push_back(std::move(part));
    }
  }
  const dabke_process_set id = here_.ids[static_cast<std::size_t>(change.set)];
  std::int32_t size = 0;
  if (must("dabke_remove_process_set",
           among_members ? dabke_remove_process_set_among_members(id) : dabke_remove_process_set(id)))
    must("the size of a removed set", dabke_process_set_size(id, &size), DABKE_ERROR_UNKNOWN_PROCESS_SET);
  for (auto& part : orphans) {
    part->finish();
    done_.push_back(std::move(part));
  }
}

void Rank::join_sets(const Phase& phase, Random& random) {
  std::vector<std::pair<int, dabke_handle*>> handles;
  const auto check = [&](int set, std::int32_t last) {
    if (last < 0 || !has(here_.ranks_of(set), last))
      wrong("rank " + std::to_string(last) + " joined last, which is not in {" +
            text_of(here_.ranks_of(set)) + "}");
  };
  const Pending pending("dabke_join");
  if (std::ranges::any_of(phase.joins, [&](int set) { return has(here_.ranks_of(set), here_.rank); }))
    reached(Point::join);
  for (const int set : phase.joins) {
    if (!has(here_.ranks_of(set), here_.rank)) continue;
    dabke_options options = DABKE_OPTIONS_INIT;
    options.process_set = here_.ids[static_cast<std::size_t>(set)];
    if (here_.program.device_percent != 0) options.device = here_.rank;
    if (random.chance(50)) {
      std::int32_t last = -1;
      if (must("dabke_join", dabke_join(&options, &last))) check(set, last);
    } else {
      dabke_handle* handle = nullptr;
      if (must("dabke_join_async", dabke_join_async(&options, &handle))) handles.emplace_back(set, handle);
    }
  }
  for (const auto& [set, handle] : handles) {
    const dabke_status status = dabke_wait(handle, -1);
    std::int32_t last = -1;
    if (must("a join", status, DABKE_OK, dabke_handle_message(handle)) &&
        must("dabke_handle_last_joined_rank", dabke_handle_last_joined_rank(handle, &last)))
      check(set, last);
    dabke_handle_free(handle);
  }
}

/// Finishes some of the calls that earlier phases have left. Before a phase: also all calls that its changes
/// would end. At the end: all of them.
void Rank::finish_kept(const Phase* before, Random& random) {
  Parts now, later;
  for (auto& part : kept_) {
    const bool is_removed =
        before != nullptr && std::ranges::any_of(before->changes, [&](const SetChange& change) {
          return change.what == SetChange::What::remove && change.set == part->call().set;
        });
    (before == nullptr || is_removed || random.chance(40) ? now : later).push_back(std::move(part));
  }
  kept_ = std::move(later);
  finish(std::move(now), random);
}

void Rank::finish(Parts parts, Random& random) {
  random.shuffle(parts);
  for (auto& part : parts) {
    part->finish();
    done_.push_back(std::move(part));
  }
  // Frees memory, which the next calls may get again.
  std::erase_if(done_, [](const auto& part) { return !part->has_callback(); });
}

void Rank::shut_down() {
  reached(Point::leave);
  Parts leftovers;
  for (const Call& call : here_.epoch.leftovers) {
    if (!has(call.takers, here_.rank)) continue;
    for (auto& part : parts_of(call)) {
      part->submit(false);
      leftovers.push_back(std::move(part));
    }
  }
  if (!has_lost()) {  // otherwise the other ranks may still run calls without this rank
    if (mistake_ == Mistake::stop) ::pause();
    const Pending pending("the barrier before dabke_shutdown");
    must("dabke_barrier", dabke_barrier(nullptr));  // rank 0 ends the job for all when it leaves
  }
  {
    const Pending pending("dabke_shutdown");
    must("dabke_shutdown", dabke_shutdown());
  }
  for (auto& part : leftovers) {
    part->finish();
    done_.push_back(std::move(part));
  }
  for (const auto& part : done_) part->check_callback();
}

}  // namespace storm
