"""What services say of what they refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from portal.services.errors import Invalid


def errors_of(act: Callable[..., object], *given: Any, **more: Any) -> dict[str, str]:
    """Field → what is wrong with it: the call is refused."""
    with pytest.raises(Invalid) as caught:
        act(*given, **more)
    return caught.value.errors
