/* ---- The state of a rank: TensorTable, ResponseCache, Collector, LearnedBatches, NegotiationState. */
byte todo[3 * NAMES];         /* the program: how often the name must still be submitted */
byte pending[3 * NAMES];      /* TensorEntry::waiting */
byte slot[3 * NAMES];
bit held[3 * NAMES];
bit batch[3 * NAMES];
byte got[3 * NAMES];          /* Collection::reported */
bit spelled[3 * NAMES];       /* Collection::candidates is not empty */
byte contributors[3 * NAMES];
#if AWAITS
bit awaited[3 * NAMES];
byte ordered_at[3 * NAMES];
#endif
byte evicted[3 * SLOTS];      /* ResponseCache::evicted_: name + 1 */
byte until[3 * SLOTS];
byte seen[9];
#ifdef MOST_UNTOLD
byte untold[3];
#endif
byte last_order[3];
byte joined[3];               /* Collector::Set::joined of the world */
byte unfinished[9];           /* Collector::Set::unfinished, a mask of names by rank and reporter */
bit joining[3];               /* NegotiationState::joins */
bit join_announced[3];
byte join_unfinished[3];      /* the mask that was announced last */
byte batch_size[3];           /* 0: nothing learned */
byte been_ready[3];
bit loose[3];
byte gone[3];                 /* NegotiationState::left */
byte lost[3];                 /* the links that have ended */
bit leaving[3];
bit over[3];
bit failed[3];
bit dead[3];                  /* crashed, or gone after its goodbye */
bit crashed[3];
#ifdef DYNAMIC
byte set[3];                  /* name 1's set: 0 before it is added, 1 there, 2 removed */
byte sequencer_set;           /* Sequencer::sets_ */
#endif
byte up_slots[3];             /* UpwardReporter::message_ */
byte up_full[3];
byte up_counts[3];            /* two bits per name */
byte up_joined[3];
bit up_wanted[3];
byte up_awaited[3];
/* The root's Sequencer. */
bit in_ready_list[NAMES];
bit ready_full[NAMES];
byte ready_contributors[NAMES];
byte place[NAMES];            /* the slot in use for a name */
byte used_at[NAMES];          /* the order of SlotAllocator::by_age_ */
byte next_slot = 1;
byte goodbyes;
bit has_learned;
bit forget_learned;           /* StepLearner::change_ */
#ifdef LEARN  /* the number of times that the root may learn a batch of names 0 and 1 */
byte learns = LEARN;
#endif

/* ---- State of no rank, for the assertions. */
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
#ifdef EXECUTED
short executed[3];            /* names in the order in which they ran, four to a digit */
#endif

#ifdef BATCHES
#define P(r, number) ((r) * MOST + (number))
byte order_batch[MOST];       /* the batch as the root has decided */
byte first_batch[MOST];       /* the first batch of the message that begins with this order */
byte planned[3 * MOST];       /* the batch in which a rank has run an order */
byte next_batch;
#ifdef MISTAKE_RANKS_PLAN
byte own_batch[3];
#define BATCH_AT(r, number) own_batch[r]
#else
#define BATCH_AT(r, number) order_batch[number]
#endif
#endif

hidden byte expected[3 * NAMES];  /* Collector::Set::expected, a mask of reporters; never changes */

/* ---- Temporary values within one step. */
hidden byte n; hidden byte k; hidden byte s; hidden byte m;
hidden byte rc;               /* the reporter: the rank itself or a child */
hidden byte by_slot;          /* masks of names: the reports of rc */
hidden byte in_full;
hidden byte count[4];
hidden byte fresh;            /* names to be announced */
hidden byte joins;             /* 1 if rc has joined, plus twice the mask of unfinished names */
hidden byte joining_with;
hidden byte wants;
hidden byte awaits;            /* mask of slots */
hidden byte heard;             /* u_seen must be noted */
hidden byte flush;
hidden byte victim;
hidden mtype d_kind; hidden byte d_number; hidden byte d_what; hidden byte d_slot; hidden byte d_count;
hidden mtype u_kind; hidden byte u_slots; hidden byte u_full; hidden byte u_counts;
hidden byte u_joined; hidden byte u_wanted; hidden byte u_awaited; hidden byte u_seen;
hidden byte members;

/* ---- Links. Messages to a dead rank are lost. */
inline send_down(A_C, A_KIND, A_NUMBER, A_WHAT, A_SLOT, A_COUNT) {
  if
  :: !dead[A_C] && (lost[r] & BIT(A_C)) == 0 ->
    assert(len(down[A_C]) < CAP);
    down[A_C]!A_KIND, A_NUMBER, A_WHAT, A_SLOT, A_COUNT
  :: else -> skip
  fi
}

inline send_up(A_KIND, A_WHAT) {
  if
  :: !dead[PARENT(r)] && (lost[r] & BIT(PARENT(r))) == 0 ->
    assert(len(up[r]) < CAP);
    up[r]!A_KIND, A_WHAT, 0, 0, 0, 0, 0, 0
  :: else -> skip
  fi
}

/* UpwardReporter::flush */
inline flush_up() {
  if
  :: r != 0 && !over[r] && HAS_NEWS(r) ->
    if
    :: !dead[PARENT(r)] && (lost[r] & BIT(PARENT(r))) == 0 ->
      assert(len(up[r]) < CAP);
      up[r]!ready_list, up_slots[r], up_full[r], up_counts[r], up_joined[r], up_wanted[r], up_awaited[r],
        last_order[r]
    :: else -> skip
    fi;
    up_slots[r] = 0; up_full[r] = 0; up_counts[r] = 0; up_joined[r] = 0; up_wanted[r] = 0; up_awaited[r] = 0
#ifdef MOST_UNTOLD
    ; if :: !REPORTS(r) -> EVENT("a rank only says what it has seen"); skip :: else -> skip fi; untold[r] = 0
#endif
  :: else -> skip
  fi
}
