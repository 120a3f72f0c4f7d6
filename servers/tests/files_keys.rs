//! The keys of `sinew files`: made, read, refused.

mod vault;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use vault::{Site, Vault, eventually, make_keys, said, sinew};

fn site() -> Site {
    Site::new().file("file", "content")
}

/// Runs `ls` with these keys.
fn list(vault: &Vault, key: &str, server: &str) -> Output {
    let address = vault.address.to_string();
    sinew(vault.site.above(), &["ls", &address, "--key", key, "--server", server])
}

#[test]
fn a_key_pair_is_made_once_and_the_secret_is_for_its_owner_only() {
    let site = site();
    make_keys(site.above(), &["bob"]);
    let (secret, public) = (site.above().join("bob"), site.above().join("bob.pub"));
    assert_eq!(fs::metadata(&secret).expect("the file").permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&secret).expect("the secret key");
    assert!(fs::read_to_string(&public).expect("the public key").ends_with(" bob\n"));
    assert!(said(&sinew(site.above(), &["keys", "bob"])).contains("bob.pub: "));
    fs::remove_file(public).expect("remove");
    assert!(said(&sinew(site.above(), &["keys", "bob"])).contains("bob: "));
    assert_eq!(fs::read_to_string(&secret).expect("the secret key"), text);
    let output = sinew(site.above(), &["keys", "no/such/directory"]);
    assert!(!output.status.success() && said(&output).contains("no/such/directory"), "{output:?}");
}

#[test]
fn a_client_whose_key_the_server_does_not_know_is_refused_and_reported() {
    let vault = Vault::serve(site(), &[]);
    make_keys(vault.site.above(), &["mallory"]);
    let output = list(&vault, "mallory", "server.pub");
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(said(&output).contains("the server does not know this client's key"), "{output:?}");
    let public = fs::read_to_string(vault.key("mallory.pub")).expect("the public key");
    let key = public.split(' ').next().expect("a key");
    vault.has_said(&["127.0.0.1", "refused: no client has the key", key]);
    assert!(list(&vault, "alice", "server.pub").status.success());
}

#[test]
fn a_client_with_the_key_of_another_server_is_refused_and_reported() {
    let vault = Vault::serve(site(), &[]);
    make_keys(vault.site.above(), &["other"]);
    let output = list(&vault, "alice", "other.pub");
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(said(&output).contains("perhaps --server names the key of another server"), "{output:?}");
    vault.has_said(&["127.0.0.1", "meant for another server"]);
}

/// Without the secret key, a server cannot pass for another one.
#[test]
fn an_impostor_is_refused_by_the_client() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address").to_string();
    let impostor = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut client, _) = listener.accept().expect("a client");
        client.read_exact(&mut [0; vault::HELLO + vault::FIRST]).expect("the client's message");
        client.write_all(&[7; vault::SECOND]).expect("send");
        let mut more = Vec::new();
        let _ = client.read_to_end(&mut more);
        more
    });
    let site = site();
    make_keys(site.above(), &["server", "alice"]);
    let output = sinew(site.above(), &["ls", &address, "--key", "alice", "--server", "server.pub"]);
    assert!(!output.status.success(), "{output:?}");
    assert!(said(&output).contains("does not come from the owner of the server's key"), "{output:?}");
    assert!(impostor.join().expect("the impostor").is_empty(), "the client has sent a request");
}

#[test]
fn clients_come_and_go_when_the_file_is_read_again() {
    let vault = Vault::serve(site(), &[]);
    make_keys(vault.site.above(), &["bob"]);
    let mut alice = vault.raw();
    assert_eq!(alice.ask(b"l")[0], b'n');
    assert!(!list(&vault, "bob", "server.pub").status.success());
    fs::copy(vault.key("bob.pub"), vault.key("clients")).expect("copy");
    vault.signal("-HUP");
    eventually("bob may come", || list(&vault, "bob", "server.pub").status.success());
    assert!(!list(&vault, "alice", "server.pub").status.success());
    // A connection that is open already is of no use to her either.
    alice.say(b"l");
    assert!(alice.hear().is_err());
    vault.has_said(&["(alice)", "the client's key was removed"]);
    fs::write(vault.key("clients"), "nonsense\n").expect("write");
    vault.signal("-HUP");
    vault.has_said(&["the clients stay as they were", "line 1 is not a public key"]);
    assert!(list(&vault, "bob", "server.pub").status.success());
}

#[test]
fn keys_in_the_wrong_place_are_explained() {
    let vault = Vault::serve(site(), &[]);
    let secret = fs::read_to_string(vault.key("alice")).expect("the secret key");
    let secret = secret.trim().rsplit('-').next().expect("digits");
    for (key, server, words) in [
        ("alice", "alice", "is a secret key; use the file that ends in .pub"),
        ("readable", "server.pub", "other users can read this secret key; use chmod 600"),
        ("none", "server.pub", "none: No such file"),
        ("alice", "none", "none: No such file"),
        ("public", "server.pub", "this is a public key"),
        ("damaged", "server.pub", "a damaged secret key"),
        ("alice", "empty", "one public key is wanted, but there are 0"),
        ("alice", "site", "not a file of keys"),
    ] {
        let private = |name: &str, text: &[u8]| {
            fs::write(vault.key(name), text).expect("write");
            fs::set_permissions(vault.key(name), fs::Permissions::from_mode(0o600)).expect("the mode");
        };
        private("public", &fs::read(vault.key("alice.pub")).expect("the public key"));
        private("damaged", b"sinew-secret-12345\n");
        private("empty", b"");
        fs::copy(vault.key("alice"), vault.key("readable")).expect("copy");
        fs::set_permissions(vault.key("readable"), fs::Permissions::from_mode(0o640)).expect("the mode");
        let output = list(&vault, key, server);
        assert!(!output.status.success(), "{output:?}");
        assert!(said(&output).contains(words) && !said(&output).contains(secret), "{output:?}");
    }
}

#[test]
fn a_server_refuses_to_serve_its_own_secret_key() {
    let site = site();
    make_keys(&site.path(""), &["server"]);
    let arguments = ["serve", "site", "--key", "site/server", "--clients", "site/server.pub"];
    let output = sinew(site.above(), &arguments);
    assert!(!output.status.success());
    assert!(said(&output).contains("clients could read this secret key"), "{output:?}");
}

#[test]
fn a_server_without_clients_says_so() {
    let site = site();
    make_keys(site.above(), &["server", "alice"]);
    fs::write(site.above().join("clients"), "# nobody yet\n").expect("write");
    let vault = Vault::serve_with_keys(site, &[]);
    vault.has_said(&["clients has no key, so no client may come"]);
    assert!(!list(&vault, "alice", "server.pub").status.success());
}
