//! The command `dfdn`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
