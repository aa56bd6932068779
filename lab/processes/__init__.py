"""Child processes that never outlive the Python process that started them."""

from lab.processes.group import ProcessGroup
from lab.processes.log_tail import log_tail

__all__ = ["ProcessGroup", "log_tail"]
