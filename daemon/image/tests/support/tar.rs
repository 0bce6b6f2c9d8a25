//! Tars written byte by byte, so that a test can say exactly what is wrong with one.
#![allow(dead_code, reason = "shared by several test programs, none of which needs all of it")]

/// A header whose every field can be set.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) size: u64,
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: u64,
    pub(crate) device: (u32, u32),
}

impl Head {
    pub(crate) fn new(name: &str, kind: u8) -> Self {
        let (name, link) = (name.into(), Vec::new());
        Self { name, kind, size: 0, link, mode: 0o644, uid: 0, gid: 0, mtime: 1_000_000, device: (0, 0) }
    }

    pub(crate) fn link(mut self, link: &str) -> Self {
        self.link = link.into();
        self
    }

    pub(crate) fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    pub(crate) fn owner(mut self, uid: u64, gid: u64) -> Self {
        (self.uid, self.gid) = (uid, gid);
        self
    }

    pub(crate) fn mtime(mut self, mtime: u64) -> Self {
        self.mtime = mtime;
        self
    }

    pub(crate) fn device(mut self, major: u32, minor: u32) -> Self {
        self.device = (major, minor);
        self
    }

    pub(crate) fn size(mut self, size: u64) -> Self {
        self.size = size;
        self
    }

    pub(crate) fn block(&self) -> [u8; 512] {
        let mut block = [0u8; 512];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, &self.name[..self.name.len().min(100)]);
        put(100, format!("{:07o}\0", self.mode).as_bytes());
        put(108, &number(self.uid, 8));
        put(116, &number(self.gid, 8));
        put(124, &number(self.size, 12));
        put(136, &number(self.mtime, 12));
        put(156, &[self.kind]);
        put(157, &self.link[..self.link.len().min(100)]);
        put(257, b"ustar\x0000");
        put(329, format!("{:07o}\0", self.device.0).as_bytes());
        put(337, format!("{:07o}\0", self.device.1).as_bytes());
        seal(&mut block);
        block
    }
}

/// Octal while it fits, else base-256.
fn number(value: u64, width: usize) -> Vec<u8> {
    let octal = format!("{value:0width$o}\0", width = width - 1);
    if octal.len() == width {
        return octal.into_bytes();
    }
    let mut bytes = vec![0u8; width];
    bytes[width - 8..].copy_from_slice(&value.to_be_bytes());
    bytes[0] |= 0x80;
    bytes
}

/// Puts the checksum in.
pub(crate) fn seal(block: &mut [u8; 512]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A tar being written.
#[derive(Default, Clone)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn head(mut self, head: &Head) -> Self {
        self.0.extend_from_slice(&head.block());
        self
    }

    pub(crate) fn raw(mut self, data: &[u8]) -> Self {
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn with(self, head: Head, data: &[u8]) -> Self {
        let head = head.size(data.len() as u64);
        self.head(&head).raw(data)
    }

    pub(crate) fn file(self, name: &str, data: &str) -> Self {
        self.with(Head::new(name, b'0'), data.as_bytes())
    }

    pub(crate) fn dir(self, name: &str) -> Self {
        self.head(&Head::new(name, b'5').mode(0o755))
    }

    pub(crate) fn symlink(self, name: &str, to: &str) -> Self {
        self.head(&Head::new(name, b'2').link(to).mode(0o777))
    }

    pub(crate) fn hardlink(self, name: &str, to: &str) -> Self {
        self.head(&Head::new(name, b'1').link(to))
    }

    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut body = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let mut length = rest + rest.to_string().len();
            if rest + length.to_string().len() != length {
                length = rest + length.to_string().len();
            }
            body.extend_from_slice(format!("{length} {key}=").as_bytes());
            body.extend_from_slice(value);
            body.push(b'\n');
        }
        self.with(Head::new("PaxHeaders/x", b'x'), &body)
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}
