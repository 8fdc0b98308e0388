/* The membership and recovery protocol of docs/design/elastic.md, for 2 to 4 workers.
 *
 * Checked: a step that any worker committed, also one that was lost right afterwards, is never lost nor repeated, and
 * no worker commits it with a different gradient (no divergence); no two memberships train at once; and wherever
 * the rules allow a connected set of workers to continue, it reaches the last step.
 *
 * A history is a number with one digit per step: the forming in which the step's gradient was reduced. Two workers
 * with equal histories have equal weights. Sets of workers and of formings are bit masks. A message is a flag that
 * its receiver may see later or, after a cut, never; a worker that crashed may still be heard, because bytes are under
 * way. elastic_test.py gives the bounds, and the mutations (names MUTATE_*) that must be found.
 */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef FORMINGS
#define FORMINGS 4
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef CUTS
#define CUTS 0 /* between two workers, in one direction */
#endif
#ifndef SPLITS
#define SPLITS 0 /* between a set of workers and the others */
#endif
#ifndef BLINDS
#define BLINDS 0 /* workers that lose the witness for good, one by one */
#endif

#define MOST 4 /* workers; those beyond WORKERS are in no set */
#define BIT(i) (1 << (i))
#define HAS(set, i) (((set) >> (i)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3))
#define LOWEST(set) ((set) & -(set))
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define SLOT(f, n) ((f) * (STEPS + 1) + (n))
#define SLOTS (FORMINGS * (STEPS + 1))
#define APPENDED(history, f) ((history) * 8 + (f) + 1)

#define TRAINS 0  /* takes steps in the membership formed[i] */
#define FORMS 1   /* looks for a new membership, or waits for the outcome of forming waits[i] */
#define SETTLES 2 /* in the new membership, before its first step */

/* Workers. */
byte phase[MOST];
byte formed[MOST];   /* the newest membership that this worker knows to be formed */
byte attempts[MOST]; /* formings it accepted since, whose outcome it does not know */
byte aborted[MOST];  /* formings it knows to have failed */
byte waits[MOST];    /* the forming it takes part in; 0: none */
byte step[MOST];     /* committed steps */
short history[MOST];
byte buffer[MOST];   /* 1 + forming in which the next step's gradient was reduced; 0: not reduced */
bit started[MOST];   /* the next step */
byte stateless;      /* workers that were admitted and have not received the state yet */

/* The world. */
byte crashed, stopped;
byte proven;    /* crashed workers whose launcher or agent has said so */
byte cut[MOST]; /* messages of worker i to these do not arrive */

/* Formings; 0 is the first, which is formed. */
byte formings = 1;
byte members[FORMINGS];
byte joiners[FORMINGS]; /* members without a state of their own */
byte added[FORMINGS];   /* members that it added, which have no vote on what follows it */
byte host[FORMINGS];
byte accepted[FORMINGS];
bit declared[FORMINGS];
byte published[FORMINGS]; /* members that sent their position */
byte newest[FORMINGS];    /* the highest committed step among the positions */
short newest_history[FORMINGS];
byte holding[FORMINGS];   /* members that published a reduced gradient of the step after their last one */
bit witnessed[FORMINGS];  /* the witness breaks ties of this membership, otherwise its lowest rank */
byte granted[FORMINGS];   /* by the witness: the half that may continue; 0: none yet */
byte blind;               /* workers that have lost the witness */

/* Messages of a step: addends of the gradient, and contributions to its agreement. */
byte addends[SLOTS];
byte votes[SLOTS];

/* For the checks only. */
byte in_addends[SLOTS]; /* as addends and votes, by the forming of their sender */
byte in_votes[SLOTS];
short decided[STEPS + 1]; /* the history up to a step that a worker has committed; 0: none has */

#define UP(i) (!HAS(crashed | stopped, i))
#define ARRIVES(i, j) (!HAS(cut[i], j))
#define LINKED(i, j) ((i) == (j) || (UP(i) && UP(j) && ARRIVES(i, j) && ARRIVES(j, i)))

/* The rule of succession: may the workers `s` succeed membership f? `d` are workers whose end is proven: they no longer
 * count as members, and what they had accepted is known from the proof. */
#define VOTERS(f) (members[f] & ~added[f])
#define LEFT(f, d) ((VOTERS(f) & ~(d)) != 0 -> (VOTERS(f) & ~(d)) : (members[f] & ~(d)))
#define HERE(s, f, d) COUNT((s) & LEFT(f, d))
#define HAS_LOWEST(s, f, d) (((s) & LOWEST(LEFT(f, d))) != 0)
#ifdef WITNESS
#define HALF(s, f, d) ((s) & LEFT(f, d))
#define HOST_OF(s) LOWEST((s) & ~stateless)
#define SEES_WITNESS(s) ((HOST_OF(s) & blind) == 0)
#define GRANTED(s, f, d) (granted[f] == HALF(s, f, d) || (granted[f] == 0 && SEES_WITNESS(s)))
#ifdef MUTATE_LOWEST_WITHOUT_WITNESS
#define TIE(s, f, d) \
  (witnessed[f] && SEES_WITNESS(s) -> GRANTED(s, f, d) : HAS_LOWEST(s, f, d))
#else
#define TIE(s, f, d) (witnessed[f] -> GRANTED(s, f, d) : HAS_LOWEST(s, f, d))
#endif
#else
#define TIE(s, f, d) HAS_LOWEST(s, f, d)
#endif
#define IS_TIE(s, f, d) (2 * HERE(s, f, d) == COUNT(LEFT(f, d)))
#ifdef MUTATE_NO_TIE_BREAK
#define QUORUM(s, f, d) (2 * HERE(s, f, d) >= COUNT(LEFT(f, d)))
#else
#define QUORUM(s, f, d) \
  (2 * HERE(s, f, d) > COUNT(LEFT(f, d)) || (IS_TIE(s, f, d) && LEFT(f, d) != 0 && TIE(s, f, d)))
#endif

#define FORMED_OF(s, i) (HAS(s, i) -> formed[i] : 0)
#define BASE(s) MAX(MAX(FORMED_OF(s, 0), FORMED_OF(s, 1)), MAX(FORMED_OF(s, 2), FORMED_OF(s, 3)))
#define ATTEMPTS_OF(s, i) (HAS(s, i) -> attempts[i] : 0)
#define ABORTED_OF(s, i) (HAS(s, i) -> aborted[i] : 0)
#define OPEN(s) \
  ((ATTEMPTS_OF(s, 0) | ATTEMPTS_OF(s, 1) | ATTEMPTS_OF(s, 2) | ATTEMPTS_OF(s, 3)) & \
   ~(ABORTED_OF(s, 0) | ABORTED_OF(s, 1) | ABORTED_OF(s, 2) | ABORTED_OF(s, 3)))
#ifdef MUTATE_PROOF_WITHOUT_RECORD
#define KNOWN(s, d) (s)
#else
#define KNOWN(s, d) ((s) | (d))
#endif
#ifdef MUTATE_FORGET_ATTEMPTS
#define BOUND_BY(k, f) (BASE(k) == (f))
#else
#define BOUND_BY(k, f) (BASE(k) == (f) || (BASE(k) < (f) && HAS(OPEN(k), f)))
#endif
#define PASSES(s, f, d) ((f) >= formings || !BOUND_BY(KNOWN(s, d), f) || QUORUM(s, f, d))
#if FORMINGS > 6
#error "at most six formings"
#elif FORMINGS > 5
#define PASSES_REST(s, d) (PASSES(s, 4, d) && PASSES(s, 5, d))
#elif FORMINGS > 4
#define PASSES_REST(s, d) PASSES(s, 4, d)
#else
#define PASSES_REST(s, d) true
#endif
#ifdef MUTATE_CURRENT_MAJORITY
/* A majority of the workers that are there now, instead of those of the last membership. */
#define MAY_SUCCEED(s, d) (COUNT(s) >= 1)
#else
#define MAY_SUCCEED(s, d) \
  (((s) & ~members[BASE(KNOWN(s, d))]) == 0 && ((s) & ~stateless) != 0 && \
   PASSES(s, 0, d) && PASSES(s, 1, d) && PASSES(s, 2, d) && PASSES(s, 3, d) && PASSES_REST(s, d))
#endif

#define PAIR(s, i, j) (!HAS(s, i) || !HAS(s, j) || LINKED(i, j))
#define CONNECTED(s) \
  (PAIR(s, 0, 1) && PAIR(s, 0, 2) && PAIR(s, 0, 3) && PAIR(s, 1, 2) && PAIR(s, 1, 3) && PAIR(s, 2, 3))

#define READY(i) (UP(i) && phase[i] == FORMS && waits[i] == 0)
#define ALL_READY(s) \
  ((!HAS(s, 0) || READY(0)) && (!HAS(s, 1) || READY(1)) && (!HAS(s, 2) || READY(2)) && (!HAS(s, 3) || READY(3)))
/* No worker is left out that is ready and could take part: one that belongs to the base. */
#define COULD_JOIN(s, i, base) \
  (BIT(i) < BIT(WORKERS) && !HAS(s, i) && READY(i) && HAS(members[base], i) && formed[i] <= base && \
   CONNECTED((s) | BIT(i)))
#define LARGEST(s, base) \
  (!COULD_JOIN(s, 0, base) && !COULD_JOIN(s, 1, base) && !COULD_JOIN(s, 2, base) && !COULD_JOIN(s, 3, base))

#define INDEX_OF_LOWEST(s) (HAS(s, 0) -> 0 : (HAS(s, 1) -> 1 : (HAS(s, 2) -> 2 : 3)))

#ifdef WITNESS
#define ASKS_ABOUT(s, f, d) \
  ((f) < formings && witnessed[f] && BOUND_BY(KNOWN(s, d), f) && IS_TIE(s, f, d) && LEFT(f, d) != 0)
#endif

inline ask_witness(s, f, d) {
#ifdef WITNESS
  if
  :: ASKS_ABOUT(s, f, d) -> granted[f] = HALF(s, f, d)
  :: else
  fi
#else
  skip
#endif
}

inline wait_for(s, i) {
  if
  :: HAS(s, i) -> waits[i] = formings; phase[i] = FORMS
  :: else
  fi
}

/* The host proposes the workers s; all of them follow it from now on. */
inline propose(s, joining) {
  members[formings] = s;
  stateless = stateless | (joining);
  joiners[formings] = stateless & (s);
  added[formings] = joining;
#ifdef WITNESS
  witnessed[formings] = (((s) & blind) == 0);
#endif
  host[formings] = INDEX_OF_LOWEST((s) & ~stateless);
  accepted[formings] = BIT(host[formings]);
  attempts[host[formings]] = attempts[host[formings]] | BIT(formings);
  wait_for(s, 0);
  wait_for(s, 1);
  wait_for(s, 2);
  wait_for(s, 3);
  formings++
}

#define CAN_PROPOSE(s, d) \
  (formings < FORMINGS && (s) < BIT(WORKERS) && ALL_READY(s) && CONNECTED(s) && MAY_SUCCEED(s, d) && \
   LARGEST(s, BASE(KNOWN(s, d))))
#define PROPOSE_BY(s, d) \
  :: d_step { \
    CAN_PROPOSE(s, d) -> \
    ask_witness(s, 0, d); ask_witness(s, 1, d); ask_witness(s, 2, d); ask_witness(s, 3, d); \
    propose(s, 0) \
  }
/* Some time before that, if ever: the host asks as soon as half of a membership is there. */
#ifdef WITNESS
#define MAY_ASK(s, f, d) \
  (ASKS_ABOUT(s, f, d) && granted[f] == 0 && (s) < BIT(WORKERS) && ALL_READY(s) && CONNECTED(s) && SEES_WITNESS(s))
#define ASK_ABOUT(s, f, d) :: d_step { MAY_ASK(s, f, d) -> granted[f] = HALF(s, f, d) }
#define ASK(s, d) ASK_ABOUT(s, 0, d) ASK_ABOUT(s, 1, d) ASK_ABOUT(s, 2, d) ASK_ABOUT(s, 3, d)
#else
#define ASK(s, d)
#endif
#ifdef PROOFS
#define PROPOSE(s) ASK(s, 0) ASK(s, proven) PROPOSE_BY(s, 0) PROPOSE_BY(s, proven)
#else
#define PROPOSE(s) ASK(s, 0) PROPOSE_BY(s, 0)
#endif

/* Between two steps of membership g, all of its members admit a worker that it lost before. */
#define AT_BOUNDARY(g, i) (!HAS(members[g], i) || (phase[i] == TRAINS && formed[i] == (g) && !started[i]))
#define CAN_ADMIT(g, x) \
  (formings < FORMINGS && (g) < formings && members[g] != 0 && !HAS(members[g], x) && READY(x) && \
   formed[x] < (g) && AT_BOUNDARY(g, 0) && AT_BOUNDARY(g, 1) && AT_BOUNDARY(g, 2) && AT_BOUNDARY(g, 3) && \
   CONNECTED(members[g] | BIT(x)) && SAME_STEP(g))
#define STEP_OF(g, i) (HAS(members[g], i) -> step[i] : step[INDEX_OF_LOWEST(members[g])])
#define SAME_STEP(g) \
  (STEP_OF(g, 0) == STEP_OF(g, 1) && STEP_OF(g, 1) == STEP_OF(g, 2) && STEP_OF(g, 2) == STEP_OF(g, 3))
#define ADMIT(g, x) :: d_step { CAN_ADMIT(g, x) -> propose(members[g] | BIT(x), BIT(x)) }
#define ADMIT_TO(g) ADMIT(g, 0) ADMIT(g, 1) ADMIT(g, 2) ADMIT(g, 3)

active proctype Succession() {
end:
  do
  PROPOSE(1) PROPOSE(2) PROPOSE(3)
#if WORKERS > 2
  PROPOSE(4) PROPOSE(5) PROPOSE(6) PROPOSE(7)
#endif
#if WORKERS > 3
  PROPOSE(8) PROPOSE(9) PROPOSE(10) PROPOSE(11) PROPOSE(12) PROPOSE(13) PROPOSE(14) PROPOSE(15)
#endif
#ifdef JOINS
  ADMIT_TO(1) ADMIT_TO(2)
#endif
  od
}

/* Worker j still belongs to forming f as far as its connections show. */
#define IN(j, f) ((formed[j] == (f) && phase[j] != FORMS) || ((f) != 0 && waits[j] == (f)))
#define BROKEN(i, j, f) (HAS(members[f], j) && (j) != (i) && (!LINKED(i, j) || !IN(j, f)))
#define ANY_BROKEN(i, f) (BROKEN(i, 0, f) || BROKEN(i, 1, f) || BROKEN(i, 2, f) || BROKEN(i, 3, f))
/* Messages of all members of f reach worker i. */
#define HEARD(j, i, f) (!HAS(members[f], j) || ARRIVES(j, i))
#define ALL_HEARD(i, f) (HEARD(0, i, f) && HEARD(1, i, f) && HEARD(2, i, f) && HEARD(3, i, f))

#ifdef MUTATE_NO_FENCE
#define MESSAGES(i) SLOT(0, step[i] + 1) /* not bound to their forming */
#else
#define MESSAGES(i) SLOT(formed[i], step[i] + 1)
#endif
#define FROM_ALL(set, i) (((set) & members[formed[i]]) == members[formed[i]] && ALL_HEARD(i, formed[i]))
#define ADD(set, i) set = (set) | BIT(i)
#ifdef MUTATE_VOTE_FIRST
#define MAY_COMMIT(i) true
#else
#define MAY_COMMIT(i) (buffer[i] == formed[i] + 1)
#endif

/* Worker i has committed its newest step. */
inline check_commit(i) {
  assert(decided[step[i]] == 0 || decided[step[i]] == history[i]);
  decided[step[i]] = history[i]
}

#define ACTIVE_IN(f, i) (!HAS(members[f], i) || (formed[i] == (f) && phase[i] == TRAINS && !HAS(crashed, i)))
#define ACTIVE(f) \
  ((f) < formings && ACTIVE_IN(f, 0) && ACTIVE_IN(f, 1) && ACTIVE_IN(f, 2) && ACTIVE_IN(f, 3))
#if FORMINGS > 5
#define ACTIVE_REST (ACTIVE(4) + ACTIVE(5))
#elif FORMINGS > 4
#define ACTIVE_REST ACTIVE(4)
#else
#define ACTIVE_REST 0
#endif

/* The step to continue from: the highest committed one, or the one after it if all members hold its reduced gradient,
 * because a worker that is lost may have committed it. */
#define ROLLS_FORWARD(i, f) ((HOLDS_NEXT(f) && step[i] == newest[f]) || step[i] + 1 == newest[f])
#ifdef MUTATE_REDO
#define HOLDS_NEXT(f) false
#else
#define HOLDS_NEXT(f) (((holding[f] | joiners[f]) & members[f]) == members[f])
#endif

inline apply_buffer(i) {
  assert(buffer[i] != 0);
  step[i]++;
  history[i] = APPENDED(history[i], buffer[i] - 1);
  buffer[i] = 0;
  check_commit(i)
}

inline settle(i) {
  if
  :: HAS(joiners[formed[i]], i) -> /* the whole state is sent to it */
#ifdef MUTATE_KEEP_STATE
    skip
#else
    step[i] = newest[formed[i]];
    history[i] = newest_history[formed[i]]
#endif
  :: else ->
    if
#ifndef MUTATE_NO_SETTLING
    :: ROLLS_FORWARD(i, formed[i]) -> apply_buffer(i)
#endif
    :: else
    fi
  fi;
  stateless = stateless & ~BIT(i);
  buffer[i] = 0;
  started[i] = 0;
  phase[i] = TRAINS;
  one_trains = (ACTIVE(0) + ACTIVE(1) + ACTIVE(2) + ACTIVE(3) + ACTIVE_REST <= 1);
  assert(one_trains)
}

proctype Worker(byte i) {
  bool one_trains;
end:
  do
  /* A step: addends leave, the gradient is reduced, all ranks agree, the update follows. */
  :: d_step { UP(i) && phase[i] == TRAINS && !started[i] && step[i] < STEPS ->
       started[i] = 1;
       buffer[i] = 0;
       ADD(addends[MESSAGES(i)], i);
       ADD(in_addends[SLOT(formed[i], step[i] + 1)], i)
#ifdef MUTATE_VOTE_FIRST
       ;
       ADD(votes[MESSAGES(i)], i);
       ADD(in_votes[SLOT(formed[i], step[i] + 1)], i)
#endif
     }
  :: d_step { UP(i) && phase[i] == TRAINS && started[i] && buffer[i] == 0 &&
       FROM_ALL(addends[MESSAGES(i)], i) ->
       assert(in_addends[SLOT(formed[i], step[i] + 1)] == members[formed[i]]);
       buffer[i] = formed[i] + 1;
       ADD(votes[MESSAGES(i)], i);
       ADD(in_votes[SLOT(formed[i], step[i] + 1)], i)
     }
  :: d_step { UP(i) && phase[i] == TRAINS && started[i] && MAY_COMMIT(i) &&
       FROM_ALL(votes[MESSAGES(i)], i) ->
       assert(in_votes[SLOT(formed[i], step[i] + 1)] == members[formed[i]]);
       step[i]++;
       history[i] = APPENDED(history[i], formed[i]);
       started[i] = 0;
       buffer[i] = 0;
       check_commit(i)
     }

  /* A loss is noticed: the group is closed. */
  :: d_step { UP(i) && phase[i] != FORMS && ANY_BROKEN(i, formed[i]) -> phase[i] = FORMS }
#if BLINDS > 0
  /* So is the witness: those who are there form the next membership with the lowest rank in its place. */
  :: d_step { UP(i) && phase[i] != FORMS && witnessed[formed[i]] && HAS(blind, i) && formings < FORMINGS ->
       phase[i] = FORMS
     }
#endif

  /* Forming waits[i]. */
  :: d_step { UP(i) && waits[i] != 0 && !HAS(accepted[waits[i]], i) && ARRIVES(host[waits[i]], i) ->
       ADD(accepted[waits[i]], i);
       attempts[i] = attempts[i] | BIT(waits[i])
     }
  :: d_step { UP(i) && waits[i] != 0 && host[waits[i]] == i &&
       accepted[waits[i]] == members[waits[i]] && ALL_HEARD(i, waits[i]) ->
       declared[waits[i]] = 1;
       formed[i] = waits[i];
       attempts[i] = 0;
       waits[i] = 0;
       phase[i] = SETTLES
     }
  :: d_step { UP(i) && waits[i] != 0 && declared[waits[i]] && ARRIVES(host[waits[i]], i) ->
       formed[i] = waits[i];
       attempts[i] = 0;
       waits[i] = 0;
       phase[i] = SETTLES
     }
  /* The host gives up before it has declared the forming: it can never be formed. */
  :: d_step { UP(i) && waits[i] != 0 && host[waits[i]] == i && ANY_BROKEN(i, waits[i]) ->
       attempts[i] = attempts[i] & ~BIT(waits[i]);
       aborted[i] = aborted[i] | BIT(waits[i]);
       waits[i] = 0
     }
#ifndef MUTATE_WAIT_FOR_HOST
  /* Others hear of it, or lose the host and do not know. */
  :: d_step { UP(i) && waits[i] != 0 && host[waits[i]] != i &&
       (!LINKED(i, host[waits[i]]) || !IN(host[waits[i]], waits[i])) ->
       if
       :: LINKED(i, host[waits[i]]) && HAS(aborted[host[waits[i]]], waits[i]) ->
         attempts[i] = attempts[i] & ~BIT(waits[i])
       :: else
       fi;
       waits[i] = 0
     }
#endif

  /* Positions are exchanged, and the highest committed step wins. */
  :: d_step { UP(i) && phase[i] == SETTLES && !HAS(published[formed[i]], i) ->
       ADD(published[formed[i]], i);
       if
       :: !HAS(joiners[formed[i]], i) &&
          (step[i] > newest[formed[i]] || newest_history[formed[i]] == 0) ->
         newest[formed[i]] = step[i];
         newest_history[formed[i]] = history[i]
       :: else
       fi;
       if
       :: buffer[i] != 0 -> ADD(holding[formed[i]], i)
       :: else
       fi
     }
  :: d_step { UP(i) && phase[i] == SETTLES && published[formed[i]] == members[formed[i]] && ALL_HEARD(i, formed[i]) ->
       settle(i)
     }
  od
}

/* Faults at any moment: a crash, a stop and the end of a stop, cuts and their end. */
#define CRASH(i) :: d_step { crashes > 0 && i < WORKERS && !HAS(crashed, i) -> crashes--; crashed = crashed | BIT(i) }
#define STOP(i) :: d_step { stops > 0 && i < WORKERS && UP(i) -> stops--; stopped = stopped | BIT(i) }
#define BLIND(i) :: d_step { blinds > 0 && i < WORKERS && !HAS(blind, i) -> blinds--; blind = blind | BIT(i) }
#define CONTINUE(i) :: d_step { HAS(stopped, i) -> stopped = stopped & ~BIT(i) }
#define CUT(i, j) \
  :: d_step { cuts > 0 && i < WORKERS && j < WORKERS && !HAS(cut[i], j) -> cuts--; cut[i] = cut[i] | BIT(j) }

#define SPLIT_FROM(s, i) cut[i] = cut[i] | (HAS(s, i) -> ~(s) : (s))
#define SPLIT(s) \
  :: d_step { splits > 0 && (s) < BIT(WORKERS) - 1 -> \
       splits--; SPLIT_FROM(s, 0); SPLIT_FROM(s, 1); SPLIT_FROM(s, 2); SPLIT_FROM(s, 3) }

active proctype Faults() {
  byte crashes = CRASHES;
  byte stops = STOPS;
  byte cuts = CUTS;
  byte splits = SPLITS;
  byte blinds = BLINDS;
  do
  CRASH(0) CRASH(1) CRASH(2) CRASH(3)
#ifdef PROOFS
  :: d_step { proven != crashed -> proven = crashed }
#endif
#if STOPS > 0
  STOP(0) STOP(1) STOP(2) STOP(3)
  CONTINUE(0) CONTINUE(1) CONTINUE(2) CONTINUE(3)
#endif
#if CUTS > 0
  CUT(0, 1) CUT(0, 2) CUT(0, 3) CUT(1, 0) CUT(1, 2) CUT(1, 3)
  CUT(2, 0) CUT(2, 1) CUT(2, 3) CUT(3, 0) CUT(3, 1) CUT(3, 2)
#endif
#if SPLITS > 0
  SPLIT(1) SPLIT(3) SPLIT(5) SPLIT(7) SPLIT(9) SPLIT(11) SPLIT(13) /* each set holds worker 0 */
#endif
#if BLINDS > 0
  BLIND(0) BLIND(1) BLIND(2) BLIND(3)
#endif
#ifdef MUTATE_FORGETFUL_WITNESS
  :: d_step { granted[0] != 0 -> granted[0] = 0 }
#endif
#ifdef HEALS
  :: d_step { (cut[0] | cut[1] | cut[2] | cut[3]) != 0 -> cut[0] = 0; cut[1] = 0; cut[2] = 0; cut[3] = 0 }
#endif
  :: break /* no more faults */
  od
}

/* When nothing can happen any more: a set that may continue has reached the last step. */
#define AT_END(s, i) (!HAS(s, i) || step[i] == STEPS)
#define ALL_UP(s) (((s) & (crashed | stopped)) == 0)
#define REACHED(s) \
  ((s) >= BIT(WORKERS) || !ALL_UP(s) || !CONNECTED(s) || !MAY_SUCCEED(s, proven) || \
   (AT_END(s, 0) && AT_END(s, 1) && AT_END(s, 2) && AT_END(s, 3)))

active proctype Progress() {
  bool reached = true;
end: /* at the bound of formings nothing can be said */
  (timeout && formings < FORMINGS) ->
    d_step {
      reached = REACHED(1) && REACHED(2) && REACHED(3);
#if WORKERS > 2
      reached = reached && REACHED(4) && REACHED(5) && REACHED(6) && REACHED(7);
#endif
#if WORKERS > 3
      reached = reached && REACHED(8) && REACHED(9) && REACHED(10) && REACHED(11);
      reached = reached && REACHED(12) && REACHED(13) && REACHED(14) && REACHED(15);
#endif
      assert(reached)
    }
}

init {
  atomic {
    members[0] = BIT(WORKERS) - 1;
    declared[0] = 1;
#ifdef WITNESS
    witnessed[0] = 1;
#endif
    run Worker(0);
    run Worker(1);
#if WORKERS > 2
    run Worker(2);
#endif
#if WORKERS > 3
    run Worker(3)
#endif
  }
}
