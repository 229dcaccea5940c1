/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol of a shared send queue (device/nic/send_queue.h): reserve, write, hand over, ring for all, complete, wait.
 * Checked by spin in tests/model/check.sh, whole and with one piece taken out at a time.
 *
 *   safety    no slot is written before the NIC is done with it; the NIC executes nothing that is not written,
 *             each WQE once and in order; the doorbell record never goes back; quiet covers what its lane posted
 *   progress  every lane finishes: no lost doorbell, no full queue that waits for itself; what a batch holds back
 *             holds back nobody else's
 *
 * Lanes are few and the queue is tiny, so that every interleaving is looked at: indices pass the end of the queue several
 * times. Memory is sequentially consistent here but for one pair of stores: the doorbell may overtake its record (edge
 * M3). The NIC takes the count from the doorbell, or has lost that and takes it from the record. Weaker memory is the
 * simulator's business.
 *
 * LANES, POSTS of each and DEPTH are given on the command line. LATER: lane 0 posts in a batch, which stays open until
 * all others have been served; its quiet rings then. SURE_BELL: no doorbell is lost or overtakes its record.
 */
#define NOTHING 255

byte reserved, rung, completed; /* as in SendQueue */
byte published;                 /* `posted`, one word: its count, */
bit ringing, wanted;            /* and its flags */
bit ready[DEPTH];
byte record;           /* the doorbell record, in GPU memory */
byte bell;             /* the doorbell, a count; the NIC sleeps until it rings */
byte told;             /* up to where the NIC knows of work */
byte cqe;              /* what the NIC completed last: one more than its index */
byte executed;         /* how many WQEs the NIC has executed: it is done with all below */
byte slot[DEPTH] = NOTHING;
byte finished;

/* device/nic/completion.h: look */
inline poll() { atomic { if :: cqe > completed -> completed = cqe :: else fi } }

/* The record first; but the register's store may arrive before it. Behind a fence it is stored again: ring_twice. */
inline tell_nic(count) {
  assert(count >= record);
  rung = count;
#ifdef SURE_BELL
  atomic { record = count; bell = count }
#else
  if
  :: record = count; bell = count
  :: bell = count; record = count
  fi;
#ifndef NO_SECOND_BELL
  bell = count
#else
  skip
#endif
#endif
}

/* Takes `posted`: `busy` if somebody else has it. */
inline take(wants) {
  atomic { busy = ringing; ringing = 1; end = published; wanted_before = wanted; wanted = wanted || wants }
}

/* serve: who has taken `posted` rings for all, up to `end` and further. */
inline serve() {
  do
  ::
#ifndef WANTED_LATE
     atomic { published = end; wanted = 0 };
#endif
     do
#ifdef CLEAR_LATE
     :: atomic { ready[end % DEPTH] && cleared == NOTHING -> cleared = end; end++ }
     :: !ready[end % DEPTH] || cleared != NOTHING -> break
#else
     :: atomic { ready[end % DEPTH] -> ready[end % DEPTH] = 0; end++ }
     :: !ready[end % DEPTH] -> break
#endif
     od;
#ifdef WANTED_LATE
     atomic { published = end; wanted = 0 };
#endif
     if
     :: end != rung ->
        tell_nic(end);
#ifdef CLEAR_LATE
        if :: cleared != NOTHING -> ready[cleared % DEPTH] = 0; cleared = NOTHING :: else fi
#endif
     :: else ->
#ifndef NONE_LEFT
        left = (reserved != end);
#endif
#ifdef NO_SECOND_LOOK
        atomic { published = end; ringing = 0; wanted = left };
        break
#else
        if
        :: atomic { !wanted -> ringing = 0; wanted = left; left = 0 }; break
        :: atomic { wanted -> left = 0 }
        fi
#endif
     fi
  od
}

inline ring() {
  take(1);
  if :: busy :: else -> serve() fi
}

/* A lane that comes alone publishes and rings; others leave their word to who does. */
inline hand_over(later) {
  take(0);
  if
#ifdef NO_ORDER
  :: !busy ->
#else
  :: !busy && end == mine && !wanted_before ->
#endif
     if :: later :: else -> tell_nic(mine + 1) fi;
     if
     :: atomic { !wanted -> published = mine + 1; ringing = 0 }
     :: atomic { wanted -> end = mine + 1 }; serve()
     fi
#ifndef NO_ORDER
  :: !busy && end == mine && wanted_before -> end++; serve()
  :: !busy && end != mine -> ready[mine % DEPTH] = 1; serve()
#endif
  :: busy ->
#ifdef READY_LATE
     take(1);
     ready[mine % DEPTH] = 1;
#else
     ready[mine % DEPTH] = 1;
     take(1);
#endif
     if :: busy :: else -> serve() fi
  fi;
  atomic { end = 0; busy = 0; wanted_before = 0 }
}

inline reserve() { atomic { mine = reserved; reserved++ } }

inline wait_for_room() {
#ifdef NO_ROOM_CHECK
  skip
#else
  do
  :: mine + 1 - completed <= DEPTH -> break
  :: mine + 1 - completed > DEPTH -> poll(); if :: rung < mine -> ring() :: else fi
  od
#endif
}

/* For what was reserved when it began; rings what is held back. */
inline quiet() {
  last = reserved;
#ifdef QUIET_OF_PUBLISHED
  last = published;
#endif
  do
  :: completed >= last -> break
  :: completed < last -> poll();
#ifdef LATER
     if :: rung < last && !ringing && (rung != published || ready[published % DEPTH]) -> ring() :: else fi
#endif
  od
}

active [LANES] proctype lane() {
  byte mine, end, last, posts;
  bit busy, left, wanted_before;
#ifdef CLEAR_LATE
  byte cleared = NOTHING;
#endif
  do
  :: posts < POSTS ->
     reserve();
     wait_for_room();
     atomic {
       assert(mine < executed + DEPTH); /* or a WQE is overwritten while the NIC may still read it */
       slot[mine % DEPTH] = mine
     };
#ifdef NO_RING
     hand_over(1);
#else
#ifdef LATER
     if :: _pid == 0 -> hand_over(1) :: else -> hand_over(0) fi;
#else
     hand_over(0);
#endif
#endif
     posts++
  :: posts == POSTS -> break
  od;
#ifdef LATER
  if
  :: _pid == 0 -> finished >= LANES - 1; /* the batch stays open until all others have been served */
  :: else
  fi;
#endif
  quiet();
  assert(executed >= last && executed > mine);
  finished++
}

active proctype nic() {
end:
  do
  :: bell ->
     if
     :: atomic { told = bell; bell = 0 }
#ifndef SURE_BELL
     :: bell = 0; told = record /* the doorbell is lost, but for that there was one */
#endif
     fi;
     do
     :: executed < told ->
        d_step {
          assert(slot[executed % DEPTH] == executed); /* or it executes what nobody has written */
          executed++
        };
        cqe = executed
     :: executed >= told -> break
     od
  od
}

ltl all_finish { <> (finished == LANES) }
