//! The configuration file as it is installed: every key, commented out.

use super::KEYS;

/// A configuration file that sets nothing: what each key is about, and the key with its default
/// behind a `#`. Made of [`KEYS`], so that it cannot lack one.
pub fn template() -> String {
    let mut text = String::from(
        "# Settings of dfdn, the routing engine for OpenSM: a name and a value a line. Every line here is a\n\
         # comment and shows the default. OpenSM need not be restarted: the file is read again at each heavy\n\
         # sweep, which SIGHUP asks for. A mistake in it is logged with its line (DF28), and leaves the\n\
         # settings from before in force; at start, the other lines count.\n",
    );
    for key in KEYS {
        text += &format!("\n# {} ({})\n#{} {}\n", key.about, key.values, key.name, key.default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{KEYS, Settings};
    use super::template;

    #[test]
    fn as_it_stands_it_sets_nothing() {
        assert_eq!(Settings::from_config(&template()), Ok(Settings::default()));
    }

    #[test]
    fn every_key_is_there_and_may_be_uncommented_by_one_stroke() {
        let text = template();
        let mut found = 0;
        for line in
            text.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| !line.starts_with(' '))
        {
            assert_eq!(Settings::from_config(line), Ok(Settings::default()), "{line}");
            assert_eq!(line.split(' ').next(), Some(KEYS[found].name));
            found += 1;
        }
        assert_eq!(found, KEYS.len());
    }
}
