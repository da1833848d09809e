/* The right to drive the coordinator while threads that wait for results help. The model has every
 * interleaving of:
 *   - the coordinator's own thread
 *   - a thread that submits and may wait without limit
 *   - a thread whose wait has a limit
 *   - a neighbour whose messages come through shared memory
 *
 * It mirrors Coordinator::drive, help and drive_for and CoordinatorSleep in runtime/core, LinkChannel::poll,
 * look and hand_back in runtime/control/link_channel.cc, and the parts of them in ShmLink. An exchange there
 * is one atomic step here; a load or a store there is one step here. There are no timers: a sleeping thread
 * sleeps until another one wakes it.
 *
 * The assertion: when nothing can move any more, all messages and all submitted commands have been acted on.
 */
#define EVENT(what) c_code { static char once; if (!once) { once = 1; printf("reached: " what "\n"); } }
#define MESSAGES 1
#define COMMANDS 2

byte mail = 0;  /* in the ring, unread */
byte inbox = 0; /* submitted, not taken */
byte told = 0;  /* read, with no round since */
byte acted = 0;

bool baton = true; /* the coordinator's thread has it at first */
bool sleeping = false;

/* The channel. */
bool pending = false;
bool asleep = false;
bool declared = false;
bool kicked = false; /* its own descriptor is readable */

/* The link. */
bool reader_sleeps = false;
bool declared_on_link = false;
byte rings = 0; /* the count of its descriptor */
byte owed = 0;

inline round() {
  atomic { acted = acted + told + inbox; told = 0; inbox = 0 }
}

inline wake() {
  atomic { was = sleeping; sleeping = false }
  if
  :: was ->
     atomic { was = pending; pending = true }
     if
     :: !was ->
        atomic { was = asleep; asleep = false }
        if
        :: was -> kicked = true
        :: else
        fi
     :: else
     fi
  :: else
  fi
}

inline empty_event() {
  atomic { owed = (owed > rings -> owed - rings : 0); rings = 0 }
}

inline link_woken() {
  atomic {
    if
    :: declared_on_link && !reader_sleeps -> owed++
    :: else
    fi;
    reader_sleeps = false;
    declared_on_link = false
  }
  if
  :: owed > 0 -> empty_event()
  :: else
  fi
}

inline woken() {
  atomic { declared = false; asleep = false }
  link_woken()
}

inline take_wake() {
  if
  :: atomic { pending -> pending = false; seen = true }
  :: else
  fi
}

inline read() {
  atomic {
    if
    :: mail > 0 -> told = told + mail; mail = 0; seen = true
    :: else
    fi
  }
}

inline look_into_memory() {
  take_wake();
  read()
}

/* Sets may_sleep: whether the thread may sleep. */
inline prepare_to_sleep() {
  atomic { declared = true; asleep = true; may_sleep = false }
  if
  :: pending
  :: else ->
     if
     :: mail > 0
     :: else ->
        atomic { reader_sleeps = true; declared_on_link = true }
#ifdef MISTAKE_LOOKS_ONCE_BEFORE_SLEEP
        may_sleep = true
#else
        if
        :: mail > 0 -> EVENT("something comes to one that lies down"); link_woken()
        :: else -> may_sleep = true
        fi
#endif
     fi
  fi
}

active proctype coordinator() {
  bool seen, may_sleep, needed, is_kicked, is_rung;
  do
  :: round();
     sleeping = true;
     needed = (inbox > 0);
     do
     :: look_into_memory();
        if
        :: seen -> break
        :: else
        fi;
        prepare_to_sleep();
        if
        :: may_sleep ->
           atomic { baton = false; may_sleep = false }
           if
           :: needed
           :: else ->
end_asleep:
              (kicked || rings > 0)
           fi;
           atomic { is_kicked = kicked; is_rung = (rings > 0) }
           atomic { !baton -> baton = true }
        :: else -> atomic { is_kicked = kicked; is_rung = (rings > 0) }
        fi;
        woken();
        if
        :: is_kicked -> kicked = false
        :: else
        fi;
        if
        :: is_rung ->
           if
           :: mail > 0 -> read()
           :: else -> empty_event()
           fi
        :: else
        fi;
        take_wake();
        if
        :: seen || needed -> break
        :: else
        fi
     od;
     atomic {
       sleeping = false; seen = false; needed = false; is_kicked = false; is_rung = false; may_sleep = false
     }
  od
}

/* Drives with the baton. With `limited`, the helper's time may be up at any moment. */
inline drive(limited) {
  if
  :: declared -> woken()
  :: else
  fi;
  look_into_memory();
  seen = false;
  do
  :: round();
     if
     :: break /* the order has come, or no other event comes */
     :: limited -> EVENT("the time of a helper is up"); break
     :: look_into_memory();
#ifdef MISTAKE_LEAVES_WITHOUT_ROUND
        if
        :: limited && seen -> goto handing_back
        :: else
        fi;
#endif
        if
        :: seen || inbox > 0 -> seen = false
        :: else -> break
        fi
     fi
  od;
#ifdef MISTAKE_LEAVES_WITHOUT_ROUND
handing_back:
#endif
  sleeping = true;
#ifndef MISTAKE_INBOX_LEFT_BEHIND
  if
  :: inbox > 0 -> EVENT("something is submitted before the baton is back"); pending = true
  :: else
  fi;
#endif
  prepare_to_sleep();
  if
  :: !may_sleep -> EVENT("the coordinator's thread is called for what comes with the baton"); kicked = true
  :: else
  fi;
  atomic { baton = false; seen = false; may_sleep = false }
}

/* A call that does not block, and one that may block. */
active proctype caller() {
  bool was, seen, may_sleep;
  inbox++;
  wake();
  was = false;
  inbox++;
  if
  :: atomic { !baton -> baton = true }
     EVENT("a helper drives");
     drive(false)
  :: wake()
  fi
}

/* A wait with a limit, for an event that does not come. */
active proctype guest() {
  bool was, seen, may_sleep;
  if
  :: atomic { !baton -> baton = true }
     drive(true)
  :: baton
  fi
}

active proctype neighbour() {
  bool was;
  byte i;
  for (i : 1 .. MESSAGES) {
    mail++;
    if
    :: reader_sleeps && mail > 0 ->
       atomic { was = reader_sleeps; reader_sleeps = false }
       if
       :: was -> rings++
       :: else
       fi
    :: else
    fi
  }
}

/* The judge runs only when no other process can move. */
active proctype judge() {
  timeout -> assert(acted == MESSAGES + COMMANDS && told == 0)
}
