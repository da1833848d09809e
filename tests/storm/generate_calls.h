// Random calls.
#pragma once

#include <string>
#include <vector>

#include "program.h"
#include "random.h"

namespace storm {

class CallMaker {
 public:
  struct Limits {
    bool is_compressed = false;  // a knob compresses: numbers must survive float16 and bfloat16
    bool shares_names = false;   // process sets use one another's names
  };

  CallMaker(Random& random, Limits limits) : random_(random), limits_(limits) {}

  /// Makes a call of all ranks of the set.
  Call call(int set, Ranks ranks);
  /// Adds a call that is submitted in the callback of this call. Its name is unique. This call must be waited
  /// for in its own phase, because its rank may join before a later one.
  void add_follower(Call& call, Ranks ranks);
  /// Makes a single allreduce with a unique name for some ranks of the set, or one end of a message.
  Call lonely(int set, Ranks of_set, Ranks takers);
  /// Makes the same call again, with another id.
  Call again(const Call& call);
  /// Makes some ranks differ from the others, if the call allows it.
  void make_odd(Call& call);
  /// Makes the output allocators of some ranks refuse, if the call needs outputs.
  void refuse_outputs(Call& call);

 private:
  std::string name(int set);
  std::string common_name();
  std::vector<std::int64_t> shape(Kind kind);
  std::int64_t element_count();
  void choose_ends(Call& call, Ranks ranks);
  void choose_operation(Call& call);
  void choose_scales(Call& call);
  void choose_numbers(Call& call);

  Random& random_;
  Limits limits_;
  std::uint64_t calls_ = 0;
};

/// The call that the odd ranks submit instead.
Call odd_form_of(const Call& call, Ranks set);

}  // namespace storm
