"""Uses a server through pymemcache. The argument is the server's port."""

import sys

from pymemcache import serde
from pymemcache.client.base import Client, PooledClient

port = int(sys.argv[1])
client = Client(("127.0.0.1", port), serde=serde.pickle_serde, timeout=20)

assert client.set("text", "value")
assert client.get("text") == "value"
assert client.get("missing") is None
assert client.set("object", {"a": [1, 2, 3]}, expire=100)
assert client.get("object") == {"a": [1, 2, 3]}

assert client.add("text", "other", noreply=False) is False
assert client.replace("text", "other", noreply=False) is True
assert client.replace("missing", "other", noreply=False) is False
assert client.delete("text", noreply=False) is True
assert client.delete("text", noreply=False) is False

plain = Client(("127.0.0.1", port), timeout=20)
assert plain.set("counter", "10", noreply=False)
assert plain.incr("counter", 5) == 15
assert plain.decr("counter", 20) == 0
assert plain.incr("missing", 1) is None
assert plain.append("counter", "x", noreply=False)
assert plain.prepend("counter", "y", noreply=False)

value, unique = plain.gets("counter")
assert plain.cas("counter", "new", unique, noreply=False) is True
assert plain.cas("counter", "newer", unique, noreply=False) is False
assert plain.cas("missing", "new", unique, noreply=False) is None
assert plain.touch("counter", 100, noreply=False) is True
assert plain.get("counter") == b"new"

many = {f"key{number}": f"value{number}" * 10 for number in range(500)}
assert plain.set_many(many, noreply=False) == []
found = plain.get_many(many.keys())
assert found == {key: value.encode() for key, value in many.items()}

large = b"x" * 1_000_000
assert plain.set("large", large, noreply=False)
assert plain.get("large") == large

stats = plain.stats()
assert client.stats("runtime")[b"engine"] in (b"epoll", b"epoll+io_uring")
assert plain.version() == b"1.6.18"

pool = PooledClient(("127.0.0.1", port), max_pool_size=4, timeout=20)
assert all(pool.get(f"key{number}") is not None for number in range(100))
assert plain.flush_all(noreply=False)
assert plain.get("large") is None

print("done")
