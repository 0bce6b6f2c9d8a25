//! Mode auto: who attaches a pod.

use std::fs;

use berth_network::Mode;

use crate::cni::{GOOD, conf, list, manager, plugin};
use crate::world::{until, world};

#[test]
fn auto_takes_cni_as_soon_as_there_is_a_configuration() {
    world(|w| {
        let m = manager(w, Mode::Auto, 3000);
        let (_netns, pod) = w.pod("a");
        assert_eq!(m.plan(&pod).unwrap().mode(), "builtin");
        fs::write(w.path("net.d/10.conflist"), "{").unwrap();
        assert!(m.plan(&pod).is_err(), "a mistyped file sends no pod elsewhere");
        assert!(m.status().message.contains("10.conflist"));
        plugin(w, "one", GOOD);
        conf(w, "10.conflist", &list(&["one"]));
        assert_eq!(m.plan(&pod).unwrap().mode(), "cni");
        until("ready", || m.status().ready);
    });
}
