//! Errors of the generators.

use thiserror::Error;

use crate::fabric::{FabricError, Lid};

/// The largest number of ports of a switch: 255 means all ports, 0 is the management port.
pub(super) const MAX_PORTS: u128 = 254;

/// Why a fabric cannot be generated.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TopologyError {
    /// A parameter outside the range that the family is defined for.
    #[error("{parameter} = {given} is not possible: {valid}")]
    Parameter {
        /// Its name, as on the command line.
        parameter: &'static str,
        /// The value given.
        given: String,
        /// What would be valid.
        valid: String,
    },
    /// More end ports than there are unicast LIDs.
    #[error(
        "{switches} switches and {adapters} adapters are too many: there are {} unicast LIDs, one for each",
        Lid::MAX
    )]
    TooLarge {
        /// Switches of the fabric asked for.
        switches: u128,
        /// Adapters of the fabric asked for.
        adapters: u128,
    },
    /// A switch with more ports than InfiniBand can number.
    #[error("the largest switch would need {ports} ports, more than {}", MAX_PORTS)]
    TooManyPorts {
        /// Ports that it needs.
        ports: u128,
    },
    /// That many parts cannot fail without disconnecting the fabric.
    #[error("only {possible} of the {asked} {what} can fail without cutting off what remains")]
    CannotFail {
        /// `links` or `switches`.
        what: &'static str,
        /// How many were asked to fail.
        asked: usize,
        /// How many can fail with the given seed.
        possible: usize,
    },
    /// There are not so many links that can run slower.
    #[error("only {possible} of the {asked} links between switches can run at half their rate")]
    CannotSlow {
        /// How many were asked for.
        asked: usize,
        /// How many there are.
        possible: usize,
    },
    /// The generator's plan contradicts itself.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// Shorthand for [`TopologyError::Parameter`].
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
