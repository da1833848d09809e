// Learned batches over the C API: a rank that waits for one tensor before it submits the next of its batch.
#include <array>

#include "c_worker.h"

namespace worker::c {
namespace {

constexpr int kSteps = 10;  // a step is learned after three equal ones

struct Pair {
  Array a{{0}}, b{{0}};
  Handle a_done, b_done;

  void submit_a(int step) {
    a.values[0] = me() + step;
    submit("a", a, a_done);
  }
  void submit_b(int step) {
    b.values[0] = me() * step;
    submit("b", b, b_done);
  }
  void wait_a(int step) {
    a_done.must_be_well("a of step " + std::to_string(step));
    must_equal("a", a.values[0], all() * (all() - 1) / 2 + all() * step);
  }
  void wait_b(int step) {
    b_done.must_be_well("b of step " + std::to_string(step));
    must_equal("b", b.values[0], all() * (all() - 1) / 2 * step);
  }

 private:
  static void submit(const char* name, Array& array, Handle& done) {
    const dabke_options options = options_for(DABKE_WORLD);
    must(dabke_allreduce_async(name, &array.tensor, nullptr, &options, done.out()), name);
  }
};

void together(int step) {
  Pair pair;
  pair.submit_a(step);
  pair.submit_b(step);
  pair.wait_a(step);
  pair.wait_b(step);
}

void one_by_one(int step) {
  Pair pair;
  pair.submit_a(step);
  pair.wait_a(step);
  pair.submit_b(step);
  pair.wait_b(step);
}

}  // namespace

void learned() {
  const Job job;
  int step = 0;
  for (int stubborn = -1; stubborn < all(); ++stubborn) {  // -1: every rank
    for (int i = 0; i < kSteps; ++i) together(step++);
    for (int i = 0; i < kSteps; ++i) {
      if (stubborn < 0 || stubborn == me()) {
        one_by_one(step++);
      } else {
        together(step++);
      }
    }
  }
}

}  // namespace worker::c
