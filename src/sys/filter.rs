//! Loading a system-call filter into this process.

/// One instruction of classic BPF, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when the comparison holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Loads `program` for this process and all it starts; needs `no_new_privs`.
#[cfg(target_os = "linux")]
pub fn load(program: &[Instruction]) -> std::io::Result<()> {
    #[repr(C)]
    struct Program {
        len: u16,
        filter: *const Instruction,
    }
    let len = u16::try_from(program.len()).map_err(std::io::Error::other)?;
    let record = Program { len, filter: program.as_ptr() };
    // SAFETY: `record` and the instructions it points to live until the call returns; the kernel copies and checks them.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const record, 0, 0) };
    if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
