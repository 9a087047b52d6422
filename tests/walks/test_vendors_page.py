"""docs/vendors.md says what these tests read, no more and no less."""

from portal.domain.catalogue_data import Access
from portal.services.cataloguing import catalogue
from tests.walks import recordings, vendors_page


def test_the_page_of_makers_is_what_the_catalogue_and_the_walks_say() -> None:
    stale = "write it anew: python -m tests.walks.vendors_page > docs/vendors.md"
    assert vendors_page.PAGE.read_text(encoding="utf-8") == vendors_page.page(), stale


def test_the_columns_that_each_recording_answers_are_those_of_the_list() -> None:
    brands = {data.key: data for data in catalogue.load_shipped()}
    found = {}
    for name, (brand, model, _) in recordings.DEVICES.items():
        rows = [row for row in brands[brand].oids if not row.models or model in row.models]
        columns = {
            row.name: 1 if row.oid in recordings.lines_of(name) else len(recordings.column_of(name, row.oid))
            for row in rows
            if row.access is not Access.GET
        }
        found[name] = {column: count for column, count in columns.items() if count}
    assert vendors_page.answers() == found
