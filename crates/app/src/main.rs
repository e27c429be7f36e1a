//! The `reverie` binary.

fn main() -> ! {
    app::leave(app::main(std::env::args_os(), None))
}
