//! Calls that wait for an event or a timeout. Others use the library in the meantime: the call polls a
//! number in shared memory.

use std::ffi::c_uint;
use std::time::{Duration, Instant};

use gpu::{NvmlError, Reply};
use nvml_wrapper_sys::bindings::nvmlReturn_t;

use crate::argument::Argument;
use crate::clock;
use crate::entry::{Call, enter};

/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Functions that wait, as the header has them; the last argument is how long,
/// in milliseconds. The body says whether it found something.
macro_rules! waits {
    ($( fn $($name:ident)|+ ($($arguments:tt)*) { $($body:tt)* } )*) => {
        $( waits! { @all [$($name)+] ($($arguments)*) { $($body)* } } )*
    };
    (@all [$($name:ident)+] $arguments:tt $body:tt) => {
        $( waits! { @one $name $arguments $body } )+
    };
    (@one $name:ident ($call:ident $(, $argument:ident: $type:ty)*; $timeout:ident) $body:block) => {
        #[allow(unsafe_code, reason = "a name that C looks up; what C promises is in the arguments' types")]
        #[allow(non_snake_case, reason = "the header's names")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type,)* $timeout: std::ffi::c_uint) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::waiting::until(stringify!($name), &[$(&$argument),*], $timeout, |$call| Ok($body))
        }
    };
}

/// Looks until something is found.
#[expect(clippy::disallowed_methods, reason = "how long a C program wants to wait is real time")]
pub(crate) fn until(
    name: &str,
    arguments: &[&dyn Argument],
    timeout_ms: c_uint,
    look: impl Fn(&mut Call<'_>) -> Reply<Option<()>>,
) -> nvmlReturn_t {
    let begin = Instant::now();
    let timeout = Duration::from_millis(timeout_ms.into());
    // A fault strikes the call, and not each look.
    let mut name = Some(name);
    loop {
        let left = timeout.saturating_sub(begin.elapsed());
        let code = enter(name.take(), arguments, |call| match look(call)? {
            Some(()) => Ok(()),
            None if left.is_zero() => Err(NvmlError::Timeout),
            None => Err(NvmlError::NotReady),
        });
        if code != NvmlError::NotReady as nvmlReturn_t {
            return code;
        }
        clock::sleep(PAUSE.min(left));
    }
}
