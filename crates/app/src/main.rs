//! The `reverie` binary.

fn main() -> ! {
    app::exit(app::main(std::env::args_os(), None))
}
