//! A row of the table: a bundle, what is looked at, and what is expected of the two.

use anyhow::Result;
use berth_e2e::bundle::{Bundle, Ran};
use serde_json::{Value, json};

type Prepare = Box<dyn Fn(&Bundle) -> Result<()> + Send + Sync>;
type Change = Box<dyn Fn(&mut Value, &Bundle) + Send + Sync>;
type Observe = Box<dyn Fn(&Bundle) -> Result<String> + Send + Sync>;

/// What is expected.
#[derive(Debug)]
pub(crate) enum Expect {
    /// Both show the same, and all of these words are in it.
    Same(Vec<&'static str>),
    /// Both refuse, and our complaint holds all of these words: the JSON path, or the step.
    Refused(Vec<&'static str>),
    /// Ours shows the one, runc the other.
    Differs { ours: &'static str, runc: &'static str, why: &'static str },
}

/// One case.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) needs: Vec<&'static str>,
    pub(crate) prepare: Vec<Prepare>,
    pub(crate) changes: Vec<Change>,
    pub(crate) observe: Observe,
    pub(crate) expect: Expect,
}

/// A case that runs the bundle in the foreground and looks at what it prints.
pub(crate) fn row(name: &'static str) -> Row {
    Row {
        name,
        needs: Vec::new(),
        prepare: Vec::new(),
        changes: Vec::new(),
        observe: Box::new(|bundle| Ok(bundle.run()?.seen(bundle))),
        expect: Expect::Same(Vec::new()),
    }
}

impl Row {
    /// What the machine must have: see `judge`.
    pub(crate) fn needs(mut self, what: &'static str) -> Self {
        self.needs.push(what);
        self
    }

    /// What is laid into the rootfs or beside it.
    pub(crate) fn prepare(mut self, prepare: impl Fn(&Bundle) -> Result<()> + Send + Sync + 'static) -> Self {
        self.prepare.push(Box::new(prepare));
        self
    }

    /// A change of the configuration.
    pub(crate) fn change(mut self, change: impl Fn(&mut Value, &Bundle) + Send + Sync + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// What the container runs: a script.
    pub(crate) fn sh(self, script: &'static str) -> Self {
        self.change(move |spec, _| spec["process"]["args"] = json!(["sh", "-c", script]))
    }

    /// What the container runs.
    pub(crate) fn args(self, args: &'static [&'static str]) -> Self {
        self.change(move |spec, _| spec["process"]["args"] = json!(args))
    }

    /// Something else to do with the bundle than to run it.
    pub(crate) fn see(mut self, observe: impl Fn(&Bundle) -> Result<String> + Send + Sync + 'static) -> Self {
        self.observe = Box::new(observe);
        self
    }

    /// What the container prints, put into a form that does not vary.
    pub(crate) fn normal(self, normal: impl Fn(&Bundle, Ran) -> String + Send + Sync + 'static) -> Self {
        self.see(move |bundle| Ok(normal(bundle, bundle.run()?)))
    }

    /// Both show the same, and these words are in it.
    pub(crate) fn same(mut self, words: &[&'static str]) -> Self {
        self.expect = Expect::Same(words.to_vec());
        self
    }

    /// Both refuse, ours with these words.
    pub(crate) fn refused(mut self, words: &[&'static str]) -> Self {
        self.expect = Expect::Refused(words.to_vec());
        self
    }

    /// Ours shows the one, runc the other, on purpose.
    pub(crate) fn differs(mut self, ours: &'static str, runc: &'static str, why: &'static str) -> Self {
        self.expect = Expect::Differs { ours, runc, why };
        self
    }
}
