"""Import and export of an inventory against a database: all or nothing, idempotent, and back again."""

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import delete, select, text
from sqlalchemy.orm import Session

from portal.domain.statuses import EventType, ExecutionStatus
from portal.extensions import Base, keyring
from portal.services.dispatch import executions
from portal.services.importing import inventory
from portal.services.importing.inventory import InventoryInvalid, Report
from portal.services.network import olts, workflows
from portal.tables import AuditLog, Credential, Olt, TemplateNode, WorkflowNode, WorkflowTemplate
from testing.builders import make_catalogue, make_execution, make_node, make_olt
from testing.cast import ACTOR, NOW
from testing.rows import logged
from tests.unit.test_inventory_file import EXAMPLE

TEMPLATE = """
credentials: [{name: lab, community: public}]
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
"""
ONE = TEMPLATE + "olts: [{name: A, address: 10.0.0.1, brand: huawei, credential: lab, template: basic}]\n"


def load(text_: str, now: datetime = NOW, *, dry_run: bool = False, **environ: str) -> Report:
    return inventory.load(text_, dry_run=dry_run, actor=ACTOR, now=now, environ=environ)


def problems(text_: str) -> str:
    with pytest.raises(InventoryInvalid) as caught:
        load(text_)
    return "\n".join(map(str, caught.value.problems))


def olt(session: Session, name: str) -> Olt:
    return session.scalars(select(Olt).where(Olt.name == name)).one()


def nodes(session: Session, name: str) -> dict[str, WorkflowNode]:
    workflow = olt(session, name).workflow
    session.refresh(workflow)
    return {node.key: node for node in workflow.nodes}


def everything(session: Session) -> dict[str, list[tuple[object, ...]]]:
    """The whole content of the database."""
    session.rollback()
    tables = Base.metadata.sorted_tables
    return {table.name: [tuple(row) for row in session.execute(select(table))] for table in tables}


@pytest.fixture(autouse=True)
def filled_catalogue(session: Session) -> None:
    make_catalogue()


def test_the_example_of_the_design_makes_what_it_says(session: Session) -> None:
    report = load(EXAMPLE)
    assert report.counts["olts"] == {"created": 2, "updated": 0, "unchanged": 0}
    first, second = nodes(session, "OLT-01"), nodes(session, "OLT-02")
    assert first.keys() == {"discovery", "rx", "description"}
    assert first["description"].master is first["rx"]
    assert (first["description"].next_run_at, first["rx"].interval_seconds) == (None, 300)
    assert all(node.template_node_id for node in first.values())
    assert (second["rx"].interval_seconds, second["rx"].max_retries, second["rx"].template_node_id) == (60, 0, None)
    assert olt(session, "OLT-01").credential.community == "public"
    assert "dotted OID" in report.warnings[0]


def test_new_olts_start_a_minute_later_spread_over_another_minute(session: Session) -> None:
    load(EXAMPLE)
    starts = session.scalars(select(WorkflowNode.next_run_at).where(WorkflowNode.master_id.is_(None))).all()
    assert len(set(starts)) > 1
    assert all(NOW + timedelta(seconds=60) <= start < NOW + timedelta(seconds=120) for start in starts)


def test_one_new_olt_starts_after_exactly_a_minute(session: Session) -> None:
    load(ONE)
    assert nodes(session, "A")["rx"].next_run_at == NOW + timedelta(seconds=60)


def test_demo_nodes_may_start_sooner(session: Session) -> None:
    inventory.load(EXAMPLE, dry_run=False, actor=ACTOR, now=NOW, first_run_in=5)
    assert nodes(session, "OLT-02")["rx"].anchor_at == NOW + timedelta(seconds=5)


def test_the_same_file_again_changes_nothing_at_all(session: Session) -> None:
    load(EXAMPLE)
    before = everything(session)
    report = load(EXAMPLE, NOW + timedelta(hours=1))
    assert not report.changed
    assert report.counts["olts"]["unchanged"] == 2
    assert everything(session) == before


def test_a_dry_run_reports_the_same_and_writes_nothing(session: Session) -> None:
    before = everything(session)
    rehearsal = load(EXAMPLE, dry_run=True)
    assert everything(session) == before
    real = load(EXAMPLE)
    assert (rehearsal.changes, rehearsal.warnings) == (real.changes, real.warnings)
    assert (rehearsal.dry_run, real.dry_run) == (True, False)


def test_one_mistake_anywhere_loads_nothing(session: Session) -> None:
    before = everything(session)
    assert "brand" in problems(EXAMPLE.replace("    brand: huawei\n", "    brand: huawey\n"))
    assert everything(session) == before


def test_what_the_database_knows_better_is_told_with_its_place(session: Session) -> None:
    make_olt("OLD", address="10.0.0.9")
    told = problems(
        "credentials: [{name: v3, version: 3}, {name: gone, community_env: SNMP_GONE}]\n"
        "olts:\n"
        "- {name: A, address: 10.0.0.9, brand: huawey, credential: nobody, template: none}\n"
        "- {name: B, address: 10.0.0.8, brand: zte, model: MA5800, credential: lab, timeout: 9}\n"
        "- {name: C, address: 10.0.0.8, brand: zte, credential: lab, workflow: {nodes: [\n"
        "    {key: a, kind: discovery, oid: zte.onu_state, interval: 1h},\n"
        "    {key: b, kind: get, oid: zte.onu_rx_power, interval: 5m},\n"
        "    {key: c, kind: get, oid: zte.onu_rx_pover, interval: 1h, chain: [{key: d, oid: zte.onu_rx_power}]},\n"
        "    {key: e, kind: get, oid: zte.sysuptime, cron: 61 * * * *}]}}\n"
    )
    for expected in (
        "line 1, column 15: credential v3: username is missing",
        "line 1, column 67: credential gone: variable SNMP_GONE is not set",
        "line 3, column 22: OLT A: address 10.0.0.9:161 belongs to OLT OLD already",
        "line 3, column 39: OLT A: brand huawey is unknown, did you mean huawei? Known: generic, huawei, zte",
        "line 3, column 59: OLT A: credential nobody is unknown. Known: lab, v3, gone",
        "line 3, column 77: OLT A: template none is unknown",
        "line 4, column 51: OLT B: model MA5800 is unknown. Known: C320, C600",
        "line 4, column 85: OLT B: timeout 9 s with 1 retries is 18 s",
        "line 5, column 22: OLT C: address 10.0.0.8:161 belongs to OLT B already",
        "line 6, column 36: OLT C: node a: oid: zte.onu_state depends on the model",
        "line 7, column 58: OLT C: node b: override: every 5m is more often than is safe for zte.onu_rx_power (1h)",
        "line 8, column 70: OLT C: node d: kind is missing",
        "line 9, column 51: OLT C: node e: cron: 61 * * * * is no cron line",
    ):
        assert expected in told


def test_a_template_that_does_not_fit_an_olt_is_told_once_for_that_olt(session: Session) -> None:
    told = problems(ONE.replace("brand: huawei", "brand: zte"))
    assert "OLT A: node discovery: oid: huawei.onu_state is not for this OLT, whose brand is zte" in told


def test_a_mistake_in_a_template_is_not_repeated_for_each_olt(session: Session) -> None:
    assert problems(ONE.replace("huawei.onu_rx_power", "huawei.onu_rx_pover")).count("onu_rx_pover") == 1


def test_a_changed_interval_in_the_file_reaches_the_node_by_the_rules(session: Session) -> None:
    load(ONE)
    later = NOW + timedelta(minutes=2)
    report = load(ONE.replace("interval: 5m", "interval: 10m"), later)
    rx = nodes(session, "A")["rx"]
    assert (rx.interval_seconds, rx.next_run_at) == (600, later + timedelta(minutes=10))
    (change,) = [change for change in report.changes if change.section == "olts"]
    assert change.details == ("node rx: interval: 5m -> 10m",)


def test_a_template_reaches_its_olts_though_the_file_does_not_name_them(session: Session) -> None:
    load(ONE)
    grown = TEMPLATE + "      - {key: raw, kind: table, oid: 1.3.6.1.2.1.2.2.1.8, interval: 1h}\n"
    description = "          - {key: description, kind: get, oid: huawei.onu_description}\n"
    report = load(grown.replace("        chain:\n", "").replace(description, ""))
    assert nodes(session, "A").keys() == {"discovery", "rx", "raw"}
    assert {change.name for change in report.changes if change.action == "updated"} == {"basic", "A"}


def test_a_template_is_switched_off_by_the_file_and_so_written_back(session: Session) -> None:
    load(ONE)
    off = ONE.replace("  - name: basic\n", "  - name: basic\n    enabled: false\n")
    (change,) = [change for change in load(off).changes if change.section == "templates"]
    assert change.details == ("enabled: True -> False",)
    assert {node.next_run_at for node in nodes(session, "A").values()} == {None}
    written = inventory.dump()
    assert "enabled: false" in written
    assert not load(written, SNMP_COMMUNITY_LAB="public").changed
    load(TEMPLATE)
    assert session.scalars(select(WorkflowTemplate)).one().enabled is False, "what the file leaves out stays"
    load(written.replace("enabled: false", "enabled: true"), SNMP_COMMUNITY_LAB="public")
    assert nodes(session, "A")["discovery"].next_run_at == NOW + timedelta(minutes=15)


def test_a_template_that_arrives_switched_off_starts_no_clock(session: Session) -> None:
    load(ONE.replace("  - name: basic\n", "  - name: basic\n    enabled: false\n"))
    assert {node.next_run_at for node in nodes(session, "A").values()} == {None}


def test_what_an_olt_has_otherwise_than_its_template_stays(session: Session) -> None:
    load(ONE)
    workflows.update_node(nodes(session, "A")["rx"].id, {"interval": "30m"}, ACTOR, NOW)
    make_node(olt(session, "A"), "own", oid="huawei.onu_state")
    load(TEMPLATE.replace("interval: 5m", "interval: 10m"))
    found = nodes(session, "A")
    assert (found["rx"].interval_seconds, found["discovery"].interval_seconds) == (1800, 900)
    assert found["own"].template_node_id is None


def test_the_file_overrides_single_nodes_of_a_template(session: Session) -> None:
    text_ = TEMPLATE + (
        "olts:\n"
        "- {name: A, address: 10.0.0.1, brand: huawei, credential: lab, template: basic, workflow: {nodes: [\n"
        "    {key: rx, chain: [{key: description, enabled: false}, {key: extra, kind: get, oid: huawei.onu_state}]},\n"
        "    {key: own, kind: get, oid: huawei.sysuptime, interval: 1h}]}}\n"
    )
    load(text_)
    found = nodes(session, "A")
    assert found.keys() == {"discovery", "rx", "description", "extra", "own"}
    assert (found["rx"].overridden, found["description"].overridden) == (False, True)
    assert found["description"].enabled is False
    assert (found["extra"].master, found["extra"].template_node_id) == (found["rx"], None)
    assert not load(text_).changed
    assert not load(inventory.dump(), SNMP_COMMUNITY_LAB="public").changed
    load(text_.replace("description, enabled: false", "description"))
    assert nodes(session, "A")["description"].enabled is True


def test_a_template_node_must_be_overridden_where_the_template_has_it(session: Session) -> None:
    wrong = ONE.replace("template: basic}", "template: basic, workflow: {nodes: [{key: description, interval: 1h}]}}")
    assert "under chain of rx: put it there" in problems(wrong)


def test_nodes_that_a_workflow_of_the_file_does_not_name_are_removed(session: Session) -> None:
    load(EXAMPLE)
    waiting = make_execution(make_node(olt(session, "OLT-02"), "stray", oid="huawei.onu_state"), NOW)
    report = load(EXAMPLE)
    assert nodes(session, "OLT-02").keys() == {"rx"}
    assert report.changes[-1].details == ("node stray: removed",)
    assert waiting.status is ExecutionStatus.INTERRUPTED


def test_what_the_file_leaves_out_keeps_its_stored_value(session: Session) -> None:
    load(ONE)
    olts.update(olt(session, "A").id, {"max_inflight": 4, "enabled": False, "site": "north"}, ACTOR, NOW)
    assert not load(ONE).changed
    found = olt(session, "A")
    assert (found.max_inflight, found.enabled, found.site) == (4, False, "north")


def test_an_absent_secret_keeps_the_stored_one(session: Session) -> None:
    named = "credentials: [{name: lab, community_env: SNMP_COMMUNITY_LAB}]"
    load("credentials: [{name: lab, community: public}]")
    assert not load(named).changed
    load(named, SNMP_COMMUNITY_LAB="fresh")
    assert session.scalars(select(Credential)).one().community == "fresh"


def test_by_default_files_name_no_other_secrets_of_a_process(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "planted")
    monkeypatch.setenv("SNMP_OK", "fine")
    with pytest.raises(InventoryInvalid, match="PLANTED_KEY is not set"):
        inventory.load("credentials: [{name: a, community_env: PLANTED_KEY}]", dry_run=False, actor=ACTOR, now=NOW)
    inventory.load("credentials: [{name: a, community_env: SNMP_OK}]", dry_run=False, actor=ACTOR, now=NOW)
    assert session.scalars(select(Credential)).one().community == "fine"


def test_no_secret_is_in_the_report_the_audit_or_the_export(session: Session) -> None:
    report = load("credentials: [{name: lab, community: planted-1}]")
    changed = load("credentials: [{name: lab, community: planted-2}]")
    told = [*report.lines(), *changed.lines(), str(report.as_dict()), str(changed.as_dict()), inventory.dump()]
    told.append(str(session.execute(text("SELECT * FROM audit_log")).all()))
    assert "planted" not in "\n".join(told)
    assert changed.changes[0].details == ("community: *** -> ***",)


def test_a_moved_olt_must_name_its_credential_again(session: Session) -> None:
    load(ONE)
    moved = "olts: [{name: A, address: 10.0.0.7}]"
    assert "name the credential too" in problems(moved)
    load("olts: [{name: A, address: 10.0.0.7, credential: lab}]")
    assert olt(session, "A").address == "10.0.0.7"


def test_two_olts_that_swap_addresses_are_told_how_to(session: Session) -> None:
    load(ONE.replace("olts: [", "olts: [{name: B, address: 10.0.0.2, brand: huawei, credential: lab}, "))
    swap = "olts: [{name: A, address: 10.0.0.2, credential: lab}, {name: B, address: 10.0.0.1, credential: lab}]"
    assert "import that OLT alone first" in problems(swap)


def test_a_template_is_left_by_naming_none_and_by_an_own_workflow(session: Session) -> None:
    load(ONE)
    load('olts: [{name: A, template: ""}]')
    assert nodes(session, "A") == {}
    load(ONE)
    load("olts: [{name: A, workflow: {nodes: [{key: own, kind: get, oid: huawei.sysuptime, interval: 1h}]}}]")
    assert nodes(session, "A").keys() == {"own"}
    assert olt(session, "A").workflow.template is None  # type: ignore[union-attr]


def test_a_node_moves_between_chains_without_being_lost(session: Session) -> None:
    head = "olts: [{name: A, address: 10.0.0.1, brand: huawei, credential: lab, workflow: {nodes: ["
    d = "kind: discovery, oid: huawei.onu_state, interval: 1h"
    g = "kind: get, oid: huawei.onu_description"
    credential = "credentials: [{name: lab, community: x}]\n"
    load(f"{credential}{head}{{key: a, {d}, chain: [{{key: x, {g}}}]}}]}}}}]")
    before = nodes(session, "A")["x"].id
    load(f"{credential}{head}{{key: b, {d}, chain: [{{key: x, {g}}}]}}]}}}}]")
    found = nodes(session, "A")
    assert (found.keys(), found["x"].id, found["x"].master) == ({"b", "x"}, before, found["b"])
    later = NOW + timedelta(hours=1)
    load(f"{credential}{head}{{key: x, {g}, interval: 1h}}, {{key: b, {d}}}]}}}}]", later)
    found = nodes(session, "A")
    assert (found["x"].master, found["x"].next_run_at) == (None, later + timedelta(seconds=60))
    assert [found["x"].position, found["b"].position] == [0, 1]


def test_overrides_of_an_import_are_logged_once_with_their_giver(session: Session) -> None:
    text_ = ONE.replace("interval: 5m", "interval: 1m, override: laboratory".replace(", ", "\n        "))
    for _ in range(2):
        load(text_)
    rows = logged(EventType.INTERVAL_OVERRIDDEN)
    assert [(row.details["actor"], row.details["reason"]) for row in rows] == [(ACTOR, "laboratory")]


def test_every_changed_thing_leaves_an_audit_row(session: Session) -> None:
    load(ONE)
    actions = session.scalars(select(AuditLog.action).where(AuditLog.actor == ACTOR)).all()
    assert sorted(actions) == [
        "credential.approve",
        "credential.create",
        "olt.create",
        "template.create",
        "workflow.import",
    ]


RICH = """
credentials:
  - {name: lab-1, community: one}
  - {name: lab_1, community: two}
  - {name: secure, version: 3, username: facho, auth_protocol: SHA, auth_password: planted-auth, priv_protocol: AES, priv_password: planted-priv}
  - {name: "yes", version: 1, community: "007"}
templates:
  - name: basic
    description: "Daily: everything"
    nodes:
      - {key: discovery, kind: discovery, oid: huawei.onu_state, cron: "0 */6 * * *", priority: 95, max_retries: 0}
      - key: rx
        name: Potencia óptica
        kind: get
        oid: "huawei.onu_rx_power, huawei.onu_description"
        interval: 90s
        override: "why not"
        retry_delay: 5m
        time_limit: 45
        stop_on_failure: true
        chain:
          - {key: b, kind: get, oid: huawei.onu_description}
          - {key: a, kind: get, oid: 1.3.6.1.4.1.2011.6.128.1.1.2.43.1.9, enabled: false}
  - {name: empty, nodes: []}
olts:
  - {name: A, address: 10.0.0.1, brand: huawei, model: MA5800, credential: lab-1, template: basic}
  - name: B
    address: olt-b.example
    port: 1161
    brand: huawei
    credential: secure
    enabled: false
    site: north
    timeout: 2.5
    retries: 3
    max_repetitions: 10
    max_varbinds: 20
    max_inflight: 1
    template: basic
    workflow:
      enabled: false
      nodes:
        - key: rx
          chain:
            - {key: a, kind: get}
            - {key: b, enabled: false}
            - {key: c, kind: get, oid: huawei.sysuptime}
        - {key: discovery, interval: 1h}
        - {key: own, kind: walk, oid: huawei.onu_description, interval: 1d}
  - {name: "1e3", address: "2001:db8::1", brand: zte, model: C600, credential: "yes"}
"""  # noqa: E501
SECRETS = {
    "SNMP_COMMUNITY_LAB_1": "one", "SNMP_COMMUNITY_LAB_1_2": "two", "SNMP_COMMUNITY_YES": "007",
    "SNMP_AUTH_SECURE": "planted-auth", "SNMP_PRIV_SECURE": "planted-priv",
}  # fmt: skip


def test_an_export_loads_into_an_empty_database_and_comes_out_the_same(session: Session) -> None:
    load(RICH)
    exported = inventory.dump()
    assert "planted" not in exported
    assert not load(exported, **SECRETS).changed
    for table in (Olt, WorkflowTemplate, Credential):
        session.execute(delete(table))
    session.commit()
    assert session.scalars(select(TemplateNode)).all() == []
    load(exported, **SECRETS)
    assert inventory.dump() == exported
    secure = session.scalars(select(Credential).where(Credential.name == "secure")).one()
    assert (secure.auth_password, secure.priv_password) == ("planted-auth", "planted-priv")
    assert [node.key for node in nodes(session, "B")["rx"].chained] == ["a", "b", "c"]


def test_an_export_of_nothing_loads(session: Session) -> None:
    assert not load(inventory.dump()).changed


def test_a_deleted_olt_is_not_exported_and_its_name_can_be_imported_again(session: Session) -> None:
    load(ONE)
    gone = olt(session, "A").id
    olts.delete(gone, "replaced", ACTOR, NOW)
    assert "name: A," not in inventory.dump()
    load(ONE, datetime(2026, 11, 28, tzinfo=UTC))
    assert [row.id for row in session.scalars(select(Olt).where(Olt.deleted_at.is_(None)))] != [gone]


def test_what_runs_on_an_olt_that_a_file_disables_is_asked_to_stop_after_the_commit(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[int], bool]] = []
    monkeypatch.setattr(executions, "stop_running", lambda ids: asked.append((ids, session.info.get("writing", False))))
    load(ONE)
    off = ONE.replace("template: basic}", "template: basic, enabled: false}")
    load(off, dry_run=True)
    assert asked == []
    load(off)
    load(off)
    load(ONE)
    assert asked == [([olt(session, "A").id], False)]


def test_a_lost_key_keeps_no_file_from_being_loaded_or_written(app: Flask, session: Session) -> None:
    load(ONE)
    keyring.load(app, [Fernet.generate_key().decode()])
    session.expire_all()
    assert "SNMP_COMMUNITY_LAB" in inventory.dump()
    moved = "olts: [{name: A, address: 10.0.0.1, brand: huawei, site: Piura}]\n"
    assert load(moved).counts["olts"]["updated"] == 1
    told = problems("credentials: [{name: lab, version: 2c}]\n")
    assert "lab" in told and "enter it again" in told
    load("credentials: [{name: lab, community: fresh}]\n")
    assert session.scalars(select(Credential)).one().community == "fresh"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_file_in_composed_or_decomposed_letters_means_the_same_and_changes_nothing_again(
    session: Session, form: Literal["NFC", "NFD"]
) -> None:
    spanish = ONE.replace("basic", "Básica Ñ").replace("lab", "día").replace("name: A,", "name: OLT-PEÑA, site: Cañón,")
    load(spanish)
    again = load(unicodedata.normalize(form, spanish))
    assert {what: (found["created"], found["updated"]) for what, found in again.counts.items()} == dict.fromkeys(
        again.counts, (0, 0)
    )
    assert olt(session, "OLT-PEÑA").site == "Cañón"
