//! Content types by the ending of a name.

/// The content type of unknown endings.
pub const UNKNOWN: &str = "application/octet-stream";

/// Returns the content type of a file with this name.
pub fn content_type(name: &[u8]) -> &'static str {
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let Some(dot) = memchr::memrchr(b'.', name) else { return UNKNOWN };
    let ending = name[dot + 1..].to_ascii_lowercase();
    match &ending[..] {
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"json" | b"map" => "application/json",
        b"txt" | b"text" | b"log" | b"md" | b"rs" | b"c" | b"h" | b"toml" | b"sh" => "text/plain; charset=utf-8",
        b"csv" => "text/csv; charset=utf-8",
        b"xml" => "text/xml; charset=utf-8",
        b"xhtml" => "application/xhtml+xml",
        b"svg" => "image/svg+xml",
        b"png" => "image/png",
        b"apng" => "image/apng",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"bmp" => "image/bmp",
        b"ico" => "image/x-icon",
        b"woff" => "font/woff",
        b"woff2" => "font/woff2",
        b"ttf" => "font/ttf",
        b"otf" => "font/otf",
        b"mp3" => "audio/mpeg",
        b"ogg" | b"oga" => "audio/ogg",
        b"opus" => "audio/opus",
        b"wav" => "audio/wav",
        b"flac" => "audio/flac",
        b"m4a" => "audio/mp4",
        b"mp4" | b"m4v" => "video/mp4",
        b"webm" => "video/webm",
        b"ogv" => "video/ogg",
        b"mov" => "video/quicktime",
        b"pdf" => "application/pdf",
        b"zip" => "application/zip",
        b"gz" => "application/gzip",
        b"tar" => "application/x-tar",
        b"wasm" => "application/wasm",
        b"webmanifest" => "application/manifest+json",
        b"rss" => "application/rss+xml",
        b"atom" => "application/atom+xml",
        _ => UNKNOWN,
    }
}
