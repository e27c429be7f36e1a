//! The `reverie` binary.

fn main() -> ! {
    app::main(std::env::args_os())
}
