//! The command `dfdn`.

fn main() -> std::process::ExitCode {
    dfdn::cli::main()
}
