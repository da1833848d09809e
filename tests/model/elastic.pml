/* The change from an epoch of an elastic job to the next, for the model checker Spin. There are three ranks.
 * One dies at any moment, and one stands still for a while. Rank 0 may be either of them.
 *
 * The model mirrors, and changes together with:
 *   Dabkerun        launcher/elastic: Membership::take_arrival, take_end, meet and open; Meetings::publish
 *   come, r_answer  runtime/bootstrap/elastic/meeting.cc: come_to_meeting
 *   sync            bindings/cpp/include/dabke/elastic.hpp: State::sync; bindings/python: _frontend/elastic
 *   report, order   the negotiation, as a star, one name at a time (negotiation.pml has all of it)
 *
 * How the model steps:
 *   - A rank reports that it is ready. When all have reported, the root orders the operation. A run ends on
 *     a rank once all members have executed the order. It may end well on one rank and fail on another.
 *     Each good end is a commit.
 *   - Any time may pass before something is noticed. Messages of a rank that is gone may be lost, or not.
 *   - Peers may give a stopped rank up at any moment, and dabkerun may write it off. It wakes later, and goes
 *     on where it stood. If it was written off, its agent may kill it then, at any later moment.
 *
 * The assertions:
 *   - Reports and orders are read in their own epoch alone.
 *   - An order is made when all members of its epoch have reported. Only members of that epoch execute it.
 *   - All members have the same state before they execute an order.
 *   - The holders named by the plan hold the newest commit, and nobody else does.
 *   - When nothing can move any more, every process has ended. It has done all steps, was killed, or was
 *     written off. At least one has done all steps.
 *
 * The model leaves out newcomers, announced changes of hosts, ranks that leave in good order, limits of ranks
 * and of time. tests/sim/elastic has them.
 */
#define EVENT(what) c_code { static char once; if (!once) { once = 1; printf("reached: " what "\n"); } }
#ifndef STEPS   /* commits of a whole training */
#define STEPS 2
#endif
#ifndef KILLS   /* 1: a rank dies */
#define KILLS 1
#endif
#ifndef STOPS   /* 1: a rank stands still for a while */
#define STOPS 1
#endif
#define EPOCHS 6  /* 1 to 5 */
#define VISITS 6
#define CAP 4     /* messages on a link */

#define BIT(w) (1 << (w))
#define IN(mask, w) (((mask) & BIT(w)) != 0)
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1))
#define MEMBERS(w) members[epoch[w]]
#define LOWEST(m) (((m) & 1) != 0 -> 0 : (((m) & 2) != 0 -> 1 : 2))
#define ROOT(w) LOWEST(MEMBERS(w))
#define RANK(e, w) COUNT(members[e] & (BIT(w) - 1))
#ifdef MISTAKE_LINKS_OUTLIVE_EPOCHS
#define LINK(e, w) RANK(e, w)
#else
#define LINK(e, w) ((e) * 3 + RANK(e, w))
#endif
#ifdef MISTAKE_ANSWER_OF_ANOTHER_VISIT
#define ANSWER(w, v) answer[(w) * VISITS]
#else
#define ANSWER(w, v) answer[(w) * VISITS + (v)]
#endif
#define RUNS(w) (IN(live, w) && !IN(asleep, w))
/* Whether process w may find the link to member m of its epoch broken. A rank that has done all steps leaves
   by a goodbye, after the last order. */
#define IS_GONE(w, m) ((w) != (m) && IN(MEMBERS(w), m) && \
                       ((!IN(live, m) && !IN(finished, m)) || IN(left[epoch[w]], m) || IN(asleep, m)))
#define HAS_LOST(w) (IS_GONE(w, 0) || IS_GONE(w, 1) || IS_GONE(w, 2))

mtype = {reporting, waiting, running, meeting, syncing};
mtype = {r_report, r_take, r_order, r_end, r_lost, r_answer, r_state, d_arrival, d_dead, d_silent, d_open,
         n_kill, n_stop, n_wake, n_agent};
#define WRITTEN_OFF 9

/* ---- Processes. */
byte live = 7;               /* masks of processes */
byte asleep;
byte finished;               /* with all steps done */
byte killed;
byte was_told;               /* that it was written off */
mtype phase[3] = reporting;
byte epoch[3] = 1;
byte visit[3];
byte commit[3];
byte state[3];               /* what has been learned */
byte got_reports[3];         /* the root's: which members have reported the next operation */
byte number[3];              /* of operations ordered or executed in this epoch */
byte left[EPOCHS];           /* masks: members that have left the epoch */

chan up[EPOCHS * 3] = [CAP] of {byte, byte};          /* epoch of the sender, rank */
chan down[EPOCHS * 3] = [CAP] of {byte, byte};        /* epoch of the sender, number */
chan states[EPOCHS * 3] = [CAP] of {byte, byte};      /* commit, state */
chan arrivals = [6] of {byte, byte, byte, byte};      /* process, visit, epoch, commit */

/* ---- dabkerun. */
byte workers = 7;            /* processes of which it has no end */
byte written_off;
byte arrived;
byte arrived_visit[3];
byte arrived_commit[3];
byte current = 1;
byte members[EPOCHS];        /* the plans */
byte newest[EPOCHS];
byte holders[EPOCHS];
byte answer[3 * VISITS];

/* ---- For the assertions. */
byte reports[EPOCHS];        /* masks of members that have reported the next operation of this epoch */
byte orders[EPOCHS];
byte executed[EPOCHS];       /* masks of members that have executed the newest order */
byte before[EPOCHS];         /* the state in which it was executed */
byte kills = KILLS;
byte stops = STOPS;

hidden byte a; hidden byte b; hidden byte c; hidden byte d; hidden byte k;

/* The process executes the newest order of its epoch. */
inline execute(A_W) {
  assert(IN(MEMBERS(A_W), A_W) && number[A_W] < orders[epoch[A_W]]);
  number[A_W]++;
  assert(number[A_W] == orders[epoch[A_W]]);
  if
  :: executed[epoch[A_W]] == 0 -> before[epoch[A_W]] = state[A_W]
  :: else -> assert(before[epoch[A_W]] == state[A_W])
  fi;
  executed[epoch[A_W]] = executed[epoch[A_W]] | BIT(A_W);
  phase[A_W] = running
}

/* The root orders the operation if all have reported it. */
inline order_if_ready(A_W) {
  if
  :: got_reports[A_W] == (1 << COUNT(MEMBERS(A_W))) - 1 && phase[A_W] == waiting ->
    assert(reports[epoch[A_W]] == MEMBERS(A_W));
    reports[epoch[A_W]] = 0; got_reports[A_W] = 0; executed[epoch[A_W]] = 0;
    orders[epoch[A_W]]++;
    for (k : 0 .. 2) {
      if
      :: k != A_W && IN(MEMBERS(A_W), k) ->
        assert(len(down[LINK(epoch[A_W], k)]) < CAP);
        down[LINK(epoch[A_W], k)]!epoch[A_W], orders[epoch[A_W]]
      :: else -> skip
      fi
    };
    execute(A_W)
  :: else -> skip
  fi
}

/* The process leaves its epoch and comes to the meeting. */
inline come(A_W) {
  left[epoch[A_W]] = left[epoch[A_W]] | BIT(A_W);
  visit[A_W]++;
  assert(visit[A_W] < VISITS);
  got_reports[A_W] = 0; number[A_W] = 0;
  phase[A_W] = meeting;
  arrivals!A_W, visit[A_W], epoch[A_W], commit[A_W]
}

/* The process has its place in an epoch: who sends and who receives the state follows from the plan. */
inline sync(A_W) {
  assert(IN(holders[epoch[A_W]], A_W) == (commit[A_W] == newest[epoch[A_W]]));
  assert(commit[A_W] <= newest[epoch[A_W]]);
  if
  :: IN(holders[epoch[A_W]], A_W) && LOWEST(holders[epoch[A_W]]) == A_W ->
    for (k : 0 .. 2) {
      if
      :: IN(MEMBERS(A_W) & ~holders[epoch[A_W]], k) ->
        states[LINK(epoch[A_W], k)]!commit[A_W], state[A_W]
      :: else -> skip
      fi
    };
    phase[A_W] = reporting
#ifdef MISTAKE_IGNORES_ROSTER
  :: else -> phase[A_W] = reporting
#else
  :: IN(holders[epoch[A_W]], A_W) && LOWEST(holders[epoch[A_W]]) != A_W -> phase[A_W] = reporting
  :: else -> EVENT("a survivor lacks the newest commit"); phase[A_W] = syncing
#endif
  fi
}

proctype Rank(byte w) {
  mtype event;
end:
  do
  :: atomic {
    if
    :: RUNS(w) && phase[w] == reporting -> event = r_report
    :: RUNS(w) && phase[w] != meeting && ROOT(w) == w && len(up[LINK(epoch[w], w)]) != 0 -> event = r_take
    :: RUNS(w) && phase[w] == waiting && ROOT(w) != w && len(down[LINK(epoch[w], w)]) != 0 -> event = r_order
    :: RUNS(w) && phase[w] == running && executed[epoch[w]] == MEMBERS(w) -> event = r_end
    :: RUNS(w) && phase[w] == syncing && len(states[LINK(epoch[w], w)]) != 0 -> event = r_state
#ifndef MISTAKE_LOSS_UNNOTICED
    :: RUNS(w) && phase[w] != meeting && HAS_LOST(w) -> event = r_lost
#endif
    :: RUNS(w) && phase[w] == meeting && ANSWER(w, visit[w]) != 0 -> event = r_answer
    fi;
    d_step {
      printf("| process %d: %e, epoch %d, commit %d\n", w, event, epoch[w], commit[w]);
      if
      :: event == r_report ->
        reports[epoch[w]] = reports[epoch[w]] | BIT(w);
        phase[w] = waiting;
        if
        :: ROOT(w) == w -> got_reports[w] = got_reports[w] | 1; order_if_ready(w)
        :: else ->
          assert(len(up[LINK(epoch[w], ROOT(w))]) < CAP);
          up[LINK(epoch[w], ROOT(w))]!epoch[w], RANK(epoch[w], w)
        fi
      :: event == r_take ->
        up[LINK(epoch[w], w)]?a, b;
        assert(a == epoch[w]);
        got_reports[w] = got_reports[w] | BIT(b);
        order_if_ready(w)
      :: event == r_order ->
        down[LINK(epoch[w], w)]?a, b;
        assert(a == epoch[w] && b == orders[a]);
        execute(w)
      :: event == r_end ->
        commit[w]++; state[w] = (state[w] * 3 + MEMBERS(w)) % 251;
        if
        :: HAS_LOST(w) -> EVENT("an operation ends well though a rank is gone")
        :: else -> skip
        fi;
        if
        :: commit[w] == STEPS ->
          live = live & ~BIT(w); finished = finished | BIT(w);
          if
          :: epoch[w] > 1 && !IN(MEMBERS(w), 0) -> EVENT("the training ends without rank 0")
          :: else -> skip
          fi
        :: else -> phase[w] = reporting
        fi
      :: event == r_state -> states[LINK(epoch[w], w)]?commit[w], state[w]; phase[w] = reporting
      :: event == r_lost -> come(w)
      :: event == r_answer ->
        a = ANSWER(w, visit[w]);
        if
        :: a == WRITTEN_OFF ->
          EVENT("a process is told that it was written off");
          live = live & ~BIT(w); was_told = was_told | BIT(w)
        :: else -> epoch[w] = a; assert(IN(MEMBERS(w), w)); sync(w)
        fi
      fi;
      a = 0; b = 0; k = 0
    }
    event = 0
  }
  od
}

/* Membership::meet waits for all members whose processes live. */
#ifdef MISTAKE_OPENS_WITHOUT_THE_LATE
#define MAY_OPEN (arrived != 0 && (members[current] & ~workers) != 0)
#else
#define MAY_OPEN (arrived != 0 && (members[current] & workers) == arrived)
#endif

proctype Dabkerun() {
  mtype event;
  byte x;
end:
  do
  :: atomic {
    if
    :: len(arrivals) != 0 -> event = d_arrival
    :: IN(workers & ~live, 0) -> event = d_dead; x = 0
    :: IN(workers & ~live, 1) -> event = d_dead; x = 1
    :: IN(workers & ~live, 2) -> event = d_dead; x = 2
    :: IN(workers & live & asleep, 0) -> event = d_silent; x = 0
    :: IN(workers & live & asleep, 1) -> event = d_silent; x = 1
    :: IN(workers & live & asleep, 2) -> event = d_silent; x = 2
    :: MAY_OPEN -> event = d_open
    fi;
    d_step {
      printf("| dabkerun: %e %d\n", event, x);
      if
      :: event == d_arrival ->  /* Membership::take_arrival */
        arrivals?a, b, c, d;
        if
#ifdef MISTAKE_LETS_THE_WRITTEN_OFF_IN
        :: c == current ->
#else
        :: IN(workers, a) && c == current ->
#endif
          arrived = arrived | BIT(a); arrived_visit[a] = b; arrived_commit[a] = d
        :: else -> ANSWER(a, b) = WRITTEN_OFF
        fi
      :: event == d_dead || event == d_silent ->  /* Membership::take_end */
        if :: event == d_silent -> written_off = written_off | BIT(x) :: else -> skip fi;
        if
        :: IN(arrived, x) -> EVENT("a process is lost after it has come to the meeting")
        :: else -> skip
        fi;
        workers = workers & ~BIT(x); arrived = arrived & ~BIT(x)
      :: event == d_open ->  /* Membership::open */
        current++;
        assert(current < EPOCHS);
        members[current] = arrived;
        for (k : 0 .. 2) {
          if
          :: IN(arrived, k) && arrived_commit[k] > newest[current] -> newest[current] = arrived_commit[k]
          :: else -> skip
          fi
        };
        for (k : 0 .. 2) {
          if
          :: IN(arrived, k) ->
            if
            :: arrived_commit[k] == newest[current] -> holders[current] = holders[current] | BIT(k)
            :: else -> skip
            fi;
            ANSWER(k, arrived_visit[k]) = current
          :: else -> skip
          fi
        };
        if
        :: IN(members[current - 1] & ~arrived, 0) -> EVENT("an epoch begins without rank 0")
        :: else -> skip
        fi;
        if
        :: (arrived & ~live) != 0 -> EVENT("an epoch begins with a member that is dead")
        :: else -> skip
        fi;
        for (k : 0 .. 2) { arrived_visit[k] = 0; arrived_commit[k] = 0 };
        arrived = 0
      fi;
      a = 0; b = 0; c = 0; d = 0; k = 0
    }
    event = 0; x = 0
  }
  od
}

/* Kills, stops and wakes. */
proctype Nature() {
  mtype event;
  byte x;
end:
  do
  :: atomic {
    if
    :: kills != 0 && IN(live, 0) -> event = n_kill; x = 0
    :: kills != 0 && IN(live, 1) -> event = n_kill; x = 1
    :: kills != 0 && IN(live, 2) -> event = n_kill; x = 2
    :: stops != 0 && IN(live, 0) -> event = n_stop; x = 0
    :: stops != 0 && IN(live, 1) -> event = n_stop; x = 1
    :: stops != 0 && IN(live, 2) -> event = n_stop; x = 2
    :: kills != 0 -> kills = 0; goto end  /* nothing happens */
    :: stops != 0 -> stops = 0; goto end
    :: asleep != 0 -> event = n_wake
    :: (written_off & live & ~asleep) != 0 -> event = n_agent
    fi;
    d_step {
      printf("| %e %d\n", event, x);
      if
      :: event == n_kill ->
        kills = 0; live = live & ~BIT(x); killed = killed | BIT(x); asleep = asleep & ~BIT(x)
      :: event == n_stop -> stops = 0; asleep = BIT(x)
      :: event == n_wake ->
        if
        :: (asleep & written_off) != 0 -> EVENT("a process that was written off wakes")
        :: else -> EVENT("a process wakes before it is written off")
        fi;
        asleep = 0
      :: event == n_agent -> killed = killed | (written_off & live); live = live & ~written_off
      fi
    }
    event = 0; x = 0
  }
  od
}

init {
  atomic {
    members[1] = 7; holders[1] = 7;
    run Rank(0); run Rank(1); run Rank(2); run Dabkerun(); run Nature()
  }
  /* The judge runs only when nothing else can move. */
  timeout ->
  assert(live == 0 && (finished | killed | written_off) == 7 && (was_told & ~written_off) == 0);
  assert(finished != 0);
  EVENT("all end")
}
