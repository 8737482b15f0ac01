//! The formats that kube-apiserver checks in custom resources (kube-openapi, pkg/validation/strfmt).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::node::Type;
use super::time::{is_date, is_date_time, is_duration};

/// A format and how to check it.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    /// As the schema spells it.
    name: String,
    check: Option<fn(&str) -> bool>,
}

impl Format {
    /// None for a format that kube-apiserver ignores at this type.
    pub(super) fn new(name: &str, type_: Option<Type>) -> Option<Self> {
        let check = match type_ {
            None | Some(Type::String) => Some(string_check(name)?),
            Some(Type::Integer) if matches!(name, "int32" | "int64") => None,
            Some(Type::Number) if matches!(name, "float" | "double") => None,
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            check,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn admits(&self, text: &str) -> bool {
        self.check.is_none_or(|check| check(text))
    }

    /// Whether strings are checked against it.
    pub(super) fn is_for_strings(&self) -> bool {
        self.check.is_some()
    }
}

fn string_check(name: &str) -> Option<fn(&str) -> bool> {
    // Dashes in a format's name do not count.
    Some(match name.replace('-', "").as_str() {
        "bsonobjectid" => |s| s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |s| s.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => |s| s.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |s| is_uuid(s, None),
        "uuid3" => |s| is_uuid(s, Some(b'3')),
        "uuid4" => |s| is_uuid(s, Some(b'4')),
        "uuid5" => |s| is_uuid(s, Some(b'5')),
        "isbn" => |s| is_isbn10(s) || is_isbn13(s),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => is_ssn,
        "hexcolor" => is_hex_color,
        "rgbcolor" => is_rgb_color,
        "byte" => is_base64,
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |s| s.len() <= 63 && is_dns_label(s),
        "k8slongname" => |s| s.len() <= 253 && s.split('.').all(is_dns_label),
        _ => return None,
    })
}

fn is_dns_label(s: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    s.bytes().all(|b| inner(b) || b == b'-')
        && s.bytes().next().is_some_and(inner)
        && s.bytes().last().is_some_and(inner)
}

/// A URI with a scheme or an absolute path, as url.ParseRequestURI takes it.
fn is_uri(s: &str) -> bool {
    if s.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        return false;
    }
    let scheme = s.split_once(':').map_or("", |(scheme, _)| scheme);
    let named = scheme
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    s.starts_with('/') || (named && scheme.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// An address with or without a display name.
fn is_email(s: &str) -> bool {
    let address = match s.trim().strip_suffix('>') {
        Some(named) => match named.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => s.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.contains("..")
            && part
                .chars()
                .all(|c| !c.is_whitespace() && !c.is_control() && !"()<>[]:;@\\,\"".contains(c))
    };
    plain(local) && plain(domain)
}

/// One label, or several of which the last is letters only.
fn is_hostname(s: &str) -> bool {
    // Letters and symbols of all scripts count.
    let member = |c: char| {
        c.is_ascii_alphanumeric()
            || "$+<=>^`|~".contains(c)
            || (!c.is_ascii() && !c.is_control() && !c.is_whitespace())
    };
    if s.len() > 255 || s.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let Some((labels, last)) = s.rsplit_once('.') else {
        // The only dash that a single label may have is its second character.
        let mut chars = s.chars();
        return chars.next().is_some_and(member) && {
            let rest = chars.as_str();
            rest.strip_prefix('-').unwrap_or(rest).chars().all(member)
        };
    };
    last.chars().count() >= 2
        && last.chars().all(|c| c.is_alphabetic())
        && labels.split('.').all(|label| {
            label.chars().all(|c| member(c) || c == '-')
                && label.chars().next().is_some_and(member)
                && label.chars().last().is_some_and(member)
        })
}

fn is_cidr(s: &str) -> bool {
    let Some((address, bits)) = s.split_once('/') else {
        return false;
    };
    let limit = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= limit)
}

/// 6, 8 or 20 octets, as net.ParseMAC reads them.
fn is_mac(s: &str) -> bool {
    let groups = |separator: char, digits: usize| {
        let parts: Vec<&str> = s.split(separator).collect();
        parts
            .iter()
            .all(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit()))
            && [6, 8, 20].contains(&(parts.len() * digits / 2))
    };
    groups(':', 2) || groups('-', 2) || groups('.', 4)
}

fn is_uuid(s: &str, version: Option<u8>) -> bool {
    // Each dash is optional.
    let mut digits = Vec::with_capacity(32);
    let mut dash_before = false;
    for b in s.bytes() {
        if b == b'-' {
            if dash_before || ![8, 12, 16, 20].contains(&digits.len()) {
                return false;
            }
            dash_before = true;
        } else if b.is_ascii_hexdigit() {
            dash_before = false;
            digits.push(b.to_ascii_lowercase());
        } else {
            return false;
        }
    }
    digits.len() == 32
        && !dash_before
        && match version {
            None => true,
            Some(b'3') => digits[12] == b'3',
            Some(version) => digits[12] == version && b"89ab".contains(&digits[16]),
        }
}

fn isbn_digits(s: &str) -> Vec<u8> {
    s.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect()
}

fn is_isbn10(s: &str) -> bool {
    let digits = isbn_digits(s);
    let values: Option<Vec<u32>> = digits
        .iter()
        .enumerate()
        .map(|(index, b)| match b {
            b'0'..=b'9' => Some(u32::from(b - b'0')),
            b'X' if index == 9 => Some(10),
            _ => None,
        })
        .collect();
    values.is_some_and(|v| {
        v.len() == 10
            && (1..)
                .zip(&v)
                .map(|(weight, digit)| weight * digit)
                .sum::<u32>()
                % 11
                == 0
    })
}

fn is_isbn13(s: &str) -> bool {
    let digits = isbn_digits(s);
    digits.len() == 13
        && digits.iter().all(u8::is_ascii_digit)
        && digits
            .iter()
            .enumerate()
            .map(|(i, b)| u32::from(b - b'0') * if i % 2 == 0 { 1 } else { 3 })
            .sum::<u32>()
            % 10
            == 0
}

/// Luhn's sum over 13 to 16 digits.
fn is_credit_card(s: &str) -> bool {
    let digits: Vec<u32> = s
        .bytes()
        .filter(u8::is_ascii_digit)
        .map(|b| u32::from(b - b'0'))
        .collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, d)| match (i % 2, d * 2) {
            (0, _) => *d,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    (13..=16).contains(&digits.len()) && sum.is_multiple_of(10)
}

fn is_ssn(s: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        s.as_bytes()
            .get(range)
            .is_some_and(|d| d.iter().all(u8::is_ascii_digit))
    };
    let separator = |at: usize| matches!(s.as_bytes().get(at), Some(b'-' | b' '));
    s.len() == 11 && digits(0..3) && separator(3) && digits(4..6) && separator(6) && digits(7..11)
}

fn is_hex_color(s: &str) -> bool {
    let digits = s.strip_prefix('#').unwrap_or(s);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_rgb_color(s: &str) -> bool {
    let Some(inner) = s.strip_prefix("rgb(").and_then(|s| s.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

fn is_base64(s: &str) -> bool {
    let data = s.trim_end_matches('=');
    !data.is_empty()
        && s.len() - data.len() <= 2
        && s.len().is_multiple_of(4)
        && data
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_admit_what_kube_apiserver_admits() {
        for (format, value, admitted) in [
            ("date-time", "2026-01-02T03:04:05Z", true),
            ("date-time", "2026-01-02t03:04:05.123+02:00", true),
            ("date-time", "2026-02-30T03:04:05Z", false),
            ("date-time", "2026-01-02T24:04:05Z", false),
            ("date-time", "2026-01-02 03:04:05Z", false),
            ("date-time", "tomorrow", false),
            ("date", "2026-01-02", true),
            ("date", "2026-1-2", false),
            ("duration", "1h30m", true),
            ("duration", "-1.5h", true),
            ("duration", "22 ns", true),
            ("duration", "3 days", true),
            ("duration", "0", true),
            ("duration", "soon", false),
            ("duration", "5", false),
            ("byte", "aGVsbG8=", true),
            ("byte", "aGVsbG8", false),
            ("uuid", "01234567-89ab-cdef-0123-456789abcdef", true),
            ("uuid4", "01234567-89ab-3def-8123-456789abcdef", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv4", "::1", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("mac", "00:1b:44:11:3a:b7", true),
            ("hostname", "a.example.com", true),
            ("hostname", "-a.example.com", false),
            ("hostname", "1.2.3.4", false),
            ("hostname", "localhost", true),
            ("email", "Jane <jane@example.com>", true),
            ("email", "jane", false),
            ("uri", "https://example.com/x", true),
            ("uri", "mailto:jane@example.com", true),
            ("uri", "example.com", false),
            ("ssn", "123-45 6789", true),
            ("ssn", "123456789", false),
            ("isbn10", "0321751043", true),
            ("isbn13", "978-0321751041", true),
            ("creditcard", "4111 1111 1111 1111", true),
            ("creditcard", "4111 1111 1111 1112", false),
            ("k8s-short-name", "a-b", true),
            ("k8s-short-name", "a.b", false),
            ("k8s-long-name", "a.b", true),
        ] {
            let known = Format::new(format, Some(Type::String)).unwrap();
            assert_eq!(known.admits(value), admitted, "{format} {value}");
        }
    }

    #[test]
    fn a_format_that_the_type_does_not_know_is_ignored() {
        assert!(Format::new("date-time", Some(Type::Integer)).is_none());
        assert!(Format::new("int32", Some(Type::Integer)).is_some());
        assert!(Format::new("my-format", Some(Type::String)).is_none());
    }
}
