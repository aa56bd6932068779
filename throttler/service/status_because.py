"""What a throttle's conditions say besides the law's and the levers' own reasons. Each has a runbook entry."""

from throttler.kube.because import Sentence


class StatusReason(Sentence):
    """Reason -> sentence; the braces name the detail's keys."""

    INVALID = "{message}"
    PAUSED = "paused: every lever is given back and nothing is held"
    NOT_DECIDED = "nothing has been decided yet"
    INCOMPLETE_VIEW = "the view is incomplete ({missing}): nothing is raised and nothing is lowered"
    WRITE_FAILED = "{problem}"
    SERVERS_FRESH = "{fresh} of {servers} API servers gave a usable reading within {limit_s:.0f} s{also}"
    SERVERS_UNREAD = "{fresh} of {servers} API servers gave a usable reading within {limit_s:.0f} s: {problems}"
    NO_SERVER_READ = "no API server has been read: {problems}"
    NOT_OURS = "joins cause none of this: {sentences}"
    LEVERS_CONFIRMED = "{levers} levers are in force or given back{also}"
    LEVERS_PENDING = "{names}: written, but the autoscaler has not confirmed it yet"
    LEVERS_BROKEN = "{sentences}"
    NO_LEVERS = "the throttle uses no lever{also}"
