//! Field selectors, as `k8s.io/apimachinery/pkg/fields` reads them: `field=value`, `field==value`, `field!=value`,
//! joined by commas. In a value `\`, `,` and `=` are written `\\`, `\,` and `\=`.

use std::fmt;
use std::str::FromStr;

use super::SelectorError;

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// E.g. `metadata.name` or `spec.priority`.
    pub field: String,
    /// False for `=` and `==`, true for `!=`.
    pub negated: bool,
    /// Unescaped.
    pub value: String,
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        f.write_str(if self.negated { "!=" } else { "=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// A conjunction of terms. The default selects everything.
///
/// [`fmt::Display`] writes what [`FromStr`] reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector(Vec<FieldRequirement>);

impl FieldSelector {
    /// `metadata.name=name`: the selector of one object.
    pub fn name(name: &str) -> Self {
        Self(vec![FieldRequirement {
            field: "metadata.name".to_owned(),
            negated: false,
            value: name.to_owned(),
        }])
    }

    /// True: selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All must hold.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.0
    }

    /// Whether an object is selected; `field` reads one of its fields. A field that is not set counts as empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0
            .iter()
            .all(|r| (field(&r.field).unwrap_or_default() == r.value) != r.negated)
    }

    /// The one value that the field must have, if the selector demands one.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|r| !r.negated && r.field == field)
            .map(|r| r.value.as_str())
    }

    /// Refuses fields other than `metadata.name`, `metadata.namespace` of what has one, and the resource's own.
    ///
    /// # Errors
    /// Names the unknown field and the known ones; a 400.
    pub fn check_fields<'a>(
        &self,
        namespaced: bool,
        selectable: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), SelectorError> {
        let known: Vec<&str> = std::iter::once("metadata.name")
            .chain(namespaced.then_some("metadata.namespace"))
            .chain(selectable)
            .collect();
        match self.0.iter().find(|r| !known.contains(&r.field.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let known: Vec<_> = known.iter().map(|field| format!("{field:?}")).collect();
                Err(SelectorError(format!(
                    "{:?} is not a known field selector: only {}",
                    unknown.field,
                    known.join(", ")
                )))
            }
        }
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(selector: &str) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for term in terms(selector) {
            if term.is_empty() {
                continue;
            }
            let (field, negated, value) = split(term).ok_or_else(|| {
                SelectorError(format!(
                    "invalid selector: '{selector}'; can't understand '{term}'"
                ))
            })?;
            let value = unescape(value)?;
            // `=` alone is everything, as upstream has it.
            if field.is_empty() && value.is_empty() {
                continue;
            }
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                negated,
                value,
            });
        }
        requirements.sort();
        Ok(Self(requirements))
    }
}

/// Splits at commas that are not escaped.
fn terms(selector: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (i, c) in selector.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&selector[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

/// Field, whether negated, and the value as written.
fn split(term: &str) -> Option<(&str, bool, &str)> {
    let at = term
        .char_indices()
        .find(|(i, c)| *c == '=' || term[*i..].starts_with("!="))?
        .0;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, true, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, false, value))
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                // Upstream prints the character's number.
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(selector: &str) -> FieldSelector {
        selector
            .parse()
            .unwrap_or_else(|e| panic!("{selector}: {e}"))
    }

    fn error(selector: &str) -> String {
        selector
            .parse::<FieldSelector>()
            .err()
            .unwrap_or_else(|| panic!("{selector} should be refused"))
            .to_string()
    }

    #[test]
    fn terms_are_all_required() {
        let field = |f: &str| match f {
            "metadata.name" => Some("a"),
            "spec.x" => Some("b,c"),
            _ => None,
        };
        for (selector, expected) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name!=a", false),
            ("metadata.name=b", false),
            (r"spec.x=b\,c,metadata.name=a", true),
            (r"spec.x=b\,c,metadata.name=x", false),
            ("spec.unset=", true),
            ("spec.unset!=x", true),
        ] {
            assert_eq!(parse(selector).matches(field), expected, "{selector}");
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for selector in [r"a=b\,c,d!=e", r"a=\\\=", "metadata.name=x", ""] {
            assert_eq!(parse(selector).to_string(), selector);
        }
        assert_eq!(parse("b==1,,a=2").to_string(), "a=2,b=1");
    }

    #[test]
    fn malformed_selectors_are_refused_with_the_words_of_upstream() {
        assert_eq!(
            error("abc"),
            "invalid selector: 'abc'; can't understand 'abc'"
        );
        assert_eq!(
            error(r"a=\x"),
            r"invalid field selector: invalid escape sequence: \x"
        );
        assert_eq!(
            error(r"a=\"),
            r"invalid field selector: invalid escape sequence: \"
        );
        assert_eq!(
            error("a=b=c"),
            "invalid field selector: unescaped character in value: 61"
        );
    }

    #[test]
    fn a_single_name_is_recognised() {
        assert_eq!(
            parse("metadata.name=a,spec.x=b").requires_exact_match("metadata.name"),
            Some("a")
        );
        assert_eq!(
            parse("metadata.name!=a").requires_exact_match("metadata.name"),
            None
        );
        assert_eq!(
            FieldSelector::name("a,b").to_string().parse(),
            Ok(FieldSelector::name("a,b"))
        );
    }

    #[test]
    fn what_has_no_namespace_is_not_selected_by_it() {
        let by_namespace = parse("metadata.namespace=a");
        assert_eq!(by_namespace.check_fields(true, []), Ok(()));
        assert_eq!(
            by_namespace
                .check_fields(false, [])
                .unwrap_err()
                .to_string(),
            "\"metadata.namespace\" is not a known field selector: only \"metadata.name\""
        );
    }

    #[test]
    fn unknown_fields_are_named_beside_the_known_ones() {
        assert_eq!(
            parse("spec.priority=1").check_fields(true, ["spec.priority"]),
            Ok(())
        );
        assert_eq!(
            parse("spec.x=1")
                .check_fields(true, ["spec.priority"])
                .unwrap_err()
                .to_string(),
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\", \
             \"spec.priority\""
        );
    }
}
