"""Every reading that the shipped catalogue offers has a name on pages, in the reader's language."""

from portal.services.cataloguing.catalogue import load_shipped
from portal.web.metrics import EPON, METRICS, meaning


def test_every_reading_of_the_catalogue_has_a_name() -> None:
    names = {oid.name.removeprefix(EPON) for brand in load_shipped() for oid in brand.oids}
    assert names - set(METRICS) == set()


def test_a_key_that_nobody_knows_has_no_meaning() -> None:
    assert meaning("huawei.nonsense") == ""
