"""Commands of gdb for programs that use sinew: `info fibres` and `fibre`.

The script only reads. It writes no register and no memory and calls no function of the program, so a core file is as
good as a process. All that it knows of the layout comes from the description in the section `.sinew`.

gdb runs the scripts of all crates in one namespace. So every name here begins with `Sinew` or `sinew`.
"""

import itertools
import re
import struct

import gdb
import gdb.unwinder
from gdb.FrameDecorator import FrameDecorator

SINEW_MAGIC = b"sinew inspection"
SINEW_VERSION = 1

# The entries without which nothing can be shown.
SINEW_NEEDED = """
    slabs large clusters posts directory.used directory.entries
    slab.bytes slab.chunks chunk.bytes head.bytes head.count head.block
    strand.kind strand.wait strand.stamp strand.state strand.refs strand.cluster strand.after strand.own
    state.parked state.waiting state.finished after.declined after.resting
    kind.magic kind.magic_value kind.class kind.symbol class.fibre class.task class.mailbox
    fibre.id fibre.name fibre.name_length fibre.spawned_at task.spawned_at
    location.file location.length location.line location.column
    post.cluster post.stack_word post.task_word post.thread post.pulse
""".split()

SINEW_KINDS = ["fibre", "task", "mailbox"]
SINEW_STATES = ["running", "ready", "parked", "waiting", "new", "finished", "idle", "carried"]

SINEW_OBJECT = (1 << 56) - 1

# The text that symbols have around the name of a type.
SINEW_AROUND_TYPES = [
    r"core::ptr::drop_in_place(?:::)?<(.*)>",
    r"<(.*) as core::future::.*>::poll",
    r"sinew::actor::cell::Cell<(.*)>",
]

# The functions that switch from a fibre to its processor, and those from its first one to the program's.
SINEW_SWITCH = re.compile(r"<?(corosensei|sinew::(stack|wait|processor))::")
SINEW_ROOT = re.compile(
    r"<?(corosensei::|sinew::(actor|fibre|mailbox|runtime|stack|wait)::|(std|core)::panic|alloc::boxed::"
    r"|core::ops::function::FnOnce::call_once|__rust_try|stack_init_trampoline)"
)
SINEW_RECORD = re.compile(r"<?sinew::fibre::record::")


def sinew_read(address, length):
    return gdb.selected_inferior().read_memory(address, length)


def sinew_words(address, number):
    return struct.unpack(f"<{number}Q", sinew_read(address, 8 * number))


def sinew_word(address):
    return sinew_words(address, 1)[0]


def sinew_text(address, length):
    # No text of a program is longer; what says so is not a text.
    length = min(length, 4096)
    return bytes(sinew_read(address, length)).decode("utf-8", "replace") if address and length else ""


def sinew_sections(name):
    """Returns where the sections of this name are: that of the program, then those of its libraries."""
    for line in gdb.execute("info files", to_string=True).splitlines():
        found = re.match(r"\s*(0x[0-9a-f]+) - (0x[0-9a-f]+) is (\S+)", line)
        if found and found[3] == name:
            yield int(found[1], 16), int(found[2], 16)


class SinewField:
    """A field of a record whose words have been read: the number of its word, and its place there."""

    def __init__(self, offset, size):
        self.index, self.shift = offset // 8, offset % 8 * 8
        self.mask = (1 << 8 * size) - 1

    def of(self, words):
        return words[self.index] >> self.shift & self.mask


class SinewDescription:
    """The entries of the program's description."""

    def __init__(self):
        versions = []
        for address in self.places():
            words = sinew_words(address + 16, 2)
            if words[0] == SINEW_VERSION:
                self.entries = self.collect(address, words[1])
                break
            versions.append(str(words[0]))
        else:
            if versions:
                found = ", ".join(versions)
                raise gdb.GdbError(f"This script reads version {SINEW_VERSION} of the description, the program {found}.")
            raise gdb.GdbError("The program has no section .sinew: it does not use sinew, or its file is not loaded.")
        missing = [name for name in SINEW_NEEDED if name not in self.entries]
        if missing:
            raise gdb.GdbError(f"The description of the program has no {', '.join(missing)}.")

    @staticmethod
    def places():
        """Returns the addresses of all descriptions: the program may have several versions of the crate."""
        for begin, end in sinew_sections(".sinew"):
            section = bytes(sinew_read(begin, end - begin))
            at = section.find(SINEW_MAGIC)
            while at >= 0:
                yield begin + at
                at = section.find(SINEW_MAGIC, at + 1)

    @staticmethod
    def collect(address, parts):
        entries = {}
        words = sinew_words(address + 32, 2 * parts)
        for place, number in zip(words[::2], words[1::2]):
            for name, value in struct.iter_unpack("<40sQ", sinew_read(place, 48 * number)):
                entries[name.rstrip(b"\0").decode()] = value
        return entries

    def __getitem__(self, name):
        if name not in self.entries:
            raise gdb.GdbError(f"The description of the program has no {name}.")
        return self.entries[name]

    def named(self, prefix):
        """Returns the names that values have."""
        return {value: name[len(prefix) :] for name, value in self.entries.items() if name.startswith(prefix)}

    def directory(self, name):
        """Returns the addresses in a directory."""
        place = self[name]
        used = sinew_word(place + self["directory.used"])
        entries = sinew_word(place + self["directory.entries"])
        return [address for address in sinew_words(entries, used) if address] if entries and used else []


class SinewStrand:
    """A strand: its address, its words, and what they say."""

    __slots__ = ("address", "words", "kind", "memory", "id", "state")

    def __init__(self, memory, address, words, kind):
        self.memory, self.address, self.words, self.kind = memory, address, words, kind
        self.id = memory.fibre_id.of(words) if kind.name == "fibre" else 0
        self.state = memory.state_of(self)

    def get(self, name, size=8):
        return self.memory.field(name, size).of(self.words)

    @property
    def name(self):
        """The name of a fibre, or the type of a task or of a mailbox."""
        if self.kind.name != "fibre":
            return self.kind.type
        address = self.get("fibre.name")
        if address:
            return sinew_text(address, self.get("fibre.name_length"))
        mailbox = self.memory.by_address.get(self.carried)
        return f"carrier of {mailbox.name or 'a mailbox'}" if mailbox else ""

    @property
    def carried(self):
        """The address of the mailbox that the fibre carries, or 0."""
        if self.kind.name != "fibre" or self.get("fibre.name"):
            return 0
        return self.get("fibre.name_length")

    @property
    def label(self):
        """The name of the strand in the text about another one."""
        name = f" '{self.name}'" if self.name else ""
        number = self.id or f"{self.address:#x}"
        return f"{self.kind.name} {number}{name}"

    @property
    def site(self):
        if self.kind.name == "mailbox":
            return ""
        return self.memory.site(self.get(f"{self.kind.name}.spawned_at"))

    @property
    def is_stopped(self):
        return self.state in ("parked", "waiting")

    @property
    def place(self):
        """The address by which a processor names the strand that it runs: of the stack, or of the task itself."""
        return self.get("strand.own") if self.kind.name == "fibre" else self.address

    @property
    def has_stack(self):
        """Says whether gdb can show a stack for it."""
        if self.kind.name == "fibre":
            return self.state not in ("new", "finished")
        return self.state in ("running", "carried")

    @property
    def reason(self):
        return self.memory.reasons.get(self.get("strand.wait") >> 56, "unknown") if self.is_stopped else ""

    @property
    def since(self):
        """The time since it stopped, or became ready, for people. A core file says how long it is at least."""
        stamp = self.get("strand.stamp")
        rate = self.memory.cycles_per_ms
        if not rate or not stamp or not (self.is_stopped or self.state == "ready"):
            return ""
        at_least = "" if self.memory.knows_now else "> "
        return at_least + sinew_duration(max(self.memory.now - stamp, 0) * 1_000_000 // rate)

    @property
    def wait(self):
        """The wait, in words."""
        memory = self.memory
        if self.state == "running":
            thread = memory.running.get(self.place, 0)
            return f"on thread {thread}" if thread else ""
        if self.state == "carried":
            return f"on {memory.carriers[self.address].label}"
        if not self.is_stopped:
            return ""
        word = self.get("strand.wait")
        reason, what = self.reason, word & SINEW_OBJECT
        if not what:
            return reason
        if reason in ("mutex", "rwlock_read", "rwlock_write"):
            return f"{reason} {what:#x}, {memory.holder(reason, what)}"
        if reason in ("join_fibre", "join_task", "ask", "event"):
            other = memory.by_address.get(what)
            return f"{reason}: {other.label}" if other else f"{reason} {what:#x}"
        if reason == "scope":
            left = memory.scopes().get(what - 16, [])
            return f"scope {what:#x} of {sinew_some([str(strand.id) for strand in left], 'fibre')}"
        if reason in ("read", "write"):
            return f"{reason} of descriptor {what}"
        return f"{reason} {what:#x}"


class SinewKind:
    """A kind of strand."""

    def __init__(self, name, symbol):
        self.name, self.symbol, self.known = name, symbol, None

    @property
    def type(self):
        """The type of the future or of the actor, as its symbol tells."""
        if self.known is None:
            self.known = ""
            if self.symbol:
                text = gdb.execute(f"info symbol {self.symbol:#x}", to_string=True)
                # Behind the name are a hash, an offset, and a section.
                text = re.split(r"::h[0-9a-f]{16}| \+ \d| in section ", text.strip())[0]
                text = "" if text.startswith("No symbol") else text
                for around in SINEW_AROUND_TYPES:
                    found = re.fullmatch(around, text)
                    text = found[1] if found else text
                self.known = text
        return self.known


class SinewMemory:
    """All strands of the program, as long as it stands still."""

    def __init__(self):
        self.description = description = SinewDescription()
        self.fields, self.kinds, self.sites, self.holders, self.innermost = {}, {}, {}, {}, {}
        self.by_scope = self.text = None
        self.fibre_id = self.field("fibre.id", 8)
        self.reasons, self.afters = description.named("reason."), description.named("after.")
        self.clusters = set(description.directory("clusters"))
        self.running = self.find_running()
        self.strands = []
        self.carriers = {}
        for slab in description.directory("slabs"):
            self.read_slab(slab)
        for address in description.directory("large"):
            self.add(address, *self.record(address))
        order = {name: number for number, name in enumerate(SINEW_KINDS)}
        self.strands.sort(key=lambda strand: (order[strand.kind.name], strand.id, strand.address))
        self.by_address = {strand.address: strand for strand in self.strands}
        self.by_id = {strand.id: strand for strand in self.strands if strand.id}
        # A mailbox is idle, ready, or with its carrier, which may come behind it in memory.
        self.carriers = {strand.carried: strand for strand in self.strands if strand.carried}
        for address in self.carriers:
            if address in self.by_address:
                self.by_address[address].state = "carried"
        self.cycles_per_ms = sinew_word(description["clock.cycles_per_ms"])
        self.now = self.find_now()

    def field(self, name, size):
        key = (name, size)
        if key not in self.fields:
            self.fields[key] = SinewField(self.description[name], size)
        return self.fields[key]

    def posts(self):
        return self.description.directory("posts")

    def post(self, address, name, size=8):
        """Reads a number of a post."""
        return int.from_bytes(bytes(sinew_read(address + self.description[name], size)), "little")

    def find_running(self):
        """Returns what runs: stacks and tasks, by their addresses, and the kernel's numbers of their threads."""
        running = {}
        for post in self.posts():
            thread = self.post(post, "post.thread", 4)
            for name in ("post.stack_word", "post.task_word"):
                try:
                    place = self.post(post, name)
                    running[sinew_word(place) if place else 0] = thread
                except gdb.MemoryError:
                    # The thread has ended, and its words with it.
                    pass
        running.pop(0, None)
        return running

    def kind(self, address):
        """Returns the kind at this address; None if there is none."""
        if address not in self.kinds:
            self.kinds[address] = None
            description = self.description
            try:
                if address and sinew_word(address + description["kind.magic"]) == description["kind.magic_value"]:
                    name = description.named("class.").get(sinew_word(address + description["kind.class"]))
                    if name in SINEW_KINDS:
                        self.kinds[address] = SinewKind(name, sinew_word(address + description["kind.symbol"]))
            except gdb.MemoryError:
                pass
        return self.kinds[address]

    def read_slab(self, slab):
        description = self.description
        chunk_bytes, head_bytes = description["chunk.bytes"], description["head.bytes"]
        try:
            memory = memoryview(sinew_read(slab, description["slab.bytes"])).cast("B")
        except gdb.MemoryError:
            return
        kind_word = description["strand.kind"]
        for chunk in range(description["slab.chunks"]):
            count, size = (
                struct.unpack_from("<I", memory, chunk * head_bytes + description[name])[0]
                for name in ("head.count", "head.block")
            )
            first = chunk * chunk_bytes + (0 if chunk else description["slab.chunks"] * head_bytes)
            if not count or not size or size % 8 or first + count * size > len(memory):
                continue
            # Only the words for the kinds are looked at, until one is known.
            blocks = memory[first : first + count * size].cast("Q")
            kinds = blocks[kind_word // 8 :: size // 8].tolist()
            known = {address for address in set(kinds) if self.kind(address)}
            layout = struct.Struct(f"<{size // 8}Q")
            for number, kind in enumerate(kinds):
                if kind in known:
                    at = first + number * size
                    self.add(slab + at, layout.unpack_from(memory, at), self.kinds[kind])

    def record(self, address):
        """Reads a strand that is in no slab, as far as the words go that have a meaning."""
        try:
            kind = self.kind(sinew_word(address + self.description["strand.kind"]))
            end = max(value for name, value in self.description.entries.items() if name.startswith(("fibre.", "task.")))
            return sinew_words(address, end // 8 + 1), kind
        except gdb.MemoryError:
            return (), None

    def add(self, address, words, kind):
        """Adds the strand at this address, if it is one."""
        if kind is None or self.field("strand.refs", 4).of(words) == 0:
            return
        if self.field("strand.cluster", 8).of(words) not in self.clusters:
            return
        if self.afters.get(self.field("strand.after", 1).of(words)) == "resting":
            return
        self.strands.append(SinewStrand(self, address, words, kind))

    def state_of(self, strand):
        description, bits = self.description, self.field("strand.state", 4).of(strand.words)
        if strand.kind.name == "mailbox":
            return "ready" if strand.get("strand.own") & description["mail.active"] else "idle"
        if bits & description["state.finished"]:
            return "finished"
        if strand.place in self.running:
            return "running"
        if bits & description["state.parked"]:
            return "parked"
        if bits & description["state.waiting"]:
            return "waiting"
        return "new" if strand.get("strand.after", 1) == description["after.declined"] else "ready"

    def site(self, address):
        """Returns the text for a `Location`."""
        if address not in self.sites:
            description = self.description
            try:
                file, length = (sinew_word(address + description[f"location.{name}"]) for name in ("file", "length"))
                line, column = (
                    struct.unpack("<I", sinew_read(address + description[f"location.{name}"], 4))[0]
                    for name in ("line", "column")
                )
                text = f"{sinew_text(file, length)}:{line}:{column}".replace("\0", "")
            except gdb.MemoryError:
                text = ""
            self.sites[address] = text
        return self.sites[address]

    def holder(self, reason, lock):
        """Says who has the lock at this address."""
        if lock not in self.holders:
            sort, bit = ("mutex", "mutex.locked") if reason == "mutex" else ("rwlock", "rwlock.writing")
            description = self.description
            try:
                word = int.from_bytes(bytes(sinew_read(lock + description[f"{sort}.word"], 4)), "little")
                owner = sinew_word(lock + description[f"{sort}.owner"])
                self.holders[lock] = self.owner(owner, word & description[bit], sort)
            except gdb.MemoryError:
                self.holders[lock] = "which cannot be read"
        return self.holders[lock]

    def owner(self, word, is_locked, sort):
        if not is_locked:
            return "held by readers, or just released" if sort == "rwlock" else "just released"
        if not word:
            return "just changing hands"
        what = word & SINEW_OBJECT
        kind = self.description.named("owner.").get(word >> 56, "")
        if kind == "thread":
            return f"held by thread {what}"
        strand = (self.by_id if kind == "fibre" else self.by_address).get(what)
        number = what if kind == "fibre" else f"{what:#x}"
        return f"held by {strand.label}" if strand else f"held by {kind} {number}, which has ended"

    def scopes(self):
        """Returns the fibres of each scope that have not finished."""
        if self.by_scope is None:
            self.by_scope = {}
            for strand in self.by_id.values():
                scope = strand.get("fibre.scope")
                if scope and strand.state != "finished":
                    self.by_scope.setdefault(scope, []).append(strand)
        return self.by_scope

    def find_now(self):
        """Returns the time: that of this machine if the program runs here, else the last one that is written down."""
        last = max((self.post(post, "post.pulse") for post in self.posts()), default=0)
        last = max([last] + [strand.get("strand.stamp") for strand in self.strands if strand.is_stopped])
        connection = getattr(gdb.selected_inferior(), "connection", None)
        now = sinew_counter() if connection is not None and connection.type == "native" else None
        self.knows_now = now is not None and now >= last
        return now if self.knows_now else last

    def find(self, text):
        """Returns the strand that a user names: by its id, its address or its name."""
        text = text.strip()
        if re.fullmatch(r"\d+", text) and int(text) in self.by_id:
            return self.by_id[int(text)]
        if re.fullmatch(r"0x[0-9a-f]+", text) and int(text, 16) in self.by_address:
            return self.by_address[int(text, 16)]
        named = [strand for strand in self.by_id.values() if strand.name == text.strip("'\"")]
        if len(named) > 1:
            some = sinew_some([str(strand.id) for strand in named], "fibre")
            raise gdb.GdbError(f"'{text}' is the name of {some}.")
        if not named:
            raise gdb.GdbError(f"There is no fibre '{text}'. See `info fibres`.")
        return named[0]

    def stack(self, strand):
        """Returns the stack of a fibre that does not run; None if it has none."""
        top = strand.get("strand.own") if strand.kind.name == "fibre" else 0
        if not top or strand.state == "finished":
            return None
        description = self.description
        if sinew_word(top + description["top.strand"]) != strand.address:
            return None
        base, shift = sinew_word(description["arena.base"]), sinew_word(description["arena.part_shift"])
        part = (top - base) >> shift
        slot = (description["arena.smallest"] << part) + description["arena.guard"]
        bottom = top - (top - base - (part << shift)) % slot + description["arena.guard"]
        # The coroutine keeps its stack pointer, the one that it began with, and the top.
        words = sinew_words(top + description["top.body"], description["top.body_words"])
        inside = sorted({word for word in words if bottom <= word < top})
        return SinewStack(bottom, top, inside[0], inside[-1]) if inside else None

    def innermost_of(self, thread):
        """Returns where the innermost frame of the selected thread is, while no fibre is chosen."""
        if thread.ptid not in self.innermost:
            frame = gdb.newest_frame()
            self.innermost[thread.ptid] = frame.pc(), int(frame.read_register("rsp"))
        return self.innermost[thread.ptid]

    def code(self):
        """Returns where the code of the program is."""
        if self.text is None:
            self.text = next(sinew_sections(".text"), (0, 0))
        return self.text


class SinewStack:
    """The stack of a fibre that does not run, and the registers that it will go on with.

    A coroutine that is suspended has on its stack, from its stack pointer on: where it goes on, rbx, rbp. Behind
    them is the frame of the function that switched. The first frame of all is that of a trampoline, which calls the
    coroutine's function. The place that this call returns to lies where the stack pointer was before the coroutine
    began.
    """

    def __init__(self, bottom, top, pointer, begin):
        self.bottom, self.top, self.pointer, self.begin = bottom, top, pointer, begin
        rip, rbx, rbp = sinew_words(pointer, 3)
        self.registers = {"rip": rip, "rsp": pointer + 24, "rbx": rbx, "rbp": rbp}
        self.last_pc, self.last_sp = sinew_word(begin), begin + 8
        self.has_begun = pointer != begin


def sinew_counter():
    """Returns the counter of this machine's CPU; None if it cannot be read. The machine is that of the program."""
    try:
        import ctypes
        import mmap

        if gdb.selected_inferior().architecture().name() != "i386:x86-64":
            return None
        # rdtsc; shl rdx, 32; or rax, rdx; ret
        code = bytes.fromhex("0f31 48c1e220 4809d0 c3")
        page = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        place = ctypes.addressof(ctypes.c_char.from_buffer(page))
        return ctypes.CFUNCTYPE(ctypes.c_uint64)(place)()
    except (AttributeError, ImportError, OSError, ValueError):
        return None


def sinew_duration(nanoseconds):
    """Returns a time for people."""
    for unit, size in (("h", 3600e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.1f} {unit}"
    return "0 µs"


def sinew_some(things, noun):
    """Returns the number of things, and the first of them."""
    number = f"{len(things)} {noun}" + ("" if len(things) == 1 else "s")
    return f"{number} ({', '.join(things[:5])}{', ...' if len(things) > 5 else ''})" if things else number


class SinewSession:
    """The state between commands: the strands, until the program goes on, and the fibre that is chosen."""

    memory = None
    key = None
    # The fibre whose stack gdb shows in place of that of a thread.
    chosen = None

    @classmethod
    def strands(cls):
        inferior = gdb.selected_inferior()
        if inferior.pid == 0:
            raise gdb.GdbError("There is no process and no core file.")
        key = (inferior.num, inferior.pid, gdb.current_progspace().filename)
        if cls.memory is None or cls.key != key:
            cls.memory, cls.key = SinewMemory(), key
        return cls.memory

    @classmethod
    def forget(cls, _event=None):
        cls.memory = cls.chosen = None
        SinewFilter.only.enabled = False

    @classmethod
    def choose(cls, strand):
        """Shows the stack of `strand`: if it runs by its thread, else in place of that of the selected thread.

        None stands for the stack of the thread."""
        if cls.chosen is not None:
            cls.chosen = None
            gdb.invalidate_cached_frames()
        SinewFilter.only.enabled = False
        if strand is None:
            return
        if strand.state == "carried":
            strand = strand.memory.carriers[strand.address]
        if strand.state == "running":
            sinew_thread(strand).switch()
            if strand.kind.name != "fibre":
                return
        cls.chosen = SinewChoice(strand)
        SinewFilter.only.enabled = True
        if cls.chosen.is_running:
            return
        gdb.invalidate_cached_frames()
        frame = next(cls.chosen.trim(sinew_frames(), lambda frame: frame), None)
        if frame is None:
            cls.choose(None)
            raise gdb.GdbError(f"gdb cannot show the stack of {strand.label}.")
        frame.select()


def sinew_frames():
    frame = gdb.newest_frame()
    while frame is not None:
        yield frame
        frame = frame.older()


class SinewChoice:
    """The fibre that is chosen, and the thread in whose place gdb shows it."""

    def __init__(self, strand):
        self.strand, self.thread = strand, gdb.selected_thread()
        self.is_running = strand.state == "running"
        # The registers are those of this architecture.
        if gdb.selected_inferior().architecture().name() != "i386:x86-64":
            raise gdb.GdbError("Stacks of fibres are shown on x86-64 only.")
        self.stack = strand.memory.stack(strand) if strand.has_stack else None
        if self.stack is None or not (self.is_running or self.stack.has_begun):
            missing = "whose stack is not in this memory: see `help fibre'" if strand.has_stack else "and has no stack"
            raise gdb.GdbError(f"{strand.label} is {strand.state}, {missing}.")
        self.place = strand.memory.innermost_of(self.thread)

    def is_here(self):
        """Says whether gdb looks at the thread."""
        thread = gdb.selected_thread()
        return thread is not None and self.thread.is_valid() and thread.ptid == self.thread.ptid

    def has(self, frame):
        """Says whether a frame is on the fibre's stack."""
        return self.stack.pointer < int(frame.read_register("rsp")) < self.stack.last_sp

    def trim(self, frames, frame_of):
        """Leaves out the frames of the thread, those of the switch, and those that lead to the fibre's own function."""
        if not self.is_running:
            frames = itertools.dropwhile(lambda each: not self.begins_at(frame_of(each)), frames)
        held = []
        is_empty = True
        for each in frames:
            frame = frame_of(each)
            if frame.pc() == self.stack.last_pc and not self.has(frame):
                break
            name = frame.name() or ""
            # The rest is the same for all fibres, and gdb takes long for it.
            if not is_empty and SINEW_RECORD.match(name):
                return
            held.append(each)
            if not SINEW_ROOT.match(name):
                yield from held
                held, is_empty = [], False
        if is_empty:
            yield from held

    def begins_at(self, frame):
        return self.has(frame) and not SINEW_SWITCH.match(frame.name() or "")

    def ends_at(self, pc, pointer):
        """Says whether this is the frame of the trampoline."""
        return (pc, pointer) == (self.stack.last_pc, self.stack.last_sp)


class SinewFrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class SinewUnwinder(gdb.unwinder.Unwinder):
    """Says that the innermost frame of the selected thread was called by the fibre that is chosen.

    So gdb walks the fibre's stack with the registers that lie there, and no register has to be written.
    """

    def __init__(self):
        super().__init__("sinew")

    def __call__(self, frame):
        chosen = SinewSession.chosen
        if chosen is None or chosen.is_running:
            return None
        # gdb asks for each frame that it meets. Most of them are neither the first nor the last.
        sp, stack = frame.read_register("rsp"), chosen.stack
        if int(sp) not in (chosen.place[1], stack.last_sp) or not chosen.is_here():
            return None
        pc = frame.read_register("rip")
        place = int(pc), int(sp)
        # Functions that are inlined have frames of their own, with the same registers: this is the one that is not.
        if place == chosen.place:
            # gdb wants frames to lie above those that they call.
            caller, own = stack.registers, SinewFrameId(gdb.Value(stack.pointer).cast(sp.type), pc)
        elif chosen.ends_at(*place):
            # A frame that is its own caller is the last one to gdb.
            caller, own = {"rip": place[0], "rsp": place[1]}, SinewFrameId(sp, pc)
        else:
            return None
        answer = frame.create_unwind_info(own)
        for name, value in caller.items():
            answer.add_saved_register(name, gdb.Value(value).cast(sp.type if name != "rip" else pc.type))
        return answer


class SinewNameless(FrameDecorator):
    """A frame of a function without a symbol, as gdb prints it where there is no filter."""

    def function(self):
        return "??"


class SinewFilter:
    """Leaves the frames of the chosen fibre in a backtrace, as `SinewChoice.trim` says."""

    only = None

    def __init__(self):
        self.name, self.priority, self.enabled = "sinew", 1000, False
        gdb.frame_filters[self.name] = self
        SinewFilter.only = self

    def filter(self, frames):
        chosen = SinewSession.chosen
        if chosen is None or not chosen.is_here():
            return frames
        frames = chosen.trim(frames, lambda frame: frame.inferior_frame())
        return (frame if frame.inferior_frame().name() else SinewNameless(frame) for frame in frames)


class SinewWords:
    """The words behind a command that say which strands are meant.

    A strand has to agree with one word of each sort: with a kind, a state, a reason, and an id or a name."""

    def __init__(self, memory, text):
        self.names_idle = False
        self.sorts = {}
        for word in gdb.string_to_argv(text):
            self.names_idle |= word in ("idle", "mailbox", "all")
            sort, test = self.test(memory, word)
            self.sorts.setdefault(sort, []).append(test)

    @staticmethod
    def test(memory, word):
        if word == "all":
            return "all", lambda strand: True
        if word in SINEW_KINDS:
            return "kind", lambda strand: strand.kind.name == word
        if word in SINEW_STATES:
            return "state", lambda strand: strand.state == word
        if word in memory.reasons.values():
            return "reason", lambda strand: strand.reason == word
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if span:
            first, last = int(span[1]), int(span[2] or span[1])
            return "name", lambda strand: first <= strand.id <= last
        part = word[5:] if word.startswith("name:") else word
        return "name", lambda strand: part in strand.name or (part is word and part in strand.site)

    def has(self, strand):
        return all(any(test(strand) for test in tests) for tests in self.sorts.values())

    @staticmethod
    def names():
        """Returns the names of fibres, for completion, if they are not too many."""
        try:
            fibres = SinewSession.strands().by_id
        except (gdb.error, gdb.GdbError):
            return set()
        return {strand.name for strand in fibres.values()} if len(fibres) <= 1000 else set()

    @classmethod
    def complete(cls, word):
        names = cls.names()
        reasons = SinewSession.memory.reasons.values() if SinewSession.memory else []
        return sinew_completions(word, [*SINEW_KINDS, *SINEW_STATES, *reasons, *names, "all", "name:"])


def sinew_completions(word, known):
    return sorted({each for each in known if each and each.startswith(word)})


class SinewInfoFibres(gdb.Command):
    """List the fibres, tasks and mailboxes of the program.
Usage: info fibres [WORD]...
The words leave a part of them: a kind (fibre, task, mailbox), a state (running, ready, parked, waiting, new,
finished, idle, carried), a reason to wait (mutex, sleep, channel_receive, ...), an id or a span of ids (7, 10-20), or a
part of the name, of the type or of the place where they were spawned. `name:WORD' is a part of the name only. Of
several words of one sort, one has to fit: `info fibres mutex sleep there back'.
Idle mailboxes are only counted, unless the words say `idle', `mailbox' or `all'."""

    def __init__(self):
        super().__init__("info fibres", gdb.COMMAND_STACK)

    def complete(self, text, word):
        return SinewWords.complete(word)

    def invoke(self, text, from_tty):
        memory = SinewSession.strands()
        words = SinewWords(memory, text)
        found = [strand for strand in memory.strands if words.has(strand)]
        shown = [strand for strand in found if strand.state != "idle" or words.names_idle]
        chosen = SinewSession.chosen.strand.address if SinewSession.chosen else 0
        rows = [("", "Id", "Name", "State", "Since", "Waits for", "Spawned at")]
        for strand in shown:
            number = str(strand.id or f"{strand.address:#x}")
            name = strand.name if strand.kind.name == "fibre" else f"{strand.kind.name} {strand.name}"
            mark = "*" if strand.address == chosen else ""
            rows.append((mark, number, name, strand.state, strand.since, strand.wait, strand.site))
        sinew_table(rows)
        gdb.write(sinew_count(found, len(found) - len(shown)))


def sinew_count(strands, hidden):
    counts = []
    for name in SINEW_KINDS:
        number = sum(strand.kind.name == name for strand in strands)
        plural = {"mailbox": "mailboxes"}.get(name, f"{name}s") if number != 1 else name
        if number:
            counts.append(f"{number} {plural}")
    more = f", of which {hidden} idle not shown (info fibres idle)" if hidden else ""
    return f"{', '.join(counts) or 'none'}{more}\n"


def sinew_table(rows):
    # A long cell does not make the column wide for all.
    widest = [2, 18, 44, 8, 10, 60]
    widths = [min(most, max(len(row[column]) for row in rows)) for column, most in enumerate(widest)]
    for row in rows:
        gdb.write("  ".join([cell.ljust(width) for cell, width in zip(row, widths)] + [row[-1]]).rstrip() + "\n")


def sinew_describe(strand):
    """Prints what is known of a strand."""
    memory, description = strand.memory, strand.memory.description
    since = strand.since
    gdb.write(f"{strand.label}: {strand.state}{f' for {since}' if since else ''}\n")
    site, cluster = strand.site, strand.get("strand.cluster")
    bound = strand.get("strand.bound", 1)
    lines = [("waits for" if strand.is_stopped else "runs", strand.wait), ("spawned at", site)]
    name = sinew_text(*(sinew_word(cluster + description[f"cluster.{part}"]) for part in ("name", "name_length")))
    if bound & (description["bound.started"] | description["bound.pinned"]):
        index = memory.post(strand.get("strand.post"), "post.index", 2)
        name += f", bound to processor {index}" + (", pinned" if bound & description["bound.pinned"] else "")
    lines.append(("cluster", name))
    lines.append(("priority", description.named("priority.").get(strand.get("strand.priority", 1), "")))
    if strand.kind.name == "fibre":
        lines.append(("cancelled", "yes" if strand.get("fibre.cancel", 4) else ""))
        carries = strand.get("fibre.carries", 1)
        is_timed = carries == description["carries.timed"]
        lines.append(("deadline", "yes" if carries and not is_timed else ""))
        lines.append(("time limit", "yes" if is_timed and strand.is_stopped else ""))
        mailbox = memory.by_address.get(strand.carried)
        lines.append(("carries", mailbox.label if mailbox else ""))
        scope = strand.get("fibre.scope")
        lines.append(("scope", f"{scope + 16:#x}" if scope else ""))
        stack = memory.stack(strand)
        if stack is not None:
            size = f"{(stack.top - stack.bottom + 4095) // 4096 * 4} KiB"
            used = "" if strand.state == "running" else f", {stack.top - stack.pointer} bytes in use"
            lines.append(("stack", f"{stack.bottom:#x}-{stack.top:#x}, {size}{used}"))
    lines.append(("address", f"{strand.address:#x}"))
    for name, value in lines:
        if value:
            gdb.write(f"  {name:<11} {value}\n")


class SinewFibre(gdb.Command):
    """Show a fibre, and make gdb show its stack in place of that of the selected thread.
Usage: fibre                       show which fibre is chosen
       fibre ID                    show the fibre and choose it
       fibre ID COMMAND            run a command on the fibre's stack, for example `fibre 7 bt'
       fibre apply WORD... COMMAND run a command for each of several fibres; see `help fibre apply'
       fibre groups [WORD]...      show fibres with the same backtrace together
       fibre none                  choose none: gdb shows the thread's own stack again
ID is the number or the name of a fibre in `info fibres', or the address of a task or a mailbox, which has no stack.
While a fibre is chosen, `bt', `up', `down', `frame', `info locals' and `print' work on its stack. The registers of
the thread stay as they are. When the program goes on, no fibre is chosen any more. A fibre that runs is shown by its
thread. `bt -no-filters' shows all frames, those of the thread and of the runtime too.
A core file that the kernel has written has all stacks. `gcore' does not get over guard pages, unless the program was
started with SINEW_WITHOUT=madvise-guards in its environment."""

    def __init__(self):
        super().__init__("fibre", gdb.COMMAND_STACK, prefix=True)

    def complete(self, text, word):
        return sinew_completions(word, ["apply", "groups", "none", *SinewWords.names()])

    def invoke(self, text, from_tty):
        which, _, command = text.strip().partition(" ")
        if which[:1] in ("'", '"') and which[:1] in text.strip()[1:]:
            which, _, command = text.strip()[1:].partition(which[:1])
        if not which:
            chosen = SinewSession.chosen
            gdb.write(f"{chosen.strand.label} is chosen.\n" if chosen else "No fibre is chosen.\n")
        elif which == "none":
            SinewSession.choose(None)
        elif command.strip():
            sinew_run_on([SinewSession.strands().find(which)], command.strip(), False)
        else:
            strand = SinewSession.strands().find(which)
            sinew_describe(strand)
            if strand.has_stack:
                SinewSession.choose(strand)
                gdb.execute("frame")


def sinew_thread(strand):
    """Returns gdb's thread for the one that runs `strand`."""
    number = strand.memory.running.get(strand.place, 0)
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == number:
            return thread
    raise gdb.GdbError(f"{strand.label} runs on thread {number}, which gdb does not know.")


def sinew_run_on(strands, command, has_titles):
    """Runs a command on the stack of each strand."""

    def run(strand):
        gdb.execute(command)

    sinew_on(strands, run, has_titles)


def sinew_on(strands, action, has_titles):
    """Calls `action` while gdb shows the stack of each strand, then lets it show what it showed before.

    With titles, a strand that cannot be shown does not end it."""
    thread, chosen = gdb.selected_thread(), SinewSession.chosen
    # Frames of the stack that is shown now: this one is selected again at the end.
    depth, frame = 0, gdb.selected_frame()
    while frame.newer() is not None:
        depth, frame = depth + 1, frame.newer()
    try:
        for strand in strands:
            if has_titles:
                since = strand.since
                gdb.write(f"\n{strand.label}: {strand.state}{f' for {since}' if since else ''}")
                gdb.write(f", {strand.wait}\n" if strand.wait else "\n")
            try:
                if gdb.selected_thread() != thread:
                    thread.switch()
                SinewSession.choose(strand)
                action(strand)
            except (gdb.error, gdb.GdbError) as error:
                if not has_titles:
                    raise
                gdb.write(f"{error}\n")
    finally:
        # The command may have let the program go on.
        if thread.is_valid():
            thread.switch()
            still = SinewSession.memory is not None
            SinewSession.choose(chosen.strand if chosen and still else None)
            frame = gdb.newest_frame()
            while still and depth and frame.older() is not None:
                depth, frame = depth - 1, frame.older()
            frame.select()


class SinewFibreApply(gdb.Command):
    """Run a command on the stacks of several fibres.
Usage: fibre apply WORD... COMMAND
The words are those of `info fibres', but names are whole ones, or parts with `name:' before them. The command begins
with the first word that is none of these: `fibre apply all bt', `fibre apply mutex bt 5', `fibre apply 3-9 there up'.
Fibres without a stack are left out."""

    def __init__(self):
        super().__init__("fibre apply", gdb.COMMAND_STACK)

    def complete(self, text, word):
        return SinewWords.complete(word)

    def invoke(self, text, from_tty):
        memory = SinewSession.strands()
        words = text.split()
        known = {*SINEW_KINDS, *SINEW_STATES, *memory.reasons.values(), "all"}
        names = {strand.name for strand in memory.by_id.values()}
        number = 0
        while number < len(words) and (
            words[number] in known
            or words[number] in names
            or re.fullmatch(r"\d+(-\d+)?|name:.*", words[number])
        ):
            number += 1
        if number == 0 or number == len(words):
            raise gdb.GdbError("Say which fibres, and a command: fibre apply all bt")
        wanted = SinewWords(memory, " ".join(words[:number]))
        strands = [
            strand
            for strand in memory.by_id.values()
            if wanted.has(strand) and strand.has_stack
        ]
        sinew_run_on(strands, " ".join(words[number:]), True)


class SinewFibreGroups(gdb.Command):
    """Show fibres that do not run, those with the same backtrace together.
Usage: fibre groups [WORD]...
The largest group comes first. The words are those of `info fibres'."""

    def __init__(self):
        super().__init__("fibre groups", gdb.COMMAND_STACK)

    def complete(self, text, word):
        return SinewWords.complete(word)

    def invoke(self, text, from_tty):
        memory = SinewSession.strands()
        wanted = SinewWords(memory, text)
        # gdb takes long to walk a stack. So it walks one of those that look alike.
        alike = {}
        for strand in memory.by_id.values():
            if strand.has_stack and strand.state != "running" and wanted.has(strand):
                alike.setdefault(self.look(memory, memory.stack(strand)), []).append(strand)
        alike.pop(None, None)
        alike = {strands[0].address: strands for strands in alike.values()}
        groups = {}

        def walk(strand):
            frames = SinewSession.chosen.trim(sinew_frames(), lambda frame: frame)
            groups.setdefault(tuple((frame.pc(), frame.name()) for frame in frames), []).extend(alike[strand.address])

        def show(strand):
            strands = alike[strand.address]
            some = [f"{strand.id} '{strand.name}'" if strand.name else str(strand.id) for strand in strands]
            reasons = sorted({strand.reason or strand.state for strand in strands})
            gdb.write(f"\n{sinew_some(some, 'fibre')}: {', '.join(reasons)}\n")
            gdb.execute("backtrace")

        sinew_on([strands[0] for strands in alike.values()], walk, False)
        alike = {strands[0].address: strands for strands in sorted(groups.values(), key=len, reverse=True)}
        sinew_on([strands[0] for strands in alike.values()], show, False)

    @staticmethod
    def look(memory, stack):
        """Returns what is the same for stacks that are alike: where calls return to, and words that look like it."""
        if stack is None:
            return None
        first, last = memory.code()
        length = stack.last_sp - stack.pointer
        words = sinew_words(stack.pointer, length // 8)
        return length, tuple([word for word in words if first <= word < last])


def sinew_register():
    SinewFilter()
    gdb.unwinder.register_unwinder(None, SinewUnwinder(), replace=True)
    for command in (SinewInfoFibres, SinewFibre, SinewFibreApply, SinewFibreGroups):
        command()
    for events in ("cont", "exited", "new_objfile", "memory_changed"):
        getattr(gdb.events, events).connect(SinewSession.forget)


sinew_register()
