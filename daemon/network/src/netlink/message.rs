//! Building and reading netlink messages.

/// Length of `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;
/// The request asks the kernel.
pub(crate) const REQUEST: u16 = 0x1;
/// The kernel shall say how it went.
pub(crate) const ACK: u16 = 0x4;
/// List everything.
pub(crate) const DUMP: u16 = 0x300;
/// Fail if it exists.
pub(crate) const EXCL: u16 = 0x200;
/// Make it if missing.
pub(crate) const CREATE: u16 = 0x400;
/// Put it at the end (nftables rules).
pub(crate) const APPEND: u16 = 0x800;
/// The attribute holds attributes.
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;

/// One message under construction.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message of a type with flags and its fixed part.
    pub(crate) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        let mut message = Self { bytes };
        message.pad();
        message
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Adds an attribute.
    pub(crate) fn attr(mut self, kind: u16, value: &[u8]) -> Self {
        // No attribute here comes near 64 KiB: names, addresses and small expressions.
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Adds a NUL-terminated string.
    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// Adds a number in host order (rtnetlink).
    pub(crate) fn u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// Adds a number in network order (nfnetlink).
    pub(crate) fn be32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_be_bytes())
    }

    /// Adds an attribute that holds what `fill` adds.
    pub(crate) fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self = self.attr(kind | NESTED, &[]);
        self = fill(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Adds bytes as they are, between attributes (the second header inside a veth peer).
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// The finished message under a sequence number.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// Attributes alone, without a message around them.
pub(crate) fn attr_bytes(fill: impl FnOnce(Message) -> Message) -> Vec<u8> {
    fill(Message { bytes: Vec::new() }).bytes
}

/// One message that came from the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// Its type.
    pub(crate) kind: u16,
    /// Its flags.
    pub(crate) flags: u16,
    /// The request it answers.
    pub(crate) sequence: u32,
    /// What follows the header.
    pub(crate) body: Vec<u8>,
}

/// Cuts a datagram into messages; what is malformed ends the list.
pub(crate) fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut found = Vec::new();
    while let (Some(length), Some(kind), Some(flags), Some(sequence)) =
        (u32_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6), u32_at(bytes, 8))
    {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(body) = bytes.get(HEADER..length) else { break };
        found.push(Reply { kind, flags, sequence, body: body.to_vec() });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The attributes in a piece of a message.
pub(crate) fn attrs(bytes: &[u8]) -> Attrs<'_> {
    Attrs { bytes }
}

/// Walks over attributes as (type, value).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attrs<'a> {
    bytes: &'a [u8],
}

impl<'a> Attrs<'a> {
    /// The first attribute of a type.
    pub(crate) fn find(mut self, kind: u16) -> Option<&'a [u8]> {
        self.by_ref().find(|(k, _)| *k == kind).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.bytes, 0)?);
        let kind = u16_at(self.bytes, 2)? & TYPE_MASK;
        let value = self.bytes.get(4..length)?;
        self.bytes = self.bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// A number in host order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number in host order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A string without its NUL.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let message = Message::new(16, REQUEST, &[1, 2, 3, 4])
            .text(3, "eth0")
            .nest(18, |m| m.text(1, "veth").be32(2, 7))
            .u32(4, 1500);
        let bytes = message.finish(9);
        let found = replies(&bytes);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind, found[0].sequence), (16, 9));
        let body = attrs(&found[0].body[4..]);
        assert_eq!(text(body.find(3).unwrap()), "eth0");
        assert_eq!(u32_at(body.find(4).unwrap(), 0), Some(1500));
        let inner = attrs(body.find(18).unwrap());
        assert_eq!(text(inner.find(1).unwrap()), "veth");
        assert_eq!(inner.find(2).unwrap(), [0, 0, 0, 7]);
    }

    #[test]
    fn garbage_ends_the_walk() {
        for bytes in [&[][..], &[1][..], &[0; 40][..], &[255; 40][..], &[3, 0, 1, 0][..]] {
            assert!(replies(bytes).len() <= 1);
            assert_eq!(attrs(bytes).take(100).count(), 0, "{bytes:?}");
        }
    }
}
