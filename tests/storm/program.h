// A random program: what all ranks of a job do. It follows from the seed alone, so each rank makes the same
// program for itself, without communication.
//
//   Program   one run of a job: how it is started, and one or more epochs
//   Epoch     from dabke_init to dabke_shutdown, with knobs of its own
//   Phase     calls that are submitted in any order, from several threads, and changes of process sets
//             at the same time
//   Call      one collective of the ranks of a process set, or one message between two of them; a group is
//             one call with several tensors
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dabke/dabke.h"
#include "dtypes.h"

namespace storm {

constexpr int kMostRanks = 8;

/// World ranks as bits.
using Ranks = unsigned;
constexpr bool has(Ranks ranks, int rank) { return (ranks >> rank & 1U) != 0; }
std::vector<int> list_of(Ranks ranks);
std::string text_of(Ranks ranks);  // "0,2"
std::int64_t elements_of(std::span<const std::int64_t> shape);

enum class Kind { allreduce, allgather, broadcast, alltoall, reducescatter, barrier, message };
const char* name_of(Kind kind);
constexpr bool reduces(Kind kind) { return kind == Kind::allreduce || kind == Kind::reducescatter; }
constexpr bool has_root(Kind kind) { return kind == Kind::broadcast || kind == Kind::message; }
/// True if the first dimension may differ between ranks.
constexpr bool has_own_rows(Kind kind) { return kind == Kind::allgather || kind == Kind::alltoall; }

/// How a call with several tensors is submitted.
enum class Form {
  single,   // one tensor
  grouped,  // one call of dabke_grouped_...
  members,  // one call a tensor, with options.group
};

/// The numbers that a reduction gets.
enum class Numbers {
  small,    // sums and averages are whole and small, so that every dtype holds them
  any,      // integers: all bits, which wrap
  extreme,  // near the limits of the dtype, as far as the result is within them
};

/// The difference between the calls of the odd ranks and the others.
enum class Difference { none, dtype, shape, op, root, scale, kind, count, device };

enum class Ending {
  ok,
  mismatch,
  no_output,    // the output allocators of some ranks refuse
  misfit,       // some ranks give an output that is too long
  root_joined,  // broadcast from a rank that has joined
  removed,      // submitted by some ranks only, in a process set that is removed
  shut_down,    // submitted by some ranks only, until the job ends
};

struct Tensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;  // has_own_rows(): the first dimension does not count
};

struct Call {
  std::uint64_t id = 0;  // unique in the program
  Kind kind = Kind::allreduce;
  Form form = Form::single;
  int set = 0;      // an index into Epoch::sets
  std::string key;  // of the negotiation: the name of the first tensor, or of the group
  std::vector<Tensor> tensors;
  dabke_reduce_op op = DABKE_SUM;
  int root = 0;              // of a broadcast; of a message, the sender
  int to = 0;                // of a message
  int tag = 0;               // of a message
  bool is_from_any = false;  // the receiver of the message names no sender
  double prescale = 1;
  double postscale = 1;
  dabke_compression compression = DABKE_COMPRESSION_DEFAULT;
  Numbers numbers = Numbers::small;
  bool equal_splits = false;  // alltoall without options.splits
  bool is_on_device = false;  // its tensors are on each rank's CUDA device
  bool is_last = false;       // submitted last, by one thread, in the program's order: it may block
  bool is_kept = false;       // waited for in a later phase
  Ranks takers = 0;           // the ranks that submit it; the other ranks of the set have joined
  Ranks odd = 0;              // the ranks that pass something else, or have no fitting output
  Difference difference = Difference::none;
  Ending ending = Ending::ok;
  std::vector<Call> followers = {};  // at most one: each taker submits it in the callback of this call

  std::string describe() const;
};

struct Set {
  Ranks ranks = 0;
  bool among_members = false;  // its members alone add and remove it; other ranks do not know its id
};

struct SetChange {
  enum class What { add, remove, add_existing, add_different, add_again } what = What::add;
  int set = 0;
  Ranks odd = 0;  // add_different: the ranks that pass other_ranks
  Ranks other_ranks = 0;
  std::vector<Call> orphans = {};  // remove: calls that only some ranks submit before it
};

struct Phase {
  std::vector<Call> calls;
  std::vector<SetChange> changes;
  std::vector<int> joins;   // sets whose ranks all join once they have submitted their calls
  std::uint64_t order = 0;  // the seed of the ranks' orders of calls; repeated phases share it
  bool is_traced = false;   // a timeline is written during the phase
  bool is_dumped = false;
  int refusals = 0;  // calls with bad arguments
};

/// A message of which one end comes late: it submits when the other end already waits. So a fault
/// can come at a known moment of the message.
struct TimedMessage {
  int number = 0;  // unique in the program
  Call call;
  bool is_sender_late = false;

  int late() const { return is_sender_late ? call.root : call.to; }
  int early() const { return is_sender_late ? call.to : call.root; }
};

struct Epoch {
  std::map<std::string, std::string> knobs;  // without DABKE_
  bool knobs_in_options = false;             // instead of the environment
  bool knobs_differ = false;                 // fusion and cache differ between ranks: the root's are used
  std::vector<Set> sets;                     // all sets ever; the first is the world
  int static_sets = 0;                       // sets of dabke_init_options, which follow the world
  std::vector<Phase> phases;
  std::vector<TimedMessage> messages;  // after the phases, one after the other
  std::vector<Call> leftovers;         // calls that are pending when the job ends
};

struct Program {
  std::uint64_t seed = 0;
  int ranks = 1;
  std::string starter = "dabkerun";  // or mpich, openmpi
  int ranks_per_host = 0;            // by DABKE_HOSTNAME; 0: all on one host
  int registered_percent = 0;        // percentage of tensors in memory of dabke_alloc
  int pace = 0;                      // how much ranks pause between calls
  int device_percent = 0;            // approximate percentage of calls on devices
  std::vector<Epoch> epochs;
};

/// The program of a seed (generate.cc). `steady`: how often the last phase of each epoch is repeated.
Program program_of(std::uint64_t seed, int steady);

}  // namespace storm
