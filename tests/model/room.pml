/* How the root's coordinator wakes while orders are deferred until the lane has room. The model has every
 * interleaving of the driver, the lane that ends batches, and a thread that submits.
 *
 * It mirrors Driver::round, nothing_to_do and run_ended (runtime/core/driver.cc), CoordinatorSleep::wake, and
 * HostLane::perform. An exchange there is one atomic step here; a load or a store there is one step here. The
 * driver represents the thread that has the baton.
 *
 * The assertion: when nothing can move any more, all submitted requests have run.
 */
#define EVENT(what) c_code { static char once; if (!once) { once = 1; printf("reached: " what "\n"); } }
#define BUSY 2     /* HostLane::kBusyRuns */
#define REQUESTS 3 /* each becomes a batch of its own; two more are in the lane from the start */

byte outstanding = BUSY;
byte inbox = 0;
byte ready = 0; /* in the sequencer, not ordered yet */
byte ended = 0;
bool wants_room = false;
bool sleeping = false;
bool pending = false; /* the channel's wake-up, which is not lost */

inline wake() {
  atomic { was = sleeping; sleeping = false }
  if
  :: was -> pending = true
  :: else
  fi
}

active proctype driver() {
  bool busy;
  do
  :: atomic { ready = ready + inbox; inbox = 0 }
     wants_room = true;
     busy = (outstanding >= BUSY);
     if
     :: busy && ready > 0 -> EVENT("orders are held back")
     :: else ->
        do
        :: ready > 0 -> ready--; outstanding++
        :: else -> break
        od;
        wants_room = false
     fi;
     sleeping = true;
     if
     :: busy && ready > 0 && outstanding < BUSY -> goto again
     :: else
     fi;
#ifndef MISTAKE_ROOM_NOT_WANTED_AGAIN
     if
     :: busy && ready > 0 && !wants_room -> EVENT("the wish for a wake-up was taken down in vain"); goto again
     :: else
     fi;
#endif
     if
     :: inbox > 0 -> goto again
     :: else
     fi;
end_asleep:
     pending -> pending = false;
again:
     sleeping = false
  od
}

active proctype lane() {
  bool was;
  byte left;
end_idle:
  do
  :: atomic { outstanding > 0 -> outstanding--; left = outstanding; ended++ }
     if
     :: left < BUSY ->
        atomic { was = wants_room; wants_room = false }
        if
        :: was -> wake()
        :: else
        fi
     :: else
     fi
  od
}

active proctype submitter() {
  bool was;
  byte i;
  for (i : 1 .. REQUESTS) {
    inbox++;
    wake()
  }
}

/* The judge runs only when no other process can move. */
active proctype judge() {
  timeout -> assert(ended == BUSY + REQUESTS)
}
