//! The bytes of D-Bus messages, as far as talking to systemd needs them.
//!
//! Little-endian throughout when writing; the other order is read too, since the sender chooses.

use super::properties::Property;

/// Largest message taken; the protocol allows 128 MiB, systemd's answers here are tiny.
pub(super) const LONGEST: usize = 1 << 20;

/// Kinds of message.
pub(super) const CALL: u8 = 1;
pub(super) const RETURN: u8 = 2;
pub(super) const ERROR: u8 = 3;
pub(super) const SIGNAL: u8 = 4;

/// Header fields.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

/// A value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// `s`
    Text(String),
    /// `b`
    Flag(bool),
    /// `t`
    Number(u64),
    /// `au`
    Words(Vec<u32>),
    /// `ay`
    Bytes(Vec<u8>),
    /// `a(ss)`
    Pairs(Vec<(String, String)>),
}

impl Value {
    fn signature(&self) -> &'static str {
        match self {
            Self::Text(_) => "s",
            Self::Flag(_) => "b",
            Self::Number(_) => "t",
            Self::Words(_) => "au",
            Self::Bytes(_) => "ay",
            Self::Pairs(_) => "a(ss)",
        }
    }
}

/// A message being written.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn word(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.word(u32::from(value));
    }

    pub(super) fn string(&mut self, text: &str) {
        self.word(length(text.len()));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    /// An array; its length counts neither itself nor the gap before the first element.
    fn array(&mut self, align: usize, fill: impl FnOnce(&mut Self)) {
        self.word(0);
        let at = self.0.len() - 4;
        self.align(align);
        let start = self.0.len();
        fill(self);
        let len = length(self.0.len() - start);
        self.0[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    fn value(&mut self, value: &Value) {
        self.signature(value.signature());
        match value {
            Value::Text(text) => self.string(text),
            Value::Flag(flag) => self.boolean(*flag),
            Value::Number(number) => {
                self.align(8);
                self.0.extend(number.to_le_bytes());
            }
            Value::Words(words) => self.array(4, |array| words.iter().for_each(|word| array.word(*word))),
            Value::Bytes(bytes) => self.array(1, |array| array.0.extend(bytes)),
            Value::Pairs(pairs) => self.array(8, |array| {
                for (first, second) in pairs {
                    array.align(8);
                    array.string(first);
                    array.string(second);
                }
            }),
        }
    }

    /// `a(sv)`
    pub(super) fn properties(&mut self, list: &[Property]) {
        self.array(8, |array| {
            for (name, value) in list {
                array.align(8);
                array.string(name);
                array.value(value);
            }
        });
    }

    /// An empty `a(sa(sv))`.
    pub(super) fn no_auxiliary_units(&mut self) {
        self.array(8, |_| {});
    }

    fn field(&mut self, code: u8, signature: &str, text: &str) {
        self.align(8);
        self.0.push(code);
        self.signature(signature);
        if signature == "g" { self.signature(text) } else { self.string(text) }
    }
}

fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Writes a message's body.
pub(super) fn body(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    fill(&mut writer);
    writer.0
}

/// Where a call goes.
pub(super) struct Target<'a> {
    pub(super) destination: Option<&'a str>,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
}

/// A method call.
pub(super) fn call(serial: u32, target: &Target<'_>, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut writer = Writer(vec![b'l', CALL, 0, 1]);
    writer.word(length(body.len()));
    writer.word(serial);
    writer.array(8, |fields| {
        fields.field(PATH, "o", target.path);
        fields.field(INTERFACE, "s", target.interface);
        fields.field(MEMBER, "s", target.member);
        if let Some(destination) = target.destination {
            fields.field(DESTINATION, "s", destination);
        }
        if !signature.is_empty() {
            fields.field(SIGNATURE, "g", signature);
        }
    });
    writer.align(8);
    writer.0.extend(body);
    writer.0
}

/// A message that came.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) reply_to: Option<u32>,
    pub(super) member: String,
    pub(super) error: String,
    pub(super) signature: String,
    pub(super) body: Vec<u8>,
    big: bool,
}

/// Reads little by little; every step checks its bounds.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
}

impl<'a> Reader<'a> {
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let slice = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(slice)
    }

    pub(super) fn word(&mut self) -> Option<u32> {
        self.align(4);
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// A string or an object path.
    pub(super) fn string(&mut self) -> Option<String> {
        let len = usize::try_from(self.word()?).ok()?;
        let text = String::from_utf8(self.take(len)?.to_vec()).ok()?;
        self.take(1)?;
        Some(text)
    }

    /// The signature of a variant, which stands before its value.
    pub(super) fn signature(&mut self) -> Option<String> {
        let len = usize::from(*self.take(1)?.first()?);
        let text = String::from_utf8(self.take(len)?.to_vec()).ok()?;
        self.take(1)?;
        Some(text)
    }
}

impl Message {
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { bytes: &self.body, at: 0, big: self.big }
    }
}

/// How long the message is that begins with these 16 bytes.
pub(super) fn message_len(head: &[u8; 16]) -> Option<usize> {
    let mut reader = Reader { bytes: head, at: 4, big: big_endian(head[0])? };
    let body = usize::try_from(reader.word()?).ok()?;
    reader.word()?;
    let fields = usize::try_from(reader.word()?).ok()?;
    let len = 16usize.checked_add(fields)?.checked_next_multiple_of(8)?.checked_add(body)?;
    (len <= LONGEST).then_some(len)
}

/// Reads a whole message.
pub(super) fn parse(bytes: &[u8]) -> Option<Message> {
    let big = big_endian(*bytes.first()?)?;
    let mut reader = Reader { bytes, at: 12, big };
    let mut message = Message { kind: *bytes.get(1)?, big, ..Message::default() };
    let end = usize::try_from(reader.word()?).ok()?.checked_add(16)?;
    while reader.at < end {
        reader.align(8);
        let code = *reader.take(1)?.first()?;
        let signature = reader.signature()?;
        match (code, signature.as_str()) {
            (REPLY_SERIAL, "u") => message.reply_to = Some(reader.word()?),
            (MEMBER, "s") => message.member = reader.string()?,
            (ERROR_NAME, "s") => message.error = reader.string()?,
            (SIGNATURE, "g") => message.signature = reader.signature()?,
            (_, "s" | "o") => drop(reader.string()?),
            (_, "g") => drop(reader.signature()?),
            (_, "u") => drop(reader.word()?),
            _ => return None,
        }
    }
    reader.align(8);
    message.body = bytes.get(reader.at..)?.to_vec();
    Some(message)
}

fn big_endian(mark: u8) -> Option<bool> {
    match mark {
        b'l' => Some(false),
        b'B' => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TARGET: Target<'static> =
        Target { destination: Some("d.d"), path: "/p", interface: "i.i", member: "Member" };

    #[test]
    fn a_call_has_the_bytes_of_the_specification() {
        let body = body(|body| body.string("x"));
        let bytes = call(7, &TARGET, "s", &body);
        let head: [u8; 16] = bytes[..16].try_into().unwrap();
        assert_eq!(&head[..12], b"l\x01\0\x01\x06\0\0\0\x07\0\0\0");
        assert_eq!(&bytes[16..16 + 4], b"\x01\x01o\0");
        assert_eq!(message_len(&head), Some(bytes.len()));
        assert_eq!(&bytes[bytes.len() - 6..], b"\x01\0\0\0x\0");
        let message = parse(&bytes).unwrap();
        assert_eq!(
            (message.kind, message.member.as_str(), message.signature.as_str()),
            (CALL, "Member", "s")
        );
        assert_eq!(message.reader().string().unwrap(), "x");
    }

    #[test]
    fn properties_are_aligned() {
        let list = [("N", Value::Number(1)), ("P", Value::Words(vec![5])), ("Q", Value::Pairs(vec![]))];
        let bytes = body(|body| body.properties(&list));
        let want: Vec<u8> = [
            // Length of the array, gap to 8.
            &[56, 0, 0, 0, 0, 0, 0, 0][..],
            // "N", its variant of `t` on a boundary of 8.
            &[1, 0, 0, 0, b'N', 0, 1, b't', 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
            // "P", an array of one word.
            &[1, 0, 0, 0, b'P', 0, 2, b'a', b'u', 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(bytes[8..56], want[8..56]);
        assert_eq!(usize::from(bytes[0]), bytes.len() - 8);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_fail(bytes in prop::collection::vec(any::<u8>(), 16..200), whole in any::<bool>()) {
            let mut bytes = bytes;
            if whole {
                bytes[0] = b'l';
            }
            let head: [u8; 16] = bytes[..16].try_into().unwrap();
            let _ = message_len(&head);
            if let Some(message) = parse(&bytes) {
                let mut reader = message.reader();
                let _ = (reader.word(), reader.string());
            }
        }
    }
}
