// The root's half of the negotiation. It makes the job's one sequence of orders from what has become ready
// everywhere.
//
// Pure: it has no threads, sockets or clocks. Time comes in as an argument.
//   1. complete() decides what becomes of a name that all its ranks have reported: a run, or an error that
//      names the difference and the ranks.
//   2. take_orders() numbers what is ready and need not wait for the data plane (ready_list.h).
//   3. It also gives a signature its slot (response_cache.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/settings/fusion_settings.h"
#include "runtime/call/process_set_list.h"
#include "runtime/negotiation/batching/ready_list.h"
#include "runtime/negotiation/batching/step_learner.h"
#include "runtime/negotiation/tables/collector.h"
#include "runtime/negotiation/tables/process_sets.h"
#include "runtime/negotiation/tables/response_cache.h"
#include "runtime/negotiation/tables/set_holds.h"
#include "runtime/negotiation/tables/tensor_table.h"

namespace dabke::negotiation {

class Sequencer {
 public:
  struct Options {
    Duration linger_limit{};               // longest deliberate wait; zero: as long as the data plane is busy
    std::size_t cache_capacity = 131'072;  // slots; 0: none
    std::size_t learned_batch_bytes = 0;   // 0: learns no batches
    FusionSettings fusion;
    bool joins_as_horovod = false;  // DABKE_JOIN
  };

  Sequencer(Options options, std::shared_ptr<const Topology> topology, const TensorTable& tensors,
            const ResponseCache& cache);

  void add_first_set(const FirstSet& set) {
    sets_.add(set.id, set.ranks);
    set.is_among_members ? holds_.hold_by_members(set.id) : holds_.hold_by_job(set.id);
  }
  /// Gives new sets no id below `id`.
  void begin_set_ids_at(ProcessSetId id) { sets_.begin_ids_at(id); }
  void complete(TensorEntry& entry, Collector::Taken taken, TimePoint now);
  /// Called when all ranks of the set have joined.
  void all_joined(ProcessSetId id, Rank last, TimePoint now);
  /// The rank, and all ranks that report through it, submit nothing more.
  void goodbye(Rank rank, TimePoint now);
  /// Fails a name that not all ranks have reported.
  void force_error(ProcessSetId set, const std::string& name, Code code, std::string text, TimePoint now);
  /// True if such an error waits to be ordered.
  bool is_being_failed(ProcessSetId set, const std::string& name) const {
    return ready_.is_being_failed(set, name);
  }
  void wanted(wire::Slot slot, TimePoint now);
  /// Called when a thread waits for a name that its rank has reported.
  void awaited(const TensorEntry& entry, TimePoint now);
  void change_timeline(wire::TimelineChange change, TimePoint now);
  /// So many changes of the job's hosts have been announced. Ordered before the next run in the world, so
  /// that nothing is sent for it alone.
  void announce_change(std::uint64_t changes) { changes_ = changes; }
  /// Called when the slot is taken back: what is ready under it is ordered with the whole signature.
  void spell_out(wire::Slot slot) { ready_.spell_out(slot); }

  /// Sets whether the root's own data plane of this type has enough to do, so that waiting for more tensors
  /// costs nothing.
  void set_data_plane_busy(DeviceType type, bool busy) { ready_.set_busy(type, busy); }
  const ReadyList& ready() const { return ready_; }
  std::vector<wire::Order> take_orders(TimePoint now);

 private:
  Status check_joined(const TensorEntry& entry, const wire::Report& report) const;
  Status add_set(const Request& request, wire::Order& order);
  Status remove_set(const Request& request, wire::Order& order);
  void push(wire::Order order, TimePoint now, TensorEntry* entry = nullptr, RequestRef request = nullptr);
  void push_error(ProcessSetId set, const std::string& name, Code code, std::string text, bool forced,
                  TimePoint now);
  Status refusal_in(const wire::Report& report) const;
  void push_mismatch(const TensorEntry& entry, const wire::Report& report, TimePoint now);
  void push_not_served(const TensorEntry& entry, const Collector::Taken& taken, TimePoint now);
  std::optional<wire::Slot> take_slot(ProcessSetId set, std::vector<wire::Order>& orders);
  bool evict_one(std::vector<wire::Order>& orders);
  void number(wire::Order order, std::vector<wire::Order>& orders);
  void sequence(ReadyOrder ready, std::vector<wire::Order>& orders);
  void mark_batches();
  std::uint64_t learned_batch_of(wire::Slot slot) const;
  void announce_learned(std::vector<wire::Order>& orders);
  void order_change(const ReadyOrder& next, std::vector<wire::Order>& orders);

  Options options_;
  std::shared_ptr<const Topology> topology_;
  const TensorTable& tensors_;
  const ResponseCache& cache_;
  ProcessSets sets_;  // as they are after all orders in the ready list
  SetHolds holds_;    // of these sets
  SlotAllocator slots_;
  StepLearner learner_;
  struct Learned {
    wire::Slot slot = wire::kNoSlot;
    std::uint32_t batch = 0;  // from 1 on
  };
  std::vector<Learned> learned_;  // announced; by slot index
  ReadyList ready_;
  std::vector<ReadyOrder> going_;  // used by take_orders() only
  std::uint64_t next_number_ = 1;
  std::uint64_t changes_ = 0;  // announced and not ordered yet; 0: none
};

}  // namespace dabke::negotiation
