/* ---- The way up: upward_reporter.cc, collector.cc, learned_batches.cc.
 * Collector::take, UpwardReporter::took, Sequencer::complete: for a name that is complete at this rank. */
inline take(A_N) {
  printf("|   rank %d: name %d is complete, contributors %d\n", r, A_N, contributors[I(r, A_N)]);
  if
  :: r == 0 ->
#ifdef DYNAMIC
    if
    :: A_N == 1 && sequencer_set != 1 -> skip  /* the set's removal is under way and fails what waits there */
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
  :: r != 0 && !spelled[I(r, A_N)] && got[I(r, A_N)] == expected[I(r, A_N)] ->
    up_slots[r] = up_slots[r] | BIT(slot[I(r, A_N)])
  :: else ->
    up_full[r] = up_full[r] | BIT(A_N); up_counts[r] = up_counts[r] | (contributors[I(r, A_N)] << (2 * A_N))
  fi;
  got[I(r, A_N)] = 0; spelled[I(r, A_N)] = 0; contributors[I(r, A_N)] = 0
}

/* Collector::report, note, spell_out; UpwardReporter::took. */
inline report(A_N, A_FULL) {
  if
  :: OPEN(r, A_N) && (expected[I(r, A_N)] & BIT(rc)) != 0 ->
    assert((got[I(r, A_N)] & BIT(rc)) == 0);  /* the real rank would end the job: reported twice */
    if :: A_FULL -> spelled[I(r, A_N)] = 1 :: else -> skip fi;
    got[I(r, A_N)] = got[I(r, A_N)] | BIT(rc);
    contributors[I(r, A_N)] = contributors[I(r, A_N)] + count[A_N];
    if :: COMPLETE(r, A_N) -> take(A_N) :: else -> skip fi
  :: else -> skip
  fi
}

/* LearnedBatches::release, UpwardReporter::report: reports the names that are held here. */
inline let_go() {
  for (k : 0 .. NAMES - 1) {
    if
    :: held[I(r, k)] -> held[I(r, k)] = 0; by_slot = by_slot | BIT(k); rc = r; loose[r] = 1
    :: else -> skip
    fi
  }
}

#if AWAITS
/* UpwardReporter::let_go */
inline let_go_of(A_N) {
  awaited[I(r, A_N)] = 1;
  if :: held[I(r, A_N)] -> let_go() :: else -> skip fi
}
inline let_go_of_awaited(A_N) {
  if
  :: awaited[I(r, A_N)] && held[I(r, A_N)] -> EVENT("what is waited for elsewhere is not kept back"); let_go()
  :: else -> skip
  fi
}

/* UpwardReporter::note_awaited; Sequencer::awaited. */
inline note_awaited(A_N) {
  if
#ifdef MISTAKE_AWAITED_NOT_PASSED_ON
  :: r == 1 && rc != r -> skip
#endif
  :: !awaited[I(r, A_N)] ->
    let_go_of(A_N);
    if
    :: r != 0 -> up_awaited[r] = up_awaited[r] | BIT(slot[I(r, A_N)])
    :: r == 0 && !in_ready_list[A_N] && has_learned -> ready!release, slot[I(0, A_N)]
    :: else -> skip
    fi
  :: else -> skip
  fi
}
#endif

/* UpwardReporter::announce, LearnedBatches::ready. */
inline announce(A_N) {
  rc = r;
  if
  :: slot[I(r, A_N)] == 0 -> in_full = BIT(A_N); count[A_N] = 1
  :: slot[I(r, A_N)] != 0 && !batch[I(r, A_N)] -> by_slot = BIT(A_N)
  :: else ->
    been_ready[r]++;
    if
    :: been_ready[r] >= batch_size[r] ->
      let_go(); by_slot = by_slot | BIT(A_N); been_ready[r] = 0; loose[r] = 0
    :: been_ready[r] < batch_size[r] && loose[r] -> by_slot = BIT(A_N)
    :: else -> held[I(r, A_N)] = 1
    fi
#if AWAITS
    ; let_go_of_awaited(A_N)
#endif
  fi
}

/* UpwardReporter::announce_join: at once, and again when fewer operations are queued behind their own name.
 */
inline announce_join() {
  if
  :: joining[r] ->
    m = 0;
#ifndef MISTAKE_JOIN_OVERTAKES
    for (k : 0 .. NAMES - 1) {
      if :: IN_WORLD(k) && pending[I(r, k)] > 1 -> m = m | BIT(k) :: else -> skip fi
    };
#endif
    if
#ifdef MISTAKE_JOIN_WAITS_FOR_QUEUES
    :: m != 0 -> skip
#endif
    :: !join_announced[r] || m != join_unfinished[r] ->
      if :: m != 0 -> EVENT("a rank joins with something queued"); skip :: else -> skip fi;
      join_announced[r] = 1; join_unfinished[r] = m; joins = 1 | (m << 1); let_go(); rc = r
    :: else -> skip
    fi
  :: else -> skip
  fi
}

/* UpwardReporter::note_join, Sequencer::all_joined. */
inline note_join() {
  if
  :: gone[r] == 0 ->
    joined[r] = joined[r] | BIT(rc); unfinished[3 * r + rc] = joining_with >> 1;
    for (m : 0 .. NAMES - 1) {
      if
      :: IN_WORLD(m) && got[I(r, m)] != 0 && COMPLETE(r, m) -> EVENT("a join completes a tensor"); take(m)
      :: else -> skip
      fi
    };
    if
    :: joined[r] == REPORTERS(r) ->
      m = unfinished[3 * r] | unfinished[3 * r + 1] | unfinished[3 * r + 2];
      if
      :: r == 0 && m == 0 -> ready!joined_all, 0
      :: r == 0 && m != 0 -> skip
      :: else -> up_joined[r] = 1 | (m << 1)
      fi
    :: else -> skip
    fi
  :: else -> skip
  fi
}

/* UpwardReporter::note_wanted; Sequencer::wanted, StepLearner::forget. */
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

/* UpwardReporter::from_child, slot_from_child: the meaning of a message's items at this rank. */
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
        victim = evicted[E(r, s)] - 1; in_full = in_full | BIT(victim);
        count[victim] = COUNT(BEHIND(r, A_C) & MEMBERS(victim))
#endif
      :: else -> EVENT("a report by slot means nothing any more"); skip
      fi
    :: else -> skip
    fi
  };
  for (k : 0 .. NAMES - 1) {
    if
    :: (u_full & BIT(k)) != 0 && OPEN(r, k) ->
      in_full = in_full | BIT(k); count[k] = (u_counts >> (2 * k)) & 3
    :: else -> skip
    fi
  };
#if AWAITS
  awaits = u_awaited;
#endif
  joins = u_joined; wants = u_wanted; heard = 1
}

/* ChildProgress::note_seen, seen_by_all; ResponseCache::forget_evicted. */
inline note_seen(A_C) {
  seen[r * 3 + A_C] = u_seen;
  for (k : 1 .. SLOTS - 1) {
    if
    :: evicted[E(r, k)] != 0 && (!TELLERS(r, evicted[E(r, k)] - 1, 1) || seen[r * 3 + 1] >= until[E(r, k)]) &&
       (!TELLERS(r, evicted[E(r, k)] - 1, 2) || seen[r * 3 + 2] >= until[E(r, k)]) ->
      evicted[E(r, k)] = 0; until[E(r, k)] = 0
    :: else -> skip
    fi
  }
}
