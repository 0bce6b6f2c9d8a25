//! Images that several tests, the demo and the benchmarks use.

use crate::image::{Image, ImageBuilder, Layer};
use crate::paths;
use serde_json::json;

/// Applets that tests call, each a symbolic link to busybox.
const APPLETS: &str = "sh cat echo ls sleep true false env id ps kill grep wc httpd wget nc mkdir rm touch \
    dd head tail mount umount ip ifconfig hostname stat printf test date seq yes awk sed tr cut sort \
    chmod chown ln cp mv pwd nproc free top find xargs du df uname usleep mkfifo mknod unshare readlink tee sync";

/// The layer with a static busybox, its applets and the usual files of /etc.
pub fn busybox_layer() -> anyhow::Result<Layer> {
    let program = std::fs::read(paths::package_file("busybox-static", "bin/busybox")?)?;
    let mut layer = Layer::new()
        .dir("bin", 0o755)
        .file("bin/busybox", 0o755, program)
        .dir("etc", 0o755)
        .file("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n")
        .file("etc/group", 0o644, "root:x:0:\nwww-data:x:33:\nstaff:x:50:www-data\n")
        .dir("root", 0o700)
        .dir("tmp", 0o1777)
        .dir("run", 0o755)
        .dir("var", 0o755)
        .symlink("var/run", "/run");
    for applet in APPLETS.split_whitespace() {
        layer = layer.symlink(&format!("bin/{applet}"), "busybox");
    }
    Ok(layer)
}

/// Busybox alone.
pub fn busybox() -> anyhow::Result<Image> {
    Ok(ImageBuilder::new().layer(busybox_layer()?).config("Cmd", json!(["sh"])).build())
}

/// Busybox serving one page on port 80, in two layers.
pub fn web(page: &str) -> anyhow::Result<Image> {
    let content = Layer::new().dir("www", 0o755).file("www/index.html", 0o644, page);
    let serve = json!(["httpd", "-f", "-v", "-p", "80", "-h", "/www"]);
    let builder = ImageBuilder::new().layer(busybox_layer()?).layer(content);
    Ok(builder.config("Entrypoint", serve).config("WorkingDir", json!("/www")).build())
}

/// The program that other runtimes keep in every pod: it waits for signals, in 141 bytes.
pub fn pause() -> Image {
    let layer = Layer::new().file("pause", 0o755, pause_program());
    let builder = ImageBuilder::new().layer(layer).config("Entrypoint", json!(["/pause"]));
    builder.config("User", json!("65535:65535")).build()
}

/// A static ELF program for x86-64: `loop { pause() }`.
fn pause_program() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    // mov eax, 34 (pause); syscall; jmp back to the first.
    let code = [0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7];
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
    // One segment: readable and executable, the whole file.
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
    use super::pause_program;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    #[test]
    fn the_pause_program_runs_and_waits() {
        let path = std::env::temp_dir().join(format!("berth-e2e-pause-{}", std::process::id()));
        std::fs::write(&path, pause_program()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = std::process::Command::new(&path).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(ended.is_none(), "{ended:?}");
    }
}
