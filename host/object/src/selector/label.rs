//! Label selectors, as `k8s.io/apimachinery/pkg/labels` reads them.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = key | "!" key | key ("=" | "==" | "!=" | ">" | "<") [ value ] | key ("in" | "notin") "(" values ")"
//! values      = [ value ] { "," [ value ] }
//! ```

use std::fmt;
use std::str::FromStr;

use super::SelectorError;

/// How a requirement relates a key to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key=value`
    Equals,
    /// `key==value`, the same
    DoubleEquals,
    /// `key!=value`; also true of objects without the key
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; also true of objects without the key
    NotIn,
    /// `key>1`, both integers
    GreaterThan,
    /// `key<1`, both integers
    LessThan,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    key: String,
    operator: Operator,
    /// Sorted, each once.
    values: Vec<String>,
}

impl LabelRequirement {
    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How key and values relate.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Sorted, each once. None for `Exists` and `DoesNotExist`, one for comparisons, at least one for sets.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let among = |value: &str| self.values.iter().any(|v| v == value);
        match (self.operator, value) {
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::Equals | Operator::DoubleEquals | Operator::In, value) => {
                value.is_some_and(among)
            }
            (Operator::NotEquals | Operator::NotIn, value) => !value.is_some_and(among),
            (Operator::GreaterThan, value) => self.compare(value).is_some_and(|o| o.is_gt()),
            (Operator::LessThan, value) => self.compare(value).is_some_and(|o| o.is_lt()),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<std::cmp::Ordering> {
        let bound: i64 = self.values.first()?.parse().ok()?;
        Some(value?.parse::<i64>().ok()?.cmp(&bound))
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = self.values.join(",");
        match self.operator {
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// A conjunction of requirements, ordered by key. The default selects everything.
///
/// [`fmt::Display`] writes what [`FromStr`] reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector(Vec<LabelRequirement>);

impl LabelSelector {
    /// True: selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All must hold. Ordered by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.0
    }

    /// Whether an object is selected; `label` looks up one of its labels.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|r| r.matches(label(&r.key)))
    }
}

impl fmt::Display for LabelSelector {
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

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(selector: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser {
            tokens: tokens(selector),
            position: 0,
        };
        let mut requirements = parser.selector()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    /// A key or a value; also the words `in` and `notin`, which are operators only where one may stand.
    Word(&'a str),
    Open,
    Close,
    Comma,
    Not,
    Compare(Operator),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Word(text) => text,
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Not => "!",
            Token::Compare(Operator::Equals) => "=",
            Token::Compare(Operator::DoubleEquals) => "==",
            Token::Compare(Operator::NotEquals) => "!=",
            Token::Compare(Operator::GreaterThan) => ">",
            Token::Compare(_) => "<",
        }
    }
}

fn tokens(selector: &str) -> Vec<Token<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    let mut rest = selector.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '=' if rest.starts_with("==") => (Token::Compare(Operator::DoubleEquals), 2),
            '=' => (Token::Compare(Operator::Equals), 1),
            '!' if rest.starts_with("!=") => (Token::Compare(Operator::NotEquals), 2),
            '!' => (Token::Not, 1),
            '>' => (Token::Compare(Operator::GreaterThan), 1),
            '<' => (Token::Compare(Operator::LessThan), 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            _ => {
                let end = rest
                    .find(|c| is_space(c) || is_symbol(c))
                    .unwrap_or(rest.len());
                (Token::Word(&rest[..end]), end)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start_matches(is_space);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser<'a> {
    /// Ends with [`Token::End`].
    tokens: Vec<Token<'a>>,
    position: usize,
}

fn found(token: Token<'_>, expected: &str) -> SelectorError {
    SelectorError(format!("found '{}', expected: {expected}", token.text()))
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens
            .get(self.position)
            .copied()
            .unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<LabelRequirement>, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(requirements),
                Token::Word(_) | Token::Not => {}
                other => return Err(found(other, "!, identifier, or 'end of string'")),
            }
            let requirement = self
                .requirement()
                .map_err(|e| SelectorError(format!("unable to parse requirement: {}", e.0)))?;
            requirements.push(requirement);
            match self.next() {
                Token::End => return Ok(requirements),
                Token::Comma => match self.peek() {
                    Token::Word(_) | Token::Not => {}
                    other => return Err(found(other, "identifier after ','")),
                },
                other => return Err(found(other, "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let negated = self.peek() == Token::Not;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(found(other, "identifier")),
        };
        check_key(key)?;
        let (operator, values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek(), Token::End | Token::Comma) {
            (Operator::Exists, Vec::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ => vec![self.value()?],
            };
            (operator, values)
        };
        check_values(key, operator, &values)?;
        Ok(LabelRequirement {
            key: key.to_owned(),
            operator,
            values: values.into_iter().map(str::to_owned).collect(),
        })
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        match self.next() {
            Token::Word("in") => Ok(Operator::In),
            Token::Word("notin") => Ok(Operator::NotIn),
            Token::Compare(operator) => Ok(operator),
            other => Err(found(other, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self) -> Result<&'a str, SelectorError> {
        match self.peek() {
            Token::End | Token::Comma => Ok(""),
            Token::Word(value) => {
                self.next();
                Ok(value)
            }
            other => Err(found(other, "identifier")),
        }
    }

    /// `(a,b)`, where any value may be empty.
    fn values(&mut self) -> Result<Vec<&'a str>, SelectorError> {
        match self.next() {
            Token::Open => {}
            // Upstream has no comma in this one.
            other => {
                return Err(SelectorError(format!(
                    "found '{}' expected: '('",
                    other.text()
                )));
            }
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.next();
                    value
                }
                Token::Comma | Token::Close => "",
                other if values.is_empty() => return Err(found(other, "',', ')' or identifier")),
                other => return Err(found(other, "',', or identifier")),
            };
            values.push(value);
            match self.next() {
                Token::Comma => {}
                Token::Close => break,
                other => return Err(found(other, "',' or ')'")),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
    or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// Bytes of a label's value, and of its key behind the prefix.
const MAX_NAME: usize = 63;
const MAX_PREFIX: usize = 253;

fn check_key(key: &str) -> Result<(), SelectorError> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            errors.push(format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            ));
            return invalid("<nil>", key, &errors);
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > MAX_PREFIX {
                    errors.push(format!(
                        "prefix part must be no more than {MAX_PREFIX} bytes"
                    ));
                }
                if !is_dns1123_subdomain(prefix) {
                    errors.push(format!("prefix part {SUBDOMAIN_RULE}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_NAME {
        errors.push(format!("name part must be no more than {MAX_NAME} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {NAME_RULE}"));
    }
    invalid("<nil>", key, &errors)
}

fn check_values(key: &str, operator: Operator, values: &[&str]) -> Result<(), SelectorError> {
    for (i, value) in values.iter().enumerate() {
        if matches!(operator, Operator::GreaterThan | Operator::LessThan)
            && value.parse::<i64>().is_err()
        {
            let rule = "for 'Gt', 'Lt' operators, the value must be an integer".to_owned();
            return invalid(&format!("values[{i}]"), value, &[rule]);
        }
        let mut errors = Vec::new();
        if value.len() > MAX_NAME {
            errors.push(format!("must be no more than {MAX_NAME} bytes"));
        }
        if !value.is_empty() && !is_name(value) {
            errors.push(VALUE_RULE.to_owned());
        }
        invalid(&format!("values[{i}][{key}]"), value, &errors)?;
    }
    Ok(())
}

fn invalid(field: &str, value: &str, errors: &[String]) -> Result<(), SelectorError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(SelectorError(format!(
        "{field}: Invalid value: {value:?}: {}",
        errors.join("; ")
    )))
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Lower-case DNS labels joined with dots, of any length.
fn is_dns1123_subdomain(name: &str) -> bool {
    name.split('.').all(|label| {
        let bytes = label.as_bytes();
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(selector: &str) -> LabelSelector {
        selector
            .parse()
            .unwrap_or_else(|e| panic!("{selector}: {e}"))
    }

    fn error(selector: &str) -> String {
        selector
            .parse::<LabelSelector>()
            .err()
            .unwrap_or_else(|| panic!("{selector} should be refused"))
            .to_string()
    }

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        parse(selector).matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn every_operator_selects_what_it_says() {
        let labels = [("a", "x"), ("n", "5"), ("empty", "")];
        for (selector, expected) in [
            ("", true),
            ("a", true),
            ("!a", false),
            ("b", false),
            ("!b", true),
            ("a=x", true),
            ("a==x", true),
            ("a=y", false),
            ("a!=y", true),
            ("b!=y", true),
            ("a in (x,y)", true),
            ("a in (y)", false),
            ("b in (y)", false),
            ("a notin (x)", false),
            ("b notin (x)", true),
            ("n>4", true),
            ("n>5", false),
            ("n<6", true),
            ("a>4", false),
            ("b<4", false),
            ("empty=", true),
            ("empty in ()", true),
            ("a=x,n in (5,6),!b", true),
            ("a=x,b", false),
        ] {
            assert_eq!(matches(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for (selector, written) in [
            (" a = x , b == y ", "a=x,b==y"),
            ("z in (b, a,a),y", "y,z in (a,b)"),
            (
                "x in (foo,,baz),y,z notin ()",
                "x in (,baz,foo),y,z notin ()",
            ),
            ("in in (in,notin)", "in in (in,notin)"),
            ("!example.com/a", "!example.com/a"),
            ("a>1,b<2,c!=d", "a>1,b<2,c!=d"),
            ("a in\t(x)", "a in (x)"),
        ] {
            let parsed = parse(selector);
            assert_eq!(parsed.to_string(), written);
            assert_eq!(parse(written), parsed);
        }
    }

    #[test]
    fn errors_are_worded_as_upstream() {
        for (selector, message) in [
            (
                ",",
                "found ',', expected: !, identifier, or 'end of string'",
            ),
            ("a,", "found '', expected: identifier after ','"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            (
                "a in",
                "unable to parse requirement: found '' expected: '('",
            ),
            (
                "a in (x",
                "unable to parse requirement: found '', expected: ',' or ')'",
            ),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            (
                "a==!",
                "unable to parse requirement: found '!', expected: identifier",
            ),
            (
                "n>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
                 must be an integer",
            ),
        ] {
            assert_eq!(error(selector), message, "{selector}");
        }
        assert!(error("a/b/c").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must consist of"
        ));
        assert!(
            error("A.com/b").contains("prefix part a lowercase RFC 1123 subdomain must consist")
        );
        assert!(error("/b").contains("prefix part must be non-empty"));
        assert!(error("a=-x").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-x\": a valid label must be an empty string"
        ));
        assert!(error(&format!("a={}", "x".repeat(64))).contains("must be no more than 63 bytes"));
        assert!(
            error(&format!("{}=x", "x".repeat(64)))
                .contains("name part must be no more than 63 bytes")
        );
    }

    #[test]
    fn requirements_are_told_apart_for_an_access_review() {
        let selector = parse("b in (y,x),a");
        let requirements = selector.requirements();
        assert_eq!(requirements[0].key(), "a");
        assert_eq!(requirements[0].operator(), Operator::Exists);
        assert_eq!(requirements[1].operator(), Operator::In);
        assert_eq!(requirements[1].values(), ["x", "y"]);
    }
}
