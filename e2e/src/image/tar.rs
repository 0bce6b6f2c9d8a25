//! A tar writer that writes what it is told, hostile names included: a library would refuse to.

/// What an entry is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A regular file with its content.
    File(Vec<u8>),
    /// A directory.
    Dir,
    /// A symbolic link to a text.
    Symlink(String),
    /// A hard link to an earlier path.
    Hardlink(String),
    /// A character device.
    Char(u32, u32),
    /// A named pipe.
    Fifo,
}

/// One entry of an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its path exactly as written, `..` and leading `/` included.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Seconds since 1970.
    pub mtime: u64,
    /// Extended attributes.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

impl Entry {
    /// An entry of root's, with the usual mode for its kind.
    pub fn new(path: &str, kind: Kind) -> Self {
        let mode = match kind {
            Kind::Dir => 0o755,
            Kind::Symlink(_) => 0o777,
            _ => 0o644,
        };
        let path = path.to_owned();
        Self { path, kind, mode, uid: 0, gid: 0, mtime: 1_700_000_000, xattrs: Vec::new() }
    }

    /// With these permission bits.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// With this owner and group.
    #[must_use]
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        (self.uid, self.gid) = (uid, gid);
        self
    }
}

/// The archive of some entries, with its end marker.
pub fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        write_entry(&mut out, entry);
    }
    out.extend_from_slice(&[0; 1024]);
    out
}

fn write_entry(out: &mut Vec<u8>, entry: &Entry) {
    let (flag, link, data): (u8, &str, &[u8]) = match &entry.kind {
        Kind::File(data) => (b'0', "", data),
        Kind::Hardlink(target) => (b'1', target, &[]),
        Kind::Symlink(target) => (b'2', target, &[]),
        Kind::Char(..) => (b'3', "", &[]),
        Kind::Dir => (b'5', "", &[]),
        Kind::Fifo => (b'6', "", &[]),
    };
    let records = extended(entry, link);
    if !records.is_empty() {
        let pax = Entry::new("pax", Kind::File(records.clone()));
        out.extend_from_slice(&header(&pax, b'x', "", records.len()));
        padded(out, &records);
    }
    out.extend_from_slice(&header(entry, flag, link, data.len()));
    padded(out, data);
}

/// Pax records for what a ustar header cannot hold.
fn extended(entry: &Entry, link: &str) -> Vec<u8> {
    let mut records = Vec::new();
    if entry.path.len() > 100 {
        record(&mut records, "path", entry.path.as_bytes());
    }
    if link.len() > 100 {
        record(&mut records, "linkpath", link.as_bytes());
    }
    for (name, value) in &entry.xattrs {
        record(&mut records, &format!("SCHILY.xattr.{name}"), value);
    }
    records
}

/// `<length> key=value\n`, where the length counts itself.
fn record(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(format!("{length} {key}=").as_bytes());
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn header(entry: &Entry, flag: u8, link: &str, size: usize) -> [u8; 512] {
    let mut block = [0; 512];
    put(&mut block[0..100], entry.path.as_bytes());
    octal(&mut block[100..108], u64::from(entry.mode));
    octal(&mut block[108..116], u64::from(entry.uid));
    octal(&mut block[116..124], u64::from(entry.gid));
    octal(&mut block[124..136], size as u64);
    octal(&mut block[136..148], entry.mtime);
    block[156] = flag;
    put(&mut block[157..257], link.as_bytes());
    put(&mut block[257..265], b"ustar\x0000");
    if let Kind::Char(major, minor) = entry.kind {
        octal(&mut block[329..337], u64::from(major));
        octal(&mut block[337..345], u64::from(minor));
    }
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
    block
}

fn put(field: &mut [u8], bytes: &[u8]) {
    let length = bytes.len().min(field.len());
    field[..length].copy_from_slice(&bytes[..length]);
}

fn octal(field: &mut [u8], value: u64) {
    let width = field.len() - 1;
    put(&mut field[..width], format!("{value:0width$o}").as_bytes());
    field[width] = 0;
}

fn padded(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(512), 0);
}

#[cfg(test)]
mod tests {
    use super::{Entry, Kind, archive};
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// What the system's tar says of an archive.
    fn listed(entries: &[Entry]) -> String {
        let mut tar = Command::new("tar")
            .args(["-tvf", "-", "--numeric-owner", "-P", "--utc"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        tar.stdin.take().unwrap().write_all(&archive(entries)).unwrap();
        let output = tar.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn tar_reads_what_was_written() {
        let long = format!("a/{}", "x".repeat(150));
        let text = listed(&[
            Entry::new("a", Kind::Dir).mode(0o1777),
            Entry::new("a/f", Kind::File(b"12345".to_vec())).owner(33, 44),
            Entry::new("a/l", Kind::Symlink("../../etc".into())),
            Entry::new("a/h", Kind::Hardlink("a/f".into())),
            Entry::new("/../x", Kind::Char(1, 3)),
            Entry::new(&long, Kind::File(vec![7; 513])),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(lines[0].starts_with("drwxrwxrwt 0/0"), "{text}");
        assert!(lines[1].starts_with("-rw-r--r-- 33/44") && lines[1].contains(" 5 "), "{text}");
        assert!(lines[2].ends_with("a/l -> ../../etc"), "{text}");
        assert!(lines[3].ends_with("a/h link to a/f"), "{text}");
        assert!(lines[4].starts_with("crw") && lines[4].ends_with("/../x"), "{text}");
        assert!(lines[5].contains(" 513 ") && lines[5].ends_with(&long), "{text}");
    }
}
