#include "reduce.h"

#include <algorithm>
#include <sstream>

#include "report.h"

namespace storm {
namespace {

template <class Act>
void each_phase(Program& program, Act act) {
  for (Epoch& epoch : program.epochs) {
    for (Phase& phase : epoch.phases) act(epoch, phase);
  }
}

void without_sets(Program& program) {
  for (Epoch& epoch : program.epochs) {
    epoch.static_sets = 0;
    epoch.sets.resize(1);
    std::erase_if(epoch.leftovers, [](const Call& call) { return call.set != 0; });
  }
  each_phase(program, [](Epoch&, Phase& phase) {
    phase.changes.clear();
    std::erase_if(phase.calls, [](const Call& call) { return call.set != 0; });
    std::erase_if(phase.joins, [](int set) { return set != 0; });
  });
}

void without_joins(Program& program) {
  each_phase(program, [](Epoch& epoch, Phase& phase) {
    phase.joins.clear();
    for (Call& call : phase.calls) {
      call.takers = epoch.sets[static_cast<std::size_t>(call.set)].ranks;
      if (call.ending == Ending::root_joined) call.ending = Ending::ok;
    }
  });
}

void without_mismatches(Program& program) {
  each_phase(program, [](Epoch&, Phase& phase) {
    for (Call& call : phase.calls) {
      if (call.ending != Ending::mismatch && call.ending != Ending::no_output &&
          call.ending != Ending::misfit)
        continue;
      call.ending = Ending::ok;
      call.odd = 0;
    }
    std::erase_if(phase.changes,
                  [](const SetChange& change) { return change.what == SetChange::What::add_different; });
  });
}

void without_devices(Program& program) {
  const auto at_home = [](std::vector<Call>& calls) {
    for (Call& call : calls) {
      call.is_on_device = false;
      if (call.difference == Difference::device) call.ending = Ending::ok;
      for (Call& follower : call.followers) follower.is_on_device = false;
    }
  };
  for (Epoch& epoch : program.epochs) at_home(epoch.leftovers);
  each_phase(program, [&](Epoch&, Phase& phase) {
    at_home(phase.calls);
    for (SetChange& change : phase.changes) at_home(change.orphans);
  });
}

void without_numbered(Program& program, const std::string& what, const std::string& value) {
  const auto number = std::strtoull(value.c_str(), nullptr, 10);
  if (what == "call") {
    each_phase(program, [&](Epoch&, Phase& phase) {
      std::erase_if(phase.calls, [&](const Call& call) { return call.id == number; });
    });
  } else if (what == "phases") {
    for (Epoch& epoch : program.epochs)
      epoch.phases.resize(std::min<std::size_t>(epoch.phases.size(), number));
  } else if (what == "epochs") {
    program.epochs.resize(std::min<std::size_t>(program.epochs.size(), number));
  } else if (what == "knob") {
    for (Epoch& epoch : program.epochs) epoch.knobs.erase(value);
  } else {
    wrong("STORM_WITHOUT: nothing is called " + what);
  }
}

void without(Program& program, const std::string& word) {
  const auto each = [&](auto act) { each_phase(program, [&](Epoch&, Phase& phase) { act(phase); }); };
  if (word == "sets") return without_sets(program);
  if (word == "joins") return without_joins(program);
  if (word == "mismatches") return without_mismatches(program);
  if (word == "devices") return without_devices(program);
  if (word == "changes") return each([](Phase& phase) { phase.changes.clear(); });
  if (word == "refusals") return each([](Phase& phase) { phase.refusals = 0; });
  if (word == "traces") return each([](Phase& phase) { phase.is_traced = false; });
  if (word == "dumps") return each([](Phase& phase) { phase.is_dumped = false; });
  if (word == "limits") {
    return each([](Phase& phase) {
      for (Call& call : phase.calls) call.numbers = Numbers::small;
    });
  }
  if (word == "hosts") {
    program.ranks_per_host = 0;
  } else if (word == "pace") {
    program.pace = 0;
  } else if (word == "knobs" || word == "leftovers") {
    for (Epoch& epoch : program.epochs) word == "knobs" ? epoch.knobs.clear() : epoch.leftovers.clear();
  } else {
    const auto colon = word.find(':');
    without_numbered(program, word.substr(0, colon),
                     colon == std::string::npos ? "" : word.substr(colon + 1));
  }
}

}  // namespace

void reduce(Program& program, const std::string& words) {
  std::istringstream in(words);
  for (std::string word; std::getline(in, word, ',');) without(program, word);
}

}  // namespace storm
