"""Hypothesis strategies for damaged and hostile file contents."""

from hypothesis import strategies as st

HOSTILE = (
    b"",
    b"\0" * 64,
    b"\xff\xfe\xfd",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"\xed\xa0\x80",
    b"9" * 5000,
    b"-1",
    b"1e999",
    b"NaN",
    b'"\\ud800"',
    b"[" * 3000,
    b"{" * 3000,
    b'{"a":' * 500,
    b"&a [*a]",
    b"!!python/object/apply:os.system [true]",
    b"${oc.env:HOME}",
    b"../../../x",
    b" \t\r\n",
    b"\xe2\x80\xa8",
)


def damaged(content: bytes):
    """Cut a file, or change, insert, remove or duplicate bytes."""

    def apply(changes):
        buffer = bytearray(content)
        for what, where, inserted in changes:
            place = where % (len(buffer) + 1)
            if what == "cut":
                del buffer[place:]
            elif what == "flip" and place < len(buffer):
                buffer[place] ^= inserted[0] if inserted else 1
            elif what == "put in":
                buffer[place:place] = inserted
            elif what == "over":
                buffer[place : place + len(inserted)] = inserted
            elif what == "twice":
                buffer[place:place] = buffer[place : place + 200]
            elif what == "take out":
                del buffer[place : place + 1 + len(inserted)]
        return bytes(buffer)

    pieces = st.one_of(st.binary(max_size=8), st.sampled_from(HOSTILE))
    kinds = st.sampled_from(("cut", "flip", "put in", "over", "twice", "take out"))
    return st.lists(st.tuples(kinds, st.integers(0, 2**31), pieces), min_size=1, max_size=4).map(apply)


def anything_or_damaged(*originals: bytes):
    kinds = [damaged(original) for original in originals]
    return st.one_of(*kinds, *kinds, st.binary(max_size=300), st.sampled_from(HOSTILE))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from((10**400, -(10**18), 2**63)),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(("\ud800", "${oc.env:HOME}", "../../x", "/etc", "\0", "a\nb", "???", "x" * 300)),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


def _places(node, path=()):
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from _places(value, (*path, key))


def changed_trees(tree, among=TREES):
    """Replace or remove one or two nodes of a JSON tree."""
    places = st.lists(st.tuples(st.sampled_from(list(_places(tree))), st.one_of(among, st.just(...))), min_size=1)

    def apply(changes):
        node = tree
        for path, new in changes[:2]:
            node = _replaced(node, path, new)
        return node

    return places.map(apply)


def _replaced(node, path, new):
    """Return a copy with the node replaced, or removed if `new` is `...`."""
    if not path:
        return None if new is ... else new
    key, *rest = path
    if isinstance(node, dict) and key in node:
        if new is ... and not rest:
            return {name: value for name, value in node.items() if name != key}
        return node | {key: _replaced(node[key], rest, new)}
    if isinstance(node, list) and isinstance(key, int) and key < len(node):
        if new is ... and not rest:
            return node[:key] + node[key + 1 :]
        return [*node[:key], _replaced(node[key], rest, new), *node[key + 1 :]]
    return node
