"""The inventory file by itself: YAML to entries, and every mistake with its line and column."""

import pytest

from portal.domain.document import Problems
from portal.domain.inventory_file import Inventory, read
from portal.services.importing import inventory_yaml
from portal.services.importing.inventory_yaml import LARGEST_FILE, InventoryInvalid, decode, parse

EXAMPLE = """\
credentials:
  - {name: lab, version: 2c, community: public}      # or community_env: SNMP_COMMUNITY
templates:
  - name: basic
    nodes:
      - {key: discovery, kind: discovery, oid: huawei.onu_state, interval: 15m}
      - key: rx
        kind: get
        oid: huawei.onu_rx_power
        interval: 5m
        chain:
          - {key: description, kind: get, oid: huawei.onu_description}
olts:
  - {name: OLT-01, address: 127.0.0.1, port: 20000, brand: huawei, model: MA5800, credential: lab, template: basic}
  - name: OLT-02
    address: 127.0.0.1
    port: 20001
    brand: huawei
    credential: lab
    workflow:
      nodes:
        - {key: rx, kind: get, oid: 1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4, interval: 60s, priority: 40, max_retries: 0}
"""


def loaded(text: str, **environ: str) -> tuple[Inventory, list[str]]:
    """The inventory and its problems as text."""
    problems = Problems()
    inventory = read(parse(text), environ, problems)
    return inventory, [str(problem) for problem in problems.sorted()]


def refused(text: str) -> str:
    with pytest.raises(InventoryInvalid) as caught:
        parse(text)
    return str(caught.value)


def test_the_example_of_the_design_is_read_whole() -> None:
    inventory, problems = loaded(EXAMPLE)
    assert problems == []
    assert inventory.credentials[0].values == {"name": "lab", "version": "2c", "community": "public"}
    rx = inventory.templates[0].nodes[1]  # type: ignore[index]
    assert (rx.values["interval"], rx.chain[0].key) == (300, "description")
    first, second = inventory.olts
    assert (first.values["port"], first.values["template"], first.nodes) == (20000, "basic", None)
    (node,) = second.nodes or ()
    assert (node.values["max_retries"], node.values["oid"]) == (0, "1.3.6.1.4.1.2011.6.128.1.1.2.51.1.4")


def test_values_are_taken_as_written_not_as_yaml_types() -> None:
    inventory, problems = loaded("credentials: [{name: 007, version: 3, username: 1e3, community: 0123}]")
    assert problems == []
    assert inventory.credentials[0].values == {"name": "007", "version": "3", "username": "1e3", "community": "0123"}


def test_a_secret_comes_from_the_variable_that_is_named() -> None:
    text = "credentials: [{name: lab, community_env: SNMP_COMMUNITY}]"
    assert loaded(text, SNMP_COMMUNITY="hidden")[0].credentials[0].values["community"] == "hidden"
    unset, problems = loaded(text)
    assert (unset.credentials[0].values["community"], problems) == (None, [])


def test_every_mistake_is_told_with_its_line_and_column() -> None:
    _, problems = loaded(
        "credentials:\n"
        "  - {name: lab, comunity: x}\n"
        "  - {name: lab, community: y, community_env: Z}\n"
        "olts:\n"
        "  - {name: A, port: 70000, enabled: maybe, timeout: [1]}\n"
        "  - {address: 10.0.0.999}\n"
        "  - just text\n"
        "switches: []\n"
    )
    assert [problem.split(": ")[0] for problem in problems] == [
        "line 2, column 17", "line 3, column 12", "line 3, column 46", "line 5, column 21", "line 5, column 37",
        "line 5, column 53", "line 6, column 5", "line 6, column 15", "line 7, column 5", "line 8, column 1",
    ]  # fmt: skip
    assert "did you mean community?" in problems[0]
    assert "twice (first in line 2)" in problems[1]
    assert "Known: credentials, templates, olts" in problems[-1]


def test_a_wrong_node_is_told_what_is_accepted() -> None:
    messages = {
        "{kind: get, oid: a.b, interval: 5m}": "key is missing",
        "{key: a b}": "letters, digits",
        "{key: a, kind: fetch}": "must be one of discovery, get, walk, table, bulk",
        "{key: a, oid: rx}": "must be a catalogue key such as",
        "{key: a, interval: soon}": "must be a duration such as",
        "{key: a, intervall: 5m}": "did you mean interval?",
        "{key: a, priority: 0}": "from 1 to 100",
        "{key: a, max_retries: -1}": "from 0 to 10",
        "{key: a, chain: {key: b}}": "must be a list",
        "{key: a, chain: [{key: b, chain: [{key: c}]}]}": "chains have one level",
        "{key: a, chain: [{key: a}]}": "used twice",
        "{key: a, enabled: {x: y}}": "must be a single value, not a mapping",
        "[a]": "must be a mapping",
    }
    told = {node: "\n".join(loaded(f"templates: [{{name: t, nodes: [{node}]}}]")[1]) for node in messages}
    assert {node: told[node] for node, message in messages.items() if message not in told[node]} == {}


def test_nothing_given_is_the_same_as_left_out() -> None:
    inventory, problems = loaded("credentials:\ntemplates: ~\nolts:\n  - {name: A, site: , address: ~}\n")
    assert problems == []
    assert inventory.olts[0].values == {"name": "A"}


def test_what_is_no_inventory_is_refused_with_a_reason() -> None:
    messages = {
        "": "the file is empty",
        "# nothing but a comment\n": "the file is empty",
        "- a\n- b\n": "line 1, column 1: the file must start with credentials:",
        "just words": "must start with",
        "olts: [a\n": "not valid YAML",
        "a: b: c": "line 1, column 5: not valid YAML",
        "olts: []\n---\nolts: []\n": "not valid YAML",
        "olts: \x00": "not valid YAML",
        "[" * 5000: "nested too deeply",
        "".join(" " * depth + "a:\n" for depth in range(400)): "nested too deeply",
        "a: &a [*a]": "contains itself",
        "olts: *nobody": "not valid YAML",
    }
    told = {text: refused(text) for text in messages}
    assert {text: told[text] for text, message in messages.items() if message not in told[text]} == {}
    assert "planted" not in refused("credentials: [{community: planted-community, x: : }"), "it does not quote the file"


def test_aliases_cannot_blow_a_small_file_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_yaml, "MOST_ITEMS", 1000)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too many parts" in refused("\n".join(lines))


def test_bytes_that_are_no_utf8_are_told_with_their_place_and_a_byte_order_mark_is_no_mistake() -> None:
    with pytest.raises(InventoryInvalid, match="line 2, column 6: .*UTF-8"):
        decode(b"olts:\n# caf\xe9\n")
    assert decode(b"\xef\xbb\xbfolts: []") == "olts: []"


def test_a_huge_file_is_refused_before_it_is_read() -> None:
    with pytest.raises(InventoryInvalid, match="larger than 10 MB"):
        decode(b"#" * (LARGEST_FILE + 1))
    with pytest.raises(InventoryInvalid, match="larger than 10 MB"):
        parse("#" * (LARGEST_FILE + 1))
