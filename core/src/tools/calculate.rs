//! `math.calculate`: `{"expression"}` to `{"value"}`, a decimal as text.
//!
//! `+ - * / % ^ ( )`, unary minus, and the words plus, minus, times, divided by. 28 digits; an exponent is an integer of at
//! most 999, so that `9^9^9` is an error and not an outage.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rust_decimal::{Decimal, MathematicalOps};
use serde_json::{Value, json};

use crate::tools::failure::ReasonCode;
use crate::tools::spec::{Idempotency, OutputTrust, Parallel, Risk, SideEffect, ToolKind, ToolSpec};
use crate::tools::tool::{Tool, ToolAnswer, ToolContext, text_argument};

/// Characters of an expression.
const EXPRESSION_CHARS_MAX: usize = 1_000;
/// Open parentheses and signs at once: what the recursion of the parser costs in stack.
const DEPTH_MAX: u32 = 64;
const EXPONENT_MAX: i64 = 999;

#[derive(Debug)]
pub(super) struct Calculate {
    spec: ToolSpec,
}

impl Calculate {
    pub(super) fn new() -> Self {
        let input_schema = json!({
            "type": "object",
            "properties": {"expression": {
                "type": "string", "minLength": 1, "maxLength": EXPRESSION_CHARS_MAX,
                "description": "Numbers, + - * / % ^ and parentheses: (2 + 3) * 4",
            }},
            "required": ["expression"],
            "additionalProperties": false,
        });
        let output_schema = json!({
            "type": "object",
            "properties": {"value": {"type": "string"}},
            "required": ["value"],
            "additionalProperties": false,
        });
        Self {
            spec: ToolSpec {
                name: "math.calculate",
                version: "1",
                description: "Calculates an expression exactly, with 28 digits.",
                input_schema,
                output_schema: Some(output_schema),
                side_effect: SideEffect::None,
                risk: Risk::Low,
                idempotency: Idempotency::ReadOnly,
                required_scopes: &[],
                timeout: Duration::from_secs(1),
                max_output_bytes: 1_024,
                parallel: Parallel::Allowed,
                kind: ToolKind::Capability,
                output_trust: OutputTrust::Own,
            },
        }
    }
}

impl Tool for Calculate {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, arguments: &'a Value, _: ToolContext<'a>) -> BoxFuture<'a, Result<ToolAnswer, ReasonCode>> {
        async move {
            let value = evaluate(text_argument(arguments, "expression")?)?;
            Ok(ToolAnswer::value(json!({"value": value.normalize().to_string()})))
        }
        .boxed()
    }
}

const SYNTAX: ReasonCode = ReasonCode::ExpressionInvalid;
const RANGE: ReasonCode = ReasonCode::NumberOutOfRange;
const ZERO: ReasonCode = ReasonCode::DivisionByZero;

fn evaluate(expression: &str) -> Result<Decimal, ReasonCode> {
    if expression.chars().count() > EXPRESSION_CHARS_MAX {
        return Err(SYNTAX);
    }
    let tokens = tokens(expression)?;
    let mut parser = Parser { tokens: &tokens, depth: 0 };
    let value = parser.sum()?;
    if parser.tokens.is_empty() { Ok(value) } else { Err(SYNTAX) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Number(Decimal),
    Sign(char),
}

fn tokens(expression: &str) -> Result<Vec<Token>, ReasonCode> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first.is_ascii_digit() || first == '.' {
            let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
            (Some(Token::Number(number(&rest[..end])?)), end)
        } else if first.is_alphabetic() {
            let end = rest.find(|character: char| !character.is_alphabetic()).unwrap_or(rest.len());
            (word(&rest[..end])?, end)
        } else {
            (Some(Token::Sign(sign(first).ok_or(SYNTAX)?)), first.len_utf8())
        };
        tokens.extend(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn number(literal: &str) -> Result<Decimal, ReasonCode> {
    let is_number = literal.bytes().filter(|byte| *byte == b'.').count() <= 1 && literal != ".";
    // What is a number and still does not parse has too many digits.
    Decimal::from_str_exact(literal).map_err(|_| if is_number { RANGE } else { SYNTAX })
}

fn word(word: &str) -> Result<Option<Token>, ReasonCode> {
    match word.to_ascii_lowercase().as_str() {
        "plus" => Ok(Some(Token::Sign('+'))),
        "minus" => Ok(Some(Token::Sign('-'))),
        "times" | "x" => Ok(Some(Token::Sign('*'))),
        "divided" => Ok(Some(Token::Sign('/'))),
        "by" => Ok(None), // the second half of "divided by"
        _ => Err(SYNTAX),
    }
}

fn sign(character: char) -> Option<char> {
    match character {
        '+' | '-' | '*' | '/' | '%' | '^' | '(' | ')' => Some(character),
        '×' | '·' => Some('*'),
        '÷' => Some('/'),
        '−' => Some('-'),
        _ => None,
    }
}

/// Recursive descent. `^` binds tighter than a sign before it and associates to the right: `-2^2` is -4, `2^3^2` is 512.
struct Parser<'a> {
    tokens: &'a [Token],
    depth: u32,
}

impl Parser<'_> {
    fn take(&mut self, signs: &[char]) -> Option<char> {
        match self.tokens.split_first() {
            Some((Token::Sign(sign), rest)) if signs.contains(sign) => {
                self.tokens = rest;
                Some(*sign)
            }
            _ => None,
        }
    }

    fn sum(&mut self) -> Result<Decimal, ReasonCode> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let right = self.product()?;
            value = if sign == '+' { value.checked_add(right) } else { value.checked_sub(right) }.ok_or(RANGE)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<Decimal, ReasonCode> {
        let mut value = self.signed()?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            let right = self.signed()?;
            if sign != '*' && right.is_zero() {
                return Err(ZERO);
            }
            value = match sign {
                '*' => value.checked_mul(right),
                '/' => value.checked_div(right),
                _ => value.checked_rem(right),
            }
            .ok_or(RANGE)?;
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<Decimal, ReasonCode> {
        match self.take(&['-', '+']) {
            Some('-') => self.deeper(Self::signed).map(|value| -value),
            Some(_) => self.deeper(Self::signed),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Result<Decimal, ReasonCode> {
        let base = self.atom()?;
        if self.take(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        let exponent = if exponent.is_integer() { i64::try_from(exponent).ok() } else { None };
        let exponent = exponent.filter(|exponent| exponent.abs() <= EXPONENT_MAX).ok_or(RANGE)?;
        if base.is_zero() && exponent < 0 {
            return Err(ZERO);
        }
        base.checked_powi(exponent).ok_or(RANGE)
    }

    fn atom(&mut self) -> Result<Decimal, ReasonCode> {
        if self.take(&['(']).is_some() {
            let value = self.deeper(Self::sum)?;
            return if self.take(&[')']).is_some() { Ok(value) } else { Err(SYNTAX) };
        }
        match self.tokens.split_first() {
            Some((Token::Number(number), rest)) => {
                self.tokens = rest;
                Ok(*number)
            }
            _ => Err(SYNTAX),
        }
    }

    fn deeper(&mut self, parse: fn(&mut Self) -> Result<Decimal, ReasonCode>) -> Result<Decimal, ReasonCode> {
        if self.depth == DEPTH_MAX {
            return Err(SYNTAX);
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }
}

#[cfg(test)]
mod tests;
