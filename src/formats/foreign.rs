//! What is often given in place of a fabric: compressed files, other encodings, lists without cables.

use super::FormatError;

/// A line of a list of nodes or ports.
struct List {
    /// Whether it is one.
    recognizes: fn(&str) -> bool,
    /// What it belongs to.
    is: &'static str,
}

const LISTS: [List; 3] = [
    List {
        recognizes: |line| {
            let kind =
                ["Switch", "Ca", "Hca", "Router", "Rt"].iter().find_map(|kind| line.strip_prefix(kind));
            kind.and_then(|rest| rest.trim_start().strip_prefix(':'))
                .is_some_and(|rest| rest.trim_start().starts_with("0x") && rest.contains(" ports "))
        },
        is: "a list of nodes, as ibnodes and 'ibnetdiscover -l' print it",
    },
    List {
        recognizes: |line| {
            let mut words = line.split_whitespace();
            let kind = words.next().is_some_and(|word| ["SW", "CA", "RT"].contains(&word));
            let numbers = words.by_ref().take(2).filter(|word| word.parse::<u16>().is_ok()).count() == 2;
            kind && numbers && words.next().is_some_and(|word| word.starts_with("0x"))
        },
        is: "a list of ports, as 'ibnetdiscover -p' prints it",
    },
    List { recognizes: |line| line.contains("==(") && line.contains(")==>"), is: "what iblinkinfo prints" },
];

/// Says of a text that is no fabric what it is, if that is known.
///
/// Cost: O(bytes) at worst; most often that of the first lines.
pub(super) fn recognize(bytes: &[u8]) -> Option<FormatError> {
    let compressed =
        [(&b"\x1f\x8b"[..], "gzip"), (b"\xfd7zXZ", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2")];
    if let Some((_, by)) = compressed.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some(FormatError::new(0, format!("it is compressed by {by}")).hint("decompress it first"));
    }
    // With a byte order mark, or an ASCII character with a zero beside it.
    if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, 1..=127, ..] | [1..=127, 0, ..]) {
        return Some(
            FormatError::new(0, "it is text in UTF-16").hint("convert it: iconv -f UTF-16 -t UTF-8"),
        );
    }
    let lines = bytes.split(|&byte| byte == b'\n').zip(1..).take(LINES);
    lines.map(|(line, number)| (String::from_utf8_lossy(line), number)).find_map(|(line, number)| {
        let list = LISTS.iter().find(|list| (list.recognizes)(line.trim()))?;
        let reason = format!("this is {}, without the ports of all cables", list.is);
        Some(
            FormatError::new(number, reason)
                .hint("run 'ibnetdiscover' without options, and give what it prints"),
        )
    })
}

/// Lines among which a list shows itself.
const LINES: usize = 100;

#[cfg(test)]
mod tests {
    use crate::formats::read_fabric;

    #[test]
    fn what_is_no_fabric_is_named_with_the_way_out() {
        let wide: Vec<u8> = "Switch 4 \"a\"\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let marked = [b"\xff\xfe", &wide[..]].concat();
        let gzip = [0x1f, 0x8b, 8, 0, 0, 0];
        let nodes = "Ca\t: 0x0002c90300000010 ports 1 devid 0x1003 vendid 0x2c9 \"h1 HCA-1\"\n";
        let switches =
            "Switch\t : 0x0002c90200000000 ports 36 devid 0xc738 vendid 0x2c9 \"MF0;sw:SX6036/U1\"\n";
        let ports =
            "CA    22  1 0x0002c903000a0a32 4x QDR - SW     5 11 0x0002c90200000000 ( 'h1' - 'sw' )\n";
        let links = "CA: h1 HCA-1:\n      0x0002c903000a0a33     22    1[  ] ==( 4X          10.0 Gbps Active/  \
                     LinkUp)==>       5   11[  ] \"sw\" ( )\n";
        for (bytes, words) in [
            (&gzip[..], ["compressed by gzip", "decompress"]),
            (&wide, ["UTF-16", "iconv"]),
            (&marked, ["UTF-16", "iconv"]),
            (nodes.as_bytes(), ["line 1: this is a list of nodes", "run 'ibnetdiscover' without"]),
            (switches.as_bytes(), ["line 1: this is a list of nodes", "run 'ibnetdiscover' without"]),
            (ports.as_bytes(), ["line 1: this is a list of ports", "run 'ibnetdiscover' without"]),
            (links.as_bytes(), ["line 2: this is what iblinkinfo prints", "run 'ibnetdiscover' without"]),
        ] {
            let error = read_fabric(bytes).expect_err(words[0]).to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        }
    }
}
