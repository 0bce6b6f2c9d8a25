//! Fault points of pods: one before each step that takes, gives back or saves something.

berth_core::fault_points! {
    STORE_WRITE = "pod.store-write", "before a record of a sandbox or container is written or deleted";
    RUN_BEGUN = "run.begun", "between the first record of a sandbox and its directory";
    RUN_FILES = "run.files", "between a sandbox's directory and its network namespace";
    RUN_NETNS = "run.netns", "between a sandbox's network namespace and its attachment";
    RUN_NETWORK = "run.network", "between a sandbox's attachment and the start of its namespaces";
    RUN_SHIM = "run.shim", "between the launch of a shim and its first call";
    RUN_STARTED = "run.started", "between the start of a sandbox and its last record";
    STOP_BEGUN = "stop.begun", "between the end of a sandbox's containers and the end of its network";
    STOP_NETWORK = "stop.network", "between the end of a sandbox's network and the end of its shim";
    REMOVE_BEGUN = "remove.begun", "before a sandbox's directory is removed";
    REMOVE_FILES = "remove.files", "between the removal of a sandbox's directory and that of its record";
    CREATE_BEGUN = "create.begun", "between the first record of a container and its writable layer";
    CREATE_LAYER = "create.layer", "between a container's writable layer and its bundle";
    CREATE_BUNDLE = "create.bundle", "between a container's bundle and its creation by the shim";
    CREATE_DONE = "create.done", "between a container's creation by the shim and its last record";
    START_BEGUN = "start.begun", "before the shim is told to start a container";
    START_DONE = "start.done", "after the shim has started a container";
    DELETE_BEGUN = "delete.begun", "before the shim is told to delete a container";
    DELETE_FREED = "delete.freed", "between a container's end in the shim and that of its writable layer";
    DELETE_FILES = "delete.files", "between the removal of a container's files and that of its record";
    SIGNAL_BEGUN = "signal.begun", "before the shim is told to signal a container";
    EXIT_SAVED = "exit.saved", "between the saving of an exit and its acknowledgement to the shim";
    EXEC_BEGUN = "exec.begun", "before the shim is told to execute a program in a container";
}
