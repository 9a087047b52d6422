"""YAML text of an inventory → a located tree, or an Invalid that says where it stops being YAML. Knows no field."""

import re
from itertools import count

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from portal.domain.document import Item, Problem
from portal.domain.messages import N_, Message
from portal.services.errors import Invalid

LARGEST_FILE = 10 * 1024 * 1024  # bytes
MOST_ITEMS = 500_000  # after aliases are written out: a few lines can stand for billions
# The parser takes time that grows with the square of such a run before it gives up.
_DEEP = re.compile(r"(?:[\[{]\s*){50}")
_NULL = "tag:yaml.org,2002:null"


class InventoryInvalid(Invalid):
    """The file cannot be loaded; `problems` lists everything that was found, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        errors: dict[str, str] = {}
        for problem in problems:
            told = errors.get(problem.place)
            errors[problem.place] = f"{told}; {problem.message}" if told else problem.message
        super().__init__(errors)


def _refuse(message: Message, line: int = 0, column: int = 0) -> InventoryInvalid:
    return InventoryInvalid([Problem(line, column, message)])


def decode(content: bytes) -> str:
    """Bytes of a file as text. InventoryInvalid when it is too large or not UTF-8."""
    if len(content) > LARGEST_FILE:
        raise _too_large()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise _refuse(N_("the file is not UTF-8 text: save it as UTF-8"), line, column) from None


def _too_large() -> InventoryInvalid:
    return _refuse(N_("the file is larger than %(limit)d MB: split it", limit=LARGEST_FILE // 1024 // 1024))


def _too_deep() -> InventoryInvalid:
    return _refuse(N_("the file is nested too deeply to be an inventory"))


def parse(text: str) -> Item:
    """The only document in `text`. Error texts never quote the file, which may hold secrets."""
    if len(text) > LARGEST_FILE:
        raise _too_large()
    if _DEEP.search(text):
        raise _too_deep()
    try:
        return _tree(YAML(typ="safe", pure=True).compose(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise _refuse(N_("not valid YAML: %(reason)s", reason=str(error.problem or error.context)), *place) from None
    except YAMLError as error:
        raise _refuse(N_("not valid YAML: %(reason)s", reason=str(error).splitlines()[0][:200])) from None
    except RecursionError:
        raise _too_deep() from None


def _tree(root: Node | None) -> Item:
    if root is None:
        raise _refuse(N_("the file is empty: it needs credentials, templates or olts"))
    if not isinstance(root, MappingNode):
        found = N_("the file must start with credentials:, templates: or olts:, this is something else")
        raise _refuse(found, root.start_mark.line + 1, root.start_mark.column + 1)
    return _Tree().item(root)


class _Tree:
    """Converts parser nodes; counts them, since aliases let a short text stand for a huge tree."""

    def __init__(self) -> None:
        self._count = count(1)
        self._open: set[int] = set()

    def item(self, node: Node) -> Item:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        if next(self._count) > MOST_ITEMS:
            raise _refuse(N_("the file has too many parts: write aliases (*name) out"), line, column)
        if isinstance(node, ScalarNode):
            return Item(line, column, text=None if node.tag == _NULL else str(node.value))
        if id(node) in self._open:
            raise _refuse(N_("an alias contains itself"), line, column)
        self._open.add(id(node))
        made = self._collection(node, line, column)
        self._open.remove(id(node))
        return made

    def _collection(self, node: Node, line: int, column: int) -> Item:
        if isinstance(node, SequenceNode):
            return Item(line, column, items=tuple(self.item(child) for child in node.value))
        return Item(line, column, entries=tuple((self.item(key), self.item(value)) for key, value in node.value))
