//! On which terminal a process is, for saying so. Linux tells it in `/proc`; elsewhere, and when in doubt, none.

/// Major numbers of the kernel's devices for pseudo terminals, and of its consoles.
const PSEUDO: std::ops::RangeInclusive<u32> = 136..=143;
const CONSOLE: u32 = 4;

/// The controlling terminal of a process, as terminal ids are written: `pts-3`.
pub(super) fn of_process(pid: u32) -> Option<String> {
    terminal(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// From a line of `/proc/PID/stat`. The command name may hold anything, so what counts stands behind its last bracket.
fn terminal(stat: &str) -> Option<String> {
    let (_, fields) = stat.rsplit_once(") ")?;
    // Behind the name: state, parent, group, session, terminal.
    let device: u32 = fields.split(' ').nth(4)?.parse::<i64>().ok()?.try_into().ok()?;
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0x000f_ff00));
    match major {
        major if PSEUDO.contains(&major) => Some(format!("pts-{}", minor + (major - PSEUDO.start()) * 256)),
        CONSOLE if (1..64).contains(&minor) => Some(format!("tty{minor}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::terminal;

    #[test]
    fn terminals_are_named() {
        let of = |device: u32| terminal(&format!("12 (a ) S b) S 1 12 12 {device} 12 0"));
        assert_eq!(of(34_816).as_deref(), Some("pts-0"));
        assert_eq!(of(34_816 + 7).as_deref(), Some("pts-7"));
        assert_eq!(of(34_816 + (1 << 20)).as_deref(), Some("pts-256"));
        assert_eq!(of(1025).as_deref(), Some("tty1"));
        assert_eq!((of(0), terminal("garbage"), terminal("1 (x) S 1")), (None, None, None));
    }
}
