//! Programs of a few bytes, as static ELF files for x86-64 that need nothing of an image.

/// The program that other runtimes keep in every pod: `loop { pause() }`.
pub(super) fn pause() -> Vec<u8> {
    // mov eax, 34 (pause); syscall; jmp back to the first.
    elf(&[0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7])
}

/// Prints `Effective uid: N`. Its source:
///
/// ```text
///     mov eax, 107; syscall                               geteuid
///     sub rsp, 32; lea r8, [rsp+31]; mov byte [r8], 10    the number is written from behind
///     mov ecx, 10
/// 1:  xor edx, edx; div ecx; add dl, '0'; dec r8; mov [r8], dl; test eax, eax; jnz 1b
///     write(1, text, 15); write(1, r8, rsp + 32 - r8); exit(0)
/// ```
pub(super) fn effective_uid() -> Vec<u8> {
    const CODE: [u8; 98] = [
        0xb8, 0x6b, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x48, 0x83, 0xec, 0x20, 0x4c, 0x8d, 0x44, 0x24, 0x1f, 0x41,
        0xc6, 0x00, 0x0a, 0xb9, 0x0a, 0x00, 0x00, 0x00, 0x31, 0xd2, 0xf7, 0xf1, 0x80, 0xc2, 0x30, 0x49, 0xff,
        0xc8, 0x41, 0x88, 0x10, 0x85, 0xc0, 0x75, 0xef, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xbf, 0x01, 0x00, 0x00,
        0x00, 0x48, 0x8d, 0x35, 0x27, 0x00, 0x00, 0x00, 0xba, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05, 0xb8, 0x01,
        0x00, 0x00, 0x00, 0xbf, 0x01, 0x00, 0x00, 0x00, 0x4c, 0x89, 0xc6, 0x48, 0x8d, 0x54, 0x24, 0x20, 0x4c,
        0x29, 0xc2, 0x0f, 0x05, 0xb8, 0x3c, 0x00, 0x00, 0x00, 0x31, 0xff, 0x0f, 0x05,
    ];
    elf(&[&CODE[..], b"Effective uid: "].concat())
}

/// An executable of one segment, readable and executable, entered at its first byte.
fn elf(code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [2_u16, 62] {
        elf.extend(half.to_le_bytes());
    }
    elf.extend(1_u32.to_le_bytes());
    for long in [BASE + HEADERS, 64, 0] {
        elf.extend(long.to_le_bytes());
    }
    elf.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        elf.extend(half.to_le_bytes());
    }
    for word in [1_u32, 5] {
        elf.extend(word.to_le_bytes());
    }
    for long in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(long.to_le_bytes());
    }
    elf.extend(code);
    elf
}

#[cfg(test)]
mod tests {
    use super::{effective_uid, pause};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Duration;

    fn written(name: &str, program: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("berth-e2e-{name}-{}", std::process::id()));
        std::fs::write(&path, program).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn pause_runs_and_waits() {
        let path = written("pause", &pause());
        let mut child = Command::new(&path).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(ended.is_none(), "{ended:?}");
    }

    #[test]
    fn effective_uid_is_told() {
        let path = written("euid", &effective_uid());
        let output = Command::new(&path).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("Effective uid: {uid}\n"));
    }
}
