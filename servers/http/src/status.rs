//! Numbers of answers, and their reasons.

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub u16);

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal)*) => {
        #[allow(missing_docs)]
        impl Status {
            $(pub const $name: Status = Status($code);)*

            /// Returns the reason, which stands beside the number.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "Unknown",
                }
            }
        }
    };
}

statuses! {
    CONTINUE 100 "Continue"
    SWITCHING_PROTOCOLS 101 "Switching Protocols"
    OK 200 "OK"
    NO_CONTENT 204 "No Content"
    PARTIAL_CONTENT 206 "Partial Content"
    MOVED_PERMANENTLY 301 "Moved Permanently"
    NOT_MODIFIED 304 "Not Modified"
    BAD_REQUEST 400 "Bad Request"
    FORBIDDEN 403 "Forbidden"
    NOT_FOUND 404 "Not Found"
    METHOD_NOT_ALLOWED 405 "Method Not Allowed"
    REQUEST_TIMEOUT 408 "Request Timeout"
    PRECONDITION_FAILED 412 "Precondition Failed"
    CONTENT_TOO_LARGE 413 "Content Too Large"
    URI_TOO_LONG 414 "URI Too Long"
    RANGE_NOT_SATISFIABLE 416 "Range Not Satisfiable"
    EXPECTATION_FAILED 417 "Expectation Failed"
    UPGRADE_REQUIRED 426 "Upgrade Required"
    HEADERS_TOO_LARGE 431 "Request Header Fields Too Large"
    INTERNAL_ERROR 500 "Internal Server Error"
    NOT_IMPLEMENTED 501 "Not Implemented"
    UNAVAILABLE 503 "Service Unavailable"
    VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported"
}
