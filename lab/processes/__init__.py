"""Child processes that never outlive the Python process that started them."""

from lab.processes.group import ProcessGroup, log_tail, logged

__all__ = ["ProcessGroup", "log_tail", "logged"]
