//! The linking of an ELF program, by its headers.

use std::fmt;

/// The type of the program header that names the dynamic linker.
const PT_INTERP: u32 = 3;

/// The linking of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linking {
    /// Static: the program needs no library of the system.
    Static,
    /// Dynamic: the program needs the system's libc, at least as new as that of the building machine.
    Dynamic,
    /// Unknown: the file is no 64-bit little-endian ELF program.
    Unknown,
}

impl Linking {
    /// Reads the headers of a program.
    pub(super) fn of(program: &[u8]) -> Self {
        let Some(headers) = program_headers(program) else { return Self::Unknown };
        if headers.contains(&PT_INTERP) { Self::Dynamic } else { Self::Static }
    }
}

impl fmt::Display for Linking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "statically linked: it needs no library of the system",
            Self::Dynamic => {
                "dynamically linked: it needs a libc that is at least as new as the one of this machine"
            }
            Self::Unknown => "linked in an unknown way: it is no 64-bit ELF program",
        })
    }
}

/// The types of a program's headers.
fn program_headers(program: &[u8]) -> Option<Vec<u32>> {
    let field = |at: usize, size: usize| -> Option<usize> {
        let bytes = program.get(at..at.checked_add(size)?)?;
        usize::try_from(bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))).ok()
    };
    // The magic number, 64 bits, little-endian.
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, size, count) = (field(0x20, 8)?, field(0x36, 2)?, field(0x38, 2)?);
    (0..count)
        .map(|index| {
            let at = first.checked_add(index.checked_mul(size)?)?;
            u32::try_from(field(at, 4)?).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(headers: &[u32]) -> Vec<u8> {
        let mut program = vec![0; 64];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        program[0x20] = 64;
        program[0x36] = 56;
        program[0x38] = u8::try_from(headers.len()).unwrap();
        for header in headers {
            program.extend(header.to_le_bytes());
            program.extend([0; 52]);
        }
        program
    }

    #[test]
    fn a_program_that_names_a_dynamic_linker_is_linked_dynamically() {
        assert_eq!(Linking::of(&elf(&[6, PT_INTERP, 1])), Linking::Dynamic);
        assert_eq!(Linking::of(&elf(&[1, 1, 2])), Linking::Static);
    }

    #[test]
    fn anything_else_is_unknown() {
        assert_eq!(Linking::of(b"#!/bin/sh\n"), Linking::Unknown);
        assert_eq!(Linking::of(&elf(&[1, 1])[..100]), Linking::Unknown, "it ends in the middle");
    }

    #[test]
    fn these_tests_are_linked_dynamically() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Linking::of(&program), Linking::Dynamic);
    }
}
