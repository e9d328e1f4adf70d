//! Settings whose values are words.

/// Declares an enum with a word for each value. `FromStr` reads the words, `Display` writes them, and `WORDS` lists
/// them.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[$of_value:meta])* $value:ident = $word:literal,)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name { $($(#[$of_value])* $value,)+ }

        impl $name {
            /// The words of all values.
            pub(in crate::engine) const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$value),)+
                    _ => Err(format!("'{text}' is none of {}", Self::WORDS.join(", "))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$value => $word,)+ })
            }
        }
    };
}

pub(super) use words;
