//! From text to steps.

use super::{Filter, Operand, Operator, Slice, Step};

pub(super) fn path(text: &str) -> Result<Vec<Step>, String> {
    if !text.starts_with('.') {
        return Err("must begin with .".to_owned());
    }
    steps(text)
}

/// Steps up to the end of the text.
fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        rest = match next {
            ' ' | '@' | '$' => &rest[1..],
            '.' if rest.starts_with("..") => {
                if steps.last() == Some(&Step::Recursive) {
                    return Err("has .. twice".to_owned());
                }
                steps.push(Step::Recursive);
                let rest = &rest[2..];
                if rest.starts_with(|c: char| c == '_' || c == '*' || c.is_alphanumeric()) {
                    field(rest, &mut steps)?
                } else {
                    rest
                }
            }
            '.' => field(&rest[1..], &mut steps)?,
            '[' if rest.starts_with("[?(") => {
                let (inner, tail) = filter_text(&rest[3..])?;
                steps.push(Step::Filter(filter(inner)?));
                tail
            }
            '[' => {
                let end = rest.find(']').ok_or("has a [ without ]")?;
                brackets(&rest[1..end], &mut steps)?;
                &rest[end + 1..]
            }
            other => return Err(format!("has an unexpected {other:?}")),
        };
    }
    Ok(steps)
}

/// A name up to the next step; a backslash keeps the character after it in the name. Returns what follows.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> Result<&'a str, String> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, escaped)) => name.push(escaped),
                None => return Err("ends with a backslash".to_owned()),
            },
            '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' | ' ' | '\t' | '\r' | '\n' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    // An empty name is a field too, one that no object has.
    steps.push(if name == "*" {
        Step::Wildcard
    } else {
        Step::Field(name)
    });
    Ok(&text[end..])
}

fn brackets(text: &str, steps: &mut Vec<Step>) -> Result<(), String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 1 {
        let mut union = Vec::new();
        for part in parts {
            brackets(part, &mut union)?;
        }
        steps.push(Step::Union(union));
        return Ok(());
    }
    let text = text.trim();
    if text == "*" {
        steps.push(Step::Wildcard);
        return Ok(());
    }
    for quote in ['\'', '"'] {
        if let Some(name) = text
            .strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote))
        {
            // Dots in such a name may be written with a backslash, as client-go needs it.
            steps.push(Step::Field(name.replace('\\', "")));
            return Ok(());
        }
    }
    steps.push(Step::Slice(slice(text)?));
    Ok(())
}

fn slice(text: &str) -> Result<Slice, String> {
    let bad = || format!("has the invalid index [{text}]");
    let parts: Vec<Option<i64>> = text
        .split(':')
        .map(|part| {
            if part.is_empty() {
                Ok(None)
            } else {
                part.parse().map(Some).map_err(|_| bad())
            }
        })
        .collect::<Result<_, _>>()?;
    match parts[..] {
        [Some(index)] => Ok(Slice {
            start: Some(index),
            end: Some(index + 1),
            step: None,
            index: true,
        }),
        [start, end] => Ok(Slice {
            start,
            end,
            step: None,
            index: false,
        }),
        [start, end, step] if step.is_none_or(|step| step > 0) => Ok(Slice {
            start,
            end,
            step,
            index: false,
        }),
        _ => Err(bad()),
    }
}

/// What stands between `[?(` and `)]`, and what follows. A `)` in quotes does not end it.
fn filter_text(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == ')' => {
                let tail = text[at + 1..]
                    .strip_prefix(']')
                    .ok_or("has a filter that does not end with )]")?;
                return Ok((&text[..at], tail));
            }
            None => {}
        }
    }
    Err("has a filter that does not end with )]".to_owned())
}

fn filter(text: &str) -> Result<Filter, String> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let Some(start) = text.find(is_operator) else {
        return Ok(Filter {
            left: operand(text)?,
            right: None,
        });
    };
    let length = text[start..]
        .find(|c| !is_operator(c))
        .unwrap_or(text.len() - start);
    let operator = match &text[start..start + length] {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => {
            return Err(format!(
                "has the unknown operator {other}, allowed: == != < <= > >="
            ));
        }
    };
    Ok(Filter {
        left: operand(&text[..start])?,
        right: Some((operator, operand(&text[start + length..])?)),
    })
}

fn operand(text: &str) -> Result<Operand, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("has a filter with nothing to compare".to_owned());
    }
    for quote in ['\'', '"'] {
        if let Some(inner) = text
            .strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote))
        {
            let mut plain = String::with_capacity(inner.len());
            let mut chars = inner.chars();
            while let Some(c) = chars.next() {
                plain.push(if c == '\\' {
                    chars.next().unwrap_or('\\')
                } else {
                    c
                });
            }
            return Ok(Operand::Text(plain));
        }
    }
    match text {
        "true" => Ok(Operand::Bool(true)),
        "false" => Ok(Operand::Bool(false)),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') => text
            .parse()
            .map(Operand::Int)
            .or_else(|_| text.parse().map(Operand::Float))
            .map_err(|_| format!("has the invalid number {text}")),
        _ if text.starts_with(['@', '$', '.']) => Ok(Operand::Path(steps(text)?)),
        _ => Err(format!(
            "has the operand {text}: quote texts, and begin fields with @."
        )),
    }
}
