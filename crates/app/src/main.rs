//! The `reverie` binary.

fn main() -> ! {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    give_large_blocks_back();
    app::exit(app::main(std::env::args_os(), None))
}

/// Blocks of memory above this size go back to the system when they are free. Without a setting, glibc raises the size to
/// that of the largest block that was freed, up to 32 MiB, and keeps the space of smaller ones: a run that recognizes pages
/// then holds half as much again.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: libc::c_int = 4 << 20;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(
    unsafe_code,
    reason = "a function of the C library that only sets a number, called before there are other threads"
)]
fn give_large_blocks_back() {
    // If it fails, nothing changes.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK) };
}
