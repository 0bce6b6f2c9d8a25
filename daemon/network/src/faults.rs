//! Places where a test may make the network fail, stall or end the process.

berth_core::fault_points! {
    NETNS_PINNED = "network.netns-pinned", "a pod's namespace is pinned and loopback is not yet up";
    SETUP = "network.setup", "the planned attachment is saved and nothing of it is done";
    LEASED = "network.leased", "the pod's addresses are leased and its interface is not yet made";
    LINKED = "network.linked", "the pod's interface is configured and its host ports are not yet open";
    PLUGIN = "network.plugin", "a CNI plugin is about to be run for a pod";
    ATTACHED = "network.attached", "the pod is attached and the finished record is not yet saved";
    TEARDOWN = "network.teardown", "the pod is about to be detached";
    DETACHED = "network.detached", "the pod is detached and its record is not yet removed";
}
