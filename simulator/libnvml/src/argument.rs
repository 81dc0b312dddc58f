//! The arguments of C callers, as types: each knows the header's requirements.
//!
//! The types have the representation of the C argument that they stand for, and
//! no constructor: a value exists only because a C program called a function
//! of this library with it. `nvml.h` makes that program promise that a pointer
//! which is not null points to what its type says. That promise is what the
//! `unsafe` blocks here rely on, and the only place where they do. Pointers may
//! be unaligned all the same, so nothing here makes a reference of them.
#![allow(unsafe_code, reason = "memory of C programs is read and written here, and nowhere else")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};

use gpu::{NvmlError, Reply};

use crate::filled::Filled;
use crate::handle::Handles;

/// An argument of a function of the library.
pub(crate) trait Argument {
    /// Whether the header allows this value, as far as the type can say.
    fn check(&self, _handles: &Handles) -> Reply<()> {
        Ok(())
    }

    /// The GPU that it names, for faults that are bound to one.
    fn gpu(&self, _handles: &Handles) -> Option<u16> {
        None
    }

    /// Writes zeros where the call would write its answer: what a call that
    /// only pretends leaves behind.
    fn blank(&self) {}
}

macro_rules! plain_numbers {
    ($($number:ty)*) => {$( impl Argument for $number {} )*};
}
plain_numbers!(c_uint c_int c_ulonglong);

fn not_null<T>(pointer: *const T) -> Reply<()> {
    if pointer.is_null() { Err(NvmlError::InvalidArgument) } else { Ok(()) }
}

/// Where an answer goes. It may not be null.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T: Filled> Out<T> {
    /// Writes the answer.
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: by the C contract, a pointer that is not null can be written to.
            unsafe { self.0.write_unaligned(value) }
        }
    }
}

impl<T: Copy> Out<T> {
    /// What the caller put there: for counts, and for the fields that it fills in.
    ///
    /// # Errors
    /// `InvalidArgument` if it is null.
    pub(crate) fn get(self) -> Reply<T> {
        not_null(self.0)?;
        // SAFETY: by the C contract the caller has put a value there. All types that are asked for
        // are plain numbers, pointers and arrays of them, of which every bit pattern is one.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Changes what is there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn update(self, change: impl FnOnce(&mut T)) -> Reply<()>
    where
        T: Filled,
    {
        let mut value = self.get()?;
        change(&mut value);
        self.set(value);
        Ok(())
    }
}

impl<T> Argument for Out<T> {
    fn check(&self, _handles: &Handles) -> Reply<()> {
        not_null(self.0)
    }

    fn blank(&self) {
        if !self.0.is_null() {
            // SAFETY: by the C contract it can be written to; zeros are a value of every C type here.
            unsafe { self.0.cast::<u8>().write_bytes(0, size_of::<T>()) }
        }
    }
}

/// What the caller wants, in a struct. It may not be null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// The struct.
    ///
    /// # Errors
    /// `InvalidArgument` if it is null.
    pub(crate) fn get(self) -> Reply<T> {
        Out(self.0.cast_mut()).get()
    }
}

impl<T> In<T> {
    /// The array that begins where the struct ends: of callers whose header
    /// makes it longer or shorter than another's.
    pub(crate) const fn behind<U>(self) -> OutArray<U> {
        OutArray(self.0.wrapping_add(1).cast_mut().cast())
    }
}

impl<T> Argument for In<T> {
    fn check(&self, _handles: &Handles) -> Reply<()> {
        not_null(self.0)
    }
}

/// A pointer of a function that does nothing with it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ignored(*const u8);

impl Argument for Ignored {}

/// A string from the caller. It may not be null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct InText(*const c_char);

impl InText {
    /// The string; one that is not UTF-8 names nothing of ours.
    ///
    /// # Errors
    /// `InvalidArgument` if it is null or no text.
    pub(crate) fn get(self) -> Reply<String> {
        not_null(self.0)?;
        // SAFETY: by the C contract it is a string that a NUL ends.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| NvmlError::InvalidArgument)
    }
}

impl Argument for InText {
    fn check(&self, _handles: &Handles) -> Reply<()> {
        not_null(self.0)
    }
}

/// The caller's buffer for a string; its length is the argument after it. It
/// may not be null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutText(*mut c_char);

impl OutText {
    /// Writes a string and the NUL that ends it.
    ///
    /// # Errors
    /// `InsufficientSize` if it does not fit; then nothing is written.
    pub(crate) fn set(self, length: c_uint, text: &str) -> Reply<()> {
        not_null(self.0)?;
        if (length as usize) <= text.len() {
            return Err(NvmlError::InsufficientSize);
        }
        // SAFETY: by the C contract `length` bytes can be written to, and these are fewer.
        unsafe {
            self.0.cast::<u8>().copy_from(text.as_ptr(), text.len());
            self.0.add(text.len()).write(0);
        }
        Ok(())
    }
}

impl Argument for OutText {
    fn check(&self, _handles: &Handles) -> Reply<()> {
        not_null(self.0)
    }
}

/// The caller's array. It may be null, which asks how long it would have to be.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutArray<T>(*mut T);

impl<T: Copy> Filled for OutArray<T> {}

impl<T: Copy> OutArray<T> {
    /// Whether the caller only asks for the length.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes all values into an array that the header says is long enough for
    /// whatever there is.
    pub(crate) fn fill(self, values: &[T])
    where
        T: Filled,
    {
        if self.is_null() {
            return;
        }
        for (i, value) in values.iter().enumerate() {
            // SAFETY: by the C contract the array has room for all that there can be.
            unsafe { self.0.add(i).write_unaligned(*value) }
        }
    }

    /// Writes all values, and how many they are, into an array as long as
    /// `count` says.
    ///
    /// # Errors
    /// `InsufficientSize` if they are more; `count` then says how many.
    pub(crate) fn fill_at_most(self, count: Out<c_uint>, values: &[T]) -> Reply<()>
    where
        T: Filled,
    {
        let room = count.get()? as usize;
        count.set(values.len().try_into().unwrap_or(c_uint::MAX));
        if values.len() > room {
            return Err(NvmlError::InsufficientSize);
        }
        if self.is_null() && !values.is_empty() {
            return Err(NvmlError::InvalidArgument);
        }
        self.fill(values);
        Ok(())
    }

    /// Changes each of the caller's `count` values.
    ///
    /// # Errors
    /// `InvalidArgument` if the array is null, and what `change` says.
    pub(crate) fn update_each(self, count: usize, mut change: impl FnMut(&mut T)) -> Reply<()>
    where
        T: Filled,
    {
        not_null(self.0)?;
        for i in 0..count {
            // SAFETY: by the C contract the array has `count` values.
            Out(unsafe { self.0.add(i) }).update(&mut change)?;
        }
        Ok(())
    }
}

impl<T> Argument for OutArray<T> {}

/// A struct of which several versions exist, told apart by its first field:
/// `sizeof | version << 24`. It may not be null.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versioned(*mut c_uint);

impl Versioned {
    /// The struct, if the caller says that it is of this type and version.
    pub(crate) fn is<T: Copy>(self, version: c_uint) -> Option<Out<T>> {
        (Out(self.0).get() == Ok(struct_version::<T>(version))).then_some(Out(self.0.cast()))
    }

    /// As [`is`](Self::is), for a struct with one version.
    ///
    /// # Errors
    /// `ArgumentVersionMismatch`.
    pub(crate) fn must_be<T: Copy>(self, version: c_uint) -> Reply<Out<T>> {
        self.is(version).ok_or(NvmlError::ArgumentVersionMismatch)
    }
}

impl Argument for Versioned {
    fn check(&self, _handles: &Handles) -> Reply<()> {
        not_null(self.0)
    }
}

/// What the header calls `NVML_STRUCT_VERSION`.
pub(crate) const fn struct_version<T>(version: c_uint) -> c_uint {
    (size_of::<T>() as c_uint) | version << 24
}

/// A text in one of C's arrays, cut where it is too long.
pub(crate) fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, from) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from.cast_signed() as c_char;
    }
    array
}

/// The text in a UUID's union, which the caller says it is.
pub(crate) fn ascii(value: nvml_wrapper_sys::bindings::nvmlUUIDValue_t) -> String {
    // SAFETY: both variants are plain bytes, of which every pattern is a value; those behind the
    // shorter one are the caller's as well, by the struct's size.
    let bytes = unsafe { value.str_ };
    let text = bytes.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte as u8));
    text.collect()
}
