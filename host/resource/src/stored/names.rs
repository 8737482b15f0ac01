//! What names may look like, in the words of k8s.io/apimachinery/pkg/api/validate/content.

/// Judges a name, or with `true` one that five characters will be appended to; says what is wrong with it.
pub(crate) type NameRule = fn(name: &str, prefix: bool) -> Vec<String>;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// In bytes.
const MAX_SUBDOMAIN: usize = 253;
const MAX_LABEL: usize = 63;

/// The rule of most resources, and of all custom ones.
pub(crate) fn subdomain(name: &str, prefix: bool) -> Vec<String> {
    let name = masked(name, prefix);
    let mut wrong = too_long(&name, MAX_SUBDOMAIN, OF_NAMES);
    if !is_subdomain(&name) {
        wrong.push(SUBDOMAIN.to_owned());
    }
    wrong
}

/// The rule of namespaces.
pub(crate) fn label(name: &str, prefix: bool) -> Vec<String> {
    let name = masked(name, prefix);
    let mut wrong = too_long(&name, MAX_LABEL, OF_NAMES);
    if !is_label(&name) {
        let dots = is_subdomain(&name);
        wrong.push(if dots { "must not contain dots" } else { LABEL }.to_owned());
    }
    wrong
}

/// The keys of labels and annotations, and finalizers.
pub(crate) fn qualified(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match name.split_once('/') {
        None => name,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {LABEL_KEY} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some(("", rest)) => {
            wrong.push("prefix part must be non-empty".to_owned());
            rest
        }
        Some((domain, rest)) => {
            let mut why = too_long(domain, MAX_SUBDOMAIN, OF_KEYS);
            if !is_subdomain(domain) {
                why.push(SUBDOMAIN.to_owned());
            }
            wrong.extend(why.into_iter().map(|w| format!("prefix part {w}")));
            rest
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(
        too_long(name, MAX_LABEL, OF_KEYS)
            .into_iter()
            .map(|w| format!("name part {w}")),
    );
    if !is_word(name) {
        wrong.push(format!("name part {LABEL_KEY}"));
    }
    wrong
}

/// The values of labels.
pub(super) fn label_value(value: &str) -> Vec<String> {
    let mut wrong = too_long(value, MAX_LABEL, OF_KEYS);
    if !value.is_empty() && !is_word(value) {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}

/// A `generateName` with five random characters, cut so that the result is a label.
pub(crate) fn generate(base: &str) -> String {
    // Neither vowels nor what is easily misread, as k8s.io/apimachinery/pkg/util/rand.
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const RANDOM: usize = 5;
    let mut end = base.len().min(MAX_LABEL - RANDOM);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    for _ in 0..RANDOM {
        name.push(char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]));
    }
    name
}

/// A prefix may end in a dash, for more will follow.
fn masked(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => {
            let mut rest: Vec<char> = rest.chars().collect();
            rest.pop();
            rest.into_iter().chain(['a']).collect()
        }
        _ => name.to_owned(),
    }
}

/// ⚠ Bytes are meant in either case: k8s.io/apimachinery has the rule twice.
const OF_NAMES: &str = "characters";
const OF_KEYS: &str = "bytes";

fn too_long(text: &str, max: usize, unit: &str) -> Vec<String> {
    if text.len() > max {
        vec![format!("must be no more than {max} {unit}")]
    } else {
        Vec::new()
    }
}

fn is_label(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| lower(*b))
        && bytes.last().is_some_and(|b| lower(*b))
        && bytes.iter().all(|b| lower(*b) || *b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_subdomains_or_labels() {
        for good in ["a", "a-b", "a.b-c.d", "0"] {
            assert!(subdomain(good, false).is_empty(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "ä"] {
            assert_eq!(subdomain(bad, false), [SUBDOMAIN], "{bad}");
        }
        assert_eq!(
            subdomain(&"a".repeat(254), false),
            ["must be no more than 253 characters"]
        );
        assert_eq!(label("a.b", false), ["must not contain dots"]);
        assert_eq!(label("a_b", false), [LABEL]);
    }

    #[test]
    fn only_a_prefix_may_end_in_a_dash() {
        assert!(subdomain("task-", true).is_empty());
        assert!(subdomain("task--", true).is_empty());
        assert!(!subdomain("-", true).is_empty());
        assert!(!subdomain("task-", false).is_empty());
    }

    #[test]
    fn keys_have_an_optional_domain() {
        for good in ["a", "A_b.c", "example.com/a", "kubernetes"] {
            assert!(qualified(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Ex.com/a", "a b", &"a".repeat(64)] {
            assert!(!qualified(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_empty() && label_value("A.b").is_empty());
        assert!(!label_value("a b").is_empty());
    }

    #[test]
    fn a_generated_name_is_the_base_and_five_characters() {
        let name = generate("task-");
        assert!(name.starts_with("task-") && name.len() == 10, "{name}");
        assert!(subdomain(&name, false).is_empty());
        assert_eq!(generate(&"x".repeat(300)).len(), 63);
        assert_ne!(generate("a"), generate("a"));
    }
}
