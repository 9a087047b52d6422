"""What services raise when they are asked for something that cannot be done. The texts are for people."""

from collections.abc import Mapping


class ServiceError(Exception):
    """The request cannot be done; the message says why and what to do. Nothing was changed."""


class NotFound(ServiceError):
    """The thing named by id does not exist (any more)."""


class Invalid(ServiceError):
    """Input that breaks a rule. `errors`: field name → message, for the form; "" = the whole."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        self.errors = dict(errors)
        super().__init__("; ".join(f"{field}: {text}" if field else text for field, text in self.errors.items()))


class Conflict(ServiceError):
    """The thing is no longer in a state in which this can be done: somebody or something was faster."""
