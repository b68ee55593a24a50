//! From base64url text to the bytes it stands for, and from the wire's JSON strings to bytes.
//!
//! Knows nothing of records. Errors never show the text.

use anyhow::{Result, anyhow, bail};
use base64::DecodeError;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use base64::prelude::*;

use super::MAX_TEXT;

/// Refuses what is too long to be a record.
pub(super) fn check_size(bytes: &[u8]) -> Result<()> {
    if bytes.len() > MAX_TEXT {
        bail!("policy payload is longer than {MAX_TEXT} bytes");
    }
    Ok(())
}

/// The bytes behind base64url text with white space around it.
pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>> {
    check_size(text)?;
    let start = text.len() - text.trim_ascii_start().len();
    let text = text.trim_ascii();
    if text.is_empty() {
        bail!("policy payload is empty");
    }
    if text.starts_with(b"{") {
        bail!("policy payload is bare JSON, expected its base64url form; --policy FILE reads the JSON of a record");
    }
    // One engine that is indifferent to padding would also take one '=' where two belong.
    let engine = if text.ends_with(b"=") { &URL_SAFE } else { &URL_SAFE_NO_PAD };
    engine.decode(text).map_err(|error| fault(&error, start, text.len()))
}

/// The library's error without the text in it, and its offset as a person counts.
fn fault(error: &DecodeError, start: usize, length: usize) -> anyhow::Error {
    match *error {
        DecodeError::InvalidByte(offset, byte) => {
            anyhow!("policy payload: character {} {}", start + offset + 1, complaint(byte))
        }
        DecodeError::InvalidLastSymbol { offset, .. } => anyhow!(
            "policy payload: character {} has bits that belong to no byte: the text is damaged or cut off",
            start + offset + 1
        ),
        DecodeError::InvalidLength(_) => {
            anyhow!("policy payload: {length} characters of base64url cannot be whole bytes: the text is cut off")
        }
        DecodeError::InvalidPadding => anyhow!(
            "policy payload: wrong padding after character {}: '=' fills up to a multiple of 4, or is left out",
            start + length
        ),
    }
}

fn complaint(byte: u8) -> &'static str {
    match byte {
        b'+' | b'/' => "is of standard base64, expected base64url ('-' for '+', '_' for '/')",
        b'=' => "is padding before the end of the text",
        byte if byte.is_ascii_whitespace() => "is white space inside the text",
        byte if !byte.is_ascii() => "is not ASCII",
        _ => "is not base64url",
    }
}

/// The bytes of a decoded JSON string in which unpaired surrogates stand as three bytes each (WTF-8).
///
/// U+DC80 to U+DCFF are the bytes 0x80 to 0xFF; any other unpaired surrogate stands for nothing and gives `None`.
pub(super) fn unescape_bytes(wtf8: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(wtf8.len());
    let mut rest = wtf8;
    while let [first, tail @ ..] = rest {
        // In UTF-8, 0xED is followed by at most 0x9F: a higher second byte encodes a surrogate.
        rest = match (first, tail) {
            (0xED, [0xB2, low, after @ ..]) => {
                bytes.push(*low);
                after
            }
            (0xED, [0xB3, low, after @ ..]) => {
                bytes.push(low | 0x40);
                after
            }
            (0xED, [0xA0..=0xBF, ..]) => return None,
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    Some(bytes)
}
