//! Images that several tests, the demo and the benchmarks use.

pub mod critest;
mod host;
mod program;

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

/// The image that other runtimes keep in every pod: a program that waits for signals.
pub fn pause() -> Image {
    let layer = Layer::new().file("pause", 0o755, program::pause());
    let builder = ImageBuilder::new().layer(layer).config("Entrypoint", json!(["/pause"]));
    builder.config("User", json!("65535:65535")).build()
}
