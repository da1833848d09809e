// One rank runs its part of the program.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "part.h"

namespace storm {

class Rank {
 public:
  Rank(const Program& program, const Epoch& epoch, int rank, std::atomic<Mistake>& mistake);
  /// Runs from init to shutdown.
  void run();

 private:
  using Parts = std::vector<std::unique_ptr<Part>>;
  /// The work of a thread in a phase, in this order.
  struct Work {
    std::vector<Part*> parts;
    std::vector<Part*> last;  // may block
    int refusals = 0;
  };

  /// Returns false if the job did not start, which a campaign of faults allows.
  bool init();
  void check_set(int set);
  void run_phase(const Phase& phase, std::size_t number);
  /// The parts of one call. A group has several.
  Parts parts_of(const Call& call);
  std::vector<Work> divided(const Phase& phase, Parts& parts, Random& random);
  void work(const Work& work, Random random);
  void dawdle(Random& random);
  void change(const SetChange& change, Random& random);
  void add(const SetChange& change, Random& random);
  void change_among_members(const SetChange& change, Random& random);
  void remove(const SetChange& change);
  void join_sets(const Phase& phase, Random& random);
  void finish_kept(const Phase* before, Random& random);
  void finish(Parts parts, Random& random);
  void shut_down();

  Here here_;
  std::atomic<Mistake>& mistake_;
  Parts kept_;
  Parts done_;  // kept for their callbacks
};

}  // namespace storm
