//! The end of a node: through the product first, then the check that nothing is left, then by force.

use super::{LowLevel, Node, Runtime};
use crate::leak;
use std::sync::PoisonError;
use std::time::Duration;

impl Node {
    /// Removes every pod through CRI, stops the daemon and returns what is left that should not be.
    pub async fn finish(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.daemon_pid().is_none()
            && let Err(error) = self.start_daemon().await
        {
            problems.push(format!("to tidy up, the daemon could not be started: {error:#}"));
        }
        if let Err(error) = self.remove_everything().await {
            problems.push(format!("removing all pods: {error:#}"));
        }
        if let Err(error) = self.stop_daemon().await {
            problems.push(format!("stopping the daemon: {error:#}"));
        }
        match self.settings.runtime {
            Runtime::Berth => problems.extend(leak::wait_clean(&self.owned(), Duration::from_secs(5)).await),
            // What the product did there; the bridge is CNI's, which keeps it.
            Runtime::Containerd if self.settings.low_level != LowLevel::Runc => {
                let left = leak::wait_clean(&self.owned(), Duration::from_secs(5)).await;
                problems.extend(left.into_iter().filter(|line| !line.contains(": link ")));
            }
            Runtime::Containerd => {}
        }
        *self.last_log.lock().unwrap_or_else(PoisonError::into_inner) = self.log_tail(60);
        self.force();
        problems
    }

    /// The end of the daemon's log as it was when the node was finished.
    pub fn last_log(&self) -> String {
        self.last_log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops and removes every pod that the daemon lists.
    pub async fn remove_everything(&self) -> anyhow::Result<()> {
        let mut cri = self.cri().await?;
        for container in cri.containers().await? {
            self.remember(&container.id);
        }
        for pod in cri.pods().await? {
            self.remember(&pod.id);
            cri.stop_pod(&pod.id).await?;
            cri.remove_pod(&pod.id).await?;
        }
        Ok(())
    }

    /// Takes down whatever is left, without asking anybody.
    fn force(&self) {
        drop(self.lock().take());
        leak::force(&self.owned());
        self.cgroup.remove();
        // A busy folder was reported as a leaked mount.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.force();
    }
}
