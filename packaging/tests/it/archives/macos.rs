//! Programs for macOS, made here byte by byte as a linker lays them out, and each of them broken in one place.

use packaging::archives::System;
use sha2::{Digest, Sha256};

const ARM64: u32 = 0x0100_000c;
const X86_64: u32 = 0x0100_0007;
const PAGE: usize = 4096;

/// What a program says of itself, as it should be.
#[derive(Clone, Debug)]
struct Program {
    processor: u32,
    /// 2 is a program, 6 a library.
    kind: u32,
    /// The platform and the version, as 0xXXXXYYZZ.
    needs: Option<(u32, u32)>,
    libraries: Vec<&'static str>,
    is_signed: bool,
}

impl Program {
    fn sound(processor: u32) -> Self {
        let libraries = vec![
            "/usr/lib/libSystem.B.dylib",
            "/System/Library/Frameworks/Security.framework/Versions/A/Security",
        ];
        let needs = Some((1, 0x000d_0000));
        Self { processor, kind: 2, needs, libraries, is_signed: processor == ARM64 }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut commands: Vec<Vec<u8>> = Vec::new();
        if let Some((platform, version)) = self.needs {
            commands.push(little(&[0x32, 24, platform, version, version, 0]));
        }
        for name in &self.libraries {
            let mut text = name.as_bytes().to_vec();
            text.resize((text.len() + 8) & !7, 0);
            let size = u32::try_from(24 + text.len()).unwrap();
            commands.push([little(&[0xc, size, 24, 0, 0x1_0000, 0x1_0000]), text].concat());
        }
        // Two pages and a half of a program.
        let code = 2 * PAGE + PAGE / 2;
        let signature = if self.is_signed { 20 + 44 + 3 * 32 } else { 0 };
        if self.is_signed {
            let number = |number: usize| u32::try_from(number).unwrap();
            commands.push(little(&[0x1d, 16, number(code), number(signature)]));
        }
        let sizes = u32::try_from(commands.concat().len()).unwrap();
        let many = u32::try_from(commands.len()).unwrap();
        let header = little(&[0xfeed_facf, self.processor, 0, self.kind, many, sizes, 0x85, 0]);
        let mut bytes = [header, commands.concat()].concat();
        bytes.resize(code, 0x5a);
        if self.is_signed {
            bytes.extend(signed(&bytes));
            assert_eq!(bytes.len(), code + signature);
        }
        bytes
    }
}

fn little(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn big(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// A list of one signature, which lists the checksum of each page.
fn signed(content: &[u8]) -> Vec<u8> {
    let pages: Vec<u8> = content.chunks(PAGE).flat_map(Sha256::digest).collect();
    let number = |number: usize| u32::try_from(number).unwrap();
    let length = number(44 + pages.len());
    let many = number(content.chunks(PAGE).len());
    let mut bytes = big(&[0xfade_0cc0, 20 + length, 1, 0, 20]);
    bytes.extend(big(&[0xfade_0c02, length, 0x2_0400, 0x2, 44, 44, 0, many, number(content.len())]));
    // Checksums of 32 bytes, of the second kind, of pages of two to the twelfth.
    bytes.extend([32, 2, 0, 12, 0, 0, 0, 0]);
    bytes.extend(pages);
    bytes
}

fn refused(program: &[u8]) -> String {
    System::DarwinArm64.check(program).expect_err("macOS would not start it").to_string()
}

#[test]
fn a_program_that_macos_starts_is_packed() {
    System::DarwinArm64.check(&Program::sound(ARM64).bytes()).unwrap();
    System::DarwinAmd64.check(&Program::sound(X86_64).bytes()).unwrap();
    // Macs with Intel's processors run what is not signed; what is signed is checked there, too.
    let mut signed = Program { is_signed: true, ..Program::sound(X86_64) }.bytes();
    System::DarwinAmd64.check(&signed).unwrap();
    signed[PAGE] ^= 1;
    assert!(System::DarwinAmd64.check(&signed).is_err());
}

#[test]
fn a_program_that_macos_would_not_start_is_not_packed() {
    let sound = || Program::sound(ARM64);
    let is_told = |program: Program, told: &str| {
        let error = refused(&program.bytes());
        assert!(error.contains(told), "{error}");
    };
    is_told(Program { is_signed: false, ..sound() }, "is not signed");
    is_told(Program { kind: 6, ..sound() }, "type 6, not a program");
    is_told(Program { needs: None, ..sound() }, "does not say which version");
    is_told(Program { needs: Some((2, 0x000d_0000)), ..sound() }, "platform 2, not for macOS");
    is_told(Program { needs: Some((1, 0x000d_0100)), ..sound() }, "needs macOS 13.1, and 13.0 is promised");
    is_told(Program { needs: Some((1, 0x000f_0000)), ..sound() }, "MACOSX_DEPLOYMENT_TARGET=13.0");
    let homebrew = "/opt/homebrew/lib/libz.1.dylib";
    is_told(Program { libraries: vec![homebrew], ..sound() }, "loads /opt/homebrew/lib/libz.1.dylib");
    assert!(refused(b"#!/bin/sh\n").contains("not a 64-bit program for macOS"));
}

#[test]
fn a_program_that_was_stripped_after_it_was_signed_is_not_packed() {
    let sound = Program::sound(ARM64).bytes();
    for (page, at) in [(0, 400), (1, PAGE), (2, 2 * PAGE + PAGE / 2 - 1)] {
        let mut changed = sound.clone();
        changed[at] ^= 1;
        let error = refused(&changed);
        assert!(error.contains(&format!("page {page} of it has another checksum")), "{error}");
    }
}

/// However much of its end is missing, and whatever number stands in its signature: an answer, and no panic.
#[test]
fn a_signature_that_makes_no_sense_is_an_error() {
    let sound = Program::sound(ARM64).bytes();
    let signature = 2 * PAGE + PAGE / 2;
    for end in 0..sound.len() {
        refused(&sound[..end]);
    }
    // The magic numbers and the places of the list, of the checksums, of the pages and of the length.
    for at in [0, 16, 20, 20 + 16, 20 + 28, 20 + 32, 20 + 36] {
        for number in [0_u32, 1, 0x7fff_ffff, u32::MAX] {
            let mut changed = sound.clone();
            changed[signature + at..signature + at + 4].copy_from_slice(&number.to_be_bytes());
            refused(&changed);
        }
    }
}
