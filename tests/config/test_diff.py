"""Settings as dotted keys, and the differences that affect training."""

from nmt.config.diff import find_changes, flatten_settings, is_within, override_key


def test_lists_and_empty_sections_are_values():
    nested = {"a": {"b": 1, "c": {}}, "d": [1, {"e": 2}]}
    assert flatten_settings(nested) == {"a.b": 1, "a.c": {}, "d": [1, {"e": 2}]}


def test_changes_give_the_values_before_and_now():
    before = {"seed": 1, "size": {"hidden": 32}, "old": True}
    now = {"seed": 1, "size": {"hidden": 64}, "new": [2]}
    assert find_changes(before, now) == {"size.hidden": (32, 64), "old": (True, None), "new": (None, [2])}


def test_settings_without_effect_on_training_are_no_changes():
    others = {"threads": 2, "logger": {"csv": {"path": "x"}}, "data": {"test": "long"}}
    assert not find_changes({"seed": 1}, others | {"seed": 1})


def test_the_search_is_a_change_only_if_validations_use_it():
    before, now = ({"search": {"beam": beam}, "validation": {"beam": 1}} for beam in (5, 10))
    assert not find_changes(before, now)
    for validation in ("${search}", {"beam": "${search.beam}"}):
        changes = find_changes(before | {"validation": validation}, now | {"validation": validation})
        assert changes == {"search.beam": (5, 10)}


def test_a_key_is_within_a_section_only_at_a_dot():
    assert is_within("logger.csv", ("logger",))
    assert is_within("logger", ("logger",))
    assert not is_within("loggers", ("logger",))


def test_the_key_of_an_override_has_no_plus_or_tilde():
    assert [override_key(override) for override in ("++a.b=5", "+a/b=c=d", "~a", "a=")] == ["a.b", "a/b", "a", "a"]
