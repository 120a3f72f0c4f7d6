//! Writes a trace in Perfetto's format: protobuf messages, of which few fields are needed.

/// The numbers of fields in Perfetto's `.proto` files.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;

    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE: u32 = 10;
    pub(super) const PACKET_EVENT: u32 = 11;
    pub(super) const PACKET_TRACK: u32 = 60;

    pub(super) const TRACK_UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const TRACK_PROCESS: u32 = 3;
    pub(super) const TRACK_THREAD: u32 = 4;
    pub(super) const TRACK_PARENT: u32 = 5;

    pub(super) const PROCESS_PID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;

    pub(super) const THREAD_PID: u32 = 1;
    pub(super) const THREAD_TID: u32 = 2;
    pub(super) const THREAD_NAME: u32 = 5;

    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_NAME: u32 = 23;
    pub(super) const EVENT_FLOW: u32 = 47;
    pub(super) const EVENT_FLOW_END: u32 = 48;

    pub(super) const ANNOTATION_NUMBER: u32 = 3;
    pub(super) const ANNOTATION_TEXT: u32 = 6;
    pub(super) const ANNOTATION_ADDRESS: u32 = 7;
    pub(super) const ANNOTATION_NAME: u32 = 10;
}

/// The only sequence of packets. Its number has no meaning.
const SEQUENCE: u64 = 1;

/// A protobuf message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn fixed(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }
}

/// The kind of a track.
pub(super) enum Kind {
    Process,
    /// A kernel thread of this number.
    Thread(u32),
    /// A part of the process that the kernel does not know.
    Own,
}

/// A track: a row of the picture.
pub(super) struct Track<'a> {
    pub(super) number: u64,
    pub(super) name: &'a str,
    pub(super) kind: Kind,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// A value that is shown with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    Address(u64),
    Text(String),
}

/// Something that happened on a track.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) ns: u64,
    pub(super) track: u64,
    pub(super) kind: Type,
    /// Not for ends.
    pub(super) name: String,
    pub(super) values: Vec<(&'static str, Value)>,
    /// An arrow that leaves here.
    pub(super) flow: Option<u64>,
    /// Arrows that end here.
    pub(super) ended_flow: Option<u64>,
}

/// A trace that is being written.
pub(super) struct Writer {
    trace: Message,
    pid: u32,
    process: u64,
}

impl Writer {
    /// Begins the trace of a process. Its track has the number `process`.
    pub(super) fn new(pid: u32, process: u64) -> Writer {
        Writer { trace: Message::default(), pid, process }
    }

    pub(super) fn track(&mut self, track: &Track<'_>) {
        let mut descriptor = Message::default();
        descriptor.number(field::TRACK_UUID, track.number);
        match track.kind {
            Kind::Process => {
                let mut process = Message::default();
                process.number(field::PROCESS_PID, u64::from(self.pid));
                process.text(field::PROCESS_NAME, track.name);
                descriptor.message(field::TRACK_PROCESS, &process);
            }
            Kind::Thread(tid) => {
                let mut thread = Message::default();
                thread.number(field::THREAD_PID, u64::from(self.pid));
                thread.number(field::THREAD_TID, u64::from(tid));
                thread.text(field::THREAD_NAME, track.name);
                descriptor.number(field::TRACK_PARENT, self.process);
                descriptor.message(field::TRACK_THREAD, &thread);
            }
            Kind::Own => {
                descriptor.number(field::TRACK_PARENT, self.process);
                descriptor.text(field::TRACK_NAME, track.name);
            }
        }
        let mut packet = Message::default();
        packet.number(field::PACKET_SEQUENCE, SEQUENCE);
        packet.message(field::PACKET_TRACK, &descriptor);
        self.trace.message(field::TRACE_PACKET, &packet);
    }

    pub(super) fn event(&mut self, event: &Event) {
        let mut own = Message::default();
        own.number(field::EVENT_TYPE, event.kind as u64);
        own.number(field::EVENT_TRACK, event.track);
        if event.kind != Type::End {
            own.text(field::EVENT_NAME, &event.name);
        }
        for (name, value) in &event.values {
            let mut annotation = Message::default();
            annotation.text(field::ANNOTATION_NAME, name);
            match value {
                Value::Number(number) => annotation.number(field::ANNOTATION_NUMBER, *number),
                Value::Address(address) => annotation.number(field::ANNOTATION_ADDRESS, *address),
                Value::Text(text) => annotation.text(field::ANNOTATION_TEXT, text),
            }
            own.message(field::EVENT_ANNOTATION, &annotation);
        }
        if let Some(flow) = event.flow {
            own.fixed(field::EVENT_FLOW, flow);
        }
        if let Some(flow) = event.ended_flow {
            own.fixed(field::EVENT_FLOW_END, flow);
        }
        let mut packet = Message::default();
        packet.number(field::PACKET_TIMESTAMP, event.ns);
        packet.number(field::PACKET_SEQUENCE, SEQUENCE);
        packet.message(field::PACKET_EVENT, &own);
        self.trace.message(field::TRACE_PACKET, &packet);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.trace.0
    }
}
