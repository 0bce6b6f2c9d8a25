//! The images that critest pulls, made from Debian's programs under the names that it uses.

use super::{host, program};
use crate::image::{Entry, Image, ImageBuilder, Kind, Layer};
use crate::paths;
use crate::registry::Registry;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// The hosts in those names; a node's mirrors lead them to one registry.
pub const HOSTS: [&str; 4] = ["registry.k8s.io", "gcr.io", "k8s.gcr.io", "docker.io"];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nbin:x:2:2::/:/bin/sh\n\
    www-data:x:33:33::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n";
const GROUP: &str = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nwww-data:x:33:\nnogroup:x:65534:\n";
const STAGING: &str = "k8s-staging-cri-tools";
const E2E: &str = "e2e-test-images";

/// Serves all of them.
pub fn serve(registry: &Registry) -> anyhow::Result<()> {
    let base = busybox_layer()?;
    let busybox = on(&base, None).build();
    for tag in ["1.29-2", "1.37.0-1", "1.37.0", "latest"] {
        registry.push(&format!("{E2E}/busybox"), tag, &busybox);
    }
    for tag in ["1.37", "1.37.0", "latest"] {
        registry.push("library/busybox", tag, &busybox);
    }
    pauses(registry);
    servers(registry, &base)?;
    variants(registry, &base);
    let nnp = Layer::new().entry(Entry::new("nnp", Kind::File(program::effective_uid())).mode(0o4755));
    let nnp = ImageBuilder::new().layer(nnp).config("Entrypoint", json!(["/nnp"])).build();
    registry.push(&format!("{E2E}/nonewprivs"), "1.3", &nnp);
    Ok(())
}

/// The dynamic busybox with every applet as a hard link, pgrep and ipcs, and the usual files.
fn busybox_layer() -> anyhow::Result<Layer> {
    let mut libraries = BTreeSet::new();
    let busybox = host::dynamic_busybox()?;
    let mut layer = Layer::new()
        .dir("etc", 0o755)
        .file("etc/passwd", 0o644, PASSWD)
        .file("etc/group", 0o644, GROUP)
        .dir("tmp", 0o1777)
        .dir("root", 0o700)
        .dir("run", 0o755)
        .dir("var", 0o755)
        .symlink("var/run", "/run")
        .dir("bin", 0o755);
    layer = host::program(layer, &busybox, "bin/busybox", &mut libraries)?;
    for applet in host::applets(&busybox)? {
        if !["busybox", "pgrep", "ipcs"].contains(&applet.as_str()) {
            layer = layer.hardlink(&format!("bin/{applet}"), "bin/busybox", 0o755);
        }
    }
    layer = host::program(layer, Path::new("/usr/bin/pgrep"), "bin/pgrep", &mut libraries)?;
    host::program(layer, Path::new("/usr/bin/ipcs"), "bin/ipcs", &mut libraries)
}

fn on(base: &Layer, layer: Option<Layer>) -> ImageBuilder {
    let builder = ImageBuilder::new().layer(base.clone()).config("Cmd", json!(["sh"]));
    layer.into_iter().fold(builder, ImageBuilder::layer)
}

fn pauses(registry: &Registry) {
    let pause = |note: &str| {
        let layer = Layer::new().file("pause", 0o755, program::pause()).file("note", 0o644, note);
        let builder = ImageBuilder::new().layer(layer).config("Entrypoint", json!(["/pause"]));
        builder.config("User", json!("65535:65535")).build()
    };
    registry.push("pause", "3.9", &pause("3.9"));
    let newer = pause("newer");
    for tag in ["3.10", "3.10.1", "3.10.2", "3.11"] {
        registry.push("pause", tag, &newer);
    }
}

fn servers(registry: &Registry, base: &Layer) -> anyhow::Result<()> {
    let nginx = nginx(base, 80)?;
    for tag in ["1.14-2", "1.14-4"] {
        registry.push(&format!("{E2E}/nginx"), tag, &nginx);
    }
    let on_host = self::nginx(base, 12003)?;
    for name in ["hostnet-nginx", "hostnet-nginx-amd64"] {
        registry.push(&format!("{STAGING}/{name}"), "latest", &on_host);
    }
    let page = Layer::new().dir("www", 0o755).file("www/index.html", 0o644, "<h1>It works!</h1>\n");
    let serve = "echo httpd starts; exec httpd -f -p 80 -h /www";
    let httpd = on(base, Some(page)).config("Entrypoint", json!(["sh", "-c", serve])).build();
    registry.push(&format!("{E2E}/httpd"), "2.4.39-4", &httpd);
    Ok(())
}

fn nginx(base: &Layer, port: u16) -> anyhow::Result<Image> {
    let conf = format!(
        "user root;\npid /var/run/nginx.pid;\nerror_log /dev/stderr;\nevents {{}}\n\
         http {{ access_log /dev/stdout; server {{ listen {port}; root /www; }} }}\n"
    );
    let mut layer = Layer::new()
        .dir("www", 0o755)
        .file("www/index.html", 0o644, "<h1>Welcome to nginx!</h1>\n")
        .dir("etc/nginx", 0o755)
        .file("etc/nginx/nginx.conf", 0o644, conf)
        .dir("var/log", 0o755)
        .dir("var/log/nginx", 0o755)
        .dir("var/lib", 0o755)
        .dir("var/lib/nginx", 0o755);
    for name in ["body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        layer = layer.dir(&format!("var/lib/nginx/{name}"), 0o755);
    }
    let from = paths::package_file("nginx", "usr/sbin/nginx")?;
    let layer = host::program(layer, &from, "bin/nginx", &mut BTreeSet::new())?;
    let serve = json!(["nginx", "-g", "daemon off;"]);
    Ok(on(base, Some(layer)).config("Entrypoint", serve).config("Cmd", json!([])).build())
}

/// busybox under other users and names.
fn variants(registry: &Registry, base: &Layer) {
    let push = |name: &str, tag: &str, image: &Image| registry.push(&format!("{STAGING}/{name}"), tag, image);
    let users = [
        ("test-image-user-uid", "1002"),
        ("test-image-user-username", "www-data"),
        ("test-image-user-uid-group", "1003:1004"),
        ("test-image-user-username-group", "www-data:1004"),
    ];
    for (name, user) in users {
        push(name, "latest", &on(base, None).config("User", json!(user)).build());
    }
    let groups = Layer::new()
        .file("etc/passwd", 0o644, format!("{PASSWD}default-user:x:1000:1000::/:/bin/sh\n"))
        .file(
            "etc/group",
            0o644,
            format!("{GROUP}default-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n"),
        );
    push(
        "test-image-predefined-group",
        "latest",
        &on(base, Some(groups)).config("User", json!("1000")).build(),
    );
    let other = |note: &str| on(base, Some(Layer::new().file("note", 0o644, note))).build();
    for name in ["test-image-1", "test-image-2", "test-image-3", "test-image-latest", "test-image-digest"] {
        push(name, "latest", &other(name));
    }
    let tags = other("tags");
    for tag in ["1", "2", "3"] {
        push("test-image-tags", tag, &tags);
    }
    for tag in ["test", "all"] {
        push("test-image-tag", tag, &other(tag));
    }
}
