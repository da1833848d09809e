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
    bool is_compressed = false;  // a knob says so: numbers must survive float16 and bfloat16
    bool shares_names = false;   // process sets use one another's names
  };

  CallMaker(Random& random, Limits limits) : random_(random), limits_(limits) {}

  /// A call of all ranks of the set.
  Call call(int set, Ranks ranks);
  /// Lets a call that nobody else's name can meet be submitted in the callback of this one, which must be
  /// waited for in its own phase: in a later one its rank may have joined.
  void add_follower(Call& call, Ranks ranks);
  /// A single allreduce with a name that nobody else uses.
  Call lonely(int set, Ranks takers);
  /// The same again, as another call.
  Call again(const Call& call);
  /// Lets some ranks differ from the others, where they can.
  void make_odd(Call& call);
  /// Lets the output allocators of some ranks give nothing, where outputs are asked for.
  void refuse_outputs(Call& call);

 private:
  std::string name(int set);
  std::string common_name();
  std::vector<std::int64_t> shape(Kind kind);
  std::int64_t element_count();
  void choose_operation(Call& call);
  void choose_scales(Call& call);
  void choose_numbers(Call& call);

  Random& random_;
  Limits limits_;
  std::uint64_t calls_ = 0;
};

/// What the odd ranks of a call submit.
Call odd_form_of(const Call& call, Ranks set);

}  // namespace storm
