//! The static pods.

use serde_json::{Value, json};

/// Ports of the first pod: in it, and on the node.
pub(super) const PORTS: (u16, u16) = (8080, 18080);

/// The loop of a program that ends at SIGTERM.
const WAIT: &str = "while :; do sleep 1 & wait $!; done";

fn pod(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": spec,
    })
}

fn shell(name: &str, image: &str, script: &str) -> Value {
    json!({ "name": name, "image": image, "command": ["sh", "-c", script] })
}

fn exec(script: &str) -> Value {
    json!({ "exec": { "command": ["sh", "-c", script] } })
}

fn limits(cpu: &str, memory: &str) -> Value {
    json!({ "limits": { "cpu": cpu, "memory": memory }, "requests": { "cpu": "50m", "memory": "16Mi" } })
}

/// A value with more keys.
fn with(mut value: Value, more: Value) -> Value {
    if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

/// An init container, a sidecar, two containers with every hook and probe; they write what happens to /trace/t.
pub(super) fn whole(image: &str, trace: &str) -> Value {
    let volumes = json!([
        { "name": "shared", "emptyDir": {} },
        { "name": "tree", "emptyDir": {} },
        { "name": "trace", "hostPath": { "path": trace } },
        { "name": "info", "downwardAPI": { "items": [
            { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } },
    ]);
    pod(
        "whole",
        json!({
            "terminationGracePeriodSeconds": 20,
            "volumes": volumes,
            "initContainers": [first(image), side(image)],
            "containers": [web(image), talk(image)],
        }),
    )
}

fn mounts(more: &[Value]) -> Value {
    let usual = [
        json!({ "name": "shared", "mountPath": "/shared" }),
        json!({ "name": "trace", "mountPath": "/trace" }),
    ];
    let all = [&usual, more].concat();
    json!({ "volumeMounts": all })
}

fn first(image: &str) -> Value {
    let script = "mkdir -p /tree/a/b; echo from-init > /tree/a/b/file; echo page > /shared/page; echo init >> /trace/t";
    with(shell("first", image, script), mounts(&[json!({ "name": "tree", "mountPath": "/tree" })]))
}

fn side(image: &str) -> Value {
    let script =
        format!("trap 'echo side-ended >> /trace/t; exit 0' TERM; echo side >> /trace/t; touch /up; {WAIT}");
    let more = json!({
        "restartPolicy": "Always",
        "startupProbe": with(exec("test -e /up"), json!({ "periodSeconds": 1, "failureThreshold": 60 })),
    });
    with(with(shell("side", image, &script), mounts(&[])), more)
}

fn web(image: &str) -> Value {
    let port = PORTS.0;
    let script = format!(
        "trap 'echo web-ended >> /trace/t; exit 0' TERM; echo web >> /trace/t; httpd -f -p {port} -h /shared & {WAIT}"
    );
    let get = |path: &str, more: Value| {
        with(
            json!({ "httpGet": { "path": path, "port": port }, "periodSeconds": 1, "timeoutSeconds": 5 }),
            more,
        )
    };
    let more = json!({
        "ports": [{ "containerPort": port, "hostPort": PORTS.1 }],
        "resources": limits("200m", "64Mi"),
        "startupProbe": get("/page", json!({ "failureThreshold": 60 })),
        "readinessProbe": get("/go", json!({})),
        "lifecycle": {
            "postStart": exec("echo postStart >> /trace/t"),
            "preStop": exec("echo preStop >> /trace/t; sleep 1; echo preStop-done >> /trace/t"),
        },
    });
    with(with(shell("web", image, &script), mounts(&[])), more)
}

fn talk(image: &str) -> Value {
    let script = format!(
        "trap 'echo talk-ended >> /trace/t; exit 0' TERM; echo \"$WORD $MEMORY\"; echo aside >&2; \
         touch /shared/alive; {WAIT}"
    );
    let more = json!({
        "env": [
            { "name": "WORD", "value": "grüß" },
            { "name": "ADDRESS", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
            { "name": "MEMORY", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory" } } },
        ],
        "resources": limits("150m", "48Mi"),
        "livenessProbe": with(exec("test -e /shared/alive"), json!({
            "periodSeconds": 1, "failureThreshold": 2, "initialDelaySeconds": 2, "timeoutSeconds": 10,
            "terminationGracePeriodSeconds": 5,
        })),
    });
    let volumes = [
        json!({ "name": "tree", "mountPath": "/sub", "subPath": "a/b" }),
        json!({ "name": "tree", "mountPath": "/etc/one", "subPath": "a/b/file", "readOnly": true }),
        json!({ "name": "info", "mountPath": "/info" }),
    ];
    with(with(shell("talk", image, &script), mounts(&volumes)), more)
}

/// Ends again and again, each time with its reason.
pub(super) fn crashing(image: &str) -> Value {
    let script = "echo trying; printf because > /dev/termination-log; exit 3";
    pod("crashing", json!({ "containers": [shell("c", image, script)] }))
}

/// Takes more memory than it may have.
pub(super) fn hungry(image: &str) -> Value {
    let dd = json!({ "command": ["dd", "if=/dev/zero", "of=/dev/null", "bs=200M"] });
    let limited = with(dd, json!({ "name": "c", "image": image, "resources": limits("500m", "24Mi") }));
    pod("hungry", json!({ "restartPolicy": "Never", "containers": [limited] }))
}

/// A pod whose uid does not depend on its text, so that a changed text is a changed pod and not another one.
pub(super) fn resized(image: &str, cpu: &str, memory: &str) -> Value {
    let script = format!("trap 'exit 0' TERM; {WAIT}");
    let spec = json!({ "containers": [with(shell("c", image, &script), json!({ "resources": limits(cpu, memory) }))] });
    let mut pod = pod("resized", spec);
    pod["metadata"]["uid"] = json!("7d7b1d5e-8a3c-4b1f-9f0e-0123456789ab");
    pod
}
