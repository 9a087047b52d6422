"""What is written about the product can be read: tables with short cells, links that lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CELL_MAX = 200
GENERATED = {"vendors.md"}  # lists what was read of each maker, as many recordings as there are
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def pages() -> Iterator[Path]:
    """Every document, those at the root too."""
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted(DOCS.rglob("*.md"))


def anchors(text: str) -> set[str]:
    """The names under which a page's headings are linked."""
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


def test_no_cell_of_a_table_is_longer_than_two_hundred_characters() -> None:
    long = [
        f"{path.name}:{number} ({len(cell.strip())}) {cell.strip()[:40]}"
        for path in sorted(DOCS.glob("*.md"))
        if path.name not in GENERATED
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.startswith("|")
        for cell in line.split("|")
        if len(cell.strip()) > CELL_MAX
    ]
    assert not long, "say it below the table:\n  " + "\n  ".join(long)


@pytest.mark.parametrize("path", list(pages()), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_link_of_a_document_leads_to_a_file_and_to_one_of_its_headings(path: Path) -> None:
    lost = []
    for link in LINK.findall(path.read_text()):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not re.match(r"https?:", link) and (
            not target.exists() or (anchor and anchor not in anchors(target.read_text()))
        ):
            lost.append(link)
    assert lost == []
