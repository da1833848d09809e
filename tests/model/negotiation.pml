/* The negotiation protocol for three ranks, for the model checker Spin: every interleaving of a small job.
 *
 * What it mirrors, in runtime/negotiation/:
 *   1. submit, announce         Machine::submit, announce: a slot where there is one, else in full; one at a time.
 *   2. report, is complete      Collector::report, is_complete, take; Machine::took.
 *   3. up                       Machine::from_child, slot_from_child, Names::evicted, forget_evicted, note_seen.
 *   4. sequence                 Sequencer::sequence, take_slot, evict_one. Which slot is evicted is left open.
 *   5. down                     Machine::pass_down, concerns, apply, run, take_front, apply_evict, apply_left.
 *   6. join                     Machine::note_join; Sequencer::all_joined.
 *   7. learned batch {0, 1}     LearnedBatches, Machine::want; Sequencer::wanted. A deadline may pass at any moment.
 *   8. failure                  Machine::peer_lost, fail: flooded along the tree, after what was sent before.
 * What it leaves out: contents (signatures, mismatches, broadcast roots), priorities and the held-back ready list,
 * adding and removing sets, stalls and inquiries, forced errors, bytes, several items in one message.
 * The asserted properties: each rank runs its projection of one sequence; each operation completes exactly once; the
 * contributors of an order are those that submitted; when nothing can move any more, nothing is pending.
 * run.py says which macros make a scenario.
 */
#ifndef CAP
#define CAP 8
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef NAMES
#define NAMES 2
#endif
#ifndef PAIR          /* this name belongs to the process set {1, 2} */
#define PAIR 9
#endif
#ifndef CRASHER
#define CRASHER 9
#endif
#ifndef LEAVER
#define LEAVER 9
#endif
#ifndef SYNC          /* this rank waits for each operation before the next */
#define SYNC 9
#endif
#ifndef AGAIN         /* operations of name 0 after the join */
#define AGAIN 0
#endif
#define MOST 28       /* orders and slots, plus 1 */

#define I(r, n) ((r) * NAMES + (n))
#define E(r, s) ((r) * MOST + (s))
#define BIT(c) (1 << (c))
#ifdef STAR
#define SUBTREE(c) ((c) == 0 -> 7 : BIT(c))
#define REPORTERS(r) ((r) == 0 -> 7 : BIT(r))
#define BEHIND(r, c) 1
#define PARENT(r) 0
#else
#define SUBTREE(c) ((c) == 0 -> 7 : ((c) == 1 -> 6 : 4))
#define REPORTERS(r) ((r) == 0 -> 3 : ((r) == 1 -> 6 : 4))
#define BEHIND(r, c) (((r) == 0 && (c) == 1) -> 2 : 1)
#define PARENT(r) ((r) - 1)
#endif
#define IS_CHILD(r, c) ((c) != (r) && (REPORTERS(r) & BIT(c)))
#define MEMBERS(n) ((n) == PAIR -> 6 : 7)
#define EXPECTED(r, n) (REPORTERS(r) & MEMBERS(n))
#define IN_WORLD(n) ((n) != PAIR)

mtype = {by_slot, in_full, joins, goodbye, wanted, failure, run_slot, run_full, evict, left, joined_all, learn, release};
chan up[3] = [CAP] of {mtype, byte, byte, byte};          /* slot or name or rank, contributors, seen */
chan down[3] = [CAP] of {mtype, byte, byte, byte, byte};  /* number, name or rank, slot, contributors */

byte todo[3 * NAMES];     /* to be submitted yet */
byte pending[3 * NAMES];  /* Name::waiting */
byte slot[3 * NAMES];
byte got[3 * NAMES];      /* Collection: mask of reporters */
bit spelled[3 * NAMES];
byte contributors[3 * NAMES];
bit fresh[3 * NAMES];     /* the front is to be announced */
bit ready[NAMES];         /* the root's ready list */
bit ready_full[NAMES];
byte ready_contributors[NAMES];
byte evicted[3 * MOST];   /* by slot: name + 1 */
byte until[3 * MOST];
byte seen[9];
byte last_order[3];
byte joined[3];           /* mask of reporters, in the world */
byte last_joined[3];
bit joining[3];
bit has_joined[3];
bit all_in;               /* the root is to order the join */
bit learned[3];
bit held[3 * NAMES];
byte been_ready[3];
bit loose[3];
bit over[3];
bit dead[3];
bit will_crash;
bit leaving[3];
byte gone[3];             /* mask of ranks that have left */
byte in_use;
byte next_slot = 1;

/* ghosts */
byte orders;
mtype order_kind[MOST];
byte order_members[MOST];
byte order_name[MOST];
byte order_contributors[MOST];
byte ran_with[MOST];
byte submitted[3 * NAMES];
byte completed[3 * NAMES];
byte joins_asked[3];
byte joins_done[3];

inline send_up(A_KIND, A_WHAT, A_COUNT) {
  if
  :: r != 0 && !dead[PARENT(r)] -> assert(nfull(up[r])); up[r]!A_KIND, A_WHAT, A_COUNT, last_order[r]
  :: else -> skip
  fi
}

inline send_down(A_C, A_KIND, A_NUMBER, A_WHAT, A_S, A_COUNT) {
  if
  :: !dead[A_C] -> assert(nfull(down[A_C])); down[A_C]!A_KIND, A_NUMBER, A_WHAT, A_S, A_COUNT
  :: else -> skip
  fi
}

/* Machine::took, once the collection is complete. */
inline take_if_complete(A_N) {
  if
  :: got[I(r, A_N)] != 0 && ((got[I(r, A_N)] | (IN_WORLD(A_N) -> joined[r] : 0)) & EXPECTED(r, A_N)) == EXPECTED(r, A_N)
#ifdef MISTAKE_NO_WAIT
     || (r == 0 && got[I(r, A_N)] != 0)
#endif
     ->
    if
    :: r == 0 -> ready[A_N] = 1; ready_full[A_N] = spelled[I(r, A_N)] || got[I(r, A_N)] != EXPECTED(r, A_N);
                 ready_contributors[A_N] = contributors[I(r, A_N)]
    :: r != 0 && !spelled[I(r, A_N)] && got[I(r, A_N)] == EXPECTED(r, A_N) -> send_up(by_slot, slot[I(r, A_N)], 0)
    :: else -> send_up(in_full, A_N, contributors[I(r, A_N)])
    fi;
    got[I(r, A_N)] = 0; spelled[I(r, A_N)] = 0; contributors[I(r, A_N)] = 0
  :: else -> skip
  fi
}

inline report(A_C, A_N, A_WHOLE, A_COUNT) {
  if
  :: (gone[r] & MEMBERS(A_N)) != 0 || (EXPECTED(r, A_N) & BIT(A_C)) == 0 -> skip
  :: else ->
    assert((got[I(r, A_N)] & BIT(A_C)) == 0);  /* nobody reports twice */
    if :: A_WHOLE -> spelled[I(r, A_N)] = 1 :: else -> skip fi;
    got[I(r, A_N)] = got[I(r, A_N)] | BIT(A_C);
    contributors[I(r, A_N)] = contributors[I(r, A_N)] + A_COUNT;
    take_if_complete(A_N)
  fi
}

/* LearnedBatches::release: what was held is reported in the drain. */
inline let_go() {
  for (k : 0 .. NAMES - 1) {
    if
    :: held[I(r, k)] -> held[I(r, k)] = 0; fresh[I(r, k)] = 1; loose[r] = 1
    :: else -> skip
    fi
  }
}

inline announce(A_N) {
  if
  :: fresh[I(r, A_N)] == 1 && learned[r] && slot[I(r, A_N)] != 0 && A_N < 2 && !counted[A_N] ->
    been_ready[r]++; counted[A_N] = 1;
    if
    :: been_ready[r] >= 2 -> been_ready[r] = 0; let_go(); loose[r] = 0; counted[0] = 0; counted[1] = 0; now_report = 1
    :: been_ready[r] < 2 && loose[r] -> now_report = 1
    :: else -> held[I(r, A_N)] = 1; now_report = 0
    fi
  :: else -> now_report = 1
  fi;
  fresh[I(r, A_N)] = 0;
  if
  :: now_report && slot[I(r, A_N)] != 0 -> report(r, A_N, 0, 1)
  :: now_report && slot[I(r, A_N)] == 0 -> report(r, A_N, 1, 1)
  :: else -> skip
  fi
}

inline fail_names(A_MASK) {  /* the sets with any of the ranks in mask */
  for (k : 0 .. NAMES - 1) {
    if
    :: (MEMBERS(k) & A_MASK) != 0 ->
      completed[I(r, k)] = completed[I(r, k)] + pending[I(r, k)]; pending[I(r, k)] = 0;
      held[I(r, k)] = 0; fresh[I(r, k)] = 0; got[I(r, k)] = 0; spelled[I(r, k)] = 0; contributors[I(r, k)] = 0
    :: else -> skip
    fi
  };
  if :: joining[r] -> joining[r] = 0; joins_done[r]++ :: else -> skip fi
}

inline find_slot(A_S) {  /* sets n, or 9 */
  n = 9;
  for (k : 0 .. NAMES - 1) { if :: A_S != 0 && slot[I(r, k)] == A_S -> n = k :: else -> skip fi }
}

/* An order at one rank: passed down first, then applied. */
inline apply(A_KIND, A_NUMBER, A_WHAT, A_S, A_COUNT) {
  n = A_WHAT;
  if :: A_KIND == run_slot || A_KIND == evict -> find_slot(A_S); assert(n != 9) :: else -> skip fi;
  mask = 7;
  if :: A_KIND == run_slot || A_KIND == run_full || A_KIND == evict -> mask = MEMBERS(n) :: else -> skip fi;
#ifdef MISTAKE_WRONG_SUBTREE
  if :: r == 0 -> mask = mask & 3 :: else -> skip fi;
#endif
  for (k : 1 .. 2) {
    if
    :: IS_CHILD(r, k) && (SUBTREE(k) & mask) != 0 -> send_down(k, A_KIND, A_NUMBER, A_WHAT, A_S, A_COUNT)
    :: else -> skip
    fi
  };
  /* one sequence: nothing that concerns this subtree was left out, nothing came twice */
  assert(A_NUMBER > last_order[r] && order_kind[A_NUMBER] == A_KIND && (n == 9 || order_name[A_NUMBER] == n));
  for (k : last_order[r] + 1 .. A_NUMBER - 1) { assert((order_members[k] & SUBTREE(r)) == 0) };
  last_order[r] = A_NUMBER;
  if
  :: over[r] -> skip
  :: !over[r] && (A_KIND == run_slot || A_KIND == run_full) && (gone[r] & MEMBERS(n)) == 0 ->
    if
    :: A_KIND == run_full && A_S != 0 -> if :: got[I(r, n)] != 0 -> spelled[I(r, n)] = 1 :: else -> skip fi; slot[I(r, n)] = A_S
    :: else -> skip
    fi;
    if
    :: (MEMBERS(n) & BIT(r)) != 0 && pending[I(r, n)] != 0 ->
      pending[I(r, n)]--; completed[I(r, n)]++; ran_with[A_NUMBER]++;
      if :: pending[I(r, n)] != 0 -> fresh[I(r, n)] = 1 :: else -> skip fi
    :: (MEMBERS(n) & BIT(r)) != 0 && pending[I(r, n)] == 0 -> assert(has_joined[r])
    :: else -> skip
    fi
  :: !over[r] && A_KIND == evict ->
    if :: got[I(r, n)] != 0 -> spelled[I(r, n)] = 1 :: else -> skip fi;
    evicted[E(r, A_S)] = n + 1; until[E(r, A_S)] = A_NUMBER; slot[I(r, n)] = 0
  :: !over[r] && A_KIND == left ->
    gone[r] = gone[r] | SUBTREE(A_WHAT);
    fail_names(gone[r]);
    if :: (gone[r] & BIT(r)) != 0 -> fail_names(7); over[r] = 1 :: else -> skip fi
  :: !over[r] && A_KIND == joined_all ->
    joined[r] = 0;
    if
    :: joining[r] -> joining[r] = 0; joins_done[r]++; has_joined[r] = 0; todo[I(r, 0)] = AGAIN
    :: else -> skip
    fi
  :: !over[r] && A_KIND == learn -> let_go(); learned[r] = 1; been_ready[r] = 0; loose[r] = 0
  :: !over[r] && A_KIND == release -> let_go()
  :: else -> skip
  fi
}

inline number_order(A_KIND, A_WHAT, A_S, A_COUNT) {
  orders++; assert(orders < MOST);
  order_kind[orders] = A_KIND; order_name[orders] = A_WHAT; order_contributors[orders] = A_COUNT;
  if
  :: A_KIND == run_slot || A_KIND == run_full || A_KIND == evict -> order_members[orders] = MEMBERS(A_WHAT)
  :: else -> order_members[orders] = 7
  fi;
  d_kind = A_KIND; d_what = A_WHAT; d_slot = A_S; d_count = A_COUNT; d_number = orders;
  apply(d_kind, d_number, d_what, d_slot, d_count)
}

inline sequence(A_X) {
  ready[A_X] = 0;
  submitters = (A_X != PAIR && pending[I(0, A_X)] != 0 -> 1 : 0) + (pending[I(1, A_X)] != 0 -> 1 : 0) + (pending[I(2, A_X)] != 0 -> 1 : 0);
  if
  :: will_crash || dead[0] || dead[1] || dead[2] || leaving[0] || leaving[1] || leaving[2] -> skip
  :: else -> assert(submitters == ready_contributors[A_X])
  fi;
  s_new = slot[I(0, A_X)];
  if
  :: ready_full[A_X] && ready_contributors[A_X] == (A_X == PAIR -> 2 : 3) ->
    if :: slot[I(0, A_X)] != 0 -> in_use-- :: else -> skip fi;
    victim = 9;
    if
    :: in_use >= PLACES ->
      if  /* any that nobody has reported */
      :: A_X != 0 && slot[I(0, 0)] != 0 && got[I(0, 0)] == 0 && !ready[0] -> victim = 0
      :: NAMES > 1 && A_X != 1 && slot[I(0, 1)] != 0 && got[I(0, 1)] == 0 && !ready[1] -> victim = 1
      :: else -> skip
      fi;
      if :: victim != 9 -> number_order(evict, victim, slot[I(0, victim)], 0); in_use-- :: else -> skip fi
    :: else -> skip
    fi;
    if
    :: in_use < PLACES -> in_use++; s_new = next_slot; next_slot++; assert(next_slot < MOST)
    :: else ->
      s_new = 0;
      if :: slot[I(0, A_X)] != 0 -> number_order(evict, A_X, slot[I(0, A_X)], 0) :: else -> skip fi
    fi;
    number_order(run_full, A_X, s_new, ready_contributors[A_X])
  :: ready_full[A_X] && ready_contributors[A_X] != (A_X == PAIR -> 2 : 3) -> number_order(run_full, A_X, 0, ready_contributors[A_X])
  :: else -> number_order(run_slot, A_X, s_new, ready_contributors[A_X])
  fi
}

inline drain() {  /* take_actions: until nothing more follows */
  do
  :: fresh[I(r, 0)] -> announce(0)
  :: !fresh[I(r, 0)] && NAMES > 1 && fresh[I(r, NAMES - 1)] -> announce(NAMES - 1)
  :: r == 0 && !fresh[0] && !fresh[NAMES - 1] && ready[0] -> sequence(0)
  :: r == 0 && !fresh[0] && !fresh[NAMES - 1] && !ready[0] && NAMES > 1 && ready[NAMES - 1] -> sequence(NAMES - 1)
  :: r == 0 && !fresh[0] && !fresh[NAMES - 1] && !ready[0] && !ready[NAMES - 1] && all_in ->
    all_in = 0; number_order(joined_all, 9, 0, 0)
  :: else -> break
  od
}

inline note_join(A_C, A_WHO) {
  joined[r] = joined[r] | BIT(A_C); last_joined[r] = A_WHO;
  for (m : 0 .. NAMES - 1) { if :: IN_WORLD(m) -> take_if_complete(m) :: else -> skip fi };
  if
  :: joined[r] == REPORTERS(r) -> if :: r == 0 -> all_in = 1 :: else -> send_up(joins, A_WHO, 0) fi
  :: else -> skip
  fi
}

inline fail() {  /* everybody hears of it */
  if
  :: over[r] -> skip
  :: else ->
    send_up(failure, 0, 0);
    for (k : 1 .. 2) { if :: IS_CHILD(r, k) -> send_down(k, failure, 0, 0, 0, 0) :: else -> skip fi };
    fail_names(7); over[r] = 1
  fi
}

inline from_child(A_C) {
  if
  :: over[r] -> skip
  :: !over[r] && u_kind == failure -> fail()
  :: !over[r] && u_kind == by_slot ->
    find_slot(u_what);
    if
    :: n != 9 -> report(A_C, n, 0, BEHIND(r, A_C))
#ifndef MISTAKE_STALE_SLOT_DROPPED
    :: n == 9 && evicted[E(r, u_what)] != 0 -> n = evicted[E(r, u_what)] - 1; report(A_C, n, 1, BEHIND(r, A_C))
#endif
    :: else -> skip
    fi
  :: !over[r] && u_kind == in_full -> n = u_what; report(A_C, n, 1, u_count)
  :: !over[r] && u_kind == joins -> note_join(A_C, u_what)
  :: !over[r] && u_kind == goodbye ->
    if :: r == 0 -> number_order(left, u_what, 0, 0) :: else -> send_up(goodbye, u_what, 0) fi
  :: !over[r] && u_kind == wanted ->
    if :: r == 0 -> number_order(release, 9, 0, 0) :: else -> send_up(wanted, u_what, 0) fi
  fi;
  seen[r * 3 + A_C] = u_seen;
  for (k : 1 .. MOST - 1) {
    if
    :: evicted[E(r, k)] != 0 && (!IS_CHILD(r, 1) || seen[r * 3 + 1] >= until[E(r, k)]) &&
       (!IS_CHILD(r, 2) || seen[r * 3 + 2] >= until[E(r, k)]) -> evicted[E(r, k)] = 0; until[E(r, k)] = 0
    :: else -> skip
    fi
  };
  drain()
}

#define NOTHING_TO_DO(r) (todo[I(r, 0)] == 0 && todo[I(r, NAMES - 1)] == 0)
#define MAY_SUBMIT(r) (!dead[r] && (r != SYNC || (pending[I(r, 0)] == 0 && pending[I(r, NAMES - 1)] == 0)))

proctype Rank(byte r) {
  byte n, k, m, c, mask, s_new, victim, submitters, d_what, d_slot, d_count, d_number, u_what, u_count, u_seen, x;
  mtype d_kind, u_kind;
  bit now_report, counted[2];
end:
  do
  :: atomic { MAY_SUBMIT(r) && todo[I(r, 0)] != 0 && !joining[r] -> x = 0; goto submit }
  :: atomic { MAY_SUBMIT(r) && NAMES > 1 && todo[I(r, NAMES - 1)] != 0 && !joining[r] -> x = NAMES - 1; goto submit }
  :: atomic { r != 0 && !dead[r] && nempty(down[r]) ->
       down[r]?d_kind, d_number, d_what, d_slot, d_count;
       if
       :: d_kind == failure -> fail()
       :: d_kind != failure && !over[r] -> apply(d_kind, d_number, d_what, d_slot, d_count)
       :: else -> skip
       fi;
       drain(); d_kind = 0; d_number = 0; d_what = 0; d_slot = 0; d_count = 0; n = 0; k = 0; mask = 0 }
  :: atomic { r == 0 && nempty(up[1]) && !dead[r] -> c = 1; goto hear }
  :: atomic { !dead[r] && IS_CHILD(r, 2) && nempty(up[2]) -> c = 2; goto hear }
#ifdef JOIN
  :: atomic { !dead[r] && !over[r] && NOTHING_TO_DO(r) && joins_asked[r] == 0
#ifndef QUEUED_BEFORE_JOIN
              && pending[I(r, 0)] < 2 && pending[I(r, NAMES - 1)] < 2
#endif
       -> joins_asked[r] = 1; joining[r] = 1; has_joined[r] = 1; note_join(r, r); drain(); n = 0; k = 0; m = 0 }
#endif
  :: atomic { r == LEAVER && !leaving[r] && !over[r] && NOTHING_TO_DO(r) -> leaving[r] = 1;
       if :: r == 0 -> number_order(left, r, 0, 0) :: else -> send_up(goodbye, r, 0) fi; n = 0; k = 0; mask = 0 }
  :: atomic { r == CRASHER && will_crash && !dead[r] ->
       /* its neighbours read what it had sent, then the end of the link */
       send_up(failure, 0, 0);
       for (k : 1 .. 2) { if :: IS_CHILD(r, k) -> send_down(k, failure, 0, 0, 0, 0) :: else -> skip fi };
       dead[r] = 1; fail_names(7); over[r] = 1; k = 0 }
#ifdef LEARN
  :: atomic { r == 0 && !learned[0] && slot[0] != 0 && slot[1] != 0 && !over[0] ->
       number_order(learn, 9, 0, 0); drain(); n = 0; k = 0; mask = 0 }
#ifdef WANTS
  :: atomic { !over[r] && (held[I(r, 0)] || held[I(r, 1)]) && (r == SYNC || NOTHING_TO_DO(r)) ->
       if
       :: r != 0 -> send_up(wanted, 0, 0)
#ifdef ROOT_WANTS_TOO
       :: r == 0 -> number_order(release, 9, 0, 0)
#else
       :: r == 0 -> skip
#endif
       fi;
       let_go(); drain(); n = 0; k = 0; mask = 0 }
#endif
#ifndef NO_DEADLINE
  :: atomic { !over[r] && (held[I(r, 0)] || held[I(r, 1)]) -> let_go(); drain(); n = 0; k = 0; mask = 0 }
#endif
#endif
  od;
submit:
  atomic {
    todo[I(r, x)]--; submitted[I(r, x)]++;
    if
    :: over[r] || leaving[r] || (gone[r] & MEMBERS(x)) != 0 -> completed[I(r, x)]++
    :: else -> pending[I(r, x)]++; if :: pending[I(r, x)] == 1 -> fresh[I(r, x)] = 1 :: else -> skip fi; drain()
    fi;
    x = 0; n = 0; k = 0; mask = 0; goto end
  }
hear:
  atomic {
    if
    :: c == 1 -> up[1]?u_kind, u_what, u_count, u_seen
    :: c == 2 -> up[2]?u_kind, u_what, u_count, u_seen
    fi;
    from_child(c);
    u_kind = 0; u_what = 0; u_count = 0; u_seen = 0; c = 0; n = 0; k = 0; m = 0; mask = 0; goto end
  }
}

init {
  byte r, n, k;
  atomic {
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
    for (r : 0 .. 2) {
      todo[I(r, 0)] = T0;
      if :: NAMES > 1 && (MEMBERS(NAMES - 1) & BIT(r)) != 0 -> todo[I(r, NAMES - 1)] = T1 :: else -> skip fi
    };
#ifdef JOIN
    todo[I(JOIN, 0)] = JOINER_T0;
    todo[I(JOIN, 1)] = 0;
#endif
    if :: CRASHER != 9 -> will_crash = 1 :: will_crash = 0 fi;
    run Rank(0); run Rank(1); run Rank(2);
  }
  timeout ->
  d_step {  /* nothing moves any more */
    for (r : 0 .. 2) {
      for (n : 0 .. NAMES - 1) {
        assert(dead[r] || (todo[I(r, n)] == 0 && pending[I(r, n)] == 0 && completed[I(r, n)] == submitted[I(r, n)]))
      };
      assert(dead[r] || joins_done[r] == joins_asked[r]);
      if
      :: !over[r] && last_order[r] < orders -> for (k : last_order[r] + 1 .. orders) { assert((order_members[k] & SUBTREE(r)) == 0) }
      :: else -> skip
      fi
    };
    if
    :: !over[0] && !over[1] && !over[2] ->
      for (k : 1 .. orders) {
        if
        :: order_kind[k] == run_slot || order_kind[k] == run_full -> assert(ran_with[k] == order_contributors[k])
        :: else -> skip
        fi
      }
    :: else -> skip
    fi
  }
}
