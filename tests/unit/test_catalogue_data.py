"""The catalogue: what we ship is sound, and a wrong document is refused with its place and the remedy."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portal.domain import oid_text
from portal.domain.catalogue_data import SECRET_COLUMNS, BrandData, CatalogueError, OidData, Shape, is_secret, parse
from portal.domain.readings import ValueType
from portal.domain.recognising import KnownModel, shortlist
from portal.domain.statuses import NodeKind
from testing import shipped
from testing.shipped import FILES, brand, brands

WALKS = Path(__file__).parents[3] / "shared" / "olt" / "walks"
C6XX = ("C600", "C610", "C620")


NAMED = "huawei zte fiberhome vsol bdcom cdata nokia ufiber generic"


def test_every_maker_that_the_product_names_is_shipped_in_a_file_of_its_own() -> None:
    assert set(NAMED.split()) <= {data.key for data in brands()}
    assert [path.stem for path in FILES] == [data.key for data in brands()]


def broken(data: BrandData, row: OidData) -> list[str]:
    """The rules of the shipped catalogue that this row does not keep."""
    spec = row.value_spec(data.state_maps_by_name)
    rules = {
        "its OID is in its one form": oid_text.normalise(row.oid) == row.oid,
        "its formulas are in its file": {row.formula, *row.candidates} - {""} <= {item.name for item in data.formulas},
        "what sources contradict is not shipped": row.confidence != "low",
        "its values have its type": spec.type is row.type,
        "states, and nothing else, have a map": bool(spec.states) is (row.type is ValueType.STATE),
        "it holds no secret": not is_secret(row.oid),
        "it has a source": bool(row.source),
        # The index of a UFiber ONU is its serial, that of a Calix AXOS a running number: no position is in them.
        "an ONU's position comes from its index or its interface's name": (
            row.shape is not Shape.ONU or bool(row.formula) or row.by_name or data.key in ("ufiber", "calix")
        ),
        "only numbers have a dead band": row.dead_band is None or row.type is ValueType.NUMBER,
    }
    if spec.unit == "dBm":
        rules["power has limits"] = (spec.minimum, spec.maximum) == (-50, 10)
        rules["power is read in safe intervals"] = row.safe_interval == (3600 if data.key == "zte" else 300)
        rules["power has a dead band"] = row.dead_band == 0.3
    return [f"{data.key}.{row.name}{'+' if row.models else ''}: {rule}" for rule, kept in rules.items() if not kept]


def test_every_shipped_row_can_be_used() -> None:
    assert [rule for data in brands() for row in data.oids for rule in broken(data, row)] == []


def test_names_are_unique_for_each_model() -> None:
    for data in brands():
        keys = [(row.name, model) for row in data.oids for model in row.models or ("",)]
        assert len(keys) == len(set(keys)), data.key
        assert len({(row.name, row.variant) for row in data.oids}) == len(data.oids), data.key


@pytest.mark.parametrize(("key", "model"), [("huawei", ""), ("zte", ""), *(("zte", model) for model in C6XX)])
def test_the_columns_that_templates_rely_on_exist(key: str, model: str) -> None:
    gets = "serial description rx_power olt_rx_power tx_power temperature distance model".split()
    kinds = dict.fromkeys(["last_down_cause", *(f"onu_{name}" for name in gets)], NodeKind.GET)
    kinds["onu_state"] = NodeKind.DISCOVERY
    assert {name: shipped.row(f"{key}.{name}", model).kind for name in kinds} == kinds
    assert shipped.row(f"{key}.if_name").kind is NodeKind.TABLE


def test_generic_scalars_and_tables_have_their_shapes() -> None:
    shapes = dict.fromkeys("sys_descr sys_object_id sys_up_time sys_name".split(), (Shape.SCALAR, NodeKind.GET))
    tables = "if_name if_descr if_alias if_admin_status if_oper_status".split()
    shapes |= dict.fromkeys(tables, (Shape.PORT, NodeKind.TABLE))
    assert {row.name: (row.shape, row.kind) for row in brand("generic").oids if row.name in shapes} == shapes


def test_zte_optics_name_the_pon_port_after_the_onu() -> None:
    for model in ("", *C6XX):
        names = ("zte.onu_rx_power", "zte.onu_olt_rx_power")
        assert [shipped.row(name, model).index_suffix for name in names] == [".1", ""]
    assert shipped.row("zte.onu_distance").oid == "1.3.6.1.4.1.3902.1012.3.11.4.1.2"


def test_no_column_of_one_zte_tree_is_given_to_the_other() -> None:
    for row in brand("zte").oids:
        assert oid_text.is_under(row.oid, "1.3.6.1.4.1.3902.1082") is bool(row.models and row.name != "if_name")


def test_the_recorded_c320_answers_the_distance_column() -> None:
    path = WALKS / "zxa10_c320.snmprec"
    if not path.exists():
        pytest.skip("recorded walk zxa10_c320.snmprec absent")
    row = shipped.row("zte.onu_distance")
    formula = shipped.formula(f"zte.{row.formula}")
    oids = [line.split("|", 1)[0] for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    keys = [oid_text.index_of(item, row.oid) for item in oids if oid_text.is_under(item, row.oid)]
    assert len(keys) == 125
    assert all(formula.decode(key) for key in keys)


@pytest.mark.parametrize(
    ("object_id", "descr", "model"),
    [
        ("2011.2.123", "Huawei Integrated Access Software", "huawei.MA5603T"),
        ("2011.2.999", "Huawei Integrated Access Software", "huawei.ACCESS"),
        ("2011.2.294", "Huawei Integrated Access Software", "huawei.MA5800"),
        ("2011.2.185", "Huawei Integrated Access Software", "huawei.MDU"),
        ("2011.2.1234", "Huawei router", None),
        ("3902.1082.1001.320.2.1", "C320 Version V2.1.0", "zte.C320"),
        ("3902.1082.1001.620.1.1", "", "zte.C620"),
        ("9", "", None),
    ],
)
def test_a_probe_is_matched_to_the_model_it_fits_best(object_id: str, descr: str, model: str | None) -> None:
    known = [KnownModel(data.key, item) for data in brands() for item in data.models]
    found = shortlist(known, f"1.3.6.1.4.1.{object_id}", descr)
    assert (found.decided and not found.unknown and found.decided.key or None) == model


def test_secret_columns_their_instances_and_their_tables_are_known() -> None:
    for column in SECRET_COLUMNS:
        assert is_secret(column)
        assert is_secret(f"{column}.4194312448.2")
        assert is_secret(column.rpartition(".")[0])
    assert not is_secret("1.3.6.1.4.1.2011.6.128.1.1.2.43.1.40")


STATE = dict(name="onu_state", oid="1.3.6.1.4.1.99999.2", kind="discovery", type="state", states="run", formula="acme")
POWER = dict(name="onu_rx_power", oid="1.3.6.1.4.1.99999.3", models=["X1"], type="number", scale=0.01)
MINIMAL: dict[str, Any] = {
    "brand": {"key": "acme", "name": "Acme"},
    "models": [{"key": "X1", "name": "X 1", "match": {"sysobjectid": [".1.3.6.1.4.1.99999.1"]}}],
    "formulas": [{"name": "acme", "kind": "linear", "fields": {"port": {"part": 1}, "onu": {"part": 2}}}],
    "state_maps": [{"name": "run", "states": {"1": {"label": "on", "online": True}, 2: {"label": "off"}}}],
    "oids": [row | {"shape": "onu", "source": "ACME-MIB"} for row in (STATE, POWER)],
}


def test_a_small_document_becomes_rows() -> None:
    data = parse(MINIMAL, "acme.yaml")
    assert data.models[0].match() == {"sysobjectid": ["1.3.6.1.4.1.99999.1"], "sysdescr": "", "subtree": []}
    assert data.formulas[0].definition == {"fields": {"port": {"part": 1}, "onu": {"part": 2}}}
    assert data.state_maps[0].as_json()["2"] == {"label": "off", "online": None}
    rows = [("onu_state", "", NodeKind.DISCOVERY), ("onu_rx_power", "X1", NodeKind.GET)]
    assert [(row.name, row.variant, row.kind) for row in data.oids] == rows
    assert data.oids[0].value_spec(data.state_maps_by_name).states[1].online is True


Edit = Callable[[dict[str, Any]], Any]


def put(row: int, **given: Any) -> Edit:
    return lambda document: document["oids"][row].update(given)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda d: d.pop("brand"), "acme.yaml: brand: must be a mapping"),
        (lambda d: d.update(oid=[]), "acme.yaml: 'oid' is unknown, use brand, models"),
        (lambda d: d["brand"].update(key="Acme!"), "acme.yaml: brand: key 'Acme!' must be lower-case"),
        (lambda d: d.update(oids={}), "acme.yaml: oids must be a list"),
        (lambda d: d["oids"].append("x"), "acme.yaml: oids 3: must be a mapping"),
        (lambda d: d["models"].append({"key": "X1", "name": "again"}), "models: X1 is there twice"),
        (lambda d: d["models"][0].update(match={"sysdescr": "("}), "sysdescr is no regular expression"),
        (lambda d: d["models"][0].update(match={"sysobjectid": [1.3]}), "sysobjectid must be text"),
        (lambda d: d["formulas"][0].update(kind="cubic"), "formulas 1 (acme): formula acme: kind 'cubic' is unknown"),
        (lambda d: d["formulas"][0].update(base=-1), "formula acme: definition: base -1 is outside"),
        (lambda d: d["formulas"].append(d["formulas"][0]), "formulas: acme is there twice"),
        (lambda d: d["state_maps"][0].update(states={}), "state_maps 1 (run): states must map"),
        (lambda d: d["state_maps"][0]["states"].update(x={"label": "?"}), "state 'x' must be a whole number"),
        (lambda d: d["state_maps"][0]["states"][2].update(online="yes"), "state 2: online must be true or false"),
        (lambda d: d["oids"][0].pop("oid"), "acme.yaml: oids 1 (onu_state): oid must be text"),
        (lambda d: d["oids"][0].pop("source"), "source is missing"),
        (put(0, oid="1.3.x"), "acme.yaml: oids 1 (onu_state): OID '1.3.x': write numbers"),
        (put(0, oid=SECRET_COLUMNS[0]), "oid is a password column"),
        (put(0, scal=1), "oids 1 (onu_state): 'scal' is unknown, use name, models, oid"),
        (put(0, shape="card"), "shape is 'card', use one of onu, port, scalar"),
        (put(0, kind="poll"), "kind is 'poll', use one of discovery"),
        (put(0, states="runs"), "state map 'runs' is not in this file"),
        (put(0, states=""), "states names a state map"),
        (put(0, formula="other"), "oids (onu_state): formula 'other' is not in this file"),
        (put(1, states="run"), "states names a state map"),
        (put(1, models=["X9"]), "model 'X9' is not in this file"),
        (put(1, name="onu_state", models=[]), "oids: onu_state for all is there twice"),
        (put(1, type="float"), "type is 'float', use one of number, text"),
        (put(1, scale="0.01"), "scale must be a number"),
        (put(1, scale=0), "scale must not be 0"),
        (put(1, unit="dB"), "unit 'dB' cannot become dBm, which onu_rx_power is kept in"),
        (put(1, unit="mW", metric="onu_distance"), "unit 'mW' cannot become m, which onu_distance is kept in"),
        (put(1, scale=float("nan")), "scale must be a number"),
        (put(1, minimum=5, maximum=1), "minimum is above maximum"),
        (put(1, sentinels=[1.5]), "sentinels must be a whole number"),
        (put(1, sentinels=65535), "sentinels must be a list"),
        (put(1, index_suffix="1"), "index_suffix is for shape onu and looks like"),
        (put(1, safe_interval=0), "safe_interval must be a whole number from 1"),
        (put(1, confidence="sure"), "confidence is 'sure'"),
        (put(1, formulas=["acme"]), "formulas are at least two to choose from"),
        (put(1, formulas=["acme", "other"]), "oids (onu_rx_power): formula 'other' is not in this file"),
        (put(0, formulas=["acme", "acme"]), "give formula or formulas, not both"),
        (put(0, dead_band=1), "dead_band is for type number"),
        (put(1, dead_band=-1), "dead_band is for type number and not negative"),
        (put(1, by_name="yes"), "by_name must be true or false"),
        (put(1, walk_only=True), "walk_only needs kind walk, table or discovery"),
        (put(0, get_only=True), "get_only needs kind get"),
        (put(1, walk_only=True, get_only=True), "walk_only and get_only exclude each other"),
        (put(1, metric="Rx Power"), "metric 'Rx Power' must be lower-case"),
        (lambda d: d["models"][0].update(bulk=1), "bulk must be true or false"),
        (lambda d: d["models"][0].update(match={"subtree": ["x"]}), "models 1 (X1): match: OID 'x'"),
        (put(1, shape="scalar"), "a scalar's oid ends in .0"),
        (put(1, description="x" * 256), "description is longer than 255"),
    ],
)
def test_a_wrong_document_is_refused_with_place_and_remedy(edit: Edit, said: str) -> None:
    document = copy.deepcopy(MINIMAL)
    edit(document)
    with pytest.raises(CatalogueError, match=re.escape(said)) as caught:
        parse(document, "acme.yaml")
    assert str(caught.value).startswith("acme.yaml")
