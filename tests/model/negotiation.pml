/* The negotiation of a job of three ranks, for the model checker Spin: every interleaving of a small program.
 *
 * The model mirrors runtime/negotiation/. Each part names the functions; change it together with them.
 *   state.pml        tensor_table.h, collector.h, learned_batches.h, sequencer.h and negotiator.h
 *   up.pml           upward_reporter.cc, collector.cc and learned_batches.cc
 *   root.pml         sequencer.cc
 *   down.pml         order_follower.cc and endings.cc
 *   negotiation.pml  topology.cc and negotiator.cc
 *
 * How the model steps:
 *   - In one step, the coordinator takes one event and does all that follows from it.
 *   - Eager: messages and orders go out in that same step.
 *   - LAZY: they go out in a later step of their own, so several events may come before it. (A poll brings
 *     many messages; a busy data plane defers orders.) The root then decides all ready names into one list
 *     before it applies the first order, as Sequencer::take_orders and OrderFollower::follow do.
 *   - A message up carries several items, as ReadyMessage does. Each order travels down alone.
 *   - The names 0 to NAMES - 1 are tensors. With DYNAMIC, name 1 belongs to a process set that name 2 adds
 *     and name 3 removes.
 *
 * The assertions:
 *   - Each rank applies its projection of one sequence: no order twice, none left out, each with the root's
 *     meaning. EXECUTED also compares the runs of all ranks with each other, without their numbers.
 *   - No rank reports a name twice.
 *   - The number of ranks that run an order with data of their own is the number of contributors in the
 *     order. A rank runs without data only an order whose set it has joined.
 *   - When nothing can move any more, every request and every join on a living rank has completed, and every
 *     rank has had the orders that concern it.
 *   - Nothing fails unless a rank crashes.
 *   - BATCHES: if one rank runs two tensors in one batch, every rank that runs both runs them in one batch.
 *
 * The model leaves out:
 *   - signatures, mismatches and errors by order, broadcast roots, stalls and inquiries, groups, bytes
 *   - announced changes of the job's hosts: an order that only sets a number, which later orders carry
 *   - how the step learner finds its batches (here the root may learn one at any moment)
 *   - the errors about a rank that has left: Departure is kept beside the state, and no message carries it
 *   - the time for which the coordinator delays the end of a link, up to 0.9 s, until it has the exit status
 *     of the process. Here any time may pass between a crash and the step in which another rank detects it.
 *
 * run.py defines the macros of each scenario, and the events that must be reachable in it (EVENT).
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
#ifndef SYNC          /* mask of ranks that wait for each operation, and report it (UpwardReporter::want) */
#define SYNC 0
#endif
#ifndef AWAITS        /* mask of ranks that wait for name 0 after its report, and report the wait */
#define AWAITS 0
#endif
#ifndef POLLS         /* mask of ranks that do the same, but poll instead of waiting */
#define POLLS 0
#endif
#ifndef AFTER         /* operations of name 0 after the join */
#define AFTER 0
#endif
/* MOST_UNTOLD: UpwardReporter::kMostUnreported. If it is not defined, ranks with nothing to report send
   nothing. */
#ifndef TODO          /* the number of times that a rank submits a name */
#define TODO(r, n) 1
#endif
#ifndef PROGRAM       /* the condition under which rank r may submit name n */
#define PROGRAM(r, n) 1
#endif

#define I(r, n) ((r) * NAMES + (n))
#define E(r, s) ((r) * SLOTS + (s))
#define BIT(c) (1 << (c))
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))

/* ---- Topology: a rank reports for its subtree; the reporters of a rank are itself and its children. */
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
/* Collector::concerns, for a child */
#define TELLERS(r, n, c) (IS_CHILD(r, c) && (SUBTREE(c) & MEMBERS(n)) != 0)
#ifdef DYNAMIC
#define IN_WORLD(n) ((n) != 1)
#define MOVES_DATA(n) ((n) < 2)
#define EXISTS(r, n) ((n) != 1 || set[r] == 1)
#else
#define IN_WORLD(n) (MEMBERS(n) == 7)
#ifdef BARRIER  /* name 2 is a barrier */
#define MOVES_DATA(n) ((n) != 2)
#else
#define MOVES_DATA(n) 1
#endif
#define EXISTS(r, n) 1
#endif
/* Collector::is_open */
#define OPEN(r, n) (EXISTS(r, n) && (gone[r] & MEMBERS(n)) == 0)
/* Collector::is_complete, for a name that some rank has reported */
#ifdef MISTAKE_ROOT_DOES_NOT_WAIT
#define COMPLETE(r, n) \
  (r == 0 || ((got[I(r, n)] | JOINED_FOR(r, n)) & expected[I(r, n)]) == expected[I(r, n)])
#else
#define COMPLETE(r, n) (((got[I(r, n)] | JOINED_FOR(r, n)) & expected[I(r, n)]) == expected[I(r, n)])
#endif
/* Collector::does_without: a mask of reporters */
#define FINISHED(r, c, n) (((unfinished[3 * (r) + (c)] & BIT(n)) != 0 -> 0 : BIT(c)))
#define JOINED_FOR(r, n) \
  (IN_WORLD(n) -> joined[r] & (FINISHED(r, 0, n) | FINISHED(r, 1, n) | FINISHED(r, 2, n)) : 0)

#define IDLE(r) (todo[I(r, 0)] == 0 && todo[I(r, NAMES - 1)] == 0 && \
                 (NAMES < 3 || (todo[I(r, 1)] == 0 && todo[I(r, 2)] == 0)))
#define WAITS(r) ((NAMES > 0 && pending[I(r, 0)] != 0) || (NAMES > 1 && pending[I(r, 1)] != 0))
#define MAY_SUBMIT(r, n) (NAMES > (n) && todo[I(r, n)] != 0 && !joining[r] && \
                          (((SYNC | POLLS) & BIT(r)) == 0 || !WAITS(r)) && PROGRAM(r, n))
#define REPORTS(r) (up_slots[r] != 0 || up_full[r] != 0 || up_joined[r] || up_wanted[r] || up_awaited[r] != 0)
#if defined(MOST_UNTOLD) && !defined(MISTAKE_SILENT_TELLS_NOTHING)
#define HAS_NEWS(r) (REPORTS(r) || untold[r] >= MOST_UNTOLD)
#else
#define HAS_NEWS(r) REPORTS(r)
#endif
#define HOLDS(r) (held[I(r, 0)] || (NAMES > 1 && held[I(r, 1)]) || (NAMES > 2 && held[I(r, 2)]))

/* The verifier prints each event once. So it proves that the scenario reaches the states that it was made
   for. */
#define EVENT(what) c_code { static char once; if (!once) { once = 1; printf("reached: " what "\n"); } }

mtype = {ready_list, goodbye, fail_message,                           /* up; the last also down */
         run_full, run_slot, evict, left, joined_all, learned_, release};  /* orders */
/* slots, names in full, counts, joined (1 plus twice the mask of unfinished names), wanted, awaited slots,
   seen */
chan up[3] = [CAP] of {mtype, byte, byte, byte, byte, bit, byte, byte};
/* number; name, rank, or slot of a release; slot; contributors */
chan down[3] = [CAP] of {mtype, byte, byte, byte, byte};
chan ready = [6] of {mtype, byte};                                /* Sequencer::ready_ */
chan list = [8] of {mtype, byte, byte, byte, byte};               /* the result of Sequencer::take_orders */

#include "state.pml"
#include "up.pml"
#include "root.pml"
#include "down.pml"

/* All consequences of an event, in the sequence of the code. */
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
    :: joins != 0 -> joining_with = joins; joins = 0; note_join()
    :: !joins && wants -> wants = 0; note_wanted()
    :: !joins && !wants && heard -> heard = 0; note_seen(rc)
#if AWAITS
    :: !joins && !wants && !heard && awaits != 0 ->
      for (m : 0 .. NAMES - 1) {
        if
        :: slot[I(r, m)] != 0 && (awaits & BIT(slot[I(r, m)])) != 0 ->
          awaits = awaits & ~BIT(slot[I(r, m)]);
          if
          :: ordered_at[I(r, m)] <= u_seen -> note_awaited(m)
          :: else -> EVENT("an order crosses word that it is waited for"); skip
          fi
        :: else -> skip
        fi
      };
      awaits = 0
#endif
    :: !joins && !wants && !heard && awaits == 0 && fresh != 0 ->
      n = ((fresh & 1) != 0 -> 0 : ((fresh & 2) != 0 -> 1 : ((fresh & 4) != 0 -> 2 : 3)));
      fresh = fresh & ~BIT(n); announce(n)
    :: else ->
      announce_join();
      if
      :: joins -> skip
      :: !joins && len(list) != 0 -> list?d_kind, d_number, d_what, d_slot, d_count; pass_down(); apply()
      :: !joins && len(list) == 0 && r == 0 && flush && len(ready) != 0 && !over[0] -> take_orders()
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
#ifdef LEAVE_LAST  /* ranks leave after the last submission of all ranks */
#define MAY_LEAVE (IDLE(0) && IDLE(1) && IDLE(2))
#else
#define MAY_LEAVE 1
#endif
#define CAN_HEAR(r, p) (IS_NEIGHBOUR(r, p) && (lost[r] & BIT(p)) == 0)

mtype = {e_submit, e_up, e_down, e_flush, e_join, e_leave, e_crash, e_exit, e_lost, e_learn, e_want, e_await,
         e_deadline, e_local_evict};

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
    :: !dead[r] && IS_CHILD(r, 1) && CAN_HEAR(r, 1) && len(up[1]) != 0 -> event = e_up; x = 1
    :: !dead[r] && IS_CHILD(r, 2) && CAN_HEAR(r, 2) && len(up[2]) != 0 -> event = e_up; x = 2
    :: !dead[r] && r != 0 && CAN_HEAR(r, PARENT(r)) && len(down[r]) != 0 -> event = e_down
#ifdef LAZY
    :: !dead[r] && r == 0 && !over[r] && len(ready) != 0 -> event = e_flush
    :: !dead[r] && r != 0 && !over[r] && HAS_NEWS(r) -> event = e_flush
#endif
#ifdef JOIN
    :: !dead[r] && !over[r] && IDLE(r) && joins_asked[r] == 0 -> event = e_join
#endif
#if LEAVERS != 0
    :: !dead[r] && (LEAVERS & BIT(r)) != 0 && !leaving[r] && !over[r] && IDLE(r) && MAY_LEAVE ->
      event = e_leave
#endif
#if LEAVERS != 0 || CRASHER != 9
    :: !dead[r] && over[r] && !failed[r] && IDLE(r) -> event = e_exit
    /* After a crash, messages that were sent may be lost. A rank that ends in good order sends them first. */
    :: !dead[r] && CAN_HEAR(r, 0) && dead[0] && (crashed[0] || len(down[r]) == 0) -> event = e_lost; x = 0
    :: !dead[r] && CAN_HEAR(r, 1) && dead[1] &&
       (crashed[1] || (r == 0 && len(up[1]) == 0) || (r == 2 && len(down[2]) == 0)) ->
      event = e_lost; x = 1
    :: !dead[r] && CAN_HEAR(r, 2) && dead[2] && (crashed[2] || len(up[2]) == 0) -> event = e_lost; x = 2
#endif
#if CRASHER != 9
    :: r == CRASHER && !dead[r] -> event = e_crash
#endif
#ifdef LEARN
    :: r == 0 && !over[0] && learns != 0 && !has_learned && slot[0] != 0 && slot[1] != 0 && len(ready) == 0 ->
      event = e_learn
#if SYNC
    :: !over[r] && (SYNC & BIT(r)) != 0 && held[I(r, 0)] -> event = e_want; x = 0
    :: !over[r] && (SYNC & BIT(r)) != 0 && held[I(r, 1)] -> event = e_want; x = 1
#endif
#if AWAITS
    :: !over[r] && (AWAITS & BIT(r)) != 0 && pending[I(r, 0)] != 0 && batch[I(r, 0)] && !held[I(r, 0)] &&
       !awaited[I(r, 0)] -> event = e_await
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
      by_slot = 0; in_full = 0; fresh = 0; joins = 0; wants = 0; awaits = 0; heard = 0; rc = r;
      flush = AT_ONCE || event == e_flush;
      printf("| rank %d: %e %d\n", r, event, x);
      if
      :: event == e_submit ->  /* Negotiator::submit, check */
        todo[I(r, x)]--; submitted[I(r, x)]++;
        if
        :: over[r] || leaving[r] || !OPEN(r, x) -> completed[I(r, x)]++
        :: else ->
          if :: !MOVES_DATA(x) -> let_go() :: else -> skip fi;
          pending[I(r, x)]++;
          if :: pending[I(r, x)] == 1 -> fresh = BIT(x) :: else -> skip fi
        fi
      :: event == e_up ->  /* Negotiator::message_from a child */
        if
        :: x == 1 -> up[1]?u_kind, u_slots, u_full, u_counts, u_joined, u_wanted, u_awaited, u_seen
        :: x == 2 -> up[2]?u_kind, u_slots, u_full, u_counts, u_joined, u_wanted, u_awaited, u_seen
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
          if
          :: (goodbyes & BIT(u_slots)) == 0 -> goodbyes = goodbyes | BIT(u_slots); ready!left, u_slots
          :: else -> skip
          fi
        fi
      :: event == e_down ->  /* Negotiator::message_from the parent */
        down[r]?d_kind, d_number, d_what, d_slot, d_count;
        if
        :: failed[r] -> skip
        :: !failed[r] && d_kind == fail_message -> fail(PARENT(r))
        :: else -> list!d_kind, d_number, d_what, d_slot, d_count
        fi
      :: event == e_join ->
        joins_asked[r] = 1;
        if :: leaving[r] || gone[r] != 0 -> joins_done[r] = 1 :: else -> joining[r] = 1 fi
      :: event == e_leave ->  /* Negotiator::leave; held names are reported first */
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
      :: event == e_lost ->  /* Negotiator::peer_lost */
        if
        :: (gone[r] & BIT(x)) != 0 || (r == 0 && (goodbyes & BIT(x)) != 0) -> skip
#ifdef MISTAKE_LOST_PARENT_IGNORED
        :: else -> if :: r == 0 || PARENT(r) != x -> lost[r] = lost[r] | BIT(x); fail(x) :: else -> skip fi
#else
        :: else ->
          if
          :: !failed[r] && r != 0 && PARENT(r) == x && len(down[r]) != 0 ->
            EVENT("orders are lost with the parent"); skip
          :: !failed[r] && IS_CHILD(r, x) && len(up[x]) != 0 -> EVENT("reports are lost with a child"); skip
          :: else -> skip
          fi;
          if
          :: !failed[r] && last_order[r] < orders && !crashed[r] && WAITS(r) ->
            EVENT("a crash leaves some with an order and some without"); skip
          :: else -> skip
          fi;
          lost[r] = lost[r] | BIT(x); fail(x)
#endif
        fi;
        lost[r] = lost[r] | BIT(x);
        if
        :: IS_CHILD(r, x) -> do :: len(up[x]) != 0 -> up[x]?u_kind, _, _, _, _, _, _, _ :: else -> break od
        :: else -> do :: len(down[r]) != 0 -> down[r]?d_kind, _, _, _, _ :: else -> break od
        fi
#ifdef LEARN
      :: event == e_learn -> learns--; has_learned = 1; number(learned_, 1, 0, 0);
        EVENT("a batch is learned");
#endif
      :: event == e_want ->  /* UpwardReporter::want */
        note_wanted(); let_go();
        EVENT("a thread waits for what is kept back");
#if AWAITS
      :: event == e_await -> note_awaited(0);  /* UpwardReporter::want, for a reported name */
        EVENT("a thread waits for what is reported");
#endif
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
        expected[I(r, i)] = (EXPECTS(r, i, 0) -> 1 : 0) | (EXPECTS(r, i, 1) -> 2 : 0) |
                            (EXPECTS(r, i, 2) -> 4 : 0);
        if :: (MEMBERS(i) & BIT(r)) != 0 -> todo[I(r, i)] = (TODO(r, i)) :: else -> skip fi;
#ifdef KNOWN  /* names have slots and a learned batch from the start */
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
  d_step {  /* no process can move any more */
    for (r : 0 .. 2) {
      if
      :: crashed[r] -> skip
      :: else ->
        for (i : 0 .. NAMES - 1) {
          assert(todo[I(r, i)] == 0 && pending[I(r, i)] == 0 && completed[I(r, i)] == submitted[I(r, i)])
        };
        assert(!joining[r] && joins_done[r] == joins_asked[r]);
        if
        :: !over[r] && last_order[r] < orders ->
          for (i : last_order[r] + 1 .. orders) { assert((order_members[i] & SUBTREE(r)) == 0) }
        :: else -> skip
        fi
      fi
    };
#ifdef BATCHES
    for (i : 1 .. orders) {
      for (k : i + 1 .. orders) {
        for (r : 0 .. 2) {
          n = (r == 2 -> 0 : r + 1);
          if
          :: planned[P(r, i)] != 0 && planned[P(r, k)] != 0 &&
             planned[P(n, i)] != 0 && planned[P(n, k)] != 0 ->
            assert((planned[P(r, i)] == planned[P(r, k)]) == (planned[P(n, i)] == planned[P(n, k)]));
            if
            :: planned[P(r, i)] == planned[P(r, k)] -> EVENT("two travel together")
            :: else -> EVENT("two travel apart")
            fi
          :: else -> skip
          fi
        }
      }
    };
#endif
#ifdef EXECUTED
    assert(executed[0] == executed[1] && executed[1] == executed[2]);
#endif
    if
    :: !over[0] && !over[1] && !over[2] ->
      EVENT("all complete");
#if defined(MOST_UNTOLD) && MOST_UNTOLD == 1
      for (i : 0 .. 3 * SLOTS - 1) { assert(evicted[i] == 0) };
#endif
      for (i : 1 .. orders) {
        if
        :: order_kind[i] == run_full || order_kind[i] == run_slot ->
          assert(ran_with[i] == order_contributors[i])
        :: else -> skip
        fi
      }
    :: else -> EVENT("all end"); skip
    fi
  }
}
