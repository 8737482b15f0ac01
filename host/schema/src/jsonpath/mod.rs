//! JSONPath as CRDs use it in `additionalPrinterColumns` and `selectableFields`: the language of k8s.io/client-go's
//! util/jsonpath without templates, evaluated on an object's bytes.
//!
//! Nothing is decoded but what a path needs: the fields that several paths begin with are found in one pass over the
//! object ([`Paths`]), and what follows (indexes, filters) reads the raw JSON found there. What no path asks for is
//! skipped, so that a column costs the same however long a list next to it is.

mod eval;
mod parse;
mod paths;

pub(crate) use eval::Match;
pub(crate) use paths::Paths;

/// A compiled JSONPath.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

/// A JSONPath that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "JSONPath {path:?}: {detail}; allowed: .field, ['field'], [index], [start:end], [*], .. and [?(@.field == value)]"
)]
pub struct JsonPathError {
    /// The path as given.
    pub path: String,
    /// What is wrong with it.
    pub detail: String,
}

impl JsonPath {
    /// Compiles a path such as `.status.conditions[?(@.type=="Ready")].status`. It must begin with a dot, as in CRDs.
    ///
    /// # Errors
    /// A text that is no such path.
    pub fn compile(text: &str) -> Result<Self, JsonPathError> {
        let steps = parse::path(text).map_err(|detail| JsonPathError {
            path: text.to_owned(),
            detail,
        })?;
        Ok(Self {
            text: text.to_owned(),
            steps,
        })
    }

    /// The path as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of its fields, where it consists of nothing else.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        self.steps
            .iter()
            .map(|step| {
                if let Step::Field(name) = step {
                    Some(name.as_str())
                } else {
                    None
                }
            })
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// All values of an object or a list.
    Wildcard,
    /// The value itself and all below it that hold something.
    Recursive,
    Slice(Slice),
    Union(Vec<Step>),
    Filter(Filter),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// `[3]`, not `[3:4]`: then `end` is `start + 1`, and `[-1]` ends with the list.
    index: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    /// None: the left side must exist.
    right: Option<(Operator, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<Step>),
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}
