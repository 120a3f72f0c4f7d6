//! The methods that every type of socket has, written once. The types differ in their names, in
//! std's twin, and in whether they are streams.

/// The methods and traits of a handle to a socket: a struct with a field `socket`.
macro_rules! handle {
    ($Type:ident, $std:path) => {
        impl $Type {
            /// Returns another handle to the same socket. It shares everything with this one,
            /// the timeouts included, and takes no descriptor of its own.
            ///
            /// # Errors
            /// None: the `Result` is std's.
            pub fn try_clone(&self) -> io::Result<$Type> {
                Ok(self.clone())
            }

            /// Returns the error that the socket has met since the last call of this method.
            ///
            /// # Errors
            /// The kernel's.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.socket.take_error()
            }

            /// Sets whether calls on this socket, by all handles to it, fail with `WouldBlock`
            /// where they would wait. A fibre that gets this error has yielded to others.
            ///
            /// # Errors
            /// None: the `Result` is std's.
            pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                self.socket.set_nonblocking(nonblocking);
                Ok(())
            }
        }

        /// # Panics
        /// In another [`EventScope`](crate::io::EventScope).
        impl std::os::fd::AsFd for $Type {
            #[track_caller]
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.socket)
            }
        }

        /// In another [`EventScope`](crate::io::EventScope) the number means something else.
        impl std::os::fd::AsRawFd for $Type {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.socket.number()
            }
        }

        /// Keeps its timeouts. Calls wait, also if the descriptor is non-blocking; see
        /// `set_nonblocking`. If it is not such a socket, the calls on it fail.
        impl From<std::os::fd::OwnedFd> for $Type {
            fn from(descriptor: std::os::fd::OwnedFd) -> $Type {
                $Type { socket: $crate::net::socket::Socket::adopt(descriptor) }
            }
        }

        /// Blocking, unless it was set to be otherwise. A copy if there are other handles
        /// to the socket.
        ///
        /// # Panics
        /// If there are, and no descriptor is left for a copy; in another
        /// [`EventScope`](crate::io::EventScope).
        impl From<$Type> for std::os::fd::OwnedFd {
            fn from(handle: $Type) -> std::os::fd::OwnedFd {
                handle.socket.into_descriptor()
            }
        }

        /// Keeps its timeouts. Calls wait, also if it was non-blocking; see
        /// `set_nonblocking`.
        impl From<$std> for $Type {
            fn from(socket: $std) -> $Type {
                std::os::fd::OwnedFd::from(socket).into()
            }
        }

        /// Keeps its timeouts, and whether it is non-blocking. A copy if there are other
        /// handles to the socket.
        ///
        /// # Panics
        /// If there are, and no descriptor is left for a copy; in another
        /// [`EventScope`](crate::io::EventScope).
        impl From<$Type> for $std {
            fn from(handle: $Type) -> $std {
                std::os::fd::OwnedFd::from(handle).into()
            }
        }

        #[allow(unsafe_code)]
        impl std::os::fd::FromRawFd for $Type {
            unsafe fn from_raw_fd(descriptor: std::os::fd::RawFd) -> $Type {
                // SAFETY: the caller's contract is the same.
                unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor) }.into()
            }
        }

        impl std::os::fd::IntoRawFd for $Type {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::IntoRawFd::into_raw_fd(std::os::fd::OwnedFd::from(self))
            }
        }
    };
}

/// The timeouts of a socket.
macro_rules! timeouts {
    ($Type:ident) => {
        impl $Type {
            /// Sets how long a call that reads may wait; `None` is for ever. Beyond it the call
            /// fails with `WouldBlock`, as with std's on Linux.
            ///
            /// # Errors
            /// `InvalidInput` for a duration of zero.
            pub fn set_read_timeout(&self, timeout: Option<std::time::Duration>) -> io::Result<()> {
                self.socket.set_timeout($crate::io::Side::Read, timeout)
            }

            /// Sets how long a call that writes may wait; `None` is for ever. Beyond it the call
            /// fails with `WouldBlock`, as with std's on Linux.
            ///
            /// # Errors
            /// `InvalidInput` for a duration of zero.
            pub fn set_write_timeout(&self, timeout: Option<std::time::Duration>) -> io::Result<()> {
                self.socket.set_timeout($crate::io::Side::Write, timeout)
            }

            /// Returns how long a call that reads may wait.
            ///
            /// # Errors
            /// None: the `Result` is std's.
            pub fn read_timeout(&self) -> io::Result<Option<std::time::Duration>> {
                Ok(self.socket.timeout($crate::io::Side::Read))
            }

            /// Returns how long a call that writes may wait.
            ///
            /// # Errors
            /// None: the `Result` is std's.
            pub fn write_timeout(&self) -> io::Result<Option<std::time::Duration>> {
                Ok(self.socket.timeout($crate::io::Side::Write))
            }
        }
    };
}

/// The methods and traits of a stream of bytes. The arguments are the methods of `Socket` that
/// receive for it.
macro_rules! stream {
    ($Type:ident, $read:ident, $read_until:ident, $read_async:ident, $poll_read:ident) => {
        stream!(@traits $Type, $read);
        stream!(@traits &$Type, $read);

        impl $Type {
            /// As [`read`](std::io::Read::read), but waits until `deadline`, whatever the
            /// timeout.
            ///
            /// # Errors
            /// The kernel's; `TimedOut` beyond the deadline.
            pub fn read_deadline(&self, buffer: &mut [u8], deadline: std::time::Instant) -> io::Result<usize> {
                self.socket.$read_until(buffer, deadline)
            }

            /// As [`write`](std::io::Write::write), but waits until `deadline`, whatever
            /// the timeout.
            ///
            /// # Errors
            /// The kernel's; `TimedOut` beyond the deadline.
            pub fn write_deadline(&self, buffer: &[u8], deadline: std::time::Instant) -> io::Result<usize> {
                self.socket.write_until(buffer, deadline)
            }

            /// As [`read`](std::io::Read::read), for tasks. Dropped before its end, it has read
            /// nothing.
            ///
            /// # Errors
            /// The kernel's.
            pub async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
                self.socket.$read_async(buffer).await
            }

            /// As [`read_exact`](std::io::Read::read_exact), for tasks. Dropped before its end,
            /// it may have read some.
            ///
            /// # Errors
            /// As `read_exact`.
            pub async fn read_exact_async(&self, mut buffer: &mut [u8]) -> io::Result<()> {
                while !buffer.is_empty() {
                    match self.read_async(buffer).await? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        count => buffer = &mut buffer[count..],
                    }
                }
                Ok(())
            }

            /// Waits until it is worth trying to read, for tasks: bytes have come, or the end,
            /// or an error. It takes nothing, and needs no buffer meanwhile. Sometimes nothing is
            /// there after all.
            ///
            /// # Errors
            /// The kernel's.
            pub async fn readable_async(&self) -> io::Result<()> {
                self.socket.readable_async().await
            }

            /// As [`write`](std::io::Write::write), for tasks. Dropped before its end, it has
            /// written nothing.
            ///
            /// # Errors
            /// The kernel's.
            pub async fn write_async(&self, buffer: &[u8]) -> io::Result<usize> {
                self.socket.write_async(buffer).await
            }

            /// As [`write_all`](std::io::Write::write_all), for tasks. Dropped before its end,
            /// it may have written some.
            ///
            /// # Errors
            /// As `write_all`.
            pub async fn write_all_async(&self, mut buffer: &[u8]) -> io::Result<()> {
                while !buffer.is_empty() {
                    match self.write_async(buffer).await? {
                        0 => return Err(io::ErrorKind::WriteZero.into()),
                        count => buffer = &buffer[count..],
                    }
                }
                Ok(())
            }

            /// Reads if that takes no waiting. Else the waker of `context` is called when it is
            /// worth trying again. If several callers poll the same side, the last one is woken.
            ///
            /// # Errors
            /// The kernel's.
            pub fn poll_read(
                &self,
                context: &mut std::task::Context<'_>,
                buffer: &mut [u8],
            ) -> std::task::Poll<io::Result<usize>> {
                self.socket.$poll_read(context, buffer)
            }

            /// As [`poll_read`](Self::poll_read), into memory that need not be initialised. Returns
            /// the number of bytes that have been written at its beginning.
            ///
            /// # Errors
            /// The kernel's.
            pub fn poll_read_uninit(
                &self,
                context: &mut std::task::Context<'_>,
                buffer: &mut [std::mem::MaybeUninit<u8>],
            ) -> std::task::Poll<io::Result<usize>> {
                self.socket.$poll_read(context, buffer)
            }

            /// Is ready when it is worth trying to read, as [`readable_async`](Self::readable_async)
            /// says; else as [`poll_read`](Self::poll_read). A connection that waits by this needs
            /// no memory except for its handle.
            ///
            /// # Errors
            /// The kernel's.
            pub fn poll_readable(&self, context: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
                self.socket.poll_readable(context)
            }

            /// Writes if that takes no waiting; else as [`poll_read`](Self::poll_read).
            ///
            /// # Errors
            /// The kernel's.
            pub fn poll_write(
                &self,
                context: &mut std::task::Context<'_>,
                buffer: &[u8],
            ) -> std::task::Poll<io::Result<usize>> {
                self.socket.poll_write(context, buffer)
            }

            /// Writes from several buffers if that takes no waiting; else as
            /// [`poll_read`](Self::poll_read).
            ///
            /// # Errors
            /// The kernel's.
            pub fn poll_write_vectored(
                &self,
                context: &mut std::task::Context<'_>,
                buffers: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<io::Result<usize>> {
                self.socket.poll_write_vectored(context, buffers)
            }

            /// Closes one side or both. Calls that wait there return.
            ///
            /// # Errors
            /// The kernel's.
            pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
                self.socket.shutdown(how)
            }
        }
    };
    (@traits $Type:ty, $read:ident) => {
        impl std::io::Read for $Type {
            #[inline]
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.socket.$read(buffer)
            }

            fn read_vectored(&mut self, buffers: &mut [std::io::IoSliceMut<'_>]) -> io::Result<usize> {
                self.socket.read_vectored(buffers)
            }
        }

        impl std::io::Write for $Type {
            #[inline]
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                self.socket.write(buffer)
            }

            fn write_vectored(&mut self, buffers: &[std::io::IoSlice<'_>]) -> io::Result<usize> {
                self.socket.write_vectored(buffers)
            }

            fn flush(&mut self) -> io::Result<()> {
                self.socket.flush()
            }
        }
    };
}
