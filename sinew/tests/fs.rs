//! Files and directories.

mod fixture;

use fixture::{Random, Scratch, alone, everywhere, wherever};
use sinew::fs::{self, File, OpenOptions};
use sinew::task;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Runs `body` in a fibre of every set-up, with a directory of its own.
fn in_scratch(body: impl Fn(&Scratch) + Sync) {
    everywhere(|runtime, _| {
        let scratch = Scratch::new();
        runtime.run(|| body(&scratch));
    });
}

#[test]
fn written_bytes_are_read_back() {
    in_scratch(|scratch| {
        let path = scratch.at("file");
        fs::write(&path, "one two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one two");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two");
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap_err().kind(), ErrorKind::InvalidData);
    });
}

#[test]
fn a_file_can_be_read_written_and_sought() {
    in_scratch(|scratch| {
        let path = scratch.at("file");
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"hello world").unwrap();
        file.flush().unwrap();
        assert_eq!(file.seek(SeekFrom::Start(6)).unwrap(), 6);
        let mut text = String::new();
        assert_eq!(file.read_to_string(&mut text).unwrap(), 5);
        assert_eq!(text, "world");
        assert_eq!(file.seek(SeekFrom::End(-5)).unwrap(), 6);
        let written = file.write_vectored(&[IoSlice::new(b"wi"), IoSlice::new(b"de")]).unwrap();
        assert_eq!(written, 4);
        file.rewind().unwrap();
        let (mut first, mut second) = ([0; 6], [0; 3]);
        let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!((&file).read_vectored(&mut buffers).unwrap(), 9);
        assert_eq!((&first, &second), (b"hello ", b"wid"));
        assert_eq!((&file).stream_position().unwrap(), 9);
        let mut rest = [0; 3];
        assert_eq!(file.read_exact(&mut rest).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn lines_are_read_through_a_buffer() {
    in_scratch(|scratch| {
        let path = scratch.at("lines");
        let expected: Vec<String> = (0..1000).map(|number| format!("line {number}")).collect();
        fs::write(&path, expected.join("\n")).unwrap();
        let lines = BufReader::new(File::open(&path).unwrap()).lines();
        assert_eq!(lines.collect::<Result<Vec<_>, _>>().unwrap(), expected);
    });
}

#[test]
fn reads_and_writes_at_an_offset_leave_the_position_alone() {
    in_scratch(|scratch| {
        let mut file = File::create_new(scratch.at("file")).unwrap();
        file.write_all_at(b"abcdef", 0).unwrap();
        assert_eq!(file.write_at(b"XY", 2).unwrap(), 2);
        let mut part = [0; 3];
        file.read_exact_at(&mut part, 1).unwrap();
        assert_eq!(&part, b"bXY");
        assert_eq!(file.read_at(&mut part, 5).unwrap(), 1);
        assert_eq!(file.stream_position().unwrap(), 0);
        file.set_len(3).unwrap();
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"abX");
    });
}

#[test]
fn open_options_take_effect() {
    in_scratch(|scratch| {
        let path = scratch.at("file");
        assert_eq!(File::open(&path).unwrap_err().kind(), ErrorKind::NotFound);
        File::create(&path).unwrap().write_all(b"old").unwrap();
        assert_eq!(File::create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"er").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"older");
        let mut unreadable = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(unreadable.read(&mut [0; 1]).is_err());
        File::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        let private = scratch.at("private");
        OpenOptions::new().write(true).create(true).mode(0o600).open(&private).unwrap();
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o777, 0o600);
        let not_a_directory = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(&path);
        assert_eq!(not_a_directory.unwrap_err().kind(), ErrorKind::NotADirectory);
    });
}

#[test]
fn handles_of_one_file_share_its_position_and_convert_to_std() {
    in_scratch(|scratch| {
        let path = scratch.at("file");
        let mut file = File::create_new(&path).unwrap();
        let mut other = file.try_clone().unwrap();
        file.write_all(b"one").unwrap();
        other.write_all(b"two").unwrap();
        assert_ne!(file.as_raw_fd(), other.as_raw_fd());
        assert_eq!(file.as_fd().as_raw_fd(), file.as_raw_fd());
        let mut file = std::fs::File::from(file);
        file.write_all(b"three").unwrap();
        let mut file = File::from(OwnedFd::from(File::from(file)));
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "onetwothree");
    });
}

#[test]
fn permissions_and_times_can_be_set() {
    in_scratch(|scratch| {
        let path = scratch.at("file");
        let file = File::create(&path).unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let (read, written) =
            (SystemTime::UNIX_EPOCH + Duration::from_secs(1000), SystemTime::UNIX_EPOCH + Duration::from_secs(2000));
        file.set_times(fs::FileTimes::new().set_accessed(read).set_modified(written)).unwrap();
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert_eq!((metadata.accessed().unwrap(), metadata.modified().unwrap()), (read, written));
        file.set_modified(read).unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), read);
    });
}

#[test]
fn files_are_copied_renamed_linked_and_removed() {
    in_scratch(|scratch| {
        let [first, second, third, link] = ["first", "second", "third", "link"].map(|name| scratch.at(name));
        fs::write(&first, "text").unwrap();
        assert_eq!(fs::copy(&first, &second).unwrap(), 4);
        fs::rename(&second, &third).unwrap();
        assert!(!fs::exists(&second).unwrap());
        assert_eq!(fs::read(&third).unwrap(), b"text");
        fs::hard_link(&first, &second).unwrap();
        assert_eq!(fs::metadata(&first).unwrap().nlink(), 2);
        fs::symlink(&first, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), first);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::metadata(&link).unwrap().is_file());
        assert_eq!(fs::canonicalize(&link).unwrap(), std::fs::canonicalize(&first).unwrap());
        fs::remove_file(&first).unwrap();
        assert_eq!(fs::metadata(&link).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::remove_file(&first).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn directories_are_created_and_removed() {
    in_scratch(|scratch| {
        let (outer, inner) = (scratch.at("outer"), scratch.at("outer/middle/inner"));
        assert_eq!(fs::create_dir(&inner).unwrap_err().kind(), ErrorKind::NotFound);
        fs::create_dir_all(&inner).unwrap();
        assert!(fs::metadata(&inner).unwrap().is_dir());
        assert_eq!(fs::remove_dir(&outer).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        fs::remove_dir(&inner).unwrap();
        fs::remove_dir_all(&outer).unwrap();
        assert!(!fs::exists(&outer).unwrap());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&inner).unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
    });
}

/// Tests one entry more than a batch holds, and exactly a batch.
#[test]
fn every_entry_of_a_directory_is_listed_once() {
    wherever(
        |setup| setup.processors == 2,
        |runtime, _| {
            let scratch = Scratch::new();
            runtime.run(|| {
                let mut made = 0;
                for count in [0, 1, 127, 128, 129, 300] {
                    for number in made..count {
                        fs::write(scratch.at(&format!("file {number}")), "").unwrap();
                    }
                    made = count;
                    let entries = fs::read_dir(scratch.path()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
                    assert_eq!(entries.len(), count);
                    let names: BTreeSet<_> = entries.iter().map(|entry| entry.file_name()).collect();
                    assert!((0..count).all(|number| names.contains(Path::new(&format!("file {number}")).as_os_str())));
                    assert!(entries.iter().all(|entry| entry.file_type().unwrap().is_file()));
                    assert!(entries.iter().all(|entry| entry.path().parent() == Some(scratch.path())));
                    for entry in entries.iter().take(3) {
                        assert_eq!(entry.metadata().unwrap().ino(), entry.ino());
                    }
                }
            });
        },
    );
}

#[test]
fn a_missing_directory_is_an_error() {
    in_scratch(|scratch| {
        assert_eq!(fs::read_dir(scratch.at("nowhere")).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn waiting_for_a_file_lock_does_not_block_the_processor() {
    in_scratch(|scratch| {
        let (holder, waiter) = (File::create(scratch.at("lock")).unwrap(), File::open(scratch.at("lock")).unwrap());
        holder.lock().unwrap();
        assert!(matches!(waiter.try_lock(), Err(fs::TryLockError::WouldBlock)));
        assert!(matches!(waiter.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
        sinew::scope(|scope| {
            let waiting = scope.spawn(|| waiter.lock());
            sinew::yield_now();
            holder.unlock().unwrap();
            waiting.join().unwrap().unwrap();
        });
        waiter.unlock().unwrap();
        holder.lock_shared().unwrap();
        waiter.try_lock_shared().unwrap();
    });
}

#[test]
fn fibres_write_to_parts_of_one_file_at_once() {
    const PART: usize = 10_000;
    let mut random = Random::new(0xf11e5);
    let parts: Vec<Vec<u8>> = (0..16).map(|_| (0..PART).map(|_| random.below(256) as u8).collect()).collect();
    in_scratch(|scratch| {
        let path = scratch.at("file");
        let file = File::create(&path).unwrap();
        sinew::scope(|scope| {
            for (number, part) in parts.iter().enumerate() {
                let file = &file;
                scope.spawn(move || {
                    for (piece, bytes) in part.chunks(1000).enumerate() {
                        file.write_all_at(bytes, (number * PART + piece * 1000) as u64).unwrap();
                    }
                });
            }
        });
        assert!(fs::read(&path).unwrap() == parts.concat());
    });
}

#[test]
fn a_kernel_thread_may_use_the_file_functions() {
    alone(|| {
        let scratch = Scratch::new();
        fs::write(scratch.at("file"), "text").unwrap();
        let mut text = String::new();
        File::open(scratch.at("file")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    });
}

/// Runs a future in a task of every set-up, with a directory of its own.
fn in_task<F: Future<Output = ()> + Send + 'static>(body: impl Fn(std::path::PathBuf) -> F + Sync) {
    in_scratch(|scratch| task::spawn(body(scratch.path().to_owned())).join().unwrap());
}

#[test]
fn a_task_uses_files() {
    in_task(|scratch| async move {
        let path = scratch.join("file");
        let file = File::create_new_async(&path).await.unwrap();
        assert_eq!(File::create_new_async(&path).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(file.write_async(b"one two").await.unwrap(), 7);
        assert_eq!(file.seek_async(SeekFrom::Start(4)).await.unwrap(), 4);
        let mut buffer = [0; 16];
        assert_eq!(file.read_async(&mut buffer).await.unwrap(), 3);
        assert_eq!(&buffer[..4], b"two\0");
        assert_eq!(file.read_async(&mut buffer).await.unwrap(), 0);
        assert_eq!(file.write_at_async(b"six", 4).await.unwrap(), 3);
        assert_eq!(file.read_at_async(&mut buffer, 4).await.unwrap(), 3);
        assert_eq!(&buffer[..3], b"six");
        file.set_len_async(5).await.unwrap();
        file.sync_all_async().await.unwrap();
        file.sync_data_async().await.unwrap();
        assert_eq!(file.metadata_async().await.unwrap().len(), 5);
        file.set_permissions_async(std::fs::Permissions::from_mode(0o600)).await.unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        file.set_times_async(std::fs::FileTimes::new().set_modified(time)).await.unwrap();
        let metadata = fs::metadata_async(&path).await.unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.modified().unwrap()), (0o600, time));
        file.seek_async(SeekFrom::Start(0)).await.unwrap();
        let mut text = "> ".to_owned();
        assert_eq!(file.read_to_string_async(&mut text).await.unwrap(), 5);
        assert_eq!(text, "> one s");
        file.lock_async().await.unwrap();
        let other = File::open_async(&path).await.unwrap();
        let taken = other.try_lock_async().await;
        assert!(matches!(taken, Err(fs::TryLockError::WouldBlock)), "{taken:?}");
        file.unlock_async().await.unwrap();
        other.lock_shared_async().await.unwrap();
        file.try_lock_shared_async().await.unwrap();
        let truncated = File::create_async(&path).await.unwrap();
        assert_eq!(truncated.metadata_async().await.unwrap().len(), 0);
        assert_eq!(std::fs::File::from(truncated).metadata().unwrap().len(), 0);
    });
}

#[test]
fn a_task_moves_more_than_one_call_does() {
    in_task(|scratch| async move {
        let path = scratch.join("large");
        let bytes = b"seven\n\n".repeat(200_000);
        let file = File::create_async(&path).await.unwrap();
        assert_eq!(file.write_async(&bytes).await.unwrap(), 1 << 20);
        file.write_all_async(&bytes[1 << 20..]).await.unwrap();
        let file = File::open_async(&path).await.unwrap();
        let mut buffer = vec![0; bytes.len()];
        assert_eq!(file.read_async(&mut buffer).await.unwrap(), 1 << 20);
        let mut read = buffer[..1 << 20].to_vec();
        assert_eq!(file.read_to_end_async(&mut read).await.unwrap(), bytes.len() - (1 << 20));
        assert!(read == bytes);
        assert!(fs::read_async(&path).await.unwrap() == bytes);
    });
}

#[test]
fn a_task_uses_directories_and_names() {
    in_task(|scratch| async move {
        let at = |name: &str| scratch.join(name);
        fs::create_dir_async(at("dir")).await.unwrap();
        fs::create_dir_all_async(at("dir/a/b")).await.unwrap();
        fs::write_async(at("dir/file"), "text").await.unwrap();
        assert_eq!(fs::read_to_string_async(at("dir/file")).await.unwrap(), "text");
        assert_eq!(fs::copy_async(at("dir/file"), at("dir/copy")).await.unwrap(), 4);
        fs::rename_async(at("dir/copy"), at("dir/moved")).await.unwrap();
        fs::hard_link_async(at("dir/moved"), at("dir/hard")).await.unwrap();
        fs::symlink_async("moved", at("dir/soft")).await.unwrap();
        assert_eq!(fs::read_link_async(at("dir/soft")).await.unwrap(), Path::new("moved"));
        assert_eq!(
            fs::canonicalize_async(at("dir/soft")).await.unwrap(),
            std::fs::canonicalize(at("dir/moved")).unwrap()
        );
        assert!(fs::symlink_metadata_async(at("dir/soft")).await.unwrap().is_symlink());
        fs::set_permissions_async(at("dir/hard"), std::fs::Permissions::from_mode(0o400)).await.unwrap();
        assert_eq!(fs::metadata_async(at("dir/moved")).await.unwrap().mode() & 0o777, 0o400);
        let mut names = BTreeSet::new();
        let mut entries = fs::read_dir_async(at("dir")).await.unwrap();
        while let Some(entry) = entries.next_async().await {
            names.insert(entry.unwrap().file_name().into_string().unwrap());
        }
        assert!(names.into_iter().eq(["a", "file", "hard", "moved", "soft"]));
        assert!(entries.next_async().await.is_none());
        fs::remove_file_async(at("dir/hard")).await.unwrap();
        assert!(!fs::exists_async(at("dir/hard")).await.unwrap());
        fs::remove_dir_async(at("dir/a/b")).await.unwrap();
        fs::DirBuilder::new().recursive(true).mode(0o700).create_async(at("dir/c/d")).await.unwrap();
        assert_eq!(fs::metadata_async(at("dir/c/d")).await.unwrap().mode() & 0o777, 0o700);
        fs::remove_dir_all_async(at("dir")).await.unwrap();
        assert_eq!(fs::read_async(at("dir/file")).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_dir_async(at("dir")).await.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

/// Futures are dropped after the poll that begins the call.
#[test]
fn entries_are_not_lost_by_futures_that_are_dropped() {
    const ENTRIES: usize = 300;
    in_task(|scratch| async move {
        for number in 0..ENTRIES {
            std::fs::write(scratch.join(number.to_string()), "").unwrap();
        }
        let mut entries = fs::read_dir_async(&scratch).await.unwrap();
        let mut names = BTreeSet::new();
        loop {
            let polled = {
                let mut next = std::pin::pin!(entries.next_async());
                std::future::poll_fn(|context| std::task::Poll::Ready(next.as_mut().poll(context))).await
            };
            let entry = match polled {
                std::task::Poll::Ready(entry) => entry,
                std::task::Poll::Pending => entries.next_async().await,
            };
            let Some(entry) = entry else { break };
            assert!(names.insert(entry.unwrap().file_name()));
        }
        assert_eq!(names.len(), ENTRIES);
    });
}
