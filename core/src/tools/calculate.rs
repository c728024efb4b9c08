//! `math.calculate`: `{"expression"}` to `{"value"}`, a decimal as text.
//!
//! `+ - * / % ^ ( )`, unary minus, and the words plus, minus, times, divided by. 28 digits; an exponent is an integer of at
//! most 999, so that `9^9^9` is an error and not an outage.

use rust_decimal::{Decimal, MathematicalOps};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::pipeline::Refusal;

pub(super) const NAME: &str = "math.calculate";

/// Characters of an expression.
const EXPRESSION_CHARS_MAX: usize = 1_000;
/// Open parentheses and signs at once: what the recursion of the parser costs in stack.
const DEPTH_MAX: u32 = 64;
const EXPONENT_MAX: i64 = 999;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    expression: String,
}

pub(super) fn call(arguments: &Arguments) -> Result<Value, Refusal> {
    let value = evaluate(&arguments.expression).map_err(Refusal::Execution)?;
    Ok(json!({"value": value.normalize().to_string()}))
}

const SYNTAX: &str = "The expression is not understood.";
const RANGE: &str = "The result has more than 28 digits.";
const EXPONENT: &str = "An exponent is an integer of at most 999.";
const ZERO: &str = "Division by zero.";

fn evaluate(expression: &str) -> Result<Decimal, &'static str> {
    if expression.chars().count() > EXPRESSION_CHARS_MAX {
        return Err("The expression is longer than 1,000 characters.");
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

fn tokens(expression: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first.is_ascii_digit() || first == '.' {
            let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
            let number =
                Decimal::from_str_exact(&rest[..end]).map_err(|_| "A number has more than 28 digits, or more than one point.")?;
            (Some(Token::Number(number)), end)
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

fn word(word: &str) -> Result<Option<Token>, &'static str> {
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

    fn sum(&mut self) -> Result<Decimal, &'static str> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let right = self.product()?;
            value = if sign == '+' { value.checked_add(right) } else { value.checked_sub(right) }.ok_or(RANGE)?;
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<Decimal, &'static str> {
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

    fn signed(&mut self) -> Result<Decimal, &'static str> {
        match self.take(&['-', '+']) {
            Some('-') => self.deeper(Self::signed).map(|value| -value),
            Some(_) => self.deeper(Self::signed),
            None => self.power(),
        }
    }

    fn power(&mut self) -> Result<Decimal, &'static str> {
        let base = self.atom()?;
        if self.take(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.deeper(Self::signed)?;
        let exponent = if exponent.is_integer() { i64::try_from(exponent).ok() } else { None };
        let exponent = exponent.filter(|exponent| exponent.abs() <= EXPONENT_MAX).ok_or(EXPONENT)?;
        if base.is_zero() && exponent < 0 {
            return Err(ZERO);
        }
        base.checked_powi(exponent).ok_or(RANGE)
    }

    fn atom(&mut self) -> Result<Decimal, &'static str> {
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

    fn deeper(&mut self, parse: fn(&mut Self) -> Result<Decimal, &'static str>) -> Result<Decimal, &'static str> {
        if self.depth == DEPTH_MAX {
            return Err("The expression is nested too deep.");
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }
}

#[cfg(test)]
mod tests;
