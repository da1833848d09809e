/* ---- The way down: order_follower.cc, and endings.cc. Endings::fail_set, for the sets with any of these
   ranks. */
inline fail_sets(A_MASK) {
  for (k : 0 .. NAMES - 1) {
    if
    :: (MEMBERS(k) & A_MASK) != 0 ->
      completed[I(r, k)] = completed[I(r, k)] + pending[I(r, k)]; pending[I(r, k)] = 0;
      held[I(r, k)] = 0; got[I(r, k)] = 0; spelled[I(r, k)] = 0; contributors[I(r, k)] = 0
    :: else -> skip
    fi
  };
  if
  :: joining[r] -> EVENT("a pending join fails"); joining[r] = 0; join_announced[r] = 0; joins_done[r]++
  :: else -> skip
  fi
}

/* Endings::end. */
inline fail_everything() {
  fail_sets(7);
  over[r] = 1;
  up_slots[r] = 0; up_full[r] = 0; up_counts[r] = 0; up_joined[r] = 0; up_wanted[r] = 0; up_awaited[r] = 0;
  batch_size[r] = 0; been_ready[r] = 0; loose[r] = 0;
  for (k : 0 .. NAMES - 1) { slot[I(r, k)] = 0; batch[I(r, k)] = 0 };
  for (k : 1 .. SLOTS - 1) { evicted[E(r, k)] = 0; until[E(r, k)] = 0 };
  by_slot = 0; in_full = 0; fresh = 0; joins = 0; wants = 0; awaits = 0; heard = 0
}

/* Endings::fail: all neighbours get the failure, except the one that reported it. */
inline fail(A_EXCEPT) {
  if
  :: failed[r] -> skip
  :: else ->
    assert(CRASHER != 9);
    if :: r != 0 && PARENT(r) != A_EXCEPT -> send_up(fail_message, 0) :: else -> skip fi;
    for (k : 1 .. 2) {
      if :: IS_CHILD(r, k) && k != A_EXCEPT -> send_down(k, fail_message, 0, 0, 0, 0) :: else -> skip fi
    };
    failed[r] = 1;
    if :: !over[r] -> fail_everything() :: else -> skip fi
  fi
}

/* OrderFollower::take_front. */
inline take_front(A_N) {
  pending[I(r, A_N)]--; completed[I(r, A_N)]++;
  if :: pending[I(r, A_N)] != 0 -> fresh = fresh | BIT(A_N) :: else -> skip fi
}

/* OrderFollower::run, and the completion of operations that move no data. take_front runs whether an
   operation waits here or not. */
inline run_order() {
#if AWAITS
  awaited[I(r, n)] = 0; ordered_at[I(r, n)] = d_number; up_awaited[r] = up_awaited[r] & ~BIT(slot[I(r, n)]);
#endif
#ifdef EXECUTED
  if
#ifdef MISTAKE_ROOT_RUNS_BEFORE_NUMBERING
  :: r == 0 -> skip
#endif
  :: else -> executed[r] = executed[r] * 4 + n + 1
  fi;
#endif
#ifdef BATCHES
  if :: MOVES_DATA(n) -> planned[P(r, d_number)] = BATCH_AT(r, d_number) :: else -> skip fi;
#endif
  if
  :: pending[I(r, n)] != 0 ->
    ran_with[d_number]++; assert(ran_with[d_number] <= order_contributors[d_number]); take_front(n)
  :: else -> EVENT("a joined rank runs without data"); assert(IN_WORLD(n) && join_announced[r])
  fi;
#ifdef DYNAMIC
  if
  :: n == 2 -> set[r] = 1
  :: n == 3 ->
    set[r] = 2;
    if
    :: pending[I(r, 1)] != 0 -> EVENT("a process set is removed while a tensor waits in it"); skip
    :: else -> skip
    fi;
    completed[I(r, 1)] = completed[I(r, 1)] + pending[I(r, 1)]; pending[I(r, 1)] = 0;
    held[I(r, 1)] = 0; got[I(r, 1)] = 0; spelled[I(r, 1)] = 0; contributors[I(r, 1)] = 0;
    slot[I(r, 1)] = 0; batch[I(r, 1)] = 0
  :: else -> skip
  fi
#endif
}

/* OrderFollower::pass_down, concerns. */
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

/* OrderFollower::apply and its callees: applies d_kind, d_number, d_what, d_slot, d_count at rank r. */
inline apply() {
  printf("|   rank %d applies order %d: %e %d, slot %d, contributors %d\n",
         r, d_number, d_kind, d_what, d_slot, d_count);
  assert(d_number > last_order[r] && order_kind[d_number] == d_kind && order_what[d_number] == d_what);
  for (k : last_order[r] + 1 .. d_number - 1) { assert((order_members[k] & SUBTREE(r)) == 0) };
  last_order[r] = d_number;
  n = d_what;
#ifdef MISTAKE_RANKS_PLAN
  for (k : 1 .. d_number) {
    if :: first_batch[k] > own_batch[r] -> own_batch[r] = first_batch[k] :: else -> skip fi
  };
  if
  :: d_kind == left || d_kind == joined_all || (d_kind == run_full && !MOVES_DATA(n)) -> own_batch[r]++
  :: else -> skip
  fi;
#endif
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
    assert(slot[I(r, n)] == d_slot);  /* ResponseCache::find */
    if :: (MEMBERS(n) & BIT(r)) != 0 -> run_order() :: else -> skip fi
  :: !over[r] && (d_kind == run_full || d_kind == run_slot) && !OPEN(r, n) ->
    EVENT("an order comes after the end of its set"); skip
  :: !over[r] && d_kind == evict ->
    assert(slot[I(r, n)] == d_slot);
    if
    :: got[I(r, n)] != 0 -> EVENT("a slot is evicted under reports"); spelled[I(r, n)] = 1
    :: else -> skip
    fi;
    if
    :: r == 0 && in_ready_list[n] ->  /* Sequencer::spell_out */
      EVENT("a slot is evicted under what is ready"); ready_full[n] = 1
    :: else -> skip
    fi;
    slot[I(r, n)] = 0; batch[I(r, n)] = 0;
    if  /* ChildProgress::has_reporters_below, ResponseCache::evict */
    :: OPEN(r, n) && (TELLERS(r, n, 1) || TELLERS(r, n, 2)) ->
      evicted[E(r, d_slot)] = n + 1; until[E(r, d_slot)] = d_number
    :: else -> skip
    fi;
#ifdef MOST_UNTOLD
    if :: r != 0 -> untold[r]++ :: else -> skip fi;
#endif
    if
    :: held[I(r, n)] ->
      EVENT("a slot is evicted that is kept back"); held[I(r, n)] = 0; fresh = fresh | BIT(n)
    :: else -> skip
    fi
  :: !over[r] && d_kind == left ->
    gone[r] = gone[r] | SUBTREE(d_what);
#ifdef LEAVE_LAST
    assert(!WAITS(r));
#endif
    if
    :: (gone[r] & BIT(r)) != 0 -> fail_everything()
    :: else ->
      for (k : 0 .. NAMES - 1) {
        if
        :: (MEMBERS(k) & gone[r]) != 0 && pending[I(r, k)] != 0 ->
          EVENT("what waits for a rank that left fails"); skip
        :: else -> skip
        fi
      };
      fail_sets(gone[r])
    fi
  :: !over[r] && d_kind == joined_all ->
    assert(joining[r] && join_announced[r]);
    joined[r] = 0; joining[r] = 0; join_announced[r] = 0; join_unfinished[r] = 0; joins_done[r]++;
    assert(unfinished[3 * r] == 0 && unfinished[3 * r + 1] == 0 && unfinished[3 * r + 2] == 0);
    todo[I(r, 0)] = AFTER
  :: !over[r] && d_kind == learned_ ->
    let_go();
    been_ready[r] = 0; loose[r] = 0; batch_size[r] = 0;
    for (k : 0 .. NAMES - 1) {
      batch[I(r, k)] = 0;
      if
      :: d_what == 1 && slot[I(r, k)] != 0 && (MEMBERS(k) & BIT(r)) != 0 ->
        batch[I(r, k)] = 1; batch_size[r]++
      :: else -> skip
      fi
    }
  :: !over[r] && d_kind == release ->
    if
#if AWAITS
    :: d_what != 0 ->  /* UpwardReporter::let_go */
      for (m : 0 .. NAMES - 1) { if :: slot[I(r, m)] == d_what -> let_go_of(m) :: else -> skip fi }
#endif
    :: else -> let_go()
    fi
  fi
}
