//! config.json: the root of it, mounts and hooks.

use super::linux::{Linux, LinuxIdMapping};
use super::process::Process;
use super::record::record;
use std::collections::BTreeMap;
use std::path::PathBuf;

record! {
    /// The whole configuration.
    Spec {
        version: String = "ociVersion" default,
        root: Option<Root> = "root",
        mounts: Option<Vec<Mount>> = "mounts",
        process: Option<Process> = "process",
        hostname: Option<String> = "hostname",
        domainname: Option<String> = "domainname",
        hooks: Option<Hooks> = "hooks",
        annotations: Option<BTreeMap<String, String>> = "annotations",
        linux: Option<Linux> = "linux",
    }

    /// The root file system.
    Root {
        path: PathBuf = "path" default,
        readonly: Option<bool> = "readonly" copy,
    }

    /// A mount.
    Mount {
        destination: PathBuf = "destination",
        typ: Option<String> = "type",
        source: Option<PathBuf> = "source",
        options: Option<Vec<String>> = "options",
        uid_mappings: Option<Vec<LinuxIdMapping>> = "uidMappings",
        gid_mappings: Option<Vec<LinuxIdMapping>> = "gidMappings",
    }

    /// Programs to run at turns of the container's life.
    Hooks {
        prestart: Option<Vec<Hook>> = "prestart",
        create_runtime: Option<Vec<Hook>> = "createRuntime",
        create_container: Option<Vec<Hook>> = "createContainer",
        start_container: Option<Vec<Hook>> = "startContainer",
        poststart: Option<Vec<Hook>> = "poststart",
        poststop: Option<Vec<Hook>> = "poststop",
    }

    /// One program.
    Hook {
        path: PathBuf = "path",
        args: Option<Vec<String>> = "args",
        env: Option<Vec<String>> = "env",
        timeout: Option<i64> = "timeout" copy,
    }
}
