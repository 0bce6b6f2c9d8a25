//! A network and a mount namespace of its own for a whole test: the test program runs the one test again in them, so
//! that its registry, its daemon, its kubelet and its leak checker all see the same.

use anyhow::{Context, Result, bail};
use std::process::Stdio;
use tokio::process::Command;

/// The node's address.
pub const ADDRESS: &str = "10.212.0.2";

const INSIDE: &str = "BERTH_E2E_INSIDE";

/// What stands before the test: the kubelet's fixed folders and the sysctls that it would change for the whole machine
/// are covered; /sys shows the new network; there is a link with the node's address and a way out that leads nowhere.
const PRELUDE: &str = "set -eu
mount -t tmpfs tmpfs /var/log
mkdir /var/log/upper /var/log/work /var/log/cgroup
mount -t overlay -o lowerdir=/var/lib,upperdir=/var/log/upper,workdir=/var/log/work overlay /var/lib
mount --rbind /sys/fs/cgroup /var/log/cgroup
umount -l /sys
mount -t sysfs sysfs /sys
mount --move /var/log/cgroup /sys/fs/cgroup
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file=$(mktemp /var/log/sysctl.XXXXXX)
    echo ${pair#*=} > $file
    mount --bind $file /proc/sys/${pair%=*}
done
mount --make-rshared /
ip link set lo up
ip link add node0 type veth peer name away0
ip address add 10.212.0.2/24 dev node0
ip link set node0 up
ip link set away0 up
ip route add default via 10.212.0.1
exec \"$@\"
";

/// Whether this is the inside. Outside, the named test has been run inside when this returns, and went well.
pub async fn entered(test: &str) -> Result<bool> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(true);
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "sh", "-c", PRELUDE, "sh"]);
    command.arg(std::env::current_exe()?).args(["--jobs", "1", test]);
    command.env(INSIDE, "1").env_remove("BERTH_E2E_SHARD").stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.context("unshare")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !said.contains("1 passed") {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("inside its own namespaces:\n{said}{words}");
    }
    Ok(false)
}
