"""The portal's frame and live pages over HTTP: access, sessions, headers, fragments, and what each page says."""

import logging
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from sqlalchemy import event, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from config import Settings
from portal import clock
from portal.domain.statuses import ExecutionStatus, OltState, Role, Trigger
from portal.extensions import db
from portal.tables import AuditLog, Execution, Olt, Poller, SchedulerState, User, WorkflowNode
from portal.web import access
from testing import routes, seed
from testing.cast import password_of
from testing.databases import Databases, settings_for
from testing.pages import Visitor, path_of, soup, text_of, title_of
from testing.web import update_rows, written

UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}
SAMPLES: dict[str, object] = {
    "execution_id": 1,
    "olt_id": 1,
    "node_id": 1,
    "onu_id": 1,
    "credential_id": 1,
    "probe_id": 1,
    "pool_id": 1,
    "poller_id": 1,
    "template_id": 1,
    "trial_id": 1,
    "tracker_id": 1,
    "violation_id": 1,
    "brand_id": 1,
    "oid_id": 1,
    "formula_id": 1,
    "map_id": 1,
    "channel_id": 1,
    "notification_id": 1,
    "rollout_id": 1,
    "user_id": 1,
    "token_id": 1,
}

# What S5 asks for: ways to say "another host" that browsers understand.
FOREIGN = (
    "http://evil.example",
    "https://evil.example/olts/",
    "//evil.example",
    "///evil.example",
    "////evil.example/%2f..",
    "/\\evil.example",
    "\\/evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "/\r/evil.example",
    "\t//evil.example",
    " //evil.example",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "evil.example",
    "evil.example/path",
    "http:evil.example",
    "http:/evil.example",
    "http:///evil.example",
    "/ /evil.example",
    "/\u2028/evil.example",
    "/\u3000/evil.example",
    "/\\/evil.example",
    "/..\\\\evil.example",
    "ftp://evil.example",
    "@evil.example",
    "https:@evil.example",
    "/\x00/evil.example",
    "//evil.example@localhost",
    "",
)


@pytest.fixture
def people(app: Flask) -> Flask:
    """Users only."""
    with app.app_context():
        seed.add_users(clock.now())
    return app


def visitor(app: Flask, username: str = "viewer") -> Visitor:
    return Visitor(app).enter(username)


def english(app: Flask, username: str = "viewer") -> Visitor:
    """As most tests want it: texts as they stand in the sources."""
    return Visitor(app).enter(username, "en")


def url_of(app: Flask, rule: Rule) -> str:
    with app.test_request_context():
        return app.url_map.bind("localhost").build(
            rule.endpoint,
            {name: SAMPLES[name] for name in rule.arguments},
            rule.methods and ("POST" if "GET" not in rule.methods else "GET"),
        )


def rules(app: Flask, *methods: str) -> list[Rule]:
    return [
        rule
        for rule in app.url_map.iter_rules()
        if set(methods) & (rule.methods or set()) and rule.endpoint != "static" and not rule.endpoint.startswith("api.")
    ]


# ------------------------------------------------------------------------------------------------------------- access


def test_every_endpoint_declares_who_may_call_it(app: Flask) -> None:
    assert [name for name, role in access.declared(app).items() if role is None] == []


def test_an_endpoint_that_declares_nothing_is_denied_to_the_administrator(
    people: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(people.view_functions, "queue.index", lambda: "secret")
    response = visitor(people, "admin").get("/queue/")
    assert (response.status_code, "secret" in response.text) == (403, False)


def test_only_the_way_in_and_out_is_open_to_everybody(app: Flask) -> None:
    public = {name for name, role in access.declared(app).items() if role == "public"}
    assert public <= {
        "static",
        "auth.login",
        "auth.enter",
        "auth.logout",
        "auth.language",
        "health.live",
        "health.ready",
    }


def test_each_page_sends_a_stranger_to_the_login_and_back(people: Flask) -> None:
    for rule in (one for one in rules(people, "GET") if access.declared(people)[one.endpoint] != "public"):
        path = url_of(people, rule)
        response = people.test_client().get(path)
        assert response.status_code == 302, path
        assert path_of(response.location).startswith("/login"), path


def test_a_fragment_of_a_dead_session_never_receives_the_login_page(people: Flask) -> None:
    for rule in (one for one in rules(people, "GET") if access.declared(people)[one.endpoint] != "public"):
        response = Visitor(people).fragment(url_of(people, rule), "some_live")
        assert (response.status_code, response.text) == (401, "")
        assert response.headers["HX-Redirect"].startswith("/login")


def test_the_login_goes_back_to_the_page_that_held_the_fragment(people: Flask) -> None:
    response = Visitor(people).fragment("/executions/?status=FAILED", "executions_live")
    assert response.headers["HX-Redirect"] == "/login?next=/executions/?status%3DFAILED"


@pytest.mark.parametrize("role", list(Role))
def test_a_role_that_is_too_low_is_refused_on_each_route(seeded: Flask, role: Role) -> None:
    ranks = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
    person, declared = visitor(seeded, role.value), access.declared(seeded)
    for rule in rules(seeded, "GET", "POST"):
        needed = declared[rule.endpoint]
        if not isinstance(needed, Role) or ranks.index(role) >= ranks.index(needed):
            continue
        path = url_of(seeded, rule)
        answer = person.get(path) if "GET" in (rule.methods or ()) else person.post(path)
        assert answer.status_code == 403, f"{role} {path}"


def test_every_unsafe_request_without_a_token_is_refused(seeded: Flask) -> None:
    person = visitor(seeded, "admin")
    for rule in rules(seeded, *UNSAFE):
        path = url_of(seeded, rule)
        assert person.client.post(path, data={}).status_code == 400, path
        assert person.client.post(path, data={}, headers={"HX-Request": "true"}).status_code == 400, path


def test_the_token_in_the_header_that_htmx_sends_is_taken(people: Flask) -> None:
    person = visitor(people)
    answer = person.client.post(
        "/language", data={"language": "en"}, headers={"X-CSRFToken": person.token, "HX-Request": "true"}
    )
    assert answer.status_code == 303


def test_login_never_leaves_this_host(people: Flask) -> None:
    went = {target: Visitor(people).login("viewer", next_path=target).location for target in FOREIGN}
    assert {target: place for target, place in went.items() if place != "/"} == {}


def test_login_goes_on_to_the_page_that_was_asked_for(people: Flask) -> None:
    for target in ("/olts/", "/executions/?status=FAILED&olt=3", "/onus/?q=a%20b", "/a:b/@c"):
        assert Visitor(people).login("viewer", next_path=target).location == target


# ----------------------------------------------------------------------------------------------------------- sessions


def test_unknown_user_wrong_password_and_inactive_user_get_the_same_answer(people: Flask) -> None:
    update_rows(people, User, User.username == "operator", active=False)
    answers = [Visitor(people).login(*pair) for pair in (("nobody", "x" * 12), ("viewer", "x" * 12), ("operator", ""))]
    pages = {re.sub(r'value="[^"]*"|content="[^"]*"', "", answer.text) for answer in answers}
    assert ([answer.status_code for answer in answers], len(pages)) == ([401] * 3, 1)


def test_a_cookie_from_before_the_login_is_useless_after_it(people: Flask) -> None:
    person = Visitor(people)
    person.get("/login")
    before = person.client.get_cookie("session")
    person.login("viewer")
    after = person.client.get_cookie("session")
    assert before is not None
    assert after is not None
    assert before.value != after.value
    stranger = people.test_client()
    stranger.set_cookie("session", before.value)
    assert stranger.get("/").status_code == 302


def test_nothing_of_the_session_before_the_login_is_taken_over(people: Flask) -> None:
    person = Visitor(people)
    person.get("/login")
    with person.client.session_transaction() as session:
        session["planted"] = "by somebody else"
        before = session["csrf_token"]
    person.post("/login", username="viewer", password=password_of("viewer"))
    with person.client.session_transaction() as session:
        assert ("planted" in session, session.get("csrf_token") == before) == (False, False)


def test_a_copied_cookie_is_useless_after_logout(people: Flask) -> None:
    person = visitor(people)
    copy = person.client.get_cookie("session")
    assert copy is not None
    thief = people.test_client()
    thief.set_cookie("session", copy.value)
    assert thief.get("/").status_code == 200
    assert person.post("/logout").status_code == 303
    thief.set_cookie("session", copy.value)
    assert thief.get("/").status_code == 302


def test_a_user_who_is_switched_off_is_out_at_once(people: Flask) -> None:
    person = visitor(people)
    update_rows(people, User, User.username == "viewer", active=False)
    assert person.get("/").status_code == 302


def test_logout_by_get_does_nothing(people: Flask) -> None:
    person = visitor(people)
    assert person.get("/logout").status_code == 405
    assert person.get("/").status_code == 200


def test_the_eleventh_wrong_password_in_a_minute_is_not_even_looked_at(people: Flask) -> None:
    person = Visitor(people)
    codes = [person.login("viewer", f"wrong-password-{n}").status_code for n in range(11)]
    assert codes == [401] * 10 + [429]
    assert person.login("viewer").status_code == 429


def test_successful_logins_use_up_no_tries(people: Flask) -> None:
    assert {Visitor(people).login("viewer").status_code for _ in range(12)} == {303}


def test_the_chosen_language_is_kept_for_the_next_login(people: Flask) -> None:
    first = visitor(people)
    assert first.post("/language", language="en", next="/queue/").location == "/queue/"
    again = visitor(people)
    assert soup(again.get("/")).html["lang"] == "en"  # type: ignore[index]
    with people.app_context():
        assert db.session.scalars(select(AuditLog.action).where(AuditLog.action == "user.language")).all() == [
            "user.language"
        ]


def test_a_language_that_does_not_exist_changes_nothing(people: Flask) -> None:
    person = visitor(people)
    person.post("/language", language="xx")
    assert soup(person.get("/")).html["lang"] == "es"  # type: ignore[index]


# ------------------------------------------------------------------------------------------------- headers and markup


def pages(app: Flask) -> list[str]:
    return [url_of(app, rule) for rule in rules(app, "GET")]


@pytest.fixture(scope="module")
def tour(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TestResponse]:
    """Every page once, as the administrator sees it."""
    folder = tmp_path_factory.mktemp("tour")
    app = databases.app(settings_for(databases.own("sqlite", folder), folder))
    seed.seed(app, "few")
    person = visitor(app, "admin")
    return {path: person.get(path) for path in [*pages(app), "/nowhere", "/logout"]}


def test_every_answer_carries_the_security_headers(tour: dict[str, TestResponse]) -> None:
    for path, answer in tour.items():
        assert "script-src 'self';" in answer.headers["Content-Security-Policy"], path
        assert "unsafe" not in answer.headers["Content-Security-Policy"], path
        assert answer.headers["X-Content-Type-Options"] == "nosniff", path
        assert answer.headers["Cache-Control"] == "no-store", path
        assert "HX-Request" in answer.headers["Vary"], path


def test_no_page_has_inline_scripts_or_styles_or_reaches_for_another_host(tour: dict[str, TestResponse]) -> None:
    for path, answer in tour.items():
        tree = soup(answer)
        assert tree.select("script:not([src]), style, [style]") == [], path
        shouting = [tag for tag in tree.find_all() if any(name.startswith(("on", "hx-on")) for name in tag.attrs)]
        assert shouting == [], path
        links = [tag.get("src") or tag.get("href") for tag in tree.select("script, link, img, use")]
        assert [link for link in links if not str(link).startswith("/static/")] == [], path


def test_every_icon_that_pages_use_is_in_the_sprite(people: Flask, tour: dict[str, TestResponse]) -> None:
    sprite = people.test_client().get("/static/vendor/tabler-icons/icons.svg").text
    known = set(re.findall(r'id="([a-z0-9-]+)"', sprite))
    used = {str(tag["href"]).partition("#")[2] for answer in tour.values() for tag in soup(answer).select("use")}
    assert used - known == set()


def test_ids_are_unique_on_each_page(tour: dict[str, TestResponse]) -> None:
    for path, answer in tour.items():
        ids = [str(tag["id"]) for tag in soup(answer).select("[id]")]
        assert sorted({one for one in ids if ids.count(one) > 1}) == [], path


def test_every_file_of_the_frame_exists_and_may_be_kept_for_good(people: Flask) -> None:
    person = Visitor(people)
    tree = soup(person.get("/login"))
    for tag in tree.select("script[src], link[rel=stylesheet], img"):
        answer = person.client.get(str(tag.get("src") or tag.get("href")))
        assert (answer.status_code, "immutable" in answer.headers["Cache-Control"]) == (200, True)


def test_hostile_text_from_devices_is_shown_as_text(seeded: Flask) -> None:
    evil = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
    with written(seeded) as session:
        session.execute(update(Execution).values(node_name=evil, error_message=evil))
        session.execute(update(Olt).where(Olt.id == 1).values(name=evil, paused_reason=evil))
        session.execute(update(WorkflowNode).values(name=evil))
    person = visitor(seeded, "admin")
    for path in pages(seeded):
        answer = person.get(path)
        assert answer.status_code < 500, path
        if answer.mimetype == "text/html":
            assert soup(answer).select("script:not([src]), [onerror], img[src=x]") == [], path


# ---------------------------------------------------------------------------------------------------------- fragments

LIVE = (
    ("/", "dashboard_live"),
    ("/pulse", "pulse"),
    ("/executions/", "executions_live"),
    ("/pollers/", "pollers_live"),
    ("/queue/", "queue_live"),
)


@pytest.mark.parametrize(("path", "target"), LIVE)
def test_the_same_url_serves_the_page_and_its_fragment(seeded: Flask, path: str, target: str) -> None:
    person = visitor(seeded)
    whole, part = person.get(path), person.fragment(path, target)
    assert whole.text.lstrip().startswith("<!doctype html>") or path == "/pulse"
    root = soup(part).find(True)
    assert (root and root.get("id"), "<html" in part.text) == (target, False)
    assert root and root.get("hx-trigger", "").startswith("every ")  # type: ignore[union-attr]


@pytest.mark.parametrize(("path", "target"), LIVE)
def test_an_unchanged_fragment_is_answered_with_204(seeded: Flask, path: str, target: str) -> None:
    person = visitor(seeded)
    seed.keep_alive(seeded)
    looks = [person.fragment(path, target)]
    for _ in range(2):  # a chart's edge moves each 10 s: it may do so between two of three looks, not twice
        looks.append(person.fragment(path, target, digest=looks[-1].headers.get("X-Digest")))
        if looks[-1].status_code == 204:
            break
    assert (looks[-1].status_code, looks[-1].data) == (204, b"")


def test_a_fragment_in_which_something_happened_is_sent(seeded: Flask) -> None:
    person = visitor(seeded)
    mark = person.fragment("/queue/", "queue_live").headers["X-Digest"]
    with written(seeded) as session:
        session.execute(
            update(Execution).where(Execution.status == ExecutionStatus.PENDING).values(status=ExecutionStatus.SUCCESS)
        )
    assert person.fragment("/queue/", "queue_live", digest=mark).status_code == 200


def test_an_htmx_request_for_an_unknown_element_gets_the_whole_page(seeded: Flask) -> None:
    assert "<html" in visitor(seeded).fragment("/queue/", "something_else").text


def test_an_execution_stops_asking_once_it_has_ended(seeded: Flask) -> None:
    person = visitor(seeded)
    with seeded.app_context():
        running = db.session.scalar(select(Execution.id).where(Execution.status == ExecutionStatus.RUNNING))
    path = f"/executions/{running}"
    assert "hx-trigger" in person.fragment(path, "execution_live").text
    update_rows(seeded, Execution, Execution.id == running, status=ExecutionStatus.SUCCESS)
    assert "hx-trigger" not in person.fragment(path, "execution_live").text


def test_only_the_first_page_of_executions_is_live(seeded: Flask) -> None:
    person = visitor(seeded)
    older = soup(person.get("/executions/")).select_one("a[rel=next]")
    assert older is None  # 42 rows fit on one page
    with written(seeded) as session:
        for n in range(30):
            session.add(
                Execution(
                    node_name="x",
                    olt_id=1,
                    device_key="d",
                    status=ExecutionStatus.SUCCESS,
                    priority=1,
                    trigger=Trigger.SCHEDULE,
                    scheduled_for=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n),
                )
            )
    link = soup(person.get("/executions/")).select_one("a[rel=next]")
    assert link is not None
    second = person.get(str(link["href"]))
    assert "hx-trigger" not in str(soup(second).select_one("#executions_live"))
    assert len(soup(second).select("tbody tr")) == 22


# --------------------------------------------------------------------------------------------------------- what is said


def test_the_start_page_says_how_many_olts_respond(seeded: Flask) -> None:
    person = english(seeded)
    assert title_of(person.get("/")) == "2 OLTs respond, 0 unreachable"
    update_rows(seeded, Olt, Olt.id == 1, state=OltState.UNREACHABLE)
    assert title_of(person.get("/")) == "1 OLT responds, 1 unreachable"


def test_the_start_page_says_it_in_spanish(seeded: Flask) -> None:
    assert title_of(visitor(seeded).get("/")) == "2 OLTs responden, 0 inalcanzables"


def test_the_first_use_explains_what_to_do(people: Flask) -> None:
    answer = english(people, "operator").get("/")
    assert title_of(answer) == "No OLT yet"
    assert "Start by adding the first OLT" in text_of(answer)


def test_the_strip_is_calm_while_the_scheduler_ticks(seeded: Flask) -> None:
    seed.keep_alive(seeded)
    strip = soup(english(seeded).get("/pulse"))
    assert "Scheduler alive" in " ".join(strip.get_text(" ").split())
    assert strip.select(".fx-red") == []


def test_the_strip_turns_red_when_the_scheduler_is_silent_for_five_seconds(seeded: Flask) -> None:
    update_rows(seeded, SchedulerState, last_tick_at=clock.now() - timedelta(seconds=6))
    strip = soup(english(seeded).get("/pulse"))
    assert "Scheduler silent since" in " ".join(strip.select_one("a.fx-red").get_text(" ").split())  # type: ignore[union-attr]


def test_a_poller_unseen_for_half_a_minute_has_no_sign_and_does_not_count(seeded: Flask) -> None:
    seed.keep_alive(seeded)
    update_rows(seeded, Poller, Poller.poller_id == 3, seen_at=clock.now() - timedelta(seconds=31))
    answer = english(seeded).get("/pollers/")
    assert title_of(answer) == "1 of 2 pollers busy"
    assert "No sign" in text_of(answer)


def test_a_saturated_pool_says_what_to_do(seeded: Flask) -> None:
    seed.keep_alive(seeded)
    update_rows(seeded, Poller, busy_last_minute=46.0)  # 77 %
    answer = english(seeded).get("/pollers/")
    assert title_of(answer) == "The pool is saturated: 1 of 3 busy"
    text = text_of(answer)
    assert "With 4 pollers it would be less than 60 % busy" in text  # 3 were busy for 2.3 of 3 minutes
    assert "flask pollers scale 4" in text
    assert "longer intervals" in text
    assert "start another pool on another machine" in text


def test_executions_are_filtered_by_what_the_url_says(seeded: Flask) -> None:
    person = english(seeded)
    rows = soup(person.get("/executions/?status=RUNNING")).select("tbody tr")
    assert len(rows) == 1
    assert "Running" in rows[0].get_text()
    assert soup(person.get("/executions/?status=RUNNING&olt=2")).select("tbody tr") == []
    assert "Result: Running" in text_of(person.get("/executions/?status=RUNNING"))


NONSENSE = (
    "/executions/?status=nonsense",
    "/executions/?olt=abc",
    "/executions/?before=%00",
    "/executions/?before=WzAsICJ4Il0",
    "/executions/?trigger=1'--",
    "/executions/?olt=99999999999999999999",
    "/executions/?olt=-1",
    "/executions/?olt=%D9%A3",
)


def test_nonsense_in_the_url_is_no_error(seeded: Flask) -> None:
    person = visitor(seeded)
    assert {path: code for path in NONSENSE if (code := person.get(path).status_code) != 200} == {}


def test_a_number_that_no_table_can_hold_is_just_not_there(seeded: Flask) -> None:
    person = visitor(seeded, "admin")
    huge = [re.sub(r"<[^>]*>", "9" * 30, rule.rule) for rule in rules(seeded, "GET") if rule.arguments]
    assert {path: code for path in huge if (code := person.get(path).status_code) != 404} == {}


def test_an_execution_shows_its_tries_and_why_steps_were_skipped(seeded: Flask) -> None:
    with seeded.app_context():
        failed = db.session.scalars(
            select(Execution.id)
            .join(WorkflowNode, WorkflowNode.id == Execution.node_id)
            .where(Execution.status == ExecutionStatus.FAILED, WorkflowNode.key == "rx")
        ).first()
    text = text_of(english(seeded).get(f"/executions/{failed}"))
    for words in ("The OLT did not answer in time", "Try 2", "Try 1", "Skipped", "An earlier step timed out"):
        assert words in text


def test_an_operator_runs_a_node_again_and_a_viewer_is_not_offered_it(seeded: Flask) -> None:
    with seeded.app_context():
        ended = db.session.scalars(select(Execution.id).where(Execution.status == ExecutionStatus.SUCCESS)).first()
    assert "Run again" not in text_of(english(seeded).get(f"/executions/{ended}"))
    assert "Run again" in text_of(english(seeded, "operator").get(f"/executions/{ended}"))


# --------------------------------------------------------------------------------------------------------------- queue


def queue_text(app: Flask) -> str:
    return text_of(english(app).get("/queue/"))


@pytest.fixture
def one_waiting(seeded: Flask) -> Flask:
    """OLT 2 has one composite waiting and nothing running; pollers are alive."""
    seed.keep_alive(seeded)
    with written(seeded) as session:
        session.execute(
            update(Execution).where(Execution.status == ExecutionStatus.PENDING).values(status=ExecutionStatus.SUCCESS)
        )
        queue_on_olt_2(session, "rx", "Power", 40, seconds_ago=30)
    return seeded


def queue_on_olt_2(session: Session, key: str, name: str, priority: int, seconds_ago: int) -> None:
    """One composite of that node waits since then."""
    of_key = select(WorkflowNode.id).where(WorkflowNode.key == key, WorkflowNode.workflow_id == 2)
    due = clock.now() - timedelta(seconds=seconds_ago)
    session.add(Execution(node_id=session.scalars(of_key).one(), node_name=name, olt_id=2, device_key="b",
                          priority=priority, scheduled_for=due, queued_at=due))  # fmt: skip


def change(app: Flask, **values: object) -> None:
    update_rows(app, Execution, Execution.node_name == "Power", **values)


def test_a_composite_that_could_start_is_next(one_waiting: Flask) -> None:
    assert "Next to be taken" in queue_text(one_waiting)


def test_a_composite_waits_for_the_one_that_has_its_olt(one_waiting: Flask) -> None:
    update_rows(one_waiting, Execution, Execution.status == ExecutionStatus.RUNNING, olt_id=2)
    assert "The OLT is busy with Potencia RX for" in queue_text(one_waiting)


def test_a_composite_waits_for_its_next_try(one_waiting: Flask) -> None:
    change(one_waiting, attempt=1, not_before=clock.now() + timedelta(seconds=90))
    assert "Try 1 failed; tried again in 1 min" in queue_text(one_waiting)


def test_a_composite_waits_for_a_free_poller(one_waiting: Flask) -> None:
    update_rows(one_waiting, Poller, status="BUSY")
    assert "Waits for a free poller: 3 of 3 busy" in queue_text(one_waiting)


def test_a_composite_waits_because_no_poller_runs(one_waiting: Flask) -> None:
    update_rows(one_waiting, Poller, seen_at=clock.now() - timedelta(minutes=2))
    assert "What waits here will not start until the pollers are started." in queue_text(one_waiting)


def test_a_composite_goes_behind_the_more_urgent_one_of_its_olt(one_waiting: Flask) -> None:
    with written(one_waiting) as session:
        queue_on_olt_2(session, "discovery", "Urgent", 90, seconds_ago=5)
    text = queue_text(one_waiting)
    assert "Behind Urgent on the same OLT" in text
    assert "Behind Power" not in text


def test_a_composite_that_no_queue_has_yet_says_so(one_waiting: Flask) -> None:
    change(one_waiting, queued_at=None)
    assert "Not handed to the queue yet" in queue_text(one_waiting)


def test_an_empty_queue_is_good_news(one_waiting: Flask) -> None:
    change(one_waiting, status=ExecutionStatus.SUCCESS)
    assert "The queue is empty" in queue_text(one_waiting)


# --------------------------------------------------------------------------------------------------------------- errors


def test_a_page_that_does_not_exist_says_so_inside_the_frame(people: Flask) -> None:
    answer = english(people).get("/nowhere")
    assert (answer.status_code, title_of(answer)) == (404, "There is nothing here")
    assert soup(answer).select_one(".fx-rail") is not None


def test_a_stranger_at_a_page_that_does_not_exist_sees_no_frame(people: Flask) -> None:
    answer = people.test_client().get("/nowhere")
    assert (answer.status_code, soup(answer).select_one(".fx-rail")) == (404, None)


def test_a_crash_shows_a_reference_that_stands_in_the_log(
    people: Flask, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode() -> str:
        raise RuntimeError("password=hunter2")

    monkeypatch.setitem(people.view_functions, "auth.login", access.public(explode))
    with caplog.at_level(logging.ERROR):
        answer = people.test_client().get("/login", headers={"Accept-Language": "en"})
    reference = re.search(r"Reference ([0-9a-f]{8})", text_of(answer))
    assert (answer.status_code, "hunter2" in answer.text) == (500, False)
    assert reference is not None
    assert f"reference={reference[1]}" in caplog.text


def test_an_expired_form_says_that_nothing_was_saved(people: Flask) -> None:
    answer = english(people).client.post("/language", data={"language": "en", "csrf_token": "old"})
    assert (answer.status_code, title_of(answer)) == (400, "The form had expired")


# ------------------------------------------------------------------------------------------------- databases, budgets


def test_every_page_and_fragment_works_on_postgresql(settings: Settings, databases: Databases) -> None:
    app = databases.app(replace(settings, database_url=databases.url("postgresql")))
    seed.seed(app, "few")
    with written(app) as session:
        routes.furnish(session, clock.now())
    with app.app_context():
        found = [one.path for one in routes.addresses(app, db.session())]
    person = visitor(app, "admin")
    assert {path: code for path in found if (code := person.get(path).status_code) >= 400} == {}
    assert {path: code for path, target in LIVE if (code := person.fragment(path, target).status_code) != 200} == {}
    assert title_of(person.get("/queue/")) != ""
    with app.app_context():
        db.session.remove()
        db.engine.dispose()


def statements(app: Flask, person: Visitor, path: str) -> int:
    seen: list[str] = []
    with app.app_context():
        engine = db.engine
    listener = lambda _c, _cur, statement, *_: seen.append(statement)  # noqa: E731
    event.listen(engine, "before_cursor_execute", listener)
    person.get(path)
    event.remove(engine, "before_cursor_execute", listener)
    return len([one for one in seen if not one.startswith(("BEGIN", "SELECT 1"))])


@pytest.mark.parametrize(
    ("path", "budget"), [("/", 18), ("/executions/", 8), ("/pollers/", 14), ("/queue/", 11), ("/pulse", 6)]
)
def test_a_page_costs_the_same_number_of_statements_whatever_it_shows(
    app: Flask, path: str, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(seed.SIZES, "some", seed.Size(olts=12, executions=120, onus=4, pollers=6, busy=4, pending=10))
    seed.seed(app, "some")
    assert statements(app, visitor(app), path) <= budget


def test_a_database_that_refuses_is_told_with_what_to_do_and_a_reference(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    @access.public
    def full() -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    monkeypatch.setitem(app.view_functions, "auth.login", full)
    answer = app.test_client().get("/login", headers={"Accept-Language": "es"})
    assert answer.status_code == 503
    assert "La base de datos no se puede usar ahora" in answer.get_data(as_text=True)
