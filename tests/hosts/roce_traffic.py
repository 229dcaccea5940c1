#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One of two ends that send each other every packet of RoCE v2 that a client of verbs can ask for, by pyverbs.

    roce_traffic.py ask FD         posts the requests; FD is a socket to the other end
    roce_traffic.py serve FD       has the memory, and posts receives
    roce_traffic.py foreign FD     is asked by whoever is behind FD: tells what a request needs, and ends

Each case has queue pairs of its own, for a refusal ends them. Both ends go through CASES in step.
"""
import json
import socket
import sys

from pyverbs import enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

GID_INDEX = 3  # the address
MTU_BYTES = 1024
LONG = 3 * MTU_BYTES - 5  # FIRST, MIDDLE, LAST with padding
BYTES = 8192
QKEY = 0x11111111
EVERYTHING = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
WRONG_KEY = 0x0bad0b00
SEND, SEND_IMM = e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM
WRITE, WRITE_IMM = e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM
READ, SWAP, ADD = e.IBV_WR_RDMA_READ, e.IBV_WR_ATOMIC_CMP_AND_SWP, e.IBV_WR_ATOMIC_FETCH_AND_ADD

# Name, (opcode, bytes) in turn, how the last one ends, what is wrong about the serving end.
CASES = [
    ("transfers", [(opcode, size) for opcode in (SEND, SEND_IMM, WRITE, WRITE_IMM) for size in (5, 0, LONG)],
     e.IBV_WC_SUCCESS, ""),
    ("answers", [(READ, 7), (READ, LONG), (SWAP, 8), (ADD, 8)], e.IBV_WC_SUCCESS, ""),
    ("not ready", [(SEND, 8)], e.IBV_WC_RNR_RETRY_EXC_ERR, "no receive"),
    ("wrong key", [(WRITE, 8)], e.IBV_WC_REM_ACCESS_ERR, "key"),
    ("not allowed", [(READ, 8)], e.IBV_WC_REM_INV_REQ_ERR, "access"),
    ("wrong place", [(SEND, 8)], e.IBV_WC_REM_OP_ERR, "receive"),
]


def mapped(address):
    """The GID that stands for an IPv4 address."""
    high, low = socket.inet_aton(address)[:2], socket.inet_aton(address)[2:]
    return f"{'0000:' * 5}ffff:{high.hex()}:{low.hex()}"


class End:
    def __init__(self, other):
        self.context = Context(name="mlx5_0")
        self.pd = PD(self.context)
        self.mr = MR(self.pd, BYTES, EVERYTHING)
        self.cq = CQ(self.context, 100)
        self.to, self.from_ = other.makefile("w"), other.makefile("r")
        self.gid = self.context.query_gid(1, GID_INDEX).gid

    def tell(self, **what):
        print(json.dumps(what), file=self.to, flush=True)

    def hear(self):
        return json.loads(self.from_.readline())

    def route(self, gid):
        return AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=GID(gid), sgid_index=GID_INDEX, hop_limit=64))

    def queue_pair(self, kind):
        return QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=QPCap(32, 32, 1, 1)))

    def connect(self, qp, peer, access=EVERYTHING):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = access
        attr.path_mtu = e.IBV_MTU_1024
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 4
        attr.min_rnr_timer = 1
        attr.timeout, attr.retry_cnt, attr.rnr_retry = 18, 7, 1
        attr.dest_qp_num, attr.rq_psn, attr.sq_psn = peer["qpn"], 100, 100
        attr.ah_attr = self.route(peer["gid"])
        qp.to_rts(attr)

    def meet(self, qp):
        self.tell(qpn=qp.qp_num, gid=self.gid, address=self.mr.buf, rkey=self.mr.rkey)
        return self.hear()

    def receive(self, qp, count, lkey=None):
        for _ in range(count):
            qp.post_recv(RecvWR(sg=[SGE(self.mr.buf, BYTES // 2, lkey or self.mr.lkey)], num_sge=1))

    def completion(self):
        while True:  # the test has a bound
            got, list_of_one = self.cq.poll()
            if got:
                return list_of_one[0].status

    def request(self, opcode, size, peer):
        wr = SendWR(opcode=opcode, num_sge=1, imm_data=0x12345678, sg=[SGE(self.mr.buf, size, self.mr.lkey)],
                    send_flags=e.IBV_SEND_SIGNALED | e.IBV_SEND_SOLICITED)
        if opcode in (SWAP, ADD):
            wr.set_wr_atomic(peer["rkey"], peer["address"], 0, 1)
        elif opcode not in (SEND, SEND_IMM):
            wr.set_wr_rdma(peer["rkey"], peer["address"])
        return wr


def ask(end):
    for name, requests, wanted, wrong in CASES:
        qp = end.queue_pair(e.IBV_QPT_RC)
        peer = end.meet(qp)
        end.connect(qp, peer)
        end.hear()  # the other end is ready
        if wrong == "key":
            peer["rkey"] = WRONG_KEY
        statuses = []
        for opcode, size in requests:
            qp.post_send(end.request(opcode, size, peer))
            statuses.append(end.completion())
        end.tell(done=True)
        expected = [e.IBV_WC_SUCCESS] * (len(requests) - 1) + [wanted]
        if statuses != expected:
            raise SystemExit(f"{name}: ended with {statuses}, not {expected}")
    ask_datagrams(end)


def ask_datagrams(end):
    qp = end.queue_pair(e.IBV_QPT_UD)
    peer = end.meet(qp)
    to_ready(qp)
    end.hear()
    address_handle = AH(end.pd, attr=end.route(peer["gid"]))
    for opcode in (SEND, SEND_IMM):
        wr = end.request(opcode, 13, peer)
        wr.set_wr_ud(address_handle, peer["qpn"], QKEY)
        qp.post_send(wr)
        if end.completion() != e.IBV_WC_SUCCESS:
            raise SystemExit("a datagram was not sent")
    end.hear()  # they have come


def to_ready(qp):
    attr = QPAttr(port_num=1)
    attr.qkey = QKEY
    qp.to_rts(attr)


def serve(end):
    for _, requests, wanted, wrong in CASES:
        qp = end.queue_pair(e.IBV_QPT_RC)
        peer = end.meet(qp)
        end.connect(qp, peer, e.IBV_ACCESS_LOCAL_WRITE if wrong == "access" else EVERYTHING)
        if wrong != "no receive":
            end.receive(qp, len(requests), WRONG_KEY if wrong == "receive" else None)
        end.tell(ready=True)
        end.hear()
        qp.close()
    qp = end.queue_pair(e.IBV_QPT_UD)
    end.meet(qp)
    to_ready(qp)
    end.receive(qp, 2)
    while end.cq.poll()[0]:
        pass  # of the cases before
    end.tell(ready=True)
    if [end.completion(), end.completion()] != [e.IBV_WC_SUCCESS] * 2:
        raise SystemExit("a datagram did not come")
    end.tell(done=True)


def foreign(end):
    """A queue pair for each request of the one behind the socket, who is at an address and no NIC."""
    while True:
        peer = end.hear()
        if "at" not in peer:
            return
        qp = end.queue_pair(e.IBV_QPT_RC)
        end.connect(qp, {"qpn": 0x77, "gid": mapped(peer["at"])})
        end.receive(qp, 1)
        end.tell(qpn=qp.qp_num, gid=end.gid, address=end.mr.buf, rkey=end.mr.rkey)
        end.hear()
        qp.close()


def main():
    role, fd = sys.argv[1:]
    {"ask": ask, "serve": serve, "foreign": foreign}[role](End(socket.socket(fileno=int(fd))))


if __name__ == "__main__":
    main()
