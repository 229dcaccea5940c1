# SPDX-License-Identifier: Apache-2.0
"""RoCE v2 packets, written down a second time and with nothing of the software NIC's: the ICRC bit by bit as annex A17
of the InfiniBand Architecture Specification has it, and a capture of a network interface as a pcap file.

The ICRC is Ethernet's CRC32 over 64 bits of ones, the IPv4 and UDP headers, the BTH and what follows up to the padding.
Ones stand for what changes on the way: type of service, time to live and checksum of the IPv4 header, the checksum of
the UDP header, and the byte of the BTH that has FECN and BECN.
"""
import ctypes
import socket
import struct
import threading
import zlib

PORT = 4791
ETHERNET_BYTES = 14
ETHERTYPE_ALL = 3
LONGEST_FRAME = 1 << 16
END_PORT = 9  # discard
# Python's module has no names for these of ip(7) and packet(7).
IP_MTU_DISCOVER = 10
IP_PMTUDISC_DO = 2
SOL_PACKET = 263
SO_ATTACH_FILTER = 26
PACKET_STATISTICS = 6

READ_REQUEST = 0x0c
ACKNOWLEDGE = 0x11


def icrc(ip):
    """Of a whole IPv4 packet without options, whose last 4 bytes are the place of the ICRC."""
    masked = bytearray(ip[:-4])
    for at in (1, 8, 10, 11, 26, 27, 32):
        masked[at] = 0xff
    return zlib.crc32(b"\xff" * 8 + masked)


def is_sealed(ip):
    return icrc(ip) == struct.unpack("<I", ip[-4:])[0]


def bth(opcode, qpn, psn, asks_ack=True):
    return struct.pack(">BBHII", opcode, 0x40, 0xffff, qpn, (asks_ack << 31) | psn)


def reth(address, rkey, length):
    return struct.pack(">QII", address, rkey, length)


class Requester:
    """An end of a connection that is no NIC: it sends what it is told to."""

    def __init__(self, address):
        self.address = address
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)  # identification 0
        self.socket.bind((address, PORT))
        self.socket.settimeout(60)

    def send(self, to, payload):
        """payload: from the BTH to the padding."""
        size = 20 + 8 + len(payload) + 4
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0x4000, 64, 17, 0, socket.inet_aton(self.address),
                           socket.inet_aton(to))
        head += struct.pack(">HHHH", PORT, PORT, size - 20, 0)
        crc = icrc(head + payload + b"\0\0\0\0")
        self.socket.sendto(payload + struct.pack("<I", crc), (to, PORT))

    def answer(self):
        """Opcode and what follows the BTH."""
        payload = self.socket.recv(LONGEST_FRAME)
        return payload[0], payload[12:-4]


class Capture:
    """What leaves by a network interface from here to stop(), in the file `path`."""

    def __init__(self, interface, path):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self.filter()
        self.socket.bind((interface, 0))
        self.file = open(path, "wb")
        self.file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, LONGEST_FRAME, 1))
        self.packets = []  # of IPv4 and UDP's port 4791
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def filter(self):
        """Lets the kernel drop what is not wanted: it has room for some hundred packets only. In words of the socket filter
        (linux/filter.h): IPv4's protocol is UDP, and the port one of two."""
        words = [(0x30, 0, 0, ETHERNET_BYTES + 9), (0x15, 0, 4, socket.IPPROTO_UDP), (0x28, 0, 0, ETHERNET_BYTES + 22),
                 (0x15, 1, 0, PORT), (0x15, 0, 1, END_PORT), (0x06, 0, 0, LONGEST_FRAME), (0x06, 0, 0, 0)]
        self.program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                               struct.pack("HL", len(words), ctypes.addressof(self.program)))

    def carry(self):
        while True:
            frame, where = self.socket.recvfrom(LONGEST_FRAME)
            ip = frame[ETHERNET_BYTES:]
            if where[2] != socket.PACKET_OUTGOING or ip[:1] != b"\x45" or ip[9] != socket.IPPROTO_UDP:
                continue
            to = struct.unpack(">H", ip[22:24])[0]
            if to == END_PORT:
                return
            if to == PORT:
                self.file.write(struct.pack("<IIII", 0, len(self.packets), len(frame), len(frame)) + frame)
                self.packets.append(ip)

    def stop(self):
        """Answers the packets. Raises where the kernel had no room for some."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", ("127.0.0.1", END_PORT))
        self.thread.join(60)
        self.file.close()
        _, dropped = struct.unpack("II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        if self.thread.is_alive() or dropped:
            raise RuntimeError(f"the capture is not whole: {dropped} packets dropped")
        return self.packets
