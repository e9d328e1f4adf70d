//! Why a fabric was not generated.

use thiserror::Error;

use crate::fabric::{FabricError, Lid};

/// The most ports that a switch can have: 255 means all ports, 0 is the management port.
pub(super) const MAX_PORTS: u128 = 254;

/// What no generator can build, and why.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TopologyError {
    /// A parameter outside of what the family is defined for.
    #[error("{parameter} = {given} is not possible: {valid}")]
    Parameter {
        /// Its name, as on the command line.
        parameter: &'static str,
        /// What was asked for.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// More end ports than there are unicast LIDs.
    #[error(
        "{switches} switches and {adapters} adapters are too many: they may be {} together, one unicast LID each",
        Lid::MAX
    )]
    TooLarge {
        /// Switches of the fabric asked for.
        switches: u128,
        /// Adapters of the fabric asked for.
        adapters: u128,
    },
    /// A switch with more ports than InfiniBand numbers.
    #[error("the largest switch would need {ports} ports, more than {}", MAX_PORTS)]
    TooManyPorts {
        /// Ports that it needs.
        ports: u128,
    },
    /// Not that many parts can fail without cutting the fabric apart.
    #[error("only {possible} of the {asked} {what} can fail without cutting off what remains")]
    CannotFail {
        /// `links` or `switches`.
        what: &'static str,
        /// How many were to fail.
        asked: usize,
        /// How many can, with the seed given.
        possible: usize,
    },
    /// The plan contradicts itself.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// A [`TopologyError::Parameter`] in one line.
pub(super) fn invalid(
    parameter: &'static str,
    given: impl ToString,
    valid: impl Into<String>,
) -> TopologyError {
    TopologyError::Parameter { parameter, given: given.to_string(), valid: valid.into() }
}

/// Refuses a parameter below `least`.
pub(super) fn at_least(parameter: &'static str, given: u32, least: u32) -> Result<(), TopologyError> {
    if given < least {
        return Err(invalid(parameter, given, format!("it must be at least {least}")));
    }
    Ok(())
}
