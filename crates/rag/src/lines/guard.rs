//! A second process that ends a process and all that it started, as soon as this program asks for it or has ended
//! itself, in whatever way.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
};

/// Waits until its input closes, which the end of this program does too, and ends the group of processes `$1`.
const SCRIPT: &str = "read -r line; kill -s KILL -- \"-$1\"";

/// Puts a process into a group of its own: Ctrl-C is for this program, which decides what ends.
pub(super) fn in_a_group_of_its_own(command: &mut Command) {
    command.process_group(0);
}

/// The second process.
pub(super) struct ProcessGuard {
    child: Child,
    input: Option<ChildStdin>,
}

impl ProcessGuard {
    /// Guards the group of this process.
    pub(super) fn start(leader: u32) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "guard", &leader.to_string()]).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        in_a_group_of_its_own(&mut command);
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    /// Ends the group.
    pub(super) fn end_group(&mut self) {
        self.input.take();
    }

    /// Waits until the group was ended.
    pub(super) fn wait(&mut self) {
        self.end_group();
        let _ = self.child.wait();
    }
}
