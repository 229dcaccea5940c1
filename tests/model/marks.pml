/* SPDX-License-Identifier: Apache-2.0
 *
 * The mark of one send queue (device/nic/mark.h): posts that set it, quiets that go by it and take it off. Checked by
 * spin in tests/model/check.sh, whole and with one piece taken out at a time.
 *
 *   safety    a quiet covers what its lane posted before, marked or not
 *   progress  every lane finishes: who marks does not wait for ever
 *
 * Work is published in order, by anybody, and complete when the NIC says so, at any time after that. Reservation, flags and exchange are one
 * word, so each of their steps is atomic. Memory is sequentially consistent: weaker memory is the simulator's business.
 */
/* LANES and POSTS of each are given on the command line. */
byte reserved, published, completed;
bit written[LANES * POSTS]; /* by those who have left it to others to publish: hand_over.h */
bit unmarked = 1; /* flags of `reserved` */
bit unmarking;
bit mark;
byte finished;

inline set_mark() {
#ifndef NO_WAIT
  !unmarking;
#endif
  mark = 1
}

inline post() {
  atomic { mine = reserved; flagged = unmarked || unmarking; reserved++ }
#ifdef MARK_LATE
  if :: flagged -> unmarked = 0 :: else fi;
#else
  if :: flagged -> set_mark(); unmarked = 0 :: else fi;
#endif
  written[mine] = 1;
#ifdef MARK_LATE
  if :: flagged -> set_mark() :: else fi
#else
  skip
#endif
}

/* All that is reserved is published and complete: unless somebody has reserved since, the mark goes off. */
inline unmark() {
  seen = published;
  if
  :: completed < seen -> skip
  :: else ->
#ifdef NO_EXCHANGE
     atomic { unmarked = 1; unmarking = 1; took = 1 };
#else
     atomic { took = (reserved == seen && !unmarking); if :: took -> unmarked = 1; unmarking = 1 :: else fi };
#endif
     if :: took -> mark = 0; unmarking = 0 :: else fi
  fi
}

inline quiet() {
  if
  :: !mark
  :: mark ->
#ifdef QUIET_OF_PUBLISHED
     seen = published;
#else
     seen = reserved;
#endif
     completed >= seen;
     if :: unmark() :: skip fi
  fi
}

active [LANES] proctype lane() {
  byte mine, seen, posts;
  bit flagged, took;
  do
  :: posts < POSTS ->
     post();
     posts++;
     if
     :: quiet(); assert(completed > mine)
     :: skip
     fi
  :: posts == POSTS -> break
  od;
  quiet();
  assert(completed > mine);
  finished++
}

active proctype nic() {
end:
  do
  :: completed < published -> completed++
  :: atomic { published < LANES * POSTS && written[published] -> published++ } /* by who rings */
  od
}

ltl all_finish { <> (finished == LANES) }
