"""Zip archives as torch.save writes them: records that lie in the file as they are.

Nothing is extracted and no name becomes a path. Sizes, places and overlaps are checked against the
file before anything is read, so an archive never gives more bytes than it has.
"""

import struct

from .. import _C

_END = struct.Struct("<4s4H2LH")  # end of central directory
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")  # of the central directory
_LOCAL = struct.Struct("<4s5H3L2H")
_MOST_NAMES = 100_000_000  # bytes of the directory, as of the header of a safetensors file
_NARROW, _SHORT = 0xFFFFFFFF, 0xFFFF


class Archive:
    """The records of a zip archive in a `_C._Stored`. FileError where it is damaged."""

    def __init__(self, stored, where):
        self._stored, self._where = stored, where
        self._size = stored.size
        self._records = {}  # name: (place of its header, bytes, end of the room for it, plain)
        self._read_directory()

    def fail(self, what):
        raise _C.FileError(
            f"pf.load: {self._where}: {what}; expected an archive as torch.save writes it; the file "
            "is damaged or cut off: restore it from a copy"
        )

    def names(self):
        return list(self._records)

    def size(self, name):
        return self._records[name][1]

    def __contains__(self, name):
        return name in self._records

    def read(self, name):
        """The bytes of a record."""
        at, size = self.place(name)
        return self._stored.read(at, size)

    def place(self, name):
        """(first byte, number of bytes) of a record, which must be there."""
        header, size, end, plain = self._records[name]
        if not plain:
            raise _C.FileError(
                f"pf.load: {self._where}: the record {name!r} is compressed; expected records as "
                "they are, as torch.save writes them; unpack the archive and pack it with `zip -0`"
            )
        if header + _LOCAL.size > end:
            self.fail(f"the record {name!r} has no room for its header")
        fields = _LOCAL.unpack(self._stored.read(header, _LOCAL.size))
        at = header + _LOCAL.size + fields[9] + fields[10]
        if fields[0] != b"PK\3\4" or at + size > end:
            self.fail(f"the record {name!r} is not where the directory says")
        return at, size

    def _read_directory(self):
        count, size, at, end = self._find_directory()
        if size > _MOST_NAMES:
            self.fail(f"its directory has {size} bytes")
        if at + size > end or count * _ENTRY.size > size:
            self.fail(f"its directory of {count} records does not fit into the file")
        data = self._stored.read(at, size)
        found, here = [], 0
        for _ in range(count):
            if here + _ENTRY.size > size:
                self.fail("its directory is cut off")
            e = _ENTRY.unpack_from(data, here)
            here += _ENTRY.size
            name, extra = data[here : here + e[10]], data[here + e[10] : here + e[10] + e[11]]
            here += e[10] + e[11] + e[12]
            if e[0] != b"PK\1\2" or here > size:
                self.fail("its directory is cut off")
            found.append(self._entry(e, name, extra, at))
        found.sort()
        for (header, held, name, plain), after in zip(found, [*found[1:], (at,)]):
            if header + _LOCAL.size + held > after[0]:
                self.fail(f"the record {name!r} lies over what is behind it")
            if name in self._records:
                self.fail(f"the record {name!r} is there twice")
            self._records[name] = header, held, after[0], plain

    def _entry(self, e, name, extra, end):
        """(place of the header, bytes, name, whether they lie there as they are) of an entry."""
        try:
            name = name.decode()
        except UnicodeDecodeError:
            name = name.decode("cp437")
        flags, method, packed, size, header = e[3], e[4], e[8], e[9], e[16]
        wide = _wide(extra)
        if size == _NARROW:
            size = self._next(wide, name)
        if packed == _NARROW:
            packed = self._next(wide, name)
        if header == _NARROW:
            header = self._next(wide, name)
        if flags & 1:
            self.fail(f"the record {name!r} is encrypted")
        if header + _LOCAL.size + packed > end:
            self.fail(f"the record {name!r} reaches past the end of the data")
        return header, packed, name, method == 0 and packed == size

    def _next(self, wide, name):
        if not wide:
            self.fail(f"the record {name!r} has no size")
        return wide.pop(0)

    def _find_directory(self):
        """(records, bytes of the directory, its place, where it must have ended)."""
        tail = min(self._size, _END.size + _SHORT)
        start = self._size - tail
        data = self._stored.read(start, tail)
        here = data.rfind(b"PK\5\6")
        while here >= 0:
            if here + _END.size <= tail:
                _, disk, first, _, count, size, at, comment = _END.unpack_from(data, here)
                if here + _END.size + comment == tail:
                    break
            here = data.rfind(b"PK\5\6", 0, here)
        else:
            self.fail("it has no directory of its records")
        end = start + here
        if count == _SHORT or size == _NARROW or at == _NARROW:
            return self._find_wide(end)
        if disk or first:
            self.fail("it is a part of several")
        return count, size, at, end

    def _find_wide(self, end):
        place = end - _END64_LOCATOR.size
        if place < 0:
            self.fail("it has no directory of its records")
        magic, _, at, _ = _END64_LOCATOR.unpack(self._stored.read(place, _END64_LOCATOR.size))
        if magic != b"PK\6\7" or at + _END64.size > place:
            self.fail("it has no directory of its records")
        fields = _END64.unpack(self._stored.read(at, _END64.size))
        if fields[0] != b"PK\6\6":
            self.fail("it has no directory of its records")
        return fields[7], fields[8], fields[9], at


def _wide(extra):
    """The numbers of 64 bits among the extra fields of an entry."""
    here = 0
    while here + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, here)
        if kind == 1:
            inside = extra[here + 4 : here + 4 + size]
            return [n for (n,) in struct.iter_unpack("<Q", inside[: len(inside) // 8 * 8])]
        here += 4 + size
    return []


# ---- writing ------------------------------------------------------------------------------------

_ALIGN = 64


class Packer:
    """Writes an archive in one pass. Records begin at multiples of 64 bytes, so that they can be
    shown as memory."""

    def __init__(self, write):
        self._write, self._at, self._entries = write, 0, []

    def add(self, name, size, crc, give):
        """A record; `give` hands its bytes to a function, in pieces."""
        name = name.encode()
        bare = self._at + _LOCAL.size + len(name)
        wide = struct.pack("<2H2Q", 1, 16, size, size) if size >= _NARROW else b""
        pad = -(bare + len(wide) + 4) % _ALIGN
        extra = wide + struct.pack("<2s1H", b"FB", pad) + b"Z" * pad
        shown = min(size, _NARROW)
        self._entries.append((name, size, crc, self._at))
        self._put(
            _LOCAL.pack(b"PK\3\4", 45 if wide else 20, 0, 0, 0, 33, crc, shown, shown, len(name), len(extra))
            + name + extra
        )  # fmt: skip
        before = self._at
        give(self._put)
        if self._at != before + size:
            raise _C.FileError(
                f"pf.save: {self._at - before} bytes came for a record of {size}; expected as many "
                "as there were; do not change what is being saved"
            )

    def _put(self, data):
        self._write(data)
        self._at += memoryview(data).nbytes

    def finish(self):
        start = self._at
        for name, size, crc, at in self._entries:
            numbers = [n for n in (size, size) if size >= _NARROW] + ([at] if at >= _NARROW else [])
            extra = struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers)
            extra = extra if numbers else b""
            shown = min(size, _NARROW)
            self._put(
                _ENTRY.pack(
                    b"PK\1\2", 45, 45 if extra else 20, 0, 0, 0, 33, crc, shown, shown, len(name),
                    len(extra), 0, 0, 0, 0, min(at, _NARROW),
                ) + name + extra
            )  # fmt: skip
        size, count, end = self._at - start, len(self._entries), self._at
        # The wide form always: PyTorch's own archives have it.
        self._put(_END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start))
        self._put(_END64_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        self._put(
            _END.pack(
                b"PK\5\6", 0, 0, min(count, _SHORT), min(count, _SHORT), min(size, _NARROW),
                min(start, _NARROW), 0,
            )
        )  # fmt: skip
