//! The real web servers, nginx and `sinew web`: the same folder of files, listings, and a
//! fixed reply at `/plaintext`, by HTTP or HTTPS.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::http::PLAINTEXT;
use super::server;
use crate::case::Case;
use crate::peers;

/// Files that are served, and their sizes.
pub const FILES: [(&str, usize); 3] = [("1k.bin", 1 << 10), ("16k.bin", 16 << 10), ("1m.bin", 1 << 20)];

/// A folder whose listing is served, and the number of its files.
pub const LISTED: (&str, usize) = ("listed", 100);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// Returns whether a certificate can be made.
pub fn has_openssl() -> bool {
    server::path_of("openssl").is_some()
}

/// In the server's process: becomes nginx, or `sinew web`, with one worker for each processor
/// of the case.
pub fn serve(case: &Case, scheme: Scheme) -> io::Result<()> {
    let home = server::folder_of(std::process::id());
    make_site(&home)?;
    if scheme == Scheme::Https {
        make_certificate(&home)?;
    }
    let port = server::free_port()?;
    let command = match case.peer.as_str() {
        "nginx" => nginx(case, &home, port, scheme)?,
        _ => sinew_web(case, &home, port, scheme)?,
    };
    Err(server::become_program(command, port))
}

fn make_site(home: &Path) -> io::Result<()> {
    let listed = home.join("site").join(LISTED.0);
    fs::create_dir_all(&listed)?;
    for (name, size) in FILES {
        fs::write(home.join("site").join(name), vec![b'x'; size])?;
    }
    (0..LISTED.1).try_for_each(|number| fs::write(listed.join(format!("file-{number:03}.txt")), "x"))
}

/// Makes a certificate and its key, by the `openssl` command.
fn make_certificate(home: &Path) -> io::Result<()> {
    let made = server::installed("openssl")?
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "1", "-subj", "/CN=localhost"])
        .arg("-keyout")
        .arg(home.join("key.pem"))
        .arg("-out")
        .arg(home.join("cert.pem"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if made.success() { Ok(()) } else { Err(io::Error::other("openssl made no certificate")) }
}

/// Returns the command for nginx, with the settings that its documentation advises: `sendfile`,
/// a cache of open files, connections that stay, no log.
fn nginx(case: &Case, home: &Path, port: u16, scheme: Scheme) -> io::Result<Command> {
    let configuration = home.join("nginx.conf");
    let (workers, master) = (case.processors, if case.processors == 1 { "off" } else { "on" });
    let at = home.display();
    let (ssl, tls) = match scheme {
        Scheme::Http => ("", String::new()),
        Scheme::Https => (" ssl", format!("ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;")),
    };
    let text = format!(
        "daemon off; user root; master_process {master}; worker_processes {workers};
         pid {at}/pid; error_log {at}/errors;
         events {{ worker_connections 16384; use epoll; }}
         http {{
             access_log off; sendfile on; server_tokens off; default_type application/octet-stream;
             keepalive_requests 1000000000; keepalive_timeout 60;
             open_file_cache max=1000 inactive=60s; open_file_cache_valid 1s; open_file_cache_min_uses 1;
             client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;
             uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
             server {{
                 listen 127.0.0.1:{port} backlog=4096{ssl}; {tls}
                 root {at}/site; autoindex on;
                 location = {PLAINTEXT} {{ default_type text/plain; return 200 'Hello, World!'; }}
             }}
         }}"
    );
    fs::write(&configuration, text)?;
    let mut command = server::installed("nginx")?;
    command.arg("-p").arg(home).arg("-c").arg(configuration);
    Ok(command)
}

fn sinew_web(case: &Case, home: &Path, port: u16, scheme: Scheme) -> io::Result<Command> {
    let mut command = server::sinew_command_for(&case.peer, "web")?;
    command.args(["--plaintext", "--list", "--listen"]).arg(format!("127.0.0.1:{port}"));
    if case.peer == peers::DEFAULT {
        command.arg("--no-migration");
    }
    command.arg("--threads").arg(case.processors.to_string());
    command.arg("--connections").arg((case.threads + server::FURTHER_CONNECTIONS).to_string());
    if scheme == Scheme::Https {
        command.arg("--tls").args([home.join("cert.pem"), home.join("key.pem")]);
    }
    command.arg(home.join("site"));
    Ok(command)
}
