"""What members of closed sets are called, once for pages, alerts, explanations and the decision log. Pure.

A new member needs its words here; tests ask for them.
"""

from collections.abc import Mapping

from portal.domain.messages import N_, Message
from portal.domain.statuses import ErrorKind, LossCause, OltState, SkipReason

OLT_STATES: Mapping[OltState, Message] = {
    OltState.UNREACHABLE: N_("Unreachable"),
    OltState.PAUSED: N_("Paused"),
    OltState.UP: N_("Up"),
    OltState.UNKNOWN: N_("Not read yet"),
}

LOSSES: Mapping[LossCause, Message] = {
    LossCause.OLT_BUSY: N_("OLT busy"),
    LossCause.POOL_FULL: N_("No free poller"),
    LossCause.OVERRUN: N_("Its run was still going on"),
    LossCause.TIMEOUT: N_("Timed out"),
    LossCause.UNREACHABLE: N_("Unreachable"),
    LossCause.PAUSED: N_("Paused"),
    LossCause.RESTART: N_("Scheduler not running"),
    LossCause.DISABLED: N_("Disabled"),
    LossCause.CANCELLED: N_("Cancelled"),
    LossCause.NO_ONUS: N_("No ONU known"),
    LossCause.DEVICE: N_("Error of the OLT"),
    LossCause.WORKER_LOST: N_("Poller lost"),
    LossCause.INTERNAL: N_("Fault of this program"),
    LossCause.PENDING: N_("Not ended yet"),
    LossCause.UNKNOWN: N_("Not known"),
}

ERRORS: Mapping[ErrorKind, Message] = {
    ErrorKind.TIMEOUT: N_("The OLT did not answer in time"),
    ErrorKind.AUTH: N_("The OLT refused the SNMP credential"),
    ErrorKind.NO_SUCH_OBJECT: N_("The OLT does not have this OID"),
    ErrorKind.NOT_INCREASING: N_("The OLT sent its rows in a loop; the walk was stopped"),
    ErrorKind.TOO_BIG: N_("The OLT could not fit even one value into its answer"),
    ErrorKind.BAD_OID: N_("The OID cannot be read as one"),
    ErrorKind.UNREACHABLE: N_("The OLT cannot be reached"),
    ErrorKind.INCOMPLETE: N_("The table was cut short; no ONU was marked as gone"),
    ErrorKind.DEVICE: N_("The OLT answered with an error"),
    ErrorKind.TIME_LIMIT: N_("The node's time limit was reached"),
    ErrorKind.LEASE_LOST: N_("The reservation of the OLT was lost; the run stopped so that two never overlap"),
    ErrorKind.WORKER_LOST: N_("The poller vanished in the middle of the run"),
    ErrorKind.ABORTED: N_("Stopped: its OLT or node was disabled or paused"),
    ErrorKind.SHUTDOWN: N_("The poller was stopped in the middle of the run; another repeats it while there is time"),
    ErrorKind.SUPERSEDED: N_("The node's next run came before this one could be repeated"),
    ErrorKind.OTHER_DEVICE: N_("Another device answers at the OLT's address; nothing was read of it"),
    ErrorKind.POISON: N_("Three pollers were lost on this run; it was given up"),
    ErrorKind.INTERNAL: N_("A fault of this program, not of the OLT"),
}

SKIPS: Mapping[SkipReason, Message] = {
    SkipReason.STILL_ACTIVE: N_("The run before was still going on"),
    SkipReason.OVERRUN: N_("The node's last run was still going on when the slot came"),
    SkipReason.OLT_BUSY: N_("The node's last run still waited for the OLT"),
    SkipReason.POOL_FULL: N_("The node's last run still waited for a free poller"),
    SkipReason.SCHEDULER_DOWN: N_("The scheduler was not running"),
    SkipReason.OLT_PAUSED: N_("The OLT was paused"),
    SkipReason.OLT_UNREACHABLE: N_("The OLT was unreachable"),
    SkipReason.OLT_DISABLED: N_("The OLT was disabled"),
    SkipReason.NODE_DISABLED: N_("The node was disabled"),
    SkipReason.TIMED_OUT_EARLIER: N_("An earlier step timed out"),
    SkipReason.STOPPED_ON_FAILURE: N_("An earlier step failed and the chain stops on failure"),
    SkipReason.LEASE_LOST: N_("The reservation of the OLT was lost"),
    SkipReason.ABORTED: N_("The run was cancelled"),
    SkipReason.CANCELLED: N_("A person cancelled it"),
    SkipReason.NO_ONUS: N_("No ONU is known yet: run the discovery first"),
    SkipReason.OTHER_DEVICE: N_("Another device answers at the OLT's address"),
    SkipReason.NODE_HELD: N_("The node was held: its last slots ended all the pollers that ran them"),
}


def skipped(node: str, slots: int, reason: SkipReason) -> Message:
    """The decision that slots of a node do not run."""
    if slots < 2:
        return N_("%(node)s: its slot was skipped. %(why)s", node=node, why=SKIPS[reason])
    return N_("%(node)s: %(count)s slots were skipped. %(why)s", node=node, count=slots, why=SKIPS[reason])
