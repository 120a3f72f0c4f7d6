//! File systems, and which calls do not wait there.
//!
//! `fstatfs` names the file system, but it waits for the server of a remote one. So a thread of the
//! pool calls it, once for each mount, and a table keeps the answer. `statx` finds the mount of a
//! descriptor: with `AT_STATX_DONT_SYNC` the kernel answers from memory on every file system.

use crate::base::fallback::{Facility, denied};
use rustix::fs::{AtFlags, FileType, StatxFlags, fstatfs, statx};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// Where a file system has its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// In memory, with their contents. A page that was swapped out makes its reader wait, as a page of
    /// the reader's own heap does.
    Memory,
    /// On a device of this machine. The attributes of an open file are in memory.
    Device,
    /// Behind a server or another process, or in an unknown place. Any call may wait.
    Elsewhere,
}

impl Storage {
    /// Names the storage of a file system by its magic number.
    fn of_type(magic: u32) -> Storage {
        match magic {
            // tmpfs, ramfs.
            0x0102_1994 | 0x8584_58f6 => Storage::Memory,
            // ext2 to ext4, xfs, btrfs, f2fs, erofs, squashfs.
            0xef53 | 0x5846_5342 | 0x9123_683e | 0xf2f5_2010 | 0xe0f5_e1e2 | 0x7371_7368 => Storage::Device,
            // overlayfs. Its layers are taken to be on devices of this machine.
            0x794c_7630 => Storage::Device,
            _ => Storage::Elsewhere,
        }
    }

    /// Returns whether the attributes of an open file are in memory.
    pub(super) fn is_local(self) -> bool {
        self != Storage::Elsewhere
    }
}

/// The status of a descriptor, which the kernel tells without waiting.
#[derive(Clone, Copy)]
pub(super) struct Status {
    pub(super) file_type: FileType,
    mount: Option<Mount>,
}

/// Identifies a mount. Since Linux 6.8 its number is never used again. Before that a mount may get the
/// number of one that is gone. The device is compared as well, so that both are rarely equal.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mount {
    id: u64,
    device: (u32, u32),
}

/// `STATX_MNT_ID_UNIQUE`.
const UNIQUE_MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The number of mounts that the table holds; then it starts again. Unmeasured.
const MOST_MOUNTS: usize = 64;

/// The mounts that were asked for.
static MOUNTS: Mutex<Vec<(Mount, Storage)>> = Mutex::new(Vec::new());

impl Status {
    /// Asks the kernel, which does not wait. Returns `None` if it does not answer.
    pub(super) fn of(descriptor: BorrowedFd<'_>) -> Option<Status> {
        if denied(Facility::CachedFiles) {
            return None;
        }
        let wanted = StatxFlags::TYPE | StatxFlags::MNT_ID | UNIQUE_MOUNT_ID;
        let status = statx(descriptor, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted).ok()?;
        let has_mount = StatxFlags::from_bits_retain(status.stx_mask).intersects(StatxFlags::MNT_ID | UNIQUE_MOUNT_ID);
        let device = (status.stx_dev_major, status.stx_dev_minor);
        Some(Status {
            file_type: FileType::from_raw_mode(u32::from(status.stx_mode)),
            mount: has_mount.then_some(Mount { id: status.stx_mnt_id, device }),
        })
    }

    /// Returns the storage of the file. Returns `None` if [`learn`](Status::learn) has to ask first.
    pub(super) fn storage(&self) -> Option<Storage> {
        // A kernel that does not name mounts is too old to find anything without waiting.
        let Some(wanted) = self.mount else { return Some(Storage::Elsewhere) };
        let mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.iter().find(|(mount, _)| *mount == wanted).map(|(_, storage)| *storage)
    }

    /// Asks for the storage of the file, and keeps the answer. May wait: called in the pool.
    pub(super) fn learn(&self, descriptor: impl AsFd) -> Storage {
        // The magic numbers have 32 bits. Some architectures extend their sign.
        let storage = fstatfs(descriptor).map_or(Storage::Elsewhere, |system| Storage::of_type(system.f_type as u32));
        if let Some(mount) = self.mount {
            let mut mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
            if mounts.len() == MOST_MOUNTS {
                mounts.clear();
            }
            mounts.push((mount, storage));
        }
        storage
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_named_by_its_magic_number() {
        assert_eq!(Storage::of_type(libc::TMPFS_MAGIC as u32), Storage::Memory);
        for magic in [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC] {
            assert_eq!(Storage::of_type(magic as u32), Storage::Device);
        }
        for magic in [libc::NFS_SUPER_MAGIC, libc::FUSE_SUPER_MAGIC, libc::SMB_SUPER_MAGIC, libc::PROC_SUPER_MAGIC] {
            assert!(!Storage::of_type(magic as u32).is_local());
        }
    }

    #[test]
    fn a_mount_is_known_once_it_was_asked_for() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let status = Status::of(file.as_fd()).unwrap();
        assert_eq!(status.file_type, FileType::RegularFile);
        assert_eq!(status.learn(&file), Storage::Elsewhere);
        assert_eq!(status.storage(), Some(Storage::Elsewhere));
    }
}
