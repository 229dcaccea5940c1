/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol of a shared send queue (device/nic/send_queue.h): reserve, write, publish, ring, complete, wait.
 * Checked by spin in tests/model/check.sh, whole and with one piece taken out at a time.
 *
 *   safety    no slot is written before the NIC is done with it; the NIC executes nothing that is not written,
 *             each WQE once and in order; the doorbell record never goes back
 *   progress  every lane finishes: no lost doorbell, no full queue that waits for itself
 *
 * Lanes are few and the queue is tiny, so that every interleaving is looked at: indices pass the end of the queue several
 * times. Memory is sequentially consistent here but for one pair of stores: the doorbell may overtake its record (edge
 * M3). The NIC takes the count from the doorbell, or has lost that and takes it from the record. Weaker memory is the
 * simulator's business.
 */
/* LANES, POSTS of each and DEPTH are given on the command line. */
#define NOTHING 255

byte reserved, published, rung, completed; /* as in SendQueue */
bit ring_lock;
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
  if
  :: record = count; bell = count
  :: bell = count; record = count
  fi;
#ifndef NO_SECOND_BELL
  bell = count
#else
  skip
#endif
}

/* device/nic/send_queue.h: ring. Whoever finds the lock taken may leave: its holder looks again. */
inline ring() {
  do
  :: atomic { busy = ring_lock; ring_lock = 1 }
     if :: busy -> break :: else fi;
     seen = published;
     if
     :: seen != rung -> rung = seen; tell_nic(seen)
     :: else
     fi;
     ring_lock = 0;
#ifdef NO_SECOND_LOOK
     break
#else
     if :: published == seen -> break :: else fi
#endif
  od
}

inline reserve() { atomic { mine = reserved; reserved++ } }

inline wait_for_room() {
#ifdef NO_ROOM_CHECK
  skip
#else
  do
  :: mine + 1 - completed <= DEPTH -> break
  :: mine + 1 - completed > DEPTH -> poll(); ring()
  od
#endif
}

inline publish() {
#ifdef NO_ORDER
  published = mine + 1
#else
  published == mine -> published = mine + 1
#endif
}

inline quiet() {
  last = published;
  do
  :: completed >= last -> break
  :: completed < last -> poll()
  od
}

active [LANES] proctype lane() {
  byte mine, seen, last, posts;
  bit busy;
  do
  :: posts < POSTS ->
     reserve();
     wait_for_room();
     assert(mine < executed + DEPTH); /* or a WQE is overwritten while the NIC may still read it */
     slot[mine % DEPTH] = mine;
     publish();
#ifndef NO_RING
     ring();
#endif
     posts++
  :: posts == POSTS -> break
  od;
  quiet();
  assert(executed >= last);
  finished++
}

active proctype nic() {
end:
  do
  :: bell ->
     if
     :: atomic { told = bell; bell = 0 }
     :: bell = 0; told = record /* the doorbell is lost, but for that there was one */
     fi;
     do
     :: executed < told ->
        assert(slot[executed % DEPTH] == executed); /* or it executes what nobody has written */
        executed++;
        cqe = executed
     :: executed >= told -> break
     od
  od
}

ltl all_finish { <> (finished == LANES) }
