"""The portal's frame over HTTP: access, sessions, fragments, what pages say at a glance, and errors."""

import logging
import re
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from werkzeug.routing import Rule

from portal import clock
from portal.domain.statuses import ExecutionStatus, OltState, Role
from portal.tables import AuditLog, Execution, Olt, Poller, SchedulerState, User, WorkflowNode
from portal.web import access
from testing import routes, seed
from testing.builders import make_execution
from testing.cast import NOW, password_of
from testing.pages import Visitor, element, missing, path_of, soup, text_of, texts, title_of
from testing.web import copies, english, stored, update_rows, written

UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}

# What S5 asks for: ways to say "another host" that browsers understand.
FOREIGN = {
    "an address": ("http://evil.example", "https://evil.example/olts/", "ftp://evil.example", ""),
    "an address with too few slashes": ("http:evil.example", "http:/evil.example", "http:///evil.example"),
    "slashes": ("//evil.example", "///evil.example", "////evil.example/%2f.."),
    "backslashes": (
        "/\\evil.example",
        "\\/evil.example",
        "\\\\evil.example",
        "/\\/evil.example",
        "/..\\\\evil.example",
    ),
    "what browsers leave out": ("/\t/evil.example", "/\n/evil.example", "/\r/evil.example", "\t//evil.example"),
    "blanks": (" //evil.example", "/ /evil.example", "/\u2028/evil.example", "/\u3000/evil.example"),
    "a NUL": ("/\x00/evil.example",),
    "a script": ("javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x"),
    "a host alone": ("evil.example", "evil.example/path", "@evil.example"),
    "a host behind a name": ("https:@evil.example", "//evil.example@localhost"),
}


def visitor(app: Flask, username: str = "viewer") -> Visitor:
    return Visitor(app).enter(username)


def url_of(app: Flask, rule: Rule) -> str:
    """Of the first of everything."""
    method = "POST" if "GET" not in (rule.methods or ()) else "GET"
    return str(app.url_map.bind("localhost").build(rule.endpoint, dict.fromkeys(rule.arguments, 1), method))


def rules(app: Flask, *methods: str) -> list[Rule]:
    found = [rule for rule in app.url_map.iter_rules() if set(methods) & (rule.methods or set())]
    return [rule for rule in found if not rule.endpoint.startswith(routes.NOT_PAGES)]


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
    public = {name for name, role in access.declared(app).items() if role == "public"} - {"static"}
    assert public <= {"auth.login", "auth.enter", "auth.logout", "auth.language", "health.live", "health.ready"}


def test_each_page_sends_a_stranger_to_the_login_and_a_fragment_never_receives_it(people: Flask) -> None:
    for rule in (one for one in rules(people, "GET") if access.declared(people)[one.endpoint] != "public"):
        path = url_of(people, rule)
        page = people.test_client().get(path)
        assert (page.status_code, path_of(page)[:6]) == (302, "/login"), path
        part = Visitor(people).fragment(path, "some_live")
        assert (part.status_code, part.text, part.headers["HX-Redirect"][:6]) == (401, "", "/login"), path


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
    assert element(person.press("/language", "", language="en"), "html")["lang"] == "en"


def test_login_never_leaves_this_host(people: Flask) -> None:
    targets = [target for kind in FOREIGN.values() for target in kind]
    went = {target: Visitor(people).login("viewer", next_path=target).location for target in targets}
    assert went == dict.fromkeys(targets, "/")


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
    (before,) = copies(person, people, 1)
    person.login("viewer")
    (after,) = copies(person, people, 1)
    assert [one.get("/").status_code for one in (before, after)] == [302, 200]


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
    early, late = copies(person, people, 2)
    assert early.get("/").status_code == 200
    assert person.post("/logout").status_code == 303
    assert late.get("/").status_code == 302


def test_a_user_who_is_switched_off_is_out_at_once(people: Flask) -> None:
    person = visitor(people)
    update_rows(people, User, User.username == "viewer", active=False)
    assert person.get("/").status_code == 302


def test_logout_by_get_does_nothing(people: Flask) -> None:
    person = visitor(people)
    assert [person.get(path).status_code for path in ("/logout", "/")] == [405, 200]


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
    assert element(visitor(people).get("/"), "html")["lang"] == "en"
    assert stored(people, select(AuditLog.action)).count("user.language") == 1


def test_a_language_that_does_not_exist_changes_nothing(people: Flask) -> None:
    person = visitor(people)
    person.post("/language", language="xx")
    assert element(person.get("/"), "html")["lang"] == "es"


def test_every_file_of_the_frame_exists_and_may_be_kept_for_good(people: Flask) -> None:
    person = Visitor(people)
    tree = soup(person.get("/login"))
    for tag in tree.select("script[src], link[rel=stylesheet], img"):
        answer = person.client.get(str(tag.get("src") or tag.get("href")))
        assert (answer.status_code, "immutable" in answer.headers["Cache-Control"]) == (200, True)


# ---------------------------------------------------------------------------------------------------------- fragments


def test_a_fragment_in_which_something_happened_is_sent(seeded: Flask) -> None:
    person = visitor(seeded)
    mark = person.fragment("/queue/", "queue_live").headers["X-Digest"]
    update_rows(seeded, Execution, Execution.status == ExecutionStatus.PENDING, status=ExecutionStatus.SUCCESS)
    assert person.fragment("/queue/", "queue_live", digest=mark).status_code == 200


def test_an_htmx_request_for_an_unknown_element_gets_the_whole_page(seeded: Flask) -> None:
    assert "<html" in visitor(seeded).fragment("/queue/", "something_else").text


def test_an_execution_stops_asking_once_it_has_ended(seeded: Flask) -> None:
    person = visitor(seeded)
    (running,) = stored(seeded, select(Execution.id).where(Execution.status == ExecutionStatus.RUNNING))
    path = f"/executions/{running}"
    assert "hx-trigger" in person.fragment(path, "execution_live").text
    update_rows(seeded, Execution, Execution.id == running, status=ExecutionStatus.SUCCESS)
    assert "hx-trigger" not in person.fragment(path, "execution_live").text


def test_only_the_first_page_of_executions_is_live(seeded: Flask) -> None:
    person = visitor(seeded)
    assert soup(person.get("/executions/")).select("a[rel=next]") == []  # 42 rows fit on one page
    with written(seeded) as session:
        for n in range(30):
            slot = NOW - timedelta(days=300, seconds=n)
            make_execution(session.get_one(WorkflowNode, 1), slot, status=ExecutionStatus.SUCCESS)
    second = soup(person.get(str(element(person.get("/executions/"), "a[rel=next]")["href"])))
    assert "hx-trigger" not in str(element(second, "#executions_live"))
    assert len(second.select("tbody tr")) == 22


# --------------------------------------------------------------------------------------------------------- what is said


def test_the_start_page_says_how_many_olts_respond(seeded: Flask) -> None:
    spanish, person = visitor(seeded), english(seeded)
    assert title_of(spanish.get("/")) == "2 OLTs responden, 0 inalcanzables"
    assert title_of(person.get("/")) == "2 OLTs respond, 0 unreachable"
    update_rows(seeded, Olt, Olt.id == 1, state=OltState.UNREACHABLE)
    assert title_of(person.get("/")) == "1 OLT responds, 1 unreachable"


def test_the_first_use_explains_what_to_do(people: Flask) -> None:
    answer = english(people).get("/")
    assert (title_of(answer), missing(answer, "Start by adding the first OLT")) == ("No OLT yet", [])


def test_the_strip_is_calm_while_the_scheduler_ticks(seeded: Flask) -> None:
    seed.keep_alive(seeded)
    strip = soup(english(seeded).get("/pulse"))
    assert ("Scheduler alive" in text_of(strip), strip.select(".fx-red")) == (True, [])


def test_the_strip_turns_red_when_the_scheduler_is_silent_for_five_seconds(seeded: Flask) -> None:
    update_rows(seeded, SchedulerState, last_tick_at=clock.now() - timedelta(seconds=6))
    assert "Scheduler silent since" in text_of(element(english(seeded).get("/pulse"), "a.fx-red"))


def test_a_poller_unseen_for_half_a_minute_has_no_sign_and_does_not_count(seeded: Flask) -> None:
    seed.keep_alive(seeded)
    update_rows(seeded, Poller, Poller.poller_id == 3, seen_at=clock.now() - timedelta(seconds=31))
    answer = english(seeded).get("/pollers/")
    assert (title_of(answer), missing(answer, "No sign")) == ("1 of 2 pollers busy", [])


def test_a_saturated_pool_says_what_to_do(seeded: Flask) -> None:
    seed.keep_alive(seeded)
    update_rows(seeded, Poller, busy_last_minute=46.0)  # 77 %
    answer = english(seeded).get("/pollers/")
    assert title_of(answer) == "The pool is saturated: 1 of 3 busy"
    enough = "With 4 pollers it would be less than 60 % busy"  # 3 were busy for 2.3 of 3 minutes
    others = ("flask pollers scale 4", "longer intervals", "start another pool on another machine")
    assert missing(answer, enough, *others) == []


def test_executions_are_filtered_by_what_the_url_says(seeded: Flask) -> None:
    person = english(seeded)
    page = person.get("/executions/?status=RUNNING")
    (row,) = texts(page, "tbody tr")
    assert ("Running" in row, missing(page, "Result: Running")) == (True, [])
    assert texts(person.get("/executions/?status=RUNNING&olt=2"), "tbody tr") == []


def test_nonsense_in_the_url_is_no_error(seeded: Flask) -> None:
    person, huge = visitor(seeded), "olt=99999999999999999999"
    nonsense = (
        "status=nonsense",
        "olt=abc",
        "before=%00",
        "before=WzAsICJ4Il0",
        "trigger=1'--",
        "olt=-1",
        "olt=%D9%A3",
    )
    codes = {query: person.get(f"/executions/?{query}").status_code for query in (*nonsense, huge)}
    assert codes == dict.fromkeys(codes, 200)


def test_a_number_that_no_table_can_hold_is_just_not_there(seeded: Flask) -> None:
    person = visitor(seeded, "admin")
    huge = [re.sub(r"<[^>]*>", "9" * 30, rule.rule) for rule in rules(seeded, "GET") if rule.arguments]
    assert {path: code for path in huge if (code := person.get(path).status_code) != 404} == {}


def test_an_execution_shows_its_tries_and_why_steps_were_skipped(seeded: Flask) -> None:
    of_rx = (
        select(Execution.id).join(WorkflowNode, WorkflowNode.id == Execution.node_id).where(WorkflowNode.key == "rx")
    )
    failed = stored(seeded, of_rx.where(Execution.status == ExecutionStatus.FAILED))[0]
    assert (
        missing(
            english(seeded).get(f"/executions/{failed}"),
            "The OLT did not answer in time",
            "Try 2",
            "Try 1",
            "Skipped",
            "An earlier step timed out",
        )
        == []
    )


def test_an_operator_runs_a_node_again_and_a_viewer_is_not_offered_it(seeded: Flask) -> None:
    ended = stored(seeded, select(Execution.id).where(Execution.status == ExecutionStatus.SUCCESS))[0]
    pages = [text_of(english(seeded, name).get(f"/executions/{ended}")) for name in ("viewer", "operator")]
    assert ["Run again" in page for page in pages] == [False, True]


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
