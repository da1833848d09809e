/* ---- The root's decisions: sequencer.cc. Sequencer::number. */
inline number(A_KIND, A_WHAT, A_SLOT, A_COUNT) {
  orders++; assert(orders < MOST && len(list) < 8);
  order_kind[orders] = A_KIND; order_what[orders] = A_WHAT; order_contributors[orders] = A_COUNT;
  if
  :: A_KIND == run_full || A_KIND == run_slot || A_KIND == evict -> order_members[orders] = MEMBERS(A_WHAT)
  :: else -> order_members[orders] = 7
  fi;
#ifdef BATCHES  /* mark_batches */
  if
  :: A_KIND == left || A_KIND == joined_all || (A_KIND == run_full && !MOVES_DATA(A_WHAT)) -> next_batch++
  :: else -> order_batch[orders] = next_batch
  fi;
#endif
  list!A_KIND, orders, A_WHAT, A_SLOT, A_COUNT
}

/* Sequencer::sequence, take_slot, evict_one, give_back_all; StepLearner::disturbed: for an order to run. */
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
          if
          :: victim == 9 -> victim = k
          :: victim != 9 -> if :: used_at[k] < used_at[victim] -> victim = k :: else -> skip fi
          fi
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

/* Sequencer::take_orders. PRIORITY: name 1 precedes name 0 if both are ready. */
inline take_orders() {
#ifdef BATCHES
  next_batch++; first_batch[orders + 1] = next_batch;
#endif
  do
  :: len(ready) != 0 ->
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
