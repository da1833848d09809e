/* The negotiation of a job of three ranks, for the model checker Spin: every interleaving of a small program.
 *
 * It mirrors runtime/negotiation/; each part below says which functions. Change it together with them.
 *   - A step is what the coordinator does in one go: it takes an event in, then all that follows from it.
 *   - Eager: what is to be sent goes out in that same step. LAZY: in a step of its own, later, so several events may come
 *     before it (a poll brings many messages; a busy data plane holds orders back). The root then decides all that is ready
 *     into one list before it applies the first of it, as Sequencer::take_orders and Machine::broadcast_orders do.
 *   - A message up carries several items, as ReadyMessage does. Each order travels down alone.
 *   - The names 0 to NAMES - 1 are tensors. With DYNAMIC name 1 belongs to a process set that name 2 adds and name 3 removes.
 *
 * What is asserted:
 *   - Each rank applies its projection of one sequence: no order twice, none left out, each with the root's meaning.
 *     EXECUTED also compares what the ranks have run with each other, without looking at numbers.
 *   - Nobody reports a name twice. An order is run by as many ranks with data of their own as it says contribute, and a rank
 *     runs without data only what it has joined.
 *   - When nothing can move any more, every request and every join on a living rank has completed, and all have had the
 *     orders that concern them.
 *   - Nothing fails unless a rank crashes.
 * Left out: signatures, mismatches and errors by order, broadcast roots, stalls and inquiries, groups, bytes, and how the
 * step learner comes to its batches (here the root may learn one at any moment).
 *
 * run.py says which macros make a scenario, and what must be reachable in it (EVENT).
 */
#ifndef NAMES
#define NAMES 2
#endif
#ifndef CAP           /* messages on a link */
#define CAP 8
#endif
#ifndef PLACES        /* slots in use at one time */
#define PLACES 4
#endif
#ifndef SLOTS         /* slots ever given, plus 1 */
#define SLOTS 6
#endif
#ifndef MOST          /* orders, plus 1 */
#define MOST 16
#endif
#ifndef M0            /* the process set of each name, as a mask of ranks */
#define M0 7
#endif
#ifndef M1
#define M1 7
#endif
#ifndef M2
#define M2 7
#endif
#ifndef CRASHER
#define CRASHER 9
#endif
#ifndef LEAVERS       /* mask */
#define LEAVERS 0
#endif
#ifndef SYNC          /* mask of ranks that wait for each operation before the next, and say so (Machine::want) */
#define SYNC 0
#endif
#ifndef POLLS         /* mask of ranks that do the same, but ask instead of waiting */
#define POLLS 0
#endif
#ifndef AFTER         /* operations of name 0 after the join */
#define AFTER 0
#endif
#ifndef TODO          /* how often a rank submits a name */
#define TODO(r, n) 1
#endif
#ifndef PROGRAM       /* what must hold before rank r submits name n */
#define PROGRAM(r, n) 1
#endif

#define I(r, n) ((r) * NAMES + (n))
#define E(r, s) ((r) * SLOTS + (s))
#define BIT(c) (1 << (c))
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))

/* ---- Topology: a rank reports what its subtree has; the reporters of a rank are itself and its children. */
#ifdef STAR
#define SUBTREE(c) (((c) == 0 -> 7 : BIT(c)))
#define CHILDREN(r) (((r) == 0 -> 6 : 0))
#define PARENT(r) 0
#else
#define SUBTREE(c) (((c) == 0 -> 7 : ((c) == 1 -> 6 : 4)))
#define CHILDREN(r) (((r) == 0 -> 2 : ((r) == 1 -> 4 : 0)))
#define PARENT(r) (((r) == 2 -> 1 : 0))
#endif
#define IS_CHILD(r, c) ((CHILDREN(r) & BIT(c)) != 0)
#define IS_NEIGHBOUR(r, p) (IS_CHILD(r, p) || ((r) != 0 && PARENT(r) == (p)))
#define REPORTERS(r) (CHILDREN(r) | BIT(r))
#define BEHIND(r, c) (((c) == (r) -> BIT(c) : SUBTREE(c)))

#define MEMBERS(n) (((n) == 0 -> M0 : ((n) == 1 -> M1 : ((n) == 2 -> M2 : 7))))
#define EXPECTS(r, n, c) ((REPORTERS(r) & BIT(c)) != 0 && (BEHIND(r, c) & MEMBERS(n)) != 0)
#ifdef DYNAMIC
#define IN_WORLD(n) ((n) != 1)
#define MOVES_DATA(n) ((n) < 2)
#define EXISTS(r, n) ((n) != 1 || set[r] == 1)
#else
#define IN_WORLD(n) (MEMBERS(n) == 7)
#define MOVES_DATA(n) 1
#define EXISTS(r, n) 1
#endif
/* Collector::is_open */
#define OPEN(r, n) (EXISTS(r, n) && (gone[r] & MEMBERS(n)) == 0)
/* Collector::is_complete, of a name that somebody has reported */
#ifdef MISTAKE_ROOT_DOES_NOT_WAIT
#define COMPLETE(r, n) (r == 0 || ((got[I(r, n)] | (IN_WORLD(n) -> joined[r] : 0)) & expected[I(r, n)]) == expected[I(r, n)])
#else
#define COMPLETE(r, n) (((got[I(r, n)] | (IN_WORLD(n) -> joined[r] : 0)) & expected[I(r, n)]) == expected[I(r, n)])
#endif

#define IDLE(r) (todo[I(r, 0)] == 0 && todo[I(r, NAMES - 1)] == 0 && (NAMES < 3 || (todo[I(r, 1)] == 0 && todo[I(r, 2)] == 0)))
#define WAITS(r) ((NAMES > 0 && pending[I(r, 0)] != 0) || (NAMES > 1 && pending[I(r, 1)] != 0))
#define MAY_SUBMIT(r, n) (NAMES > (n) && todo[I(r, n)] != 0 && !joining[r] && (((SYNC | POLLS) & BIT(r)) == 0 || !WAITS(r)) && \
                          PROGRAM(r, n))
#define HOLDS(r) (held[I(r, 0)] || (NAMES > 1 && held[I(r, 1)]) || (NAMES > 2 && held[I(r, 2)]))

/* Printed once by the verifier, which so proves that a scenario does what it is there for. */
#define EVENT(what) c_code { static char once; if (!once) { once = 1; printf("reached: " what "\n"); } }

mtype = {ready_list, goodbye, fail_message,                           /* up; the last also down */
         run_full, run_slot, evict, left, joined_all, learned_, release};  /* orders */
chan up[3] = [CAP] of {mtype, byte, byte, byte, bit, bit, byte};  /* slots, names in full, counts, joined, wanted, seen */
chan down[3] = [CAP] of {mtype, byte, byte, byte, byte};          /* number, name or rank, slot, contributors */
chan ready = [6] of {mtype, byte};                                /* Sequencer::ready_ */
chan list = [8] of {mtype, byte, byte, byte, byte};               /* what Sequencer::take_orders returns */

/* ---- What a rank knows: Names, Collector, LearnedBatches, Machine. */
byte todo[3 * NAMES];         /* the program: to be submitted yet */
byte pending[3 * NAMES];      /* Name::waiting */
byte slot[3 * NAMES];
bit held[3 * NAMES];
bit batch[3 * NAMES];
byte got[3 * NAMES];          /* Collection::reported */
bit spelled[3 * NAMES];       /* Collection::candidates is not empty */
byte contributors[3 * NAMES];
byte evicted[3 * SLOTS];      /* Names::evicted_: name + 1 */
byte until[3 * SLOTS];
byte seen[9];
byte last_order[3];
byte joined[3];               /* Collector::Set::joined of the world */
bit joining[3];               /* Machine::joins_ */
bit join_announced[3];
byte batch_size[3];           /* 0: nothing learned */
byte been_ready[3];
bit loose[3];
byte gone[3];                 /* left_ */
byte lost[3];                 /* peer_gone_ */
bit leaving[3];
bit over[3];
bit failed[3];
bit dead[3];                  /* crashed, or gone after its goodbye */
bit crashed[3];
#ifdef DYNAMIC
byte set[3];                  /* of name 1: 0 before, 1 there, 2 removed */
byte sequencer_set;           /* Sequencer::sets_ */
#endif
byte up_slots[3];             /* up_ */
byte up_full[3];
byte up_counts[3];            /* two bits a name */
bit up_joined[3];
bit up_wanted[3];
/* The root's Sequencer. */
bit in_ready_list[NAMES];
bit ready_full[NAMES];
byte ready_contributors[NAMES];
byte place[NAMES];            /* the slot that is in use for a name */
byte used_at[NAMES];          /* the order of in_use_ */
byte next_slot = 1;
byte goodbyes;
bit has_learned;
bit forget_learned;           /* StepLearner::change_ */
#ifdef LEARN  /* how often the root may learn a batch of names 0 and 1 */
byte learns = LEARN;
#endif

/* ---- What nobody knows: for the assertions. */
byte orders;
mtype order_kind[MOST];
byte order_what[MOST];
byte order_members[MOST];
byte order_contributors[MOST];
byte ran_with[MOST];
byte submitted[3 * NAMES];
byte completed[3 * NAMES];
byte joins_asked[3];
byte joins_done[3];
bit done_joining[3];
#ifdef EXECUTED
short executed[3];            /* names in the order in which they ran, four to a digit */
#endif

hidden byte expected[3 * NAMES];  /* Collector::Set::expected, a mask of reporters; never changes */

/* ---- Within one step; worth nothing between steps. */
hidden byte n; hidden byte k; hidden byte s; hidden byte m;
hidden byte rc;               /* who reports: the rank itself or a child */
hidden byte by_slot;          /* masks of names: what rc reports */
hidden byte in_full;
hidden byte count[4];
hidden byte fresh;            /* to be announced */
hidden byte joins;             /* rc has joined */
hidden byte wants;
hidden byte heard;             /* seen is to be noted */
hidden byte flush;
hidden byte victim;
hidden mtype d_kind; hidden byte d_number; hidden byte d_what; hidden byte d_slot; hidden byte d_count;
hidden mtype u_kind; hidden byte u_slots; hidden byte u_full; hidden byte u_counts; hidden byte u_joined; hidden byte u_wanted;
hidden byte u_seen;
hidden byte members;

/* ---- Links. What is sent to the dead is read by nobody. */
inline send_down(A_C, A_KIND, A_NUMBER, A_WHAT, A_SLOT, A_COUNT) {
  if
  :: !dead[A_C] && (lost[r] & BIT(A_C)) == 0 -> assert(len(down[A_C]) < CAP); down[A_C]!A_KIND, A_NUMBER, A_WHAT, A_SLOT, A_COUNT
  :: else -> skip
  fi
}

inline send_up(A_KIND, A_WHAT) {
  if
  :: !dead[PARENT(r)] && (lost[r] & BIT(PARENT(r))) == 0 -> assert(len(up[r]) < CAP); up[r]!A_KIND, A_WHAT, 0, 0, 0, 0, 0
  :: else -> skip
  fi
}

/* Machine::flush_up */
inline flush_up() {
  if
  :: r != 0 && !over[r] && (up_slots[r] != 0 || up_full[r] != 0 || up_joined[r] || up_wanted[r]) ->
    if
    :: !dead[PARENT(r)] && (lost[r] & BIT(PARENT(r))) == 0 ->
      assert(len(up[r]) < CAP);
      up[r]!ready_list, up_slots[r], up_full[r], up_counts[r], up_joined[r], up_wanted[r], last_order[r]
    :: else -> skip
    fi;
    up_slots[r] = 0; up_full[r] = 0; up_counts[r] = 0; up_joined[r] = 0; up_wanted[r] = 0
  :: else -> skip
  fi
}

/* ---- Up: Collector::take, Machine::took, Sequencer::complete. Of a name that is complete here. */
inline take(A_N) {
  printf("|   rank %d: name %d is complete, contributors %d\n", r, A_N, contributors[I(r, A_N)]);
  if
  :: r == 0 ->
#ifdef DYNAMIC
    if
    :: A_N == 1 && sequencer_set != 1 -> skip  /* its removal is under way, and fails what waits there */
    :: else ->
      if :: A_N == 2 -> sequencer_set = 1 :: A_N == 3 -> sequencer_set = 2 :: else -> skip fi;
#endif
      assert(!in_ready_list[A_N] && len(ready) < 6);
      ready!run_full, A_N;
      in_ready_list[A_N] = 1;
      ready_full[A_N] = spelled[I(r, A_N)] || got[I(r, A_N)] != expected[I(r, A_N)];
      ready_contributors[A_N] = contributors[I(r, A_N)]
#ifdef MISTAKE_ROOT_RUNS_BEFORE_NUMBERING
      ; executed[0] = executed[0] * 4 + A_N + 1
#endif
#ifdef DYNAMIC
    fi
#endif
  :: r != 0 && !spelled[I(r, A_N)] && got[I(r, A_N)] == expected[I(r, A_N)] -> up_slots[r] = up_slots[r] | BIT(slot[I(r, A_N)])
  :: else -> up_full[r] = up_full[r] | BIT(A_N); up_counts[r] = up_counts[r] | (contributors[I(r, A_N)] << (2 * A_N))
  fi;
  got[I(r, A_N)] = 0; spelled[I(r, A_N)] = 0; contributors[I(r, A_N)] = 0
}

/* Collector::report, note, spell_out; Machine::took. */
inline report(A_N, A_FULL) {
  if
  :: OPEN(r, A_N) && (expected[I(r, A_N)] & BIT(rc)) != 0 ->
    assert((got[I(r, A_N)] & BIT(rc)) == 0);  /* or the job ends: reported twice */
    if :: A_FULL -> spelled[I(r, A_N)] = 1 :: else -> skip fi;
    got[I(r, A_N)] = got[I(r, A_N)] | BIT(rc);
    contributors[I(r, A_N)] = contributors[I(r, A_N)] + count[A_N];
    if :: COMPLETE(r, A_N) -> take(A_N) :: else -> skip fi
  :: else -> skip
  fi
}

/* LearnedBatches::release, Machine::report_slots: what is kept back here is reported. */
inline let_go() {
  for (k : 0 .. NAMES - 1) {
    if
    :: held[I(r, k)] -> held[I(r, k)] = 0; by_slot = by_slot | BIT(k); rc = r; loose[r] = 1
    :: else -> skip
    fi
  }
}

/* Machine::announce, LearnedBatches::ready. */
inline announce(A_N) {
  rc = r;
  if
  :: slot[I(r, A_N)] == 0 -> in_full = BIT(A_N); count[A_N] = 1
  :: slot[I(r, A_N)] != 0 && !batch[I(r, A_N)] -> by_slot = BIT(A_N)
  :: else ->
    been_ready[r]++;
    if
    :: been_ready[r] >= batch_size[r] -> let_go(); by_slot = by_slot | BIT(A_N); been_ready[r] = 0; loose[r] = 0
    :: been_ready[r] < batch_size[r] && loose[r] -> by_slot = BIT(A_N)
    :: else -> held[I(r, A_N)] = 1
    fi
  fi
}

/* Machine::announce_join: not before all that was submitted first has been reported. */
inline announce_join() {
  if
#ifndef MISTAKE_JOIN_OVERTAKES
  :: joining[r] && !join_announced[r] && !(IN_WORLD(0) && pending[I(r, 0)] > 1) &&
     !(NAMES > 1 && IN_WORLD(NAMES - 1) && pending[I(r, NAMES - 1)] > 1) ->
#else
  :: joining[r] && !join_announced[r] ->
#endif
    join_announced[r] = 1; let_go(); rc = r; joins = 1
  :: else -> skip
  fi
}

/* Machine::note_join, Sequencer::all_joined. */
inline note_join() {
  if
  :: gone[r] == 0 ->
    joined[r] = joined[r] | BIT(rc);
    for (m : 0 .. NAMES - 1) {
      if :: IN_WORLD(m) && got[I(r, m)] != 0 && COMPLETE(r, m) -> EVENT("a join completes a tensor"); take(m) :: else -> skip fi
    };
    if
    :: joined[r] == REPORTERS(r) -> if :: r == 0 -> ready!joined_all, 0 :: else -> up_joined[r] = 1 fi
    :: else -> skip
    fi
  :: else -> skip
  fi
}

/* Machine::note_wanted; Sequencer::wanted, StepLearner::forget. */
inline note_wanted() {
  if
#ifdef MISTAKE_WANT_NOT_PASSED_ON
  :: r == 1 && rc != r -> skip
#endif
#ifdef MISTAKE_WANT_OF_ROOT_STAYS
  :: r == 0 && rc == r -> skip
#endif
  :: r != 0 -> up_wanted[r] = 1
  :: r == 0 && has_learned -> has_learned = 0; forget_learned = 1; ready!release, 0
  :: else -> skip
  fi
}

/* Machine::from_child, slot_from_child: what the items of a message mean here. */
inline from_child(A_C) {
  rc = A_C;
  for (s : 1 .. SLOTS - 1) {
    if
    :: (u_slots & BIT(s)) != 0 ->
      printf("|   rank %d is told of slot %d\n", r, s);
      victim = 9;
      for (k : 0 .. NAMES - 1) { if :: slot[I(r, k)] == s -> victim = k :: else -> skip fi };
      if
      :: victim != 9 -> by_slot = by_slot | BIT(victim)
#ifndef MISTAKE_EVICTED_SLOT_DROPPED
      :: victim == 9 && evicted[E(r, s)] != 0 ->
        EVENT("a report by slot crosses the slot's eviction");
        victim = evicted[E(r, s)] - 1; in_full = in_full | BIT(victim); count[victim] = COUNT(BEHIND(r, A_C) & MEMBERS(victim))
#endif
      :: else -> EVENT("a report by slot means nothing any more"); skip
      fi
    :: else -> skip
    fi
  };
  for (k : 0 .. NAMES - 1) {
    if
    :: (u_full & BIT(k)) != 0 && OPEN(r, k) -> in_full = in_full | BIT(k); count[k] = (u_counts >> (2 * k)) & 3
    :: else -> skip
    fi
  };
  joins = u_joined; wants = u_wanted; heard = 1
}

/* Machine::note_seen, Names::forget_evicted. */
inline note_seen(A_C) {
  seen[r * 3 + A_C] = u_seen;
  for (k : 1 .. SLOTS - 1) {
    if
    :: evicted[E(r, k)] != 0 && (!IS_CHILD(r, 1) || seen[r * 3 + 1] >= until[E(r, k)]) &&
       (!IS_CHILD(r, 2) || seen[r * 3 + 2] >= until[E(r, k)]) -> evicted[E(r, k)] = 0; until[E(r, k)] = 0
    :: else -> skip
    fi
  }
}

/* ---- The root's decisions: Sequencer::number. */
inline number(A_KIND, A_WHAT, A_SLOT, A_COUNT) {
  orders++; assert(orders < MOST && len(list) < 8);
  order_kind[orders] = A_KIND; order_what[orders] = A_WHAT; order_contributors[orders] = A_COUNT;
  if
  :: A_KIND == run_full || A_KIND == run_slot || A_KIND == evict -> order_members[orders] = MEMBERS(A_WHAT)
  :: else -> order_members[orders] = 7
  fi;
  list!A_KIND, orders, A_WHAT, A_SLOT, A_COUNT
}

/* Sequencer::sequence, take_slot, evict_one, give_back_all; StepLearner::disturbed. Of a run. */
inline sequence(A_N) {
  in_ready_list[A_N] = 0;
#ifdef DYNAMIC
  if :: A_N == 3 -> place[1] = 0 :: else -> skip fi;
#endif
  if
  :: !MOVES_DATA(A_N) -> number(run_full, A_N, 0, ready_contributors[A_N])
  :: MOVES_DATA(A_N) && !ready_full[A_N] ->
    number(run_slot, A_N, slot[I(0, A_N)], ready_contributors[A_N]); used_at[A_N] = orders
  :: else ->
    if :: has_learned -> has_learned = 0; forget_learned = 1 :: else -> skip fi;
    s = 0;
    if
    :: ready_contributors[A_N] == COUNT(MEMBERS(A_N)) ->
      if :: slot[I(0, A_N)] != 0 -> place[A_N] = 0 :: else -> skip fi;
      m = 0; victim = 9;
      for (k : 0 .. NAMES - 1) {
        if :: place[k] != 0 -> m++ :: else -> skip fi;
        if
        :: place[k] != 0 && place[k] == slot[I(0, k)] && !in_ready_list[k] && got[I(0, k)] == 0 ->
          if :: victim == 9 -> victim = k :: victim != 9 -> if :: used_at[k] < used_at[victim] -> victim = k :: else -> skip fi fi
        :: else -> skip
        fi
      };
      if
      :: m >= PLACES && victim != 9 -> number(evict, victim, place[victim], 0); place[victim] = 0; m--
      :: else -> skip
      fi;
      if
      :: m < PLACES -> s = next_slot; place[A_N] = s; next_slot++; assert(next_slot <= SLOTS)
      :: else -> EVENT("no slot can be evicted"); skip
      fi
    :: else -> skip
    fi;
    number(run_full, A_N, s, ready_contributors[A_N]); used_at[A_N] = orders
  fi
}

/* Sequencer::take_orders. PRIORITY: name 1 before name 0 where both are ready. */
inline take_orders() {
  do
  :: (len(ready) != 0) ->
    d_what = 9;
#ifdef PRIORITY
    if
    :: in_ready_list[1] ->
      if :: in_ready_list[0] -> EVENT("two are ready at one time"); skip :: else -> skip fi;
      ready??run_full, 1; d_kind = run_full; d_what = 1
    :: else -> skip
    fi;
#endif
    if :: d_what == 9 -> ready?d_kind, d_what :: else -> skip fi;
    if
    :: d_kind == run_full -> sequence(d_what)
    :: d_kind == joined_all || d_kind == left || d_kind == release -> number(d_kind, d_what, 0, 0)
    fi
  :: else -> break
  od;
  if :: forget_learned -> forget_learned = 0; number(learned_, 0, 0, 0) :: else -> skip fi
}

/* ---- Down. Machine::fail_set of the sets with any of these ranks. */
inline fail_sets(A_MASK) {
  for (k : 0 .. NAMES - 1) {
    if
    :: (MEMBERS(k) & A_MASK) != 0 ->
      completed[I(r, k)] = completed[I(r, k)] + pending[I(r, k)]; pending[I(r, k)] = 0;
      held[I(r, k)] = 0; got[I(r, k)] = 0; spelled[I(r, k)] = 0; contributors[I(r, k)] = 0
    :: else -> skip
    fi
  };
  if :: joining[r] -> EVENT("a pending join fails"); joining[r] = 0; join_announced[r] = 0; joins_done[r]++ :: else -> skip fi
}

/* Machine::fail_everything. */
inline fail_everything() {
  fail_sets(7);
  over[r] = 1;
  up_slots[r] = 0; up_full[r] = 0; up_counts[r] = 0; up_joined[r] = 0; up_wanted[r] = 0;
  batch_size[r] = 0; been_ready[r] = 0; loose[r] = 0;
  for (k : 0 .. NAMES - 1) { slot[I(r, k)] = 0; batch[I(r, k)] = 0 };
  for (k : 1 .. SLOTS - 1) { evicted[E(r, k)] = 0; until[E(r, k)] = 0 };
  by_slot = 0; in_full = 0; fresh = 0; joins = 0; wants = 0; heard = 0
}

/* Machine::fail: everybody hears of it, but for who said it. */
inline fail(A_EXCEPT) {
  if
  :: failed[r] -> skip
  :: else ->
    assert(CRASHER != 9);
    if :: r != 0 && PARENT(r) != A_EXCEPT -> send_up(fail_message, 0) :: else -> skip fi;
    for (k : 1 .. 2) { if :: IS_CHILD(r, k) && k != A_EXCEPT -> send_down(k, fail_message, 0, 0, 0, 0) :: else -> skip fi };
    failed[r] = 1;
    if :: !over[r] -> fail_everything() :: else -> skip fi
  fi
}

/* Machine::take_front. */
inline take_front(A_N) {
  pending[I(r, A_N)]--; completed[I(r, A_N)]++;
  if :: pending[I(r, A_N)] != 0 -> fresh = fresh | BIT(A_N) :: else -> skip fi
}

/* Machine::run; complete_order where no data moves. */
inline run_order() {
#ifdef EXECUTED
  if
#ifdef MISTAKE_ROOT_RUNS_BEFORE_NUMBERING
  :: r == 0 -> skip
#endif
  :: else -> executed[r] = executed[r] * 4 + n + 1
  fi;
#endif
  if
  :: pending[I(r, n)] != 0 -> ran_with[d_number]++; take_front(n)
  :: else -> EVENT("a joined rank runs without data"); assert(IN_WORLD(n) && join_announced[r])
  fi;
#ifdef DYNAMIC
  if
  :: n == 2 -> set[r] = 1
  :: n == 3 ->
    set[r] = 2;
    if :: pending[I(r, 1)] != 0 -> EVENT("a process set is removed while a tensor waits in it"); skip :: else -> skip fi;
    completed[I(r, 1)] = completed[I(r, 1)] + pending[I(r, 1)]; pending[I(r, 1)] = 0;
    held[I(r, 1)] = 0; got[I(r, 1)] = 0; spelled[I(r, 1)] = 0; contributors[I(r, 1)] = 0; slot[I(r, 1)] = 0; batch[I(r, 1)] = 0
  :: else -> skip
  fi
#endif
}

/* Machine::pass_down, concerns. */
inline pass_down() {
  members = order_members[d_number];
#ifdef MISTAKE_SUBTREE_FORGOTTEN
  if :: r == 0 -> members = members & 3 :: else -> skip fi;
#endif
  for (k : 1 .. 2) {
    if
    :: IS_CHILD(r, k) && (SUBTREE(k) & members) != 0 ->
      send_down(k, d_kind, d_number, d_what, d_slot, d_count)
#ifdef MISTAKE_ORDER_TWICE
      ; if :: d_kind == evict -> send_down(k, d_kind, d_number, d_what, d_slot, d_count) :: else -> skip fi
#endif
    :: else -> skip
    fi
  }
}

/* Machine::apply and what it calls: d_kind, d_number, d_what, d_slot, d_count at rank r. */
inline apply() {
  printf("|   rank %d applies order %d: %e %d, slot %d, contributors %d\n", r, d_number, d_kind, d_what, d_slot, d_count);
  assert(d_number > last_order[r] && order_kind[d_number] == d_kind && order_what[d_number] == d_what);
  for (k : last_order[r] + 1 .. d_number - 1) { assert((order_members[k] & SUBTREE(r)) == 0) };
  last_order[r] = d_number;
  n = d_what;
  if
  :: over[r] -> if :: d_kind == left -> gone[r] = gone[r] | SUBTREE(d_what) :: else -> skip fi
  :: !over[r] && d_kind == run_full && OPEN(r, n) ->
    if
    :: d_slot != 0 ->
      if :: got[I(r, n)] != 0 -> spelled[I(r, n)] = 1 :: else -> skip fi;
      slot[I(r, n)] = d_slot; batch[I(r, n)] = 0
    :: else -> skip
    fi;
    if :: (MEMBERS(n) & BIT(r)) != 0 -> run_order() :: else -> skip fi
#ifdef MISTAKE_RUNS_AFTER_LEFT
  :: !over[r] && d_kind == run_slot ->
#else
  :: !over[r] && d_kind == run_slot && OPEN(r, n) ->
#endif
    assert(slot[I(r, n)] == d_slot);  /* Names::by_slot */
    if :: (MEMBERS(n) & BIT(r)) != 0 -> run_order() :: else -> skip fi
  :: !over[r] && (d_kind == run_full || d_kind == run_slot) && !OPEN(r, n) -> EVENT("an order comes after the end of its set"); skip
  :: !over[r] && d_kind == evict ->
    assert(slot[I(r, n)] == d_slot);
    if :: got[I(r, n)] != 0 -> EVENT("a slot is evicted under reports"); spelled[I(r, n)] = 1 :: else -> skip fi;
    if
    :: r == 0 && in_ready_list[n] -> EVENT("a slot is evicted under what is ready"); ready_full[n] = 1  /* Sequencer::spell_out */
    :: else -> skip
    fi;
    slot[I(r, n)] = 0; batch[I(r, n)] = 0;
    if :: CHILDREN(r) != 0 -> evicted[E(r, d_slot)] = n + 1; until[E(r, d_slot)] = d_number :: else -> skip fi;
    if :: held[I(r, n)] -> EVENT("a slot is evicted that is kept back"); held[I(r, n)] = 0; fresh = fresh | BIT(n) :: else -> skip fi
  :: !over[r] && d_kind == left ->
    gone[r] = gone[r] | SUBTREE(d_what);
#ifdef LEAVE_LAST
    assert(!WAITS(r));
#endif
    if
    :: (gone[r] & BIT(r)) != 0 -> fail_everything()
    :: else ->
      for (k : 0 .. NAMES - 1) {
        if :: (MEMBERS(k) & gone[r]) != 0 && pending[I(r, k)] != 0 -> EVENT("what waits for a rank that left fails"); skip :: else -> skip fi
      };
      fail_sets(gone[r])
    fi
  :: !over[r] && d_kind == joined_all ->
    assert(joining[r] && join_announced[r]);
    joined[r] = 0; joining[r] = 0; join_announced[r] = 0; joins_done[r]++; done_joining[r] = 1; todo[I(r, 0)] = AFTER
  :: !over[r] && d_kind == learned_ ->
    let_go();
    been_ready[r] = 0; loose[r] = 0; batch_size[r] = 0;
    for (k : 0 .. NAMES - 1) {
      batch[I(r, k)] = 0;
      if
      :: d_what == 1 && slot[I(r, k)] != 0 && (MEMBERS(k) & BIT(r)) != 0 -> batch[I(r, k)] = 1; batch_size[r]++
      :: else -> skip
      fi
    }
  :: !over[r] && d_kind == release ->
    let_go()
  fi
}

/* All that follows from an event, in the order in which the code does it. */
inline follow() {
  do
  :: by_slot != 0 || in_full != 0 ->
    for (m : 0 .. NAMES - 1) {
      if
      :: (by_slot & BIT(m)) != 0 ->
        by_slot = by_slot & ~BIT(m); n = m; count[n] = COUNT(BEHIND(r, rc) & MEMBERS(n)); report(n, 0)
      :: else -> skip
      fi
    };
    for (m : 0 .. NAMES - 1) {
      if
      :: (in_full & BIT(m)) != 0 -> in_full = in_full & ~BIT(m); n = m; report(n, 1)
      :: else -> skip
      fi
    }
  :: else ->
    if
    :: joins -> joins = 0; note_join()
    :: !joins && wants -> wants = 0; note_wanted()
    :: !joins && !wants && heard -> heard = 0; note_seen(rc)
    :: !joins && !wants && !heard && fresh != 0 ->
      n = ((fresh & 1) != 0 -> 0 : ((fresh & 2) != 0 -> 1 : ((fresh & 4) != 0 -> 2 : 3)));
      fresh = fresh & ~BIT(n); announce(n)
    :: else ->
      announce_join();
      if
      :: joins -> skip
      :: !joins && (len(list) != 0) -> list?d_kind, d_number, d_what, d_slot, d_count; pass_down(); apply()
      :: !joins && (len(list) == 0) && r == 0 && flush && (len(ready) != 0) && !over[0] -> take_orders()
      :: else -> break
      fi
    fi
  od;
  if :: flush -> flush_up() :: else -> skip fi
}

#ifdef LAZY
#define AT_ONCE 0
#else
#define AT_ONCE 1
#endif
#ifdef LEAVE_LAST  /* when all that there is has been submitted */
#define MAY_LEAVE (IDLE(0) && IDLE(1) && IDLE(2))
#else
#define MAY_LEAVE 1
#endif
#define CAN_HEAR(r, p) (IS_NEIGHBOUR(r, p) && (lost[r] & BIT(p)) == 0)

mtype = {e_submit, e_up, e_down, e_flush, e_join, e_leave, e_crash, e_exit, e_lost, e_learn, e_want, e_deadline, e_local_evict};

proctype Rank(byte r) {
  mtype event;
  byte x;
end:
  do
  :: atomic {
    if
    :: !dead[r] && MAY_SUBMIT(r, 0) -> event = e_submit; x = 0
    :: !dead[r] && MAY_SUBMIT(r, 1) -> event = e_submit; x = 1
    :: !dead[r] && MAY_SUBMIT(r, 2) -> event = e_submit; x = 2
    :: !dead[r] && MAY_SUBMIT(r, 3) -> event = e_submit; x = 3
    :: !dead[r] && IS_CHILD(r, 1) && CAN_HEAR(r, 1) && (len(up[1]) != 0) -> event = e_up; x = 1
    :: !dead[r] && IS_CHILD(r, 2) && CAN_HEAR(r, 2) && (len(up[2]) != 0) -> event = e_up; x = 2
    :: !dead[r] && r != 0 && CAN_HEAR(r, PARENT(r)) && (len(down[r]) != 0) -> event = e_down
#ifdef LAZY
    :: !dead[r] && r == 0 && !over[r] && (len(ready) != 0) -> event = e_flush
    :: !dead[r] && r != 0 && !over[r] && (up_slots[r] != 0 || up_full[r] != 0 || up_joined[r] || up_wanted[r]) -> event = e_flush
#endif
#ifdef JOIN
    :: !dead[r] && !over[r] && IDLE(r) && joins_asked[r] == 0 -> event = e_join
#endif
#if LEAVERS != 0
    :: !dead[r] && (LEAVERS & BIT(r)) != 0 && !leaving[r] && !over[r] && IDLE(r) && MAY_LEAVE -> event = e_leave
#endif
#if LEAVERS != 0 || CRASHER != 9
    :: !dead[r] && over[r] && !failed[r] && IDLE(r) -> event = e_exit
    /* After a crash the rest of what was sent may be lost; a rank that ends well has it sent first. */
    :: !dead[r] && CAN_HEAR(r, 0) && dead[0] && (crashed[0] || (len(down[r]) == 0)) -> event = e_lost; x = 0
    :: !dead[r] && CAN_HEAR(r, 1) && dead[1] && (crashed[1] || (r == 0 && (len(up[1]) == 0)) || (r == 2 && (len(down[2]) == 0))) ->
      event = e_lost; x = 1
    :: !dead[r] && CAN_HEAR(r, 2) && dead[2] && (crashed[2] || (len(up[2]) == 0)) -> event = e_lost; x = 2
#endif
#if CRASHER != 9
    :: r == CRASHER && !dead[r] -> event = e_crash
#endif
#ifdef LEARN
    :: r == 0 && !over[0] && learns != 0 && !has_learned && slot[0] != 0 && slot[1] != 0 && (len(ready) == 0) -> event = e_learn
#if SYNC
    :: !over[r] && (SYNC & BIT(r)) != 0 && held[I(r, 0)] -> event = e_want; x = 0
    :: !over[r] && (SYNC & BIT(r)) != 0 && held[I(r, 1)] -> event = e_want; x = 1
#endif
#ifndef NO_DEADLINE
    :: !over[r] && HOLDS(r) -> event = e_deadline
#endif
#endif
#ifdef MISTAKE_EVICTS_BY_ITSELF
    :: r == 2 && slot[I(r, 0)] != 0 && got[I(r, 0)] == 0 -> event = e_local_evict
#endif
    fi;
    d_step {
      by_slot = 0; in_full = 0; fresh = 0; joins = 0; wants = 0; heard = 0; rc = r; flush = AT_ONCE || event == e_flush;
      printf("| rank %d: %e %d\n", r, event, x);
      if
      :: event == e_submit ->  /* Machine::submit, check */
        todo[I(r, x)]--; submitted[I(r, x)]++;
        if
        :: over[r] || leaving[r] || !OPEN(r, x) -> completed[I(r, x)]++
        :: else ->
          if :: !MOVES_DATA(x) -> let_go() :: else -> skip fi;
          pending[I(r, x)]++;
          if :: pending[I(r, x)] == 1 -> fresh = BIT(x) :: else -> skip fi
        fi
      :: event == e_up ->  /* Machine::message_from a child */
        if
        :: x == 1 -> up[1]?u_kind, u_slots, u_full, u_counts, u_joined, u_wanted, u_seen
        :: x == 2 -> up[2]?u_kind, u_slots, u_full, u_counts, u_joined, u_wanted, u_seen
        fi;
        if
        :: failed[r] -> skip
        :: !failed[r] && u_kind == fail_message -> fail(x)
        :: !failed[r] && u_kind != fail_message && over[r] -> skip
        :: !failed[r] && u_kind == ready_list && !over[r] -> from_child(x)
        :: !failed[r] && u_kind == goodbye && !over[r] && r != 0 ->
#ifndef MISTAKE_GOODBYE_OVERTAKES
          flush_up();
#endif
          send_up(goodbye, u_slots)
        :: !failed[r] && u_kind == goodbye && !over[r] && r == 0 ->
          if :: (goodbyes & BIT(u_slots)) == 0 -> goodbyes = goodbyes | BIT(u_slots); ready!left, u_slots :: else -> skip fi
        fi
      :: event == e_down ->  /* Machine::message_from the parent */
        down[r]?d_kind, d_number, d_what, d_slot, d_count;
        if
        :: failed[r] -> skip
        :: !failed[r] && d_kind == fail_message -> fail(PARENT(r))
        :: else -> list!d_kind, d_number, d_what, d_slot, d_count
        fi
      :: event == e_join ->
        joins_asked[r] = 1;
        if :: leaving[r] || gone[r] != 0 -> joins_done[r] = 1 :: else -> joining[r] = 1 fi
      :: event == e_leave ->  /* Machine::leave; what is kept back goes first */
        leaving[r] = 1; let_go();
        for (m : 0 .. NAMES - 1) {
          if :: (by_slot & BIT(m)) != 0 -> n = m; count[n] = 1; report(n, 0) :: else -> skip fi
        };
        by_slot = 0;
        if
        :: r == 0 -> goodbyes = goodbyes | 1; ready!left, 0
        :: else -> flush_up(); send_up(goodbye, r)
        fi
      :: event == e_crash -> dead[r] = 1; crashed[r] = 1; fail_everything();
        EVENT("a rank crashes");
      :: event == e_exit -> dead[r] = 1;
        EVENT("a rank ends after its goodbye");
      :: event == e_lost ->  /* Machine::peer_lost */
        if
        :: (gone[r] & BIT(x)) != 0 || (r == 0 && (goodbyes & BIT(x)) != 0) -> skip
#ifdef MISTAKE_LOST_PARENT_IGNORED
        :: else -> if :: r == 0 || PARENT(r) != x -> lost[r] = lost[r] | BIT(x); fail(x) :: else -> skip fi
#else
        :: else ->
          if
          :: !failed[r] && r != 0 && PARENT(r) == x && (len(down[r]) != 0) -> EVENT("orders are lost with the parent"); skip
          :: !failed[r] && IS_CHILD(r, x) && (len(up[x]) != 0) -> EVENT("reports are lost with a child"); skip
          :: else -> skip
          fi;
          if
          :: !failed[r] && last_order[r] < orders && !crashed[r] && WAITS(r) -> EVENT("a crash leaves some with an order and some without"); skip
          :: else -> skip
          fi;
          lost[r] = lost[r] | BIT(x); fail(x)
#endif
        fi;
        lost[r] = lost[r] | BIT(x);
        if
        :: IS_CHILD(r, x) -> do :: (len(up[x]) != 0) -> up[x]?u_kind, _, _, _, _, _, _ :: else -> break od
        :: else -> do :: (len(down[r]) != 0) -> down[r]?d_kind, _, _, _, _ :: else -> break od
        fi
#ifdef LEARN
      :: event == e_learn -> learns--; has_learned = 1; number(learned_, 1, 0, 0);
        EVENT("a batch is learned");
#endif
      :: event == e_want ->  /* Machine::want */
        note_wanted(); let_go();
        EVENT("a thread waits for what is kept back");
      :: event == e_deadline -> let_go();
        EVENT("something is kept back");
      :: event == e_local_evict -> slot[I(r, 0)] = 0
      :: event == e_flush -> skip
      fi;
      follow();
      event = 0; x = 0
    }
  }
  od
}

init {
  byte r; byte i;
  d_step {
    for (r : 0 .. 2) {
      for (i : 0 .. NAMES - 1) {
        expected[I(r, i)] = (EXPECTS(r, i, 0) -> 1 : 0) | (EXPECTS(r, i, 1) -> 2 : 0) | (EXPECTS(r, i, 2) -> 4 : 0);
        if :: (MEMBERS(i) & BIT(r)) != 0 -> todo[I(r, i)] = (TODO(r, i)) :: else -> skip fi;
#ifdef KNOWN  /* slots and a learned batch from the start */
        slot[I(r, i)] = i + 1; place[i] = i + 1; batch[I(r, i)] = 1
#endif
      }
#ifdef KNOWN
      ; batch_size[r] = NAMES
#endif
    };
#ifdef KNOWN
    next_slot = NAMES + 1; has_learned = 1;
#endif
    r = 0; i = 0
  };
  atomic { run Rank(0); run Rank(1); run Rank(2) };
  timeout ->
  d_step {  /* nothing moves any more */
    for (r : 0 .. 2) {
      if
      :: crashed[r] -> skip
      :: else ->
        for (i : 0 .. NAMES - 1) {
          assert(todo[I(r, i)] == 0 && pending[I(r, i)] == 0 && completed[I(r, i)] == submitted[I(r, i)])
        };
        assert(!joining[r] && joins_done[r] == joins_asked[r]);
        if
        :: !over[r] && last_order[r] < orders -> for (i : last_order[r] + 1 .. orders) { assert((order_members[i] & SUBTREE(r)) == 0) }
        :: else -> skip
        fi
      fi
    };
#ifdef EXECUTED
    assert(executed[0] == executed[1] && executed[1] == executed[2]);
#endif
    if
    :: !over[0] && !over[1] && !over[2] ->
      EVENT("all complete");
      for (i : 1 .. orders) {
        if
        :: order_kind[i] == run_full || order_kind[i] == run_slot -> assert(ran_with[i] == order_contributors[i])
        :: else -> skip
        fi
      }
    :: else -> EVENT("all end"); skip
    fi
  }
}
